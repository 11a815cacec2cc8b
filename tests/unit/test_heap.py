# SPDX-License-Identifier: Apache-2.0
"""Memory that firmware takes and gives back: live bytes, the peak, and call sites."""

from __future__ import annotations

import pytest

from boardprof.base.errors import UsageError
from boardprof.results.probes.heap import BEFORE, CallSite, Heap, heap_of
from boardprof.results.probes.run import ProbeRun
from boardprof.show.probe_tables import render_memory
from tests.unit.recordings import (
    ALLOC,
    CALLER,
    DROPPED,
    FREE,
    HIGH,
    LIVE,
    SIZE,
    STEP,
    block,
    event,
    recording,
)

MAIN, TASK = 0x8000_0104, 0x8000_0250


def alloc(delta: int, address: int, size: int, caller: int = MAIN) -> list[bytes]:
    return [event(delta, ALLOC, address), event(0, SIZE, size), event(0, CALLER, caller)]


def free(delta: int, address: int) -> list[bytes]:
    return [event(delta, FREE, address)]


def sized_free(delta: int, address: int, size: int) -> list[bytes]:
    return [event(delta, FREE, address), event(0, SIZE, size)]


def live(blocks: int, size: int) -> list[bytes]:
    return [event(2, LIVE, blocks), event(0, SIZE, size)]


def heap(records: list[bytes]) -> Heap:
    made = recording(block(records, 1000))
    found = heap_of(made.timelines().values())
    assert found is not None
    return found


def leaking() -> ProbeRun:
    return recording(
        block(
            [
                *alloc(10, 0x1000, 100),  # 100
                *alloc(10, 0x2000, 40, TASK),  # 140
                *free(10, 0x1000),  # 40
                *alloc(10, 0x1000, 60, TASK),  # 100
                *alloc(10, 0x3000, 50),  # 150: the peak
                *free(10, 0x2000),  # 110
                *free(10, 0x9000),  # it was there before
            ],
            1000,
        )
    )


def test_live_bytes_follow_each_event_and_the_peak_is_the_most_of_them() -> None:
    found = heap_of(leaking().timelines().values())
    assert found is not None
    assert found.time.tolist() == [10, 20, 30, 40, 50, 60, 70]
    assert found.live.tolist() == [100, 140, 40, 100, 150, 110, 110]
    assert (found.peak, found.at_end) == (150, 110)
    assert (found.blocks, found.freed, found.freed_unknown) == (4, 2, 1)
    assert (found.lost, found.failed) == (0, 0)


def test_a_call_site_has_what_it_took_and_what_was_live_at_the_peak_and_at_the_end() -> None:
    found = heap_of(leaking().timelines().values())
    assert found is not None
    assert found.sites == (
        CallSite(TASK, blocks=2, bytes=100, at_peak=100, at_end=60, blocks_at_end=1),
        CallSite(MAIN, blocks=2, bytes=150, at_peak=50, at_end=50, blocks_at_end=1),
    )


def test_an_address_of_zero_is_a_failure_or_nothing() -> None:
    found = heap([*alloc(1, 0, 500), *free(1, 0), *alloc(1, 0x10, 8)])
    assert (found.blocks, found.failed, found.freed_unknown, found.live.tolist()) == (1, 1, 0, [8])


def test_a_block_without_a_size_has_no_bytes_and_is_counted() -> None:
    records = [event(1, ALLOC, 0x10), event(5, DROPPED, 2), *alloc(1, 0x20, 8), *free(1, 0x10)]
    found = heap(records)
    assert found.live.tolist() == [0, 8, 8]
    assert (found.blocks, found.lost, found.freed) == (2, 1, 1)


def test_a_block_whose_caller_was_dropped_has_an_unknown_call_site() -> None:
    found = heap([event(1, ALLOC, 0x10), event(0, SIZE, 8), event(5, DROPPED, 1)])
    assert [(site.caller, site.at_end) for site in found.sites] == [(0, 8)]


def test_an_address_that_is_taken_twice_was_given_back_in_between() -> None:
    found = heap([*alloc(1, 0x10, 8), event(5, DROPPED, 1), *alloc(1, 0x10, 20)])
    assert found.live.tolist() == [8, 20]
    assert (found.blocks, found.freed, found.lost) == (2, 0, 1)


def test_blocks_with_the_same_low_32_bits_are_two_blocks() -> None:
    records = [event(9, HIGH, 0x55D5), *alloc(1, 0x1000, 8)]
    records += [event(9, HIGH, 0x7F00), *alloc(1, 0x1000, 20), *alloc(1, 0x1000, 300)]
    found = heap([*records, event(1, HIGH, 0x55D5), *free(1, 0x1000)])
    assert found.live.tolist() == [8, 28, 328, 320]
    assert (found.freed, found.lost) == (1, 0)


def test_sizes_and_callers_have_an_upper_half_of_their_own() -> None:
    records = [event(1, ALLOC, 16), event(0, HIGH, 2), event(0, SIZE, 5), event(0, HIGH, 1)]
    [site] = heap([*records, event(0, CALLER, 0x104)]).sites
    assert (site.bytes, site.caller) == (0x2_0000_0005, 0x1_0000_0104)


def test_an_upper_half_belongs_to_the_next_address_whatever_is_between() -> None:
    dropped = [event(1, HIGH, 7), event(5, DROPPED, 1), event(1, STEP)]
    found = heap([*dropped, *alloc(1, 0x10, 8), *free(1, 0x10), event(1, HIGH, 7), *free(1, 0x10)])
    assert (found.freed, found.freed_unknown) == (1, 1)
    # Of two, the agent has dropped the address of the first one.
    found = heap([*dropped, event(1, HIGH, 0), *alloc(1, 0x10, 8), *free(1, 0x10)])
    assert (found.freed, found.freed_unknown) == (1, 0)


