# SPDX-License-Identifier: Apache-2.0
"""Names and instructions of an image as binutils' programs print them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

MANGLED = "_Z"
"""The beginning of mangled C++ names (Itanium C++ ABI, 5.1.2)."""

_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(.*)$")
_TIMEOUT_S = 60.0


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Return each name as in the source, without parameters; unchanged if c++filt cannot tell.

    A clone that the compiler made keeps its ending: ``fir<int>.isra.0``.
    """
    found = {name: name for name in names}
    mangled = [name for name in found if name.startswith(MANGLED)]
    if not mangled:
        return found
    bases = [name.partition(".")[0] for name in mangled]
    plain = _lines(["c++filt", "-p"], "".join(f"{base}\n" for base in bases))
    if len(plain) == len(mangled):
        ends = (name[len(base) :] for name, base in zip(mangled, bases, strict=True))
        found |= {name: p + e for name, p, e in zip(mangled, plain, ends, strict=True)}
    return found


def objdump_of(compiler: str) -> str:
    """Return the name of the objdump that belongs to a compiler, such as arm-none-eabi-gcc."""
    name = re.sub(r"-(gcc|g\+\+|cc)(-[\d.]+)?$", "-objdump", compiler)
    return name if name != compiler else "objdump"


def disassembly(image: Path, objdump: str) -> dict[int, str]:
    """Return the text of each instruction by its address; empty if ``objdump`` cannot be run.

    Args:
        image: an ELF file.
        objdump: the program, see `objdump_of`.
    """
    lines = _lines([objdump, "-d", "--no-show-raw-insn", str(image)])
    found = map(_INSTRUCTION.match, lines)
    return {int(each[1], 16): each[2].strip() for each in found if each is not None}


def _lines(command: Sequence[str], text: str = "") -> list[str]:
    """Return what a program prints; [] if it fails, since its output only adds to a profile."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()
