# SPDX-License-Identifier: Apache-2.0
"""The profile of one call: its cost by function, line, instruction and call path."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast

from boardprof.base.errors import DecodeError, UnknownNameError
from boardprof.base.metrics import metric_called

CALL, INTERRUPTS, OTHER = 0, 1, 2
"""Nodes of the tree: the call itself, all handlers, and paths beyond the recorder's limit."""

Cost = tuple[int, ...]  # a figure for each column of a profile

OTHER_PATHS = "(other paths)"

CORE_CYCLES = "core-cycles"
MODELLED = (CORE_CYCLES, f"{CORE_CYCLES}-low", f"{CORE_CYCLES}-high")
"""The cycles that a model of the core computes from what ran: the estimate, and what they may be.
They are never compared with the `cycles` that a board counts."""

_SLEEPS = ("wfi", "wfe")  # instructions in which a core waits, as a disassembly has them
_Z = 1.959964  # 95 % of a normal distribution are within this number of standard deviations


class Frame(NamedTuple):
    """A function that an instruction belongs to, and the line in it."""

    function: str  # as the sources call it; "" if not known
    file: str  # as the compiler was given it; "" if not known
    line: int  # from 1; 0 if not known


class Symbol(NamedTuple):
    """A function of the image. ``file`` is "" and ``line`` 0 where they are not known."""

    name: str
    file: str
    line: int


class Node(NamedTuple):
    """A call path: its caller's node, -1 at the top, and the function that it ends with.

    A function that is on the path already has no second node: recursion leads back to the first.
    """

    parent: int
    symbol: int
    calls: int


class Site(NamedTuple):
    """Calls from one instruction on one path; ``cost`` is that of the calls."""

    caller: int
    instruction: int
    callee: int
    calls: int
    cost: Cost


@dataclass(frozen=True)
class Instruction:
    """An instruction that was executed."""

    address: int
    symbol: int
    frames: tuple[Frame, ...]  # the innermost inlined function first
    text: str = ""  # "" if nothing could tell


@dataclass(frozen=True)
class SampledCalls:
    """How a sampled profile was made."""

    calls: int  # of the function, while samples were taken
    timer: str  # that has interrupted it, or what else has taken the samples, such as ``DWT PCSR``
    # samples that were asked for. There are fewer if a call is so short that it is hardly ever hit.
    wanted: int
    seed: int  # of the random times between samples
    outside: int  # samples that did not hit the call, but the agent; they are left out
    # reads of a debug probe that found no program counter; they are not counted
    unreadable: int = 0
    masked: bool = False  # code of the call may mask interrupts, so that the timer never hits it


Interval = tuple[float, float]
"""The lowest and the highest share, 0 to 1, that 95 % of such profiles contain."""


@dataclass(frozen=True)
class FunctionCost:
    """What a function costs."""

    name: str
    file: str  # "" if not known
    line: int  # where it begins; 0 if not known
    self: int  # cost of its own instructions
    total: int | None  # with all that it called, recursion once; None if sampled
    calls: int  # 0 if not known
    share: float  # of ``self`` in the call's cost, 0 to 1
    interval: Interval | None = None  # of the share; None if it is exact


@dataclass(frozen=True)
class LineCost:
    """What a line costs: its instructions, inlined ones too, and the calls that they make."""

    file: str  # as the compiler was given it
    line: int  # from 1
    function: str
    self: int  # cost of its instructions
    calls: int  # cost of the calls that they make
    executions: int  # by the instruction that ran most, for each place of inlining; 0 if not known
    share: float = 0.0  # of ``self`` in the call's cost, 0 to 1
    interval: Interval | None = None  # of the share; None if it is exact


@dataclass(frozen=True)
class PathCost:
    """What a call path costs, outermost function first."""

    functions: tuple[str, ...]
    self: int
    calls: int


