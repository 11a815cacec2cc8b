# SPDX-License-Identifier: Apache-2.0
"""The part of a board that measurements need: its interrupts and clock, and windows of the host."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from boardprof.base.errors import (
    BoardprofError,
    FrameError,
    UsageError,
    agent_option,
    still_answers,
)
from boardprof.base.metrics import Metric
from boardprof.measure.board.image import BoardImage, StackCheck
from boardprof.measure.board.memory import Memory
from boardprof.measure.sampling.programmable import Programmable, Slots
from boardprof.results.record import NOT_MASKED, Device, Interrupts
from boardprof.results.report.measurement import HOOKED, PassResult, clock_of, metrics_of, window_s
from boardprof.wire.decode.clock import ClockFit, Exchange, fit_clock
from boardprof.wire.decode.dictionary import CollectorInfo, Dictionary
from boardprof.wire.decode.samples import Reading, decode_samples
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import InterruptFlag, MeasureFlag
from boardprof_protocol.layout import Layout

_INTERRUPTS, _CLOCK = "bp.interrupts", "bp.clock"
_EXCHANGES = 8
"""Number of exchanges before the calls to be placed on the host's clock, and after them."""


@dataclass(frozen=True, eq=False)
class BoardLink:
    """A connected board, as seen by a measurement."""

    session: Session
    dictionary: Dictionary
    layouts: Mapping[int, Layout]
    device: Device
    programmable: tuple[Programmable, ...]
    memory: Memory
    image: BoardImage
    stack_check: StackCheck

    @cached_property
    def interrupts(self) -> BoardInterrupts | None:
        """The board's facts about its interrupts; None if it cannot mask them."""
        return _interrupts_of(self.session, self.dictionary)

    def enabled_interrupts(self) -> int:
        """Ask how many interrupt sources of the firmware are enabled now."""
        found = _interrupts_of(self.session, self.dictionary)
        return 0 if found is None else found.enabled

    @property
    def hooks(self) -> list[CollectorInfo]:
        """The collector that counts hooked interrupts, if the board has it."""
        return [each for each in self.dictionary.collectors if each.name == HOOKED]

    @property
    def is_real_time(self) -> bool:
        """Whether the board's clock runs at the pace of the host's."""
        return self.device.clock_kind != "simulated"

    def flags(self, *, mask: bool) -> MeasureFlag:
        """Return the flags of windows, which are masked if ``mask`` is True."""
        if mask and self.interrupts is None:
            raise UsageError(
                f"{self.device.name} cannot mask interrupts: its agent has no {_INTERRUPTS}.",
                hint="build its firmware with BP_CFG_INTERRUPTS=1, if its core has interrupts to "
                "mask",
            )
        return MeasureFlag.MASK if mask else MeasureFlag(0)

    def interrupts_during(self, passes: Sequence[PassResult], *, masked: bool) -> Interrupts:
        """Return the Report's facts about interrupts in a measurement's windows."""
        known = self.interrupts
        if known is None:
            return NOT_MASKED
        hooked = any(HOOKED in each.counters for each in passes)
        kept_by = [
            counter.name
            for collector in self.dictionary.collectors
            if hooked and not known.skips >> collector.index & 1 and collector.name != HOOKED
            for counter in collector.counters
            if any(counter.name in each.counters for each in passes)
        ]
        return Interrupts(masked, known.timer_us, known.bound_ns if hooked else 0, tuple(kept_by))


@dataclass(frozen=True)
class BoardInterrupts:
    """The facts that a board reports about interrupts if it can mask them (SPEC.md 5.10)."""

    masks_guard: bool  # the guard's timer too, so nothing ends a hang in a masked window
    timer_us: int  # time between two timer interrupts; 0 if not known
    longest_us: int  # longest masked window that the board's clocks survive; 0 for any
    # it can trigger an empty interrupt, to measure its cost outside its hooks
    triggers: bool = False
    skips: int = 0  # bit i: the counts of collector i leave hooked interrupts out
    bound_ns: int = 0  # maximum time of an interrupt outside its hooks; 0 if not known
    enabled: int = 0  # sources of the firmware's own that were enabled when the board was asked
    masks_some: bool = False  # the most urgent ones run in masked windows, too

    @property
    def needs_trial(self) -> bool:
        """Whether an unmasked window must have ended, soon enough, before a window is masked."""
        return self.masks_guard or self.longest_us > 0

    def check_window(self, what: str, readings: Mapping[str, Reading]) -> None:
        """Check that a masked window as long as an unmasked one is not too long."""
        seconds = window_s(readings)
        if self.longest_us and seconds is not None and seconds * 1e6 > self.longest_us:
            raise UsageError(
                f"A sample of {what} takes {seconds * 1e6:,.0f} us, but at most "
                f"{self.longest_us:,} us is allowed with interrupts masked: the board's clock "
                "counts its wraps in an interrupt.",
                hint="take fewer calls in a sample, or leave interrupts on",
            )


