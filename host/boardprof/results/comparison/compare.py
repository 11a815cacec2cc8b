# SPDX-License-Identifier: Apache-2.0
"""Compare two Reports, exact counters exactly and others by rank test; trends of many Reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Final

from boardprof.base.errors import UsageError, option
from boardprof.results.comparison.comparison import (
    DIFFERENT,
    Comparison,
    ComparisonError,
    Difference,
    Gap,
    OutputChange,
    OverLimit,
    first_of,
    gap_in,
    keys_of,
    longer,
    place_in,
    row_title,
)
from boardprof.results.comparison.compatibility import (
    Pairing,
    Side,
    check_allowed,
    check_same,
    facts_of,
    identity,
    lost_samples,
    masked_once,
    needs_hash,
    of_one_build,
    paired_boards,
    side_of,
    why_not,
)
from boardprof.results.comparison.difference import ComparedOutputs, compare_outputs, difference
from boardprof.results.comparison.profile_difference import (
    ProfileDifference,
    profile_difference,
    sampled_difference,
)
from boardprof.results.comparison.rule import Rule, Usual, parse_rules, statistic
from boardprof.results.comparison.rule_check import UsualOf, apply_rules
from boardprof.results.record import LIMIT
from boardprof.results.report.calls import DURATION, SHARE, SHARES, STACK, one_of
from boardprof.results.report.profile import CORE_CYCLES, MODELLED, Profile
from boardprof.results.report.report import Report
from boardprof.results.row_origins import (
    GroupKey,
    ProfiledRow,
    keyed_measurements,
    places_of,
    profiles_of,
    stack_reasons,
)
from boardprof.results.stats.groups import (
    GroupSummary,
    metrics_of_gates,
    number_of_groups,
    summaries,
)
from boardprof.results.stats.summary import Change, Summary, change_points, percentile

_PROPORTIONAL = ("cycles", DURATION, "instructions", "ticks")
"""Metrics that grow with time and work, the best first."""

_MOST_GROUPS: Final = 100_000  # groups of rows in a Report; each takes 10 KB and 0.25 ms

SPREAD_RUNS: Final = 20  # earlier runs that a limit in spreads comes from


def compare(
    before: Report,
    after: Report,
    rules: str | Rule | Iterable[str | Rule] = (),
    *,
    alpha: float = 0.01,
    allow: Iterable[str] = (),
    before_name: str = "before",
    after_name: str = "after",
    fail_if_missing: bool = False,
    sessions: int = 1,
    earlier: Sequence[Report] | None = None,
    spread_runs: int = SPREAD_RUNS,
    tolerance: float = 0.0,
) -> Comparison:
    """Compare two Reports; see `boardprof.compare`, which also takes runs of the history."""
    parsed = parse_rules(rules)
    allowed = _checked(alpha, allow)
    _check_rows(before, after)
    _check_size(before, after)
    old_boards, new_boards = facts_of(before), facts_of(after)
    devices = paired_boards(old_boards, new_boards, allowed)
    notes = check_same(devices, old_boards, new_boards, allowed)
    old_groups, new_groups = summaries(before), summaries(after)
    pairing = Pairing(devices, needs_hash(old_groups) or needs_hash(new_groups))
    named = {name for rule in parsed if not rule.is_glob for name in rule.chosen(SHARES)}
    checks = "inputs" not in allowed
    olds = side_of(before, old_groups, pairing, named, is_old=True, checks_inputs=checks)
    news = side_of(after, new_groups, pairing, named, is_old=False, checks_inputs=checks)
    _check_common(olds, news)
    rows, apart = _rows(olds, news, pairing, alpha, sessions)
    waits = _waits(rows)
    rows = [replace(row, verdict="changed") if row in waits else row for row in rows]
    gaps = [
        *lost_samples(before, pairing, named, is_old=True),
        *lost_samples(after, pairing, named, is_old=False),
        *apart,
    ]
    usual_of = _usual_of(parsed, after, allowed, earlier, spread_runs)
    unknown = _unknown_stacks(before, after, pairing)
    gated = apply_rules(rows, parsed, alpha, gaps, usual_of, unknown)
    outputs = compare_outputs(before, after, pairing, tolerance)
    if "outputs" in allowed:
        told = (f"Allowed: {row_title(c)}: {c.metric}: {c.text}." for c in outputs.changes)
        outputs = ComparedOutputs(notes=(*outputs.notes, *told))
    gated = replace(gated, rows=tuple(_with_outputs(gated.rows, outputs.changes)))
    if any(row.metric == SHARE for row in rows):
        notes.append(
            f"{SHARE} is the share of a function, with all its samples, of its board's total."
        )
    return Comparison(
        gated.rows,
        (
            *notes,
            *masked_once(old_boards, new_boards),
            *of_one_build(rows, old_boards, new_boards),
            *_not_compared(gaps),
            *_only_once(rows, _needless(new_groups, pairing)),
            *_now_unknown(rows, unknown),
            *_verdict_notes(rows, sessions),
            *_about(
                waits,
                "most of the change is not CPU time: it waits for other programs or in a sleep",
            ),
            *_doubts(old_groups, new_groups),
            *outputs.notes,
            *gated.notes,
            *_of_one_run(gated.rows),
            *_modelled(rows, before, after),
        ),
        parsed,
        float(alpha),
        before_name,
        after_name,
        identity(before, old_boards),
        identity(after, new_boards),
        (*gated.unjudged, *outputs.unjudged),
        fail_if_missing,
        gated.judged,
        gated.idle,
        _reasons(before, after, gated.rows, pairing),
        {**places_of(before), **places_of(after)},
        outputs.changes,
        tuple(_over(after)),
    )


def _over(report: Report) -> Iterator[OverLimit]:
    """Yield what a Report says of limits."""
    for key, each in keyed_measurements(report):
        for found in each.findings:
            kind, _, metric = found.kind.partition(" ")
            if kind == LIMIT:
                group = keys_of(replace(key, flags=""))
                yield OverLimit(**group, metric=f"limit of {metric}", text=found.text)


def _with_outputs(
    rows: Iterable[Difference], changes: Iterable[OutputChange]
) -> Iterator[Difference]:
    """Yield rows, without praise or blame for a function that computes something else now."""
    changed = {place_in(each, "") for each in changes}
    for row in rows:
        is_changed = row.verdict in DIFFERENT and place_in(row, "") in changed
        yield replace(row, verdict="output changed") if is_changed else row


_CPU_TIME: Final = "task-clock (us)"


def _waits(rows: Iterable[Difference]) -> list[Difference]:
    """Return changes of time that are mostly not CPU time: neither side's code is better."""
    beside = {place_in(row, ""): row for row in rows if row.metric == _CPU_TIME}
    return [
        row
        for row in rows
        if row.metric == DURATION
        and row.verdict in ("better", "worse")
        and (cpu := beside.get(place_in(row, ""))) is not None
        and 2 * (_step(cpu) + _uncertainty(cpu)) < _step(row)
    ]


