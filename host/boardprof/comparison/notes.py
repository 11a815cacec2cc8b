# SPDX-License-Identifier: Apache-2.0
"""Notes on the rows of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from boardprof.comparison.comparison import Difference, Gap
from boardprof.comparison.compatibility import BoardFacts

LONGER: Final = "use --number 1000, or do more work in each call"
"""Advice if the overhead is too large a part of a call."""

_MOST_LISTED = 8


def of_one_build(
    rows: Sequence[Difference], old: Mapping[str, BoardFacts], new: Mapping[str, BoardFacts]
) -> list[str]:
    """Name the boards on which exact counts may differ only by inputs: the build is the same."""
    changed = {row.device for row in rows if row.is_exact and row.verdict in ("better", "worse")}
    return [
        f"{name} ran the same build before and after. If its exact counts differ, its arguments, "
        "--number or --warmup differ too."
        for name, board in old.items()
        if name in changed and board.builds and name in new and board.builds == new[name].builds
    ]


def masked_once(old: Mapping[str, BoardFacts], new: Mapping[str, BoardFacts]) -> list[str]:
    """Name the boards on which only one of the Reports masked interrupts."""
    said = {True: "masked", False: "not masked", None: "masked in some samples"}
    return [
        f"Interrupts of {name} were {said[board.is_masked]} before and "
        f"{said[new[name].is_masked]} after: interrupts may be what differs."
        for name, board in old.items()
        if name in new and board.is_masked != new[name].is_masked
    ]


def not_compared(gaps: Iterable[Gap]) -> list[str]:
    """List the metrics that are not compared, or not with all samples, with the reasons."""
    found: dict[str, dict[str, None]] = {}
    for gap in gaps:
        found.setdefault(gap.why, {})[gap.what] = None
    return [f"{first_of(names)}: {why}." for why, names in found.items()]


def first_of(names: Iterable[str]) -> str:
    """Return names separated by commas; of many, the first ones and the number of the others."""
    every = [*names]
    more = f" and {len(every) - _MOST_LISTED} more" if len(every) > _MOST_LISTED else ""
    return ", ".join(every[:_MOST_LISTED]) + more


def only_once(rows: Sequence[Difference]) -> list[str]:
    """List the functions and metrics that only one of the Reports has."""
    has_several = len({row.device for row in rows}) > 1
    found = {
        when: _names((row for row in rows if row.verdict == verdict), with_device=has_several)
        for verdict, when in (("removed", "before"), ("added", "after"))
    }
    return [f"Only {when}: {names}." for when, names in found.items() if names]


def within_overhead(rows: Sequence[Difference]) -> list[str]:
    """List the changes that may come from the measurement overhead."""
    names = _names(row for row in rows if row.verdict == "within overhead")
    text = (
        "the measurement overhead may differ by as much between two runs, so there may be no change"
    )
    return [f"{names}: {text}; {LONGER}."] if names else []


def in_pairs(rows: Sequence[Difference], sessions: int) -> list[str]:
    """List the rows that were judged session by session."""
    names = _names(row for row in rows if row.is_paired)
    text = f"judged by the medians of {sessions} alternating sessions on each side"
    return [f"{names}: {text}."] if names else []


def of_one_run(rows: Sequence[Difference]) -> list[str]:
    """Warn that a rank test of two runs does not cover what varies from run to run."""
    names = _names(
        row
        for row in rows
        if row.broken and row.p is not None and not (row.is_emulated or row.is_paired)
    )
    text = (
        "one run on each side cannot show what varies from run to run, such as the CPU's clock, "
        "the placement of code and data, and other programs; to confirm it, run both again with "
        "--save and compare each pair"
    )
    return [f"{names}: {text}."] if names else []


def _names(rows: Iterable[Difference], *, with_device: bool = False) -> str:
    return first_of(
        dict.fromkeys(
            f"{row.metric} of {row.title}{f' on {row.device}' if with_device else ''}"
            for row in rows
        )
    )
