# SPDX-License-Identifier: Apache-2.0
"""A profile as JSON: what most readers want, and all that is needed to have it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from boardprof.base.errors import DecodeError
from boardprof.results.report.profile import (
    Frame,
    FunctionCost,
    Instruction,
    LineCost,
    Node,
    Profile,
    SampledCalls,
    Site,
    Symbol,
)
from boardprof.results.report.report import Report


@dataclass(frozen=True)
class ProfiledRow:
    """The rows of a Report that a profile belongs to; texts are "" where rows have none."""

    name: str
    shapes: str
    device: str
    flags: str
    label: str
    profile: Profile

    @property
    def title(self) -> str:
        """The function with its label, arguments and flags: ``fir n=64, -O3``."""
        where = ", ".join(filter(None, (self.label, self.shapes, self.flags)))
        return f"{self.name} {where}".strip()


def profiles_of(report: Report) -> Iterator[ProfiledRow]:
    """Yield the profiles in a Report.

    Raises:
        DecodeError: one is damaged.
    """
    swept = "Flags" in report.calls.names
    for each in (report.extra or {}).get("measurements", ()):
        found = each.get("hotspots")
        if found:
            yield ProfiledRow(
                each.get("name") or "",
                each.get("arguments") or "",
                each.get("device") or "",
                (each.get("flags") or "") if swept else "",
                each.get("label") or "",
                read_profile(found),
            )


def profile_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON values, for readers that want the result.

    ``total``, ``functions`` and ``lines`` are of ``metric``; ``record`` has all that was recorded.
    Sampled figures have a share with a 95 % interval, and null where samples tell nothing.
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
                "calls": each.calls if profile.exact else None,
                **_estimate(each),
            }
            for each in profile.functions()
        ],
        "lines": [
            {"file": each.file, "line": each.line, "self": each.self, **_estimate(each)}
            for each in profile.lines()
        ],
        "record": profile_record(profile),
    }


def _estimate(cost: FunctionCost | LineCost) -> dict[str, Any]:
    return {} if cost.interval is None else {"share": cost.share, "interval": [*cost.interval]}


def profile_record(profile: Profile) -> dict[str, Any]:
    """Return all of a profile as JSON values: tables whose rows name rows of others by number."""
    frames: dict[Frame, int] = {}
    instructions = [
        [
            each.address,
            each.symbol,
            each.text,
            *(frames.setdefault(frame, len(frames)) for frame in each.frames),
        ]
        for each in profile.instructions
    ]
    return {
        "function": profile.function,
        "board": profile.board,
        "columns": list(profile.columns),
        "exact": profile.exact,
        "state": profile.state,
        "failure": profile.failure,
        "recorder": profile.recorder,
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
        **({"newer": list(profile.newer)} if profile.newer else {}),
        **({} if profile.sampled is None else {"sampled": asdict(profile.sampled)}),
    }


def read_profile(found: Mapping[str, Any]) -> Profile:
    """Return the profile that `profile_record` has made JSON values of.

    Raises:
        DecodeError: it is damaged.
    """
    try:
        frames = [Frame(*each) for each in found["frames"]]
        sampled = found.get("sampled")
        return Profile(
            function=found["function"],
            board=found["board"],
            columns=tuple(found["columns"]),
            state=found["state"],
            failure=found["failure"],
            recorder=found["recorder"],
            total=tuple(found["total"]),
            counted=found["counted"],
            symbols=tuple(Symbol(*each) for each in found["symbols"]),
            totals=tuple(map(tuple, found["totals"])),
            tree=tuple(Node(*each) for each in found["paths"]),
            sites=tuple(
                Site(caller, number, callee, calls, tuple(cost))
                for caller, number, callee, calls, *cost in found["calls"]
            ),
            instructions=tuple(
                Instruction(address, symbol, tuple(frames[number] for number in numbers), text)
                for address, symbol, text, *numbers in found["instructions"]
            ),
            counts=tuple((path, number, tuple(cost)) for path, number, *cost in found["counts"]),
            sources=found["sources"],
            newer=tuple(found.get("newer", ())),
            sampled=SampledCalls(**sampled) if sampled else None,
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DecodeError(f"The profile is damaged: {type(error).__name__}: {error}.") from error