def _step(row: Difference) -> float:
    return abs(float(row.after.median - row.before.median)) if row.before and row.after else 0.0


def _uncertainty(row: Difference) -> float:
    """Return how far the step of a row's medians may be off."""
    sides = [each for each in (row.before, row.after) if each is not None]
    return row.doubt + sum(float(each.percentiles[75] - each.percentiles[25]) / 2 for each in sides)


def _checked(alpha: float, allow: Iterable[str]) -> frozenset[str]:
    if not isinstance(alpha, Real) or not 0 < alpha < 1:
        raise UsageError(f"alpha={alpha!r} is not a probability between 0 and 1.")
    names = [allow] if isinstance(allow, str) or not isinstance(allow, Iterable) else [*allow]
    if not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"allow={allow!r:.60} does not name mismatches.", hint="allow=['compiler']"
        )
    check_allowed(names)
    return frozenset(names)


def _check_rows(old: Report, new: Report) -> None:
    empty = [when for when, side in (("before", old), ("after", new)) if not len(side.calls)]
    if empty:
        which = "Neither Report has a row" if len(empty) == 2 else f"The Report {empty[0]} is empty"
        raise ComparisonError(
            f"{which}: there is nothing to compare.", hint="compare Reports that have rows"
        )


def _check_size(old: Report, new: Report) -> None:
    """Refuse what would take all memory."""
    for when, side in (("before", old), ("after", new)):
        if len(side.calls) > _MOST_GROUPS and (count := number_of_groups(side)) > _MOST_GROUPS:
            raise ComparisonError(
                f"The Report {when} has {count:,} different functions, arguments, labels or boards "
                f"to compare; the most are {_MOST_GROUPS:,}.",
                hint="compare Reports of parts of it; there may be any number of samples of each",
            )


