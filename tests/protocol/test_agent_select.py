# SPDX-License-Identifier: Apache-2.0
"""Programmable counters of the real C agent: events chosen by the host (SPEC.md 5.3).

The collector ``slots`` of tests/c has two slots. Each counts the calls of ``work``, times the code
of its event; code 13 is one that its control register does not take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from boardprof_protocol.codes import CounterStatus
from tests.memory_board import FULL, BoardError, MemoryBoard

Boards = Callable[[dict[str, int]], MemoryBoard]
PROGRAMMABLE = {**FULL, "TEST_PROGRAMMABLE": 1}


@pytest.fixture
def slots(boards: Boards) -> MemoryBoard:
    board = boards(PROGRAMMABLE)
    board.hello()
    return board


def counts(board: MemoryBoard, times: int) -> list[int]:
    """Return what both slots count while ``work`` runs ``times`` times."""
    window = board.call("slots.start")
    for _ in range(times):
        board.call("work")
    body = board.call("slots.stop", window)[6:-4]
    fields = [int.from_bytes(body[at : at + 4], "little") for at in range(0, 16, 4)]
    return [fields[1] - fields[0], fields[3] - fields[2]]


def statuses(board: MemoryBoard) -> list[int]:
    """Return the dictionary's status of the two slots: the third and fourth counter."""
    return [msgpack.unpackb(body)[6] for body in list(board.section(3))[2:4]]


def test_only_a_programmable_collector_has_select_and_event(slots: MemoryBoard) -> None:
    own = [name for name in slots.names() if name.endswith((".select", ".event"))]
    assert own == ["slots.select", "slots.event"]


def test_operations_are_numbered_collector_after_collector(slots: MemoryBoard) -> None:
    names = slots.names()
    first = names.index("probe_a.init")
    assert names[first : first + 14] == [
        "probe_a.init",
        "probe_a.start",
        "probe_a.stop",
        "probe_b.init",
        "probe_b.start",
        "probe_b.stop",
        "slots.init",
        "slots.start",
        "slots.stop",
        "slots.select",
        "slots.event",
        "cycles.init",
        "cycles.start",
        "cycles.stop",
    ]
    assert names[first + 17] == "count"  # ticks has three; then the board's own
    assert slots.call("count") == 1


def test_an_agent_without_windows_has_no_operations_at_all(boards: Boards) -> None:
    board = boards({"TEST_PROGRAMMABLE": 1})
    board.hello()
    assert [name for name in board.names() if "." in name] == ["bp.describe", "bp.measure"]


def test_slots_are_absent_until_something_is_selected(slots: MemoryBoard) -> None:
    assert statuses(slots) == [CounterStatus.ABSENT, CounterStatus.ABSENT]


def test_events_go_into_the_slots_in_order(slots: MemoryBoard) -> None:
    assert slots.call("slots.select", 2, 5) == [[0, 0], [0, 0]]
    assert counts(slots, 3) == [6, 15]
    assert statuses(slots) == [CounterStatus.OK, CounterStatus.OK]


def test_a_slot_beyond_those_named_is_off(slots: MemoryBoard) -> None:
    slots.call("slots.select", 2, 5)
    assert slots.call("slots.select", 7) == [[0, 0]]
    assert counts(slots, 1) == [7, 0]
    assert statuses(slots) == [CounterStatus.OK, CounterStatus.ABSENT]


def test_selecting_nothing_switches_all_off(slots: MemoryBoard) -> None:
    slots.call("slots.select", 2, 5)
    assert slots.call("slots.select") == []
    assert statuses(slots) == [CounterStatus.ABSENT, CounterStatus.ABSENT]


def test_an_event_that_cannot_be_programmed_is_off_and_the_others_count(slots: MemoryBoard) -> None:
    assert slots.call("slots.select", 13, 4) == [[CounterStatus.STUCK, 13], [0, 0]]
    assert counts(slots, 2) == [0, 8]
    assert statuses(slots) == [CounterStatus.ABSENT, CounterStatus.OK]


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ((1, 2, 3), "ARG_RANGE, detail 1"),  # one more than there are slots
        ((1, 256), "ARG_RANGE, detail 0"),  # no code of the control register's
        ((b"cycles", 2), "ARG_TYPE, detail 1"),
    ],
)
def test_a_refused_selection_changes_nothing(
    slots: MemoryBoard, events: tuple[Any, ...], error: str
) -> None:
    slots.call("slots.select", 2, 5)
    window = slots.call("slots.start")
    with pytest.raises(BoardError, match=error):
        slots.call("slots.select", *events)
    assert len(slots.call("slots.stop", window)) == 26  # the window is still open
    assert counts(slots, 3) == [6, 15]


def test_a_selection_closes_the_collectors_windows_and_no_others(slots: MemoryBoard) -> None:
    closed, other = slots.call("slots.start"), slots.call("probe_a.start")
    slots.call("slots.select", 2)
    with pytest.raises(BoardError, match="BAD_HANDLE"):
        slots.call("slots.stop", closed)
    slots.call("probe_a.stop", other)


def test_init_goes_back_to_what_slots_count_by_themselves(slots: MemoryBoard) -> None:
    slots.call("slots.select", 2, 5)
    slots.call("slots.init")
    assert statuses(slots) == [CounterStatus.ABSENT, CounterStatus.ABSENT]


def test_a_selection_outlives_the_session_and_shows_in_its_hash(slots: MemoryBoard) -> None:
    before = slots.hello(session=2).fields.dictionary_hash
    slots.call("slots.select", 2, 5)
    assert slots.hello(session=3).fields.dictionary_hash != before
    assert statuses(slots) == [CounterStatus.OK, CounterStatus.OK]
    slots.call("slots.init")
    assert slots.hello(session=4).fields.dictionary_hash == before


def test_events_are_asked_for_one_by_one(slots: MemoryBoard) -> None:
    assert slots.call("slots.event", 0) == ["twice", "counts each call of work twice"]
    assert slots.call("slots.event", 1) is None
    with pytest.raises(BoardError, match="ARG_COUNT"):
        slots.call("slots.event")
