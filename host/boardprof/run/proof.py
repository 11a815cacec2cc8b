# SPDX-License-Identifier: Apache-2.0
"""What ``boardprof doctor -b BOARD`` finds: are a board's counters, clocks and sizes what they say?

Functions of known work (``device_runtime_c/proof``) run with one, two and three times the rounds.
What counts work must grow evenly with them; what is exact must not differ from run to run; what a
register reads must fit its declared width; clocks must agree with each other, and with the host's
where they are no simulator's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boardprof.board.board import Board
from boardprof.boards.finding import board_spec, default_board
from boardprof.connection import connect
from boardprof.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.decode.samples import Sample
from boardprof.errors import BoardprofError, DeviceTimeoutError, LinkError, UsageError
from boardprof.firmware.builder import build
from boardprof.report.measurement import Measurement, Stack
from boardprof.resources import runtime_dir
from boardprof_protocol.blob import split_blobs
from boardprof_protocol.layout import Counter, Layout

__all__ = ["FAILED", "OK", "SKIPPED", "UNSUPPORTED", "Finding", "finding_text", "proof_facts"]
__all__ += ["proof_sources", "prove", "proved"]

OK, FAILED, UNSUPPORTED, SKIPPED = "ok", "failed", "unsupported", "not proven"

_ROUNDS, _DEPTH = "proof_rounds", "proof_depth"
_SAMPLES = 7
_IN_A_ROW = 3
_FIRST_ROUNDS = 500
_MOST_ROUNDS = 1 << 24
_ENOUGH_S = 0.00125
"""Work is doubled until a call takes so long that the grain of no clock shows."""

_LONG_S = 1.0
"""Nor is it doubled beyond this, of the host's time: a simulator may be slow."""

_INSTRUCTIONS_A_ROUND = (1, 24)
_CYCLES_A_ROUND = (0.2, 400)
_UNEVEN = 0.1
"""Share by which a step may differ from the next, for caches and interrupts."""

_JUMP = 1_000_000
"""No two runs of the same work differ by so much, beside what it takes itself."""

_BUSY = (1.5, 8.0)
"""Three times the work takes so many times as long where other programs take their turns."""

_CLOCK_OFF = 0.03
"""RC oscillators are off by a percent or two; what is off by more was declared wrong."""

_TRIES = 4
"""How often a clock beside other programs is looked at again before it counts as uneven."""

_LONGER = 8
"""So many times the work for slow clocks."""

_FRAMES = (2, 3, 4)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: a counter's name, or ``counters`` where none works, ``clock``, ``coarse clock``,
            ``arena``, ``stack``, or ``time limit`` where the board has ended a call.
        verdict: `OK`, `FAILED`, `UNSUPPORTED` or `SKIPPED`.
        text: what was seen.
        is_counter: whether the subject is a counter's name.
    """

    subject: str
    verdict: str
    text: str
    is_counter: bool = False


def proved(
    board: str | None,
    port: str | None = None,
    *,
    key_file: str | None = None,
    on_finding: Callable[[Finding], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> list[Finding]:
    """Start a board with functions of known work, or take the one at ``port``, and prove it.

    Args:
        board: as for `connect`.
        port: as for `connect`; None starts the board.
        key_file: as for `connect`.
        on_finding: called with each finding as it is made.
        on_note: as for `connect`.

    Raises:
        UsageError: there is no such board, or what runs at the port has not these functions.
        BoardError: nothing answers. BuildError: the functions do not build for it.
    """
    if port is not None:
        with connect(board, port, key_file=key_file, on_note=on_note) as at_port:
            return prove(at_port, on_finding)
    spec = board_spec(board) if board is not None else default_board()
    with connect(spec, image=build(spec, proof_sources()).image, on_note=on_note) as started:
        return prove(started, on_finding)


def finding_text(found: Finding) -> str:
    """Return a finding as a line."""
    return f"{found.subject:<20} {found.verdict:<12} {found.text}"


def proof_facts(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as JSON shows them.

    ``unsupported`` is what board.toml's table of that name would have to say of the counters that
    failed, if they cannot be made right.
    """
    return {
        "schema_version": 1,
        "findings": [
            {"subject": f.subject, "verdict": f.verdict, "text": f.text} for f in findings
        ],
        "unsupported": {
            f.subject: f.text for f in findings if f.verdict == FAILED and f.is_counter
        },
    }