def _usual_of(
    rules: Iterable[Rule],
    new: Report,
    allowed: Iterable[str],
    earlier: Sequence[Report] | None,
    most: int,
) -> UsualOf:
    """Return what knows the usual values, for rules that need them."""
    needing = next((rule for rule in rules if rule.needs_runs), None)
    if needing is None:
        return lambda row, statistic: None
    if earlier is None:
        raise ComparisonError(
            f"The rule {needing} needs earlier runs, which only a run of the history has.",
            hint="compare with a run of a branch, such as branch:main",
        )
    trends, _ = trends_of(earlier[-most:], lambda report: compare(report, new, allow=allowed))

    def usual_of(row: Difference, statistic: str) -> Usual | None:
        trend = trends.get(row.place)
        return None if trend is None else trend.usual(statistic)

    return usual_of


def _check_common(old: Side, new: Side) -> None:
    olds, news = old.metrics, new.metrics
    if any(olds[key].keys() & news[key].keys() for key in olds.keys() & news.keys()):
        return
    if olds.keys() & news.keys():
        names = [
            ", ".join(dict.fromkeys(name for each in side.values() for name in each))
            for side in (olds, news)
        ]
        what = f"metric in common: {names[0]} before, {names[1]} after"
    else:
        what = f"row in common.\nBefore: {_listed(olds)}.\nAfter: {_listed(news)}"
    raise ComparisonError(
        f"The Reports have no {what}.",
        hint="rows match if name, label, arguments, flags of a sweep and board are the same",
    )


def _listed(side: Iterable[GroupKey]) -> str:
    return first_of(map(row_title, side)) or "nothing"


def _rows(
    old: Side, new: Side, pairing: Pairing, alpha: float, sessions: int
) -> tuple[list[Difference], list[Gap]]:
    """Return a row for each metric of each group, and the metrics that are not compared."""
    rows: list[Difference] = []
    gaps: list[Gap] = []
    for key in dict.fromkeys([*old.metrics, *new.metrics]):
        olds, news = old.metrics.get(key, {}), new.metrics.get(key, {})
        for metric in dict.fromkeys([*olds, *news]):
            shown = pairing.shown(key)
            why = why_not(key, metric, old, new) if metric in olds and metric in news else None
            if why is None:
                rows.append(difference(shown, olds.get(metric), news.get(metric), alpha, sessions))
            else:
                gaps.append(gap_in(shown, metric, why))
    return rows, gaps


def _reasons(
    old: Report, new: Report, rows: Iterable[Difference], pairing: Pairing
) -> dict[tuple[str, ...], ProfileDifference]:
    """Return where functions changed, by the places of the rows that did."""
    before, after = (
        {
            pairing.shown(pairing.key(_key(each), is_old=is_old)): each.profile
            for each in profiles_of(side)
            if each.profile.is_complete
        }
        for side, is_old in ((old, True), (new, False))
    )
    found: dict[tuple[str, ...], ProfileDifference] = {}
    explained: set[GroupKey] = set()
    others: defaultdict[GroupKey, list[Difference]] = defaultdict(list)
    for row in rows if before and after else ():
        key = _key(row)
        one, other = before.get(key), after.get(key)
        if one is None or other is None or one.exact != other.exact or not row.change:
            continue
        if row.metric in MODELLED[1:]:  # the estimate explains them
            continue
        if one.exact and row.metric in one.columns and row.metric in other.columns:
            found[row.place] = profile_difference(one, other, row.metric)
            explained.add(key)
        elif row.verdict in DIFFERENT:
            others[key].append(row)
    for key, changed in others.items():
        explain = _difference_of_work if before[key].exact else _sampled_difference
        reason = None if key in explained else explain(before[key], after[key], changed)
        if reason is not None:
            found[reason[0].place] = reason[1]
    return found


def _sampled_difference(
    before: Profile, after: Profile, rows: Iterable[Difference]
) -> tuple[Difference, ProfileDifference] | None:
    """Estimate from sampled profiles which functions and lines changed beyond their uncertainty."""
    row = _proportional(rows)
    if row is None or row.before is None or row.after is None:
        return None
    costs = float(row.before.median), float(row.after.median)
    scale = 1000 if row.metric == DURATION else 1
    return row, sampled_difference(before, after, row.metric, costs, scale)


