# SPDX-License-Identifier: Apache-2.0
"""Events of one name aggregated: sums, means and percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration, Metric, metric_called, raw_of
from boardprof.compat.torch.events import CALLS, FunctionEvent, TimeTexts, sum_if_known

__all__ = ["FunctionEventAvg"]


class FunctionEventAvg(TimeTexts):
    """Events of one key.

    Times are in us. A sum is None unless it is known for all events. A mean is per call: the sum
    over the events with a known value, divided by their calls. Percentiles are of the events' own
    means, interpolated between the nearest two.

    Attributes:
        key: their name; see `FunctionEvent.key`.
        kind: of the events; if they are of several kinds, that of the first.
        board: the called board; "" for ranges, and for several boards.
        input_shapes: of all of them, if they were grouped by it; else None.
        stack: the ranges around all of them, innermost first, if they were grouped by it.
        events: the aggregated events.
    """

    def __init__(
        self,
        events: Sequence[FunctionEvent],
        input_shapes: str | None = None,
        stack: tuple[str, ...] = (),
        key: str | None = None,
    ) -> None:
        """Aggregate one or more events; ``key`` is None to use their own."""
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
        """The number of calls that they stand for; ``len(events)`` is the number of events."""
        return sum(event.count for event in self.events)

    @property
    def is_top_level(self) -> bool:
        """Whether any of them is outside of all other events."""
        return any(event.cpu_parent is None for event in self.events)

    @cached_property
    def cpu_time_total(self) -> float:
        """Their total time on the host."""
        return sum(event.cpu_time_total for event in self.events)

    @cached_property
    def self_cpu_time_total(self) -> float:
        """The same without nested events."""
        return sum(event.self_cpu_time_total for event in self.events)

    @property
    def cpu_time(self) -> float:
        """Their mean time on the host."""
        return self.cpu_time_total / self.count

    @cached_property
    def device_time_total(self) -> float | None:
        """Their total time on boards, nested events included."""
        return sum_if_known([event.device_time_total for event in self.events if event.calls])

    @cached_property
    def self_device_time_total(self) -> float | None:
        """The same without nested events."""
        return sum_if_known([e.self_device_time_total for e in self.events if e.kind in CALLS])

    @property
    def device_time(self) -> float | None:
        """Their mean time on boards, over the events with a known time."""
        known = [(t, e.count) for e in self.events if (t := e.device_time_total) is not None]
        return sum(t for t, _ in known) / sum(count for _, count in known) if known else None

    @cached_property
    def flops(self) -> int | None:
        """Operations of all of them; None if any is unknown."""
        return sum_if_known([event.flops for event in self.events])

    # -- spread ---------------------------------------------------------------------------------

    @cached_property
    def _sorted_us(self) -> list[float]:
        return sorted(event.cpu_time for event in self.events)

    def cpu_time_percentile(self, percent: float) -> float:
        """Return the percentile of the host's time per call.

        Raises:
            UsageError: the percentage is not within 0 to 100.
        """
        if not isinstance(percent, int | float) or not 0 <= percent <= 100:
            raise UsageError(f"{percent!r:.60} is not a percentile from 0 to 100.")
        place = (len(self.events) - 1) * percent / 100
        low = int(place)
        high = min(low + 1, len(self.events) - 1)
        times = self._sorted_us
        return times[low] + (times[high] - times[low]) * (place - low)

    @property
    def cpu_time_min(self) -> float:
        """The shortest time."""
        return self._sorted_us[0]

    @property
    def cpu_time_p10(self) -> float:
        """The 10th percentile."""
        return self.cpu_time_percentile(10)

    @property
    def cpu_time_p50(self) -> float:
        """The median."""
        return self.cpu_time_percentile(50)

    @property
    def cpu_time_p90(self) -> float:
        """The 90th percentile."""
        return self.cpu_time_percentile(90)

    @property
    def cpu_time_max(self) -> float:
        """The longest time."""
        return self._sorted_us[-1]

    # -- counters -------------------------------------------------------------------------------

    @cached_property
    def metric_names(self) -> tuple[str, ...]:
        """Names of counters that any of them, or any nested event, has."""
        calls = (call for event in self.events for call in event.calls)
        return tuple(dict.fromkeys(name for call in calls for name in call.metrics))

    @cached_property
    def is_raw(self) -> bool:
        """Whether any counter is raw; see `FunctionEvent.is_raw`."""
        return any(call.is_raw for event in self.events for call in event.calls)

    def metric(self, name: str) -> float | None:
        """Return the mean of a counter per call, in us for times; None if no event has it.

        Nested events are included. Counts on different boards are not comparable, so they have no
        mean.
        """
        name = metric_called(name, self.metric_names) or name
        found = [(event.metric_total(name), event.count) for event in self.events]
        known = [(metric, count) for metric, count in found if metric is not None]
        boards = {call.board for event in self.events for call in event.calls}
        is_time = all(isinstance(metric, Duration) for metric, _ in known)
        if not known or (len(boards) > 1 and not is_time):
            return None
        return sum(_over(metric, count) for metric, count in known) / sum(n for _, n in known)

    def self_metric(self, name: str) -> float | None:
        """Return the mean of a counter of ranges on a board, without the ranges inside them.

        For other events it is their own counter. None if any of them lacks it, or if they are on
        different boards.
        """
        name = metric_called(name, self.metric_names) or name
        found = [(event.self_metric(name), event.count) for event in self.events]
        known = [(metric, count) for metric, count in found if metric is not None]
        if len(known) < len(found) or len({event.board for event in self.events}) > 1:
            return None
        return sum(_over(metric, count) for metric, count in known) / sum(n for _, n in known)


def _over(metric: Metric, calls: int) -> float:
    """Return a metric per call from its sum; shares and ratios are not divided."""
    raw = raw_of(metric)
    assert not isinstance(raw, str)
    return raw if isinstance(metric, Count | Duration) else raw * calls
