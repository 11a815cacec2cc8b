# SPDX-License-Identifier: Apache-2.0
"""What a compiler says of itself, asked once and kept in the cache.

An entry holds while the compiler's file, the environment and the folders in which the compiler
looks for its programs stay as they were. A program that has its version from elsewhere may be a
wrapper around a compiler that changes without it, so it is asked each time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from boardprof.toolchain.cache import Cache, digest, file_state
from boardprof.toolchain.tools import ToolFailure, Tools

_PROGRAMS = ("cc1", "cc1plus", "as", "ld")
_FOLDERS = "programs: ="  # in what -print-search-dirs prints (GCC manual, 3.20)


class Answers(NamedTuple):
    """A compiler's answers about itself.

    Attributes:
        version: what ``--version`` prints.
        programs: the compiler proper, assembler and linker as it names them: a path, or a name to
            be looked up on PATH; [] if it does not tell.
    """

    version: str
    programs: list[str]


def answers_of(cc: str, environment: Mapping[str, str | None], cache: Cache) -> Answers:
    """Return the compiler's answers about itself, from the cache if still valid.

    Args:
        cc: the path of its program.
        environment: all variables that can change the answers.
        cache: where they are kept.

    Raises:
        BuildError: it does not run.
    """
    real = os.path.realpath(cc)
    key = digest("answers", cc, real, file_state(real), dict(environment))
    known = cache.read("compilers", key)
    if known is not None:
        version, programs, folders = json.loads(known)
        if _states(folders) == folders:
            return Answers(version, programs)
    version = _version(cc)
    # Checked before the programs are run, so that a change during the run is noticed.
    folders = _states(_searched(cc)) if _has_own_version(real, version) else {}
    answers = Answers(version, _programs(cc))
    if folders:
        cache.write(json.dumps([*answers, folders]), "compilers", key)
    return answers


def _states(folders: Iterable[str]) -> dict[str, list[int] | None]:
    return {folder: file_state(folder) for folder in folders}


def _has_own_version(program: str, version: str) -> bool:
    """Return whether a program prints a version that is written in itself.

    A script, ccache or a vendor's launcher prints that of another program.
    """
    content = Path(program).read_bytes()
    words = version.partition("\n")[0].split()[1:]
    is_binary = not content.startswith(b"#!")
    return is_binary and bool(words) and all(word.encode() in content for word in words)


def _version(cc: str) -> str:
    return Tools(None).run(cc, ["--version"], Path("/"), f"{cc} does not run", LC_ALL="C")


def _said(cc: str, question: str) -> str:
    """Return the answer to a question that not every compiler knows; "" if it does not."""
    try:
        return Tools(None).run(cc, [question], Path("/"), f"{cc} does not answer", LC_ALL="C")
    except ToolFailure:
        return ""


def _programs(cc: str) -> list[str]:
    said = (_said(cc, f"-print-prog-name={name}").strip() for name in _PROGRAMS)
    return [name for name in said if name]


def _searched(cc: str) -> list[str]:
    """Return the folders in which it searches its programs; [] if it does not report them."""
    lines = _said(cc, "-print-search-dirs").splitlines()
    told = [line.removeprefix(_FOLDERS) for line in lines if line.startswith(_FOLDERS)]
    return [folder for line in told for folder in line.split(os.pathsep) if folder]
