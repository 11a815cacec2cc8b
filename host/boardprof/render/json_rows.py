# SPDX-License-Identifier: Apache-2.0
"""Rows of JSON that are written exactly like an earlier one, read by a pattern made of that one.

Samples differ in their numbers only. A pattern finds these without a dict for each row and each
metric, several times as fast as a parser. What it does not match is left to the careful reader:
other spacing, escapes in a text, integers of more than 18 digits, numbers that may be no floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final

from boardprof.metrics import TAGS, Count, Kind, raws_from_json
from boardprof.render.json_reader import JsonReader
from boardprof.report.calls import CallsBuilder

_TEXT: Final = r'"([^"\\\x00-\x1f]*)"'
_INTEGER: Final = r"(-?(?:0|[1-9][0-9]{0,17}))"
_EXPONENT: Final = r"[eE][-+]?[0-9]{1,2}"
_FLOAT: Final = rf"(-?(?:0|[1-9][0-9]{{0,17}})(?:\.[0-9]{{1,99}}(?:{_EXPONENT})?|{_EXPONENT}))"

_MOST_PATTERNS: Final = 8
"""Each is tried on rows that the others do not match; few Reports have more kinds of row."""


class RowPatterns:
    """The kinds of row that were seen so far in an array of rows."""

    def __init__(self) -> None:
        """Begin without any."""
        self._patterns: dict[tuple[tuple[str, Kind], ...], _RowPattern] = {}

    def learn(self, row: Mapping[str, Any]) -> None:
        """Make a pattern of a row, unless something in it is written in an unusual way."""
        cells = [(name, raws_from_json([value])) for name, value in row.items()]
        columns = tuple((name, found[0]) for name, found in cells if found is not None)
        is_usual = 0 < len(columns) == len(cells)
        if is_usual and len(self._patterns) < _MOST_PATTERNS and columns not in self._patterns:
            self._patterns[columns] = _RowPattern.of(columns)

    def take(self, reader: JsonReader, builder: CallsBuilder) -> None:
        """Take the rows that follow an element of the array, while they match any pattern."""
        while any(each.take(reader, builder) for each in self._patterns.values()):
            pass


@dataclass(frozen=True)
class _RowPattern:
    """One kind of row.

    Attributes:
        names: of the columns.
        kinds: of the columns.
        pattern: matches a row with the comma before it; a group a column.
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, columns: tuple[tuple[str, Kind], ...]) -> _RowPattern:
        texts: dict[Kind, str] = {str: _TEXT, Count: _INTEGER}
        members = ",".join(
            rf'{re.escape(quoted(name))}:\{{"{TAGS[kind]}":{texts.get(kind, _FLOAT)}\}}'
            for name, kind in columns
        )
        names, kinds = zip(*columns, strict=True)
        return cls(names, kinds, re.compile(rf",\{{{members}\}}"))

    def take(self, reader: JsonReader, builder: CallsBuilder) -> bool:
        """Take rows; return whether there were any."""
        rows = reader.elements_like(self.pattern)
        if rows:
            columns = zip(self.kinds, zip(*rows, strict=True), strict=True)
            builder.extend(self.names, [(kind, _raws(kind, texts)) for kind, texts in columns])
        return bool(rows)


def _raws(kind: Kind, texts: tuple[str, ...]) -> Sequence[Any]:
    if kind is str:
        return texts
    read: Callable[[str], Any] = int if kind is Count else float
    values = {text: read(text) for text in set(texts)}  # a clock's steps repeat: fewer to parse
    return list(map(values.__getitem__, texts))
