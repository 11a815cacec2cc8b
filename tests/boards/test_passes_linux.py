# SPDX-License-Identifier: Apache-2.0
"""More events than slots on a real board: this machine's kernel, which always has its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Count
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from tests.boards.conftest import available
from tests.firmware import build

TOUCH = """
#include <sys/mman.h>
int touch(void);
int touch(void) {
    char *pages = mmap(0, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 64; i++) { ((volatile char *)pages)[i * 4096] = 1; }
    return munmap(pages, 64 * 4096);
}
"""
ELEVEN = [
    "perf.task-clock",
    "cpu-clock",
    "perf.page-faults",
    "minor-faults",
    "major-faults",
    "context-switches",
    "cs",
    "cpu-migrations",
    "migrations",
    "alignment-faults",
    "emulation-faults",
]


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    source: Path = tmp_path_factory.mktemp("touch") / "touch.c"
    source.write_text(TOUCH)
    spec = available("linux")
    with connect(spec, image=build(spec, [source]).image) as connected:
        yield connected


def test_one_event_more_than_slots_takes_a_second_pass_and_both_are_true(board: Board) -> None:
    report = board.profile("touch", metrics=["page-faults", *ELEVEN], warmup=2, repeat=3)
    assert len(report.calls) == 3
    for row in report.calls:
        assert row["page-faults"] == Count(64)  # by getrusage, in the first pass
        assert row["perf.page-faults"] == Count(64)
        assert row["minor-faults"] == Count(64)
        assert row["emulation-faults"] == Count(0)  # the eleventh, in the second
    (found,) = json.loads(report.json())["boardprof"]["measurements"]
    (second,) = found["further_passes"]
    assert second["events"] == {"perf": ["emulation-faults"]}
    assert str(report.configuration["linux passes"]).startswith("2 runs")


def test_events_that_were_selected_do_not_outlive_what_they_were_asked_for(board: Board) -> None:
    board.profile("touch", metrics=["major-faults"], warmup=0, repeat=1)
    (row,) = board.profile("touch", warmup=0, repeat=1).calls
    assert "major-faults" not in row
    assert row["page-faults"] == Count(64)


def test_an_event_that_this_machine_lacks_is_refused_with_the_reason_of_each(board: Board) -> None:
    with pytest.raises(UsageError, match=r"linux does not count no-such-event: perf: .*papi: "):
        board.profile("touch", metrics=["no-such-event"])


def test_a_misspelt_event_is_named_with_what_may_have_been_meant(board: Board) -> None:
    with pytest.raises(
        UnknownNameError, match="linux has no metric 'cycels'; did you mean 'cycles"
    ):
        board.profile("touch", metrics=["cycels"])
    with pytest.raises(UnknownNameError, match="did you mean 'page-faults'"):
        board.profile("touch", metrics=["page-fault"])


def test_what_one_collector_is_asked_for_the_others_do_not_count(board: Board) -> None:
    with pytest.raises(UsageError, match=r"^linux does not count perf\.PAPI_TOT_INS: perf: [^;]*$"):
        board.profile("touch", metrics=["perf.PAPI_TOT_INS"])


def test_a_formula_or_counter_of_another_board_is_named_with_what_there_is() -> None:
    spec = available("qemu-rv32")
    with connect(spec) as other, pytest.raises(UnknownNameError, match="did you mean 'cycles'"):
        other.offer.passes(["cycels"])
