# SPDX-License-Identifier: Apache-2.0
"""JSON taken piece by piece, so that a million rows never stand in memory as dicts.

Strict: no NaN, no Infinity, no number beyond 64-bit floats, no key twice, and each fault with its
place. What TVM writes for numbers that are not finite is the one exception.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from boardprof.errors import ReportFileError
from boardprof.report.calls import place_text

_FAULT: Final = object()  # stands in the parsed JSON for what cannot be accepted
_NON_FINITE_HINT: Final = 'write non-finite numbers as strings: "inf", "-inf" or "nan"'
_DAMAGED_HINT: Final = "write each key once; a file that nobody edited is damaged"
_BLANK: Final = " \t\n\r"
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_SURROGATE: Final = "[\ud800-\udc7f\udd00-\udfff]"
"""Halves of a character that stand alone, but for those that Python reads file names with."""

_TVMS_NUMBER: Final = r"-?(?:inf|nan)\b(?:\(\w*\))?"
"""A number that is not finite as C++ writes it, and so TVM, bare."""

_BARE: Final = re.compile(_TVMS_NUMBER)
_STRING_OR_BARE_MEMBER: Final = (
    rf'(?s)"(?:[^"\\]|\\.)*"|(?P<colon>:[{_BLANK}]*)(?P<bare>{_TVMS_NUMBER})'
)

_AT_A_TIME: Final = 1000

_CUT_TOKEN: Final = r"-|\.|[eE][-+]?|nu?l?|tr?u?|fa?l?s?"


class JsonReader:
    """Reads one JSON text from its beginning to its end.

    All methods raise ``json.JSONDecodeError`` for what is not JSON; `syntax_error` makes a
    ReportFileError of it.
    """

    def __init__(self, text: str) -> None:
        """Begin at the first character; a byte order mark is passed over."""
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
        """Return the next character that is no blank, without taking it; "" at the end."""
        if self._text[self._pos : self._pos + 1] in _BLANK:
            match = _BLANKS.match(self._text, self._pos)
            self._pos = match.end() if match else self._pos
        return self._text[self._pos : self._pos + 1]

    def value(self, *place: str | int) -> Any:
        """Take a whole value, of which ``place`` is the place in the Report.

        Raises:
            ReportFileError: a number in it that JSON has not, or that is too large; a key twice.
        """
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
        """Return the next value, and where it ends."""
        try:
            return self._decoder.raw_decode(self._text, self._pos)
        except json.JSONDecodeError as error:
            if not _is_bare_member(error):
                raise
        except ValueError:  # an integer of thousands of digits
            return self._slow_decoder.raw_decode(self._text, self._pos)
        self._text = self._text[: self._pos] + _with_quotes(self._text[self._pos :])
        return self._decoded()

    def members(self) -> Iterator[str]:
        """Take an object: yield each key; its value must be taken before the next one.

        Raises:
            ReportFileError: a key is there twice.
        """
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
        """Take elements of an array, with the comma before each, while they match a pattern.

        It must match only what `value` accepts.

        Returns:
            The groups of each; no more than a thousand elements, so that they take little memory.
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
        """See that nothing but blanks follows."""
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

    @cached_property
    def _slow_decoder(self) -> json.JSONDecoder:
        """One that asks for each integer."""
        return json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=self._constant,
            parse_float=self._number,
            parse_int=self._integer,
            strict=True,
        )

    def _object(self, members: list[tuple[str, Any]]) -> object:
        found = dict(members)
        if len(found) == len(members):
            return found
        keys = [key for key, _ in members]
        repeated = next(key for key in keys if keys.count(key) > 1)
        self._faults.append((_twice(repeated), _DAMAGED_HINT))
        return _FAULT

    def _integer(self, digits: str) -> object:
        try:
            return int(digits)
        except ValueError:
            most = sys.get_int_max_str_digits()
            number = len(digits.lstrip("-"))
            self._faults.append(
                (f"an integer of {number:,} digits: at most {most:,} are read", None)
            )
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
    """Tell whether parsing failed at a member of an object that is no JSON, but is TVM's."""
    is_member = error.doc[: error.pos].rstrip(_BLANK).endswith(":")
    return is_member and _BARE.match(error.doc, error.pos) is not None


def _with_quotes(text: str) -> str:
    """Return JSON in which such members stand as we write them."""

    def quoted(found: re.Match[str]) -> str:
        bare = found["bare"]
        if bare is None:
            return found[0]
        return f'{found["colon"]}"{"nan" if "nan" in bare else bare}"'

    return re.sub(_STRING_OR_BARE_MEMBER, quoted, text)


def _twice(key: str) -> str:
    return f"the key {json.dumps(key)} is there twice"


def syntax_error(error: json.JSONDecodeError) -> ReportFileError:
    """Say what is wrong with the JSON: empty, cut short, TVM's bare inf, or other."""
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
    """Return ``value``, which must be an object."""
    if not isinstance(value, dict):
        message = f"a JSON object is needed, not {json_kind(value)}"
        raise ReportFileError(message, where=place_text(root, *keys))
    return value


def need_list(value: object, root: str) -> list[Any]:
    """Return ``value``, which must be an array."""
    if not isinstance(value, list):
        raise ReportFileError(f"a JSON array is needed, not {json_kind(value)}", where=root)
    return value


def _is_cut_short(error: json.JSONDecodeError) -> bool:
    """Tell whether nothing but the rest of one token stands where parsing failed."""
    rest = error.doc[error.pos :].strip()
    if error.msg.startswith("Invalid \\u"):
        return '"' not in rest
    return (
        not rest
        or error.msg.startswith("Unterminated string")
        or bool(re.fullmatch(_CUT_TOKEN, rest))
    )


def _parts(value: object, *keys: str | int) -> Iterator[tuple[object, tuple[str | int, ...]]]:
    """Yield a value and all its parts, names included, in the order of the text; each its place."""
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
    """Say what kind of JSON a value is."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")
