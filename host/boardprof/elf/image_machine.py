# SPDX-License-Identifier: Apache-2.0
"""Whether an image is for a board's machine: from its first bytes, and the compiler's name."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import UsageError

__all__ = ["check_image", "machine_of_board"]

_ELF = b"\x7fELF"
_HEADER = 20  # bytes, to the end of e_machine

# e_machine, as the registry of the System V ABI has it.
_NAMES = {
    3: "x86",
    8: "MIPS",
    20: "PowerPC",
    40: "Arm",
    62: "x86-64",
    83: "AVR",
    94: "Xtensa",
    105: "MSP430",
    183: "AArch64",
    243: "RISC-V",
}
_BY_PREFIX = {
    "aarch64": 183,
    "arm": 40,
    "avr": 83,
    "i686": 3,
    "mips": 8,
    "msp430": 105,
    "powerpc": 20,
    "riscv32": 243,
    "riscv64": 243,
    "x86_64": 62,
    "xtensa": 94,
}
_OF_THIS_HOST = ("cc", "c99", "clang", "gcc")


def machine_of_board(spec: BoardSpec) -> int | None:
    """Return ``e_machine`` of what a board's compiler makes; None: its name does not tell."""
    name = Path(spec.build.cc).name
    if name.partition("-")[0] in _OF_THIS_HOST:
        is_cross = any("target" in flag for flag in spec.build.cflags)
        return None if is_cross else _BY_PREFIX.get(platform.machine())
    return _BY_PREFIX.get(name.partition("-")[0])


def check_image(image: Path, spec: BoardSpec, others: Iterable[BoardSpec] = ()) -> None:
    """See that a file is an ELF image for the board's machine, before anything is started with it.

    Args:
        image: the file.
        spec: the board.
        others: boards that it may be for, for the hint.

    Raises:
        UsageError: it is not.
    """
    if not image.is_file():
        raise UsageError(f"There is no firmware image {image}.")
    with image.open("rb") as file:
        head = file.read(_HEADER)
    if head[:4] != _ELF:
        raise UsageError(
            f"{image} is no firmware image: it is no ELF file.",
            hint="give what the linker wrote, before objcopy made a .bin or .hex of it",
        )
    order: Literal["little", "big"] = "big" if head[5:6] == b"\2" else "little"
    machine, wanted = int.from_bytes(head[18:20], order), machine_of_board(spec)
    if wanted is None or machine == wanted:
        return
    fitting = [other.name for other in others if machine_of_board(other) == machine]
    raise UsageError(
        f"{image} is for {_NAMES.get(machine, f'machine {machine}')}; {spec.name} is "
        f"{_NAMES[wanted]}.",
        hint="name the board that it was built for with -b"
        + (f", such as {' or '.join(fitting)}" if fitting else ""),
    )
