# SPDX-License-Identifier: Apache-2.0
"""What a candidate's error counts as, and its result as text for the history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from boardprof.base import errors
from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    BuildError,
    CheckFailedError,
    DeviceTimeoutError,
    Location,
    UsageError,
)
from boardprof.results.report.measure_result import MeasureError, MeasureResult

FLASH, RAM, STACK = "Flash (bytes)", "RAM (bytes)", "Stack (bytes)"
"""Names of the sizes among the metrics."""

SHORT_NAMES = {
    "flash": FLASH,
    "ram": RAM,
    "stack": STACK,
    "time": "Duration (us)",
    "duration": "Duration (us)",
}
"""Short names of metrics, for constraints and goals."""

FORMAT = 2
"""Results of other formats are measured again: until 1, they could have too low times, and errors
that were due to other candidates in the image."""


def error_number(error: BoardprofError) -> MeasureError:
    """Return the number for an error."""
    match error:
        case CheckFailedError():
            return MeasureError.WRONG_ANSWER
        case DeviceTimeoutError() | BoardTimeoutError():
            return MeasureError.RUN_TIMEOUT
        case BuildError():
            return MeasureError.COMPILE_DEVICE
        case UsageError():
            return MeasureError.INSTANTIATION_ERROR
        case errors.DeviceError() | errors.LinkError() | errors.BoardError():
            return MeasureError.RUNTIME_DEVICE
    return MeasureError.UNKNOWN_ERROR


# -- as text, for the history ------------------------------------------------------------------


def result_to_text(result: MeasureResult) -> str:
    """Return a result as JSON, without outputs."""
    data: dict[str, Any] = {
        "format": FORMAT,
        "costs": result.costs,
        "error_no": result.error_no,
        "timestamp": result.timestamp,
        "metrics": dict(result.metrics),
        "key": result.key,
    }
    if result.error is not None:
        data["error"] = _error_to_data(result.error)
    return json.dumps(data)


def result_from_text(text: str) -> MeasureResult | None:
    """Return the result that `result_to_text` wrote. None if another version wrote it."""
    data = json.loads(text)
    if data.get("format") != FORMAT:
        return None
    error = data.get("error")
    return MeasureResult(
        tuple(data["costs"]),
        MeasureError(data["error_no"]),
        0.0,
        data["timestamp"],
        data["metrics"],
        None if error is None else _error_from_data(error),
        key=data["key"],
        is_known=True,
        is_from_history=True,
    )


def _error_to_data(error: BoardprofError) -> dict[str, Any]:
    facts = {
        name: value
        for name, value in vars(error).items()
        if isinstance(value, str | int | float | None) and name not in ("message", "hint")
    }
    location = getattr(error, "location", None)
    return {
        "type": next(
            kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__)
        ),
        "message": error.message,
        "hint": error.hint,
        "facts": facts,
        "location": None if location is None else [location.path, location.line, location.function],
    }


def _error_from_data(data: Mapping[str, Any]) -> BoardprofError:
    kind = getattr(errors, data["type"])
    error: BoardprofError = kind.__new__(kind, data["message"])
    vars(error).update(data["facts"], message=data["message"], hint=data["hint"])
    if data["location"] is not None:
        vars(error)["location"] = Location(*data["location"])
    return error
