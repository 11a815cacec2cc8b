# SPDX-License-Identifier: Apache-2.0
"""The types of what a Report keeps beside its rows; see docs/report.schema.json.

What is there must be of its type, so that whoever reads it need not look. Nothing must be there,
keys of other versions are passed over, and a single value may be null: not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import NoneType
from typing import Any, Final, TypeAlias

from boardprof.errors import ReportFileError
from boardprof.render.json_reader import json_kind, need_object
from boardprof.report.calls import place_text

_Place: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class _Check:
    """What values of one type must be.

    Attributes:
        are_right: whether many values are, looked at together; it never raises.
        refuse: raise the error for a value, or for a part of it, that is not.
    """

    are_right: Callable[[Sequence[Any]], bool]
    refuse: Callable[[Any, _Place], None]


def check_extra(extra: Mapping[str, Any]) -> None:
    """See that what stands under ``boardprof`` in a Report is of its types.

    Raises:
        ReportFileError: something is not; with its place.
    """
    if not _BOARDPROF.are_right([extra]):
        _BOARDPROF.refuse(extra, ())


def _refuse(needed: str, value: object, place: _Place) -> None:
    message = f"{needed} is needed, not {json_kind(value)}"
    raise ReportFileError(message, where=place_text("boardprof", *place))


def _are(kind: type, values: Iterable[Any]) -> bool:
    return set(map(type, values)) <= {kind}


def _single(needed: str, *kinds: type) -> _Check:
    accepted = {*kinds, NoneType}

    def refuse(value: Any, place: _Place) -> None:
        if type(value) not in accepted:
            _refuse(needed, value, place)

    return _Check(lambda values: set(map(type, values)) <= accepted, refuse)


def _object(members: Mapping[str, _Check]) -> _Check:
    def are_right(values: Sequence[Any]) -> bool:
        return _are(dict, values) and all(
            check.are_right([value[name] for value in values if name in value])
            for name, check in members.items()
        )

    def refuse(value: Any, place: _Place) -> None:
        need_object(value, "boardprof", *place)
        for name in value.keys() & members.keys():
            members[name].refuse(value[name], (*place, name))

    return _Check(are_right, refuse)


def _object_of(each: _Check) -> _Check:
    def refuse(value: Any, place: _Place) -> None:
        for name, item in need_object(value, "boardprof", *place).items():
            each.refuse(item, (*place, name))

    return _Check(
        lambda values: _are(dict, values) and each.are_right(_all(map(dict.values, values))), refuse
    )


def _array_of(each: _Check) -> _Check:
    def refuse(value: Any, place: _Place) -> None:
        if not isinstance(value, list):
            _refuse("a JSON array", value, place)
        for number, item in enumerate(value):
            each.refuse(item, (*place, number))

    return _Check(lambda values: _are(list, values) and each.are_right(_all(values)), refuse)


def _all(parts: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(parts))


def _or_null(check: _Check) -> _Check:
    return _Check(
        lambda values: check.are_right([value for value in values if value is not None]),
        lambda value, place: None if value is None else check.refuse(value, place),
    )


def _are_blobs(values: Sequence[Any]) -> bool:
    try:
        size = sum(map(len, map(bytes.fromhex, values)))
    except (TypeError, ValueError):
        return False
    return sum(map(len, values)) == 2 * size  # fromhex passes blanks over


def _refuse_blobs(value: Any, place: _Place) -> None:
    if not isinstance(value, str):
        _refuse("hexadecimal text", value, place)
    if not _are_blobs([value]):
        raise ReportFileError(
            f"{value:.20} is not hexadecimal, two digits a byte",
            where=place_text("boardprof", *place),
        )


_BLOBS: Final = _Check(_are_blobs, _refuse_blobs)
_TEXT: Final = _single("a string", str)
_INTEGER: Final = _single("an integer", int)
_NUMBER: Final = _single("a number", int, float)
_FLAG: Final = _single("true or false", bool)
_TEXTS: Final = _array_of(_TEXT)
_INTEGERS: Final = _object_of(_INTEGER)

_SAMPLE_MEMBERS: Final = {
    "raw": _INTEGERS,
    "wraps": _INTEGERS,
    "ambiguous": _TEXTS,
    "estimated": _TEXTS,
    "blobs": _BLOBS,
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
_COSTS: Final = _array_of(_array_of(_INTEGER))
_PLACES: Final = _array_of(_array_of(_single("a string or an integer", str, int)))
_HOTSPOTS: Final = {
    "function": _TEXT,
    "board": _TEXT,
    "columns": _TEXTS,
    "exact": _FLAG,
    "state": _TEXT,
    "failure": _TEXT,
    "total": _array_of(_INTEGER),
    "counted": _INTEGERS,
    "symbols": _PLACES,
    "totals": _COSTS,
    "paths": _COSTS,
    "calls": _COSTS,
    "frames": _PLACES,
    "instructions": _PLACES,
    "counts": _COSTS,
    "sources": _object_of(_TEXT),
}
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
        "hotspots": _or_null(_object(_HOTSPOTS)),
    }
)
_BOARDPROF: Final = _object(
    {
        "devices": _object_of(_DEVICE),
        "measurements": _array_of(_MEASUREMENT),
        "missing": _TEXTS,
    }
)
