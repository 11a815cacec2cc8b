# SPDX-License-Identifier: Apache-2.0
"""A call as a tree of addresses, recorded or sampled, and its profile by functions and lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from boardprof.base.errors import DecodeError, Location
from boardprof.results.report.profile import (
    CALL,
    OTHER,
    Cost,
    Frame,
    Instruction,
    Node,
    Profile,
    SampledCalls,
    Site,
    Symbol,
)
from boardprof.target.elf.addresses import CodeRange, SymbolTable, demangled, frames_at

ELSEWHERE = 1 << 60
"""From here on are addresses that stand for functions, where code has none in the image."""

_LONGEST_SOURCE = 1_000_000  # bytes of a file whose text is kept

UNNAMED = CodeRange(ELSEWHERE, ELSEWHERE + 1, "(code without a name)")
"""Stands for shared libraries, ROM, and assembly code without a symbol."""

LONGEST_S = 30.0
"""Wall time after which a short function has been sampled long enough, seconds."""


@dataclass(frozen=True)
class CallPath:
    """A call path; ``parent`` is -1 at the top, ``entry`` the address of its function."""

    parent: int
    entry: int
    calls: int


@dataclass(frozen=True)
class CallEdge:
    """Calls from one instruction on one path, and their cost."""

    caller: int
    site: int
    callee: int
    calls: int
    cost: Cost


@dataclass
class CallTree:
    """One call."""

    columns: tuple[str, ...] = ()  # ``instructions``, then others such as ``cycles``
    state: str = ""  # ``complete``, or ``incomplete`` and why
    total: Cost = ()  # of the call without interrupts
    paths: list[CallPath] = field(default_factory=list)
    # entry of a function -> cost with all that it called
    totals: dict[int, Cost] = field(default_factory=dict)
    calls: list[CallEdge] = field(default_factory=list)
    # (path, instruction) -> executions and cost
    counts: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether the function returned."""
        return self.state == "complete"


@dataclass
class Samples:
    """What samples have hit."""

    hits: Counter[int]  # by program counter
    timer: str  # what interrupted the function, or else took the samples
    calls: int = 0
    outside: int = 0  # samples that hit the agent, or another task's stack
    unreadable: int = 0  # reads of a debug probe that found no program counter

    @property
    def count(self) -> int:
        """Number of samples in the call."""
        return self.hits.total()


def sampled_tree(hits: Mapping[int, int], table: SymbolTable, entry: int) -> CallTree:
    """Return samples as a tree: all functions are below the called one."""
    tree = CallTree(("samples",), "complete", (sum(hits.values()),))
    tree.paths = [CallPath(-1, 0, 0) for _ in range(OTHER + 1)]
    tree.paths[CALL] = CallPath(-1, entry, 0)
    tree.totals[entry] = tree.total
    paths = {entry: CALL}
    for pc, count in sorted(hits.items()):
        code = table.at(pc)
        low, place = (UNNAMED.low, UNNAMED.low) if code is None else (code.low, pc)
        if low not in paths:
            paths[low] = len(tree.paths)
            tree.paths.append(CallPath(CALL, low, 0))
        tree.counts.setdefault((paths[low], place), [0])[0] += count
    return tree


