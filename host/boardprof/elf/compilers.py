# SPDX-License-Identifier: Apache-2.0
"""Which compilers an image names: each leaves its version in the section ``.comment``."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

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


def compilers_of(image: Path) -> tuple[str, ...]:
    """Return the compilers of the code in an ELF file, in byte order.

    Several where objects of several were linked, such as those of a library. Empty of a file that
    names none, or that is no ELF file.
    """
    try:
        data = image.read_bytes()
        texts = _section(data).decode("utf-8", "replace").split("\0")
    except (OSError, struct.error, KeyError, IndexError):
        return ()
    return tuple(sorted({text.strip() for text in texts if text.strip()}))


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
