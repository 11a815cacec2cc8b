# SPDX-License-Identifier: Apache-2.0
"""How many boards a session of tests keeps open."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from boardprof.base.connection import Connection
from boardprof.ui.pytest_plugin.profiler import OpenBoards, Wanted


def test_of_many_sets_of_sources_the_four_used_last_stay_open(tmp_path: Path) -> None:
    wanted = []
    for number in range(6):
        source = tmp_path / f"f{number}.c"
        source.write_text(f"int f(void) {{ return {number}; }}\n")
        wanted.append(Wanted("native", (source,)))
    options: Any = SimpleNamespace(connection=Connection(), wait_s=10.0)
    boards = OpenBoards(options)
    opened = {}
    try:
        for each in (*wanted[:4], wanted[0], *wanted[4:]):  # the first one is used again
            with boards.board(each) as board:
                opened[each] = board
                assert board.functions.f() == wanted.index(each)
        assert [wanted.index(each) for each, b in opened.items() if b.session.is_closed] == [1, 2]
        with boards.board(wanted[1]) as board:
            assert board.functions.f() == 1
    finally:
        boards.close()
    assert all(board.session.is_closed for board in opened.values())