def test_cores_share_the_memory() -> None:
    made = recording(
        block(alloc(10, 0x1000, 100), 1000, core=0), block(free(25, 0x1000), 1000, core=1)
    )
    found = heap_of(made.timelines().values())
    assert found is not None
    assert (found.time.tolist(), found.live.tolist()) == ([10, 25], [100, 0])
    assert found.freed == 1


def test_there_is_no_heap_without_events_of_memory() -> None:
    made = recording(block([event(1, STEP)], 1))
    assert heap_of(made.timelines().values()) is None
    assert heap_of([]) is None  # of a recording without events
    with pytest.raises(UsageError, match="The recording of bench says nothing of memory"):
        render_memory(made)


def test_the_table_names_call_sites_by_file_and_line_where_they_are_known() -> None:
    assert render_memory(leaking(), {TASK: "task.c:12 (worker)"}).splitlines() == [
        "Call site           At peak (bytes)  At end (bytes)  Blocks at end  Taken (bytes)  Blocks",
        "task.c:12 (worker)              100              60              1            100       2",
        "0x80000104                       50              50              1            150       2",
        "",
        "Peak 150 bytes; 110 bytes live at the end. 4 blocks taken, 2 given back.",
        "1 block given back that recording did not see taken: they existed before it, a shared C "
        "library took them, or the event was dropped.",
    ]


def surrounded() -> ProbeRun:
    """Two blocks of 48 bytes existed before; one of them, of 16, is given back."""
    return recording(
        block(
            [
                *live(2, 48),  # 48
                *alloc(10, 0x1000, 100),  # 148: the peak
                *sized_free(10, 0x8000, 16),  # 132
                *sized_free(10, 0x1000, 112),  # 32: what was asked for counts, not what was held
                *alloc(10, 0x1000, 7, TASK),  # 39
            ],
            1000,
        )
    )


def test_what_existed_before_recording_is_live_until_it_is_given_back() -> None:
    found = heap_of(surrounded().timelines().values())
    assert found is not None
    assert found.time.tolist() == [2, 12, 22, 32, 42]
    assert found.live.tolist() == [48, 148, 132, 32, 39]
    assert (found.peak, found.at_end) == (148, 39)
    assert (found.blocks, found.freed, found.freed_before, found.freed_unknown) == (2, 1, 1, 0)
    before = CallSite(BEFORE, blocks=2, bytes=48, at_peak=48, at_end=32, blocks_at_end=1)
    assert found.before == before
    assert found.sites == (
        CallSite(MAIN, blocks=1, bytes=100, at_peak=100, at_end=0, blocks_at_end=0),
        before,
        CallSite(TASK, blocks=1, bytes=7, at_peak=0, at_end=7, blocks_at_end=1),
    )


def test_the_table_has_a_row_for_what_existed_before_recording() -> None:
    assert render_memory(surrounded()).splitlines() == [
        "Call site           At peak (bytes)  At end (bytes)  Blocks at end  Taken (bytes)  Blocks",
        "0x80000104                      100               0              0            100       1",
        "(before recording)               48              32              1             48       2",
        "0x80000250                        0               7              1              7       1",
        "",
        "Peak 148 bytes; 39 bytes live at the end. 2 blocks taken, 1 given back.",
        "2 blocks of 48 bytes existed before recording, 1 of these given back.",
    ]


def test_more_blocks_given_back_than_existed_are_not_among_these() -> None:
    found = heap([*live(1, 8), *sized_free(1, 0x10, 8), *sized_free(1, 0x20, 8)])
    assert found.live.tolist() == [8, 0, 0]
    assert (found.freed_before, found.freed_unknown) == (1, 1)


def test_nothing_existed_before_recording() -> None:
    found = heap([*live(0, 0), *alloc(1, 0x10, 8)])
    assert (found.live.tolist(), [site.caller for site in found.sites]) == ([0, 8], [MAIN])
    assert found.before == CallSite(BEFORE, 0, 0, 0, 0, 0)


def test_a_count_below_zero_tells_nothing_of_what_existed_before() -> None:
    found = heap([*live(0xFFFFFFFF, 0xFFFFFFF8), *alloc(1, 0x10, 8), *sized_free(1, 0x20, 8)])
    assert (found.before, found.live.tolist(), found.freed_unknown) == (None, [0, 8, 8], 1)


def test_records_of_another_core_do_not_come_between_those_of_a_block() -> None:
    made = recording(
        block([event(10, ALLOC, 0x10), event(5, SIZE, 100), event(5, CALLER, MAIN)], 1000, core=0),
        block([event(12, ALLOC, 0x20), event(5, SIZE, 7), event(5, CALLER, TASK)], 1000, core=1),
    )
    found = heap_of(made.timelines().values())
    assert found is not None
    assert found.live.tolist() == [100, 107]
    assert {site.caller: site.bytes for site in found.sites} == {MAIN: 100, TASK: 7}


@pytest.mark.parametrize("last", [[event(5, DROPPED, 3)], []], ids=["between", "at the end"])
def test_dropped_events_are_told_with_the_memory(last: list[bytes]) -> None:
    made = recording(block([*alloc(1, 0x10, 8), *last], 1000, dropped=3))
    assert render_memory(made).splitlines()[-1] == (
        "3 events dropped: the figures of memory are not exact."
    )
