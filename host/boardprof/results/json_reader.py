# SPDX-License-Identifier: Apache-2.0
"""Reader that takes JSON piece by piece, so that a million rows are never in memory as dicts.

It is strict: it refuses NaN, Infinity, numbers beyond 64-bit floats and repeated keys, and names
the place of each fault. The only exception is TVM's way to write numbers that are not finite.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from boardprof.base.errors import ReportFileError
from boardprof.results.report.calls import place_text

_FAULT: Final = object()  # replaces values in the parsed JSON that are not accepted
_NON_FINITE_HINT: Final = 'write non-finite numbers as strings: "inf", "-inf" or "nan"'
_DAMAGED_HINT: Final = "write each key once; a file that nobody edited is damaged"
_BLANK: Final = " \t\n\r"
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
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
    """Reads one JSON text; other text raises ``json.JSONDecodeError``, see `syntax_error`."""

    def __init__(self, text: str) -> None:
        """Begin at the first character after a byte order mark."""
        self._text = text
        self._pos = int(text.startswith("\ufeff"))
        self._faults: list[tuple[str, str | None]] = []
        self._has_surrogates = _may_have_surrogates(text)
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=self._constant,
            parse_float=self._number,
            strict=True,
        )

    def next(self) -> str:
        """Return the next character that is not blank, without taking it; "" at the end."""
        if self._text[self._pos : self._pos + 1] in _BLANK:
            match = _BLANKS.match(self._text, self._pos)
            self._pos = match.end() if match else self._pos
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
            if not _is_bare_member(error):
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


def _is_bare_member(error: json.JSONDecodeError) -> bool:
    """Tell whether parsing failed at a number that only TVM writes, as a member of an object."""
    is_member = error.doc[: error.pos].rstrip(_BLANK).endswith(":")
    return is_member and _BARE.match(error.doc, error.pos) is not None


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


def need_object(value: object, root: str, *keys: str | int) -> dict[str, Any]:
    """Return ``value`` if it is an object; raise ReportFileError otherwise."""
    if not isinstance(value, dict):
        message = f"a JSON object is needed, not {json_kind(value)}"
        raise ReportFileError(message, where=place_text(root, *keys))
    return value


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


def _may_have_surrogates(text: str) -> bool:
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        return True
    return not text.isascii() and re.search(_SURROGATE, text) is not None


def json_kind(value: object) -> str:
    """Return the JSON type of a value with its article."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")
