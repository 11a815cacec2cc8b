# SPDX-License-Identifier: Apache-2.0
"""The stacks of a profile: what flame graphs and their formats are drawn from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from boardprof.errors import UsageError
from boardprof.report.profile import INTERRUPTS, OTHER_PATHS, Frame, Profile
from boardprof.report.profile_json import ProfiledRow, profiles_of
from boardprof.report.report import Report

INTERRUPTED = "(interrupts)"
"""The frame above all handlers: they are not part of the call."""

Stack = tuple[Frame, ...]
"""Outermost first. A caller has the line at which its function begins, the innermost its own."""


def stacks_of(profile: Profile, metric: str | None = None) -> Mapping[Stack, int]:
    """Return the cost of each stack, inlined functions as frames of their own.

    The costs add up to that of the call; those of interrupts stand below `INTERRUPTED`, beside it.

    Args:
        profile: of a call.
        metric: a column of it; see `Profile.metric`.
    """
    column = profile.column(metric)
    found: defaultdict[Stack, int] = defaultdict(int)
    for node, number, cost in profile.counts:
        if cost[column]:
            found[_stack(profile, node, number)] += cost[column]
    return found


def stack_sums(report: Report, metric: str | None = None) -> dict[tuple[str, ...], int]:
    """Return the cost of each stack within the calls of a Report, boards outermost, by names.

    Nothing, if the Report does not say where its functions spend what they cost.

    Raises:
        UsageError: the profiles have no metric in common.
    """
    sums: defaultdict[tuple[str, ...], int] = defaultdict(int)
    profiles = list(profiles_of(report))
    name = _metric_of_all(profiles) if metric is None else metric
    for row in profiles:
        if name in row.profile.columns:
            for stack, cost in stacks_of(row.profile, name).items():
                sums[row.device, *(frame.function for frame in stack)] += cost
    return dict(sums)


def _metric_of_all(rows: Sequence[ProfiledRow]) -> str | None:
    """Return the metric that all profiles show, else the first that all have."""
    if len(shown := {row.profile.metric for row in rows}) <= 1:
        return next(iter(shown), None)
    first, *others = (row.profile.columns for row in rows)
    for name in first:
        if all(name in columns for columns in others):
            return name
    told = "; ".join(f"{row.device}: {', '.join(row.profile.columns)}" for row in rows)
    raise UsageError(
        f"No metric is in all profiles of the Report, and different ones do not add up: {told}.",
        hint="name one: boardprof export collapsed REPORT --metric NAME, or "
        "render_collapsed(report, metric=NAME)",
    )


def _stack(profile: Profile, node: int, number: int) -> Stack:
    instruction = profile.instructions[number]
    own = profile.symbols[instruction.symbol]
    # Of the symbol itself the caller's frame tells; its innermost frame has the line.
    inner = instruction.frames[::-1] or (Frame(own.name, own.file, 0),)
    leaf = [Frame(own.name, inner[0].file, inner[0].line), *inner[1:]]
    return (*_callers(profile, node), *leaf)


def _callers(profile: Profile, node: int) -> list[Frame]:
    path: list[Frame] = []
    if node == INTERRUPTS:
        return [Frame(INTERRUPTED, "", 0)]
    if profile.names(node) == (OTHER_PATHS,):
        return [Frame(OTHER_PATHS, "", 0)]
    above = profile.tree[node].parent
    while above not in (-1, INTERRUPTS):
        symbol = profile.symbols[profile.tree[above].symbol]
        path.append(Frame(symbol.name, symbol.file, symbol.line))
        above = profile.tree[above].parent
    if above == INTERRUPTS:
        path.append(Frame(INTERRUPTED, "", 0))
    return path[::-1]