def proof_sources() -> list[str]:
    """Return the sources of the functions that a board must have for `prove`."""
    return [str(runtime_dir() / "proof" / "proof.c")]


def prove(board: Board, on_finding: Callable[[Finding], None] | None = None) -> list[Finding]:
    """Hold a board against known work.

    That no counter works, or that the board ends a call at its limit, is a finding too.

    Args:
        board: with the functions of `proof_sources`.
        on_finding: called with each finding as it is made.

    Raises:
        UsageError: the board does not have these functions.
    """
    if _ROUNDS not in board.functions or _DEPTH not in board.functions:
        raise UsageError(
            f"The firmware of {board.spec.name} has no functions of known work.",
            hint=f"boardprof flash -b {board.spec.name} {proof_sources()[0]}",
        )
    findings: list[Finding] = []
    for finding in _findings(board):
        findings.append(finding)
        if on_finding is not None:
            on_finding(finding)
    return findings


def _findings(board: Board) -> Iterator[Finding]:
    for name, reason in board.device.unsupported.items():
        yield Finding(name, UNSUPPORTED, reason, is_counter=True)
    try:
        board.offer.passes(None)
    except UsageError as error:
        yield Finding("counters", FAILED, str(error))
        yield from _clock(board)
        yield _arena(board)
        yield Finding("stack", SKIPPED, "nothing can be measured")
        return
    yield from _within_limit(_work(board))
    yield from _clock(board)
    yield _arena(board)
    yield from _within_limit(_stack(board))


