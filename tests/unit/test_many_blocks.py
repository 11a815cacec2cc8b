# SPDX-License-Identifier: Apache-2.0
"""Many blocks of a core, which are decoded together: no event is lost, and the clock is checked."""

from __future__ import annotations

import pytest

from boardprof.base.errors import DecodeError
from tests.unit.recordings import COUNT, STEP, block, event, recording

BLOCKS, SIZE = 300, 500
"""150,000 words: more than twice what is decoded at once."""


def blocks(shifted_from: int = BLOCKS, *, whole: int = BLOCKS) -> list[bytes]:
    """Return blocks of events every three ticks, as a clock that jumps at a block would.

    Args:
        shifted_from: the first block that the clock says is 7 ticks later.
        whole: blocks that end with the last record that there was; the others do not say so.
    """
    found = []
    for index in range(BLOCKS):
        now = 3 * SIZE * (index + 1) + (7 if index >= shifted_from else 0)
        made = bytearray(block([event(3, STEP)] * SIZE, now, before=SIZE * index))
        made[1] = index < whole
        found.append(bytes(made))
    return found


@pytest.mark.parametrize("whole", [BLOCKS, BLOCKS - 1, 1, 0])
def test_all_events_of_many_blocks_are_there_in_order(whole: int) -> None:
    (line,) = recording(*blocks(whole=whole)).timelines().values()
    assert line.events.time.tolist() == list(range(3, 450_001, 3))
    assert set(line.events.number.tolist()) == {STEP}


@pytest.mark.parametrize("block_number", [1, 140, BLOCKS - 1])
def test_a_clock_that_jumps_is_noticed_wherever_it_does(block_number: int) -> None:
    with pytest.raises(DecodeError, match="The events of core 0 contradict the board's clock"):
        recording(*blocks(block_number)).timelines()


def test_a_jump_before_blocks_that_are_not_whole_is_noticed() -> None:
    with pytest.raises(DecodeError, match="contradict the board's clock after 100000 words"):
        recording(*blocks(199, whole=200)).timelines()


def test_a_record_may_go_over_the_end_of_a_block() -> None:
    record = event(4, COUNT, 77)
    first = bytearray(block([event(2, STEP), record[:4]], 2))
    first[1] = 0  # not whole
    second = block([record[4:], event(1, STEP)], 7, before=2)
    (line,) = recording(bytes(first), second).timelines().values()
    events = line.events
    found = zip(events.time.tolist(), events.number.tolist(), events.value.tolist(), strict=True)
    assert list(found) == [(2, STEP, 0), (6, COUNT, 77), (7, STEP, 0)]
