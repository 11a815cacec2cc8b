# SPDX-License-Identifier: Apache-2.0
"""Pairing of row groups before and after, and the metrics that are not compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from boardprof.comparison.comparison import Gap
from boardprof.report.calls import SHARE, SHARES
from boardprof.report.report import Report
from boardprof.stats.groups import GroupKey, GroupSummary, calls_of, left_out
from boardprof.stats.summary import summarize

_DECIMALS: Final = 9
"""Digits of a share; further digits are rounding errors."""

_SAME_RATE = Fraction(1, 100)
"""Clocks that differ by less are one clock whose rate was measured twice."""


@dataclass(frozen=True)
class Side:
    """One of two Reports.

    Attributes:
        metrics: the metrics to compare, by group and metric.
        calls: number of calls of each group, in all its samples.
    """

    metrics: Mapping[GroupKey, Mapping[str, GroupSummary]]
    calls: Mapping[GroupKey, int]


@dataclass(frozen=True)
class Pairing:
    """Matches groups of the two Reports.

    Attributes:
        devices: old board -> new board.
        by_hash: the hash separates groups.
    """

    devices: Mapping[str, str]
    by_hash: bool

    def key(self, key: GroupKey, *, is_old: bool) -> GroupKey:
        """Return the key that a side's group has on both sides: with the board's new name."""
        device = self.devices.get(key.device, key.device) if is_old else key.device
        return replace(key, device=device, hash=key.hash if self.by_hash else "")

    def shown(self, key: GroupKey) -> GroupKey:
        """Return a group for people: boards that differ are shown with both names."""
        names = {new: f"{old} -> {new}" for old, new in self.devices.items() if old != new}
        return replace(key, device=names.get(key.device, key.device))

    def gap(self, key: GroupKey, metric: str, why: str) -> Gap:
        """Return why a metric of a group is not compared, or not completely."""
        shown = self.shown(key)
        return Gap(shown.name, shown.shapes, shown.device, shown.flags, metric, why, shown.label)


def needs_hash(groups: Iterable[GroupSummary]) -> bool:
    """Tell whether some groups of equal name differ only by the hash."""
    hashes: dict[GroupKey, str] = {}
    keys = dict.fromkeys(group.key for group in groups)
    return any(hashes.setdefault(replace(k, hash=""), k.hash) != k.hash for k in keys)


def side_of(
    report: Report,
    groups: Sequence[GroupSummary],
    pairing: Pairing,
    named: Collection[str],
    *,
    is_old: bool,
) -> Side:
    """Return the part of a Report that is compared.

    Shares depend on what else was measured: they are compared only where a rule names them.

    Args:
        report: one side.
        groups: its `summaries`.
        pairing: with the other side.
        named: metrics that rules name.
        is_old: it is the older side.
    """
    metrics: dict[GroupKey, dict[str, GroupSummary]] = {}
    chosen = [group for group in groups if group.metric not in SHARES or group.metric in named]
    for group in _with_shares(chosen):
        metrics.setdefault(pairing.key(group.key, is_old=is_old), {})[group.metric] = group
    calls: dict[GroupKey, int] = {}
    for key, number in calls_of(report).items() if SHARE in named else ():
        place = pairing.key(key, is_old=is_old)
        calls[place] = calls.get(place, 0) + number
    return Side(metrics, calls)


def _with_shares(groups: Sequence[GroupSummary]) -> Iterator[GroupSummary]:
    """Yield the groups, with the share of all samples of a group in their board's total.

    A sample's value becomes the share that the group would have if all its samples were equal to
    it.
    """
    whole: dict[str, float] = {}
    for group in groups:
        if group.metric == SHARE:
            sizes = map(float, group.values)
            whole[group.key.device] = whole.get(group.key.device, 0.0) + sum(sizes)
    for group in groups:
        if group.metric != SHARE:
            yield group
        elif (total := whole[group.key.device]) > 0:
            part = 100 * len(group.values) / total
            values = tuple(round(part * float(value), _DECIMALS) for value in group.values)
            yield replace(group, values=values, summary=summarize(values))


def lost_samples(
    report: Report, pairing: Pairing, named: Collection[str], *, is_old: bool
) -> list[Gap]:
    """Return the groups with samples that cannot be in statistics."""
    when = "before" if is_old else "after"
    lost = [each for each in left_out(report) if each.metric not in SHARES or each.metric in named]
    return [
        Gap("", "", "", "", each.metric, f"{each.why}, {when}")
        if each.key is None
        else pairing.gap(pairing.key(each.key, is_old=is_old), each.metric, f"{each.why}, {when}")
        for each in lost
    ]


def why_not(key: GroupKey, metric: str, old: Side, new: Side) -> str | None:
    """Return why two sides of a metric are not compared; None if they are."""
    before, after = old.metrics[key][metric], new.metrics[key][metric]
    if before.kind is not after.kind:
        names = before.kind.__name__, after.kind.__name__
        return f"it is a {names[0]} before, a {names[1]} after, which cannot be compared"
    if before.hz and after.hz and abs(after.hz - before.hz) > _SAME_RATE * before.hz:
        return (
            f"its clock has {before.hz:,} Hz before, {after.hz:,} Hz after, so its steps are not "
            "compared; time is"
        )
    if metric == SHARE and not _is_same_mix(key.device, old.calls, new.calls):
        return "functions were called in other proportions before, and shares depend on that"
    return None


def _is_same_mix(device: str, old: Mapping[GroupKey, int], new: Mapping[GroupKey, int]) -> bool:
    """Tell whether the calls of all functions of a board changed by the same factor."""
    common = [key for key in old if key in new and key.device == device]
    return len({Fraction(new[key], old[key]) for key in common if old[key]}) <= 1
