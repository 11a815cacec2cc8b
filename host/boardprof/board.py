# SPDX-License-Identifier: Apache-2.0
"""A connected board: its functions, its counters, its memory, and profiling on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

import msgpack

from boardprof.assemble import assemble
from boardprof.board_file import BoardSpec
from boardprof.bulk import Channels
from boardprof.clock import ClockFit
from boardprof.correlate import ClockProbe
from boardprof.decode import Sample, check_layouts, decode_samples
from boardprof.dictionary import Dictionary, FunctionInfo
from boardprof.errors import FrameError, LinkError, RpcError, UnknownNameError, UsageError
from boardprof.measurement import Device, Measurement
from boardprof.memory import Memory
from boardprof.report import Report
from boardprof.selection import Selection, select_metrics, unsupported_counters
from boardprof.session import Session, Welcome
from boardprof.signature import Signature, pack_arguments, parse_signature
from boardprof.stream import Stream
from boardprof.window import Window
from boardprof_protocol.codes import BuiltIn, ErrorCode, MeasureFlag
from boardprof_protocol.layout import Layout

__all__ = ["Board", "Collectors", "Functions", "RemoteFunction"]

_CALIBRATION_SAMPLES = 9
"""Windows around the empty function; their median is subtracted."""

_CLOCK_EXCHANGES = 8
"""Of time stamps, before a measurement and again behind it."""

Progress = Callable[[int, int], None]
"""Called with (rounds done, rounds in all) while a measurement runs."""


class RemoteFunction:
    """A packed function of the board, callable with Python values."""

    def __init__(self, session: Session, info: FunctionInfo) -> None:
        """Wrap one entry of the board's dictionary."""
        self.info = info
        self._session = session
        self._signature: Signature | None = None  # read at the first call
        self._is_plain = False  # known to take nothing

    def __call__(self, *args: object, **named: object) -> object:
        """Call it once on the board; returns its result as a Python value.

        Raises:
            UsageError: the arguments do not fit the signature.
            RpcError, DeviceError, BoardTimeoutError, LinkError: see `Session.call`.
        """
        info = self.info
        if self._is_plain and not (args or named):
            return self._session.call(info.id, name=info.name).value
        packed, count = self.pack(*args, **named)
        return self._session.call(info.id, packed, count, name=info.name).value

    def pack(self, *args: object, **named: object) -> tuple[bytes, int]:
        """Pack the arguments for the wire; see `pack_arguments`."""
        signature = self._signature
        if signature is None:
            signature = self._signature = parse_signature(self.info.signature)
            self._is_plain = not signature.parameters
        return pack_arguments(self.info.name, signature, args, named)

    def __repr__(self) -> str:
        """Return name and signature."""
        return f"<function {self.info.name}{self.info.signature} on the board>"


class Functions:
    """The board's functions as attributes: ``board.functions.fir(3)``; or by name in brackets."""

    def __init__(self, session: Session, dictionary: Dictionary) -> None:
        """Offer what the dictionary lists."""
        self._session = session
        self._dictionary = dictionary
        self._known: dict[str, RemoteFunction] = {}

    def __getitem__(self, name: str) -> RemoteFunction:
        """Return the function called ``name``, or raise UnknownNameError."""
        if name not in self._known:
            self._known[name] = RemoteFunction(self._session, self._dictionary.function(name))
        return self._known[name]

    def __getattr__(self, name: str) -> RemoteFunction:
        """Return the function called ``name``, or raise AttributeError with what there is."""
        if "_known" not in self.__dict__:  # copy and pickle ask before anything is there
            raise AttributeError(name)
        try:
            remote = self[name]
        except UnknownNameError as error:
            raise AttributeError(str(error)) from error
        self.__dict__[name] = remote  # found there from now on, without coming here
        return remote

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the board's own functions."""
        return iter([f.name for f in self._dictionary.user_functions])

    def __dir__(self) -> list[str]:
        """List the functions for completion."""
        return list(self)


class Collectors(Mapping[str, Window]):
    """The board's collectors by name; each look-up gives a new window, to be used by ``with``."""

    def __init__(self, board: Board) -> None:
        """Offer what the board's dictionary lists."""
        self._board = board

    def __getitem__(self, name: str) -> Window:
        """Return a closed window of the collector, or raise UnknownNameError."""
        return self._board.window(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter([c.name for c in self._board.dictionary.collectors])

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._board.dictionary.collectors)


