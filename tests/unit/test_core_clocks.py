# SPDX-License-Identifier: Apache-2.0
"""Clocks of several cores: offset, drift, wraps, and when they are not related."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from boardprof.base.errors import DecodeError
from boardprof.results.probes.heap import heap_of
from boardprof.results.probes.run import ProbeRun
from boardprof.show.ctf import render_ctf
from boardprof.show.probe_tables import probe_run_page
from boardprof.show.probe_tracks import ProbeTracks
from boardprof.show.table import plain
from tests.unit.recordings import ALLOC, CALLER, FREE, SIZE, STEP, event, recording

SYNC, LONG, WRAPPED = 7, 11, 12
WHOLE, OTHER_CLOCK = 1, 2


def synced(ticks: int, delta: int, number: int, took: int = 0) -> bytes:
    """Return an event before which the shared ticks were read."""
    return (
        event(0, SYNC, ticks >> 32)
        + event(0, SYNC, ticks & 0xFFFFFFFF)
        + event(delta & 0xFFFFFF, LONG, took << 8 | delta >> 24)
        + event(0, number)
    )


def block(
    core: int, sequence: int, records: Sequence[bytes], last: int, now: int, ticks: int = 0
) -> bytes:
    words = b"".join(records)
    flags = WHOLE | (OTHER_CLOCK if core else 0)
    count = len(words) // 4
    head = struct.pack(
        "<BBHIIIIQ", core, flags, count, sequence, 0, last % 2**32, now % 2**32, ticks
    )
    return head + words


def two_cores(drift: float = 0.0) -> ProbeRun:
    """A tick is 10 cycles. The second core's clock is 5,000,000 ahead; see SPEC.md 5.12.

    Core 0 has events at 1000, 2000, and so on; core 1 half-way between them.
    """
    first = [synced(2**33 + 100 * n, 1000, STEP) for n in range(1, 11)]
    ahead = [round(5_000_000 + (1000 * n + 500) * (1 + drift)) for n in range(1, 11)]
    deltas = np.diff([0, *ahead]).tolist()
    second = [synced(2**33 + 100 * n + 50, delta, STEP) for n, delta in enumerate(deltas, 1)]
    return recording(
        block(0, 0, first, 10_000, 10_600, 2**33 + 1060),
        block(1, 0, second, ahead[-1], 10_600, 2**33 + 1060),
    )


@pytest.mark.parametrize("drift", [0.0, 0.01, -0.01])
def test_events_of_two_cores_are_in_the_order_in_which_they_were(drift: float) -> None:
    found = two_cores(drift).merged()
    assert found.core.tolist() == [0, 1] * 10
    assert found.time[::2].tolist() == list(range(1000, 11_000, 1000))
    assert found.error < 30
    off = found.time[1::2] - np.arange(1500, 11_500, 1000)
    assert np.abs(off).max() <= found.error


def test_passes_stay_in_the_ticks_of_their_own_core() -> None:
    lines = two_cores(0.01).timelines()
    assert np.diff(lines[1].events.time).tolist() == [1010] * 9
    assert lines[1].clock.drift == pytest.approx(-0.0099, abs=1e-4)


def test_a_drawing_and_a_page_have_the_common_time() -> None:
    made = two_cores(0.01)
    [first, second] = [
        track.mark_time for track in ProbeTracks(made).tracks if len(track.mark_time)
    ]
    assert first.tolist() == list(range(1000, 11_000, 1000))
    assert np.abs(second - np.arange(1500, 11_500, 1000)).max() < 30
    assert "Times of different cores agree within " in plain(probe_run_page(made))
    assert len(render_ctf(made)["core1"]) > 100


def test_the_error_grows_with_the_time_that_a_clock_was_read_late() -> None:
    def error(took: int) -> float:
        parts = [
            block(core, 0, [synced(100 * n, 1000, STEP, took) for n in (1, 2, 3)], 3000, 3000, 300)
            for core in (0, 1)
        ]
        return recording(*parts).merged().error

    assert error(40) - error(0) >= 40


def test_cores_whose_clocks_are_not_related_are_not_merged_and_the_page_says_so() -> None:
    made = recording(
        block(0, 0, [synced(100 * n, 1000, STEP) for n in (1, 2)], 2000, 2000, 200),
        block(1, 0, [event(10, STEP)], 77, 2000, 200),
    )
    with pytest.raises(DecodeError, match="clocks of the cores are not related"):
        made.merged()
    assert "How the clocks of the cores relate is not known" in plain(probe_run_page(made))


def test_cores_that_count_the_shared_ticks_themselves_need_no_relation() -> None:
    made = recording(
        block(0, 0, [event(10, STEP), event(10, STEP)], 20, 20),
        block(1, 0, [event(15, STEP)], 15, 20),
        unit="ticks",
    )
    found = made.merged()
    assert (found.time.tolist(), found.core.tolist(), found.error) == ([10, 15, 20], [0, 1, 0], 0)


def test_ticks_that_go_back_relate_nothing() -> None:
    made = recording(
        block(0, 0, [synced(100 * n, 1000, STEP) for n in (1, 2)], 2000, 2000, 200),
        block(1, 0, [synced(100 * n, 1000, STEP) for n in (2, 1)], 2000, 2000, 200),
    )
    with pytest.raises(DecodeError, match="clocks of the cores are not related"):
        made.merged()


def test_a_clock_that_wraps_while_nothing_happens_is_followed_by_empty_blocks() -> None:
    """Three quarters of a wrap, six times, and an event: 4.5 wraps."""
    step = 3 << 30
    parts = [block(0, 0, [event(10, STEP)], 10, 10)]
    parts += [block(0, 1, [], 10, 10 + step * n) for n in range(1, 7)]
    late = 10 + step * 6 + 7
    delta = (late - 10) % 2**32
    records = [event(delta & 0xFFFFFF, LONG, delta >> 24), event(0, STEP)]
    parts.append(block(0, 1, records, late, late + 3))
    [line] = recording(*parts).timelines().values()
    assert line.events.time.tolist() == [10, 19_327_352_849]
    assert line.end == 19_327_352_852


def test_a_recording_that_ends_long_after_its_last_event_lasts_that_long() -> None:
    parts = [block(0, 0, [event(10, STEP)], 10, 10)]
    parts += [block(0, 1, [], 10, 10 + (3 << 30) * n) for n in range(1, 7)]
    [line] = recording(*parts).timelines().values()
    assert line.end == 10 + 19_327_352_832


@pytest.mark.parametrize("wraps", [1, 3])
def test_events_far_apart_in_a_call_have_their_true_times(wraps: int) -> None:
    """The board tells how often its clock has wrapped; blocks come before and after the call."""
    far = wraps << 32
    parts = [
        block(0, 0, [event(10, STEP)], 10, 12, 12),
        block(0, 1, [event(0, WRAPPED, wraps), event(7, STEP)], far + 17, far + 18, far + 18),
    ]
    [line] = recording(*parts, unit="ticks").timelines().values()
    assert line.events.time.tolist() == [10, far + 17]
    assert line.end == far + 18


def test_memory_that_one_core_takes_and_the_other_gives_back_is_followed() -> None:
    """The second core gives it back while the first one is still telling of it."""
    first = [
        synced(0, 1, STEP),
        *(event(99, ALLOC, 0x2000), event(4, SIZE, 64), event(4, CALLER, 0x400)),
        synced(100, 892, STEP),
    ]
    second = [synced(0, 1, STEP), event(101, FREE, 0x2000), synced(100, 898, STEP)]
    made = recording(block(0, 0, first, 1000, 1000, 100), block(1, 0, second, 1000, 1000, 100))
    found = heap_of(made.timelines().values())
    assert found is not None
    assert (found.blocks, found.freed, found.lost, found.at_end) == (1, 1, 0, 0)
