# SPDX-License-Identifier: Apache-2.0
"""Whether two Reports may be compared: clocks, boards and compilers must be the same."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from boardprof.comparison.comparison import ComparisonError, Difference
from boardprof.errors import UnknownNameError
from boardprof.report.report import Report

MISMATCHES: Final = ("clock", "board", "compiler")
"""What `compare` refuses unless it is allowed."""

_PATH_FLAGS = ("-I", "-L", "-isystem", "-iquote", "-idirafter", "-include")
_PATH_MAPS = ("-ffile-prefix-map=", "-fdebug-prefix-map=", "-fmacro-prefix-map=")


_NAMED = 3
"""Up to this many functions are named; of more, only the number is given."""


def check_allowed(allow: Iterable[str]) -> None:
    """Check the names of mismatches.

    Raises:
        UnknownNameError: there is no mismatch of that name.
    """
    for name in sorted({*allow} - {*MISMATCHES}):
        raise UnknownNameError("mismatch", name, MISMATCHES)


@dataclass(frozen=True)
class BoardFacts:
    """What a Report says about one of its boards; empty or None if not known.

    Attributes:
        clock_kind: ``measured``, ``declared`` or ``simulated``.
        is_emulated: it is an emulator or a simulator.
        cflags: flags with which all its code is compiled.
        flags: each function's own flags, except for swept ones.
        compilers: of the functions' code.
        libcs: the C libraries in its images, if known.
        builds: ids of the images.
        is_masked: interrupts were masked in its samples; None if only in some of them.
    """

    clock_kind: str = ""
    is_emulated: bool | None = None
    cflags: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    compilers: frozenset[str] = frozenset()
    libcs: frozenset[str] = frozenset()
    builds: tuple[str, ...] = ()
    is_masked: bool | None = False


def facts_of(report: Report) -> dict[str, BoardFacts]:
    """Return the boards of a Report by name; without ``extra``, its devices."""
    extra = report.extra or {}
    devices = extra.get("devices")
    if not isinstance(devices, Mapping) or not devices:
        names = report.calls.column("Device").filled("")
        return {name: BoardFacts() for name in dict.fromkeys(names) if isinstance(name, str)}
    measurements = [m for m in extra.get("measurements") or () if isinstance(m, Mapping)]
    columns = (report.calls.column(name).filled("") for name in ("Device", "Flags"))
    swept = {device for device, setting in {*zip(*columns, strict=True)} if setting != ""}
    return {
        str(name): _facts(
            facts if isinstance(facts, Mapping) else {},
            [m for m in measurements if m.get("device") == name],
            name in swept,
        )
        for name, facts in devices.items()
    }


def _facts(
    device: Mapping[str, Any], measurements: list[Mapping[str, Any]], swept: bool
) -> BoardFacts:
    kind = str(device.get("clock_kind") or "")
    flags = {} if swept else {str(m.get("name")): m.get("flags") for m in measurements}
    cflags = device.get("cflags")
    builds = [m.get("build_id") for m in measurements] or [device.get("build_id")]
    interrupts = [m.get("interrupts") for m in measurements]
    masked = {isinstance(each, Mapping) and bool(each.get("masked")) for each in interrupts}
    return BoardFacts(
        clock_kind=kind,
        is_emulated=(kind == "simulated" or bool(device.get("emulated"))) if kind else None,
        cflags=_comparable(map(str, cflags)) if isinstance(cflags, list) else "",
        flags={n: comparable_flags(text) for n, text in flags.items() if isinstance(text, str)},
        compilers=frozenset(str(c) for m in measurements for c in m.get("compilers") or ()),
        libcs=frozenset(str(m["libc"]) for m in measurements if m.get("libc")),
        builds=tuple(dict.fromkeys(str(build) for build in builds if build)),
        is_masked=None if len(masked) > 1 else True in masked,
    )


def comparable_flags(flags: str) -> str:
    """Return flags without paths, so that the same sources in another folder match."""
    try:
        return _comparable(shlex.split(flags))
    except ValueError:
        return _comparable(flags.split())


def _comparable(flags: Iterable[str]) -> str:
    kept: list[str] = []
    words = iter(flags)
    for word in words:
        if word in _PATH_FLAGS:
            next(words, None)
        elif not word.startswith((*_PATH_FLAGS, *_PATH_MAPS)):
            kept.append(word)
    return " ".join(kept)


def paired_boards(
    before: Mapping[str, BoardFacts], after: Mapping[str, BoardFacts], allow: Collection[str]
) -> dict[str, str]:
    """Return the new board for each old board that is compared.

    Raises:
        ComparisonError: there is no board in common, and other boards are not allowed; or they are,
            but the pairs are not clear.
    """
    common = {name: name for name in before if name in after}
    if common:
        return common
    old, new = ", ".join(before) or "no board", ", ".join(after) or "no board"
    if "board" not in allow:
        raise ComparisonError(
            f"The Reports are from different boards: {old} before, {new} after.",
            hint="compare runs on the same board, or --allow board",
        )
    if len(before) != 1 or len(after) != 1:
        raise ComparisonError(
            f"Which boards to compare is not clear: {old} before, {new} after.",
            hint="compare Reports of one board each",
        )
    return {next(iter(before)): next(iter(after))}


def check_same(
    pairs: Mapping[str, str],
    before: Mapping[str, BoardFacts],
    after: Mapping[str, BoardFacts],
    allow: Collection[str],
) -> list[str]:
    """Check that clocks and compilers are the same; return allowed differences.

    Two different boards have different compilers, so allowing the board allows that.

    Raises:
        ComparisonError: there is a difference that was not allowed.
    """
    notes = [f"{old} is compared with {new}." for old, new in pairs.items() if old != new]
    for old, new in pairs.items():
        what = old if old == new else f"{old} and {new}"
        if text := _other_clock(before[old], after[new]):
            notes.append(_allowed(f"{what}: {text}", "clock", allow))
        if old == new:
            notes += [
                _allowed(f"{what}: {text}", "compiler", allow)
                for text in _other_compiler(before[old], after[new])
            ]
            notes += [f"{what}: {text}" for text in _other_libc(before[old], after[new])]
    return notes


def _allowed(text: str, kind: str, allow: Collection[str]) -> str:
    if kind not in allow:
        raise ComparisonError(text, hint=f"compare like with like, or --allow {kind}")
    return f"{text} (allowed)"


def _other_clock(before: BoardFacts, after: BoardFacts) -> str:
    kinds = before.clock_kind, after.clock_kind
    if kinds[0] != kinds[1] and all(kinds) and "simulated" in kinds:
        return f"the clock is {kinds[0]} before, {kinds[1]} after."
    if None not in (before.is_emulated, after.is_emulated):
        words = {True: "an emulator", False: "hardware"}
        if before.is_emulated != after.is_emulated:
            return (
                f"it is {words[bool(before.is_emulated)]} before, "
                f"{words[bool(after.is_emulated)]} after."
            )
    return ""


def _other_libc(before: BoardFacts, after: BoardFacts) -> list[str]:
    """Describe the C library of each side. It is not an error if new code needs one."""
    if before.libcs == after.libcs or not before.libcs or not after.libcs:
        return []
    old, new = (", ".join(sorted(facts.libcs)) for facts in (before, after))
    return [f"the C library is {old} before, {new} after."]


def _other_compiler(before: BoardFacts, after: BoardFacts) -> list[str]:
    found: list[str] = []
    if before.compilers and after.compilers and before.compilers != after.compilers:
        old, new = (", ".join(sorted(facts.compilers)) for facts in (before, after))
        found.append(f"compiled by {old} before, by {new} after.")
    if before.cflags != after.cflags and before.cflags and after.cflags:
        found.append(f"the board's flags are {before.cflags} before, {after.cflags} after.")
    changed: dict[tuple[str, str], list[str]] = {}
    for name in before.flags:
        if name in after.flags and before.flags[name] != after.flags[name]:
            changed.setdefault((before.flags[name], after.flags[name]), []).append(name)
    for (old, new), names in changed.items():
        who = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} functions"
        verb = "is" if len(names) == 1 else "are"
        which = f"{old or 'no flags'} before, {new or 'none'} after"
        found.append(f"{who} {verb} compiled with {which}.")
    return found


def masked_once(old: Mapping[str, BoardFacts], new: Mapping[str, BoardFacts]) -> list[str]:
    """Name the boards on which only one of the Reports masked interrupts."""
    said = {True: "masked", False: "not masked", None: "masked in some samples"}
    return [
        f"Interrupts of {name} were {said[board.is_masked]} before and "
        f"{said[new[name].is_masked]} after: interrupts may be what differs."
        for name, board in old.items()
        if name in new and board.is_masked != new[name].is_masked
    ]


def of_one_build(
    rows: Iterable[Difference], old: Mapping[str, BoardFacts], new: Mapping[str, BoardFacts]
) -> list[str]:
    """Name the boards on which exact counts may differ only by inputs: the build is the same."""
    changed = {row.device for row in rows if row.is_exact and row.verdict in ("better", "worse")}
    return [
        f"{name} ran the same build before and after. If its exact counts differ, its arguments, "
        "--number or --warmup differ too."
        for name, board in old.items()
        if name in changed and board.builds and name in new and board.builds == new[name].builds
    ]


def identity(report: Report, boards: Mapping[str, BoardFacts]) -> tuple[tuple[str, str], ...]:
    """Return what identifies a side, for people."""
    facts: list[tuple[str, str]] = []
    version = report.configuration.get("boardprof")
    if isinstance(version, str):
        facts.append(("boardprof", version))
    for name, board in boards.items():
        lines = {
            "clock": board.clock_kind + (", emulated" if board.is_emulated else ""),
            "build": ", ".join(board.builds),
            "compiler": ", ".join(sorted(board.compilers)),
            "C library": ", ".join(sorted(board.libcs)),
            "flags": " | ".join(dict.fromkeys(filter(None, board.flags.values()))),
        }
        facts += [(f"{name} {what}", text) for what, text in lines.items() if text]
    return tuple(facts)
