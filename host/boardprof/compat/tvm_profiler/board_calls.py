# SPDX-License-Identifier: Apache-2.0
"""Calls of a board for TVM's interface: which board, what is counted, and one sample a request.

With ``Board.measure`` the board takes as many samples in one request as fit its buffer. Here the
host acts around each sample, or goes on to the next function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeAlias

from boardprof.base.errors import LinkError, UnknownNameError, UsageError
from boardprof.base.metrics import metric_called
from boardprof.compat.tvm_profiler.host_collectors import (
    Collecting,
    DeviceWrapper,
    MetricCollector,
    PAPIMetricCollector,
)
from boardprof.measure.board.board import (
    OBSERVERS,
    Board,
    HostCall,
    observe,
    prepare_observers,
    watched,
)
from boardprof.measure.connect import Firmware
from boardprof.measure.sampling.available_metrics import lack_text
from boardprof.measure.sampling.counted_pass import UNMASKED, CountedCalls, CountedPass, PackedCall
from boardprof.measure.sampling.measure_function import PassQueue, Rounds
from boardprof.measure.sampling.placement import Placement
from boardprof.results.report.calls import STACK
from boardprof_protocol.codes import MeasureFlag

Collector: TypeAlias = str | MetricCollector
"""The name of a collector of the board, or one that runs on the host."""

Module: TypeAlias = Board | Firmware
"""A source of functions: a connected board, or an image to start."""

_SYSTEM_CLOCK = "duration_time"
_WITHOUT_TIME = ("instructions", "ticks")


Chosen: TypeAlias = dict[Board, "tuple[str, ...] | None"]
"""What each board counts, as `Board.measure` takes it; None for all of the board."""


def board_of(mod: Module, opened: ExitStack) -> Board:
    """Return a connected board, or start an image, which ends when ``opened`` is closed."""
    if not isinstance(mod, Board | Firmware):
        raise UsageError(
            f"{mod!r:.60} is not a module: pass a connected board or a Firmware.",
            hint="pass the board, and the function's name as func_name",
        )
    board = opened.enter_context(mod.open()) if isinstance(mod, Firmware) else mod
    check_open(board)
    return board


def choose(
    boards: Sequence[Board], collectors: Sequence[Collector] | None
) -> tuple[Chosen, Collecting]:
    """Separate the boards' collectors from those of the host; None is for all of the boards'."""
    # A board with a real clock also times each sample, whatever is chosen. Otherwise, if nothing of
    # the board's is chosen, it counts instructions, else ticks.
    if collectors is None:
        return dict.fromkeys(boards), Collecting([])
    if isinstance(collectors, str | MetricCollector):
        collectors = [collectors]
    if not isinstance(collectors, Iterable):
        raise _no_collector(collectors)
    of_host: list[MetricCollector] = []
    of_board: list[str | PAPIMetricCollector] = []
    for each in collectors:
        if isinstance(each, str | PAPIMetricCollector):
            of_board.append(each)
        elif isinstance(each, MetricCollector):
            of_host.append(each)
        else:
            raise _no_collector(each)
    collecting = Collecting(of_host)
    counters = _counters(boards, of_board)
    return {board: _with_time(board, counters[board]) for board in boards}, collecting


def _with_time(board: Board, metrics: Sequence[str]) -> tuple[str, ...] | None:
    """Add the board's timer; without one, instructions or ticks if there is nothing else."""
    timer = timer_of(board)
    if timer is not None:
        return tuple(dict.fromkeys((*metrics, timer)))
    there = _fixed_counters(board) - board.device.unsupported.keys()
    rest = [name for name in _WITHOUT_TIME if name in there][:1]
    return tuple(metrics or rest) or None


def _fixed_counters(board: Board) -> set[str]:
    return {counter.name for each in board.offer.fixed for counter in each.counters}


def timer_of(board: Board) -> str | None:
    """Return the counter of wall time; None on a simulated clock, or without a clock."""
    if board.device.clock_kind == "simulated":
        return None
    unsupported = board.device.unsupported
    clocks = [
        counter.name
        for each in board.offer.fixed
        for meaning, counter in zip(
            board.link.layouts[each.schema_id].counters, each.counters, strict=True
        )
        if counter.name not in unsupported
        and (counter.name == _SYSTEM_CLOCK or (meaning.unit == "ticks" and counter.hz))
    ]
    return _SYSTEM_CLOCK if _SYSTEM_CLOCK in clocks else next(iter(clocks), None)


def check_open(board: Board) -> None:
    """Raise LinkError if the session with a board is over."""
    if board.session.is_closed:
        raise LinkError(f"{board.session.transport.name} is closed", hint="connect again")


def check_device(board: Board, dev: object) -> None:
    """Check that ``dev`` is None, the board, its name, or a `DeviceWrapper` of it."""
    device = dev.device if isinstance(dev, DeviceWrapper) else dev
    if device is None or device is board or str(device) == board.device.name:
        return
    told = device.device.name if isinstance(device, Board) else device
    raise UsageError(f"The board {board.device.name} has no device {told}.")


