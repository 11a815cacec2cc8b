# SPDX-License-Identifier: Apache-2.0
"""The result of one measurement for a tuner; four fields have the names and meaning of TVM's."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import BoardprofError
from boardprof.base.metrics import Count, Duration, raw_of
from boardprof.results.report.assemble import rows_of
from boardprof.results.report.calls import PERTURBATION, SHARE, STACK
from boardprof.results.report.emulator_detection import mark_emulators
from boardprof.results.report.measurement import Measurement

if TYPE_CHECKING:
    import numpy.typing as npt

_NOT_PER_CALL = {"Count", SHARE, PERTURBATION, STACK}


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
        is_from_history: it was not measured now: the history has it.
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
    is_from_history: bool = False
    outputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def cost(self) -> float:
        """The median cost of a call; infinite if there is none."""
        return statistics.median(self.costs) if self.costs else float("inf")

    @property
    def ok(self) -> bool:
        """Whether it has a cost: it ran, its output is right, and it breaks no constraint."""
        return bool(self.costs)


def samples_of(measurement: Measurement) -> dict[str, list[float]]:
    """Return a measurement's samples per call, by metric, as a Report has them."""
    found: dict[str, list[float]] = {}
    [measurement] = mark_emulators([measurement])
    for row in rows_of(measurement, {}, False):
        for name, metric in row.items():
            if name in _NOT_PER_CALL or isinstance(metric, str):
                continue
            calls = measurement.number if isinstance(metric, Count | Duration) else 1
            found.setdefault(name, []).append(float(raw_of(metric)) / calls)
    return found
