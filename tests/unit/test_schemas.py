# SPDX-License-Identifier: Apache-2.0
"""Layouts of a board's own schema.py beside those that are known without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.wire.decode.schemas import layouts_for

SCHEMA = """\
from dataclasses import replace
from boardprof_protocol.collectors import cycles32
from boardprof_protocol.layout import Counter
LAYOUTS = [replace(cycles32.LAYOUT, {})]
"""


def board(folder: Path, change: str) -> Path:
    (folder / "schema.py").write_text(SCHEMA.format(change))
    return folder


def test_a_board_may_say_what_a_return_takes_on_its_core(tmp_path: Path) -> None:
    more = 'counters=(Counter("cycles", "start", "stop", own_return=2),)'
    assert layouts_for(board(tmp_path, more))[2].counters[0].own_return == 2
    assert layouts_for(tmp_path.parent)[2].counters[0].own_return == 0


@pytest.mark.parametrize(
    "change", ["version=2", 'name="other"', 'counters=(Counter("clocks", "start", "stop"),)']
)
def test_a_board_may_not_change_a_known_blob(tmp_path: Path, change: str) -> None:
    with pytest.raises(UsageError, match="Schema id 2 is claimed by cycles32"):
        layouts_for(board(tmp_path, change))


def test_a_bound_is_another_counter_of_the_layout(tmp_path: Path) -> None:
    wrong = 'counters=(Counter("cycles", "start", "stop", bound="cycles"),)'
    with pytest.raises(UsageError, match="cycles is bounded by 'cycles'"):
        layouts_for(board(tmp_path, wrong))
