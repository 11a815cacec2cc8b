# SPDX-License-Identifier: Apache-2.0
"""What the reader of a comparison should know of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from boardprof.comparison.comparison import Difference, Gap
from boardprof.comparison.matching import BoardFacts

__all__ = ["LONGER", "first_of", "in_pairs", "masked_once", "not_compared", "of_one_build"]
__all__ += ["of_one_run", "only_once", "within_overhead"]

LONGER: Final = "take --number 1000, or let one call do more"
"""What helps where the measuring itself takes too much of a call."""

_MOST_LISTED = 8


def of_one_build(
    rows: Sequence[Difference], old: Mapping[str, BoardFacts], new: Mapping[str, BoardFacts]
) -> list[str]:
    """Say where exact counts differ though the code is the same: then what it was given does."""
    changed = {row.device for row in rows if row.is_exact and row.verdict in ("better", "worse")}
    return [
        f"{name} ran the same build before and after: where its exact counts differ, so do the "
        "arguments, or --number or --warmup."
        for name, board in old.items()
        if name in changed and board.builds and name in new and board.builds == new[name].builds
    ]


def masked_once(old: Mapping[str, BoardFacts], new: Mapping[str, BoardFacts]) -> list[str]:
    """Say where interrupts were masked in one of the Reports alone."""
    said = {True: "masked", False: "not masked", None: "masked in some samples"}
    return [
        f"Interrupts of {name} were {said[board.is_masked]} before and "
        f"{said[new[name].is_masked]} after: what differs may be theirs."
        for name, board in old.items()
        if name in new and board.is_masked != new[name].is_masked
    ]


def not_compared(gaps: Iterable[Gap]) -> list[str]:
    """Say what is not compared, or not with all samples, and why."""
    found: dict[str, dict[str, None]] = {}
    for gap in gaps:
        found.setdefault(gap.why, {})[gap.what] = None
    return [f"{first_of(names)}: {why}." for why, names in found.items()]


def first_of(names: Iterable[str]) -> str:
    """Return names in a row; of many, the first and how many more there are."""
    every = [*names]
    more = f" and {len(every) - _MOST_LISTED} more" if len(every) > _MOST_LISTED else ""
    return ", ".join(every[:_MOST_LISTED]) + more


def only_once(rows: Sequence[Difference]) -> list[str]:
    """Say which functions, and which metrics, only one of the Reports has."""
    has_several = len({row.device for row in rows}) > 1
    found = {
        when: _names((row for row in rows if row.verdict == verdict), with_device=has_several)
        for verdict, when in (("removed", "before"), ("added", "after"))
    }
    return [f"Only {when}: {names}." for when, names in found.items() if names]


def within_overhead(rows: Sequence[Difference]) -> list[str]:
    """Say which changes may be in what the measuring takes."""
    names = _names(row for row in rows if row.verdict == "within overhead")
    text = (
        "two runs may differ as much in what the measuring itself takes, so there may be no change"
    )
    return [f"{names}: {text}; {LONGER}."] if names else []


def in_pairs(rows: Sequence[Difference], sessions: int) -> list[str]:
    """Say what was judged session by session, and how many there were."""
    names = _names(row for row in rows if row.is_paired)
    text = f"judged by the medians of {sessions} sessions of each side, which alternated"
    return [f"{names}: {text}."] if names else []


def of_one_run(rows: Sequence[Difference]) -> list[str]:
    """Say what a rank test of two runs does not know of the regressions that it has found."""
    names = _names(
        row
        for row in rows
        if row.broken and row.p is not None and not (row.is_emulated or row.is_paired)
    )
    text = (
        "one run on each side says nothing of what differs from run to run, such as the CPU's "
        "clock, where code and data lie, other programs; before you believe it, run both again "
        "with --save, and compare each pair"
    )
    return [f"{names}: {text}."] if names else []


def _names(rows: Iterable[Difference], *, with_device: bool = False) -> str:
    return first_of(
        dict.fromkeys(
            f"{row.metric} of {row.title}{f' on {row.device}' if with_device else ''}"
            for row in rows
        )
    )
