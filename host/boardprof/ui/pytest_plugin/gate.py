# SPDX-License-Identifier: Apache-2.0
"""Gates on the measurements of a test, and of a whole session: limits, and an earlier run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.results.comparison.comparison import DIFFERENT, Comparison, Difference, Unjudged
from boardprof.results.comparison.compatibility import comparable_flags
from boardprof.results.comparison.rule import parse_rule
from boardprof.results.record import NO_RECORD
from boardprof.results.report.calls import SHARES, Row
from boardprof.results.report.report import Report
from boardprof.results.row_origins import titled
from boardprof.results.stats.groups import GroupSummary, over_limits, summaries
from boardprof.ui.pytest_plugin.options import unnumbered

if TYPE_CHECKING:
    from boardprof.results.history.run import Run
    from boardprof.results.history.run_comparison import BranchRuns
    from boardprof.show.layout import Page


@dataclass(frozen=True)
class Other:
    """The other side of a test's measurements."""

    name: str
    report: Report
    sessions: int  # that each side was measured in
    allow: tuple[str, ...]  # mismatches that are intended


@dataclass(frozen=True)
class Verdict:
    """The result of checking a Report against a gate."""

    failures: tuple[str, ...]
    notes: tuple[str, ...]
    is_compared: bool | None = None  # with the baseline. None if there is no baseline
    is_ruled: bool = False  # there are rules, so a change can be a failure
    rows: tuple[Difference, ...] = ()  # without rules, the comparison of each metric
    # number of the run of a branch that it was compared with. None if it was none
    run: int | None = None
    # it fails only because the branch has no run like this one yet, or too few
    is_waiting: bool = False


