# SPDX-License-Identifier: Apache-2.0
"""Layout of tables and lines of text: at full width for a file, or at a terminal's width.

All cells and lines are made printable here, so that no control sequence reaches the terminal.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, repeat, takewhile
from typing import Final, TypeAlias

from boardprof.base.printable import bounded, display_width

_GAP: Final = "  "
_LEAST_WIDTH: Final = 20  # smallest width, in columns, that text is fitted to
_SHORTEST_NAME: Final = 8
_INDENT: Final = 4
_KEYS: Final = (  # columns that may identify rows, the most important first
    *("Name", "Label", "Metric", "Device", "Board", "Flags", "Argument Shapes", "Arguments"),
)

_RULE: Final = "----------"
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_TONES: Final = {"good": "\x1b[32m", "bad": "\x1b[31m"}
_ITEM = r" *\S+(?: \S+)*  +(?=\S)"  # a name, and at least two blanks before its description


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    header: str
    cells: Sequence[str]  # one for each row; "" if it has no value
    is_text: bool = False  # align cells left; numbers are aligned right
    group: str = ""  # a title above neighbouring columns, such as their board's name
    tones: Sequence[str] = ()  # of each cell: ``good``, ``bad`` or "", where there are colours


@dataclass(frozen=True)
class Table:
    """Columns of equal length; the first one names the rows."""

    columns: Sequence[Column]
    totals: int = 0  # number of rows at the end that are sums and totals; a rule separates them
    spare: Sequence[str] = ()  # headers to leave out first if the table is too wide
    cuts_last: bool = False  # the last column, to 20 or more, before others move below


Page: TypeAlias = Sequence[Table | str]  # from top to bottom; "" is a blank line


def text_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table of texts without the columns that have no value."""
    columns = zip(headers, zip(*rows, strict=True), strict=True)
    return Table([Column(header, cells, is_text=True) for header, cells in columns if any(cells)])


def record_table(
    headers: Iterable[str],
    rows: Sequence[Mapping[str, str]],
    texts: Collection[str] = (),
    *,
    optional: Collection[str] = (),
    spare: Sequence[str] = (),
    cuts_last: bool = False,
) -> Table:
    """Return a table of rows with a cell for each header."""
    shown = [each for each in headers if each not in optional or any(row[each] for row in rows)]
    columns = [Column(each, [row[each] for row in rows], each in texts) for each in shown]
    return Table(columns, spare=spare, cuts_last=cuts_last)


def shared(rows: Sequence[Mapping[str, str]], headers: Iterable[str]) -> list[str]:
    """Return the headers whose cells are the same in all rows: a narrow table can do without."""
    return [each for each in headers if len({row[each] for row in rows}) == 1]


def plain(page: Page) -> str:
    """Return a page as text of any width."""
    return fitted(page, 0, styled=False)


def fitted(page: Page, width: int, *, styled: bool) -> str:
    """Return a page as text with lines no longer than ``width`` columns; 0 if not known."""
    # A wider table is split into blocks of columns, one below the other. Each block repeats the
    # columns that identify its rows. Below 20 columns, nothing is fitted.
    lines: list[str] = []
    for is_table, parts in groupby(page, lambda part: isinstance(part, Table)):
        if is_table:
            for table in parts:
                assert isinstance(table, Table)
                lines += _table(table, width, styled)
        else:
            lines += _facts([bounded(str(part)) for part in parts], width, styled, not lines)
    return "".join(f"{line}\n" for line in lines)


# -- lines ------------------------------------------------------------------------------------


def folded(text: str, width: int) -> str:
    """Return text folded to lines of at most ``width`` columns, if that is 20 or more."""
    return "\n".join(part for line in text.split("\n") for part in _folded_line(line, width))


def _facts(lines: Sequence[str], width: int, styled: bool, is_first: bool) -> list[str]:
    """Fold and style lines; titles are the first of a page, and each above a rule of dashes."""
    shown: list[str] = []
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        is_title = (is_first and number == 0) or (below and set(below) == {"-"})
        style = _BOLD if is_title else _DIM
        parts = _folded_line(line.rstrip(" "), width)
        shown += [_in_style(each, style) for each in parts] if styled else parts
    return shown


def _in_style(line: str, style: str) -> str:
    return f"{style}{line}{_PLAIN}" if style and line else line


def _folded_line(line: str, width: int) -> list[str]:
    """Split a line into parts of at most ``width`` columns, all but the first indented."""
    if width < _LEAST_WIDTH or display_width(line) <= width:
        return [line]
    indent = " " * _indent(line, width)
    if line.isascii():
        return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    parts, head = [], _head(line, width)
    while len(head) < len(line):
        # Between words if there is a blank after the indentation.
        end = (head + line[len(head)]).rfind(" ", len(indent) + 1)
        head = head if end < 0 else head[:end]
        parts.append(head.rstrip(" "))
        line = indent + line[len(head) :].lstrip(" ")
        head = _head(line, width)
    return [*parts, line]


