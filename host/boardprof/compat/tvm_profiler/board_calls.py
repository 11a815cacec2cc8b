# SPDX-License-Identifier: Apache-2.0
"""Calls of boards for TVM's interface: what is counted, one sample a request, and shared arrays.

With ``Board.measure`` the board takes as many samples in one request as fit its buffer. Here the
host acts around each sample, or goes on to the next function. An array of a program is on a board
once, for all calls that take it: the next call reads there what one call has written.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self, TypeAlias

import numpy as np

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
from boardprof.measure.board.functions import RemoteFunction
from boardprof.measure.connect import Firmware
from boardprof.measure.sampling.available_metrics import lack_text
from boardprof.measure.sampling.counted_pass import UNMASKED, CountedCalls, CountedPass, PackedCall
from boardprof.measure.sampling.measure_function import PassQueue, Rounds
from boardprof.measure.sampling.placement import Placement
from boardprof.results.report.calls import STACK
from boardprof.target.arguments.array_argument import ArrayArgument
from boardprof.target.arguments.binding import Arguments, check_overlap
from boardprof.target.arguments.dtypes import element_dtype
from boardprof.target.arguments.passing import Passing
from boardprof.target.arguments.signature import in_order
from boardprof.target.cfunction import Pointer, Scalar, Struct
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
    given = list(collectors)
    for each in given:
        if not isinstance(each, str | MetricCollector):
            raise _no_collector(each)
    of_board = [each for each in given if isinstance(each, str | PAPIMetricCollector)]
    of_host = [e for e in given if not isinstance(e, str | PAPIMetricCollector)]
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
    hint = "derive its class from boardprof.MetricCollector"
    if isinstance(value, type):
        hint = f"pass an object of it: {value.__name__}()"
    return UsageError(
        f"{value!r:.60} is not a collector: it is neither a name nor a MetricCollector.", hint=hint
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


# -- calls of a program --------------------------------------------------------------------------

_PROGRAM = "the program"
_BIN_HEAD = 2


@dataclass(frozen=True, eq=False)
class ProgramCall:
    """A call of a packed function with its arguments."""

    board: Board
    remote: RemoteFunction
    arguments: Arguments  # the arrays are the caller's and are read when the program runs
    shapes: str  # in TVM's form: float32[1, 64], float32[64], and scalars by value
    label: str | None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.remote.info.name

    @property
    def host_call(self) -> HostCall:
        """The call for observers."""
        return HostCall(self.board, self.remote, arguments=self.arguments, label=self.label)

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that are the same for the same function, in any build."""
        # So equal layers are one row in an aggregated table, and match those of another Report.
        text = f"{self.name}{self.remote.info.signature}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def program_call(
    board: Board,
    function: str,
    args: Sequence[object],
    named: Mapping[str, object],
    label: str | None,
) -> ProgramCall:
    """Bind a call's arguments; nothing is sent."""
    if not isinstance(label, str | None):
        raise UsageError(f"label={label!r:.60} is not a string.", hint=f'label="{label!s:.40}"')
    remote = board.measurable(function)
    arguments = remote.bind(args, named)
    parameters = [name for name, _ in remote.signature.parameters]
    own = {name: value for name, value in named.items() if name in parameters}
    values = in_order(function, remote.signature, args, own)
    parts = arguments.parts[: len(parameters)]  # without the place of a returned struct
    texts = [
        _shape(part, remote.signature.pointers[name]) if isinstance(part, ArrayArgument) else f"{v}"
        for name, part, v in zip(parameters, parts, values, strict=True)
    ]
    return ProgramCall(board, remote, arguments, ", ".join(texts), label)


def inputs_of(calls: Sequence[ProgramCall]) -> list[str]:
    """Return for each call a CRC-32 of what decides what it finds in its arrays; "" if nothing."""
    # These are constant arrays, and what earlier calls found that wrote to its arrays. What else is
    # in a written array at the beginning does not count: mostly it is left from the run before.
    written: dict[object, int] = {}
    found = []
    for call in calls:
        arrays = call.arguments.arrays
        crc, is_given = 0, False
        for place, array in enumerate(arrays):
            earlier = written.get(_key(array))
            if earlier is None and array.passing is Passing.IN:
                crc = zlib.crc32(b"%d " % place + array.content(), crc)
            elif earlier is not None:
                crc = zlib.crc32(b"%d %d" % (place, earlier), crc)
            is_given |= earlier is not None or array.passing is Passing.IN
        found.append(f"{crc:08x}" if is_given else "")
        for place, array in enumerate(arrays):
            if array.is_returned:
                written[_key(array)] = zlib.crc32(f"{call.name} {place}".encode(), crc)
    return found


def _shape(argument: ArrayArgument, pointer: Pointer) -> str:
    """Return ``float32[4, 4]``; for a block, its number of the pointer's elements."""
    if argument.block is None:
        return argument.shape_text.replace(",", ", ")
    element, size = pointer.element, argument.block.size
    if isinstance(element, Scalar):
        return f"{element_dtype(element).name}[{size // element.size}]"
    if isinstance(element, Struct) and element.size:
        return f"{element.name}[{size // element.size}]"
    return argument.shape_text


