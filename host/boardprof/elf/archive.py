# SPDX-License-Identifier: Apache-2.0
"""The members of a static library: the ar format, with the long names of GNU and of BSD.

Layout, see ar(5): the magic, then members at even offsets. A header of 60 bytes
of text has the name in bytes 0 to 15, the size in bytes 48 to 57 and ends in a
grave accent and a newline. ``/`` and ``/SYM64/`` are tables of symbols, ``//`` is
the table of names of more than 15 bytes, ``/N`` a name at offset N in it,
``#1/N`` a name in the first N bytes of the content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardprof.errors import UsageError

__all__ = ["MAGIC", "THIN_MAGIC", "Member", "library", "members"]

MAGIC = b"!<arch>\n"
THIN_MAGIC = b"!<thin>\n"
_HEADER = 60
_TABLES = {"/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64"}


@dataclass(frozen=True)
class Member:
    """A file in a library."""

    name: str
    content: bytes


def members(path: Path) -> Iterator[Member]:
    """Yield the files of a library, in its order, without its tables.

    Raises:
        UsageError: it is a thin archive, which has only the names of its files, or is damaged.
    """
    data = path.read_bytes()
    if data.startswith(THIN_MAGIC):
        raise UsageError(
            f"{path} is a thin archive: it has the names of objects, not the objects.",
            hint="give the objects themselves, or make the library without T: ar rcs",
        )
    names, at = b"", len(MAGIC)
    while at + _HEADER <= len(data):
        name, size = _header(path, data[at : at + _HEADER])
        begin, at = at + _HEADER, at + _HEADER + size + size % 2
        content = data[begin : begin + size]
        if len(content) < size:
            raise UsageError(f"{path} is cut short: its member {name} has {size} bytes.")
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
        if name not in _TABLES:
            yield Member(name.removesuffix("/"), content)


def library(name: str, content: bytes, symbols: Sequence[str]) -> bytes:
    """Return a library of one object, the same for the same object.

    Args:
        name: the object's, 15 characters at most.
        content: the object.
        symbols: for which the linker is to take it.
    """
    names = b"".join(symbol.encode() + b"\0" for symbol in symbols)
    length = 4 + 4 * len(symbols) + len(names)
    offset = len(MAGIC) + _HEADER + length + length % 2
    table = len(symbols).to_bytes(4, "big") + offset.to_bytes(4, "big") * len(symbols) + names
    parts = (("/", table), (f"{name}/", content))
    return MAGIC + b"".join(_member(name, part) for name, part in parts)


def _member(name: str, content: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(content):<10}`\n"
    return header.encode() + content + b"\n" * (len(content) % 2)


def _header(path: Path, header: bytes) -> tuple[str, int]:
    """Return name and size of a member."""
    if header[58:60] != b"`\n":
        raise UsageError(f"{path} is damaged: a member of the library does not begin as one.")
    return header[:16].decode(errors="replace").rstrip(), _decimal(
        path, header[48:58].decode(errors="replace")
    )


def _decimal(path: Path, text: str) -> int:
    if not text.strip().isdecimal():
        raise UsageError(f"{path} is damaged: {text!r} is no size of a member of a library.")
    return int(text)
