# SPDX-License-Identifier: Apache-2.0
"""Recording of the host's use of boards over a period of time, with profiles of its calls."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgpack

from boardprof.base.errors import BoardprofError, BuildError, UsageError
from boardprof.base.metrics import metric_called
from boardprof.compat.torch.board_activity import (
    CallProbes,
    DeviceSpan,
    call_probes,
    placed,
    probe_recorder,
    sample_spans,
)
from boardprof.compat.torch.call_counters import CallCounters
from boardprof.compat.torch.host_events import (
    RECORDINGS,
    HostEvent,
    Kind,
    Open,
    begin,
    end,
    end_range,
    innermost_record,
    now_ns,
    place_text,
    this_thread,
)
from boardprof.compat.torch.settings import ProfilerActivity, Settings
from boardprof.measure.board.board import OBSERVERS, Board, HostCall, Observation, unobserved
from boardprof.measure.probe_recorder import ProbeRecorder
from boardprof.measure.sampling.available_metrics import is_duration, lack_text
from boardprof.measure.sampling.board_link import ClockProbe, clock_probe
from boardprof.measure.sampling.counted_pass import Value
from boardprof.results.report.calls import STACK
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.profile import MODELLED, Profile
from boardprof.target.arguments.array_argument import ArrayArgument
from boardprof.target.arguments.binding import Arguments
from boardprof.wire.decode.clock import ClockFit

CHECKED = "instructions"
"""What is counted of a call to see whether its profile is of the same work."""

_NO_STACK = "it takes another call, which board.profile and Program.profile make"


class Recorder:
    """Recorder of calls. Before `keep` it does the same work, but discards the records."""

    def __init__(self, settings: Settings) -> None:
        """Begin to watch; always call `finish` or `drop` later."""
        self.settings = settings
        self.keeps = False
        self.records: list[HostEvent] = []  # in the order in which they began
        # those without an end when recording ended
        self.unfinished: frozenset[HostEvent] = frozenset()
        self.begin_ns = self.end_ns = 0  # the host's clock
        self.unix_ns = 0  # the time of day when it began
        # board and metric -> why it is not counted
        self.lacking: dict[tuple[str, str], str] = {}
        self.unprofiled: dict[str, str] = {}  # board -> why its calls cannot be recorded
        self._profiles: dict[tuple[object, ...], Profile | None] = {}
        self._counters: dict[Board, CallCounters | None] = {}
        self._clocks: dict[Board, ClockProbe] = {}
        self._had: set[str] = set()
        self._ports: dict[str, list[str]] = {}
        self._places: dict[tuple[Board, str], str] = {}
        self._making = threading.Lock()
        OBSERVERS.append(self)

    def keep(self) -> None:
        """Keep what begins from now on."""
        self.begin_ns, self.unix_ns = now_ns(), time.time_ns()
        self.keeps = True
        if ProfilerActivity.CPU in self.settings.activities:
            RECORDINGS.append(self.records)

    def drop(self) -> None:
        """Stop watching."""
        self.keeps = False
        # Compare by identity: lists with the same content are equal.
        RECORDINGS[:] = [each for each in RECORDINGS if each is not self.records]
        if self in OBSERVERS:
            OBSERVERS.remove(self)

    def finish(self) -> None:
        """Stop watching; what was recorded is complete then."""
        self.end_ns = now_ns()
        self.drop()
        self.records = [record for record in self.records if not record.is_refused]
        self.unfinished = frozenset(r for r in self.records if r.end_ns is None)
        fits = {self.name_of(board): _last_fit(clock) for board, clock in self._clocks.items()}
        for record in self.records:
            record.device_spans = _placed(record, fits.get(record.board))

    @property
    def unknown(self) -> list[str]:
        """The requested metrics that no called board has."""
        return list(dict.fromkeys(name for _, name in self.lacking if name not in self._had))

    @property
    def uncalled(self) -> list[str]:
        """The boards that the settings name, and that were not called."""
        return [board for board in self.settings.named_boards if board not in self._ports]

    # -- calls ----------------------------------------------------------------------------------

    def prepare(self, board: Board) -> None:
        """Choose counters and begin to follow the clock."""
        self._counters_of(board)
        if self.settings.records_probes_of(board.device.name):
            probe_recorder(board, self.settings)
        if ProfilerActivity.BOARD in self.settings.activities:
            with self._making:
                self._follow(board)

    def watch(self, call: HostCall) -> Observation | None:
        """Return an observer that records a call."""
        return _CallObservation(self, call, self._counters_of(call.board))

    def _metrics_of(self, board: Board) -> tuple[str, ...]:
        """Return what is counted of each call: what is asked for, else what checks its profile."""
        asked = self.settings.metrics_of(board.device.name)
        records_probes = self.settings.records_probes_of(board.device.name)
        is_checked = self.settings.with_stack and not records_probes
        if asked or not is_checked or not board.spec.launch.record:
            return asked
        counted = {each.name for collector in board.offer.fixed for each in collector.counters}
        return tuple({CHECKED} & counted - board.offer.unsupported.keys())

    def _counters_of(self, board: Board) -> CallCounters | None:
        """Return the counters of a board for the metrics that it has; None if it has none."""
        with self._making:
            if board not in self._counters:
                found, lacking = board.offer.split(self._metrics_of(board))
                stack = [name for name in found if metric_called(name, [STACK, *MODELLED])]
                found = tuple(name for name in found if name not in stack)
                masks = self.settings.mask_interrupts
                may_not = not self.settings.metrics_of(board.device.name)
                counters = None
                if found:
                    counters = CallCounters(board, found, mask_interrupts=masks, only_alone=may_not)
                if counters is not None and counters.read_a_clock:
                    self._follow(board)
                self._counters[board] = counters
                self._had.update(found)
                reasons = {name: lack_text(name, error) for name, error in lacking.items()}
                for name, why in {**reasons, **dict.fromkeys(stack, _NO_STACK)}.items():
                    self.lacking[self.name_of(board), name] = why
            return self._counters[board]

    def _follow(self, board: Board) -> None:
        if board not in self._clocks:
            clock = clock_probe(board.link)
            clock.follow()
            self._clocks[board] = clock

    def name_of(self, board: Board) -> str:
        """Return a board's name, numbered if a board of that name is at another port."""
        name, port = board.device.name, board.device.port
        ports = self._ports.setdefault(name, [])
        if port not in ports:
            ports.append(port)
        number = ports.index(port) + 1
        return name if number == 1 else f"{name} ({number})"

    def place_of(self, call: HostCall) -> str:
        """Return file and line of a called function; "" if they are not known."""
        board, name = call.board, call.function.info.name
        if (board, name) not in self._places:
            found = board.link.image.place_of(name, board.files)
            text = "" if found is None else place_text(found.file, found.line)
            self._places[board, name] = text
        return self._places[board, name]

    def profile_of(self, call: HostCall, board: str) -> Profile | None:
        """Record a call that is about to be made; None if nothing can record it, or if it fails."""
        # The call itself then says why. Calls of one function with equal arguments are recorded
        # once.
        if board in self.unprofiled:
            return None
        bound = call.bound()
        if any(array.links for array in bound.arrays):
            return None  # what their pointers lead to cannot be given again
        contents = tuple(map(_content, bound.parts))
        key = (id(call.board), call.function.info.name, bound.text, contents)
        if key not in self._profiles:
            self._profiles[key] = self._recorded(call, bound, board)
        return self._profiles[key]

    def _recorded(self, call: HostCall, bound: Arguments, board: str) -> Profile | None:
        try:
            with unobserved():
                return call.board.hotspots(call.function.info.name, named=_values(call, bound))
        except BuildError as error:  # also a tool that is missing
            self.unprofiled[board] = error.message
        except UsageError as error:
            hint = f" Hint: {error.hint}" if error.hint else ""
            self.unprofiled[board] = error.message + hint
        except BoardprofError:
            pass
        return None

    def add(self, record: HostEvent) -> None:
        """Add a new record, if records are kept."""
        if self.keeps:
            self.records.append(record)


