# SPDX-License-Identifier: Apache-2.0
"""Events of one name taken together: sums, means, and how they are spread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

from boardprof.errors import UsageError
from boardprof.metrics import Count, Duration, Metric, raw_of
from boardprof.trace.events import CALLS, FunctionEvent
from boardprof.trace.time_texts import TimeTexts

__all__ = ["FunctionEventAvg"]

_N = TypeVar("_N", int, float)


class FunctionEventAvg(TimeTexts):
    """Events of one key.

    Times are in us. A sum is None unless all events know it. A mean is for one call: the sum over
    those events that know it, by their calls. Percentiles are of the events' own means, and are
    interpolated between the nearest two.

    Attributes:
        key: their name; see `FunctionEvent.key`.
        kind: what they are; that of the first where they are of several.
        board: that was called, "" for ranges, and for several.
        input_shapes: of all of them, where they were grouped by it; else None.
        stack: what all of them stand in, the innermost first, where they were grouped by it.
        events: they themselves.
    """

    def __init__(
        self,
        events: Sequence[FunctionEvent],
        input_shapes: str | None = None,
        stack: tuple[str, ...] = (),
        key: str | None = None,
    ) -> None:
        """Take events together, one or more; ``key`` None: their own."""
        self.events = tuple(events)
        self.key = events[0].key if key is None else key
        self.kind = events[0].kind
        self.board = events[0].board if len({event.board for event in events}) == 1 else ""
        self.input_shapes = input_shapes
        self.stack = stack

    def __repr__(self) -> str:
        """Return key, count and time."""
        return f"<{self.key}: {self.count} calls, {self.cpu_time_total:.3f} us>"

    @property
    def name(self) -> str:
        """The same as `key`."""
        return self.key

    @property
    def count(self) -> int:
        """How many calls they stand for; how many events there are is ``len(events)``."""
        return sum(event.count for event in self.events)

    @property
    def is_top_level(self) -> bool:
        """Whether any of them stands in no other event."""
        return any(event.cpu_parent is None for event in self.events)

    @cached_property
    def cpu_time_total(self) -> float:
        """How long they took the host, together."""
        return sum(event.cpu_time_total for event in self.events)

    @cached_property
    def self_cpu_time_total(self) -> float:
        """The same without what stands in them."""
        return sum(event.self_cpu_time_total for event in self.events)

    @property
    def cpu_time(self) -> float:
        """How long they took the host, the mean."""
        return self.cpu_time_total / self.count

    @cached_property
    def device_time_total(self) -> float | None:
        """How long they ran on boards, what stands in them included, together."""
        return _sum([event.device_time_total for event in self.events if event.calls])

    @cached_property
    def self_device_time_total(self) -> float | None:
        """The same without what stands in them."""
        return _sum([e.self_device_time_total for e in self.events if e.kind in CALLS])

    @property
    def device_time(self) -> float | None:
        """How long they ran on boards, the mean of those of which it is known."""
        known = [(t, e.count) for e in self.events if (t := e.device_time_total) is not None]
        return sum(t for t, _ in known) / sum(count for _, count in known) if known else None

    @cached_property
    def flops(self) -> int | None:
        """Operations of all of them; None where those of any are unknown."""
        return _sum([event.flops for event in self.events])

    # -- spread ---------------------------------------------------------------------------------

    @cached_property
    def _sorted_us(self) -> list[float]:
        return sorted(event.cpu_time for event in self.events)

    def cpu_time_percentile(self, percent: float) -> float:
        """Return what a call of so many percent of the events took the host at most.

        Raises:
            UsageError: it is not within 0 to 100.
        """
        if not isinstance(percent, int | float) or not 0 <= percent <= 100:
            raise UsageError(f"There is no percentile {percent!r:.60}: 0 to 100.")
        place = (len(self.events) - 1) * percent / 100
        low = int(place)
        high = min(low + 1, len(self.events) - 1)
        times = self._sorted_us
        return times[low] + (times[high] - times[low]) * (place - low)

    @property
    def cpu_time_min(self) -> float:
        """The shortest."""
        return self._sorted_us[0]

    @property
    def cpu_time_p10(self) -> float:
        """A tenth took less."""
        return self.cpu_time_percentile(10)

    @property
    def cpu_time_p50(self) -> float:
        """The median."""
        return self.cpu_time_percentile(50)

    @property
    def cpu_time_p90(self) -> float:
        """A tenth took more."""
        return self.cpu_time_percentile(90)

    @property
    def cpu_time_max(self) -> float:
        """The longest."""
        return self._sorted_us[-1]

    # -- counters -------------------------------------------------------------------------------

    @cached_property
    def metric_names(self) -> tuple[str, ...]:
        """Counters that any of them has, or what stands in it."""
        calls = (call for event in self.events for call in event.calls)
        return tuple(dict.fromkeys(name for call in calls for name in call.metrics))

    @cached_property
    def is_raw(self) -> bool:
        """Whether any counter is raw; see `FunctionEvent.is_raw`."""
        return any(call.is_raw for event in self.events for call in event.calls)

    def metric(self, name: str) -> float | None:
        """Return the mean of a counter for one call, us of times; None where no event has it.

        What stands in an event is included. Counts on several boards have nothing in common: they
        have no mean.
        """
        found = [(event.metric_total(name), event.count) for event in self.events]
        known = [(metric, count) for metric, count in found if metric is not None]
        boards = {call.board for event in self.events for call in event.calls}
        is_time = all(isinstance(metric, Duration) for metric, _ in known)
        if not known or (len(boards) > 1 and not is_time):
            return None
        return sum(_over(metric, count) for metric, count in known) / sum(n for _, n in known)


def _over(metric: Metric, calls: int) -> float:
    """Return a metric summed over calls; shares and ratios are of all of them already."""
    raw = raw_of(metric)
    assert not isinstance(raw, str)
    return raw if isinstance(metric, Count | Duration) else raw * calls


def _sum(values: Sequence[_N | None]) -> _N | None:
    """Return the sum; None where any is unknown, and of nothing."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
