# SPDX-License-Identifier: Apache-2.0
"""A connected board: its functions, its counters, its memory, and profiling on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self
from weakref import WeakSet

from boardprof.base.errors import BoardprofError, LinkError, UnknownNameError, UsageError, option
from boardprof.base.printable import bounded
from boardprof.base.processes import cpu_name
from boardprof.measure.board.functions import Functions, RemoteFunction
from boardprof.measure.board.image import BoardImage, StackCheck, check_build
from boardprof.measure.board.memory import Memory
from boardprof.measure.meter import Meter
from boardprof.measure.sampling.available_metrics import (
    ALL,
    asks_core_cycles,
    listed_metrics,
    metric_names,
    offer_of,
)
from boardprof.measure.sampling.board_link import (
    BoardInterrupts,
    BoardLink,
    Collectors,
    clock_probe,
)
from boardprof.measure.sampling.counted_pass import Value
from boardprof.measure.sampling.measure_function import (
    OnNote,
    Progress,
    Rounds,
    Sampling,
    check_range,
    measure_function,
)
from boardprof.measure.sampling.placement import OnTransfer
from boardprof.measure.sampling.programmable import ListedMetric
from boardprof.results.record import Device
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.report import Report
from boardprof.target.arguments.dtypes import Dtypes
from boardprof.target.arguments.passing import copied_arguments
from boardprof.target.cfunction import CFunction
from boardprof.target.descriptions.board import BoardSpec, find_boards
from boardprof.target.elf.addresses import anchored_symbols, locate
from boardprof.target.elf.object_file import compilers_of
from boardprof.target.toolchain.cobs_in_c import load_codec
from boardprof.wire.decode.clock import ClockFit
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.decode.schemas import check_layouts, counting_layouts, with_instructions
from boardprof.wire.link.channels import Channels, Stream
from boardprof.wire.link.replies import Welcome
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import TraceFlag, TraceMode
from boardprof_protocol.layout import Layout

if TYPE_CHECKING:
    from boardprof.measure.hotspots.hotspot_run import HotspotRun
    from boardprof.measure.probe_recorder import ProbeRecorder
    from boardprof.results.probes.run import ProbeRun
    from boardprof.results.report.profile import Profile
    from boardprof.target.arguments.binding import Arguments


OPEN_BOARDS: WeakSet[Board] = WeakSet()
"""The boards of this process, whose names may be those of descriptions that only it knows."""


def check_boards(names: Collection[str]) -> None:
    """Refuse a name that is neither that of a board nor that of one that is connected already."""
    if names:
        known = [*find_boards(), *(board.spec.name for board in OPEN_BOARDS)]
        for name in names:
            if name not in known:
                raise UnknownNameError("board", name, dict.fromkeys(known))


class Board:
    """A session with one board. Use it in a ``with``, or `close` it.

    Attributes:
        spec: the board's description.
        welcome: its answer when the session began.
        dictionary: its functions and collectors.
        offer: the metrics that it can count.
        device: the facts about it for Reports.
        link: its part that a measurement needs.
        functions: its functions.
        sources: by function, facts that the board does not report, such as members of structs.
        collectors: its collectors.
        dtypes: the structs that its functions point to, as numpy types; see `Dtypes`.
        memory: its arena, filled and read through handles.
        stack_check: checks whether its stack is large enough for a function.
        channels: transfer large blocks and streams over the line.
        image: the firmware that it runs; None if not known.
        flags: compiler flags of the functions' code, for Reports. None if unknown.
        libc: the C library in the image, such as ``picolibc``, or ``none``; None if it is the
            system's, or not known.
        compilers: of the functions' code; if the image was not built here, all that it names.
        added: what the build took that was not asked for, in words.
        start_again: starts the same image on another board; None for a board at a port.
        stand_in: starts the same functions on a board whose calls can be recorded, if those of this
            one cannot because it runs in this process; else None.
        files: source files of the functions' code; empty if not known.
    """

    def __init__(
        self,
        spec: BoardSpec,
        session: Session,
        welcome: Welcome,
        dictionary: Dictionary,
        layouts: Mapping[int, Layout],
        *,
        is_started: bool = False,
    ) -> None:
        """Wrap an open session; `connect` is the usual way.

        ``is_started``: it was started for this session, which is its first.
        """
        check_layouts(spec.name, dictionary.collectors, layouts)
        dictionary = with_instructions(dictionary, spec.instruction_ns)
        layouts = counting_layouts(dictionary.collectors, layouts)
        OPEN_BOARDS.add(self)
        self.spec = spec
        self.welcome = welcome
        self.dictionary = dictionary
        self.session = session
        self._is_started = is_started
        self.channels = Channels(session, welcome, dictionary, lambda: load_codec()[0])
        self.memory = Memory(session, welcome, dictionary, self.channels)
        image = BoardImage(f.name for f in dictionary.user_functions)
        self.sources = image.sources
        self.stack_check = StackCheck(spec.name, image)
        self.dtypes = Dtypes(self.sources, self.memory.byte_order, image.read)
        self.offer = offer_of(spec, session, dictionary, layouts)
        self.device = Device(
            name=spec.name,
            clock_kind=spec.clock.kind,
            clock_reason=spec.clock.reason,
            clock_given=spec.clock.given,
            emulated=spec.clock.is_emulated,
            port=session.transport.name,
            agent_version=dictionary.agent_version,
            build_id=welcome.build_id.hex() if any(welcome.build_id) else "",
            boot_id=welcome.boot_id,
            unsupported=dict(self.offer.unsupported),
            collectors=dictionary.collectors,
            cflags=spec.build.cflags,
            cpu=(
                cpu_name()
                if is_started and spec.runs_here
                else getattr(session.transport, "cpu", "")
            ),
        )
        self.link = BoardLink(
            session,
            dictionary,
            layouts,
            self.device,
            self.offer.programmable,
            self.memory,
            image,
            self.stack_check,
        )
        self.functions = Functions(self.link, self._call)
        self.collectors = Collectors(self.link)
        self.flags: str | None = None
        self.libc: str | None = None
        self.compilers: tuple[str, ...] = ()
        self.added: tuple[str, ...] = ()
        self.start_again: Callable[[BoardSpec], Board] | None = None
        self.stand_in: Callable[[], Board] | None = None
        self.files: tuple[Path, ...] = ()
        self._recorded: HotspotRun | None = None

    def __repr__(self) -> str:
        """Return its name and how it is reached."""
        return f"<Board {bounded(self.device.name)} at {bounded(self.device.port)}>"

    @property
    def image(self) -> Path | None:
        """The ELF file of the firmware that it runs; None if not known."""
        return self.link.image.file

    def symbol_of(self, function: str) -> str:
        """Return a function's name for the linker; in C++ that differs from its name."""
        return self.link.image.symbol_of(function)

    def source_of(self, function: str) -> CFunction | None:
        """Return what sources or debug information say of a function; None if there are none."""
        return self.link.image.source_of(function)

    def add_functions(self, functions: Iterable[CFunction]) -> None:
        """Add facts about functions that the board does not report: the members of structs."""
        self.link.image.add_functions(functions)

    def set_image(
        self,
        image: Path,
        *,
        is_of_this_host: bool,
        built: bytes | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        """Set the board's image, after a check that the board runs it.

        ``built`` is its build id, if it was built from the user's sources. If None, the file's is
        read, except for a board that was started with it.
        """
        if built is not None or not self._is_started:
            check_build(self.device, image, built, on_note)
        self.link.image.file, self.link.image.is_of_this_host = image, is_of_this_host
        self.session.line.locate = cache(partial(locate, image))
        self.compilers = compilers_of([image])
        self.memory.symbol_at = anchored_symbols(image)

    know, know_image = add_functions, set_image  # their names up to version 0.2.0

    @property
    def calls(self) -> int | None:
        """Function runs since the start; None if some may have run before the session.

        After a measurement that trapped, ran too long or was cancelled, there may be more: the
        board does not tell how many calls it had made.
        """
        return self.session.calls if self._is_started else None

    @property
    def calls_before(self) -> int | None:
        """Like `calls`, but None if there may be more."""
        return self.calls if self.session.has_counted else None

    @property
    def interrupts(self) -> BoardInterrupts | None:
        """The board's facts about its interrupts; None if it cannot mask them."""
        return self.link.interrupts

    def _call(
        self, remote: RemoteFunction, args: Sequence[object], named: Mapping[str, object]
    ) -> object:
        if not OBSERVERS:  # the only cost of observers while there are none
            return remote.run(args, named, self.session.value)
        with self.session.exclusive(remote.info.name):
            call = HostCall(self, remote, args, named)
            return observe(call, lambda value: remote.run(args, named, value), self.session.value)

    def profile(
        self,
        function: str,
        *args: object,
        metrics: str | Sequence[str] | None = None,
        warmup: int = 10,
        repeat: int = 10,
        number: int = 1,
        named: Mapping[str, object] | None = None,
        cold: bool = False,
        mask_interrupts: bool = False,
        meter: Meter | None = None,
        on_progress: Progress | None = None,
        on_transfer: OnTransfer | None = None,
    ) -> Report:
        """Measure ``function`` on the board.

        In/out arrays begin each warm-up call and each sample with the caller's values. After the
        last sample the function is called once more. Afterwards the arrays hold what that call has
        written.

        Args:
            function: its name.
            args: arguments, unpacked on the board before the measured window; see `array_argument`
                for the values of pointers.
            metrics: names of metrics or counters, or one name; None for all of the board. For
                ``core-cycles``, one more call is recorded on a second emulator.
            warmup: calls before the first sample, >= 0.
            repeat: samples, >= 1.
            number: calls in each sample, >= 1.
            named: arguments by parameter name.
            cold: also measure the function's first call, before the warm-up; the Report has it
                besides the samples. It costs one more call and one more request. It is cold only if
                nothing has called the function since the board started.
            mask_interrupts: let no interrupt run within the windows of samples. If this also masks
                the guard's timer, one more sample is taken first, with interrupts on.
            meter: also measures the energy of each sample; see `boardprof.open_meter`.
            on_progress: called with (rounds done, total rounds) between rounds. A round is a
                warm-up call or a sample, also of the calibration.
            on_transfer: called with ("to the board" or "from the board", bytes done, total bytes)
                while arrays go over the line.

        Raises:
            UsageError: an unknown name, an unsupported metric, a number out of range, arguments
                that do not fit the signature, arrays that do not fit the board's arena, or
                interrupts that the board cannot mask, or not for so long.
            DeviceFaultError: it trapped; or its stack is too small, and it was not called.
            CheckFailedError: the function's own check says that its result is wrong.
            MeterError: the meter was unplugged, or its pin is not the marker.
        """
        line = self.session.line
        with self.session.exclusive(function):
            measurement = self.measure(
                function,
                *args,
                metrics=metrics,
                warmup=warmup,
                repeat=repeat,
                number=number,
                named=named,
                cold=cold,
                mask_interrupts=mask_interrupts,
                meter=meter,
                on_progress=on_progress,
                on_transfer=on_transfer,
            )
            turn = line.turns
        report = assemble([measurement])  # of many samples this takes long, and it may be cancelled
        if line.turns == turn:
            self.session.check_cancelled(function)
        return report

    def measure(
        self,
        function: str,
        *args: object,
        metrics: str | Sequence[str] | None = None,
        warmup: int = 10,
        repeat: int = 10,
        number: int = 1,
        may_shorten: bool = False,
        keeps_repeat: bool = False,
        named: Mapping[str, object] | None = None,
        cold: bool = False,
        mask_interrupts: bool = False,
        meter: Meter | None = None,
        on_progress: Progress | None = None,
        on_transfer: OnTransfer | None = None,
        on_note: OnNote | None = None,
    ) -> Measurement:
        """Measure as `profile` does, and return the samples instead of a Report.

        With ``may_shorten``, take fewer samples, after one warm-up call, if a call takes more than
        0.5 s of wall time: two on an emulated board, else five, the fewest that a rank test can
        judge. With ``keeps_repeat``, only the warm-up is shortened. Without a warm-up call, this
        has no effect. ``on_note`` is called with notes on what takes long, and on what may change
        the numbers.
        """
        rounds = Rounds(warmup, repeat, number)
        remote = self.measurable(function)
        if not isinstance(named, Mapping | None):
            raise UsageError(f"named={named!r:.60} is not a dict of arguments by name.")
        given = copied_arguments(args, named) if asks_core_cycles(metrics) else None
        arguments = remote.bind(args, named or {})
        with self.session.exclusive(function):
            sampling = Sampling(
                self.offer.passes(metrics),
                rounds,
                may_drop=metric_names(metrics) in (None, [ALL]),
                may_shorten=may_shorten and rounds.warmup > 0,
                keeps_repeat=keeps_repeat,
                cold=cold,
                mask_interrupts=mask_interrupts,
                meter=meter,
                on_progress=on_progress,
                on_note=on_note,
            )
            with watched(HostCall(self, remote, arguments=arguments, rounds=rounds)) as watch:
                calls_before = self.calls_before
                try:
                    found = measure_function(self.link, remote, arguments, sampling, on_transfer)
                except BoardprofError as error:
                    if error.kept is not None:
                        error.kept = self.described(error.kept, calls_before)
                    raise
                self.session.check_cancelled(function)
                watch.measurement = found = self.described(found, calls_before)
        if given is not None:
            again, by_name = given
            profile = self.hotspots(function, *again, named=by_name, warmup=found.warmup)
            found = replace(found, profile=profile)
        return found

    def hotspots(
        self,
        function: str,
        *args: object,
        named: Mapping[str, object] | None = None,
        warmup: int = 1,
        sampled: bool = False,
        samples: int = 1000,
        seed: int = 1,
        probe: str | None = None,
        on_samples: Progress | None = None,
    ) -> Profile:
        """Record which functions and lines a call spends its cost in.

        The same image is started once more, on an emulator with a recorder. This board is not
        disturbed, and state that functions keep between calls starts anew. The functions of a board
        in this process, if `build` has built them, are built once more and run under callgrind.

        With ``sampled``, this board itself repeats the call while a timer interrupts it at random
        times. That is possible on real boards, too. The figures are numbers of samples, and each
        share has a 95 % confidence interval. With ``probe``, a debug probe takes the samples, and
        nothing interrupts the board.

        Args:
            function: its name.
            args: arguments, as for `profile`. Arrays are not changed.
            named: arguments by parameter name.
            warmup: calls before the one that is recorded, >= 0.
            sampled: take samples on this board.
            samples: number of samples, >= 1. The last call may add some.
            seed: of the random times between samples.
            probe: with ``sampled``: ``HOST:PORT`` of the Tcl server of an OpenOCD that is connected
                to this board, an Arm Cortex-M.
            on_samples: called with (samples so far, samples wanted).

        Raises:
            UsageError: nothing can record calls on this board, or it cannot take samples.
            BoardError: the debug probe does not answer, or is at another board.
            DecodeError: the recording contradicts the board's own count.
            DeviceError: a call is too short for samples.
            BoardprofError: as `profile`.
        """
        remote = self.measurable(function)
        if sampled:
            from boardprof.measure.hotspots.sampled_call import sampled_profile

            arguments = remote.bind(args, named or {})
            check_range("samples", samples, 1, 2**31 - 1)
            check_range("seed", seed, 0, 2**32 - 1)
            return sampled_profile(
                self.link,
                remote.info,
                arguments,
                Rounds(warmup, samples, 1),
                seed,
                probe,
                compiler=self.spec.build.cc,
                sources=self.files,
                on_samples=on_samples,
            )
        if probe is not None:
            raise UsageError("A debug probe takes samples.", hint="sampled=True")
        with self.session.exclusive(function):  # the recorder is one for all threads, too
            if self._recorded is None:
                self._recorded = self._record()
            return self._recorded.profile(function, *args, named=named, warmup=warmup)

    def _record(self) -> HotspotRun:
        from boardprof.measure.hotspots.hotspot_run import HotspotRun  # later: most runs have none

        if self.stand_in is not None:
            with self.stand_in() as other:
                return other._record()
        if self.start_again is None or self.image is None:
            raise UsageError(
                f"{self.spec.name} at {self.device.port} was not started by boardprof, so nothing "
                "can record its calls.",
                hint=f"give {option('--sampled')}, or leave out the port to start an emulator",
            )
        again, sources = self.start_again, tuple(self.sources.values())

        def start(spec: BoardSpec) -> Board:
            board = again(spec)
            board.add_functions(sources)
            return board

        names = {name: self.link.image.symbol_of(name) for name in self.link.image.functions}
        return HotspotRun(self.spec, self.image, names, start, sources=self.files)

    def measurable(self, function: str) -> RemoteFunction:
        """Return a function that can be measured.

        Raises:
            UnknownNameError: no such function.
            UsageError: it can be called but not measured.
        """
        remote = self.functions[function]
        if not remote.info.measurable:
            raise UsageError(f"{function} of {self.spec.name} can be called but not measured.")
        return remote

    def described(self, measurement: Measurement, calls_before: int | None) -> Measurement:
        """Add facts from the build and the description, and `calls_before` as it was before it."""
        return replace(
            measurement,
            flags=self.flags,
            libc=self.libc,
            source=self.link.image.place_of(measurement.function, self.files),
            compilers=self.compilers,
            added=self.added,
            parts=self.offer.parts,
            formulas=self.offer.formulas,
            calls_before=calls_before,
        )

    def metrics(self) -> list[ListedMetric]:
        """Ask the board for everything that ``metrics=`` can name, as ``boardprof metrics`` does.

        Each event is selected to see whether it counts. Metrics that the board lacks have the
        ``reason``.

        Raises:
            FrameError: the reply is not a list of events.
            LinkError, BoardTimeoutError: see `Session.call`.
        """
        with self.session.exclusive("the list of metrics"):
            return listed_metrics(self.offer)

    def correlate_clock(self, exchanges: int = 16) -> ClockFit:
        """Relate the board's tick counter to ``time.monotonic()``, with the uncertainty.

        Args:
            exchanges: number of exchanges of time stamps, >= 2. The longer they take together, the
                better the drift is known: `profile` makes some before and some after its run.

        Raises:
            UsageError: the clock is simulated, or the agent has none to ask.
            LinkError: the board's clock does not run evenly by the host's.
        """
        check_range("exchanges", exchanges, 2, 1000)
        clock = clock_probe(self.link)
        with self.session.exclusive("the clock"):
            clock.ask(exchanges)
        fit = clock.fit()
        if fit is None:
            raise LinkError(
                f"The clock of {self.spec.name} does not run evenly against the host's clock, or "
                "wraps too often to be tracked.",
                hint="check the rate and width that bp_port_clock in its port.c reports",
            )
        return fit

    def stream(self, timeout_s: float = 1.0) -> Stream:
        """Open the stream of data that the board's functions write; use it in a ``with``.

        Args:
            timeout_s: how long reading waits for more, seconds.

        Raises:
            UsageError: the board's agent has no streams, or one is open already.
        """
        return Stream(self.channels, self.session, timeout_s)

    def tracing(
        self, *, events: bool = True, statistics: bool = False, mode: str = "drop"
    ) -> ProbeRecorder:
        """Record the probes of the board's firmware; use it in a ``with``.

        Args:
            events: record each one.
            statistics: let the board keep the statistics of ranges.
            mode: what happens to events that find no room: ``drop`` them, ``stop`` recording, or
                ``overwrite`` the oldest ones, which are read after a reset.

        Raises:
            UsageError: the firmware has no probes, or its image is not known.
            UnknownNameError: there is no such mode.
        """
        modes = {each.name.lower(): each for each in TraceMode}
        if mode not in modes:
            raise UnknownNameError("mode", mode, list(modes))
        what = TraceFlag.EVENTS if events else TraceFlag(0)
        what |= TraceFlag.STATISTICS if statistics else TraceFlag(0)
        return self._probe_recorder(what, modes[mode])

    def kept_events(self) -> ProbeRun:
        """Return the events that a ring has kept over a reset, from mode ``overwrite``.

        Recording stops. The time of the oldest event is 0.

        Raises:
            UsageError: no ring has any, another image has recorded them, the firmware has no
                probes, or its image is not known.
        """
        return self._probe_recorder(TraceFlag.EVENTS, TraceMode.OVERWRITE).kept()

    def _probe_recorder(self, what: TraceFlag, mode: TraceMode) -> ProbeRecorder:
        from boardprof.measure.probe_recorder import ProbeRecorder, check_probes
        from boardprof.results.probes.run import RunFacts

        check_probes(self.spec.name, self.dictionary)
        if self.image is None:
            raise UsageError(
                f"The names of the probes on {self.spec.name} are in its image, which is not "
                "known.",
                hint=f"give the image that runs on the board ({option('--image')})",
            )
        device = self.device
        facts = RunFacts(
            board=device.name,
            port=device.port,
            clock_kind=device.clock_kind,
            emulated=device.emulated,
            agent_version=device.agent_version,
            build_id=device.build_id,
            boot_id=device.boot_id,
            image=str(self.image),
            flags=self.flags,
            order=">" if self.welcome.big_endian else "<",
        )
        return ProbeRecorder(facts, self.session, self.dictionary, self.stream, what, mode)

    @property
    def console(self) -> str:
        """Text that the board printed between its frames."""
        return self.session.line.console.text

    def close(self) -> None:
        """End the session, and the emulators that were started for it.

        A call of another thread ends with a `LinkError`.
        """
        if self._recorded is not None:
            self._recorded.close()
        self.session.close()

    def __enter__(self) -> Self:
        """Return the board."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the board."""
        self.close()


# -- observers ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HostCall:
    """A call that the host's program makes."""

    board: Board
    function: RemoteFunction
    args: Sequence[object] = ()  # unless they are already bound
    named: Mapping[str, object] = field(default_factory=dict)
    arguments: Arguments | None = None
    rounds: Rounds | None = None  # None for a single call
    label: str | None = None  # the caller's name for the call, such as a network's layer

    def bound(self) -> Arguments:
        """Return the arguments, bound now unless they are already."""
        return self.arguments or self.function.bind(self.args, self.named)


class Observation(Protocol):
    """Observation of one call, from the host's first step to the last."""

    def begin(self) -> None:
        """Note that the call begins."""

    def through(self, value: Value, is_plain: bool) -> Value:
        """Return the function that makes the call itself; the arrays are already on the board."""
        # This is not used for a measurement, whose windows are the board's own.
        # ``is_plain``: ``value`` does nothing but the call, so that a measured call may replace it.

    def end(self, measurement: Measurement | None, error: BaseException | None) -> None:
        """Note that the call has ended, with its measurement or its exception."""


class Observer(Protocol):
    """Observer of the calls of all boards."""

    def prepare(self, board: Board) -> None:
        """Prepare for a board whose samples will be watched one by one."""
        # An observer that programs the board's slots does it now: the samples' own events are
        # selected afterwards.

    def watch(self, call: HostCall) -> Observation | None:
        """Return the observation of a call, or None if it is not observed."""


OBSERVERS: list[Observer] = []
"""The active observers. The code that adds one also removes it."""

_IS_UNOBSERVED: ContextVar[bool] = ContextVar("boardprof_is_unobserved", default=False)


def observe(call: HostCall, run: Callable[[Value], object], value: Value) -> object:
    """Make a call as the observers want it."""
    with watched(call) as watch:
        for number, each in enumerate(reversed(watch.observations)):
            value = each.through(value, is_plain=number == 0)
        return run(value)


def prepare_observers(board: Board) -> None:
    """Prepare all observers for a board; see `Observer.prepare`."""
    with board.session.exclusive("the profiler"):  # as around `Observer.watch`
        for observer in _observers():
            observer.prepare(board)


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Hide calls from observers, such as calls that an observer itself makes."""
    token = _IS_UNOBSERVED.set(True)
    try:
        yield
    finally:
        _IS_UNOBSERVED.reset(token)


def _observers() -> tuple[Observer, ...]:
    return () if _IS_UNOBSERVED.get() else tuple(OBSERVERS)


@dataclass(eq=False)
class Watch:
    """The observations of one call, and its measurement as soon as there is one."""

    observations: list[Observation]
    measurement: Measurement | None = None


@contextlib.contextmanager
def watched(call: HostCall) -> Iterator[Watch]:
    """Start the observations of a call, and end them in reverse order."""
    found = [observer.watch(call) for observer in _observers()]
    watch = Watch([each for each in found if each is not None])
    for each in watch.observations:
        each.begin()
    try:
        yield watch
    except BaseException as error:
        for each in reversed(watch.observations):
            each.end(None, error)
        raise
    for each in reversed(watch.observations):
        each.end(watch.measurement, None)
