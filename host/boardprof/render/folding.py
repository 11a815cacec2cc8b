# SPDX-License-Identifier: Apache-2.0
"""Lines of text on a terminal: what is too long goes on below, under where its text began."""

from __future__ import annotations

import re
import textwrap
from typing import Final, TypeAlias

from boardprof.render.cells import display_width

__all__ = ["LEAST_WIDTH", "Line", "columns_of", "folded", "folded_line"]

Line: TypeAlias = list[str]
"""A piece a column of the terminal; "" behind a wide character."""

LEAST_WIDTH: Final = 20
"""Nothing is fitted into fewer columns than these."""

_INDENT: Final = 4
_ITEM = re.compile(r" *\S+(?: \S+)*  +(?=\S)")
"""A name, and at least two blanks in front of what is said of it."""


def folded(text: str, width: int) -> str:
    """Return text of which no line is longer than ``width`` columns, if ``width`` is enough."""
    if width < LEAST_WIDTH:
        return text
    return "\n".join(part for line in text.split("\n") for part in folded_line(line, width))


def folded_line(line: str, width: int) -> list[str]:
    """Return a line in parts of at most ``width`` columns, those behind the first indented.

    A list's item, a name and two blanks in front of what is said of it, goes on where that began.
    """
    if display_width(line) <= width:
        return [line]
    indent = " " * _indent(line, width)
    if line.isascii():
        return textwrap.wrap(
            line,
            width,
            subsequent_indent=indent,
            break_on_hyphens=False,
            drop_whitespace=True,
        )
    columns, parts = columns_of(line), []
    while len(columns) > width:
        # Not between the halves of a wide character.
        end = width - 1 if columns[width] == "" else width
        parts.append("".join(columns[:end]))
        columns = [*indent, *columns[end:]]
    return [*parts, "".join(columns)]


def _indent(line: str, width: int) -> int:
    item = _ITEM.match(line)
    if item is not None and display_width(item[0]) <= width // 2:
        return display_width(item[0])
    return min(len(line) - len(line.lstrip(" ")) + _INDENT, LEAST_WIDTH // 2)


def columns_of(line: str) -> Line:
    """Return a line's pieces, one a column that it takes."""
    if line.isascii():
        return list(line)
    columns: Line = []
    for char in line:
        width = display_width(char)
        if width == 0 and columns:
            columns[-1 if columns[-1] else -2] += char
        else:
            columns += [char, ""][:width]
    return columns
