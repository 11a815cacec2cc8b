# SPDX-License-Identifier: Apache-2.0
"""What holds of both collectors whose events Linux names by text, perf's and PAPI's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from boardprof.base.errors import RpcError
from boardprof.measure.connect import connect
from boardprof_protocol.codes import CounterStatus
from tests.boards.conftest import available
from tests.boards.linux_slots import EVENTS_C, Slots, working_slots
from tests.firmware import build
from tests.support import requires_tool

OK, ABSENT = CounterStatus.OK, CounterStatus.ABSENT


@dataclass(frozen=True)
class Names:
    """A collector, and what it calls the same events."""

    collector: str
    faults: str
    minor_faults: str
    task_clock: str
    unknown: str


PERF = Names("perf", "page-faults", "minor-faults", "task-clock", "no-such-event")
PAPI = Names("papi", "perf::PAGE-FAULTS", "perf::MINOR-FAULTS", "perf::TASK-CLOCK", "no::SUCH")


@pytest.fixture(scope="module")
def image() -> Path:
    return build(available("linux"), [EVENTS_C]).image


@pytest.fixture(params=[PERF, PAPI], ids=["perf", "papi"])
def names(request: pytest.FixtureRequest) -> Names:
    found: Names = request.param
    if found is PAPI:
        requires_tool("papi_avail", package="papi-tools")
    return found


@pytest.fixture
def slots(image: Path, names: Names) -> Iterator[Slots]:
    with connect(available("linux"), image=image) as board:
        yield working_slots(board, names.collector, names.faults)


def test_an_event_that_is_not_there_leaves_the_others_alone(slots: Slots, names: Names) -> None:
    first, second, third = slots.select(names.faults, names.unknown, names.minor_faults)
    assert (first.status, third.status) == (OK, OK)
    assert (second.status, second.error) == (ABSENT, 0)
    assert slots.measure("touch_pages", 7, repeat=1) == [[7, 0, 7, 0, 0, 0, 0, 0, 0, 0]]


def test_times_are_told_by_their_rate(slots: Slots, names: Names) -> None:
    found = slots.select(names.task_clock, "cpu-clock", names.faults)
    assert [event.hz for event in found] == [1_000_000_000, 1_000_000_000, 0]


def test_more_events_than_slots_are_refused_and_nothing_changes(slots: Slots, names: Names) -> None:
    slots.select(names.faults)
    with pytest.raises(RpcError, match="range"):
        slots.select(*[names.faults] * 11)
    assert slots.measure("touch_pages", 2, repeat=1)[0][0] == 2


def test_what_is_listed_does_not_disturb_what_counts(slots: Slots, names: Names) -> None:
    slots.select(names.faults)
    assert len(list(slots.events())) > 50
    assert [counts[0] for counts in slots.measure("touch_pages", 64)] == [64] * 5


def test_selecting_again_and_again_leaves_no_files_open(slots: Slots, names: Names) -> None:
    slots.select(names.faults, names.task_clock)
    before = slots.call("open_files")
    for _ in range(20):
        slots.select(names.task_clock, names.minor_faults, names.unknown, names.faults)
    slots.select(names.faults, names.task_clock)
    assert slots.call("open_files") == before
