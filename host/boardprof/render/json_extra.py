# SPDX-License-Identifier: Apache-2.0
"""The types of what a Report keeps beside its rows; see docs/report.schema.json.

What is there must be of its type, so that whoever reads it need not look. Nothing must be there,
keys of other versions are passed over, and a single value may be null: not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from boardprof.errors import ReportFileError
from boardprof.render.json_reader import json_kind, need_object
from boardprof.report.calls import place_text

__all__ = ["check_extra"]

_Place: TypeAlias = tuple[str | int, ...]
_Check: TypeAlias = Callable[[Any, _Place], None]

_HEX: Final = re.compile("(?:[0-9a-fA-F]{2})*")


def check_extra(extra: Mapping[str, Any]) -> None:
    """See that what stands under ``boardprof`` in a Report is of its types.

    Raises:
        ReportFileError: something is not; with its place.
    """
    _BOARDPROF(extra, ())


def _refuse(needed: str, value: object, place: _Place) -> None:
    message = f"{needed} is needed, not {json_kind(value)}"
    raise ReportFileError(message, where=place_text("boardprof", *place))


def _single(kind: type | tuple[type, ...], needed: str) -> _Check:
    def check(value: Any, place: _Place) -> None:
        is_bool = isinstance(value, bool) and kind is not bool
        if value is not None and (is_bool or not isinstance(value, kind)):
            _refuse(needed, value, place)

    return check


def _object(members: Mapping[str, _Check]) -> _Check:
    def check(value: Any, place: _Place) -> None:
        need_object(value, "boardprof", *place)
        for name in value.keys() & members.keys():
            members[name](value[name], (*place, name))

    return check


def _object_of(each: _Check) -> _Check:
    def check(value: Any, place: _Place) -> None:
        for name, item in need_object(value, "boardprof", *place).items():
            each(item, (*place, name))

    return check


def _array_of(each: _Check) -> _Check:
    def check(value: Any, place: _Place) -> None:
        if not isinstance(value, list):
            _refuse("a JSON array", value, place)
        for number, item in enumerate(value):
            each(item, (*place, number))

    return check


def _or_null(check: _Check) -> _Check:
    return lambda value, place: None if value is None else check(value, place)


def _blobs(value: Any, place: _Place) -> None:
    if not isinstance(value, str):
        _refuse("hexadecimal text", value, place)
    if not _HEX.fullmatch(value):
        raise ReportFileError(
            f"{value:.20} is not hexadecimal, two digits a byte",
            where=place_text("boardprof", *place),
        )


_TEXT: Final = _single(str, "a string")
_INTEGER: Final = _single(int, "an integer")
_NUMBER: Final = _single((int, float), "a number")
_FLAG: Final = _single(bool, "true or false")
_TEXTS: Final = _array_of(_TEXT)
_INTEGERS: Final = _object_of(_INTEGER)

_SAMPLE_MEMBERS: Final = {
    "raw": _INTEGERS,
    "wraps": _INTEGERS,
    "ambiguous": _TEXTS,
    "estimated": _TEXTS,
    "blobs": _blobs,
}
_SAMPLE: Final = _object(_SAMPLE_MEMBERS)
_PASS_MEMBERS: Final = {
    "collectors": _array_of(_INTEGER),
    "events": _object_of(_TEXTS),
    "samples": _array_of(_SAMPLE),
    "calibration_samples": _array_of(_SAMPLE),
    "totals": _array_of(_SAMPLE),
}
_COUNTER: Final = _object(
    {
        "name": _TEXT,
        "source": _TEXT,
        "bits": _INTEGER,
        "hz": _INTEGER,
        "coarse_hz": _INTEGER,
        "counts_in_sleep": _FLAG,
        "status": _INTEGER,
        "detail": _INTEGER,
    }
)
_COLLECTOR: Final = _object(
    {
        "index": _INTEGER,
        "name": _TEXT,
        "schema_id": _INTEGER,
        "version": _INTEGER,
        "layout_crc": _INTEGER,
        "counters": _array_of(_COUNTER),
    }
)
_DEVICE: Final = _object(
    {
        "clock_kind": _TEXT,
        "emulated": _FLAG,
        "port": _TEXT,
        "agent_version": _TEXT,
        "build_id": _TEXT,
        "boot_id": _INTEGER,
        "cflags": _TEXTS,
        "unsupported": _object_of(_TEXT),
        "collectors": _array_of(_COLLECTOR),
    }
)
_MEASUREMENT: Final = _object(
    {
        **_PASS_MEMBERS,
        "name": _TEXT,
        "device": _TEXT,
        "arguments": _TEXT,
        "label": _TEXT,
        "flags": _TEXT,
        "build_id": _TEXT,
        "number": _INTEGER,
        "warmup": _INTEGER,
        "calls_before": _or_null(_INTEGER),
        "calibration": _INTEGERS,
        "compilers": _TEXTS,
        "libc": _TEXT,
        "cold": _or_null(
            _object({**_SAMPLE_MEMBERS, "metrics": _object({}), "calibration": _INTEGERS})
        ),
        "stack": _or_null(_INTEGERS),
        "clock_fit": _or_null(_object_of(_NUMBER)),
        "outputs": _object_of(_object({})),
        "formulas": _object_of(_TEXTS),
        "further_passes": _array_of(_object(_PASS_MEMBERS)),
    }
)
_BOARDPROF: Final = _object(
    {
        "devices": _object_of(_DEVICE),
        "measurements": _array_of(_MEASUREMENT),
        "missing": _TEXTS,
    }
)