def _placed(record: HostEvent, fit: ClockFit | None) -> tuple[DeviceSpan, ...]:
    """Place the spans of a record on the host's time; ``fit`` is of its board's clock."""
    begin_ns, end_ns = record.start_ns, record.end_ns or record.start_ns
    found = (placed(span, begin_ns, end_ns, fit) for span in record.device_spans)
    return tuple(replace(span, board=record.board) for span in found)


def _last_fit(clock: ClockProbe) -> ClockFit | None:
    """Ask a board for its clock once more; return the fit, if known."""
    try:
        clock.follow()
    except BoardprofError:  # the session is over: the spans then say that they cannot be placed
        return None
    return clock.fit()


@dataclass(eq=False)
class _CallObservation:
    """Observer of one call."""

    _recorder: Recorder
    _call: HostCall
    _counters: CallCounters | None  # None to count nothing
    _is_made: bool = False
    _open: Open | None = None
    _label: Open | None = None
    _probes: ProbeRecorder | None = None

    def __post_init__(self) -> None:
        call, board = self._call, self._recorder.name_of(self._call.board)
        kind: Kind = "call" if call.rounds is None else "measurement"
        self._record = HostEvent(call.function.info.name, kind, this_thread(), 0, board=board)

    def begin(self) -> None:
        record, settings = self._record, self._recorder.settings
        if settings.with_stack and self._recorder.keeps:
            record.source = self._recorder.place_of(self._call)
            record.profile = self._recorder.profile_of(self._call, record.board)
        records_probes = settings.records_probes_of(self._call.board.device.name)
        # A measurement would count what recording takes, so it goes without.
        if records_probes and self._recorder.keeps and record.kind == "call":
            self._probes = probe_recorder(self._call.board, settings)
            self._probes.__enter__()
        if self._call.label is not None:
            self._begin_label(self._call.label)
        record.around = innermost_record()
        self._open = begin(self, record)
        record.start_ns = now_ns()
        self._recorder.add(record)

    def through(self, value: Value, is_plain: bool) -> Value:
        """Count, if requested, and note that the board was called."""
        if self._counters is not None:
            value = self._counters.through(self._record, self._call.function, value, is_plain)

        def call(function_id: int, packed: bytes, count: int, name: str) -> object:
            result = value(function_id, packed, count, name)
            self._is_made = True
            return result

        return call

    def end(self, measurement: Measurement | None, error: BaseException | None) -> None:
        record, settings = self._record, self._recorder.settings
        ended_ns = now_ns()
        if self._open is not None:
            end(self._open)
        if self._label is not None:
            end_range(self._label)
        self._end_probes(error)
        if error is not None:
            record.error = type(error).__name__
            record.is_refused = isinstance(error, UsageError) and not self._is_made
        elif settings.keeps_arguments:
            self._note_arguments()
        if measurement is not None:
            self._note_samples(measurement)
        record.untimed = self._untimed()
        record.end_ns = ended_ns

    def _begin_label(self, label: str) -> None:
        """Begin a range around the call, as a module has around its layers."""
        record = HostEvent(label, "range", this_thread(), now_ns(), around=innermost_record())
        self._label = begin(self, record)
        self._recorder.add(record)

    def _end_probes(self, error: BaseException | None) -> None:
        recorder, self._probes = self._probes, None
        if recorder is not None:
            recorder.__exit__(type(error) if error else None, error, None)
            if error is None:
                self._note_probes(call_probes(recorder.recording()))

    def _note_probes(self, probes: CallProbes) -> None:
        """Keep what the probes recorded. The counters of the call have counted that work, too."""
        record = self._record
        if not self._recorder.settings.device_ranges_of(self._call.board.device.name):
            probes = replace(probes, ranges=(), marks=())
        record.probes = probes
        if probes.events and record.metrics:
            record.is_raw = True
            spans = record.device_spans
            record.device_spans = tuple(replace(span, duration_us=None) for span in spans)

    def _untimed(self) -> str:
        record, settings = self._record, self._recorder.settings
        if ProfilerActivity.BOARD not in settings.activities:
            return ""
        if record.error:
            return "it ended with an error"
        if self._call.board.device.clock_kind == "simulated":
            return "its clock is simulated and does not measure time"
        if record.is_raw:
            return "its clock was read around more than the function"
        counted = settings.metrics_of(self._call.board.device.name)
        if record.device_spans or any(map(is_duration, counted)):
            return ""
        return 'its clock was not read; metrics="duration" reads it'

    def _note_samples(self, measurement: Measurement) -> None:
        record = self._record
        rounds = len(measurement.samples)
        record.count = rounds * measurement.number
        record.args = {"repeat": rounds, "number": measurement.number}
        record.args["warmup"] = measurement.warmup
        if ProfilerActivity.BOARD in self._recorder.settings.activities:
            record.device_spans = tuple(sample_spans(measurement, self._call.board.link.layouts))
        if self._counters is not None:
            self._counters.note_measurement(record, measurement)

    def _note_arguments(self) -> None:
        call, record = self._call, self._record
        bound = call.bound()
        record.input_shapes = bound.text
        arrays = {each.name: each.array for each in bound.arrays}
        record.dims = {name: a.shape for name, a in arrays.items() if a is not None}
        # A returned struct has a place after the parameters.
        parameters = list(zip(call.function.signature.parameters, bound.parts, strict=False))
        record.values = {
            name: msgpack.unpackb(part) for (name, _), part in parameters if isinstance(part, bytes)
        }
        record.inputs = tuple(_input(part) for _, part in parameters)


# -- arguments ----------------------------------------------------------------------------------


def _input(part: bytes | ArrayArgument) -> tuple[str, tuple[int, ...]]:
    if isinstance(part, bytes):
        return "Scalar", ()
    return ("", ()) if part.array is None else (part.array.dtype.name, part.array.shape)


def _content(part: bytes | ArrayArgument) -> bytes | None:
    if isinstance(part, bytes):
        return part
    return None if part.array is None else part.array.tobytes()


def _values(call: HostCall, bound: Arguments) -> Mapping[str, object]:
    """Return arguments by parameter, arrays as copies: the recorded call may write them."""
    copies: dict[int, object] = {}  # one array given twice stays one
    values: dict[str, object] = {}
    for (name, _), part in zip(call.function.signature.parameters, bound.parts, strict=False):
        if isinstance(part, bytes):
            values[name] = msgpack.unpackb(part)
        else:
            values[name] = copies.setdefault(id(part.array), copy.copy(part.array))
    return values
