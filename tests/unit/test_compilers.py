# SPDX-License-Identifier: Apache-2.0
"""Which compilers an image names, read from files that are made here byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from boardprof.target.elf.object_file import compilers_of


def elf(comment: bytes, *, bits: int, order: str, section: bytes = b".comment") -> bytes:
    """Return an ELF file with two sections: ``.comment`` and the sections' names."""
    names = b"\0" + section + b"\0.shstrtab\0"
    is_wide = bits == 64
    head = 64 if is_wide else 52
    table = head + len(comment) + len(names)
    entry = "IIQQQQIIQQ" if is_wide else "IIIIIIIIII"
    places = [(1, head, len(comment)), (10, head + len(comment), len(names))]
    sections = b"".join(
        struct.pack(order + entry, name, 1, 0, 0, begin, size, 0, 0, 1, 0)
        for name, begin, size in places
    )
    size = struct.calcsize(order + entry)
    ident = b"\x7fELF" + bytes([2 if is_wide else 1, 2 if order == ">" else 1, 1]) + bytes(9)
    words = "QQQ" if is_wide else "III"
    rest = struct.pack(
        f"{order}HHI{words}IHHHHHH", 2, 243, 1, 0, 0, table, 0, head, 0, 0, size, 2, 1
    )
    return ident + rest + comment + names + sections


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("bits", [32, 64])
def test_each_compiler_of_a_linked_image_is_named_once(
    tmp_path: Path, bits: int, order: str
) -> None:
    image = tmp_path / "image.elf"
    image.write_bytes(elf(b"\0GCC: (x) 13.2\0clang 17\0GCC: (x) 13.2\0", bits=bits, order=order))
    assert compilers_of([image]) == ("GCC: (x) 13.2", "clang 17")


def test_an_image_that_names_none_and_what_is_no_image_have_none(tmp_path: Path) -> None:
    whole = elf(b"GCC\0", bits=32, order="<")
    image = tmp_path / "image.elf"
    assert compilers_of([image]) == ()
    bare = elf(b"GCC\0", bits=32, order="<", section=b".nothing")
    for content in (b"", b"text", bare, whole[:5], whole[:40], whole[:-30], b"\x7fELF\x09\x01"):
        image.write_bytes(content)
        assert compilers_of([image]) == ()