def _within_limit(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings, up to a call that the board ends."""
    try:
        yield from findings
    except DeviceTimeoutError as error:
        yield Finding("time limit", FAILED, str(error))


def _work(board: Board) -> Iterator[Finding]:
    """Judge what grows with the work: counters, and clocks against each other."""
    rounds = _enough_rounds(board)
    steps = _steps(board, rounds)
    for counter in steps[0].counters:
        found = _counter(board, counter, steps)
        for _ in range(_TRIES if board.device.clock_kind == "measured" else 0):
            if found.verdict != FAILED:
                break
            found = _counter(board, counter, _steps(board, rounds))
        yield found
    yield from _coarse(board, 3 * rounds)


def _enough_rounds(board: Board) -> int:
    """Return how many rounds it takes for enough work, or for a second more than the fewest."""
    rounds, fewest_s, enough = _FIRST_ROUNDS, None, 0
    while rounds < _MOST_ROUNDS:
        began = time.monotonic()
        measured = board.measure(_ROUNDS, rounds, warmup=0, repeat=1)
        took_s = time.monotonic() - began
        fewest_s = took_s if fewest_s is None else fewest_s
        # A counter that wraps unseen looks like a long time, but not again and again.
        enough = enough + 1 if _is_enough(board, measured) else 0
        if enough == _IN_A_ROW or took_s - fewest_s > _LONG_S:
            break
        rounds *= 2
    return rounds


def _steps(board: Board, rounds: int) -> tuple[Measurement, Measurement, Measurement]:
    """Measure one, two and three times the rounds."""
    one, two, three = (
        board.measure(_ROUNDS, rounds * times, warmup=2, repeat=_SAMPLES) for times in (1, 2, 3)
    )
    return one, two, three


def _is_enough(board: Board, measured: Measurement) -> bool:
    """Whether one call took so long that a clock's grain does not show."""
    (sample,) = measured.samples
    clocks = [r for n, r in sample.readings.items() if n in measured.counters and r.hz]
    times = [measured.net(sample, n) for n, r in sample.readings.items() if r.unit == "ns"]
    seconds = [reading.value / reading.hz for reading in clocks] + [time / 1e9 for time in times]
    if not seconds:
        return measured.net(sample, measured.counters[0]) > 1_000_000
    return max(seconds) > _ENOUGH_S


# -- counters ---------------------------------------------------------------------------------


def _counter(board: Board, name: str, steps: Sequence[Measurement]) -> Finding:
    """Judge one counter by three measurements of evenly growing work."""
    return Finding(name, *_judged(board, name, steps), is_counter=True)


def _judged(board: Board, name: str, steps: Sequence[Measurement]) -> tuple[str, str]:
    reading = steps[0].samples[0].readings[name]
    wide = _too_wide(board, name, steps)
    if wide is not None:
        return FAILED, wide
    nets = [[m.net(sample, name) for sample in m.samples] for m in steps]
    # Whatever else a system does only ever adds to a count.
    least = [min(values) for values in nets]
    first, second = least[1] - least[0], least[2] - least[1]
    is_of_work = reading.unit != "count" or name in ("instructions", "cycles")
    if not is_of_work and not (first == second and first >= _rounds(steps)):
        text = f"counted {least[2]:,.0f} in loops that are not made for it"
        return SKIPPED, text
    if first <= 0 or second <= 0:
        return FAILED, f"does not grow with the work: {_list(least)}"
    spread = max(max(values) - min(values) for values in nets)
    is_exact = board.device.emulated and reading.unit == "count"
    if is_exact and spread:
        return (
            FAILED,
            f"differs by up to {spread:,} between runs of the same work: it follows the host's "
            "time (an emulator without -icount does that)",
        )
    if board.device.clock_kind != "measured" and spread > _JUMP + 100 * least[2]:
        return FAILED, f"jumps by {spread:,} in the same work: it wraps before its declared width"
    allowed = 0 if is_exact else max(4, _UNEVEN * second)
    is_even = abs(second - first) <= allowed
    if board.device.clock_kind == "measured":
        is_even = _BUSY[0] <= least[2] / max(least[0], 1) <= _BUSY[1]
    if not is_even:
        return FAILED, f"does not grow evenly: {_list(least)} for 1, 2, 3 loads"
    rounds = _rounds(steps)
    low, high = _INSTRUCTIONS_A_ROUND if name == "instructions" else _CYCLES_A_ROUND
    each = first / rounds
    if reading.unit == "count" and not low <= each <= high:
        return FAILED, f"{each:.3g} a round; {low:g} to {high:g} is right"
    exact = "the same in every run" if not spread else f"within {spread:,} of each other"
    return OK, f"{each:.4g} a round, evenly, {exact}; {_calibration(steps[0], name)}"


def _rounds(steps: Sequence[Measurement]) -> int:
    return int(steps[0].arguments.partition("=")[2].replace(",", ""))


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:,.0f}" for value in values)


def _calibration(measured: Measurement, name: str) -> str:
    values = [s.readings[name].value for w in measured.windows for s in w.calibration]
    return f"an empty window reads {min(values):,} to {max(values):,}"


def _too_wide(board: Board, name: str, steps: Sequence[Measurement]) -> str | None:
    """Say what a register read that its declared width cannot hold, None if nothing."""
    for measured in steps:
        for sample in measured.samples:
            for info, meaning, fields in _fields(board, measured, sample):
                if info.name != name:
                    continue
                most = max(fields[meaning.start], fields[meaning.stop])
                if most >> info.bits:
                    return f"{info.source} read {most:,}, more than its {info.bits} bits hold"
    return None


def _fields(
    board: Board, measured: Measurement, sample: Sample
) -> Iterator[tuple[CounterInfo, Counter, Mapping[str, Any]]]:
    """Yield each counter of the first pass with its meaning and its blob's fields."""
    collectors = [c for c in board.device.collectors if measured.windows[0].mask >> c.index & 1]
    for collector, blob in zip(collectors, split_blobs(sample.raw), strict=True):
        layout: Layout = board.layouts[collector.schema_id]
        fields = layout.struct.parse(blob.body)
        for info, meaning in _meanings(collector, layout):
            yield info, meaning, fields


def _meanings(collector: CollectorInfo, layout: Layout) -> Iterator[tuple[CounterInfo, Counter]]:
    if not layout.programmable:
        yield from zip(collector.counters, layout.counters, strict=True)


