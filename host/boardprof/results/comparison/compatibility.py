# SPDX-License-Identifier: Apache-2.0
"""Whether two Reports may be compared, and which of their rows and metrics belong together."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from boardprof.base.errors import UnknownNameError, option
from boardprof.results.comparison.comparison import (
    DIFFERENT,
    ComparisonError,
    Difference,
    Gap,
    gap_in,
)
from boardprof.results.record import Device, MeasurementRecord
from boardprof.results.report.calls import IN_PLACE, OF_STATISTICS, SHARE, SHARES, one_of
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey, titled
from boardprof.results.stats.groups import GroupSummary, calls_of, left_out
from boardprof.results.stats.summary import summarize

MISMATCHES: Final = ("clock", "board", "compiler", "inputs", "outputs")
"""What `compare` refuses unless it is allowed."""

_PATH_FLAGS = ("-I", "-L", "-isystem", "-iquote", "-idirafter", "-include")
_PATH_MAPS = ("-ffile-prefix-map=", "-fdebug-prefix-map=", "-fmacro-prefix-map=")

_NAMED = 3  # up to this many functions are named; of more, only the number is given
_DECIMALS: Final = 9  # digits of a share; further digits are rounding errors
_SAME_RATE = 0.01  # clocks that differ by less are one clock whose rate was measured twice


def check_allowed(allow: Iterable[str]) -> None:
    """Raise an UnknownNameError unless there are mismatches of these names."""
    for name in sorted({*allow} - {*MISMATCHES}):
        raise UnknownNameError("mismatch", name, MISMATCHES)


@dataclass(frozen=True)
class BoardFacts:
    """What a Report says about one of its boards; empty or None if not known."""

    clock_kind: str = ""  # ``measured``, ``declared`` or ``simulated``
    is_emulated: bool | None = None  # it is an emulator or a simulator
    cpu: str = ""  # the architecture, and after a comma the model; for boards that are this machine
    cflags: str = ""  # flags with which all its code is compiled
    # each function's own flags, except for swept ones
    flags: Mapping[str, str] = field(default_factory=dict)
    compilers: frozenset[str] = frozenset()
    libcs: frozenset[str] = frozenset()  # the C libraries in its images, if known
    builds: tuple[str, ...] = ()  # ids of the images
    is_masked: bool | None = False  # interrupts were masked; None if only in some samples


def facts_of(report: Report) -> dict[str, BoardFacts]:
    """Return the boards of a Report by name; without a record, its devices."""
    record = report.record
    if record is None or not record.devices:
        names = report.calls.column("Device").filled("")
        return {name: BoardFacts() for name in dict.fromkeys(names) if isinstance(name, str)}
    columns = (report.calls.column(name).filled("") for name in ("Device", "Flags"))
    swept = {device for device, setting in {*zip(*columns, strict=True)} if setting != ""}
    return {
        name: _facts(
            device,
            [m for m in record.measurements if m.device == name],
            name in swept,
            _machine(report) if device.port.startswith(_IN_PROCESS) else "",
        )
        for name, device in record.devices.items()
    }


_IN_PROCESS: Final = "in-process:"  # begin of a port: the board is in boardprof's own process


def _machine(report: Report) -> str:
    """Return the architecture of the machine that boardprof ran on: ``x86_64``; "" if not known."""
    host = report.configuration.get("Host")
    return host.rpartition(" ")[2] if isinstance(host, str) else ""


def _facts(
    device: Device, measurements: Sequence[MeasurementRecord], swept: bool, machine: str
) -> BoardFacts:
    flags = {} if swept else {titled(m.name, m.label): m.flags for m in measurements}
    builds = [m.build_id for m in measurements] or [device.build_id]
    masked = {m.interrupts.masked for m in measurements}
    return BoardFacts(
        clock_kind=device.clock_kind,
        is_emulated=device.is_emulator,
        cpu=device.cpu or machine,
        cflags=_comparable(device.cflags),
        flags={name: comparable_flags(text) for name, text in flags.items() if text is not None},
        compilers=frozenset(each for m in measurements for each in m.compilers),
        libcs=frozenset(m.libc for m in measurements if m.libc),
        builds=tuple(dict.fromkeys(build for build in builds if build)),
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


def _cpu_differences(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield how the CPUs of two machines differ. Another architecture has other instructions."""
    (old, _, old_model), (new, _, new_model) = (cpu.partition(", ") for cpu in (before, after))
    if old and new and old != new:
        yield "board", f"the CPU is {before} before, {after} after."
    elif old_model and new_model and old_model != new_model:
        yield (
            "",
            f"the CPU is {old_model} before, {new_model} after: times and cycles may differ "
            "because of that.",
        )


def has_other_cpu(before: Report, after: Report) -> bool:
    """Tell whether a board of both Reports was another CPU before."""
    old, new = facts_of(before), facts_of(after)
    common = old.keys() & new.keys()
    return any(True for name in common for _ in _cpu_differences(old[name].cpu, new[name].cpu))


