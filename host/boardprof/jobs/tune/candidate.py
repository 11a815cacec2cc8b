# SPDX-License-Identifier: Apache-2.0
"""A candidate, which is one way to write or compile a function, and what becomes of it."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from boardprof.base.metrics import metric_called
from boardprof.target.build.build_options import BuildOptions

if TYPE_CHECKING:
    import numpy.typing as npt


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


@dataclass(frozen=True)
class Candidate:
    """One way to write or compile the function.

    Attributes:
        source: a file, or several: C, C++, assembler or objects. () takes those of the runner.
        text: C source, instead of a file. Its headers are searched in the runner's include folders.
        flags: compiler flags, after those of the runner; the last ``-O`` counts.
        defines: macros: name -> value. None as a value defines the name alone.
        image: an ELF image that has the function, instead of all that.
    """

    source: str | Path | Sequence[str | Path] = ()
    text: str | None = None
    flags: str = ""
    defines: Mapping[str, object] = field(default_factory=dict)
    image: str | Path | None = None

    def __post_init__(self) -> None:
        """Check that it has one origin."""
        compiled = (bool(self.source), self.text is not None)
        if sum((*compiled, self.image is not None)) > 1:
            raise UsageError(
                "A candidate has one of source, text and image, not several of them.",
                hint="Candidate(text=...) for C source, Candidate(source=...) for files",
            )
        if self.image is not None and (self.flags or self.defines):
            raise UsageError(
                "An image is already compiled, so flags and defines have no effect.",
                hint="leave them out, or give the source",
            )

    @property
    def files(self) -> list[Path]:
        """Its files."""
        source = self.source
        return [Path(source)] if isinstance(source, str | Path) else list(map(Path, source))

    def options(self, base: BuildOptions) -> BuildOptions:
        """Return the options of its compilation, from those of all candidates."""
        given = self.defines.items()
        defines = [name if value is None else f"{name}={value}" for name, value in given]
        return replace(
            base, cflags=f"{base.cflags} {self.flags}", defines=(*base.defines, *defines)
        )


def as_candidates(values: Sequence[Candidate | str | Path]) -> list[Candidate]:
    """Return candidates; see `as_candidate`."""
    if isinstance(values, str | Path | Candidate):
        raise UsageError("One candidate is not a list of candidates.", hint="measure([candidate])")
    return [as_candidate(each) for each in values]


def as_candidate(value: object) -> Candidate:
    """Return a candidate; a text is C source, and a path is a file or an image."""
    if isinstance(value, Candidate):
        return value
    if isinstance(value, str):
        return Candidate(text=value)
    if isinstance(value, Path):
        return Candidate(image=value) if value.suffix in (".elf", ".so") else Candidate(value)
    raise UsageError(
        f"{value!r:.60} is not a candidate.",
        hint="give a Candidate, C source as a text, or a Path",
    )


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
"""Part of results' keys; 1 had too low times, and errors due to other candidates in the image."""


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


def measured_result(
    samples: Mapping[str, Sequence[float]],
    stack: int | str | None,
    wanted: Sequence[str],
    *,
    sizes: Mapping[str, float] | None = None,
    limits: Mapping[str, float] | None = None,
    build_s: float = 0.0,
    run_s: float,
    key: str = "",
    outputs: Mapping[str, npt.NDArray[Any]] | None = None,
) -> MeasureResult:
    """Return the result of what ran and whose output is right; the first metric is the cost."""
    metrics = {name: statistics.median(each) for name, each in samples.items()}
    metrics |= sizes or {}
    if isinstance(stack, int):
        metrics[STACK] = float(stack)
    for name in wanted:  # it may have been given by another name
        found = metric_called(name, metrics)
        if found is not None:
            metrics[name] = metrics[found]
    error = _broken(metrics, stack, wanted, limits or {})
    sampled = metric_called(wanted[0], samples)
    costs = samples[sampled] if sampled else [metrics.get(wanted[0], math.inf)]
    return MeasureResult(
        () if error is not None else tuple(costs),
        MeasureError.NO_ERROR if error is None else MeasureError.OVER_LIMIT,
        build_s + run_s,
        time.time(),
        metrics,
        error,
        build_s,
        run_s,
        key,
        outputs=outputs or {},
    )


def _broken(
    metrics: Mapping[str, float],
    stack: int | str | None,
    wanted: Sequence[str],
    limits: Mapping[str, float],
) -> BoardprofError | None:
    """Return the error of a limit that is broken, or of a metric that is not known."""
    for name in wanted:
        if name not in metrics:
            is_stack = metric_called(name, [STACK]) is not None and isinstance(stack, str)
            return CheckFailedError(f"{name} is not known{f': {stack}' if is_stack else ''}.")
    for name, limit in limits.items():
        if metrics[name] > limit:
            return CheckFailedError(f"{name} is {metrics[name]:,g}, above the limit of {limit:,g}.")
    return None


# -- as text, for the history ------------------------------------------------------------------


def result_to_text(result: MeasureResult) -> str:
    """Return a result as JSON, without outputs."""
    data: dict[str, Any] = {
        "costs": result.costs,
        "error_no": result.error_no,
        "timestamp": result.timestamp,
        "metrics": dict(result.metrics),
        "key": result.key,
    }
    if result.error is not None:
        data["error"] = _error_to_data(result.error)
    return json.dumps(data)


def result_from_text(text: str) -> MeasureResult:
    """Return the result that `result_to_text` wrote."""
    data = json.loads(text)
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