# -- clocks -----------------------------------------------------------------------------------


def _clock(board: Board) -> Iterator[Finding]:
    """Hold the board's clock against the host's."""
    if board.device.emulated or board.device.clock_kind == "simulated":
        yield Finding("clock", SKIPPED, "a simulator's: the host's time says nothing about it")
        return
    try:
        fit = board.correlate_clock(32)
    except UsageError as error:
        yield Finding("clock", SKIPPED, str(error))
        return
    except LinkError as error:
        yield Finding("clock", FAILED, str(error))
        return
    off = abs(fit.drift_ppm) / 1e6
    known = max(0.0, off - fit.drift_error_ppm / 1e6)
    text = f"{fit.drift_ppm:+,.0f} ppm of the host's, within {fit.drift_error_ppm:,.0f}"
    if known > _CLOCK_OFF:
        yield Finding("clock", FAILED, f"{text}: its declared frequency is wrong")
    else:
        yield Finding("clock", OK, text)


def _coarse(board: Board, rounds: int) -> Iterator[Finding]:
    """Hold each fast clock against the slower one that tells its wraps."""
    if not any(counter.coarse_hz for c in board.device.collectors for counter in c.counters):
        return
    measured = board.measure(_ROUNDS, rounds * _LONGER, warmup=0, repeat=1)
    for info, meaning, fields in _fields(board, measured, measured.samples[0]):
        if not (info.hz and info.coarse_hz and meaning.coarse_start and meaning.coarse_stop):
            continue
        coarse = (fields[meaning.coarse_stop] - fields[meaning.coarse_start]) % (1 << 32)
        fine = measured.samples[0].readings[info.name].value
        if coarse < 3:
            yield Finding("coarse clock", SKIPPED, "the work was too short for it")
            continue
        slow_s, fast_s = coarse / info.coarse_hz, fine / info.hz
        text = f"{fast_s:.4g} s by {info.source}, {slow_s:.4g} s by the slower clock"
        grain_s = 2 / info.coarse_hz
        is_right = abs(slow_s - fast_s) <= grain_s + _CLOCK_OFF * slow_s
        yield Finding("coarse clock", OK if is_right else FAILED, text)


# -- memory -----------------------------------------------------------------------------------


def _arena(board: Board) -> Finding:
    """Take all of the arena, and see that its first and its last bytes are memory."""
    size = board.memory.size
    if not size:
        return Finding("arena", SKIPPED, "the agent has none")
    marks = bytes(range(1, 65))[: min(64, size // 2)]
    try:
        block = board.memory.alloc(size - size % 16)
        try:
            ends = (0, block.size - len(marks))
            for offset in ends:
                board.memory.write(block, marks, offset=offset)
            kept = [board.memory.read(block, size=len(marks), offset=at) for at in ends]
        finally:
            board.memory.free(block)
    except BoardprofError as error:
        return Finding("arena", FAILED, f"of {size:,} bytes: {error}")
    if kept != [marks, marks]:
        return Finding("arena", FAILED, f"of {size:,} bytes forgets what is written at its ends")
    return Finding("arena", OK, f"{size:,} bytes")


def _stack(board: Board) -> Iterator[Finding]:
    """See that each further frame takes as much of the stack as the one before."""
    found = [board.measure(_DEPTH, depth, warmup=0, repeat=1).stack for depth in _FRAMES]
    if not all(isinstance(stack, Stack) for stack in found):
        reason = next(f"{stack}" for stack in found if not isinstance(stack, Stack))
        yield Finding("stack", UNSUPPORTED, reason)
        return
    used = [stack.used for stack in found if isinstance(stack, Stack)]
    if used[1] - used[0] != used[2] - used[1] or used[1] <= used[0]:
        yield Finding("stack", FAILED, f"of 2, 3 and 4 equal frames: {_list(used)} bytes")
        return
    painted = min(stack.painted for stack in found if isinstance(stack, Stack))
    yield Finding("stack", OK, f"{used[1] - used[0]} bytes a frame; {painted:,} bytes are painted")
