# SPDX-License-Identifier: Apache-2.0
"""For which machine an object file is, from its first bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from boardprof.boards.board_file import BoardSpec
from boardprof.elf.archive import is_library
from boardprof.elf.object_file import images
from boardprof.errors import BuildError

__all__ = ["check_machine", "machine_of"]

_ELF = b"\x7fELF"
_HEADER = 20  # bytes, to the end of e_machine
_RELOCATABLE = 1
# e_machine, as the registry of the System V ABI has it.
_MACHINES = {
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


def check_machine(spec: BoardSpec, files: list[Path], own: Path) -> None:
    """See that objects and static libraries are for the board's machine.

    Args:
        spec: the board.
        files: what the user brings, objects and static libraries.
        own: an object that the board's compiler has made.

    Raises:
        BuildError: one is not, or is no relocatable ELF file.
        UsageError: a library is damaged.
    """
    wanted = machine_of(_beginning(own), str(own))
    for where, content in _objects(files):
        machine = machine_of(content, where)
        if machine != wanted:
            raise BuildError(
                f"{where} is for {machine}; {spec.name} is {wanted}.",
                hint=f"compile it with {spec.build.cc}, or name another board with -b",
            )


def machine_of(content: bytes, where: str) -> str:
    """Return the machine that an object file is for, such as ``32-bit RISC-V``.

    Args:
        content: the file's first 20 bytes, at least.
        where: what to call it in an error.

    Raises:
        BuildError: it is no relocatable ELF file.
    """
    if len(content) < _HEADER or not content.startswith(_ELF):
        raise BuildError(
            f"{where} is no object file in the ELF format.",
            hint="compile it with the board's own compiler, without -flto if that is clang",
        )
    order: Literal["little", "big"] = "little" if content[5] == 1 else "big"
    if int.from_bytes(content[16:18], order) != _RELOCATABLE:
        raise BuildError(
            f"{where} is linked already.", hint="give the object files that it was made of"
        )
    number = int.from_bytes(content[18:20], order)
    bits = {1: "32-bit ", 2: "64-bit "}.get(content[4], "")
    ending = "" if order == "little" else ", big-endian"
    return f"{bits}{_MACHINES.get(number, f'machine {number}')}{ending}"


def _objects(files: list[Path]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        if is_library(path):
            yield from ((str(path.with_name(each.label)), each.content) for each in images(path))
        else:
            yield str(path), _beginning(path)


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER)
