# SPDX-License-Identifier: Apache-2.0
"""A run of one function links what this function needs; other images have all functions if they
fit.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from boardprof.base.connection import Connection
from boardprof.base.errors import BuildError
from boardprof.jobs.fleet.job import Job
from boardprof.jobs.fleet.work import built
from boardprof.jobs.run.execution import Listener, firmware_of
from boardprof.jobs.run.plan import Plan
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.elf.object_file import images, read_image, symbols
from boardprof.ui.pytest_plugin.profiler import OpenBoards, Wanted
from tests.support import requires_tool

SOURCE = """\
static char table[6000];
char large(int i) { return table[i % 6000]++; }
static int triple(int x) { return x * 3; }
int small(int x) { return triple(x) + 1; }
int twice(int x) { return 2 * x; }
int apply(int (*f)(int), int x) { return f(x); }
int (*chosen(int x))(int) { return x ? triple : twice; }
"""


def linked(
    folder: Path, target: str, *values: str, board: BoardSpec | None = None, port: str | None = None
) -> tuple[BuiltFirmware, set[str]]:
    """Return the firmware of a run, and which of the source's functions are in it."""
    (folder / "lib.c").write_text(SOURCE)
    plan = Plan(f"{folder}/lib.c:{target}", values, connection=Connection(port))
    made = firmware_of(board or board_spec("native"), plan, Listener(on_note=print))
    assert made is not None
    names = {
        symbol.name
        for image in images(made.image)
        for symbol in read_image(image, symbols)
        if symbol.is_function
    }
    return made, names & {"large", "small", "twice", "apply", "chosen"}


@pytest.mark.parametrize(
    ("target", "values", "found"),
    [
        ("small", ["x=1"], {"small"}),
        ("large", ["i=1"], {"large"}),
        ("apply", ["f=twice", "x=1"], {"apply", "twice"}),
        ("apply", ["f=triple", "x=1"], {"large", "small", "twice", "apply", "chosen"}),
        ("chosen", ["x=1"], {"chosen", "twice"}),
        ("all", [], {"large", "small", "twice", "apply", "chosen"}),
        ("nothing", [], {"large", "small", "twice", "apply", "chosen"}),
    ],
)
def test_a_run_links_what_its_function_needs(
    tmp_path: Path, target: str, values: list[str], found: set[str]
) -> None:
    assert linked(tmp_path, target, *values)[1] == found


def test_a_board_at_a_port_has_all_functions(tmp_path: Path) -> None:
    made, found = linked(tmp_path, "small", "x=1", port="/dev/null")
    assert found == {"large", "small", "twice", "apply", "chosen"}
    assert made.build_id != linked(tmp_path, "small", "x=1")[0].build_id


@pytest.mark.slow
def test_a_function_fits_a_small_board_whatever_else_is_in_its_file(tmp_path: Path) -> None:
    requires_tool("avr-gcc", "gcc-avr")
    small = board_spec("arduino-mega")
    with pytest.raises(BuildError, match="arduino-mega has 8,192"):
        linked(tmp_path, "all", board=small)
    for port in (None, "/dev/null"):
        assert linked(tmp_path, "small", "x=1", board=small, port=port)[1] == {"small"}
    file = str(tmp_path / "lib.c")
    jobs = [Job(file, "arduino-mega", name, ("x=1",)) for name in ("small", "twice")]
    assert {each.name for each in built(jobs, small.name).firmware.functions} >= {"small", "twice"}
    options: Any = SimpleNamespace(connection=Connection(), wait_s=10.0)
    with closing(OpenBoards(options)) as boards:
        wanted = Wanted(small.name, (tmp_path / "lib.c",))
        with pytest.raises(BuildError, match="arduino-mega has 8,192"), boards.board(wanted):
            pass
        with boards.board(replace(wanted, only="small")) as board:
            assert board.functions.small(2) == 7
