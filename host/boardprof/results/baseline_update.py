# SPDX-License-Identifier: Apache-2.0
"""Join what was measured with the rows of an earlier baseline file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from boardprof.base.errors import UsageError, option
from boardprof.base.metrics import TAGS, Duration
from boardprof.results.baseline import (
    VALUES,
    Entry,
    baseline_of,
    baseline_text,
    identity_of,
    report_of_baseline,
)
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.comparison import ComparisonError, place_of
from boardprof.results.comparison.compatibility import (
    BoardFacts,
    check_same,
    facts_of,
    is_same_rate,
)
from boardprof.results.report.calls import DURATION
from boardprof.results.report.report import Report
from boardprof.results.row_origins import clock_of_column

_UNCHANGED: Final = ("same", "noise", "within overhead")


@dataclass(frozen=True)
class BaselineUpdate:
    """A baseline file to be written, and what happened to the rows of the earlier one."""

    text: str  # of the file
    added: int  # number of rows that are new
    replaced: int = 0  # rows that were measured again and have changed
    unchanged: int = 0  # rows that were measured again and keep their old samples
    kept: int = 0  # rows that were not measured again
    removed: int = 0  # rows that are gone

    def __str__(self) -> str:
        """Return the numbers, such as ``1 row added, 2 kept``."""
        names = ("added", "replaced", "unchanged", "kept", "removed")
        counts = [(getattr(self, name), name) for name in names if getattr(self, name)]
        (first, name), *others = counts
        rows = "row" if first == 1 else "rows"
        return ", ".join([f"{first} {rows} {name}", *(f"{n} {name}" for n, name in others)])


def updated_baseline(
    report: Report, earlier: Mapping[str, Any] | None, keeps: Callable[[str], bool]
) -> BaselineUpdate:
    """Return a file that replaces the earlier one; ``keeps`` decides by labels of old measurements.

    An unchanged measurement keeps its old samples: noise is not a change.
    """
    content = baseline_of(report)
    after = {identity_of(each): each for each in content["measurements"]}
    if earlier is None:
        return BaselineUpdate(baseline_text(content), len(after))
    before = {identity_of(each): each for each in earlier["measurements"]}
    same = _unchanged(report_of_baseline(earlier), report_of_baseline(content))
    kept = {
        k: each for k, each in before.items() if k not in after and keeps(each.get("label", ""))
    }
    _join_boards(content, earlier["boards"], [*kept.values()])
    repeated = after.keys() & before.keys()
    for key in repeated:
        _check_metrics(before[key], after[key])
    unchanged = {key for key in repeated if _is_same(before[key], after[key], same)}
    content["measurements"] = [
        *(before[key] if key in unchanged else each for key, each in after.items()),
        *kept.values(),
    ]
    return BaselineUpdate(
        baseline_text(content),
        added=len(after) - len(repeated),
        replaced=len(repeated) - len(unchanged),
        unchanged=len(unchanged),
        kept=len(kept),
        removed=len(before) - len(repeated) - len(kept),
    )


# -- boards --------------------------------------------------------------------------------------


def _join_boards(
    content: dict[str, Any], earlier: Mapping[str, Any], kept: Sequence[Entry]
) -> None:
    """Add to ``content`` what the kept measurements need: a file describes each board once."""
    boards, new = content["boards"], content["measurements"]
    for board in sorted({str(each.get("board", "")) for each in kept} & earlier.keys()):
        if board not in boards:
            boards[board] = earlier[board]
            continue
        sides = [
            (facts, [each for each in entries if each.get("board", "") == board])
            for facts, entries in ((earlier[board], kept), (boards[board], new))
        ]
        old_facts, new_facts = ({board: _facts(board, *side)} for side in sides)
        check_same({board: board}, old_facts, new_facts, ())
        counters = _joined_counters(board, sides)
        boards[board] = {**boards[board], **({"counters": counters} if counters else {})}


def _facts(board: str, facts: Mapping[str, Any], entries: Sequence[Entry]) -> BoardFacts:
    found = facts_of(report_of_baseline({"boards": {board: facts}, "measurements": entries}))
    flags = {_title(each): each.get("flags", "") for each in entries if "sweep" not in each}
    return replace(found[board], flags=flags)


def _title(entry: Entry) -> str:
    label = entry.get("label")
    return f"{entry['function']} ({label})" if label else str(entry["function"])


def _joined_counters(
    board: str, sides: Sequence[tuple[Mapping[str, Any], Sequence[Entry]]]
) -> dict[str, int]:
    """Return the counters of both sides, with the rate of each; the first clock gives durations."""
    old, new = (facts.get("counters", {}) for facts, _ in sides)
    for name in old.keys() & new.keys():
        if not is_same_rate(old[name], new[name]):
            raise ComparisonError(
                f"{board}: {name} has {old[name]:,} Hz before, {new[name]:,} Hz after."
            )
    # The same order whichever of two runs with other metrics was the last one.
    found = {**old, **new} if new.keys() <= old.keys() else {**new, **old, **new}
    clock = _clock_of_time(found)
    for counters, (_, entries) in zip((old, new), sides, strict=True):
        own = _clock_of_time(counters)
        if own != clock and any(DURATION in each.get(TAGS[Duration], {}) for each in entries):
            raise ComparisonError(
                f"{board}: some durations are from the clock {own}, others from {clock}."
            )
    return found


def _clock_of_time(counters: Mapping[str, int]) -> str:
    return clock_of_column(DURATION, [name for name, hz in counters.items() if hz])


# -- rows ----------------------------------------------------------------------------------------


def _unchanged(before: Report, after: Report) -> set[tuple[str, ...]]:
    """Return the places of the rows without a change, see `place_of`."""
    try:
        rows = compare(before, after).rows
    except ComparisonError:
        return set()
    return {
        place_of(row)
        for row in rows
        if row.verdict in _UNCHANGED and not (row.is_emulated and row.is_cold_apart)
    }


def _check_metrics(old: Entry, new: Entry) -> None:
    """Check that no metric of a row is lost: a gate on it would then pass, whatever it costs."""
    if lost := sorted({n for tag in VALUES for n in old.get(tag, {}).keys() - new.get(tag, {})}):
        raise UsageError(
            f"The baseline has {', '.join(lost)} of {_title(new)}, which this run did not measure.",
            hint=f"measure them, too ({option('--metrics')}), or remove the row from the file "
            "first",
        )


def _is_same(old: Entry, new: Entry, same: set[tuple[str, ...]]) -> bool:
    """Tell whether two measurements differ only by noise; ``same`` as `_unchanged` returns it."""
    facts = ("samples", "calls", "flags", "compilers", "inputs")
    if old.keys() != new.keys() or any(old.get(key) != new.get(key) for key in facts):
        return False
    names = (new.get(key, "") for key in ("function", "label", "arguments"))
    group = (*names, new.get("device", new.get("board", "")), new.get("sweep", ""))
    return all(
        old.get(tag, {}).keys() == new.get(tag, {}).keys()
        and all((*group, metric) in same for metric in new.get(tag, {}))
        for tag in VALUES
    )