def profile_of(
    tree: CallTree,
    table: SymbolTable,
    image: Path,
    function: str,
    board: str,
    counted: Mapping[str, int],
    texts: Mapping[int, str],
    sources: Iterable[Path] = (),
    sampled: SampledCalls | None = None,
) -> Profile:
    """Return the profile of a call; ``counted`` has the Report's net counts, by column."""
    addresses = sorted({address for _, address in tree.counts} | {c.site for c in tree.calls})
    entries = dict.fromkeys(path.entry for path in tree.paths if path.entry)
    places = frames_at(image, [at for at in (*addresses, *entries) if at < ELSEWHERE])
    mangled = {place.function or "" for each in places.values() for place in each}
    symbols_of = [code.name for code in table.functions]
    names = demangled([*mangled, *symbols_of, *(name.partition(".")[0] for name in symbols_of)])

    def in_source(address: int, place: Location) -> Frame:
        code = table.at(address)
        own = "" if code is None else code.name.partition(".")[0]
        name = names[place.function or ""] or names.get(own, own)
        return Frame(name, place.path, place.line)

    frames = {a: tuple(in_source(a, place) for place in each) for a, each in places.items()}
    symbols: dict[int, int] = {}

    def symbol_of(address: int) -> int:
        code = table.at(address)
        return symbols.setdefault(address if code is None else code.low, len(symbols))

    numbers = {address: number for number, address in enumerate(addresses)}
    nodes = tuple(Node(p.parent, symbol_of(p.entry), p.calls) for p in tree.paths)
    instructions = tuple(
        Instruction(a, symbol_of(a), frames.get(a, ()), texts.get(a, "")) for a in addresses
    )
    nothing = (0,) * len(tree.columns)
    known = tuple(sources)
    found = _source_texts({f.file for each in frames.values() for f in each if f.file}, known)
    built_s = math.inf if known else image.stat().st_mtime  # boardprof builds what it has read
    profile = Profile(
        function=function,
        board=board,
        columns=tree.columns,
        state=tree.state,
        total=tree.total,
        counted={n: counted[n] for n in tree.columns if n in counted and tree.is_complete},
        symbols=tuple(_symbol(entry, table, frames, names) for entry in symbols),
        totals=tuple(tree.totals.get(entry, nothing) for entry in symbols),
        tree=nodes,
        sites=tuple(Site(c.caller, numbers[c.site], c.callee, c.calls, c.cost) for c in tree.calls),
        instructions=instructions,
        counts=tuple(
            (path, numbers[address], tuple(cost))
            for (path, address), cost in sorted(tree.counts.items())
            if any(cost)
        ),
        sources={name: text for name, (text, _) in found.items()},
        newer=tuple(name for name, (_, time_s) in found.items() if time_s > built_s),
        sampled=sampled,
    )
    return _checked(profile) if profile.is_complete else profile


def _checked(profile: Profile) -> Profile:
    """See that the tree has what the board has counted. Unhooked interrupts are in a count."""
    name = profile.checked
    if name is None:
        return profile
    counted, recorded = profile.counted[name], profile.sum(name)
    if counted > recorded and profile.sleeps:
        rest = {n: count for n, count in profile.counted.items() if n != name}
        return replace(profile, counted=rest)
    if counted not in (recorded, recorded + profile.interrupts(name)):
        raise DecodeError(
            f"The profile of {profile.function} on {profile.board} does not add up: its {name} "
            f"are {recorded:,}, the board has counted {counted:,}."
        )
    return profile


def _symbol(
    entry: int,
    table: SymbolTable,
    frames: Mapping[int, tuple[Frame, ...]],
    names: Mapping[str, str],
) -> Symbol:
    code = table.at(entry)
    if code is None:
        return Symbol(f"{entry:#x}" if entry else "", "", 0)
    found = frames.get(code.low, ())
    outermost = found[-1] if found else Frame("", "", 0)
    return Symbol(names[code.name], outermost.file, outermost.line)


def _source_texts(files: Iterable[str], known: Sequence[Path]) -> dict[str, tuple[str, float]]:
    """Return text and time of each file that can be read, by the name in the debug information."""
    # That name is not always a path of this machine: builds leave folders out.
    texts: dict[str, tuple[str, float]] = {}
    for name in sorted(files):
        parts = PurePosixPath(name).parts
        ours = [each for each in known if each.parts[-len(parts) :] == parts]
        path = ours[0] if len(ours) == 1 else Path(name)
        if not path.is_absolute():
            continue
        try:
            status = path.stat()
            if status.st_size <= _LONGEST_SOURCE:
                text = path.read_text(encoding="utf-8", errors="replace")
                texts[name] = text, status.st_mtime
        except OSError:
            continue
    return texts
