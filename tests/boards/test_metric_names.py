# SPDX-License-Identifier: Apache-2.0
"""Which name is which counter or event, and why some are none: RISC-V's programmable counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from boardprof.base.errors import UsageError
from boardprof.base.formula import parse_formula
from boardprof.base.metrics import Ratio
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.measure.sampling.available_metrics import Offer
from boardprof.measure.sampling.board_link import Window
from boardprof.measure.sampling.programmable import programmable_collectors
from boardprof.target.descriptions.tables import DerivedSpec
from tests.boards.conftest import SMALL, available
from tests.firmware import build

HPM = "riscv_hpm"
LOADS, STORES, FETCHES = "dTLB-load-misses", "dTLB-store-misses", "iTLB-load-misses"
DERIVED = {
    "Loads": DerivedSpec("Ratio", parse_formula(f"{HPM}.{LOADS} / instructions")),
    "Same": DerivedSpec("Ratio", parse_formula(f"{HPM}.instructions / instructions")),
    "Nothing": DerivedSpec("Ratio", parse_formula("no-such / instructions")),
}
EMULATED = "the emulator shows the host's time"


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    spec = dataclasses.replace(available("qemu-rv32"), derived=DERIVED)
    with connect(spec, image=build(spec, [SMALL]).image) as connected:
        yield connected


def offer_without(board: Board, name: str) -> Offer:
    """What the board offers if its file says that there is no such count."""
    programmable = programmable_collectors(
        board.session,
        board.dictionary,
        board.link.layouts,
        board.spec.events,
        unsupported={name: EMULATED},
    )
    return dataclasses.replace(board.offer, programmable=programmable)


def test_an_event_that_is_asked_for_twice_takes_one_slot(board: Board) -> None:
    (only,) = board.offer.passes([STORES, f"{HPM}.{STORES}", STORES])
    assert only.events == {HPM: (STORES,)}


def test_all_stands_alone(board: Board) -> None:
    with pytest.raises(UsageError, match="`all` cannot be combined with other metrics: all, t"):
        board.offer.passes(["all", "ticks"])


@pytest.mark.parametrize("told", [STORES, f"{HPM}.{STORES}"])
@pytest.mark.parametrize("asked", [STORES, f"{HPM}.{STORES}"])
def test_an_event_that_the_boards_file_excludes_is_refused_with_the_reason(
    board: Board, told: str, asked: str
) -> None:
    offer = offer_without(board, told)
    with pytest.raises(UsageError) as caught:
        offer.passes(asked)
    assert caught.value.message == f"qemu-rv32 does not support {asked}: {EMULATED}."


def test_of_a_name_that_a_fixed_counter_has_the_event_can_be_excluded_too(board: Board) -> None:
    offer = offer_without(board, "instructions")
    with pytest.raises(UsageError, match=rf"support riscv_hpm\.instructions: {EMULATED}"):
        offer.passes(f"{HPM}.instructions")
    assert offer.programmable[0].lacking == {f"{HPM}.instructions": EMULATED}


def test_all_is_what_the_boards_file_does_not_exclude(board: Board) -> None:
    passes = offer_without(board, STORES).passes("all")
    found = [event for each in passes for event in each.events.get(HPM) or ()]
    assert found == ["instructions", LOADS, FETCHES]


def test_an_excluded_event_is_not_selected_and_the_others_are(board: Board) -> None:
    (collector,) = offer_without(board, STORES).programmable
    slots = collector.select([STORES, LOADS])
    assert (slots.events, slots.refused) == ((LOADS,), {STORES: EMULATED})


def test_a_window_has_the_events_that_count_and_no_slots(board: Board) -> None:
    (collector,) = board.offer.programmable

    def readings() -> dict[str, int]:
        window = Window(board.link, HPM)
        with window:
            board.functions.dot()
        assert list(window.metrics) == list(window.readings)
        return {name: reading.value for name, reading in window.readings.items()}

    Window(board.link, HPM).init()  # other tests have selected events
    assert readings() == {}  # by themselves they count nothing
    collector.select(["instructions"])
    found = readings()
    assert list(found) == [f"{HPM}.instructions"]
    assert found[f"{HPM}.instructions"] > 100
    Window(board.link, HPM).init()
    assert readings() == {}


def test_each_name_is_listed_once_and_can_be_asked_for(board: Board) -> None:
    listed = board.metrics()
    names = [metric.name for metric in listed]
    assert len(set(names)) == len(names)
    assert {name for name in names if name.endswith("instructions")} == {
        "instructions",
        f"{HPM}.instructions",
    }
    with pytest.raises(UsageError) as caught:
        board.offer.passes("nothing-like-it")
    assert str(caught.value).count("instructions") == 2
    assert board.offer.passes(f"{HPM}.instructions")[0].events == {HPM: ("instructions",)}


def test_a_formula_with_a_part_that_is_nowhere_is_not_available(board: Board) -> None:
    reasons = {metric.name: metric.reason for metric in board.metrics()}
    assert reasons["Nothing"] == "no-such: there is no counter or event no-such"
    assert reasons["Loads"] is None


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("Loads", 0.0, {LOADS, "instructions"}),  # nothing is loaded from a page that is new
        ("Same", 1.0, {f"{HPM}.instructions", "instructions"}),
    ],
)
def test_a_formula_may_name_events_with_their_collector(
    board: Board, name: str, value: float, parts: set[str]
) -> None:
    board.functions.dot()
    (row,) = board.profile("dot", metrics=name, repeat=1).calls
    assert row[name] == Ratio(value)
    assert parts <= set(row)
