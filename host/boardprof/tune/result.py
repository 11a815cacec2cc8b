# SPDX-License-Identifier: Apache-2.0
"""The result of measuring one candidate; the first four fields have TVM's names and meaning."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy.typing as npt

from boardprof import errors
from boardprof.elf.binutils import Location
from boardprof.errors import (
    BoardprofError,
    BoardTimeoutError,
    BuildError,
    CheckFailedError,
    DeviceTimeoutError,
    UsageError,
)

FLASH, RAM, STACK = "Flash (bytes)", "RAM (bytes)", "Stack (bytes)"
"""Names of the sizes among the metrics."""

SHORT_NAMES = {"flash": FLASH, "ram": RAM, "stack": STACK, "time": "Duration (us)"}
"""Short names of metrics, for constraints and goals."""

_FORMAT = 1


class MeasureError(IntEnum):
    """Why a candidate has no cost. The numbers up to 8 are TVM's."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    """The candidate is not valid, or the arguments do not fit its function."""
    COMPILE_HOST = 2
    """Not used: nothing is compiled for the host."""
    COMPILE_DEVICE = 3
    """It does not compile or link."""
    RUNTIME_DEVICE = 4
    """It trapped, or ended the board."""
    WRONG_ANSWER = 5
    """Its output is not the expected one."""
    BUILD_TIMEOUT = 6
    """Not used: a compiler that does not end is a COMPILE_DEVICE."""
    RUN_TIMEOUT = 7
    """It did not end in time."""
    UNKNOWN_ERROR = 8
    """Anything else."""
    OVER_LIMIT = 9
    """It is right, but it breaks a constraint."""


@dataclass(frozen=True)
class MeasureResult:
    """The result of one candidate.

    Attributes:
        costs: the cost of a call, one for each sample; () if it has none. Lower is better.
        error_no: why it has none.
        all_cost: seconds that compiling and measuring took.
        timestamp: seconds since the epoch, at the end of the measurement.
        metrics: of a call: the medians of all counters, and sizes. Those of candidates that break a
            constraint are kept, too.
        error: what went wrong, with file and line where they are known.
        build_s: the part of ``all_cost`` for compiling. Linking is shared out evenly.
        run_s: the part for the board.
        key: digest of all that the result depends on; "" if it did not compile.
        is_known: it was not measured now: a candidate with the same code was, or the history has
            it.
        outputs: what the function returned (as ``return``) and wrote, by parameter; empty if it is
            from the history.
    """

    costs: tuple[float, ...]
    error_no: MeasureError
    all_cost: float
    timestamp: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: BoardprofError | None = None
    build_s: float = 0.0
    run_s: float = 0.0
    key: str = ""
    is_known: bool = False
    outputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def cost(self) -> float:
        """The median cost of a call; infinite if there is none."""
        return statistics.median(self.costs) if self.costs else float("inf")

    @property
    def ok(self) -> bool:
        """Whether it has a cost: it ran, its output is right, and it breaks no constraint."""
        return bool(self.costs)


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
        "format": _FORMAT,
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
    if data.get("format") != _FORMAT:
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
