# SPDX-License-Identifier: Apache-2.0
"""Read an ELF file's machine, compilers and build id.

Headers are read here and not by pyelftools, which takes longer to import than a build from the
cache takes. Offsets are those of the System V ABI, "ELF Header" and "Sections".
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from boardprof.base.errors import BuildError, UsageError
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.elf.object_file import (
    ELF_MAGIC,
    MAGIC,
    images,
    is_library,
    members,
    read_if_possible,
    symbols,
)

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_HEADER = 20  # bytes, to the end of e_machine
_RELOCATABLE, _EXECUTABLE, _SHARED = 1, 2, 3  # e_type

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

# By e_ident[EI_CLASS], 32 and 64 bits: e_shoff and its place, the place of e_shentsize, e_shnum and
# e_shstrndx, and sh_name, sh_offset and sh_size of a section.
_SECTIONS = {1: ("I", 32, 46, "I12xII"), 2: ("Q", 40, 58, "I20xQQ")}

_FIRMWARE = "bp_firmware"
_BUILD_ID_BYTES = 8
# Before build_id come three pointers, a uint16_t and a uint8_t (bp.h, bp_firmware_t).
_POINTERS, _REST = 3, 3
_POINTER_BYTES_AVR = 2


class _Header(NamedTuple):
    """The first fields of an ELF file; ``order`` is struct's mark of its byte order."""

    bits: int
    order: str
    kind: int
    machine: int

    @classmethod
    def of(cls, content: bytes) -> _Header | None:
        """Read a file's first 20 bytes; None if it is not an ELF file."""
        if len(content) < _HEADER or not content.startswith(ELF_MAGIC):
            return None
        order = ">" if content[5] == 2 else "<"
        bits = {1: 32, 2: 64}.get(content[4], 0)
        return cls(bits, order, *struct.unpack_from(order + "HH", content, 16))

    @property
    def machine_name(self) -> str:
        return _MACHINES.get(self.machine, f"machine {self.machine}")


def check_machine(spec: BoardSpec, files: list[Path], own: Path) -> None:
    """Check that objects and static libraries are for the board's machine."""
    wanted = _object_machine(_beginning(own), str(own))
    for where, content in _objects(files):
        machine = _object_machine(content, where)
        if machine != wanted:
            raise BuildError(
                f"{where} is for {machine}; {spec.name} is {wanted}.",
                hint=f"compile it with {spec.build.cc}, or name another board with -b",
            )


def _object_machine(content: bytes, where: str) -> str:
    """Return the machine that an object file is for, such as ``32-bit RISC-V``."""
    header = _Header.of(content)
    if header is None:
        raise BuildError(
            f"{where} is not an object file in the ELF format.",
            hint="compile it with the board's own compiler; with clang, without -flto",
        )
    if header.kind != _RELOCATABLE:
        raise BuildError(
            f"{where} is already linked.", hint="give the object files that it was linked from"
        )
    bits = f"{header.bits}-bit " if header.bits else ""
    return f"{bits}{header.machine_name}{', big-endian' if header.order == '>' else ''}"


def _objects(files: list[Path]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        if is_library(path):
            yield from ((str(path.with_name(each.label)), each.content) for each in images(path))
        else:
            yield str(path), _beginning(path)


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER)


def is_program(path: Path) -> bool:
    """Tell whether a file is a linked ELF program or shared library, and not an object file."""
    try:
        header = _Header.of(_beginning(path))
    except OSError:
        return False
    return header is not None and header.kind in (_EXECUTABLE, _SHARED)


def check_image(image: Path, spec: BoardSpec, others: Iterable[BoardSpec] = ()) -> None:
    """Check that a file is an ELF image for the board's machine, before anything is started."""
    if not image.is_file():
        raise UsageError(f"The firmware image {image} does not exist.")
    header = _Header.of(_beginning(image))
    if header is None:
        raise UsageError(
            f"{image} is not a firmware image in the ELF format.",
            hint="give the linker's output, not the .bin or .hex that objcopy made from it",
        )
    wanted = _board_machine(spec)
    if wanted is None or header.machine == wanted:
        return
    fitting = [other.name for other in others if _board_machine(other) == header.machine]
    raise UsageError(
        f"{image} is for {header.machine_name}; {spec.name} is {_MACHINES[wanted]}.",
        hint="give the board that it was built for with -b"
        + (f", such as {' or '.join(fitting)}" if fitting else ""),
    )


def _board_machine(spec: BoardSpec) -> int | None:
    """Return ``e_machine`` of a board, from its compiler's name. None if unknown."""
    name = Path(spec.build.cc).name
    if name.partition("-")[0] in _OF_THIS_HOST:
        is_cross = any("target" in flag for flag in spec.build.cflags)
        return None if is_cross else _BY_PREFIX.get(platform.machine())
    return _BY_PREFIX.get(name.partition("-")[0])


def compilers_of(files: Iterable[Path]) -> tuple[str, ...]:
    """Return the compilers of images, objects and libraries, in byte order, from ``.comment``."""
    found: set[str] = set()
    for file in files:
        with suppress(OSError, UsageError):
            data = file.read_bytes()
            parts = [each.content for each in members(file)] if data.startswith(MAGIC) else [data]
            for part in parts:
                with suppress(struct.error, KeyError, IndexError):
                    found.update(
                        map(str.strip, _comment(part).decode(errors="replace").split("\0"))
                    )
    return tuple(sorted(found - {""}))


def _comment(data: bytes) -> bytes:
    """Return the content of ``.comment``, empty if absent."""
    header = _Header.of(data)
    if header is None:
        return b""
    word, table_at, counts_at, section = _SECTIONS[data[4]]
    (table,) = struct.unpack_from(header.order + word, data, table_at)
    size, count, names = struct.unpack_from(header.order + "HHH", data, counts_at)
    places = range(table, table + count * size, size)
    sections = [struct.unpack_from(header.order + section, data, place) for place in places]
    _, names_at, names_size = sections[names]
    for name, begin, length in sections:
        if name < names_size and data.startswith(b".comment\0", names_at + name):
            return data[begin : begin + length]
    return b""


def build_id_of(image: Path) -> bytes | None:
    """Return the 8 bytes that an agent with this image reports; None without agent or symbols."""
    return read_if_possible(image, _build_id)


def _build_id(elf: ELFFile) -> bytes | None:
    symbol = next((each for each in symbols(elf) if each.name == _FIRMWARE), None)
    if symbol is None:
        return None
    section = elf.get_section(symbol.section)
    pointer = _POINTER_BYTES_AVR if elf["e_machine"] == "EM_AVR" else elf.elfclass // 8
    begin = symbol.value - section["sh_addr"] + _POINTERS * pointer + _REST
    found: bytes = section.data()[begin : begin + _BUILD_ID_BYTES]
    return found if len(found) == _BUILD_ID_BYTES else None
