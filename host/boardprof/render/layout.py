# SPDX-License-Identifier: Apache-2.0
"""Tables and lines of text, laid out once: in full for a file, or at a terminal's width.

All cells and lines are made printable here, so that no control sequence reaches the terminal.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from typing import Final, TypeAlias

from boardprof.printable import bounded, display_width

_GAP: Final = "  "
_LEAST_WIDTH: Final = 20
"""Least width in columns for fitting."""

_SHORTEST_NAME: Final = 8
_INDENT: Final = 4
_KEYS: Final = (
    *("Name", "Label", "Metric", "Device", "Board", "Flags", "Argument Shapes", "Arguments"),
)
"""Columns that may tell rows apart, the most needed first."""

_RULE: Final = "----------"
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_TONES: Final = {"good": "\x1b[32m", "bad": "\x1b[31m"}
_ITEM = r" *\S+(?: \S+)*  +(?=\S)"
"""A name, and at least two blanks in front of what is said of it."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        header: its name.
        cells: one a row; "" where there is no value.
        is_text: cells stand left; numbers stand right.
        group: a title that neighbouring columns share, such as their board's name.
        tones: ``good``, ``bad`` or "", one a cell: how it looks on a terminal with colours.
    """

    header: str
    cells: Sequence[str]
    is_text: bool = False
    group: str = ""
    tones: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """Columns of equal length.

    Attributes:
        columns: the first one names the rows.
        totals: the last rows, so many, are sums and totals: they stand below a rule.
        spare: headers of columns that are left out where there is no room, the first one first;
            of the others, those without room stand below.
    """

    columns: Sequence[Column]
    totals: int = 0
    spare: Sequence[str] = ()


Page: TypeAlias = Sequence[Table | str]
"""What is printed, from the top: tables, and lines of text; "" is a blank line."""


def text_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table of texts; columns without any value are left out."""
    columns = zip(headers, zip(*rows, strict=True), strict=True)
    return Table([Column(header, cells, is_text=True) for header, cells in columns if any(cells)])


def record_table(
    headers: Sequence[str], rows: Sequence[Mapping[str, str]], texts: Collection[str]
) -> Table:
    """Return a table of rows that have each a cell under each header; ``texts`` stand left."""
    return Table([Column(h, [row[h] for row in rows], is_text=h in texts) for h in headers])


def plain(page: Page) -> str:
    """Return a page as text, however wide."""
    return fitted(page, 0, styled=False)


def fitted(page: Page, width: int, *, styled: bool) -> str:
    """Return a page as a terminal shows it.

    Args:
        page: what to show.
        width: of the terminal, in columns; below 20 nothing is fitted, as 0 is where nobody knows.
        styled: write headers and totals bold, and what is beside the numbers dim.

    Returns:
        Lines no longer than ``width``: a table that is wider becomes blocks of columns one below
        the other, each with the columns that tell its rows apart; other lines are folded at blanks.
    """
    lines: list[str] = []
    for is_table, parts in groupby(page, lambda part: isinstance(part, Table)):
        if is_table:
            for table in parts:
                assert isinstance(table, Table)
                lines += _table(table, width, styled)
        else:
            lines += _facts([bounded(str(part)) for part in parts], width, styled)
    return "".join(f"{line}\n" for line in lines)


# -- lines ------------------------------------------------------------------------------------


def folded(text: str, width: int) -> str:
    """Return text of which no line is longer than ``width`` columns, if ``width`` is enough."""
    return "\n".join(part for line in text.split("\n") for part in _folded_line(line, width))


def _facts(lines: Sequence[str], width: int, styled: bool) -> list[str]:
    """Return lines below a table: facts, or a title over a rule of dashes."""
    shown: list[str] = []
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        style = _BOLD if below and set(below) == {"-"} else _DIM
        parts = _folded_line(line.rstrip(" "), width)
        shown += [_in_style(each, style) for each in parts] if styled else parts
    return shown


def _in_style(line: str, style: str) -> str:
    return f"{style}{line}{_PLAIN}" if style and line else line


