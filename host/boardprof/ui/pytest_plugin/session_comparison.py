# SPDX-License-Identifier: Apache-2.0
"""Compare a whole session with its baseline, after all its tests have measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from boardprof.results.comparison.comparison import Comparison
from boardprof.results.report.report import Report
from boardprof.results.row_origins import titled
from boardprof.ui.pytest_plugin.gate import Verdict
from boardprof.ui.pytest_plugin.options import unnumbered

_MOST_LISTED = 3


@dataclass(frozen=True)
class Conclusion:
    """The result of a session's comparisons."""

    errors: tuple[str, ...] = ()  # why the session fails although no test may have
    notes: tuple[str, ...] = ()
    # what became better or worse without a rule; "" if there is nothing to report
    changes: str = ""


class _Place(NamedTuple):
    """The key of a measurement: columns of rows, in `_COLUMNS`' order."""

    name: str
    arguments: str
    label: str
    device: str

    def __str__(self) -> str:
        return f"{titled(self.name, self.label)}({self.arguments}) on {self.device}"


_COLUMNS = ("Name", "Argument Shapes", "Label", "Device")


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


def _alike(place: _Place, any_board: bool) -> _Place:
    return place._replace(device="") if any_board else place


def _unmade_text(name: str, unmade: Collection[_Place], measured: set[str]) -> Iterator[str]:
    """Yield one text, or nothing if nothing is missing."""
    if not unmade:
        return
    names = (str(each) if each.label in measured else each.label for each in unmade)
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


def _changes(name: str, held: Iterable[Verdict]) -> str:
    rows = tuple(row for each in held for row in each.rows)
    if not rows:
        return ""
    # Later: most sessions have rules, or no baseline.
    from boardprof.show.comparison_table import headline

    changed = tuple(row for row in rows if row.verdict in ("better", "worse"))
    table = Comparison(changed).table().rpartition("\nBefore: ")[0] if changed else ""
    counts = headline(Comparison(rows)).partition("; ")[2]
    told = f"Compared with {name} without a rule: {counts}"
    how = "No change can fail a test. To set rules: --bp-fail-if RULE, or fail_if= in the marker."
    return "\n".join(filter(None, [told, table.rstrip("\n"), how]))


def _listed(names: Iterable[str]) -> str:
    every = [*dict.fromkeys(names)]
    more = f" and {len(every) - _MOST_LISTED} more" if len(every) > _MOST_LISTED else ""
    return ", ".join(every[:_MOST_LISTED]) + more
