# SPDX-License-Identifier: Apache-2.0
"""Check of what a Report's JSON has under ``boardprof``; see docs/report.schema.json.

A value that is present must have the right type, so that readers need not check. Nothing is
required, and unknown keys are ignored. A single value may be null if it is not known.

The types are written as Python data. ``str``: text or null; ``(str, int)``: text, an integer or
null; ``[int]``: an array; ``{"name": str}``: an object with known keys; ``{str: int}``: an object
with any keys; ``OrNull([int])``: an array or null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any, Final, NamedTuple

from boardprof.base.errors import ReportFileError
from boardprof.results.report.calls import place_text
from boardprof.show.json_reader import json_kind, need_object


class OrNull(NamedTuple):
    """An array or object that may be null."""

    type: Any


class _Hex:
    """Bytes as text: two hexadecimal digits each."""


_NEEDED: Final = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    (int, float): "a number",
    (str, int): "a string or an integer",
    _Hex: "hexadecimal text",
}

_SAMPLE: Final = {
    "raw": {str: int},
    "wraps": {str: int},
    "ambiguous": [str],
    "estimated": [str],
    "blobs": _Hex,
}
_PASS: Final = {
    "collectors": [int],
    "events": {str: [str]},
    "samples": [_SAMPLE],
    "calibration_samples": [_SAMPLE],
    "totals": [_SAMPLE],
}
_COUNTER: Final = {
    "name": str,
    "source": str,
    "bits": int,
    "hz": int,
    "coarse_hz": int,
    "counts_in_sleep": bool,
    "status": int,
    "detail": int,
}
_COLLECTOR: Final = {
    "index": int,
    "name": str,
    "schema_id": int,
    "version": int,
    "layout_crc": int,
    "counters": [_COUNTER],
}
_DEVICE: Final = {
    "clock_kind": str,
    "emulated": bool,
    "port": str,
    "agent_version": str,
    "build_id": str,
    "boot_id": int,
    "cflags": [str],
    "unsupported": {str: str},
    "collectors": [_COLLECTOR],
}
_SAMPLED = ("calls", "wanted", "seed", "outside", "unreadable")
_HOTSPOTS: Final = {
    "function": str,
    "board": str,
    "columns": [str],
    "exact": bool,
    "state": str,
    "failure": str,
    "total": [int],
    "counted": {str: int},
    "symbols": [[(str, int)]],
    "totals": [[int]],
    "paths": [[int]],
    "calls": [[int]],
    "frames": [[(str, int)]],
    "instructions": [[(str, int)]],
    "counts": [[int]],
    "sources": {str: str},
    "newer": [str],
    "sampled": OrNull({"timer": str, **dict.fromkeys(_SAMPLED, int)}),
}
_MEASUREMENT: Final = {
    **_PASS,
    "name": str,
    "device": str,
    "arguments": str,
    "inputs_crc32": str,
    "label": str,
    "flags": str,
    "build_id": str,
    "number": int,
    "warmup": int,
    "calls_before": int,
    "calibration": {str: int},
    "compilers": [str],
    "libc": str,
    "source": {str: (str, int)},
    "cold": OrNull({**_SAMPLE, "metrics": {}, "calibration": {str: int}}),
    "stack": OrNull({str: int}),
    "stack_unknown": str,
    "clock_fit": OrNull({str: (int, float)}),
    "outputs": {str: {}},
    "formulas": {str: [str]},
    "further_passes": [_PASS],
    "hotspots": OrNull(_HOTSPOTS),
}
_EXTRA: Final = {
    "devices": {str: _DEVICE},
    "measurements": [_MEASUREMENT],
    "missing": [str],
}


def check_extra(extra: Mapping[str, Any]) -> None:
    """Check the types of what a Report's JSON has under ``boardprof``.

    Raises:
        ReportFileError: a value has the wrong type; the message names its place.
    """
    if not _have_type([extra], _EXTRA):
        _refuse(extra, _EXTRA)


def _have_type(values: Sequence[Any], needed: Any) -> bool:
    """Tell whether all values have a type; checking many together is ten times as fast."""
    if isinstance(needed, OrNull):
        return _have_type([value for value in values if value is not None], needed.type)
    if isinstance(needed, list):
        is_right = {*map(type, values)} <= {list}
        return is_right and _have_type([*chain.from_iterable(values)], needed[0])
    if isinstance(needed, dict):
        if not {*map(type, values)} <= {dict}:
            return False
        if str in needed:
            return _have_type([*chain.from_iterable(map(dict.values, values))], needed[str])
        return all(
            _have_type([value[name] for value in values if name in value], part)
            for name, part in needed.items()
        )
    if needed is _Hex:
        return _are_hex(values)
    return {*map(type, values)} <= {
        *(needed if isinstance(needed, tuple) else [needed]),
        NoneType,
    }


def _are_hex(values: Sequence[Any]) -> bool:
    try:
        size = sum(map(len, map(bytes.fromhex, values)))
    except (TypeError, ValueError):
        return False
    return sum(map(len, values)) == 2 * size  # fromhex ignores blanks


def _refuse(value: Any, needed: Any, *place: str | int) -> None:
    """Raise for the first part of a value that does not have its type."""
    if isinstance(needed, OrNull):
        if value is not None:
            _refuse(value, needed.type, *place)
    elif isinstance(needed, dict):
        for name, item in need_object(value, "boardprof", *place).items():
            if str in needed or name in needed:
                _refuse(item, needed.get(str, needed.get(name)), *place, name)
    elif isinstance(needed, list):
        if not isinstance(value, list):
            raise _error(f"a JSON array is needed, not {json_kind(value)}", place)
        for number, item in enumerate(value):
            _refuse(item, needed[0], *place, number)
    elif needed is _Hex and isinstance(value, str):
        if not _are_hex([value]):
            raise _error(f"{value:.20} is not hexadecimal, two digits a byte", place)
    elif not _have_type([value], needed):
        raise _error(f"{_NEEDED[needed]} is needed, not {json_kind(value)}", place)


def _error(message: str, place: Sequence[str | int]) -> ReportFileError:
    return ReportFileError(message, where=place_text("boardprof", *place))