# -- arrays ------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Placed:
    """The arrays, blocks and NULL of a board's calls, each once, and their spans when placed."""

    arguments: dict[object, ArrayArgument] = field(default_factory=dict)
    placement: Placement = field(init=False)
    spans: dict[object, bytes] = field(default_factory=dict)


class ProgramArrays:
    """The placed arrays of a program's calls. Use it in a ``with``."""

    def __init__(self, calls: Sequence[ProgramCall]) -> None:
        """Find which arrays are the same; nothing is sent yet."""
        self._boards: dict[Board, _Placed] = {}
        for index, call in enumerate(calls):
            placed = self._boards.setdefault(call.board, _Placed())
            for argument in call.arguments.arrays:
                named = replace(argument, name=f"{argument.name} of call {index} ({call.name})")
                key = _key(argument)
                known = placed.arguments.get(key)
                placed.arguments[key] = named if known is None else _joined(known, named)
        for placed in self._boards.values():
            _check_overlaps(placed.arguments.values())
        _check_crossing([placed.arguments for placed in self._boards.values()])
        self._stack = ExitStack()
        self._is_fresh = False

    def __enter__(self) -> Self:
        """Reserve the blocks and send the arrays."""
        with ExitStack() as stack:
            for board in sorted(self._boards, key=id):  # so two threads do not wait for each other
                stack.enter_context(board.session.exclusive(_PROGRAM))
            for board, placed in self._boards.items():
                bound = Arguments(_PROGRAM, tuple(placed.arguments.values()), "")
                placed.placement = Placement(board.memory, bound)
                placed.placement.why_again = "the board would restore a copy before each call"
                stack.enter_context(placed.placement)
            self._stack = stack.pop_all()
        self._pack()
        self._is_fresh = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the blocks."""
        self._stack.__exit__(kind, error, trace)

    def restart(self) -> None:
        """Reset written arrays to the caller's values, and those in `Out` to zeros."""
        if not self._is_fresh:
            for placed in self._boards.values():
                placed.placement.send_again()
                placed.placement.renew_outputs()
            self._pack()
        self._is_fresh = False

    def call(self, call: ProgramCall) -> PackedCall:
        """Return a call with its arguments at their places on the board."""
        spans = self._boards[call.board].spans
        parts = call.arguments.parts
        packed = [part if isinstance(part, bytes) else spans[_key(part)] for part in parts]
        return PackedCall(call.remote.info, b"".join(packed), len(packed))

    def fetch(self) -> None:
        """Read written arrays back into the caller's arrays."""
        for placed in self._boards.values():
            placed.placement.fetch()

    def _pack(self) -> None:
        """Split the spans of each placement: each is a bin 8 of msgpack."""
        for placed in self._boards.values():
            content = placed.placement.content
            at = 0
            for key in placed.arguments:
                end = at + _BIN_HEAD + content[at + 1]
                placed.spans[key] = content[at:end]
                at = end


def _key(argument: ArrayArgument) -> object:
    """Return a key that is equal for arguments with the same memory, whatever their shapes."""
    array = argument.array
    if array is None:
        return argument.block
    if array.nbytes == 0:
        return id(array)
    address = array.__array_interface__["data"][0]
    form: object = array.nbytes if array.flags.c_contiguous else (array.shape, array.strides)
    return address, array.dtype.str, form


def _joined(first: ArrayArgument, later: ArrayArgument) -> ArrayArgument:
    """Return one argument for two with the same memory, sent and returned as both need."""
    ways = {first.passing, later.passing}
    if first.passing is Passing.OUT or ways == {Passing.IN} or first.array is None:
        return first
    passing = Passing.KEEP if Passing.KEEP in ways else Passing.IN_OUT
    written = later if later.is_returned else first  # one of two views may be read-only
    return replace(written, name=first.name, passing=passing)


def _check_overlaps(arguments: Iterable[ArrayArgument]) -> None:
    """Refuse arrays that share a part of their memory, if one of the two is written."""
    bounds = [
        (*np.lib.array_utils.byte_bounds(each.array), each)
        for each in arguments
        if each.array is not None and each.array.nbytes
    ]
    bounds.sort(key=lambda place: place[:2])
    for index, (_, end, one) in enumerate(bounds):
        for begin, _, other in bounds[index + 1 :]:
            if begin >= end:
                break
            check_overlap(_PROGRAM, one, other)


def _check_crossing(boards: Sequence[Mapping[object, ArrayArgument]]) -> None:
    """Refuse arrays that one board writes and another takes."""
    for board in boards:
        for key, argument in board.items():
            users = [other[key] for other in boards if key in other and argument.array is not None]
            if len(users) > 1 and any(each.is_returned for each in users):
                names = " and ".join(each.name for each in users)
                raise UsageError(
                    f"{names} are the same array on different boards, and one of them writes it.",
                    hint="profile each board's part as a program of its own",
                )
