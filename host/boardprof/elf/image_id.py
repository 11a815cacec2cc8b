# SPDX-License-Identifier: Apache-2.0
"""Which build an image is, from the file alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

__all__ = ["build_id_of", "is_program"]

_SYMBOL = "bp_firmware"
_ID_BYTES = 8
# Before build_id stand three pointers, a uint16_t and a uint8_t (bp.h, bp_firmware_t).
_POINTERS, _REST = 3, 3
_POINTER_BYTES_AVR = 2


def is_program(path: Path) -> bool:
    """Tell whether the file is a linked ELF program or library; an object file is none."""
    try:
        with path.open("rb") as file:
            head = file.read(18)
    except OSError:
        return False
    # ELF-64 Object File Format, 1.5a: e_ident[EI_DATA] at 5, e_type at 16: ET_EXEC 2, ET_DYN 3.
    order = "big" if head[5:6] == b"\2" else "little"
    kind = int.from_bytes(head[16:18], order)  # type: ignore[arg-type]
    return head[:4] == b"\x7fELF" and kind in (2, 3)


def build_id_of(image: Path) -> bytes | None:
    """Return the build id that an agent with this image tells a host.

    Args:
        image: an ELF file.

    Returns:
        8 bytes; None of a file without an agent, or without its symbols.
    """
    from elftools.elf.elffile import ELFFile

    try:
        with image.open("rb") as file:
            return _build_id(ELFFile(file))
    except Exception:
        # No such file, or a damaged one: of those pyelftools raises asserts and KeyErrors, too.
        return None


def _build_id(elf: ELFFile) -> bytes | None:
    from elftools.elf.sections import SymbolTableSection

    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return None
    symbols = table.get_symbol_by_name(_SYMBOL)
    if not symbols:
        return None
    section = elf.get_section(symbols[0]["st_shndx"])
    pointer = _POINTER_BYTES_AVR if elf["e_machine"] == "EM_AVR" else elf.elfclass // 8
    begin = symbols[0]["st_value"] - section["sh_addr"] + _POINTERS * pointer + _REST
    found: bytes = section.data()[begin : begin + _ID_BYTES]
    return found if len(found) == _ID_BYTES else None
