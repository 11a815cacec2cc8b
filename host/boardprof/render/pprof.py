# SPDX-License-Identifier: Apache-2.0
"""The profiles of a Report for pprof: its protocol buffer, compressed.

The messages are those of profile.proto (github.com/google/pprof, proto/profile.proto); each field's
number is given where it is written. The wire format is that of protocol buffers: a key of field and
type, then a varint or a length and bytes.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from boardprof.render.flame_graph import stacks_of
from boardprof.render.profile_tables import profiles_in
from boardprof.report.profile import Frame, Profile
from boardprof.report.report import Report


def render_pprof(report: Report) -> bytes:
    """Return the profiles of a Report for pprof; several have their boards as outermost frames.

    Raises:
        UsageError: the Report has no profile.
    """
    return pprof(profiles_in(report))


def pprof(profiles: Iterable[Profile]) -> bytes:
    """Return profiles for pprof: a sample for each stack, with a value for each column."""
    found = list(profiles)
    columns = list(dict.fromkeys(name for each in found for name in each.columns))
    tables = _Tables()
    body = b""
    for name in columns:  # sample_type, a ValueType: type, unit
        body += _message(1, _number(1, tables.text(name)) + _number(2, tables.text("count")))
    for profile in found:
        above = [Frame(profile.board, "", 0)] if len(found) > 1 else []
        values: dict[tuple[Frame, ...], list[int]] = {}
        for name in profile.columns:
            for stack, cost in stacks_of(profile, name).items():
                values.setdefault(stack, [0] * len(columns))[columns.index(name)] = cost
        for stack, costs in values.items():  # sample: location_id, the leaf first; value
            places = [tables.location(frame) for frame in reversed([*above, *stack])]
            body += _message(2, _packed(1, places) + _packed(2, costs))
    body += tables.written()
    body += _number(14, tables.text(columns[0]) if columns else 0)  # default_sample_type
    # Last: all texts are known. string_table, of which the first is empty.
    body += b"".join(_bytes(6, text.encode()) for text in tables.texts)
    return gzip.compress(body, mtime=0)


class _Tables:
    """Locations, functions and texts, each once; their numbers begin with 1, texts' with 0."""

    def __init__(self) -> None:
        self.texts = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[Frame, int] = {}

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def location(self, frame: Frame) -> int:
        return self._locations.setdefault(frame, len(self._locations) + 1)

    def written(self) -> bytes:
        """Return the locations and functions as fields of the profile."""
        body = b""
        for frame, number in self._locations.items():  # location: id, line
            key = frame.function, frame.file
            function = self._functions.setdefault(key, len(self._functions) + 1)
            line = _number(1, function) + _number(2, frame.line)  # function_id, line
            body += _message(4, _number(1, number) + _message(4, line))
        for (name, file), number in self._functions.items():  # function
            fields = _number(1, number) + _number(2, self.text(name))  # id, name
            fields += _number(3, self.text(name)) + _number(4, self.text(file))  # system_name
            body += _message(5, fields)  # filename is 4
        return body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _message(field: int, content: bytes) -> bytes:
    return _bytes(field, content)


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, values)))
