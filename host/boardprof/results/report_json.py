# SPDX-License-Identifier: Apache-2.0
"""Conversion of a Report to JSON and back, in the form that TVM's code writes.

::

    {"calls": [{"Name": {"string": "fir"}, "Count": {"count": 10}}],
     "device_metrics": {"cpu0": {"cycles": {"count": 4410}}},
     "configuration": {"Host": {"string": "Linux"}},
     "boardprof": {"schema_version": 1}}

The last key is ours, and absent if the Report has no ``record``. TVM's own reader refuses it; see
`tvm_json`. The text is ASCII on one line and always valid JSON.

Most rows differ only in their numbers. `RowPatterns` reads rows that are written like an earlier
one several times as fast as a parser, because it does not create dicts. Everything else is left to
`JsonReader`: spacing that neither we nor `json.dumps` write, escapes in text, integers of more than
18 digits, numbers that may not fit into floats.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final, Literal, TypeAlias

from boardprof.base.errors import ReportFileError, UnknownNameError
from boardprof.base.metrics import TAGS, Count, Kind, MetricJson, metric_from_json, metric_to_json
from boardprof.results.record import Record
from boardprof.results.record_json import dumped, json_kind, need_object, read_record, record_text
from boardprof.results.report.calls import Calls, CallsBuilder, Column, Row, place_text

Compat: TypeAlias = Literal["tvm"] | None


@dataclass(frozen=True)
class Contents:
    """What a Report consists of."""

    calls: Calls  # rows
    device_metrics: dict[str, Row]  # totals by device
    configuration: Row  # facts about the run
    record: Record | None  # what the board sent


_KEYS: Final = ("calls", "device_metrics", "configuration", "boardprof")
_FIRST_OF_A_PROFILE: Final = "function"  # what the JSON of ``boardprof hotspots`` begins with


def render_json(report: Contents, *, compat: Compat = None) -> str:
    """Return the whole Report as one line of JSON; "tvm" leaves the record out, see `tvm_json`."""
    if compat not in (None, "tvm"):
        raise UnknownNameError("compat mode", compat, ["tvm"])
    if compat is None:
        return "".join(json_pieces(report))  # in one step: each step copies many megabytes
    return tvm_json(report)


def json_pieces(report: Contents) -> Iterator[str]:
    """Yield the text of `render_json` in pieces, for those who need not have it at once."""
    yield '{"calls":['
    separator = ""
    for row in _rows(report.calls):
        yield separator + row
        separator = ","
    yield '],"device_metrics":'
    totals = report.device_metrics.items()
    yield dumped({device: _row_to_json(row) for device, row in totals})
    yield ',"configuration":'
    yield dumped(_row_to_json(report.configuration))
    if report.record is not None:
        yield ',"boardprof":'
        yield record_text(report.record)
    yield "}"


def parse_json(text: str | bytes) -> Contents:
    """Read a Report from JSON, as text or as bytes in UTF-8.

    It also reads TVM's output (17 decimals; bare infinities and NaN) and the form in TVM's
    documentation (plain strings, no configuration).
    """
    if not isinstance(text, str | bytes | bytearray):
        raise ReportFileError(f"a Report is read from JSON as text or bytes, not {text!r:.60}")
    try:
        if not isinstance(text, str):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        with _no_garbage():
            return _report(JsonReader(text))
    except RecursionError:
        raise ReportFileError("the JSON is nested too deeply to be a Report") from None
    except json.JSONDecodeError as error:
        raise syntax_error(error) from None
    except ValueError as error:  # not UTF-8, or an integer of thousands of digits
        raise ReportFileError(f"the text cannot be read as JSON: {error}") from None


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Turn garbage collection off: samples have no cycles, and each pass visits all of them."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# -- writing ----------------------------------------------------------------------------------


def _row_to_json(row: Row) -> dict[str, MetricJson]:
    return {name: metric_to_json(metric) for name, metric in row.items()}


def _rows(calls: Calls) -> Iterator[str]:
    """Yield the text of each row: a template for its layout, filled with the values."""
    texts = {name: _texts(calls.column(name)) for name in calls.names}
    found: dict[tuple[str, ...], Iterator[str]] = {}
    for layout in calls.layouts:
        if layout not in found:
            values = zip(*map(texts.__getitem__, layout), strict=False) if layout else repeat(())
            members = ",".join(_member(name, calls.column(name)) for name in layout)
            found[layout] = map(f"{{{members}}}".__mod__, values)
        yield next(found[layout])


def _member(name: str, column: Column) -> str:
    key = quoted(name).replace("%", "%%")
    return f"{key}:%s" if column.kind is None else f'{key}:{{"{TAGS[column.kind]}":%s}}'


def _texts(column: Column) -> Iterator[str]:
    """Yield the values as JSON, with their tags if the column has mixed kinds."""
    if column.kind is None:
        return (dumped(metric_to_json(metric)) for metric in column.metrics())
    if column.kind is str:
        return map(quoted, column.given)
    is_plain = column.kind is Count or all(map(math.isfinite, column.given))
    return map(repr if is_plain else _float_text, column.given)


def _float_text(number: float) -> str:
    return repr(number) if math.isfinite(number) else f'"{number}"'


# -- reading ----------------------------------------------------------------------------------


def _report(reader: JsonReader) -> Contents:
    if reader.next() != "{":
        need_object(reader.value(), "")
    found: dict[str, Any] = {}
    for key in reader.members():
        if key == _FIRST_OF_A_PROFILE:
            raise ReportFileError(
                "this is a profile, not a Report",
                hint="run --hotspots --json FILE writes a Report with the profile in it",
            )
        if key not in _KEYS:
            raise ReportFileError(f"not a key of a Report; these are {', '.join(_KEYS)}", where=key)
        if key != "calls":
            found[key] = need_object(reader.value(key), key)
        elif reader.next() == "[":
            found[key] = _calls(reader)
        else:
            kind = json_kind(reader.value(key))
            raise ReportFileError(f"a JSON array is needed, not {kind}", where=key)
    reader.end()
    if "calls" not in found:
        raise ReportFileError('this is not a Report: the key "calls" is missing')
    totals = found.get("device_metrics", {})
    return Contents(
        found["calls"],
        {device: _row(row, "device_metrics", device) for device, row in totals.items()},
        _row(found.get("configuration", {}), "configuration"),
        read_record(found["boardprof"]) if "boardprof" in found else None,
    )


def _calls(reader: JsonReader) -> Calls:
    builder, patterns = CallsBuilder(), RowPatterns()
    for _ in reader.elements():
        number = len(builder.layout_of)
        row = _row(reader.value("calls", number), "calls", number)
        builder.add(row)
        patterns.learn(row)
        patterns.take(reader, builder)
    return Calls.of_columns(*builder.built())


def _row(row: object, root: str, *keys: str | int) -> Row:
    metrics: Row = {}
    for name, value in need_object(row, root, *keys).items():
        try:
            metrics[name] = metric_from_json(value)
        except ValueError as error:
            raise ReportFileError(str(error), where=place_text(root, *keys, name)) from None
    return metrics


_BY_NUMBER: Final = r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]"


def tvm_json(report: Contents) -> str:
    r"""Return the JSON that TVM's own ``Report.from_json`` takes, on one line, without the record.

    TVM reads text as UTF-8 and knows only five escapes, none of them by number, so names are not
    escaped. Characters that can only be escaped by number, such as control characters, are spelled
    out: ``\x1b`` becomes a backslash and three letters.
    """
    content = {
        "calls": list(map(_tvm_row, report.calls)),
        "device_metrics": {
            _tvm_text(name): _tvm_row(row) for name, row in tvm_totals(report).items()
        },
        "configuration": _tvm_row(report.configuration),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def tvm_totals(report: Contents) -> dict[str, Row]:
    """Return the totals by device as TVM writes them: with the device, and as one run."""
    if report.record is None:  # it has them, if TVM wrote it
        return dict(report.device_metrics)
    return {
        device: {"Device": device, "Count": Count(1), **row}
        for device, row in report.device_metrics.items()
    }


def _tvm_row(row: Row) -> dict[str, MetricJson]:
    return {_tvm_text(name): _spelled_out(metric_to_json(metric)) for name, metric in row.items()}


def _spelled_out(metric: MetricJson) -> MetricJson:
    return {tag: _tvm_text(raw) if isinstance(raw, str) else raw for tag, raw in metric.items()}


def _tvm_text(text: str) -> str:
    return re.sub(_BY_NUMBER, lambda found: ascii(found[0])[1:-1], text)


_TEXT: Final = r'"([^"\\\x00-\x1f]*)"'
_INTEGER: Final = r"(-?(?:0|[1-9][0-9]{0,17}))"
_EXPONENT: Final = r"[eE][-+]?[0-9]{1,2}"
_FLOAT: Final = rf"(-?(?:0|[1-9][0-9]{{0,17}})(?:\.[0-9]{{1,99}}(?:{_EXPONENT})?|{_EXPONENT}))"

_MOST_PATTERNS: Final = 8  # patterns to try on a row; few Reports have more kinds of row


_Columns: TypeAlias = tuple[tuple[str, Kind], ...]  # names and kinds of a row's columns


class RowPatterns:
    """Patterns of the kinds of row seen so far in an array of rows."""

    def __init__(self) -> None:
        """Begin without patterns."""
        self._patterns: dict[_Columns, re.Pattern[str]] = {}

    def learn(self, row: Row) -> None:
        """Add a pattern for rows like this one."""
        columns = tuple((name, type(metric)) for name, metric in row.items())
        if columns and len(self._patterns) < _MOST_PATTERNS and columns not in self._patterns:
            self._patterns[columns] = _pattern_of(columns)

    def take(self, reader: JsonReader, builder: CallsBuilder) -> None:
        """Read the rows after an element of the array, as long as one of the patterns matches."""
        while any(self._take(each, reader, builder) for each in self._patterns):
            pass

    def _take(self, columns: _Columns, reader: JsonReader, builder: CallsBuilder) -> bool:
        """Read rows of one kind; return whether there were any."""
        rows = reader.elements_like(self._patterns[columns])
        if rows:
            names, kinds = zip(*columns, strict=True)
            texts_of = zip(kinds, zip(*rows, strict=True), strict=True)
            read: dict[Kind, Callable[[str], Any]] = {str: str, Count: int}
            values = [(kind, list(map(read.get(kind, float), texts))) for kind, texts in texts_of]
            builder.extend(names, values)
        return bool(rows)


def _pattern_of(columns: _Columns) -> re.Pattern[str]:
    """Return what matches a row and the comma before it, with a group for each column."""
    texts: dict[Kind, str] = {str: _TEXT, Count: _INTEGER}
    members = ", ?".join(
        rf'{re.escape(quoted(name))}: ?\{{"{TAGS[kind]}": ?{texts.get(kind, _FLOAT)}\}}'
        for name, kind in columns
    )
    return re.compile(rf", ?\{{{members}\}}")


# -- reading JSON piece by piece ------------------------------------------------------------------


_FAULT: Final = object()  # replaces values in the parsed JSON that are not accepted
_NON_FINITE_HINT: Final = 'write non-finite numbers as strings: "inf", "-inf" or "nan"'
_DAMAGED_HINT: Final = "write each key once; a file that nobody edited is damaged"
_BLANK: Final = " \t\n\r"
_BLANKS: Final = re.compile(r"[ \t\n\r]+")
_SURROGATE: Final = "[\ud800-\udc7f\udd00-\udfff]"
"""Lone halves of UTF-16 pairs, except for those that Python uses for bytes of file names."""

_TVMS_NUMBER: Final = r"-?(?:inf|nan)\b(?:\(\w*\))?"
"""A number that is not finite, as C++ and so TVM writes it without quotes."""

_BARE: Final = re.compile(_TVMS_NUMBER)
_STRING_OR_BARE_MEMBER: Final = (
    rf'(?s)"(?:[^"\\]|\\.)*"|(?P<colon>:[{_BLANK}]*)(?P<bare>{_TVMS_NUMBER})'
)

_AT_A_TIME: Final = 1000

_CUT_TOKEN: Final = r"-|\.|[eE][-+]?|nu?l?|tr?u?|fa?l?s?"


class JsonReader:
    """Reads one JSON text; other text raises ``json.JSONDecodeError``, see `syntax_error`.

    It refuses NaN, Infinity, numbers beyond 64-bit floats and repeated keys, and names the place of
    each fault. The only exception is TVM's way to write numbers that are not finite.
    """

    def __init__(self, text: str) -> None:
        """Begin at the first character after a byte order mark."""
        self._text = text
        self._pos = int(text.startswith("\ufeff"))
        self._faults: list[tuple[str, str | None]] = []
        is_escaped = "\\ud" in text or "\\uD" in text
        is_bare = not text.isascii() and re.search(_SURROGATE, text) is not None
        self._has_surrogates = is_escaped or is_bare
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=self._constant,
            parse_float=self._number,
            strict=True,
        )

    def next(self) -> str:
        """Return the next character that is not blank, without taking it; "" at the end."""
        if blanks := _BLANKS.match(self._text, self._pos):
            self._pos = blanks.end()
        return self._text[self._pos : self._pos + 1]

    def value(self, *place: str | int) -> Any:
        """Take a whole value, which has this ``place`` in the Report."""
        self.next()
        value, self._pos = self._decoded()
        if self._faults:
            message, hint = self._faults[0]
            where = next((keys for part, keys in _parts(value, *place) if part is _FAULT), ())
            raise ReportFileError(message, where=_place(where), hint=hint)
        for part, keys in _parts(value, *place) if self._has_surrogates else ():
            if isinstance(part, str) and re.search(_SURROGATE, part):
                raise ReportFileError(
                    "half of a UTF-16 pair, a lone surrogate, is not text",
                    where=_place(keys) or "a key",
                    hint="write text in UTF-8, or characters beyond U+FFFF as both their halves",
                )
        return value

    def _decoded(self) -> tuple[Any, int]:
        """Return the next value and the position after it."""
        try:
            return self._decoder.raw_decode(self._text, self._pos)
        except json.JSONDecodeError as error:
            is_member = error.doc[: error.pos].rstrip(_BLANK).endswith(":")
            if not is_member or not _BARE.match(error.doc, error.pos):
                raise
        self._text = self._text[: self._pos] + _with_quotes(self._text[self._pos :])
        return self._decoded()

    def members(self) -> Iterator[str]:
        """Take an object: yield each key; its value must be taken before the next one."""
        seen: set[str] = set()
        for _ in self._between_commas("}"):
            if self.next() != '"':
                raise self._error("Expecting property name enclosed in double quotes")
            key = self.value()
            if self.next() != ":":
                raise self._error("Expecting ':' delimiter")
            self._pos += 1
            if key in seen:
                raise ReportFileError(_twice(key), hint=_DAMAGED_HINT)
            seen.add(key)
            yield key

    def elements(self) -> Iterator[None]:
        """Take an array: yield before each value, which must be taken before the next one."""
        return self._between_commas("]")

    def elements_like(self, pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
        """Take elements of an array, each with its comma, as long as a pattern matches.

        The pattern must match only text that `value` accepts. Returns the groups of at most a
        thousand matches at a time, to save memory.
        """
        found: list[tuple[str, ...]] = []
        text, match = self._text, pattern.match
        while len(found) < _AT_A_TIME and not self._has_surrogates:
            if (element := match(text, self._pos)) is None:
                break
            found.append(element.groups())
            self._pos = element.end()
        return found

    def end(self) -> None:
        """Check that only blanks follow."""
        if self.next():
            raise self._error("Extra data")

    def _between_commas(self, bracket: str) -> Iterator[None]:
        self._pos += 1
        if self.next() == bracket:
            self._pos += 1
            return
        while True:
            yield
            following = self.next()
            if following not in (",", bracket) or not following:
                raise self._error("Expecting ',' delimiter")
            self._pos += 1
            if following == bracket:
                return

    def _error(self, message: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self._text, self._pos)

    def _object(self, members: list[tuple[str, Any]]) -> object:
        found = dict(members)
        if len(found) == len(members):
            return found
        keys = [key for key, _ in members]
        repeated = next(key for key in keys if keys.count(key) > 1)
        self._faults.append((_twice(repeated), _DAMAGED_HINT))
        return _FAULT

    def _constant(self, name: str) -> object:
        self._faults.append((f"{name} is not JSON", _NON_FINITE_HINT))
        return _FAULT

    def _number(self, digits: str) -> object:
        if math.isfinite(value := float(digits)):
            return value
        self._faults.append((f"{digits:.40} is too large for a 64-bit float", None))
        return _FAULT


def _with_quotes(text: str) -> str:
    """Return JSON with such numbers as we write them."""

    def quoted(found: re.Match[str]) -> str:
        bare = found["bare"]
        if bare is None:
            return found[0]
        return f'{found["colon"]}"{"nan" if "nan" in bare else bare}"'

    return re.sub(_STRING_OR_BARE_MEMBER, quoted, text)


def _twice(key: str) -> str:
    return f"the key {json.dumps(key)} is there twice"


def syntax_error(error: json.JSONDecodeError) -> ReportFileError:
    """Return the error for text that is empty, cut short or otherwise not JSON."""
    text, pos = error.doc, error.pos
    where = f"line {error.lineno}, column {error.colno}"
    if not text.strip():
        return ReportFileError("the text is empty")
    if _is_cut_short(error):
        return ReportFileError(
            "the JSON ends too early", where=where, hint="check that the file was written whole"
        )
    if bare := re.match(r"-?(inf|nan)\b", text[pos : pos + 10]):
        return ReportFileError(f"{bare[0]} is not JSON", where=where, hint=_NON_FINITE_HINT)
    return ReportFileError(f"this is not JSON: {error.msg}", where=where)


def _is_cut_short(error: json.JSONDecodeError) -> bool:
    """Tell whether parsing failed at the rest of a token that the end of the text cuts off."""
    rest = error.doc[error.pos :].strip()
    if error.msg.startswith("Invalid \\u"):
        return '"' not in rest
    return (
        not rest
        or error.msg.startswith("Unterminated string")
        or bool(re.fullmatch(_CUT_TOKEN, rest))
    )


def _parts(value: object, *keys: str | int) -> Iterator[tuple[object, tuple[str | int, ...]]]:
    """Yield a value and all its parts, keys included, each with its place."""
    yield value, keys
    if isinstance(value, dict):
        for key, item in value.items():
            yield key, (*keys, key)
            yield from _parts(item, *keys, key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _parts(item, *keys, number)


def _place(keys: Sequence[str | int]) -> str:
    return place_text(str(keys[0]), *keys[1:]) if keys else ""