def _folded_line(line: str, width: int) -> list[str]:
    """Return a line in parts of at most ``width`` columns, those behind the first indented.

    A list's item, a name and two blanks in front of what is said of it, goes on where that began.
    """
    if width < _LEAST_WIDTH or display_width(line) <= width:
        return [line]
    indent = " " * _indent(line, width)
    if line.isascii():
        return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    pieces, parts = _pieces(line), []
    while len(pieces) > width:
        # Not between the halves of a wide character.
        end = width - 1 if pieces[width] == "" else width
        parts.append("".join(pieces[:end]))
        pieces = [*indent, *pieces[end:]]
    return [*parts, "".join(pieces)]


def _indent(line: str, width: int) -> int:
    item = re.match(_ITEM, line)
    if item is not None and display_width(item[0]) <= width // 2:
        return display_width(item[0])
    return min(len(line) - len(line.lstrip(" ")) + _INDENT, _LEAST_WIDTH // 2)


def _pieces(line: str) -> list[str]:
    """Return a piece of a line for each column that it takes; "" behind a wide character."""
    if line.isascii():
        return list(line)
    pieces: list[str] = []
    for char in line:
        width = display_width(char)
        if width == 0 and pieces:
            pieces[-1 if pieces[-1] else -2] += char
        else:
            pieces += [char, ""][:width]
    return pieces


# -- tables -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Aligned:
    """A column whose cells, the header first, are all of one width; a rule parts off totals."""

    header: str
    cells: tuple[str, ...]
    width: int
    group: str
    tones: Sequence[str]

    @classmethod
    def of(cls, column: Column, totals: int, is_first: bool) -> _Aligned:
        texts = [bounded(column.header), *map(bounded, column.cells)]
        if totals:
            texts.insert(len(texts) - totals, _RULE if is_first else "")
        widths = list(map(display_width, texts))
        width = max(widths)
        pads = (" " * (width - each) for each in widths)
        is_left = column.is_text or is_first
        pairs = zip(texts, pads, strict=True)
        cells = (text + pad if is_left else pad + text for text, pad in pairs)
        tones = ["", *column.tones] if column.tones else []
        return cls(texts[0], tuple(cells), width, bounded(column.group), tones)

    @property
    def painted(self) -> Sequence[str]:
        """The cells in their colours."""
        tones = map(_TONES.get, self.tones, repeat(""))
        return list(map(_in_style, self.cells, tones)) if self.tones else self.cells

    @property
    def tells_apart(self) -> bool:
        blank = " " * self.width
        return self.header in _KEYS and len({*self.cells[1:]} - {blank}) > 1

    def cut(self, most: int) -> _Aligned:
        """Return it, and its title, no wider than that."""
        group = self.group if display_width(self.group) <= most else _cut(self.group, most)
        if self.width <= most:
            return replace(self, group=group)
        cells = tuple(_cut(cell, most) for cell in self.cells)
        return replace(self, cells=cells, width=most, group=group)


def _table(table: Table, width: int, styled: bool) -> list[str]:
    columns = [
        _Aligned.of(column, table.totals, number == 0)
        for number, column in enumerate(table.columns)
    ]
    is_fitted = width >= _LEAST_WIDTH
    for header in table.spare:
        if is_fitted and _laid_width(columns) > width:
            columns = [column for column in columns if column.header != header]
    keys = [column for column in columns if not column.group]
    if is_fitted and _laid_width(columns) > width:
        blocks = list(_blocks(columns, width, styled))
    else:
        blocks = [_laid(keys, columns[len(keys) :], styled)]
    heads = 2 if len(keys) < len(columns) else 1
    shown: list[str] = []
    for block in blocks:
        shown += [""] if shown else []
        shown += _styled(block, heads, table.totals) if styled else block
    return shown


def _styled(lines: Sequence[str], heads: int, totals: int) -> list[str]:
    rule = len(lines) - totals - 1 if totals else len(lines)
    styles = [
        _BOLD if i < heads or i > rule else _DIM if i == rule else "" for i in range(len(lines))
    ]
    return [_in_style(line, style) for line, style in zip(lines, styles, strict=True)]


def _cut(cell: str, most: int) -> str:
    """Return a cell of ``most`` columns, the end of what is longer replaced by dots."""
    text = cell.strip()
    if display_width(text) <= most:
        pad = " " * (most - display_width(text))
        return pad + text if cell.startswith(" ") else text + pad
    dots = "..."[:most]
    pieces = _pieces(text)
    kept = pieces[: most - len(dots)]
    if pieces[len(kept)] == "":
        kept[-1] = " "  # half of a wide character
    return "".join(kept) + dots


def _blocks(columns: Sequence[_Aligned], width: int, styled: bool) -> Iterator[list[str]]:
    keys = _keys(columns)
    others = [column for column in columns if column not in keys]
    widest = max((c.width for c in others if c.header not in _KEYS), default=0)
    # Names are cut before numbers are.
    kept = _narrowed(keys, max(_LEAST_WIDTH // 2, min(2 * width // 3, width - widest)))
    room = width - sum(key.width + len(_GAP) for key in kept)
    # What does not fit beside each block is once in the first.
    headers = {key.header for key in kept}
    moved = [key for key in keys if key.header not in headers]
    keys, others = kept, [column.cut(room) for column in (*moved, *others)]
    taken: list[_Aligned] = []
    for column in others:
        if taken and _laid_width([*taken, column]) > room:
            yield _laid(keys, taken, styled)
            taken = []
        taken.append(column)
    if taken:
        yield _laid(keys, taken, styled)


def _keys(columns: Sequence[_Aligned]) -> list[_Aligned]:
    """Return the columns that tell rows apart; the first is one whatever it is called."""
    first, others = columns[0], columns[1:]
    if first.header != _KEYS[0]:
        return [first]
    if any(column.group for column in others):
        return [first, *(c for c in others if not c.group and c.header in _KEYS)]
    return [first, *(column for column in others if column.tells_apart)]


def _narrowed(keys: Sequence[_Aligned], most: int) -> list[_Aligned]:
    """Return keys that take no more than ``most`` columns, gaps behind them included.

    The least needed are left out; before that makes rows alike, the name is cut.
    """
    kept = list(keys)
    while len(kept) > 1 and sum(key.width + len(_GAP) for key in kept) > most:
        least = max(kept[1:], key=lambda key: _KEYS.index(key.header))
        fewer = [key for key in kept if key is not least]
        left = most - sum(key.width + len(_GAP) for key in kept[1:]) - len(_GAP)
        if left >= _SHORTEST_NAME and _unlike(fewer) < _unlike(kept):
            return [kept[0].cut(left), *kept[1:]]
        kept = fewer
    return [key.cut(max(1, most - len(_GAP))) for key in kept]


def _unlike(keys: Sequence[_Aligned]) -> int:
    """Return how many different rows there are."""
    return len({*zip(*(key.cells for key in keys), strict=True)})


def _laid(keys: Sequence[_Aligned], columns: Sequence[_Aligned], styled: bool) -> list[str]:
    """Return a block's lines; columns of a group stand under its title."""
    rows = _joined(keys, styled)
    titles = " " * _laid_width(keys)
    for title, own in groupby(columns, lambda column: column.group):
        members = list(own)
        wide = _laid_width(members)
        rest = wide - display_width(title)
        titles += f"{_GAP}{title}" + (f" {'-' * (rest - 1)}" if rest > 1 else " " * rest)
        pad = " " * (wide - _laid_width([replace(each, group="") for each in members]))
        cells = _joined(members, styled)
        rows = [f"{row}{_GAP}{pad}{cell}" for row, cell in zip(rows, cells, strict=True)]
    heads = [titles] if any(column.group for column in columns) else []
    return [line.rstrip(" ") for line in heads + rows]


def _joined(columns: Sequence[_Aligned], styled: bool) -> list[str]:
    cells = [each.painted if styled else each.cells for each in columns]
    return list(map(_GAP.join, zip(*cells, strict=True)))


def _laid_width(columns: Iterable[_Aligned]) -> int:
    total = -len(_GAP)
    for title, own in groupby(columns, lambda column: column.group):
        wide = sum(column.width + len(_GAP) for column in own)
        total += max(wide, display_width(title) + len(_GAP))
    return max(0, total)