def _difference_of_work(
    before: Profile, after: Profile, rows: Iterable[Difference]
) -> tuple[Difference, ProfileDifference] | None:
    """Explain a metric that exact profiles lack by one they have, such as instructions, or None."""
    row = _proportional(rows)
    if row is None or not row.change or after.metric not in before.columns:
        return None
    found = profile_difference(before, after)
    gained = found.after - found.before
    return (row, found) if gained and (gained > 0) == (row.change > 0) else None


def _proportional(rows: Iterable[Difference]) -> Difference | None:
    """Return the row whose metric grows with time or work; the best, if there are several."""
    by_metric = {row.metric: row for row in rows}
    return next((by_metric[name] for name in _PROPORTIONAL if name in by_metric), None)


def _key(row: ProfiledRow | Difference) -> GroupKey:
    return GroupKey(row.name, row.shapes, row.flags, row.device, label=row.label)


def _not_compared(gaps: Iterable[Gap]) -> list[str]:
    """List the metrics that are not compared, or not with all samples, with the reasons."""
    found: dict[str, dict[str, None]] = {}
    for gap in gaps:
        found.setdefault(gap.why, {})[gap.what] = None
    return [f"{first_of(names)}: {why}." for why, names in found.items()]


def _needless(groups: Sequence[GroupSummary], pairing: Pairing) -> set[tuple[str, ...]]:
    """Return the places of metrics that a baseline does not have by design."""
    needed = {(each.key, each.metric) for each in metrics_of_gates(groups)}
    return {
        place_in(pairing.shown(pairing.key(each.key, is_old=False)), each.metric)
        for each in groups
        if (each.key, each.metric) not in needed
    }


def _only_once(rows: Sequence[Difference], needless: Collection[tuple[str, ...]]) -> list[str]:
    """List the functions and metrics that only one of the Reports has, except ``needless`` ones."""
    has_several = len({row.device for row in rows}) > 1
    told = [row for row in rows if row.verdict != "added" or row.place not in needless]
    found = {
        when: _names((row for row in told if row.verdict == verdict), with_device=has_several)
        for verdict, when in (("removed", "before"), ("added", "after"))
    }
    return [f"Only {when}: {names}." for when, names in found.items() if names]


def _unknown_stacks(old: Report, new: Report, pairing: Pairing) -> dict[tuple[str, ...], str]:
    """Return why the stack of a row is unknown, by place; the newer Report's reason first."""
    found: dict[tuple[str, ...], str] = {}
    for side, is_old in ((old, True), (new, False)):
        for key, why in stack_reasons(side).items():
            found[place_in(pairing.shown(pairing.key(key, is_old=is_old)), STACK)] = why
    return found


def _now_unknown(rows: Sequence[Difference], unknown: Mapping[tuple[str, ...], str]) -> list[str]:
    """Say why the stack is only in the older Report."""
    return [
        f"{row.what} is unknown now: {unknown[row.place]}."
        for row in rows
        if row.verdict == "removed" and row.place in unknown
    ]


def _verdict_notes(rows: Sequence[Difference], sessions: int) -> list[str]:
    """Say why verdicts are as they are, each with the rows that it is about."""
    advice = longer(one_of(row.label for row in rows))
    in_pairs = f"judged by the medians of {sessions} alternating sessions on each side"
    are_all = all(row.is_paired for row in rows if row.p is not None)
    paired = [f"What varies is {in_pairs}."] if are_all and any(r.is_paired for r in rows) else None
    return [
        *_about(
            (row for row in rows if row.verdict == "other inputs"),
            "its arrays had other contents before, so the change is not judged; "
            f"{option('--allow', 'inputs')} does",
        ),
        *_about(
            (row for row in rows if row.verdict == "within overhead"),
            "the measurement overhead may differ by as much between two runs, so there may be no "
            f"change; {advice}",
        ),
        *(paired or _about((row for row in rows if row.is_paired), in_pairs)),
    ]


def _of_one_run(rows: Sequence[Difference]) -> list[str]:
    """Warn that a rank test of two runs does not cover what varies from run to run."""
    found = (row for row in rows if row.broken and row.p is not None)
    return _about(
        (row for row in found if not (row.is_emulated or row.is_paired)),
        "one run on each side cannot show what varies from run to run, such as the CPU's clock, "
        "the placement of code and data, and other programs; believe it if it "
        f"comes again with {option('--ab-rev', 'REV')}, which measures both in turns, or in each "
        "of two further pairs of runs",
    )


