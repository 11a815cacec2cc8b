# SPDX-License-Identifier: Apache-2.0
"""Profiles made by hand, for tests of what is done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boardprof.results.record import MeasurementRecord, Record
from boardprof.results.report.profile import (
    Frame,
    Instruction,
    Node,
    Profile,
    SampledCalls,
    Site,
    Symbol,
)
from boardprof.results.report.report import Report

__all__ = ["SOURCE", "profile_report", "sampled_profile", "small_profile", "straight_profile"]

SOURCE = """\
int twice(int x) {
    return x + x;
}

int f(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += twice(i);
    }
    return sum;
}
"""


def straight_profile(
    costs: Mapping[int, tuple[int, int]], source: str, function: str = "f"
) -> Profile:
    """A profile of one function: line -> (instructions of the line, how often each ran)."""
    instructions, counts, address = [], [], 0x100
    for line, (number, times) in costs.items():
        for _ in range(number):
            counts.append((0, len(instructions), (times,)))
            frames = (Frame(function, "f.c", line),)
            instructions.append(Instruction(address, 0, frames, "addi a0,a0,1"))
            address += 4
    total = sum(cost[0] for _, _, cost in counts)
    return Profile(
        function=function,
        board="desk",
        columns=("instructions",),
        state="complete",
        total=(total,),
        counted={"instructions": total},
        symbols=(Symbol(function, "f.c", 1),),
        totals=((total,),),
        tree=(Node(-1, 0, 1), Node(-1, 0, 0), Node(-1, 0, 0)),
        sites=(),
        instructions=tuple(instructions),
        counts=tuple(counts),
        sources={"f.c": source},
    )


def small_profile(
    columns: Sequence[str] = ("instructions",), *, with_interrupt: bool = False
) -> Profile:
    """f calls __mul; twice is inlined into f. Each column is ten times the one before."""

    def cost(value: int) -> tuple[int, ...]:
        return tuple(value * 10**place for place in range(len(columns)))

    symbols = [Symbol("f", "f.c", 5), Symbol("", "", 0), Symbol("__mul", "", 0)]
    tree = [Node(-1, 0, 1), Node(-1, 1, 0), Node(-1, 1, 0), Node(0, 2, 4)]
    instructions = [
        Instruction(0x100, 0, (Frame("f", "f.c", 7),)),
        Instruction(0x104, 0, (Frame("twice", "f.c", 2), Frame("f", "f.c", 8))),
        Instruction(0x108, 0, (Frame("f", "f.c", 8),)),
        Instruction(0x200, 2, ()),
    ]
    counts = [(0, 0, cost(5)), (0, 1, cost(4)), (0, 2, cost(4)), (3, 3, cost(12))]
    totals = [cost(25), cost(0), cost(12)]
    if with_interrupt:
        symbols.append(Symbol("on_timer", "irq.c", 3))
        tree.append(Node(1, 3, 1))
        instructions.append(Instruction(0x300, 3, (Frame("on_timer", "irq.c", 4),)))
        counts.append((4, 4, cost(7)))
        totals.append(cost(0))
    return Profile(
        function="f",
        board="desk",
        columns=tuple(columns),
        state="complete",
        total=cost(25),
        counted={},
        symbols=tuple(symbols),
        totals=tuple(totals),
        tree=tuple(tree),
        sites=(Site(0, 2, 3, 4, cost(12)),),
        instructions=tuple(instructions),
        counts=tuple(counts),
        sources={"f.c": SOURCE},
    )


def profile_report(*profiles: Profile) -> Report:
    """Return a Report with a row for each profile."""
    rows = [{"Name": p.function, "Count": 1, "instructions": p.sum(), "Device": p.board}
            for p in profiles]  # fmt: skip
    measurements = tuple(
        MeasurementRecord(name=p.function, device=p.board, hotspots=p) for p in profiles
    )
    return Report(rows, {}, {}, record=Record(measurements=measurements))


def sampled_profile(hits: Sequence[int] = (81, 15, 4), calls: int = 20) -> Profile:
    """f, and twice and __mul below it; ``hits`` are their samples."""
    counts = [(node, at, (n,)) for node, at, n in zip((0, 3, 4), (0, 1, 2), hits, strict=True)]
    return Profile(
        function="f",
        board="desk",
        columns=("samples",),
        state="complete",
        total=(sum(hits),),
        counted={},
        symbols=(Symbol("f", "f.c", 5), Symbol("twice", "f.c", 1), Symbol("__mul", "", 0)),
        totals=((sum(hits),), (0,), (0,)),
        tree=(Node(-1, 0, 0), Node(-1, 0, 0), Node(-1, 0, 0), Node(0, 1, 0), Node(0, 2, 0)),
        sites=(),
        instructions=(
            Instruction(0x100, 0, (Frame("f", "f.c", 7),), "addi a0,a0,1"),
            Instruction(0x180, 1, (Frame("twice", "f.c", 2),), "slli a0,a0,1"),
            Instruction(0x200, 2, (), "mul a0,a0,a1"),
        ),
        counts=tuple(each for each in counts if each[2] != (0,)),
        sources={"f.c": SOURCE},
        sampled=SampledCalls(calls=calls, timer="mtime", wanted=100, seed=1, outside=3),
    )
