# SPDX-License-Identifier: Apache-2.0
"""A connected board: its functions, its counters, its memory, and profiling on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from boardprof.assemble import assemble
from boardprof.board_file import BoardSpec
from boardprof.bulk import Channels
from boardprof.clock import ClockFit
from boardprof.correlate import ClockProbe
from boardprof.decode import check_layouts
from boardprof.dictionary import Dictionary
from boardprof.errors import LinkError, RpcError, UsageError
from boardprof.functions import Functions
from boardprof.measurement import Device, Measurement
from boardprof.memory import Memory
from boardprof.report import Report
from boardprof.sampling import Progress, Sampling
from boardprof.selection import select_metrics, unsupported_counters
from boardprof.session import Session, Welcome
from boardprof.signature import parse_signature
from boardprof.stream import Stream
from boardprof.window import Window
from boardprof_protocol.codes import ErrorCode, MeasureFlag
from boardprof_protocol.layout import Layout

__all__ = ["Board", "Collectors"]

_CALIBRATION_SAMPLES = 9
"""Windows around the empty function; their median is subtracted."""

_CLOCK_EXCHANGES = 8
"""Of time stamps, before a measurement and again behind it."""


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
            run = Sampling(
                self.session,
                remote.info,
                packed,
                selection,
                number,
                self.layouts,
                real_time=self.device.clock_kind != "simulated",
                rounds=whole,
                on_progress=on_progress,
            )
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
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} is not a whole number.")
    if not least <= value <= most:
        raise UsageError(f"{name}={value} is out of range: {least} to {most}.")
