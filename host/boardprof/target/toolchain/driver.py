# SPDX-License-Identifier: Apache-2.0
"""A compiler's program: which one it is, and its answers about itself, kept in the cache."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from boardprof.base.errors import BuildError, MissingToolError
from boardprof.target.toolchain.cache import Cache, digest, file_state
from boardprof.target.toolchain.compile_unit import parse_depfile
from boardprof.target.toolchain.tools import ToolFailure, Tools

SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Variables by which GCC finds headers (GCC manual, 3.21 "Environment Variables")."""

_ENVIRONMENT = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", *SEARCHED)
_FORMAT = 3  # of keys and records: raise it when either changes its meaning
_PROGRAMS = ("cc1", "cc1plus", "as", "ld")
_FOLDERS = "programs: ="  # in what -print-search-dirs prints (GCC manual, 3.20)


class Driver:
    """A compiler's program on this machine; its answers are kept in the cache.

    Attributes:
        version: what ``--version`` prints.
    """

    def __init__(
        self, cc: str, package: str, cache: Cache, report: Callable[[str], None] | None = None
    ) -> None:
        """Look up ``cc`` on PATH.

        Args:
            cc: the program's name.
            package: the Debian package that has it.
            cache: where results are kept.
            report: gets each command line before it runs, and the warnings of commands that
                succeed; one call at a time.

        Raises:
            MissingToolError: there is no ``cc``.
            BuildError: it does not run.
        """
        found = shutil.which(cc)
        if found is None:
            raise MissingToolError(cc, package, hint=f"sudo apt-get install {package}")
        self._cc = found
        self._cache = cache
        self._tools = Tools(report)
        environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
        self.version, programs = _answers(found, environment, cache)
        self._programs: dict[str, str] = {}
        self._identity = digest(_FORMAT, cc, self.version, environment, _program_states(programs))

    @property
    def commands(self) -> list[tuple[str, ...]]:
        """The commands that were run, in the order in which they began."""
        return self._tools.commands

    def program(self, name: str) -> str:
        """Return the path of a program that belongs to the compiler, such as ``objcopy``."""
        if name not in self._programs:
            self._programs[name] = self._program(name)
        return self._programs[name]

    def _program(self, name: str) -> str:
        place = ("compilers", digest(self._identity, self._cc, name))
        known = self._cache.read(*place)
        if known is None or not shutil.which(known):
            known = self._ask(f"-print-prog-name={name}")
            self._cache.write(known, *place)
        return known

    def has_library(self, name: str) -> bool:
        """Return whether ``-lNAME`` is a library that comes with the compiler."""
        asked = [self._ask(f"-print-file-name=lib{name}.{kind}") for kind in ("so", "a")]
        return any(Path(said).is_absolute() for said in asked)  # unknown files have no folder

    def header(self, name: str, flags: Sequence[str]) -> Path | None:
        """Return the file of ``#include <name>`` with these flags; None if there is none."""
        place = ("headers", digest(self._identity, self._cc, name, flags))
        known = self._cache.read(*place)
        if known and Path(known).is_file():
            return Path(known)
        with self._cache.scratch() as scratch:
            (scratch / "probe.c").write_text(f"#include <{name}>\n")
            command = [*flags, "-M", "-MT", "probe", "probe.c"]
            try:
                rule = self._tools.run(self._cc, command, scratch, "the probe does not compile")
            except ToolFailure:
                return None
        found = next((p for p in parse_depfile(rule) if Path(p).name == Path(name).name), None)
        if found is None:
            return None
        self._cache.write(found, *place)
        return Path(found)

    def tells_files(self) -> bool:
        """Return whether the linker can list the files that it reads (GNU ld since 2.35)."""
        return self._cache.recall(self._linker_help, "linkers", digest(self._identity)) == "yes"

    def _linker_help(self) -> str:
        try:
            said = Tools(None).run(
                self._cc, ["-Wl,--help"], Path("/"), "the linker does not run", LC_ALL="C"
            )
        except BuildError:
            return "no"
        return "yes" if "--dependency-file" in said else "no"

    def _ask(self, option: str) -> str:
        """Return the compiler's answer to an option about its own files."""
        return self._tools.run(self._cc, [option], Path("/"), f"{option} printed nothing").strip()


def _program_states(programs: Sequence[str]) -> list[list[Any]]:
    """Return which compiler, assembler and linker it runs, and the state of their files."""
    found = []
    for name in programs:
        path = shutil.which(name)
        status = os.stat(path) if path else None
        found.append([name, status and [status.st_size, status.st_mtime_ns]])
    return found


def _answers(cc: str, environment: Mapping[str, str | None], cache: Cache) -> tuple[str, list[str]]:
    """Return the compiler's version and its programs, from the cache if still valid.

    An entry is valid while the compiler's file, the environment and the folders in which the
    compiler looks for its programs are unchanged. A program that does not contain its version may
    be a wrapper around a compiler that changes without it, so it is asked each time.

    Args:
        cc: the path of its program.
        environment: all variables that can change the answers.
        cache: where they are kept.

    Returns:
        What ``--version`` prints; and the compiler proper, assembler and linker as it names them: a
        path, or a name to be looked up on PATH; [] if it does not say.

    Raises:
        BuildError: it does not run.
    """
    real = os.path.realpath(cc)
    key = digest("answers", cc, real, file_state(real), dict(environment))
    known = cache.read("compilers", key)
    if known is not None:
        version, programs, folders = json.loads(known)
        if _folder_states(folders) == folders:
            return version, programs
    version = _version(cc)
    # Checked before the programs are run, so that a change during the run is noticed.
    folders = _folder_states(_searched(cc)) if _has_own_version(real, version) else {}
    programs = _programs(cc)
    if folders:
        cache.write(json.dumps([version, programs, folders]), "compilers", key)
    return version, programs


def _folder_states(folders: Iterable[str]) -> dict[str, list[int] | None]:
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
    found = [line.removeprefix(_FOLDERS) for line in lines if line.startswith(_FOLDERS)]
    return [folder for line in found for folder in line.split(os.pathsep) if folder]
