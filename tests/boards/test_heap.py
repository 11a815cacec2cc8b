# SPDX-License-Identifier: Apache-2.0
"""malloc and free as probes: what firmware takes from its C library, by file and line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import Firmware
from boardprof.results.probes.heap import BEFORE, CallSite, Heap, heap_of
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.elf.addresses import call_sites
from tests.boards.conftest import available
from tests.firmware import build

SOURCE = Path(__file__).parent / "fixtures" / "probes" / "heap.c"
LINES = SOURCE.read_text(encoding="utf-8").splitlines()
HEAP = BuildOptions(heap=True)


@pytest.fixture(scope="module", params=["qemu-rv32", "qemu-cortex-m4", "linux", "native"])
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[Firmware, Board]]:
    """Boards with picolibc, newlib, and glibc in a program and in a library."""
    firmware = build(available(request.param), [SOURCE], HEAP)
    with firmware.open() as board:
        yield firmware, board


def recorded(board: Board, *calls: str) -> Heap:
    with board.tracing() as recorder:
        for name in calls:
            board.functions[name]()
    found = heap_of(recorder.recording().timelines().values())
    assert found is not None
    assert (found.dropped, found.lost) == (0, 0)
    return found


def sites(firmware: Firmware, heap: Heap) -> dict[str, tuple[int, int, int, int, int]]:
    """Return by line of the source: blocks, bytes, at peak, at end, blocks at end."""
    places = call_sites(firmware.image, [site.caller for site in heap.sites])
    return {
        places.get(s.caller, "before" if s.caller == BEFORE else "?"): (
            *(s.blocks, s.bytes, s.at_peak),
            *(s.at_end, s.blocks_at_end),
        )
        for s in heap.sites
        if s.caller != BEFORE
    }


def at(text: str, function: str) -> str:
    [line] = [number for number, each in enumerate(LINES, 1) if text in each]
    return f"heap.c:{line} ({function})"


def test_each_call_that_takes_memory_is_known_by_file_and_line(
    opened: tuple[Firmware, Board],
) -> None:
    firmware, board = opened
    board.functions.take_before()
    heap = recorded(board, "churn")
    assert heap.before is not None
    before = heap.before.bytes
    # The two blocks of take_before, as the allocator rounds them, and what was there already.
    assert (heap.before.blocks >= 2, before >= 1024) == (True, True)
    changes = [0, 100, 300, 200, 0, 190, 0, 60, 90]
    assert [int(live) - before for live in heap.live] == changes
    assert (heap.peak - before, heap.at_end - before) == (300, 90)
    assert (heap.blocks, heap.freed, heap.freed_before, heap.failed) == (5, 3, 0, 0)
    assert sites(firmware, heap) == {
        at("one = malloc(100)", "churn"): (1, 100, 100, 0, 0),
        at("other = calloc(10, 20)", "churn"): (1, 200, 200, 0, 0),
        at("realloc(other, 190)", "churn"): (1, 190, 0, 0, 0),
        at("realloc(other, 60)", "churn"): (1, 60, 0, 60, 1),
        at("kept[3] = malloc(30)", "churn"): (1, 30, 0, 30, 1),
    }


def test_what_existed_before_is_live_until_it_is_given_back(
    opened: tuple[Firmware, Board],
) -> None:
    _, board = opened
    empty = recorded(board, "clear").before
    board.functions.take_before()
    heap = recorded(board, "give_before")
    assert empty is not None
    assert heap.before is not None
    assert heap.before.blocks - empty.blocks == 2
    assert 1024 <= heap.before.bytes - empty.bytes < 1024 + 2 * 32
    assert (heap.blocks, heap.freed_before, heap.freed_unknown) == (0, 1, 0)
    assert heap.before.blocks_at_end == heap.before.blocks - 1
    given = heap.before.bytes - heap.before.at_end
    assert 1000 <= given < 1032
    assert heap.live.tolist() == [heap.before.bytes, heap.before.at_end]
    # The next recording begins with what this one has left, to the byte.
    after = recorded(board, "clear").before
    assert after is not None
    assert (after.blocks, after.bytes) == (heap.before.blocks - 1, heap.before.at_end)


def test_memory_that_is_refused_is_counted_and_changes_nothing(
    opened: tuple[Firmware, Board],
) -> None:
    firmware, board = opened
    assert board.functions.refuse() == 4
    heap = recorded(board, "refuse")
    assert heap.before is not None
    assert [int(live) - heap.before.bytes for live in heap.live] == [0, 11, 0]
    assert (heap.blocks, heap.freed, heap.failed) == (1, 1, 3)
    assert sites(firmware, heap) == {at('strdup("0123456789")', "refuse"): (1, 11, 11, 0, 0)}


def test_realloc_takes_moves_and_gives_back(opened: tuple[Firmware, Board]) -> None:
    firmware, board = opened
    heap = recorded(board, "resize")
    assert heap.before is not None
    live = [int(each) - heap.before.bytes for each in heap.live]
    assert live == [0, 50, 0, 5000, 0, 6, 0]
    assert sites(firmware, heap) == {
        at("realloc(nothing, 50)", "resize"): (1, 50, 0, 0, 0),
        at("realloc(one, 5000)", "resize"): (1, 5000, 5000, 0, 0),
        at('strndup("seventeen", 5)', "resize"): (1, 6, 0, 0, 0),
    }
    assert board.functions.clear() == 0


def test_aligned_blocks_are_recorded_once(opened: tuple[Firmware, Board]) -> None:
    firmware, board = opened
    heap = recorded(board, "align")
    assert heap.before is not None
    assert board.functions.align() == 0
    live = [int(each) - heap.before.bytes for each in heap.live]
    assert live == [0, *[8, 520, 620, 612, 100, 0] * 3]
    assert (heap.blocks, heap.freed, heap.freed_before, heap.freed_unknown) == (9, 9, 0, 0)
    assert {place: row[:2] for place, row in sites(firmware, heap).items()} == {
        at("one = malloc(8)", "align"): (3, 24),
        at("aligned_alloc(256, 512)", "align"): (3, 1536),
        at("memalign(64, 100)", "align"): (3, 300),
    }
    after = recorded(board, "clear").before
    assert after is not None
    assert (after.blocks, after.bytes) == (heap.before.blocks, heap.before.bytes)


def test_blocks_that_threads_share_are_in_their_order() -> None:
    with build(available("linux"), [SOURCE.with_name("heap_threads.c")], HEAP).open() as board:
        with board.tracing() as recorder:
            board.functions.share(600)
        found = heap_of(recorder.recording().timelines().values())
        with board.tracing() as recorder:
            board.functions.share(1)
        after = heap_of(recorder.recording().timelines().values())
    assert found is not None
    assert after is not None
    assert (found.before, after.before) == (CallSite(BEFORE, 0, 0, 0, 0, 0),) * 2
    if not found.dropped:  # a thread may not get the lock in time
        assert (found.blocks, found.freed, found.freed_unknown, found.lost) == (1200, 1200, 0, 0)
        assert (int(found.live.min()), found.at_end) == (0, 0)


def test_a_board_without_probes_cannot_record_its_heap() -> None:
    with pytest.raises(UsageError, match="arduino-uno cannot record its heap") as error:
        build(available("arduino-uno"), [SOURCE], HEAP)
    assert error.value.hint is not None
