# SPDX-License-Identifier: Apache-2.0
"""Whether a board's clocks agree with each other, and with the host's where they can."""

from __future__ import annotations

from collections.abc import Iterator

from boardprof.board.board import Board
from boardprof.errors import LinkError, UsageError
from boardprof.run.proof.blob_fields import blob_fields
from boardprof.run.proof.finding import FAILED, OK, SKIPPED, Finding
from boardprof.run.proof.steps import measured

__all__ = ["host_clock", "slow_clock"]

_OFF = 0.03
"""RC oscillators are off by a percent or two; what is off by more was declared wrong."""

_LONGER = 8
"""So many times the work for slow clocks."""


def host_clock(board: Board) -> Iterator[Finding]:
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
    text = f"{fit.drift_ppm:+,.0f} ppm of the host's, within {fit.drift_error_ppm:,.0f} ppm"
    if known > _OFF:
        yield Finding("clock", FAILED, f"{text}: its declared frequency is wrong")
    else:
        yield Finding("clock", OK, text)


def slow_clock(board: Board, function: str, rounds: int) -> Iterator[Finding]:
    """Hold each fast clock against the slower one that tells its wraps.

    Args:
        board: with ``function``.
        function: takes how many rounds it shall do.
        rounds: that take a fast clock long enough.
    """
    fast = [
        counter.name
        for collector in board.offer.fixed
        for counter in collector.counters
        if counter.coarse_hz and counter.name not in board.device.unsupported
    ]
    if not fast:
        return
    found = measured(board, function, rounds * _LONGER, fast)
    for info, meaning, fields in blob_fields(board, found, found.samples[0]):
        if not (info.hz and info.coarse_hz and meaning.coarse_start and meaning.coarse_stop):
            continue
        coarse = (fields[meaning.coarse_stop] - fields[meaning.coarse_start]) % (1 << 32)
        fine = found.samples[0].readings[info.name].value
        if coarse < 3:
            yield Finding("coarse clock", SKIPPED, "the work was too short for it")
            continue
        slow_s, fast_s = coarse / info.coarse_hz, fine / info.hz
        text = f"{fast_s:.4g} s by {info.source}, {slow_s:.4g} s by the slower clock"
        grain_s = 2 / info.coarse_hz
        is_right = abs(slow_s - fast_s) <= grain_s + _OFF * slow_s
        yield Finding("coarse clock", OK if is_right else FAILED, text)
