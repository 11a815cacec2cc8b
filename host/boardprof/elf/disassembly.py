# SPDX-License-Identifier: Apache-2.0
"""The text of each instruction of an image, by the toolchain's objdump."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(.*)$")
_TIMEOUT_S = 60.0


def objdump_of(compiler: str) -> str:
    """Return the name of the objdump that belongs to a compiler, such as arm-none-eabi-gcc."""
    name = re.sub(r"-(gcc|g\+\+|cc)(-[\d.]+)?$", "-objdump", compiler)
    return name if name != compiler else "objdump"


def disassembly(image: Path, objdump: str) -> dict[int, str]:
    """Return the text of each instruction by its address; nothing, if ``objdump`` cannot tell.

    Args:
        image: an ELF file.
        objdump: the program, see `objdump_of`.
    """
    command = [objdump, "-d", "--no-show-raw-insn", str(image)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}  # the text is an extra: the counts hold without it
    found = map(_INSTRUCTION.match, done.stdout.splitlines())
    return {int(each[1], 16): each[2].strip() for each in found if each is not None}