def _indent(line: str, width: int) -> int:
    item = re.match(_ITEM, line)
    if item is not None and display_width(item[0]) <= width // 2:
        return display_width(item[0])
    return min(len(line) - len(line.lstrip(" ")) + _INDENT, width // 2)


def _head(text: str, width: int) -> str:
    """Return the longest beginning of a text that fits into ``width`` columns."""
    if text.isascii():
        return text[:width]
    widths = accumulate(map(display_width, text))
    return text[: sum(1 for _ in takewhile(lambda each: each <= width, widths))]


# -- tables -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Aligned:
    """A column with its header and a rule before totals as cells, all padded to one width."""

    header: str
    cells: tuple[str, ...]
    width: int
    group: str
    tones: Sequence[str]
    is_left: bool

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
        return cls(texts[0], tuple(cells), width, bounded(column.group), tones, is_left)

    @property
    def painted(self) -> Sequence[str]:
        """The cells with their colours."""
        tones = map(_TONES.get, self.tones, repeat(""))
        return list(map(_in_style, self.cells, tones)) if self.tones else self.cells

    @property
    def identifies_rows(self) -> bool:
        blank = " " * self.width
        return self.header in _KEYS and len({*self.cells[1:]} - {blank}) > 1

    def cut(self, most: int) -> _Aligned:
        """Return the column and its title cut to at most this width."""
        group = self.group if display_width(self.group) <= most else _cut(self.group, most, True)
        if self.width <= most:
            return replace(self, group=group)
        cells = tuple(_cut(cell, most, self.is_left) for cell in self.cells)
        return replace(self, cells=cells, width=most, group=group)


def _table(table: Table, width: int, styled: bool) -> list[str]:
    columns = [
        _Aligned.of(column, table.totals, number == 0)
        for number, column in enumerate(table.columns)
    ]
    is_fitted = width >= _LEAST_WIDTH
    left_out: list[str] = []
    for header in table.spare:
        if is_fitted and _laid_width(columns) > width:
            left_out += [column.header for column in columns if column.header == header]
            columns = [column for column in columns if column.header != header]
    excess = _laid_width(columns) - width
    if is_fitted and table.cuts_last and excess > 0:
        columns[-1] = columns[-1].cut(max(_LEAST_WIDTH, columns[-1].width - excess))
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
    if left_out:
        told = f"Too narrow for: {', '.join(left_out)}."
        shown += [_in_style(line, _DIM if styled else "") for line in _folded_line(told, width)]
    return shown


def _styled(lines: Sequence[str], heads: int, totals: int) -> list[str]:
    rule = len(lines) - totals - 1 if totals else len(lines)
    styles = [
        _BOLD if i < heads or i > rule else _DIM if i == rule else "" for i in range(len(lines))
    ]
    return [_in_style(line, style) for line, style in zip(lines, styles, strict=True)]


def _cut(cell: str, most: int, is_left: bool) -> str:
    """Return a cell of exactly ``most`` columns; dots replace the end of a longer text."""
    text = cell.rstrip(" ") if is_left else cell.strip(" ")
    dots = "..."[:most] if display_width(text) > most else ""
    head = _head(text, most - len(dots))
    pad = " " * (most - len(dots) - display_width(head))
    return head + pad + dots if is_left or dots else pad + text


def _blocks(columns: Sequence[_Aligned], width: int, styled: bool) -> Iterator[list[str]]:
    keys = _keys(columns)
    others = [column for column in columns if column not in keys]
    widest = max((c.width for c in others if c.header not in _KEYS), default=0)
    # Cut names rather than numbers.
    kept = _narrowed(keys, max(_LEAST_WIDTH // 2, min(2 * width // 3, width - widest)))
    room = width - sum(key.width + len(_GAP) for key in kept)
    # Keys that do not fit beside each block are shown once, in the first.
    headers = {key.header for key in kept}
    moved = [key for key in keys if key.header not in headers]
    if _different(kept) < _different(keys):
        numbers = _numbers(kept[0])
        kept, room = [numbers, *kept], room - numbers.width - len(_GAP)
    keys, others = kept, [column.cut(room) for column in (*moved, *others)]
    taken: list[_Aligned] = []
    for column in others:
        if taken and _laid_width([*taken, column]) > room:
            yield _laid(keys, taken, styled)
            taken = []
        taken.append(column)
    if taken:
        yield _laid(keys, taken, styled)


def _numbers(names: _Aligned) -> _Aligned:
    """Return a column that numbers the rows, for which the other keys have no room."""
    texts, count = ["#"], 0
    for name in names.cells[1:]:
        count += name.strip(" ") not in ("", _RULE)
        texts.append(f"{count}" if name.strip(" ") not in ("", _RULE) else "")
    width = max(map(len, texts))
    cells = tuple(text.rjust(width) for text in texts)
    return _Aligned("#", cells, width, "", (), is_left=False)


def _keys(columns: Sequence[_Aligned]) -> list[_Aligned]:
    """Return the columns that identify rows; the first always does."""
    first, others = columns[0], columns[1:]
    if first.header != _KEYS[0]:
        return [first]
    if any(column.group for column in others):
        return [first, *(c for c in others if not c.group and c.header in _KEYS)]
    return [first, *(column for column in others if column.identifies_rows)]


def _narrowed(keys: Sequence[_Aligned], most: int) -> list[_Aligned]:
    """Return keys that fit into ``most`` columns, each with a gap after it."""
    kept = list(keys)
    while len(kept) > 1 and sum(key.width + len(_GAP) for key in kept) > most:
        least = max(kept[1:], key=lambda key: _KEYS.index(key.header))
        fewer = [key for key in kept if key is not least]
        left = most - sum(key.width + len(_GAP) for key in kept[1:]) - len(_GAP)
        if left >= _SHORTEST_NAME and _different(fewer) < _different(kept):
            return [kept[0].cut(left), *kept[1:]]
        kept = fewer
    return [key.cut(max(1, most - len(_GAP))) for key in kept]


def _different(keys: Sequence[_Aligned]) -> int:
    return len({*zip(*(key.cells for key in keys), strict=True)})


def _laid(keys: Sequence[_Aligned], columns: Sequence[_Aligned], styled: bool) -> list[str]:
    """Return the lines of a block, with the title of each group above its columns."""
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