class Board:
    """A session with one board. Use it by ``with``, or `close` it.

    Attributes:
        spec: the board's description.
        welcome: what it said when the session began.
        dictionary: what it offers.
        device: what Reports say of it.
        functions: its functions.
        collectors: its collectors.
        memory: its arena, filled and read through handles.
        channels: how large blocks and streams go over the line.
    """

    def __init__(
        self,
        spec: BoardSpec,
        session: Session,
        welcome: Welcome,
        dictionary: Dictionary,
        layouts: Mapping[int, Layout],
    ) -> None:
        """Wrap an open session; `connect` is the usual way.

        Raises:
            LayoutMismatchError: the board's blobs have other layouts than the host knows.
        """
        check_layouts(spec.name, dictionary.collectors, layouts)
        self.spec = spec
        self.welcome = welcome
        self.dictionary = dictionary
        self.session = session
        self.layouts = layouts
        self.functions = Functions(session, dictionary)
        self.collectors = Collectors(self)
        self.channels = Channels(session, welcome, dictionary)
        self.memory = Memory(session, welcome, dictionary, self.channels)
        self.device = Device(
            name=spec.name,
            clock_kind=spec.clock.kind,
            emulated=spec.clock.kind == "simulated",
            port=session.transport.name,
            agent_version=dictionary.agent_version,
            build_id=welcome.build_id.hex(),
            boot_id=welcome.boot_id,
            unsupported=unsupported_counters(dictionary.collectors, spec.unsupported),
            collectors=dictionary.collectors,
        )

    def profile(
        self,
        function: str,
        *args: object,
        metrics: Sequence[str] | None = None,
        warmup: int = 10,
        repeat: int = 10,
        number: int = 1,
        named: Mapping[str, object] | None = None,
        on_progress: Progress | None = None,
    ) -> Report:
        """Measure ``function`` on the board.

        Args:
            function: its name.
            args: arguments, unpacked on the board before the measured window.
            metrics: names of metrics or counters; None takes all that the board has.
            warmup: calls before the first sample, >= 0.
            repeat: samples, >= 1.
            number: calls in each sample, >= 1.
            named: arguments by parameter name.
            on_progress: called with (rounds done, rounds in all) between rounds: a round is a
                warm-up call or a sample, those of the calibration included.

        Raises:
            UsageError: an unknown name, an unsupported metric, or a number out of range.
            CheckFailedError: the function's own check says that its result is wrong.
        """
        measurement = self.measure(
            function,
            *args,
            metrics=metrics,
            warmup=warmup,
            repeat=repeat,
            number=number,
            named=named,
            on_progress=on_progress,
        )
        return assemble([measurement])

    def measure(
        self,
        function: str,
        *args: object,
        metrics: Sequence[str] | None = None,
        warmup: int = 10,
        repeat: int = 10,
        number: int = 1,
        named: Mapping[str, object] | None = None,
        on_progress: Progress | None = None,
    ) -> Measurement:
        """Measure as `profile` does, and return the samples instead of a Report."""
        _check_range("warmup", warmup, 0, (1 << 31) - 1)
        _check_range("repeat", repeat, 1, (1 << 32) - 1)
        _check_range("number", number, 1, (1 << 32) - 1)
        remote = self.functions[function]
        if not remote.info.measurable:
            raise UsageError(f"{function} of {self.spec.name} can be called, not measured.")
        packed = remote.pack(*args, **(named or {}))
        clock = self._clock_probe()
        if clock.offered:
            clock.ask(_CLOCK_EXCHANGES)
        selection = select_metrics(
            self.spec.name,
            self.dictionary.collectors,
            self.device.unsupported,
            metrics,
            self.device.clock_kind,
        )
        whole = min(warmup, 1) + _CALIBRATION_SAMPLES + warmup + repeat
        while True:
            run = _Run(self, remote.info, packed, selection, number, whole, on_progress)
            try:
                calibration, _ = run.samples(
                    MeasureFlag.EMPTY, min(warmup, 1), _CALIBRATION_SAMPLES
                )
                break
            except RpcError as error:
                # Nothing has run yet. How many fit into one pass only the agent knows.
                too_many = error.code in (ErrorCode.NO_MEMORY, ErrorCode.REPLY_TOO_BIG)
                if metrics is not None or not too_many or len(selection.collectors) == 1:
                    raise
                selection = selection.without_last()
        samples, totals = run.samples(MeasureFlag(0), warmup, repeat)
        if clock.offered:
            clock.ask(_CLOCK_EXCHANGES)
        names = [name for name, _ in parse_signature(remote.info.signature).parameters]
        given = {**dict(zip(names, args, strict=False)), **(named or {})}
        shown = ", ".join(f"{name}={given[name]}" for name in names)
        return Measurement(
            function,
            self.device,
            number,
            warmup,
            samples,
            calibration,
            totals,
            selection.mask,
            shown,
            clock.fit() if clock.offered else None,
        )

    def correlate_clock(self, exchanges: int = 16) -> ClockFit:
        """Find where the board's tick counter stands on ``time.monotonic()``, and how surely.

        Args:
            exchanges: of time stamps, >= 2. The longer they take together, the better the drift is
                known: `profile` makes some before and some after its run.

        Raises:
            UsageError: the clock is simulated, or the agent has none to ask.
            LinkError: the board's clock does not run evenly by the host's.
        """
        _check_range("exchanges", exchanges, 2, 1000)
        clock = self._clock_probe()
        clock.ask(exchanges)
        fit = clock.fit()
        if fit is None:
            raise LinkError(
                f"The clock of {self.spec.name} does not run evenly by the host's, or wraps too "
                "often to be followed.",
                hint="see in its port.c what bp_port_clock says of its rate and width",
            )
        return fit

    def _clock_probe(self) -> ClockProbe:
        return ClockProbe(self.session, self.dictionary, self.device.clock_kind)

    def window(self, collector: str) -> Window:
        """Return a closed window of ``collector``; see `Window`."""
        return Window(self.session, self.dictionary, self.layouts, self.device, collector)

    def stream(self, timeout_s: float = 1.0) -> Stream:
        """Open the stream of what the board's functions write; use it by ``with``.

        Args:
            timeout_s: how long reading waits for more, seconds.

        Raises:
            UsageError: the board's agent has no streams, or one is open already.
        """
        return Stream(self.channels, self.session, timeout_s)

    @property
    def console(self) -> str:
        """What the board has printed beside its frames."""
        return self.session.console

    def close(self) -> None:
        """End the session, and the emulator if one was started for it."""
        self.session.close()

    def __enter__(self) -> Self:
        """Return the board."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the board."""
        self.close()


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageError(f"{name}={value} is out of range: {least} to {most}.")


