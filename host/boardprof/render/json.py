# SPDX-License-Identifier: Apache-2.0
"""A Report as JSON, and back; the shape is the one that TVM's code really writes.

::

    {"calls": [{"Name": {"string": "fir"}, "Count": {"count": 10}}],
     "device_metrics": {"cpu0": {"cycles": {"count": 4410}}},
     "configuration": {"Host": {"string": "Linux"}},
     "boardprof": {"schema_version": 1}}

The last key is ours and absent from a Report that has no ``extra``. The text is
ASCII on one line and always valid JSON.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from boardprof.errors import ReportFileError
from boardprof.metrics import MetricJson, metric_from_json, metric_to_json
from boardprof.report.report import SCHEMA_VERSION, Report, Row, place_text

__all__ = ["parse_json", "render_json"]

_KEYS: Final = ("calls", "device_metrics", "configuration", "boardprof")
_FAULT: Final = object()  # stands in the parsed JSON for what cannot be accepted
_NON_FINITE_HINT: Final = 'write non-finite numbers as strings: "inf", "-inf" or "nan"'
_CUT_TOKEN: Final = re.compile(r"-|\.|[eE][-+]?|nu?l?|tr?u?|fa?l?s?")


def render_json(report: Report) -> str:
    """Return the whole Report as one line of JSON."""
    document: dict[str, Any] = {
        "calls": [_row_to_json(row) for row in report.calls],
        "device_metrics": {k: _row_to_json(row) for k, row in report.device_metrics.items()},
        "configuration": _row_to_json(report.configuration),
    }
    if report.extra is not None:
        document["boardprof"] = report.extra
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def parse_json(text: str | bytes) -> Report:
    """Read a Report from JSON.

    Beside what ``render_json`` writes, TVM's output (17 decimals) and the form
    in TVM's documentation (plain strings, no configuration) are read.

    Args:
        text: JSON, as bytes in UTF-8.

    Raises:
        ReportFileError: the text is not a Report; ``where`` is the place in it.
    """
    try:
        return _report(_load(text))
    except RecursionError:
        raise ReportFileError("the JSON is nested too deeply to be a Report") from None


def _report(document: dict[str, Any]) -> Report:
    for key in document:
        if key not in _KEYS:
            raise ReportFileError(f"not a key of a Report; these are {', '.join(_KEYS)}", where=key)
    if "calls" not in document:
        raise ReportFileError('this is not a Report: the key "calls" is missing')
    return Report(
        [_row(row, "calls", i) for i, row in enumerate(_list(document["calls"], "calls"))],
        {
            device: _row(row, "device_metrics", device)
            for device, row in _dict(document.get("device_metrics", {}), "device_metrics").items()
        },
        _row(document.get("configuration", {}), "configuration"),
        _extra(document["boardprof"]) if "boardprof" in document else None,
    )


def _row_to_json(row: Row) -> dict[str, MetricJson]:
    return {name: metric_to_json(metric) for name, metric in row.items()}


def _load(text: str | bytes) -> dict[str, Any]:
    """Parse JSON strictly: no NaN, no Infinity, an object at the top."""
    faults: list[tuple[str, str | None]] = []

    def constant(name: str) -> object:
        faults.append((f"{name} is not JSON", _NON_FINITE_HINT))
        return _FAULT

    def number(digits: str) -> object:
        if math.isfinite(value := float(digits)):
            return value
        faults.append((f"{digits:.40} is too large for a 64-bit float", None))
        return _FAULT

    try:
        document = json.loads(text, parse_constant=constant, parse_float=number)
    except json.JSONDecodeError as error:
        raise _syntax_error(error) from None
    except ValueError as error:  # not UTF-8, or an integer of thousands of digits
        raise ReportFileError(f"the text cannot be read as JSON: {error}") from None
    if faults:
        message, hint = faults[0]
        raise ReportFileError(message, where=_find_fault(document) or "", hint=hint)
    return _dict(document, "")


def _syntax_error(error: json.JSONDecodeError) -> ReportFileError:
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


def _is_cut_short(error: json.JSONDecodeError) -> bool:
    """Tell whether nothing but the rest of one token stands where parsing failed."""
    rest = error.doc[error.pos :].strip()
    if error.msg.startswith("Invalid \\u"):
        return '"' not in rest
    return (
        not rest or error.msg.startswith("Unterminated string") or bool(_CUT_TOKEN.fullmatch(rest))
    )


def _find_fault(value: object, *keys: str | int) -> str | None:
    """Return the place of the first fault in the order of the text."""
    if value is _FAULT:
        return place_text(str(keys[0]), *keys[1:]) if keys else ""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        if (found := _find_fault(item, *keys, key)) is not None:
            return found
    return None


def _row(row: object, root: str, *keys: str | int) -> Row:
    metrics: Row = {}
    for name, value in _dict(row, root, *keys).items():
        try:
            metrics[name] = metric_from_json(value)
        except ValueError as error:
            raise ReportFileError(str(error), where=place_text(root, *keys, name)) from None
    return metrics


def _extra(extra: object) -> dict[str, Any]:
    checked = _dict(extra, "boardprof")
    where = place_text("boardprof", "schema_version")
    if "schema_version" not in checked:
        raise ReportFileError("the schema version is missing", where=where)
    version = checked["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ReportFileError(
            f"the file has schema version {version!r}, this boardprof reads {SCHEMA_VERSION}",
            where=where,
            hint="read it with the release of boardprof that wrote it, or with a newer one",
        )
    return checked


def _dict(value: object, root: str, *keys: str | int) -> dict[str, Any]:
    if not isinstance(value, dict):
        message = f"a JSON object is needed, not {_json_kind(value)}"
        raise ReportFileError(message, where=place_text(root, *keys))
    return value


def _list(value: object, root: str) -> list[Any]:
    if not isinstance(value, list):
        raise ReportFileError(f"a JSON array is needed, not {_json_kind(value)}", where=root)
    return value


def _json_kind(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")
