# SPDX-License-Identifier: Apache-2.0
"""A profile as tables, whose rows name rows of others by number: its form in a Report's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from boardprof.base.errors import DecodeError
from boardprof.results.report.profile import (
    Frame,
    Instruction,
    Node,
    Profile,
    SampledCalls,
    Site,
    Symbol,
)

_Numbers = tuple[tuple[int, ...], ...]
_Places = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class ProfileTables:
    """A profile.

    Attributes:
        columns: what each cost has, instructions first.
        exact: every instruction was seen; else the figures are of samples.
        total: cost of the call without interrupts.
        counted: the board's own counts of the same call.
        symbols: functions: name, file, line.
        totals: for each function the cost of it and all that it called.
        paths: call paths: path of the caller or -1, function, calls. 0 is the call, 1 above all
            handlers of interrupts, 2 what is beyond the limit.
        calls: path, instruction, path of the callee, calls, their cost.
        frames: function, file, line.
        instructions: address, function, text, frames from the innermost inlined function outwards.
        counts: path, instruction, cost.
        sources: text of each source file, by its name in the frames.
    """

    function: str
    board: str
    columns: tuple[str, ...]
    exact: bool
    state: str
    failure: str
    recorder: str
    total: tuple[int, ...]
    counted: Mapping[str, int]
    symbols: _Places
    totals: _Numbers
    paths: _Numbers
    calls: _Numbers
    frames: _Places
    instructions: tuple[tuple[str | int, ...], ...]
    counts: _Numbers
    sources: Mapping[str, str]
    newer: tuple[str, ...] = ()
    sampled: SampledCalls | None = None


def tables_of(profile: Profile) -> ProfileTables:
    """Return the tables of a profile."""
    frames: dict[Frame, int] = {}
    instructions: tuple[tuple[str | int, ...], ...] = tuple(
        (
            each.address,
            each.symbol,
            each.text,
            *(frames.setdefault(frame, len(frames)) for frame in each.frames),
        )
        for each in profile.instructions
    )
    return ProfileTables(
        function=profile.function,
        board=profile.board,
        columns=profile.columns,
        exact=profile.exact,
        state=profile.state,
        failure=profile.failure,
        recorder=profile.recorder,
        total=profile.total,
        counted=profile.counted,
        symbols=tuple((each.name, each.file, each.line) for each in profile.symbols),
        totals=profile.totals,
        paths=tuple((each.parent, each.symbol, each.calls) for each in profile.tree),
        calls=tuple(
            (each.caller, each.instruction, each.callee, each.calls, *each.cost)
            for each in profile.sites
        ),
        frames=tuple((each.function, each.file, each.line) for each in frames),
        instructions=instructions,
        counts=tuple((path, number, *cost) for path, number, cost in profile.counts),
        sources=profile.sources,
        newer=profile.newer,
        sampled=profile.sampled,
    )


def profile_of(tables: ProfileTables) -> Profile:
    """Return the profile of `tables_of`; a damaged table is a DecodeError."""
    try:
        frames = [Frame(*each) for each in tables.frames]
        return Profile(
            function=tables.function,
            board=tables.board,
            columns=tables.columns,
            state=tables.state,
            failure=tables.failure,
            recorder=tables.recorder,
            total=tables.total,
            counted=tables.counted,
            symbols=tuple(Symbol(*each) for each in tables.symbols),
            totals=tables.totals,
            tree=tuple(Node(*each) for each in tables.paths),
            sites=tuple(
                Site(caller, number, callee, calls, tuple(cost))
                for caller, number, callee, calls, *cost in tables.calls
            ),
            instructions=tuple(
                Instruction(address, symbol, tuple(frames[number] for number in numbers), text)
                for address, symbol, text, *numbers in cast(
                    "Sequence[Sequence[Any]]", tables.instructions
                )
            ),
            counts=tuple((path, number, tuple(cost)) for path, number, *cost in tables.counts),
            sources=tables.sources,
            newer=tables.newer,
            sampled=tables.sampled,
        )
    except (TypeError, ValueError, IndexError) as error:
        raise DecodeError(f"The profile is damaged: {type(error).__name__}: {error}.") from error