def _no_collector(value: object) -> UsageError:
    if isinstance(value, type):
        hint = f"pass an object of it: {value.__name__}()"
    else:
        hint = "derive its class from boardprof.MetricCollector"
    return UsageError(
        f"{value!r:.60} is not a collector: it is neither a name nor a MetricCollector.",
        hint=hint,
    )


def _counters(
    boards: Sequence[Board], collectors: Sequence[str | PAPIMetricCollector]
) -> dict[Board, list[str]]:
    """Return what each board counts of the collectors that it has."""
    supported: dict[Board, list[str]] = {board: [] for board in boards}
    missing: list[str] = []
    named = [each for each in collectors if isinstance(each, str)]
    stack = [each for each in named if metric_called(each, [STACK])]  # found of each call anyway
    for collector in collectors:
        if isinstance(collector, PAPIMetricCollector):
            for board, names in collector.metrics_of(boards).items():
                supported[board] += names
            continue
        if collector in stack:
            continue
        unknown: list[UnknownNameError] = []
        for board in boards:
            try:
                names, reasons = _counters_of(board, collector)
            except UnknownNameError as error:
                unknown.append(error)
            else:
                supported[board] += names
                missing += [f"{name} ({why})" for name, why in reasons.items()]
        if len(unknown) == len(boards):
            known = dict.fromkeys(known for error in unknown for known in error.known)
            raise UnknownNameError("collector or metric", collector, known)
    if named and not stack and not any(supported.values()):  # PAPI has issued its own warning
        names = [board.device.name for board in boards]
        verb = "supports" if len(names) == 1 else "support"
        asked = ", ".join(named)
        raise UsageError(f"{' and '.join(names)} {verb} none of {asked}: {', '.join(missing)}.")
    return supported


def _counters_of(board: Board, name: str) -> tuple[list[str], dict[str, str]]:
    """Return what a collector counts (by itself, if programmable) and what it does not."""
    for programmable in board.offer.programmable:
        if programmable.collector.name == name:
            slots = programmable.select_default()
            # Another collector may have an event of the same name, but this one is meant.
            events = [event.removeprefix(f"{name}.") for event in slots.events]
            return [f"{name}.{event}" for event in events], dict(slots.refused)
    unsupported = board.device.unsupported
    names = [metric_called(name, _fixed_counters(board)) or name]
    if any(each.name == name for each in board.dictionary.collectors):
        names = [counter.name for counter in board.dictionary.collector(name).counters]
    elif names[0] not in _fixed_counters(board):
        _, lacking = board.offer.split(names)
        error = lacking.get(name)
        if isinstance(error, UnknownNameError):
            known = [each.name for each in board.dictionary.collectors]
            raise UnknownNameError("collector or metric", name, [*known, *error.known])
        return ([], {name: lack_text(name, error)}) if error is not None else (names, {})
    return (
        [counter for counter in names if counter not in unsupported],
        {counter: unsupported[counter] for counter in names if counter in unsupported},
    )


# -- samples ------------------------------------------------------------------------------------


def planned_passes(
    board: Board, metrics: Sequence[str] | None, *, mask_interrupts: bool = False
) -> PassQueue:
    """Plan the passes that count metrics, None for all; the board is not programmed yet."""
    flags = board.link.flags(mask=mask_interrupts)
    prepare_observers(board)
    passes = board.offer.passes(metrics)
    return PassQueue(board.link, passes, may_drop=metrics is None, flags=flags)


def bound_call(
    board: Board, function: str, args: Sequence[object], named: Mapping[str, object]
) -> tuple[HostCall, Placement]:
    """Bind a function's arguments; return the call and the arrays' placement, a context manager."""
    remote = board.measurable(function)
    arguments = remote.bind(args, named)
    board.stack_check.require(function)
    call = HostCall(board, remote, arguments=arguments)
    return call, Placement(board.memory, arguments, put_back=True)


def observed_value(call: HostCall, packed: PackedCall) -> object:
    """Call a function once without measuring; return its result."""
    value = observe(call, packed.execute, call.board.session.value)
    call.function.signature.check_result(packed.function.name, value)
    return value


def observed_sample(
    counted: CountedPass,
    call: HostCall,
    packed: PackedCall,
    number: int = 1,
    flags: MeasureFlag | None = None,
) -> CountedCalls:
    """Call a function ``number`` times in one window; to observers each sample is a measurement."""
    # ``packed`` is the same call, with arguments at their current places. ``flags`` is None for
    # those of the pass; `UNMASKED` is checked as a trial of masked windows.
    if OBSERVERS:
        counted.calibration_samples(packed, number)  # first: observers count the sample alone
    with watched(replace(call, rounds=Rounds(0, 1, number))) as watch:
        taken = counted.take(packed, 0, 1, number, flags=flags)
        if watch.observations:
            watch.measurement = counted.measurement(packed, taken, number)
    if flags is UNMASKED:
        counted.check_unmasked(packed, taken)
    return taken
