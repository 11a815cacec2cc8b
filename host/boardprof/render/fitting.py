# SPDX-License-Identifier: Apache-2.0
"""Our tables on a terminal: columns that have no room come below, and what matters is bold.

It goes by the text of any of our tables: paragraphs, of which one that has two blanks within its
first line is a table, its columns at least two blanks apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from boardprof.render.cells import display_width
from boardprof.render.folding import LEAST_WIDTH, Line, columns_of, folded_line

__all__ = ["fitted"]

_GAP: Final = "  "
_SHORTEST_NAME: Final = 8
_KEYS: Final = ("Name", "Label", "Metric", "Device", "Flags", "Argument Shapes", "Arguments")
"""Columns that may tell rows apart, the most needed first."""

_RULE: Final = "----------"
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def fitted(text: str, width: int, *, styled: bool) -> str:
    """Return a table's text as a terminal shows it.

    Args:
        text: of one of our tables, all that stands below it included.
        width: of the terminal, in columns; below 20 nothing is fitted, as 0 is where nobody knows.
        styled: write headers and sums bold, and what is beside the numbers dim.

    Returns:
        Lines no longer than ``width``: of a table that is wider, blocks of columns one below the
        other, each with the columns that tell its rows apart; other lines folded at blanks.
    """
    lines: list[str] = []
    ended = text.endswith("\n")
    for is_blank, paragraph in groupby(text.removesuffix("\n").split("\n"), lambda x: not x):
        if is_blank:
            lines += paragraph
            continue
        own = list(paragraph)
        if _GAP in own[0].strip():
            lines += _table(own, width, styled)
        else:
            lines += _facts(own, width, styled)
    return "\n".join(lines) + ("\n" if ended else "")


def _table(lines: Sequence[str], width: int, styled: bool) -> list[str]:
    heads = 2 if lines[0].startswith(" ") and len(lines) > 1 else 1
    blocks = [lines]
    if width >= LEAST_WIDTH and max(map(display_width, lines)) > width:
        blocks = list(_blocks(lines, heads, width))
    shown: list[str] = []
    for block in blocks:
        shown += [""] if shown else []
        shown += _styled_table(block, heads) if styled else block
    return shown


def _styled_table(lines: Sequence[str], heads: int) -> list[str]:
    sums = len(lines)  # where they begin, behind the last rule
    for number, line in enumerate(lines):
        sums = number if line.rstrip() == _RULE else sums
    styles = [
        _BOLD if i < heads or i > sums else _DIM if i == sums else "" for i in range(len(lines))
    ]
    return [_in_style(line, style) for line, style in zip(lines, styles, strict=True)]


def _facts(lines: Sequence[str], width: int, styled: bool) -> list[str]:
    """Return lines that are no table: a title over a rule of dashes, or facts."""
    is_titled = len(lines) > 1 and set(lines[1]) == {"-"}
    shown: list[str] = []
    for number, line in enumerate(lines):
        style = _BOLD if is_titled and number == 0 else _DIM
        parts = folded_line(line, width) if width >= LEAST_WIDTH else [line]
        shown += [_in_style(each, style if styled else "") for each in parts]
    return shown


def _in_style(line: str, style: str) -> str:
    return f"{style}{line}{_PLAIN}" if style and line else line


@dataclass(frozen=True)
class _Column:
    """A column of a table: its cells, all of one width, the header among them; its group."""

    cells: tuple[str, ...]
    width: int
    group: str = ""

    @property
    def header(self) -> str:
        return self.cells[0].strip()

    def cut(self, most: int) -> _Column:
        """Return it, and its title, no wider than that."""
        title = self.group if display_width(self.group) <= most else _cut(self.group, most)
        if self.width <= most:
            return replace(self, group=title)
        return _Column(tuple(_cut(cell, most) for cell in self.cells), most, title)


def _cut(cell: str, most: int) -> str:
    """Return a cell of ``most`` columns, the end of what is longer replaced by dots."""
    text = cell.strip()
    if display_width(text) <= most:
        pad = " " * (most - display_width(text))
        return pad + text if cell.startswith(" ") else text + pad
    dots = "..."[:most]
    kept = columns_of(text)[: most - len(dots)]
    if columns_of(text)[len(kept)] == "":
        kept[-1] = " "  # half of a wide character
    return "".join(kept) + dots


def _blocks(lines: Sequence[str], heads: int, width: int) -> Iterator[list[str]]:
    keys, others = _parsed(lines, heads)
    widest = max((c.width for c in others if c.header not in _KEYS), default=0)
    # Names are cut before numbers are.
    keys = _narrowed(keys, max(LEAST_WIDTH // 2, min(2 * width // 3, width - widest)))
    room = width - sum(key.width + len(_GAP) for key in keys)
    others = [column.cut(room) for column in others]
    taken: list[_Column] = []
    for column in others:
        if taken and _laid_width([*taken, column]) > room:
            yield _laid(keys, taken, heads)
            taken = []
        taken.append(column)
    if taken:
        yield _laid(keys, taken, heads)


def _narrowed(keys: Sequence[_Column], most: int) -> list[_Column]:
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


def _unlike(keys: Sequence[_Column]) -> int:
    """Return how many different rows there are."""
    return len({*zip(*(key.cells for key in keys), strict=True)})


def _laid(keys: Sequence[_Column], columns: Sequence[_Column], heads: int) -> list[str]:
    """Return a block's lines; columns of a group stand under its title."""
    rows = list(map(_GAP.join, zip(*(key.cells for key in keys), strict=True)))
    titles = " " * display_width(rows[0])
    for title, own in groupby(columns, lambda column: column.group):
        cells = list(map(_GAP.join, zip(*(column.cells for column in own), strict=True)))
        wide = max(display_width(title), display_width(cells[0]))
        rest = wide - display_width(title)
        titles += f"{_GAP}{title}" + (f" {'-' * (rest - 1)}" if rest > 1 else " " * rest)
        pad = " " * (wide - display_width(cells[0]))
        rows = [f"{row}{_GAP}{pad}{cell}" for row, cell in zip(rows, cells, strict=True)]
    return [line.rstrip(" ") for line in ([titles] if heads > 1 else []) + rows]


