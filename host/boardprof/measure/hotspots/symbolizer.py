# SPDX-License-Identifier: Apache-2.0
"""From a record, whose code is addresses, to a profile of functions and lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from boardprof.base.errors import DecodeError
from boardprof.measure.hotspots.record import ELSEWHERE, Record
from boardprof.results.report.profile import (
    Frame,
    Instruction,
    Node,
    Profile,
    SampledCalls,
    Site,
    Symbol,
)
from boardprof.target.elf.binutils import demangled, frames_at
from boardprof.target.elf.symbol_table import SymbolTable

_LONGEST_SOURCE = 1_000_000
"""Bytes of a file whose text is kept."""


def profile_of(
    record: Record,
    table: SymbolTable,
    image: Path,
    function: str,
    board: str,
    counted: Mapping[str, int],
    texts: Mapping[int, str],
    sources: Iterable[Path] = (),
    sampled: SampledCalls | None = None,
) -> Profile:
    """Return the profile of a call.

    Args:
        record: of the call.
        table: the functions of the image.
        image: that ran.
        function: that was called.
        board: where.
        counted: the Report's net counts of the same call, by column.
        texts: of its instructions, by address.
        sources: files that the image was made of.
        sampled: how the samples were taken, if the record has samples.

    Raises:
        DecodeError: the record and the Report differ.
        BuildError: the lines of the image cannot be looked up.
    """
    addresses = sorted({address for _, address in record.counts} | {c.site for c in record.calls})
    entries = dict.fromkeys(path.entry for path in record.paths if path.entry)
    frames = frames_at(image, [at for at in (*addresses, *entries) if at < ELSEWHERE])
    mangled = {frame.function for each in frames.values() for frame in each}
    symbols_of = [code.name for code in table.functions]
    names = demangled([*mangled, *symbols_of, *(name.partition(".")[0] for name in symbols_of)])

    def in_source(address: int, frame: Frame) -> Frame:
        code = table.at(address)
        own = "" if code is None else code.name.partition(".")[0]
        return replace(frame, function=names[frame.function] or names.get(own, own))

    frames = {a: tuple(in_source(a, frame) for frame in each) for a, each in frames.items()}
    symbols: dict[int, int] = {}

    def symbol_of(address: int) -> int:
        code = table.at(address)
        return symbols.setdefault(address if code is None else code.low, len(symbols))

    numbers = {address: number for number, address in enumerate(addresses)}
    tree = tuple(Node(p.parent, symbol_of(p.entry), p.calls) for p in record.paths)
    instructions = tuple(
        Instruction(a, symbol_of(a), frames.get(a, ()), texts.get(a, "")) for a in addresses
    )
    nothing = (0,) * len(record.columns)
    known = tuple(sources)
    found = _source_texts({f.file for each in frames.values() for f in each if f.file}, known)
    built_s = math.inf if known else image.stat().st_mtime  # boardprof builds what it has read
    profile = Profile(
        function=function,
        board=board,
        columns=record.columns,
        state=record.state,
        total=record.total,
        counted={n: counted[n] for n in record.columns if n in counted and record.is_complete},
        symbols=tuple(_symbol(entry, table, frames, names) for entry in symbols),
        totals=tuple(record.totals.get(entry, nothing) for entry in symbols),
        tree=tree,
        sites=tuple(
            Site(c.caller, numbers[c.site], c.callee, c.calls, c.cost) for c in record.calls
        ),
        instructions=instructions,
        counts=tuple(
            (path, numbers[address], tuple(cost))
            for (path, address), cost in sorted(record.counts.items())
            if any(cost)
        ),
        sources={name: text for name, (text, _) in found.items()},
        newer=tuple(name for name, (_, time_s) in found.items() if time_s > built_s),
        sampled=sampled,
    )
    if profile.is_complete:
        _check(profile)
    return profile


def _check(profile: Profile) -> None:
    """See that the record has what the board has counted. Unhooked interrupts are in a count."""
    name = profile.checked
    if name is None:
        return
    counted, recorded = profile.counted[name], profile.sum(name)
    if counted not in (recorded, recorded + profile.interrupts(name)):
        raise DecodeError(
            f"The profile of {profile.function} on {profile.board} does not add up: its {name} "
            f"are {recorded:,}, the board has counted {counted:,}."
        )


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
    """Return text and time of each file that can be read, by the name in the debug information.

    That name is not always a path of this machine: builds leave folders out.
    """
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