def _interrupts_of(session: Session, dictionary: Dictionary) -> BoardInterrupts | None:
    """Ask a board for the facts about its interrupts. None if it cannot mask them."""
    function = next((f for f in dictionary.functions if f.name == _INTERRUPTS), None)
    if function is None:
        return None
    value: Any = session.invoke(function.id, _INTERRUPTS)
    if not (isinstance(value, list) and len(value) >= 3 and all(type(n) is int for n in value)):
        raise FrameError(f"{_INTERRUPTS} returned {value!r:.60}, not three numbers.")
    flags, timer_us, longest_us, skips, bound_ns, enabled = (*value, 0, 0, 0)[:6]
    return BoardInterrupts(
        bool(flags & InterruptFlag.MASKS_GUARD),
        timer_us,
        longest_us,
        bool(flags & InterruptFlag.TRIGGERS),
        skips,
        bound_ns,
        enabled,
        bool(flags & InterruptFlag.MASKS_SOME),
    )


class ClockProbe:
    """Asks a board for its clock repeatedly, and fits a line to the answers."""

    def __init__(
        self,
        session: Session,
        dictionary: Dictionary,
        clock_kind: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; the board is not asked yet."""
        self._session = session
        self._board = dictionary.board
        self._kind = clock_kind
        self._clock = clock
        self._function = next((f for f in dictionary.functions if f.name == _CLOCK), None)
        self._exchanges: list[Exchange] = []
        self._rate: tuple[int, int] = (0, 64)
        # whether the agent has a clock to ask, and it is a real one
        self.offered = self._function is not None and clock_kind != "simulated"

    def follow(self) -> None:
        """Make a few exchanges, if the board has a clock to ask."""
        if self.offered:
            self.ask(_EXCHANGES)

    def ask(self, times: int) -> None:
        """Make ``times`` exchanges. An exchange with a retransmission does not count."""
        if self._kind == "simulated":
            raise UsageError(
                f"The clock of {self._board} is simulated: it follows the emulator's own time and "
                "cannot be related to the host's clock.",
                hint="use a board whose clock is measured or declared",
            )
        if self._function is None:
            raise UsageError(
                f"The agent of {self._board} has no {_CLOCK}.",
                hint=f"compile the agent with {agent_option('clock', 1)}; its port needs a tick "
                "counter of known rate",
            )
        for _ in range(times):
            self._ask(self._function.id)

    def _ask(self, function_id: int) -> None:
        sent_s = self._clock()
        result = self._session.call(function_id, name=_CLOCK)
        done_s = self._clock()
        value = result.value
        if not (isinstance(value, list) and [type(item) for item in value] == [int] * 4):
            raise FrameError(f"{_CLOCK} of {self._board} returned {value!r}, not four numbers.")
        received, answered, hz, bits = value
        self._rate = hz, bits
        if result.sent == 1:
            last = self._exchanges[-1].answered if self._exchanges else received
            received = _unwrapped(received, last, bits)
            answered = _unwrapped(answered, received, bits)
            self._exchanges.append(Exchange(sent_s, received, answered, done_s))

    def fit(self) -> ClockFit | None:
        """Return the board's clock on the host's; None if the answers allow none."""
        # A counter that may have wrapped more than once between two exchanges allows none.
        hz, bits = self._rate
        longest_s = max(
            (
                b.done_s - a.sent_s
                for a, b in zip(self._exchanges, self._exchanges[1:], strict=False)
            ),
            default=0.0,
        )
        if longest_s * hz >= 1 << bits:
            return None
        try:
            return fit_clock(self._exchanges, hz)
        except ValueError:
            return None


def clock_probe(link: BoardLink) -> ClockProbe:
    """Return a probe of a board's clock; an emulator's clock counts as simulated."""
    kind = "simulated" if link.device.emulated else link.device.clock_kind
    return ClockProbe(link.session, link.dictionary, kind)


def _unwrapped(reading: int, earlier: int, bits: int) -> int:
    """Return ``reading`` with the wraps since ``earlier``; there was at most one."""
    return earlier + (reading - earlier) % (1 << bits)


# -- windows of the host -----------------------------------------------------------------------


class Window:
    """One measured window, opened and closed by the host.

    ::

        with board.collectors["cycles"] as m:
            board.functions.fir()
        print(m.metrics, m.blob)

    The counts are raw: they include the agent's handling of the calls between start and stop.
    Windows nest. In a ``with``, they have the calls of one thread, because others wait.

    Attributes:
        blob: the blob as the board sent it; empty until the window is closed.
        readings: its counters, except those that the board does not support.
        metrics: the same as typed metrics.
    """

    def __init__(self, link: BoardLink, name: str) -> None:
        """Prepare a window of the collector ``name``; nothing is called yet.

        If the collector's slots are programmable, the readings have the names of the events that
        the slots count when the window is opened.

        Raises:
            UnknownNameError: the board has no such collector.
        """
        self.blob = b""
        self.readings: dict[str, Reading] = {}
        self.metrics: dict[str, Metric] = {}
        self._link = link
        self._collector = link.dictionary.collector(name)
        self._programmable = {c.collector.name: c for c in link.programmable}.get(name)
        self._slots: Slots | None = None
        self._number: int | None = None
        self._began_s = 0.0
        self._turn = contextlib.ExitStack()

    def init(self) -> None:
        """Initialise the collector's counters again, as the agent did when it started."""
        if self._programmable is None:
            self._call("init")
        else:  # this initialises them too, and asks for their events
            self._programmable.select_default()

    def start(self) -> None:
        """Open the window; the board reads the counters just before it replies."""
        if self._number is not None:
            raise UsageError(
                f"This window of {self._collector.name} is already open.",
                hint="look up the collector again for another window",
            )
        if self._programmable is not None:
            self._slots = self._programmable.counting()
        self._began_s = time.monotonic()
        number = self._call("start")
        if not isinstance(number, int):
            raise FrameError(f"{self._collector.name}.start returned {number!r}, not a number.")
        self._number = number

    def stop(self) -> dict[str, Metric]:
        """Close the window and return its metrics."""
        if self._number is None:
            raise UsageError(f"This window of {self._collector.name} is not open.")
        number, self._number = self._number, None
        blob = self._call("stop", number)
        if not isinstance(blob, bytes):
            raise FrameError(f"{self._collector.name}.stop returned {blob!r}, not a blob.")
        self.blob = blob
        device, is_real_time = self._link.device, self._link.is_real_time
        longest_s = time.monotonic() - self._began_s if is_real_time else None
        collector, layouts = self._collector, self._link.layouts
        if self._slots is not None:
            collector, layout = self._slots.collector, self._slots.layout
            layouts = {layout.schema_id: layout}
        samples = decode_samples(blob, [collector], layouts, longest_s=longest_s)
        if len(samples) != 1:
            raise FrameError(f"{self._collector.name}.stop returned {len(samples)} blobs, not one.")
        (sample,) = samples
        left_out = set(device.unsupported)
        if self._slots is not None:  # a slot that is off has fields as well
            left_out = sample.readings.keys() - set(self._slots.events)
        self.readings = {n: r for n, r in sample.readings.items() if n not in left_out}
        clock = clock_of(self.readings, device.clock_kind)
        for name, reading in self.readings.items():
            self.metrics |= metrics_of(name, reading.value, reading, clock)
        return self.metrics

    def _call(self, operation: str, *numbers: int) -> object:
        function = self._link.dictionary.function(f"{self._collector.name}.{operation}")
        return self._link.session.invoke(function.id, function.name, *numbers)

    def __enter__(self) -> Self:
        """Open the window; until it is closed, other threads wait for the board."""
        with contextlib.ExitStack() as stack:
            turn = self._link.session.exclusive(f"a window of {self._collector.name}")
            stack.enter_context(turn)
            self.start()
            self._turn = stack.pop_all()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the window, also after an error, which is then raised.

        A board that no longer answers is not asked: that would be another wait for each window.
        """
        with self._turn:
            if error is None:
                self.stop()
            elif self._number is not None and still_answers(error):
                with contextlib.suppress(BoardprofError):
                    self.stop()


class Collectors(Mapping[str, Window]):
    """The board's collectors by name; each look-up returns a new window, for use in a ``with``."""

    def __init__(self, link: BoardLink) -> None:
        """Offer the collectors of the board's dictionary."""
        self._link = link

    def __getitem__(self, name: str) -> Window:
        """Return a closed window of the collector, or raise UnknownNameError."""
        return Window(self._link, name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter([c.name for c in self._link.dictionary.collectors])

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._link.dictionary.collectors)