class _Run:
    """Calls of ``bp.measure`` until all samples are there."""

    def __init__(
        self,
        board: Board,
        function: FunctionInfo,
        packed: tuple[bytes, int],
        selection: Selection,
        number: int,
        rounds: int,
        on_progress: Progress | None,
    ) -> None:
        self._done, self._rounds = 0, rounds
        self._board = board
        self._function = function
        self._packed = packed
        self._selection = selection
        self._number = number
        self._on_progress = on_progress

    def samples(
        self, flags: MeasureFlag, warmup: int, repeat: int
    ) -> tuple[tuple[Sample, ...], tuple[Sample, ...]]:
        """Return the samples and the totals, one total for each reply of the board.

        A board sends as many samples as its buffer holds; the rest takes more calls, each with one
        warm-up call, since the link's work in between has cooled the caches.
        """
        samples: list[Sample] = []
        totals: list[Sample] = []
        while len(samples) < repeat:
            taken, total = self._batch(flags, warmup, repeat - len(samples))
            samples += taken
            totals.append(total)
            self._done += len(taken) + (warmup if len(samples) == len(taken) else 0)
            warmup = min(warmup, 1)
            self._show(0, 0)
        return tuple(samples), tuple(totals)

    def _show(self, done: int, _: int) -> None:
        """Pass a batch's progress on as that of the whole, which knows no batches."""
        if self._on_progress is not None:
            self._on_progress(min(self._done + done, self._rounds), self._rounds)

    def _batch(self, flags: MeasureFlag, warmup: int, repeat: int) -> tuple[list[Sample], Sample]:
        arguments, count = self._packed
        head = (self._function.id, int(flags), warmup, repeat, self._number, self._selection.mask)
        result = self._board.session.call(
            BuiltIn.MEASURE,
            b"".join(msgpack.packb(value) for value in head) + arguments,
            len(head) + count,
            name=self._function.name,
            on_progress=self._show,
        )
        value = result.value
        if not (isinstance(value, list) and len(value) == 2 and isinstance(value[1], bytes)):
            raise FrameError(f"bp.measure returned {value!r}, not [samples, blobs].")
        simulated = self._board.device.clock_kind == "simulated"
        *samples, total = (
            self._selection.keep(sample)
            for sample in decode_samples(
                value[1],
                self._selection.collectors,
                self._board.layouts,
                longest_s=None if simulated else result.elapsed_s,
            )
        )
        if len(samples) != value[0] or not samples:
            raise FrameError(f"bp.measure announced {value[0]} samples and sent {len(samples)}.")
        return samples, total