def paired_boards(
    before: Mapping[str, BoardFacts], after: Mapping[str, BoardFacts], allow: Collection[str]
) -> dict[str, str]:
    """Return the new board for each old board that is compared."""
    common = {name: name for name in before if name in after}
    if common:
        return common
    old, new = ", ".join(before) or "no board", ", ".join(after) or "no board"
    if "board" not in allow:
        raise ComparisonError(
            f"The Reports are from different boards: {old} before, {new} after.",
            hint=f"compare runs on the same board, or {option('--allow', 'board')}",
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
    """
    notes = [f"{old} is compared with {new}." for old, new in pairs.items() if old != new]
    for old, new in pairs.items():
        what = old if old == new else f"{old} and {new}"
        for kind, difference in _board_differences(before[old], after[new]):
            text = f"{what}: {difference}"
            if kind != "clock" and old != new:
                continue
            if kind and kind not in allow:
                hint = f"compare like with like, or {option('--allow', kind)}"
                raise ComparisonError(text, hint=hint)
            notes.append(f"{text} (allowed)" if kind else text)
    return notes


def _board_differences(before: BoardFacts, after: BoardFacts) -> Iterator[tuple[str, str]]:
    """Yield how two boards differ, with the kind of mismatch; "" if it is always allowed."""
    kinds, emulated = (before.clock_kind, after.clock_kind), (before.is_emulated, after.is_emulated)
    if kinds[0] != kinds[1] and all(kinds) and "simulated" in kinds:
        yield "clock", f"the clock is {kinds[0]} before, {kinds[1]} after."
    elif None not in emulated and emulated[0] != emulated[1]:
        old, new = ("an emulator" if each else "hardware" for each in emulated)
        yield "clock", f"it is {old} before, {new} after."
    yield from _cpu_differences(before.cpu, after.cpu)
    if before.compilers and after.compilers and before.compilers != after.compilers:
        old, new = (", ".join(sorted(facts.compilers)) for facts in (before, after))
        yield "compiler", f"compiled by {old} before, by {new} after."
    if before.cflags != after.cflags and before.cflags and after.cflags:
        yield ("compiler", f"the board's flags are {before.cflags} before, {after.cflags} after.")
    changed: dict[tuple[str, str], list[str]] = {}
    for name in before.flags:
        if name in after.flags and before.flags[name] != after.flags[name]:
            changed.setdefault((before.flags[name], after.flags[name]), []).append(name)
    for (old, new), names in changed.items():
        who = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} functions"
        verb = "is" if len(names) == 1 else "are"
        which = f"{old or 'no flags'} before, {new or 'none'} after"
        yield "compiler", f"{who} {verb} compiled with {which}."
    if before.libcs != after.libcs and before.libcs and after.libcs:  # new code may need one
        old, new = (", ".join(sorted(facts.libcs)) for facts in (before, after))
        yield "", f"the C library is {old} before, {new} after."


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
    """Name the boards that ran the same build, and say what the numbers can differ by."""
    differ = [row for row in rows if row.verdict in DIFFERENT]
    exact = [row for row in differ if row.is_exact]
    changed = {row.device for row in exact}
    timed = {row.device for row in differ if not (row.is_exact or row.is_emulated)}
    is_called = one_of(row.label for row in exact) == "call"
    inputs = "inputs or what was recorded"
    if is_called:
        inputs = f"arguments, {option('--number')} or {option('--warmup')}"
    same = [
        name
        for name, board in old.items()
        if board.builds and name in new and board.builds == new[name].builds
    ]
    text = "ran the same build before and after."
    return [
        *(
            f"{name} {text} If its exact counts differ, its {inputs} differ too."
            for name in same
            if name in changed
        ),
        *(
            f"{name} {text} What differs comes from other programs, the CPU's clock, or the places "
            "of code and data, not from the code."
            for name in same
            if name in timed
        ),
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


# -- pairs of rows -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One of two Reports."""

    metrics: Mapping[GroupKey, Mapping[str, GroupSummary]]  # the metrics to compare
    calls: Mapping[GroupKey, int]  # number of calls in all samples


@dataclass(frozen=True)
class Pairing:
    """Matches groups of the two Reports."""

    devices: Mapping[str, str]  # old board -> new board
    by_hash: bool  # the hash separates groups

    def key(self, key: GroupKey, *, is_old: bool) -> GroupKey:
        """Return the key that a side's group has on both sides: with the board's new name.

        Ranges have one key, however they were recorded: `why_not` says if that differs.
        """
        device = self.devices.get(key.device, key.device) if is_old else key.device
        label = IN_PLACE if key.label in OF_STATISTICS else key.label
        hash_ = key.hash if self.by_hash else ""
        if (device, label, hash_) == (key.device, key.label, key.hash):
            return key  # as nearly always
        return replace(key, device=device, label=label, hash=hash_)

    def shown(self, key: GroupKey) -> GroupKey:
        """Return a group for people: boards that differ are shown with both names."""
        names = {new: f"{old} -> {new}" for old, new in self.devices.items() if old != new}
        return replace(key, device=names[key.device]) if key.device in names else key


def needs_hash(groups: Iterable[GroupSummary]) -> bool:
    """Tell whether some groups of equal name differ only by the hash."""
    hashes: dict[GroupKey, str] = {}
    keys = dict.fromkeys(group.key for group in groups)
    if not any(key.hash for key in keys):
        return False
    return any(hashes.setdefault(replace(k, hash=""), k.hash) != k.hash for k in keys)


def side_of(
    report: Report,
    groups: Sequence[GroupSummary],
    pairing: Pairing,
    named: Collection[str],
    *,
    is_old: bool,
    checks_inputs: bool = True,
) -> Side:
    """Return the part of a Report that is compared.

    Shares depend on what else was measured: they are compared only where a rule names them.
    ``checks_inputs`` is False between two boards, since the same numbers may be other bytes there.
    """
    metrics: dict[GroupKey, dict[str, GroupSummary]] = {}
    chosen = [group for group in groups if group.metric not in SHARES or group.metric in named]
    for group in _with_shares(chosen):
        if not checks_inputs or any(old != new for old, new in pairing.devices.items()):
            group = replace(group, inputs="")
        metrics.setdefault(pairing.key(group.key, is_old=is_old), {})[group.metric] = group
    calls: Counter[GroupKey] = Counter()
    for key, number in calls_of(report).items() if SHARE in named else ():
        calls[pairing.key(key, is_old=is_old)] += number
    return Side(metrics, calls)


def _with_shares(groups: Sequence[GroupSummary]) -> Iterator[GroupSummary]:
    """Yield the groups, with the share of all samples of a group in their board's total.

    A sample's value becomes the share that the group would have if all its samples were equal to
    it.
    """
    whole: dict[str, float] = {}
    for group in groups:
        if group.metric == SHARE:
            sizes = map(float, group.values)
            whole[group.key.device] = whole.get(group.key.device, 0.0) + sum(sizes)
    for group in groups:
        if group.metric != SHARE:
            yield group
        elif (total := whole[group.key.device]) > 0:
            part = 100 * len(group.values) / total
            values = tuple(round(part * float(value), _DECIMALS) for value in group.values)
            yield replace(group, values=values, summary=summarize(values))


def lost_samples(
    report: Report, pairing: Pairing, named: Collection[str], *, is_old: bool
) -> list[Gap]:
    """Return the groups with samples that cannot be in statistics."""
    when = "before" if is_old else "after"
    lost = [each for each in left_out(report) if each.metric not in SHARES or each.metric in named]
    keys = (pairing.shown(pairing.key(e.key or GroupKey(""), is_old=is_old)) for e in lost)
    return [gap_in(k, e.metric, f"{e.why}, {when}") for k, e in zip(keys, lost, strict=True)]


def why_not(key: GroupKey, metric: str, old: Side, new: Side) -> str | None:
    """Return why two sides of a metric are not compared; None if they are."""
    before, after = old.metrics[key][metric], new.metrics[key][metric]
    is_sum = [each.key.label in OF_STATISTICS for each in (before, after)]
    if is_sum[0] != is_sum[1]:
        ways = ["events", "statistics"]
        if is_sum[0]:
            ways.reverse()
        return (
            f"it was recorded as {ways[0]} before and as {ways[1]} after, and only events leave "
            "out interrupts, other tasks and the probes in a range"
        )
    if before.kind is not after.kind:
        names = before.kind.__name__, after.kind.__name__
        return f"it is a {names[0]} before, a {names[1]} after, which cannot be compared"
    if not is_same_rate(before.hz or 0, after.hz or 0):
        return (
            f"its clock has {before.hz:,} Hz before, {after.hz:,} Hz after, so its steps are not "
            "compared; time is"
        )
    if before.meter != after.meter and before.meter and after.meter:
        return f"it was measured by {before.meter} before, by {after.meter} after"
    if metric == SHARE and not _is_same_mix(key.device, old.calls, new.calls):
        return "functions were called in other proportions before, and shares depend on that"
    return None


def is_same_rate(before: int, after: int) -> bool:
    """Tell whether two rates may be of one clock, measured twice; 0 is an unknown rate."""
    return not before or not after or abs(after - before) <= _SAME_RATE * before


def _is_same_mix(device: str, old: Mapping[GroupKey, int], new: Mapping[GroupKey, int]) -> bool:
    """Tell whether the calls of all functions of a board changed by the same factor."""
    common = [key for key in old if key in new and key.device == device]
    return len({new[key] / old[key] for key in common if old[key]}) <= 1
