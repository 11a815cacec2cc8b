# SPDX-License-Identifier: Apache-2.0
"""Which compilers a file of code names: each leaves its version in the section ``.comment``."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from boardprof.elf.archive import MAGIC, members
from boardprof.errors import UsageError

__all__ = ["compilers_of"]

_SECTION = b".comment"


class _Form(NamedTuple):
    """Where the fields stand (System V ABI, "ELF Header" and "Sections")."""

    table: str  # e_shoff, in the ELF header
    table_at: int
    counts_at: int  # e_shentsize, e_shnum, e_shstrndx
    section: str  # sh_name, sh_offset, sh_size


_FORMS = {
    1: _Form("I", 32, 46, "I12xII"),
    2: _Form("Q", 40, 58, "I20xQQ"),
}
"""By e_ident[EI_CLASS]: 32 and 64 bits."""


def compilers_of(files: Iterable[Path]) -> tuple[str, ...]:
    """Return the compilers of the code in images, objects and static libraries, in byte order.

    Several where an image was linked of objects of several. None of a file that names none, that
    is neither ELF file nor library, or that cannot be read.
    """
    return tuple(sorted({text for file in files for data in _objects(file) for text in _in(data)}))


def _objects(file: Path) -> list[bytes]:
    try:
        data = file.read_bytes()
        return [each.content for each in members(file)] if data.startswith(MAGIC) else [data]
    except (OSError, UsageError):
        return []


def _in(data: bytes) -> list[str]:
    try:
        texts = _section(data).decode("utf-8", "replace").split("\0")
    except (struct.error, KeyError, IndexError):
        return []
    return [text.strip() for text in texts if text.strip()]


def _section(data: bytes) -> bytes:
    """Return the content of ``.comment``, nothing where there is none."""
    if data[:4] != b"\x7fELF":
        return b""
    form, order = _FORMS[data[4]], ">" if data[5] == 2 else "<"
    (table,) = struct.unpack_from(order + form.table, data, form.table_at)
    size, count, names = struct.unpack_from(order + "HHH", data, form.counts_at)
    sections = [
        struct.unpack_from(order + form.section, data, table + i * size) for i in range(count)
    ]
    _, names_at, names_size = sections[names]
    for name, begin, length in sections:
        if name < names_size and data.startswith(_SECTION + b"\0", names_at + name):
            return data[begin : begin + length]
    return b""