@dataclass(frozen=True)
class MeasurementGate:
    """Limits and rules."""

    # ``earlier`` returns the runs of the baseline's branch up to it, the oldest first, for rules in
    # spreads. With ``branch``, each measurement's baseline is its newest run like the measurement.

    limits: Mapping[str, float]  # metric -> the largest allowed median per call
    rules: Sequence[str]
    baseline: tuple[str, Report] | None  # the earlier run: its name and its Report. None if absent
    allow: Sequence[str] = ()
    is_baseline_required: bool = False
    earlier: Callable[[], Sequence[Report]] | None = None
    branch: BranchRuns | None = None

    def judge(self, report: Report, other: Other | None = None) -> Verdict:
        """Check a test's Report against the gate."""
        groups = summaries(report)
        boards = ", ".join(dict.fromkeys(each.board for each in groups))
        uncounted = [
            f"the rule {rule} cannot be checked, because its metric was not counted: {error}"
            for rule, error in _without_metric(self.rules, groups, boards)
        ]
        failures = [*(text for _, text in over_limits(groups, self.limits)), *uncounted]
        if uncounted or (self.baseline is None and other is None):
            return Verdict(tuple(failures), ())
        is_ruled = bool(self.rules)
        name, common, run = self._before(report, other)
        is_held = not failures
        if common is None:
            names = ", ".join(dict.fromkeys(each.key.name for each in groups))
            text = f"{name} has no matching run of {names} by this test"
            failures += self._required([f"not compared: {text}"])
            return Verdict(
                tuple(failures),
                (text,),
                is_compared=False,
                is_ruled=is_ruled,
                is_waiting=is_held and self.branch is not None and other is None,
            )
        # Later: most tests compare nothing.
        from boardprof.results.comparison.compare import compare
        from boardprof.show.comparison_table import output_lines

        found = compare(
            common,
            report,
            self.rules,
            allow=self.allow if other is None else (*self.allow, *other.allow),
            before_name=name,
            after_name="now",
            sessions=1 if other is None else other.sessions,
            earlier=self._runs(run) if other is None else None,
        )
        if found.outputs:
            failures.append("\n".join(f"output changed: {line}" for line in output_lines(found)))
        if found.regressed:
            broken = "; ".join(map(_broken, found.regressions))
            failures.append(f"regression: {broken}\n{found.table(changed_only=True)}")
        new = [*_of_new_metrics(found)]
        failures += self._required([*map(_unjudged_text, found.unjudged), *new])
        return Verdict(
            tuple(failures),
            (*_untold(found), *found.notes),
            is_compared=not new or len(new) < len(self.rules),
            is_ruled=is_ruled,
            rows=() if is_ruled else found.rows,
            run=None if run is None else int(run.id),
            is_waiting=is_held and run is not None and found.awaits_runs and not found.is_worse,
        )

    def _runs(self, run: Run | None) -> Sequence[Report] | None:
        """Return the earlier runs if a rule needs them."""
        if not any(parse_rule(rule).needs_runs for rule in self.rules):
            return None
        if self.branch is not None and run is not None:
            return self.branch.earlier(run)
        return None if self.earlier is None else self.earlier()

    def _before(self, report: Report, other: Other | None) -> tuple[str, Report | None, Run | None]:
        """Return the older side's name, its matching rows, and a branch's run; None if absent."""
        any_board = "board" in self.allow
        if other is None and self.branch is not None:
            found = self.branch.baseline(
                report,
                rules=self.rules,
                allow=self.allow,
                part=lambda earlier: part_about(earlier, report, any_board=any_board),
            )
            if found is None:
                return f"the branch {self.branch.branch}", None, None
            return found.label, found.report, found.run
        held = self.baseline if other is None else (other.name, other.report)
        assert held is not None
        name, earlier = held
        return name, part_about(earlier, report, any_board=any_board), None

    def _required(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield what could not be compared or checked, if that counts as a failure."""
        if self.is_baseline_required:
            yield from (f"{text} (--bp-require-baseline)" for text in texts)


def _without_metric(
    rules: Sequence[str], groups: Sequence[GroupSummary], owner: str
) -> Iterator[tuple[str, UnknownNameError]]:
    """Yield rules whose metric is missing, so that they cannot break, with a text for each."""
    metrics = list(dict.fromkeys(each.metric for each in groups))
    names = [*metrics, *SHARES, *(f"{each.key.device}.{each.metric}" for each in groups)]
    for rule in map(parse_rule, rules):
        if not rule.is_glob and not rule.chosen(names):
            yield rule.text, UnknownNameError("metric", rule.metric, metrics, owner=owner)


def _unjudged_text(each: Unjudged) -> str:
    return f"{each.what} could not be checked against {each.by}: {each.why}"


def _untold(found: Comparison) -> Iterator[str]:
    """Yield what could not be checked, if no note gives the reason."""
    for each in found.unjudged:
        if not any(each.why in note for note in found.notes):
            yield _unjudged_text(each)


def _of_new_metrics(found: Comparison) -> Iterator[str]:
    """Yield the rules for metrics that were not counted before."""
    for rule in found.rules:
        rows = [
            row for row in found.rows if rule.chosen([row.metric, f"{row.device}.{row.metric}"])
        ]
        if rows and all(row.before is None for row in rows):
            metrics = ", ".join(dict.fromkeys(row.metric for row in rows))
            yield f"the rule {rule} needs {metrics}, which is missing from {found.before_name} here"


def check_rules(rules: Sequence[str]) -> None:
    """Check before the first measurement that rules parse."""
    for rule in rules:
        if not isinstance(rule, str):
            raise UsageError(f"{rule!r} is not a rule.", hint="fail_if=['cycles:median>2%']")
        parse_rule(rule)


def check_limits(limits: object) -> None:
    """Check before the first measurement that limits are numbers, by metric."""
    is_right = isinstance(limits, Mapping) and all(
        isinstance(each, Real) and each == each for each in limits.values()
    )
    if not is_right:
        raise UsageError(
            f"limit={limits!r} must give a number for each metric.",
            hint="limit={'instructions': 50_000}",
        )


def check_counted(rules: Sequence[str], name: str, baseline: Report) -> None:
    """Check before the first measurement that a baseline has the metrics of the rules."""
    for _, error in _without_metric(rules, summaries(baseline), name):
        raise error


def _broken(row: Difference) -> str:
    """Describe a broken rule; the change comes first, because pytest cuts long lines."""
    # Later: most rules hold.
    from boardprof.show.comparison_table import change_text, median_text

    sides = f"{median_text(row.before, row.kind)} to {median_text(row.after, row.kind)}"
    return f"{change_text(row)} {row.metric}, {sides} ({row.rule})"


_LABEL = "Label"
_KEYS = ("Name", "Argument Shapes", _LABEL)
"""The key of a measurement on a board: columns of rows, and keys of the raw data."""

_COLUMNS = (*_KEYS, "Device")


def part_about(earlier: Report, report: Report, *, any_board: bool) -> Report | None:
    """Return the matching part of an earlier run. None if there is none."""
    # If tests of the earlier run were built with several flags, its rows have a column of flags.
    # These must match too, and are left out of the result, because the test's own rows do not have
    # them. A run outside of pytest has no labels, and matches every test.
    is_swept = "Flags" in earlier.calls.names
    rows: list[Row] = [*earlier.calls]
    measurements = [*(earlier.record or NO_RECORD).measurements]
    if _LABEL not in earlier.calls.names:
        label = str(next(iter(report.calls.column(_LABEL).filled("")), ""))
        rows = [{**row, _LABEL: label} for row in rows]
        measurements = [replace(each, label=label) for each in measurements]
    keys = _KEYS if any_board else _COLUMNS
    wanted = {tuple(row.get(key, "") for key in keys) for row in report.calls}
    own = (report.record or NO_RECORD).measurements
    flags = {comparable_flags(each.flags) for each in own if each.flags is not None}
    found: list[Row] = [
        {name: metric for name, metric in row.items() if name != "Flags"}
        for row in rows
        if tuple(row.get(key, "") for key in keys) in wanted and _fits(row.get("Flags", ""), flags)
    ]
    if not found:
        return None
    kept = tuple(
        each
        for each in measurements
        if (each.name, each.arguments, each.label) in {key[:3] for key in wanted}
        and (not is_swept or _fits(each.flags, flags))
    )
    record = earlier.record and replace(earlier.record, measurements=kept)
    return Report(found, earlier.device_metrics, earlier.configuration, record=record)


def _fits(found: object, wanted: set[str]) -> bool:
    """Tell whether flags are among the wanted ones; rows without flags always are."""
    return not isinstance(found, str) or found == "" or comparable_flags(found) in wanted


# -- a whole session, after all its tests have measured ----------------------------------------

_MOST_LISTED = 3


@dataclass(frozen=True)
class Conclusion:
    """The result of a session's comparisons."""

    errors: tuple[str, ...] = ()  # why the session fails although no test may have
    notes: tuple[str, ...] = ()
    # what became better or worse without a rule; "" if there is nothing to report
    changes: Page = ()


class _Place(NamedTuple):
    """The key of a measurement: columns of rows, in `_COLUMNS`' order."""

    name: str
    arguments: str
    label: str
    device: str

    def __str__(self) -> str:
        return f"{titled(self.name, self.label)}({self.arguments}) on {self.device}"


def conclude(
    baseline: tuple[str, Report],
    report: Report | None,
    verdicts: Sequence[Verdict],
    *,
    any_board: bool,
    is_ruled: bool,
    is_required: bool,
    is_asked_for: Callable[[str], bool],
    skipped: Mapping[str, str],
) -> Conclusion:
    """Judge a session as a whole."""
    # If there is a rule, it is an error to have nothing in common with the baseline, because then
    # no change could break the rule. It is also an error if nothing was measured although this
    # session was meant to run tests of the baseline.
    name, earlier = baseline
    before, now = _places(earlier), [] if report is None else _places(report)
    held = [each for each in verdicts if each.is_compared is not None]
    lacking = sum(not each.is_compared for each in held)
    if held and lacking == len(held):
        told = (_nothing_compared(name, before, now),)
        can_fail = any(each.is_ruled for each in held)
        return Conclusion(errors=told) if can_fail else Conclusion(notes=told)
    unmade = _unmade(before, now, any_board)
    measured = {each.label for each in now}
    missed = [each for each in unmade if each.label not in measured and is_asked_for(each.label)]
    gone = [each for each in _gone_benchmarks(before, now) if is_asked_for(each.label)]
    unmade, missed = unmade + gone, missed + gone
    if report is None and is_ruled and missed:
        return Conclusion(errors=(_nothing_measured(name, missed, skipped),))
    notes = [f"nothing was measured, so nothing is compared with {name}"] if report is None else []
    notes += (
        [f"{lacking} of {len(held)} not compared: they are missing from {name}"] if lacking else []
    )
    failing = dict.fromkeys(missed if is_required else [])
    texts = _unmade_text(name, failing, measured)
    errors = tuple(f"{text} (--bp-require-baseline)" for text in texts)
    notes += _unmade_text(name, [each for each in unmade if each not in failing], measured)
    notes += _recounted(name, before, now, any_board)
    return Conclusion(errors, tuple(notes), _changes(name, held))


def _places(report: Report) -> list[_Place]:
    return [_Place(*map(str, key)) for key in report.calls.group_by(*_COLUMNS).keys]


def _nothing_compared(name: str, before: Sequence[_Place], now: Sequence[_Place]) -> str:
    tries = ["measure the baseline again with these tests (--bp-save, --bp-json)"]
    if not {each.device for each in before} & {each.device for each in now}:
        tries.insert(0, "use the same --bp-board, or --bp-allow board")
    elif not {*map(_file, before)} & {*map(_file, now)}:
        tries.insert(0, "use the same root folder (--rootdir), because labels start there")
    return (
        f"nothing could be compared with {name}, so no change can fail a test.\n"
        f"{name} has: {_listed(map(str, before))}.\n"
        f"Now: {_listed(map(str, now))}.\n"
        f"Try: {', or '.join(tries)}; if only new tests run, leave out --bp-compare"
    )


def _nothing_measured(name: str, missed: Sequence[_Place], skipped: Mapping[str, str]) -> str:
    tests = {unnumbered(each.label) for each in missed}
    reasons = [skipped[test] for test in sorted(tests & skipped.keys())]
    n, count = len(reasons), len(tests)
    why = [f"{n} of {count} skipped: {_listed(reasons)}"] if n else []
    why += [f"{count - n} of {count} are gone or measured nothing"] if n < count else []
    tries = ["check why they are skipped"] if n else ["restore these tests"]
    tries += ["measure the baseline again without them (--bp-save, --bp-json)"]
    return (
        f"nothing was measured, so nothing could be compared with {name} and no test can fail.\n"
        f"{name} has: {_listed(map(str, missed))}.\n"
        f"These tests now: {'; '.join(why)}.\n"
        f"Try: {', or '.join(tries)}; if nothing should be measured, leave out --bp-compare"
    )


def _file(place: _Place) -> str:
    return place.label.partition("::")[0]


def _unmade(before: Sequence[_Place], now: Sequence[_Place], any_board: bool) -> list[_Place]:
    """Return what tests measured before but not now."""
    made = {_alike(each, any_board) for each in now}
    return [each for each in before if "::" in each.label and _alike(each, any_board) not in made]


def _gone_benchmarks(before: Sequence[_Place], now: Sequence[_Place]) -> list[_Place]:
    """Return what was measured outside of tests before, and by nothing now, on boards of now."""
    # Without a label, a row may be that of any test.
    labels = {each[:2]: {""} for each in now}
    for each in now:
        labels[each[:2]].add(each.label)
    devices = {each.device for each in now}
    own = [each for each in before if "::" not in each.label and each.device in devices]
    return [each for each in own if each.label not in labels.get(each[:2], ())]


def _alike(place: _Place, any_board: bool) -> _Place:
    return place._replace(device="") if any_board else place


def _unmade_text(name: str, unmade: Collection[_Place], measured: set[str]) -> Iterator[str]:
    """Yield one text, or nothing if nothing is missing."""
    if not unmade:
        return
    names = (
        str(each) if each.label in measured or "::" not in each.label else each.label
        for each in unmade
    )
    what = "measurement" if len(unmade) == 1 else "measurements"
    verb = "was" if len(unmade) == 1 else "were"
    yield f"{len(unmade)} {what} of {name} {verb} not repeated: {_listed(names)}"


def _recounted(
    name: str, before: Sequence[_Place], now: Sequence[_Place], any_board: bool
) -> Iterator[str]:
    """Report where a test measures something more or less often than before."""
    olds, news = _numbers(before, any_board), _numbers(now, any_board)
    for place, old in olds.items():
        new = news.get(place, old)
        if new != old:
            yield (
                f"{place.label}: {name} has {old} measurements of "
                f"{place.name}({place.arguments}), this session has {new}. The n-th is compared "
                "with the n-th, which may be a different call"
            )


def _numbers(places: Iterable[_Place], any_board: bool) -> dict[_Place, int]:
    """Return how often each test measures something."""
    labels: dict[_Place, set[str]] = {}
    for each in places:
        place = _alike(each, any_board)._replace(label=unnumbered(each.label))
        labels.setdefault(place, set()).add(each.label)
    return {place: len(found) for place, found in labels.items()}


def _changes(name: str, held: Iterable[Verdict]) -> Page:
    rows = tuple(row for each in held for row in each.rows)
    if not rows:
        return ()
    # Later: most sessions have rules, or no baseline.
    from boardprof.show.comparison_table import comparison_page, headline
    from boardprof.show.layout import Table

    changed = tuple(row for row in rows if row.verdict in DIFFERENT)
    tables = [part for part in comparison_page(Comparison(changed)) if isinstance(part, Table)]
    counts = headline(Comparison(rows)).partition("; ")[2]
    told = f"Compared with {name} without a rule: {counts}"
    how = "No change can fail a test. To set rules: --bp-fail-if RULE, or fail_if= in the marker."
    return (told, *tables, how)


def _listed(names: Iterable[str]) -> str:
    every = [*dict.fromkeys(names)]
    more = f" and {len(every) - _MOST_LISTED} more" if len(every) > _MOST_LISTED else ""
    return ", ".join(every[:_MOST_LISTED]) + more
