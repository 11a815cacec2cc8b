# SPDX-License-Identifier: Apache-2.0
"""One metric before and after: is it the same, better, worse, or only noise."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from boardprof.comparison.comparison import Difference, Verdict
from boardprof.metrics import Kind, Percent, Ratio
from boardprof.stats.groups import GroupKey, GroupSummary
from boardprof.stats.ranks import mann_whitney, signed_rank, smallest_p
from boardprof.stats.summary import Number, magnitude, plain, summarize

__all__ = ["difference"]

_MORE_IS_BETTER = re.compile(
    r"\bipc\b|(?:/|\bper[ -])(?:cycles?|s|second)\b|utili[sz]ation|\bhits?\b|throughput|bandwidth",
    re.IGNORECASE,
)
"""Names of ratios and percentages of which there cannot be enough; of all others, less is better.
"""

_GRAINS = 2
"""A window and its calibration are each read to one step of the clock."""


def difference(
    key: GroupKey,
    before: GroupSummary | None,
    after: GroupSummary | None,
    alpha: float,
    sessions: int = 1,
) -> Difference:
    """Compare one metric of one group; one of the two sides may be missing.

    Exact values differ if they differ: those of a deterministic board, where all samples are alike,
    or both runs made the same calls, so that the n-th stand for the same one; else there is
    nothing to compare, since any difference may be the state's. So do those of its clock, if by
    more than its steps. Others differ where the
    rank test says so with p < alpha, and by more than the steps of the clock that they are read
    from, and than the doubt about what the measuring itself takes of a call: an error of it is the
    same in all samples of a run. Where so few samples never give such a p, the verdict says so.

    Of several sessions, which alternated with those of the other side, the medians are compared in
    pairs: what differs from session to session, such as where code lies and what else the machine
    does, is then between the pairs, and so in p.

    Args:
        key: the group.
        before: None: it was not there.
        after: None: it is not there any more.
        alpha: level of the rank test.
        sessions: that each side's samples are of, as many of each, one after the other.
    """
    one = before or after
    assert one is not None
    is_paired = False
    if before and after and sessions > 1 and not _is_exact(before, after):
        sides = _by_session(before, sessions), _by_session(after, sessions)
        if sides[0] and sides[1]:
            (before, after), is_paired = sides, True
    change, p, verdict = None, None, _missing(before)
    is_exact = False
    if before is not None and after is not None:
        change = _change(before, after)
        is_exact = _is_exact(before, after)
        is_of_calls = _repeats(before) and _repeats(after)
        p = None if is_exact or is_of_calls else _p(before, after, is_paired)
        verdict = _verdict(before, after, p, alpha, is_paired)
        if is_of_calls and not is_exact and verdict != "same":
            verdict = "other calls"
        is_exact = is_exact and verdict != "noise"
    return Difference(
        name=key.name,
        shapes=key.shapes,
        device=key.device,
        flags=key.flags,
        metric=one.metric,
        kind=one.kind,
        before=before.summary if before else None,
        after=after.summary if after else None,
        change=change,
        p=p,
        is_exact=is_exact,
        verdict=verdict,
        label=key.label,
        is_cold_apart=bool(before and after and _is_cold_apart(before, after)),
        doubt=_doubt(before, after) if before and after and not is_paired else Fraction(0),
        is_emulated=bool(before and after and before.is_emulated and after.is_emulated),
        is_paired=is_paired,
    )


def _by_session(group: GroupSummary, sessions: int) -> GroupSummary | None:
    """Return a group with the median of each session in place of its samples.

    None where a session has failed, so that which sample is of which is not known.
    """
    size, rest = divmod(len(group.values), sessions)
    if rest or not size:
        return None
    parts = (group.values[i * size : (i + 1) * size] for i in range(sessions))
    values = tuple(summarize(part).exactly("median") for part in parts)
    return replace(group, values=values, summary=summarize(values, first=group.summary.first))


def _is_exact(before: GroupSummary, after: GroupSummary) -> bool:
    if before.summary.is_exact and after.summary.is_exact:
        return True
    sides = (before, after)
    if not all(map(_repeats, sides)):
        return False
    return _is_paired(before, after) or all(_is_steady(side) for side in sides)


def _repeats(side: GroupSummary) -> bool:
    return side.is_deterministic or side.is_stepped


def _is_steady(side: GroupSummary) -> bool:
    """Tell whether all samples are alike, as far as the clock's steps let them be."""
    return magnitude(side.summary.maximum - side.summary.minimum) <= _GRAINS * side.grain


