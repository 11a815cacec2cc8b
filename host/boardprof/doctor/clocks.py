# SPDX-License-Identifier: Apache-2.0
"""Check that a board's clocks agree with each other and, if possible, with the host's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from boardprof.board.board import Board
from boardprof.decode.dictionary import CounterInfo
from boardprof.decode.samples import Sample
from boardprof.doctor.finding import FAILED, OK, SKIPPED, Finding
from boardprof.doctor.growth import measured
from boardprof.errors import LinkError, UsageError
from boardprof.report.measurement import Measurement
from boardprof_protocol.blob import split_blobs
from boardprof_protocol.layout import Counter

_OFF = 0.03
"""RC oscillators are off by a percent or two; a larger error means a wrong declaration."""

_LONGER = 8
"""Factor by which the work is larger for slow clocks."""


def host_clock(board: Board) -> Iterator[Finding]:
    """Hold the board's clock against the host's."""
    if board.device.emulated or board.device.clock_kind == "simulated":
        yield Finding("clock", SKIPPED, "simulated: it cannot be checked against the host's time")
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
    text = f"{fit.drift_ppm:+,.0f} ppm from the host's clock, within {fit.drift_error_ppm:,.0f} ppm"
    if known > _OFF:
        yield Finding("clock", FAILED, f"{text}: its declared frequency is wrong")
    else:
        yield Finding("clock", OK, text)


def slow_clock(board: Board, function: str, rounds: int) -> Iterator[Finding]:
    """Compare each fast clock with the slower one that detects its wraps.

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
            yield Finding("coarse clock", SKIPPED, "the work was too short for this clock")
            continue
        slow_s, fast_s = coarse / info.coarse_hz, fine / info.hz
        text = f"{fast_s:.4g} s by {info.source}, {slow_s:.4g} s by the slower clock"
        grain_s = 2 / info.coarse_hz
        is_right = abs(slow_s - fast_s) <= grain_s + _OFF * slow_s
        yield Finding("coarse clock", OK if is_right else FAILED, text)


def blob_fields(
    board: Board, measurement: Measurement, sample: Sample
) -> Iterator[tuple[CounterInfo, Counter, Mapping[str, Any]]]:
    """Yield each fixed counter of the first pass, with its meaning and its blob's fields."""
    mask = measurement.windows[0].mask
    collectors = [c for c in board.device.collectors if mask >> c.index & 1]
    for collector, blob in zip(collectors, split_blobs(sample.raw), strict=True):
        layout = board.link.layouts[collector.schema_id]
        fields = layout.struct.parse(blob.body)
        if not layout.programmable:
            for info, meaning in zip(collector.counters, layout.counters, strict=True):
                yield info, meaning, fields