def _laid_width(columns: Sequence[_Column]) -> int:
    total = -len(_GAP)
    for title, own in groupby(columns, lambda column: column.group):
        wide = sum(column.width + len(_GAP) for column in own)
        total += max(wide, display_width(title) + len(_GAP))
    return total


def _parsed(lines: Sequence[str], heads: int) -> tuple[list[_Column], list[_Column]]:
    """Return the columns that tell rows apart, and the others."""
    pieces = [columns_of(line) for line in lines]
    longest = max(map(len, pieces))
    pieces = [piece + [" "] * (longest - len(piece)) for piece in pieces]
    titles, rows = pieces[: heads - 1], pieces[heads - 1 :]
    spans = _spans(rows)
    columns = [
        _Column(tuple("".join(row[begin:end]) for row in rows), end - begin) for begin, end in spans
    ]
    if titles:
        groups = [(begin, "".join(titles[0][begin:end])) for begin, end in _spans(titles)]
        columns = [
            _Column(c.cells, c.width, _title(groups, end))
            for c, (_, end) in zip(columns, spans, strict=True)
        ]
        keys = [column for column in columns if not column.group]
    else:
        keys = [column for column in columns if _tells_apart(column)]
    keys = [key for key in keys if key.header in _KEYS] or columns[:1]
    if columns[0] not in keys:
        keys = columns[:1]  # the first is a key whatever it is called
    return keys, [column for column in columns if column not in keys]


def _tells_apart(column: _Column) -> bool:
    if column.header == "Name":
        return True
    return column.header in _KEYS and len({*column.cells[1:]} - {" " * column.width}) > 1


def _title(groups: Iterable[tuple[int, str]], end: int) -> str:
    """Return the title above a column that ends there, without its dashes."""
    titles = [text for begin, text in groups if begin < end]
    return titles[-1].rstrip("-").rstrip(" ") if titles else ""


def _spans(rows: Sequence[Line]) -> list[tuple[int, int]]:
    """Return where columns begin and end: two blanks in all rows part them.

    What has no header is no column but part of the one before it, whose cells have blanks.
    """
    used = [any(row[i] != " " for row in rows) for i in range(len(rows[0]))]
    spans: list[tuple[int, int]] = []
    for i, is_used in enumerate(used):
        if not is_used:
            continue
        if spans and i - spans[-1][1] < len(_GAP):
            spans[-1] = (spans[-1][0], i + 1)
        else:
            spans.append((i, i + 1))
    merged: list[tuple[int, int]] = []
    for begin, end in spans:
        if merged and not "".join(rows[0][begin:end]).strip():
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged
