# SPDX-License-Identifier: Apache-2.0
"""Measure the versions in one image, on one boot of the board, and make results of that.

The arrays are sent once, and the empty function is calibrated once for all versions with the same
signature. On a deterministic board each version is called once: that call gives its cost and its
output.
"""

from __future__ import annotations

import copy
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy.typing as npt

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
from boardprof.jobs.run.expectation import Expectation, check_outputs
from boardprof.jobs.tune.candidate import FLASH, RAM, STACK, MeasureError, MeasureResult
from boardprof.measure.board.board import Board
from boardprof.measure.board.functions import RemoteFunction
from boardprof.measure.sampling.available_metrics import asks_core_cycles
from boardprof.measure.sampling.counted_pass import CountedPass, PackedCall
from boardprof.measure.sampling.measure_function import PassQueue, Rounds, paint_stack
from boardprof.measure.sampling.placement import Placement
from boardprof.results.record import Stack
from boardprof.results.report.assemble import samples_of
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.profile import CORE_CYCLES, Profile
from boardprof.target.arguments.argument_text import ArgumentText
from boardprof.target.arguments.passing import Passing
from boardprof.target.arguments.signature import in_order
from boardprof.wire.decode.samples import Sample
from boardprof_protocol.codes import MeasureFlag

ArgumentValues = Sequence[object] | Mapping[str, object]
"""Arguments by position or by name. Texts of the command line are `ArgumentText`."""


@dataclass(frozen=True)
class Settings:
    """How versions are measured."""

    arguments: ArgumentValues
    metrics: tuple[str, ...]  # that the cost and constraints need
    number: int = 1  # calls in each sample
    warmup: int | None = None  # None for none on an emulated board, one on others
    repeat: int | None = None  # None for one on an emulated board, five on others
    # by parameter; "return" is the result, None the only output
    expected: Mapping[str | None, npt.NDArray[Any]] = field(default_factory=dict)
    tolerance: float = 0.0


def rounds_on(board: Board, warmup: int | None, repeat: int | None, number: int) -> Rounds:
    """Return how often a board calls each version; see `Settings`."""
    is_exact = board.device.emulated
    warmup = (0 if is_exact else 1) if warmup is None else warmup
    repeat = (1 if is_exact else 5) if repeat is None else repeat
    return Rounds(warmup, repeat, number)


class Measuring:
    """One boot of a board, with the arrays of the versions. Use it in a ``with``."""

    def __init__(self, board: Board, settings: Settings) -> None:
        """Take a connected board, which is closed at the end, or at an error."""
        self.board = board
        try:
            self._plan(settings)
        except BaseException:
            board.close()
            raise

    def _plan(self, settings: Settings) -> None:
        board = self.board
        self._settings = settings
        self._rounds = rounds_on(board, settings.warmup, settings.repeat, settings.number)
        wanted = [name for name in settings.metrics if name not in (FLASH, RAM, STACK)]
        passes = board.offer.passes(wanted or None)
        takes_all = not any(each.events for each in passes)
        if takes_all:  # the other fixed counters cost nothing
            passes = board.offer.passes(None)
        self._passes, self._takes_all = passes, takes_all
        self._queue = self._all_passes()
        self._counted: list[CountedPass] = []
        self._calibrations: list[tuple[Sample, ...]] = []
        self._signature = ""
        self._arrays: _Arrays | None = None

    def _all_passes(self) -> PassQueue:
        return PassQueue(self.board.link, self._passes, may_drop=self._takes_all)

    def __enter__(self) -> Self:
        """Return it; the arrays are sent with the first version."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the session; a board that was started for it ends, too."""
        self.board.close()

    def measure(self, name: str, function: str) -> Measurement:
        """Measure a function of the image, and check its output; messages call it ``function``."""
        remote = self.board.measurable(name)
        self.board.stack_check.require(name)
        arrays = self._arrays_for(remote)
        arrays.restart()
        call = arrays.call(remote, function)
        self._calibrate(call, arrays)
        calls_before = self.board.calls_before
        rounds, number = self._rounds, self._rounds.number
        windows = []
        for counted, calibration in zip(self._counted, self._calibrations, strict=True):
            taken = counted.take(
                call,
                rounds.warmup,
                rounds.repeat,
                number,
                flags=counted.flags | MeasureFlag.RESULT,
                prepare=arrays.prepare,
            )
            windows.append(counted.result([taken], calibration))
        result = taken.result
        if number > 1 or not taken.returned:
            arrays.restart()
            call = arrays.call(remote, function)
            result = call.execute(self.board.session.value)
        outputs = arrays.fetch()
        result = remote.reported(result, arrays.placement, outputs)
        measurement = self.board.described(
            Measurement(
                function,
                self._queue.device(windows),
                number,
                rounds.warmup,
                tuple(windows),
                arguments=arrays.arguments.text,
                stack=self._stack(arrays, remote, function),
                result=result,
                result_type=remote.signature.result,
                outputs=outputs,
                profile=self._profile(remote),
            ),
            calls_before,
        )
        expected = self._settings.expected
        wanted = [Expectation(key, "what was expected", array) for key, array in expected.items()]
        check_outputs(measurement, wanted, self._settings.tolerance)
        return measurement

    def renew(self) -> None:
        """Send the arrays again: a version that failed may have written to them."""
        if self._arrays is not None:
            self._arrays.renew()

    def _stack(self, arrays: _Arrays, remote: RemoteFunction, function: str) -> Stack | str | None:
        if STACK not in self._settings.metrics:
            return None
        arrays.restart()
        call = arrays.call(remote, remote.info.name)  # the name that its frames have in the image
        found = paint_stack(self.board.link, call)
        return found.replace(remote.info.name, function) if isinstance(found, str) else found

    def _profile(self, remote: RemoteFunction) -> Profile | None:
        """Return the profile of a call, if its core cycles are wanted."""
        if not asks_core_cycles(self._settings.metrics):
            return None
        values = _copied(remote, self._settings.arguments)
        return self.board.hotspots(remote.info.name, *values, warmup=self._rounds.warmup)

    def _arrays_for(self, remote: RemoteFunction) -> _Arrays:
        """Return the placed arrays; they stay as long as the signature is the same."""
        if self._arrays is None or remote.info.signature != self._signature:
            if self._arrays is not None:
                self._arrays.close()
            self._arrays = None
            self._arrays = _Arrays(self.board, remote, self._settings.arguments)
            self._signature = remote.info.signature
            self._calibrations = []
        return self._arrays

    def _calibrate(self, call: PackedCall, arrays: _Arrays) -> None:
        if not self._counted:
            self._queue = self._all_passes()  # an earlier version may have failed within them
            try_out = partial(CountedPass.try_out, call=call)
            self._counted = [*iter(partial(self._queue.next, try_out), None)]
        if not self._calibrations:
            # On a real clock, an empty window must come after the same work as a sample's window.
            prepare = arrays.prepare if self.board.link.is_real_time else None
            self._calibrations = [
                each.calibrate(call, self._rounds.number, prepare=prepare).samples
                for each in self._counted
            ]


# -- arrays ------------------------------------------------------------------------------------


class _Arrays:
    """The arrays of calls with the same signature, on the board; the caller's are never changed."""

    def __init__(self, board: Board, remote: RemoteFunction, values: ArgumentValues) -> None:
        """Reserve and send the arrays."""
        self.arguments = remote.bind(_copied(remote, values), {})
        self._before = [
            None if each.array is None else each.array.copy() for each in self.arguments.arrays
        ]
        self._is_written = any(each.passing is Passing.OUT for each in self.arguments.arrays)
        self._is_kept = any(each.is_kept for each in self.arguments.arrays)
        self._stack = ExitStack()
        self.placement = Placement(board.memory, self.arguments, put_back=True)
        self._stack.enter_context(self.placement)
        self._is_fresh = True

    @property
    def prepare(self) -> Callable[[], None] | None:
        """What must be done before each round; None if the board restores the arrays itself."""
        return self.placement.send_again if self.placement.sends_again else None

    def call(self, remote: RemoteFunction, function: str) -> PackedCall:
        """Return a call of a version, with another name for messages."""
        return self.placement.call(replace(remote.info, name=function))

    def restart(self) -> None:
        """Let the next version find the arrays as they were given."""
        # Otherwise an array that it should have written might still have the right content.
        if not self._is_fresh and self._is_kept:
            self.placement.renew()
        elif not self._is_fresh:
            self.placement.send_again()
            if self._is_written:
                self.placement.renew_outputs()
        self._is_fresh = False

    def fetch(self) -> dict[str, npt.NDArray[Any]]:
        outputs = self.placement.fetch()
        for argument, before in zip(self.arguments.arrays, self._before, strict=True):
            array = argument.array
            if array is not None and argument.is_returned and array.flags.writeable:
                array[...] = before
        return outputs

    def renew(self) -> None:
        self.placement.renew()
        self._is_fresh = True

    def close(self) -> None:
        self._stack.close()


def _copied(remote: RemoteFunction, values: ArgumentValues) -> list[object]:
    """Return copies of the arguments in order; one array given twice stays one array."""
    signature = remote.signature
    names = [name for name, _ in signature.parameters]
    copied = copy.deepcopy(values)
    given = copied if isinstance(copied, Mapping) else {}
    args = () if isinstance(copied, Mapping) else copied
    ordered = in_order(remote.info.name, signature, args, given)
    return [
        value.value(signature.pointers.get(name)) if isinstance(value, ArgumentText) else value
        for name, value in zip(names, ordered, strict=True)
    ]


# -- results ---------------------------------------------------------------------------------

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
    measurement: Measurement,
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
    samples, stack = samples_of(measurement), measurement.stack
    metrics = {name: statistics.median(each) for name, each in samples.items()}
    metrics |= sizes or {}
    if isinstance(stack, Stack):
        metrics[STACK] = float(stack.used)
    for name in wanted:  # it may have been given by another name
        found = metric_called(name, metrics)
        if found is not None:
            metrics[name] = metrics[found]
    profile = measurement.profile
    unknown = {
        STACK: stack if isinstance(stack, str) else "",
        CORE_CYCLES: "" if profile is None else profile.unmodelled,
    }
    error = _broken(metrics, unknown, wanted, limits or {})
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
    unknown: Mapping[str, str],
    wanted: Sequence[str],
    limits: Mapping[str, float],
) -> BoardprofError | None:
    """Return the error of a limit that is broken, or of a metric that is not known, and why."""
    for name in wanted:
        if name not in metrics:
            why = unknown.get(metric_called(name, unknown) or "", "")
            return CheckFailedError(f"{name} is not known{f': {why}' if why else ''}.")
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
