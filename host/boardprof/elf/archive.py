# SPDX-License-Identifier: Apache-2.0
"""The members of a static library: the ar format, with the long names of GNU and of BSD.

Layout, see ar(5): the magic, then members at even offsets. A header of 60 bytes of text has the
name in bytes 0 to 15 and the size in bytes 48 to 57, and ends in a grave accent and a newline.
``/`` and ``/SYM64/`` are tables of symbols, ``//`` is the table of names of more than 15 bytes,
``/N`` a name at offset N in it, ``#1/N`` a name in the first N bytes of the content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from boardprof.errors import UsageError

MAGIC = b"!<arch>\n"
THIN_MAGIC = b"!<thin>\n"
_HEADER = 60
_TABLES = {"/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64"}


@dataclass(frozen=True)
class Member:
    """A file in a library."""

    name: str
    content: bytes


def is_library(path: Path) -> bool:
    """Tell whether a file is a static library, thin or not."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) in (MAGIC, THIN_MAGIC)


def members(path: Path) -> Iterator[Member]:
    """Yield the files of a library, in its order, without its tables.

    Raises:
        UsageError: it is damaged, or a thin archive, which has only the names of its files.
    """
    if path.read_bytes().startswith(THIN_MAGIC):
        raise UsageError(
            f"{path} is a thin archive: it contains the names of objects, not the objects.",
            hint="give the objects themselves, or make the library without T: ar rcs",
        )
    return (member for _, member in _placed(path) if member.name not in _TABLES)


def outside(path: Path) -> list[Path]:
    """Return the files that a thin archive names; empty for any other library.

    Raises:
        UsageError: it is damaged.
    """
    with path.open("rb") as file:
        if file.read(len(THIN_MAGIC)) != THIN_MAGIC:
            return []
    return [path.parent / each.name for _, each in _placed(path) if each.name not in _TABLES]


def defining(path: Path) -> dict[str, Member]:
    """Return the member that defines each symbol, from the library's table of symbols.

    Empty for a library without a table. Missing files of a thin archive are left out.

    Raises:
        UsageError: it is damaged.
    """
    placed = dict(_placed(path))
    table = next((each.content for each in placed.values() if each.name == "/"), None)
    if table is None:
        return {}
    # Big-endian: the number of symbols, the offset of each one's file, and the names.
    count = int.from_bytes(table[:4], "big")
    begins = [int.from_bytes(table[4 + 4 * i : 8 + 4 * i], "big") for i in range(count)]
    names = table[4 + 4 * count :].split(b"\0")
    found: dict[str, Member] = {}
    for name, begin in zip(names, begins, strict=False):
        if begin in placed and placed[begin].content:
            found.setdefault(name.decode(errors="replace"), placed[begin])
    return found


def _placed(path: Path) -> Iterator[tuple[int, Member]]:
    """Yield the files and the tables of symbols with the offsets of their headers."""
    data = path.read_bytes()
    thin = data.startswith(THIN_MAGIC)
    names, at = b"", len(MAGIC)
    while at + _HEADER <= len(data):
        name, size = _header(path, data[at : at + _HEADER])
        elsewhere = thin and name != "//" and name not in _TABLES
        place, begin = at, at + _HEADER
        at = begin if elsewhere else begin + size + size % 2
        content = b"" if elsewhere else data[begin : begin + size]
        if len(content) < size and not elsewhere:
            raise UsageError(f"{path} is truncated: its member {name} should have {size} bytes.")
        if name == "//":
            names = content
            continue
        if name.startswith("#1/"):
            length = _decimal(path, name[3:])
            name, content = (
                content[:length].rstrip(b"\0").decode(errors="replace"),
                content[length:],
            )
        elif name[:1] == "/" and name[1:].isdecimal():
            name = names[int(name[1:]) :].partition(b"\n")[0].decode(errors="replace")
        name = name if name in _TABLES else name.removesuffix("/")
        if elsewhere:
            file = path.parent / name
            content = file.read_bytes() if file.is_file() else b""
        yield place, Member(name, content)


def _header(path: Path, header: bytes) -> tuple[str, int]:
    """Return name and size of a member."""
    if header[58:60] != b"`\n":
        raise UsageError(f"{path} is damaged: a member does not begin with a header.")
    return header[:16].decode(errors="replace").rstrip(), _decimal(
        path, header[48:58].decode(errors="replace")
    )


def _decimal(path: Path, text: str) -> int:
    if not text.strip().isdecimal():
        raise UsageError(f"{path} is damaged: {text!r} is not the size of a member.")
    return int(text)