@dataclass(frozen=True)
class Profile:
    """Where a call of a function spent what it cost."""

    function: str
    board: str
    columns: tuple[str, ...]  # such as ``("instructions",)``; ``("samples",)`` if it is sampled
    state: str  # ``complete``, or ``incomplete`` and why
    total: Cost  # of the call without the interrupts in it
    # the Report's net counts of the same call, by column; else its ticks, if they have been checked
    counted: Mapping[str, int]
    symbols: tuple[Symbol, ...]  # the functions of the image that ran
    totals: tuple[Cost, ...]  # for each, the cost of it and all that it called
    tree: tuple[Node, ...]  # the call paths
    sites: tuple[Site, ...]  # the calls
    instructions: tuple[Instruction, ...]  # those that ran
    counts: tuple[tuple[int, int, Cost], ...]  # (node, instruction, cost), once for each pair
    # text of the files that could be read, by name
    sources: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""  # what has ended an incomplete call
    recorder: str = ""  # what has executed the call, if not the board: ``callgrind``
    newer: tuple[str, ...] = ()  # sources that have changed since an image was made elsewhere
    # None if every instruction was seen; else all functions are directly below the called one
    sampled: SampledCalls | None = None
    modelled: str = ""  # what its core cycles are, in a few words; "" if it has none
    unmodelled: str = ""  # why it has none, although the core has a model

    @property
    def exact(self) -> bool:
        """Whether every instruction was seen. If not, the figures are of samples."""
        return self.sampled is None

    @property
    def is_complete(self) -> bool:
        """Whether the function returned."""
        return self.state == "complete"

    @property
    def checked(self) -> str | None:
        """The column whose total is held against the board's count, None if it counts none."""
        return next((name for name in ("instructions", "cycles") if name in self.counted), None)

    @property
    def sleeps(self) -> bool:
        """Whether the core may have waited, while its counters went on."""
        return any(self.instructions[n].text.startswith(_SLEEPS) for _, n, _ in self.counts)

    @property
    def metric(self) -> str:
        """What is shown unless something else is asked for: cycles, if the board has them."""
        return "cycles" if "cycles" in self.columns else self.columns[0]

    def column(self, metric: str | None = None) -> int:
        """Return the index of a metric in each cost."""
        name = self.metric if metric is None else metric_called(metric, self.columns)
        if name is None:
            raise UnknownNameError("metric", f"{metric}", self.columns, owner="The profile")
        return self.columns.index(name)

    @property
    def core_cycles(self) -> tuple[int, int, int] | None:
        """The modelled core cycles of the call, estimate, low and high; None if it has none."""
        if not self.modelled:
            return None
        point, low, high = (self.sum(name) for name in MODELLED)
        return point, low, high

    def sum(self, metric: str | None = None) -> int:
        """Return the call's cost."""
        return self.total[self.column(metric)]

    def functions(self, metric: str | None = None) -> list[FunctionCost]:
        """Return the functions of the call, the one that costs most by itself first."""
        column = self.column(metric)
        total = self.total[column]
        own: defaultdict[int, int] = defaultdict(int)
        for _, number, cost in self._of_the_call:
            own[self.instructions[number].symbol] += cost[column]
        calls: defaultdict[int, int] = defaultdict(int)
        for index, node in enumerate(self.tree):
            if index not in self.in_interrupts and index != OTHER:
                calls[node.symbol] += node.calls
        called = self.tree[CALL].symbol
        found = [
            FunctionCost(
                *symbol,
                own[index],
                self.totals[index][column] if self.exact or index == called else None,
                calls[index],
                own[index] / total if total else 0.0,
                self._interval(own[index], total),
            )
            for index, symbol in enumerate(self.symbols)
            if own[index] or calls[index] or index == called
        ]
        return sorted(found, key=lambda each: (-each.self, -(each.total or 0), each.name))

    def _interval(self, cost: int, total: int) -> Interval | None:
        return None if self.exact or not total else share_interval(cost, total)

    def lines(self, metric: str | None = None) -> list[LineCost]:
        """Return the lines of the call's sources, by file and number."""
        column = self.column(metric)
        own: defaultdict[tuple[str, int, str], int] = defaultdict(int)
        below: defaultdict[tuple[str, int, str], int] = defaultdict(int)
        # how often each instruction of a line ran, at each place where the line is inlined
        times: defaultdict[tuple[str, int, str], dict[object, Counter[int]]] = defaultdict(dict)
        for _, number, cost in self._of_the_call:
            key = self._line(number)
            own[key] += cost[column]
            if self.exact:
                instruction = self.instructions[number]
                place = instruction.symbol, instruction.frames[1:]
                times[key].setdefault(place, Counter())[instruction.address] += cost[0]
        for site in self.sites:
            is_recursion = site.callee in self._path(site.caller)
            if site.caller not in self.in_interrupts and not is_recursion:
                below[self._line(site.instruction)] += site.cost[column]
        total = self.total[column]
        return [
            LineCost(
                *key,
                self=own[key],
                calls=below[key],
                executions=sum(max(each.values()) for each in times[key].values()),
                share=own[key] / total if total else 0.0,
                interval=self._interval(own[key], total),
            )
            for key in sorted(own)
        ]

    def paths(self, metric: str | None = None) -> list[PathCost]:
        """Return the call paths, the one that costs most by itself first."""
        column = self.column(metric)
        own: defaultdict[int, int] = defaultdict(int)
        for node, _, cost in self._of_the_call:
            own[node] += cost[column]
        found = [
            PathCost(self.names(index), own[index], node.calls)
            for index, node in enumerate(self.tree)
            if (own[index] or node.calls) and index not in self.in_interrupts
        ]
        return sorted(found, key=lambda each: (-each.self, each.functions))

    def interrupts(self, metric: str | None = None) -> int:
        """Return the cost of the handlers that ran within the call; it is not in its total."""
        column = self.column(metric)
        return sum(cost[column] for node, _, cost in self.counts if node in self.in_interrupts)

    def names(self, node: int) -> tuple[str, ...]:
        """Return the functions of a path, outermost first."""
        if node == OTHER:
            return (OTHER_PATHS,)
        return tuple(self.symbols[self.tree[each].symbol].name for each in self._path(node))

    def _path(self, node: int) -> Sequence[int]:
        path: list[int] = []
        while node not in (-1, INTERRUPTS):
            path.append(node)
            node = self.tree[node].parent
        return path[::-1]

    def _line(self, number: int) -> tuple[str, int, str]:
        instruction = self.instructions[number]
        name = self.symbols[instruction.symbol].name
        if not instruction.frames:
            return "", 0, name
        frame = instruction.frames[0]
        return frame.file, frame.line, frame.function or name

    @cached_property
    def in_interrupts(self) -> frozenset[int]:
        """The nodes of handlers."""
        found = {INTERRUPTS}
        for index, node in enumerate(self.tree):  # a parent comes before its children
            if node.parent in found:
                found.add(index)
        return frozenset(found)

    @property
    def _of_the_call(self) -> Iterator[tuple[int, int, Cost]]:
        return (each for each in self.counts if each[0] not in self.in_interrupts)


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share, by Wilson's score with continuity correction.

    It holds for independent samples. Those of bp.sample are spread more evenly, which makes it
    wider than needed. With samples at even distances it would not hold: a loop of the same length
    would be hit at the same place again and again.

    Source: R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics
    in Medicine 17 (1998), method 4.
    """
    share, z2 = count / total, _Z * _Z
    centre = 2 * count + z2
    low = z2 - 2 - 1 / total + 4 * share * (total - count + 1)
    high = z2 + 2 - 1 / total + 4 * share * (total - count - 1)
    below = (centre - 1 - _Z * math.sqrt(max(low, 0.0))) / (2 * (total + z2))
    above = (centre + 1 + _Z * math.sqrt(max(high, 0.0))) / (2 * (total + z2))
    return (0.0 if count == 0 else max(below, 0.0), 1.0 if count == total else min(above, 1.0))


_Numbers = tuple[tuple[int, ...], ...]
_Places = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class ProfileTables:
    """A profile as tables, whose rows name rows of others by number: its form in JSON."""

    function: str
    board: str
    columns: tuple[str, ...]  # what each cost has, instructions first
    exact: bool  # every instruction was seen; else the figures are of samples
    state: str
    failure: str
    recorder: str
    total: tuple[int, ...]  # cost of the call without interrupts
    counted: Mapping[str, int]  # the board's own counts of the same call
    symbols: _Places  # functions: name, file, line
    totals: _Numbers  # for each function the cost of it and all that it called
    # call paths: path of the caller or -1, function, calls. 0 is the call, 1 above all handlers of
    # interrupts, 2 what is beyond the limit.
    paths: _Numbers
    calls: _Numbers  # path, instruction, path of the callee, calls, their cost
    frames: _Places  # function, file, line
    # address, function, text, frames from the innermost inlined function outwards
    instructions: tuple[tuple[str | int, ...], ...]
    counts: _Numbers  # path, instruction, cost
    sources: Mapping[str, str]  # text of each source file, by its name in the frames
    newer: tuple[str, ...] = ()
    sampled: SampledCalls | None = None
    modelled: str = ""  # what the columns of core cycles are; "" if there are none
    unmodelled: str = ""  # why there are none, if the core has a model


_ALIKE = (
    *("function", "board", "columns", "state", "failure", "recorder"),
    *("total", "counted", "totals", "sources", "newer", "sampled", "modelled", "unmodelled"),
)
"""What a profile and its tables have alike."""


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
        **{name: getattr(profile, name) for name in _ALIKE},
        exact=profile.exact,
        symbols=profile.symbols,
        paths=profile.tree,
        calls=tuple((*each[:4], *each.cost) for each in profile.sites),
        frames=tuple(frames),
        instructions=instructions,
        counts=tuple((path, number, *cost) for path, number, cost in profile.counts),
    )


def profile_of(tables: ProfileTables) -> Profile:
    """Return the profile of `tables_of`; a damaged table is a DecodeError."""
    instructions = cast("Sequence[Sequence[Any]]", tables.instructions)
    try:
        frames = [Frame(*each) for each in tables.frames]
        return Profile(
            **{name: getattr(tables, name) for name in _ALIKE},
            symbols=tuple(Symbol(*each) for each in tables.symbols),
            tree=tuple(Node(*each) for each in tables.paths),
            sites=tuple(
                Site(caller, number, callee, calls, tuple(cost))
                for caller, number, callee, calls, *cost in tables.calls
            ),
            instructions=tuple(
                Instruction(address, symbol, tuple(frames[number] for number in numbers), text)
                for address, symbol, text, *numbers in instructions
            ),
            counts=tuple((path, number, tuple(cost)) for path, number, *cost in tables.counts),
        )
    except (TypeError, ValueError, IndexError) as error:
        raise DecodeError(f"The profile is damaged: {type(error).__name__}: {error}.") from error