def _about(rows: Iterable[Difference], text: str) -> list[str]:
    names = _names(rows)
    return [f"{names}: {text}."] if names else []


def _modelled(rows: Iterable[Difference], *sides: Report) -> list[str]:
    """Say what modelled cycles are, if they are compared."""
    if not any(row.metric in MODELLED for row in rows):
        return []
    found = (each.profile.modelled for side in sides for each in profiles_of(side))
    how = list(dict.fromkeys(filter(None, found))) or ["the core only, at zero wait states"]
    return [f"{CORE_CYCLES} are modelled {text}; see docs/cycles.md." for text in how]


def _names(rows: Iterable[Difference], *, with_device: bool = False) -> str:
    return first_of(
        dict.fromkeys(f"{row.what}{f' on {row.device}' if with_device else ''}" for row in rows)
    )


# -- trends -----------------------------------------------------------------------------------

_TO_SIGMA: Final = 14826
"""A normal distribution's standard deviation over its median absolute deviation, times 10,000."""


@dataclass(frozen=True)
class Trend:
    """One metric of one group of rows over several runs."""

    row: Difference  # the group and the metric, as in the comparison of the newest run
    runs: tuple[int, ...]  # those that have it, the oldest first, by their places in the list
    summaries: tuple[Summary, ...]  # of the metric's samples per call in each
    is_exact: bool  # its value repeats exactly as long as the code does not change

    @cached_property
    def medians(self) -> list[int | float]:
        """The median of each run."""
        return [each.median for each in self.summaries]

    @cached_property
    def changes(self) -> list[Change]:
        """The changes of the median; `Change.at` counts those runs."""
        return change_points(self.medians, is_exact=self.is_exact)

    def usual(self, name: str = "median") -> Usual | None:
        """Return what is usual for a statistic since the last change; None if no run has it."""
        first = self.changes[-1].at if self.changes else 0
        found = (statistic(each, name) for each in self.summaries[first:])
        values = [value for value in found if value is not None]
        if not values:
            return None
        middle = percentile(sorted(values), 50)
        distances = sorted(abs(value - middle) for value in values)
        spread = _TO_SIGMA * percentile(distances, 50) / 10_000
        return Usual(middle, spread, len(values))


def _doubts(old: Iterable[GroupSummary], new: Iterable[GroupSummary]) -> list[str]:
    """Return why numbers may be wrong, each once, with the side that it is about."""
    sides = (("before", old), ("after", new))
    found = ((when, doubt) for when, groups in sides for each in groups for doubt in each.doubts)
    return [f"Doubtful {when}: {doubt}." for when, doubt in dict.fromkeys(found)]


def trends_of(
    runs: Sequence[Report], compared: Callable[[Report], Comparison]
) -> tuple[dict[tuple[str, ...], Trend], dict[int, str]]:
    """Return the trends of a Report's rows over several runs, the oldest first, by their places.

    Also return why some runs cannot be compared, by their numbers.
    """
    rows: dict[tuple[str, ...], list[tuple[int, Difference, Summary]]] = {}
    left_out: dict[int, str] = {}
    for number, run in enumerate(runs):
        try:
            found = compared(run)
        except ComparisonError as error:  # such as another compiler
            left_out[number] = error.message
            continue
        places = Counter(row.place for row in found.rows)
        others = {place_in(row, "") for row in found.rows if row.verdict == "other inputs"}
        if others and others == {place_in(row, "") for row in found.rows}:
            left_out[number] = "Its arrays had other contents (--allow inputs includes it)."
        for row in found.rows:
            # Rows that only a hash distinguishes have the same place, and no trend.
            is_alone = places[row.place] == 1 and place_in(row, "") not in others
            is_told = row.verdict not in ("other calls", "doubtful")
            if is_alone and row.before and row.after and is_told:
                rows.setdefault(row.place, []).append((number, row, row.before))
    trends = {}
    for place, each in rows.items():
        numbers, differences, befores = zip(*each, strict=True)
        is_exact = all(row.is_exact for row in differences)
        trends[place] = Trend(differences[-1], numbers, befores, is_exact)
    return trends, left_out
