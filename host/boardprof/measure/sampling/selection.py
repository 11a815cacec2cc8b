# SPDX-License-Identifier: Apache-2.0
"""Select the collectors for the requested metrics; list the counters that a board lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import metric_called
from boardprof.results.report.calls import DURATION
from boardprof.wire.decode.dictionary import CollectorInfo
from boardprof.wire.decode.samples import Sample

CLOCKS = ("duration_time", "ticks")
"""Counters whose time is the Duration."""


@dataclass(frozen=True)
class Selection:
    """The collectors to run in one pass, and the wanted ones of their counters."""

    collectors: tuple[CollectorInfo, ...]
    counters: frozenset[str]

    @property
    def mask(self) -> int:
        """The collectors in the form of ``bp.measure``: bit i is collector i."""
        return sum(1 << collector.index for collector in self.collectors)

    def without_last(self) -> Selection:
        """Leave out the last collector, for an agent that cannot run this many in one pass."""
        *kept, left_out = self.collectors
        names = {counter.name for counter in left_out.counters}
        return Selection(tuple(kept), self.counters - names)

    def with_all_of(self, collectors: Sequence[CollectorInfo]) -> Selection:
        """Add collectors with all of their counters, unless nothing runs at all."""
        more = [each for each in collectors if each not in self.collectors]
        if not self.collectors or not collectors:
            return self
        names = {counter.name for each in collectors for counter in each.counters}
        active = sorted((*self.collectors, *more), key=lambda each: each.index)
        return Selection(tuple(active), self.counters | names)

    def keep(self, sample: Sample) -> Sample:
        """Leave out readings that are unsupported or not wanted; the blobs stay complete."""
        if sample.readings.keys() <= self.counters:
            return sample
        readings = {name: r for name, r in sample.readings.items() if name in self.counters}
        return Sample(readings, sample.raw)


def unsupported_counters(
    collectors: Sequence[CollectorInfo], known: Mapping[str, str]
) -> dict[str, str]:
    """Return counter name -> why this board does not count it.

    Args:
        collectors: with the status that the board's own probe found.
        known: reasons from board.toml, for cases that a probe cannot see.
    """
    reasons: dict[str, str] = {}
    for collector in collectors:
        for counter in collector.counters:
            # A second collector of the same count has the name COLLECTOR.counter.
            plain = counter.name.removeprefix(f"{collector.name}.")
            reason = known.get(counter.name) or known.get(plain) or counter.unsupported
            if reason is not None:
                reasons[counter.name] = reason
    return reasons


def select_metrics(
    board: str,
    collectors: Sequence[CollectorInfo],
    unsupported: Mapping[str, str],
    metrics: str | Sequence[str] | None,
    clock_kind: str,
) -> Selection:
    """Choose the collectors for one or several ``metrics``; None for all supported ones.

    Raises:
        UnknownNameError: the board has no such metric.
        UsageError: the board has the metric but does not support it; or it is not a name.
    """
    metrics = metric_names(metrics)
    names = [counter.name for collector in collectors for counter in collector.counters]
    supported = [name for name in names if name not in unsupported]
    if not supported:
        found = (f"{name} ({why})" for name, why in unsupported.items())
        raise UsageError(f"{board} has no working counter: {'; '.join(found)}.")
    wanted = (
        supported
        if metrics is None
        else [_counter(board, m, names, unsupported, clock_kind) for m in metrics]
    )
    if not wanted:
        raise UsageError("No metric is named.", hint="name one of " + ", ".join(supported))
    active = tuple(c for c in collectors if any(k.name in wanted for k in c.counters))
    return Selection(active, frozenset(wanted))


def is_duration(metric: str) -> bool:
    """Return whether a metric is the Duration, by its column's name or an alias of it."""
    return metric_called(metric, [DURATION]) is not None and metric not in CLOCKS


def metric_names(metrics: object) -> list[str] | None:
    """Return the names of metrics that a caller gives; None for all.

    Raises:
        UsageError: a value is not a name.
    """
    if metrics is None:
        return None
    if isinstance(metrics, str):
        return [metrics]
    given = list(metrics) if isinstance(metrics, Iterable) else [metrics]
    names = [name for name in given if isinstance(name, str)]
    if len(names) < len(given):
        raise UsageError(
            f"metrics={metrics!r:.60} is not a list of metric names.", hint='metrics=["ticks"]'
        )
    return names


def _counter(
    board: str,
    metric: str,
    names: Sequence[str],
    unsupported: Mapping[str, str],
    clock_kind: str,
) -> str:
    if is_duration(metric) and clock_kind == "simulated":
        raise UsageError(
            f"{board} does not support {metric}: its clock is simulated.",
            hint="one of " + ", ".join(n for n in names if n not in unsupported),
        )
    candidates = CLOCKS if is_duration(metric) else (metric.removesuffix(" (us)"),)
    found = next((name for name in candidates if name in names), None)
    instead = next((name for name in CLOCKS if name in names), None)
    if found is None and metric in CLOCKS and instead is not None:
        raise UsageError(f"{board} has no {metric}: its clock counts {instead}.", hint=instead)
    if found is None:
        raise UnknownNameError("metric", metric, names, owner=board)
    if found in unsupported:
        raise UsageError(
            f"{board} does not support {metric}: {unsupported[found]}.",
            hint="one of " + ", ".join(n for n in names if n not in unsupported),
        )
    return found
