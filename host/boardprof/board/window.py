# SPDX-License-Identifier: Apache-2.0
"""A collector's window around any calls of the host: init, start and stop over the wire."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from boardprof.board.events import Programmable, Slots
from boardprof.decode.dictionary import Dictionary
from boardprof.decode.samples import Reading, decode_samples
from boardprof.errors import BoardprofError, BoardTimeoutError, FrameError, UsageError
from boardprof.link.session import Session
from boardprof.metrics import Metric
from boardprof.report.counter_metrics import metrics_of
from boardprof.report.measurement import Device, clock_of
from boardprof_protocol.layout import Layout

__all__ = ["Window"]


class Window:
    """One measured window, opened and closed by the host.

    ::

        with board.collectors["cycles"] as m:
            board.functions.fir()
        print(m.metrics, m.blob)

    The counts are raw: the agent's handling of the calls between start and stop is in them.
    Windows nest.

    Attributes:
        blob: the blob as the board sent it; empty until the window is closed.
        readings: its counters; those that the board does not support are left out.
        metrics: the same as typed metrics.
    """

    def __init__(
        self,
        session: Session,
        dictionary: Dictionary,
        layouts: Mapping[int, Layout],
        device: Device,
        name: str,
        programmable: Programmable | None = None,
    ) -> None:
        """Prepare a window of the collector ``name``; nothing is called yet.

        Args:
            session: open.
            dictionary: what the board offers.
            layouts: by schema id.
            device: what is known of its counters.
            name: the collector's.
            programmable: the same one, if its slots count what they are told: the readings are
                those of the events that they count when the window is opened.

        Raises:
            UnknownNameError: the board has no such collector.
        """
        self.blob = b""
        self.readings: dict[str, Reading] = {}
        self.metrics: dict[str, Metric] = {}
        self._collector = dictionary.collector(name)
        self._dictionary = dictionary
        self._session = session
        self._layouts = layouts
        self._device = device
        self._programmable = programmable
        self._slots: Slots | None = None
        self._number: int | None = None
        self._began_s = 0.0

    def init(self) -> None:
        """Bring the collector's counters up again, as the agent did when it started."""
        if self._programmable is None:
            self._call("init")
        else:  # it brings them up in the same way, and asks what they count then
            self._programmable.by_itself()

    def start(self) -> None:
        """Open the window: the counters are read as the last thing before the board replies."""
        if self._number is not None:
            raise UsageError(
                f"This window of {self._collector.name} is open already.",
                hint="look the collector up again for another window",
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
        simulated = self._device.clock_kind == "simulated"
        longest_s = None if simulated else time.monotonic() - self._began_s
        collector, layouts = self._collector, self._layouts
        if self._slots is not None:
            collector, layout = self._slots.collector, self._slots.layout
            layouts = {layout.schema_id: layout}
        samples = decode_samples(blob, [collector], layouts, longest_s=longest_s)
        if len(samples) != 1:
            raise FrameError(f"{self._collector.name}.stop returned {len(samples)} blobs, not one.")
        (sample,) = samples
        left_out = set(self._device.unsupported)
        if self._slots is not None:  # a slot that is off has fields as well
            left_out = sample.readings.keys() - set(self._slots.events)
        self.readings = {n: r for n, r in sample.readings.items() if n not in left_out}
        clock = clock_of(self.readings, self._device.clock_kind)
        for name, reading in self.readings.items():
            self.metrics |= metrics_of(name, reading.value, reading, clock)
        return self.metrics

    def _call(self, operation: str, *numbers: int) -> object:
        function = self._dictionary.function(f"{self._collector.name}.{operation}")
        return self._session.invoke(function.id, function.name, *numbers)

    def __enter__(self) -> Self:
        """Open the window."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the window. After an error it is closed as well, and the error is what counts.

        Not so after a time-out or an interrupt: the board may still be within that call, and
        stopping would wait once more, unseen, for each window.
        """
        if kind is None:
            self.stop()
        elif self._number is not None and _answers(error):
            with contextlib.suppress(BoardprofError):
                self.stop()


def _answers(error: BaseException | None) -> bool:
    return isinstance(error, Exception) and not isinstance(error, BoardTimeoutError)
