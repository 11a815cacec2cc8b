# SPDX-License-Identifier: Apache-2.0
"""A profile as JSON: what most readers want, and all that is needed to have it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boardprof.errors import DecodeError
from boardprof.report.profile import Frame, Instruction, Node, Profile, Site, Symbol


def profile_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON values.

    ``functions`` and ``lines`` are of ``metric``, and so is ``total``. ``record`` has the rest:
    tables whose rows name rows of each other by number.
    """
    return {
        "function": profile.function,
        "board": profile.board,
        "metric": profile.metric,
        "total": profile.sum(),
        "exact": profile.exact,
        "complete": profile.is_complete,
        "interrupts": profile.interrupts(),
        "functions": [
            {
                "name": each.name,
                "file": each.file,
                "line": each.line,
                "self": each.self,
                "total": each.total,
                "calls": each.calls,
            }
            for each in profile.functions()
        ],
        "lines": [
            {"file": each.file, "line": each.line, "self": each.self} for each in profile.lines()
        ],
        "record": _record(profile),
    }


def _record(profile: Profile) -> dict[str, Any]:
    frames: dict[Frame, int] = {}
    instructions = [
        [
            each.address,
            each.symbol,
            each.text,
            *(frames.setdefault(f, len(frames)) for f in each.frames),
        ]
        for each in profile.instructions
    ]
    return {
        "columns": list(profile.columns),
        "state": profile.state,
        "failure": profile.failure,
        "total": list(profile.total),
        "counted": dict(profile.counted),
        "symbols": [[each.name, each.file, each.line] for each in profile.symbols],
        "totals": [list(cost) for cost in profile.totals],
        "paths": [[each.parent, each.symbol, each.calls] for each in profile.tree],
        "calls": [
            [each.caller, each.instruction, each.callee, each.calls, *each.cost]
            for each in profile.sites
        ],
        "frames": [[each.function, each.file, each.line] for each in frames],
        "instructions": instructions,
        "counts": [[path, number, *cost] for path, number, cost in profile.counts],
        "sources": dict(profile.sources),
    }


def read_profile(found: Mapping[str, Any]) -> Profile:
    """Return a profile that `profile_json` has made JSON of.

    Raises:
        DecodeError: it is damaged.
    """
    try:
        record = found["record"]
        frames = [Frame(*each) for each in record["frames"]]
        return Profile(
            function=found["function"],
            board=found["board"],
            columns=tuple(record["columns"]),
            exact=found["exact"],
            state=record["state"],
            failure=record["failure"],
            total=tuple(record["total"]),
            counted=record["counted"],
            symbols=tuple(Symbol(*each) for each in record["symbols"]),
            totals=tuple(map(tuple, record["totals"])),
            tree=tuple(Node(*each) for each in record["paths"]),
            sites=tuple(
                Site(caller, number, callee, calls, tuple(cost))
                for caller, number, callee, calls, *cost in record["calls"]
            ),
            instructions=tuple(
                Instruction(address, symbol, tuple(frames[number] for number in numbers), text)
                for address, symbol, text, *numbers in record["instructions"]
            ),
            counts=tuple((path, number, tuple(cost)) for path, number, *cost in record["counts"]),
            sources=record["sources"],
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DecodeError(f"The profile is damaged: {type(error).__name__}: {error}.") from error