def _is_paired(before: GroupSummary, after: GroupSummary) -> bool:
    """Tell whether the n-th samples are of the same calls, as emulators repeat them."""
    if not (before.is_emulated and after.is_emulated and before.course):
        return False
    return before.course == after.course and len(before.values) == len(after.values)


def _change(before: GroupSummary, after: GroupSummary) -> int | float | None:
    """Return how far the medians are apart, relative to the old one; rounded once, at the end."""
    old, new = _medians(before, after)
    if old == 0:
        return None
    return plain((Fraction(new) - Fraction(old)) / Fraction(magnitude(old)))


def _missing(before: GroupSummary | None) -> Verdict:
    return "removed" if before is not None else "added"


def _p(before: GroupSummary, after: GroupSummary, is_paired: bool) -> float:
    """Return p of the rank test, of the n-th values in pairs where they were measured in turns."""
    if sorted(before.values) == sorted(after.values):
        return 1.0
    if is_paired:
        return signed_rank(_steps(before, after))
    return mann_whitney(before.values, after.values)


def _steps(before: GroupSummary, after: GroupSummary) -> list[Fraction]:
    """Return how far the n-th values are apart."""
    pairs = zip(before.values, after.values, strict=True)
    return [Fraction(new) - Fraction(old) for old, new in pairs]


def _verdict(
    before: GroupSummary, after: GroupSummary, p: float | None, alpha: float, is_paired: bool
) -> Verdict:
    if sorted(before.values) == sorted(after.values) or _is_one_value(before, after):
        return "same"
    step = _step(before, after)
    grain = max(before.grain, after.grain)
    is_within_steps = magnitude(step) <= _GRAINS * grain
    if p is None and grain and is_within_steps:
        return "noise"
    if p is not None:
        if p >= alpha or is_within_steps:
            n1, n2 = before.summary.n, after.summary.n
            is_few = (0.5 ** (n1 - 1) if is_paired else smallest_p(n1, n2)) >= alpha
            return "too few samples" if is_few else "noise"
        if not is_paired and magnitude(step) <= _doubt(before, after):
            return "within overhead"
    is_more = step > 0 if step else sorted(before.values)[::-1] < sorted(after.values)[::-1]
    return "better" if is_more == _is_gain(before.kind, before.metric) else "worse"


def _doubt(before: GroupSummary, after: GroupSummary) -> Fraction:
    """Return how much of a difference may be one of what was subtracted: the doubt of both sides.

    It is no more than was subtracted at most. Where all samples of a side are alike, so was what
    was subtracted of them.
    """
    sides = [s.overhead for s in (before, after) if s.summary.minimum != s.summary.maximum]
    most = max((side.taken for side in sides), default=Fraction(0))
    return min(most, sum((side.doubt for side in sides), Fraction(0)))


def _is_one_value(before: GroupSummary, after: GroupSummary) -> bool:
    """Tell whether all samples of both sides are alike, however many they are."""
    return len({*before.values, *after.values}) == 1


def _step(before: GroupSummary, after: GroupSummary) -> Fraction:
    """Return the difference of the medians, or of the means where the medians are equal."""
    old, new = _medians(before, after)
    if old == new:
        old, new = before.summary.exactly("mean"), after.summary.exactly("mean")
    return Fraction(new) - Fraction(old)


def _medians(before: GroupSummary, after: GroupSummary) -> tuple[Number, Number]:
    return before.summary.exactly("median"), after.summary.exactly("median")


def _is_cold_apart(before: GroupSummary, after: GroupSummary) -> bool:
    old, new = before.summary.first, after.summary.first
    if old is None or new is None:
        return False
    grain = max(before.cold_grain, after.cold_grain)
    return magnitude(Fraction(new) - Fraction(old)) > _GRAINS * grain


def _is_gain(kind: Kind, metric: str) -> bool:
    return kind in (Ratio, Percent) and _MORE_IS_BETTER.search(metric) is not None
