# SPDX-License-Identifier: Apache-2.0
"""A collector's window around any calls of the host: init, start and stop over the wire."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

from boardprof.base.errors import BoardprofError, FrameError, UsageError, still_answers
from boardprof.base.metrics import Metric
from boardprof.measure.sampling.board_link import BoardLink
from boardprof.measure.sampling.programmable import Slots
from boardprof.results.report.measurement import clock_of, metrics_of
from boardprof.wire.decode.samples import Reading, decode_samples

__all__ = ["Window"]


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
