# SPDX-License-Identifier: Apache-2.0
"""The recorder on tasks and tail calls, instruction by instruction."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.base.files import runtime_dir
from tests.support import requires_tool

NEXT, BRANCH, CALL, _, RETURN, RESUME = range(6)

PLAN = """\
boardprof-plan 1
record {folder}/record
enter 2000
window 1000 1100
thunk 1100 1200
function 2000 2008
function 2100 2108
function 3000 3008
"""

Executed = tuple[int, int, int, int]
"""Address, flow, target, and the stack pointer before it."""

CALLED: list[Executed] = [(0x1000, CALL, 0x1100, 0x8000), (0x1100, CALL, 0x2000, 0x8000)]
LOOP: list[Executed] = [(0x2000, NEXT, 0, 0x8000), (0x2004, BRANCH, 0x2000, 0x8000)]
"""A round of the function."""
HANDLER: list[Executed] = [(0x3000, NEXT, 0, 0x8000), (0x3004, RESUME, 0, 0x8000)]
OTHER: list[Executed] = [(address, flow, target, 0x9000) for address, flow, target, _ in LOOP]
"""A round of the same function in another task."""
BACK: list[Executed] = [(0x2000, RETURN, 0, 0x8000), (0x1104, RETURN, 0, 0x8000)]


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("follower") / "follow"
    recorder = runtime_dir() / "recorder"
    source = Path(__file__).parent / "fixtures" / "hotspots" / "follow.c"
    command = [requires_tool("gcc", "gcc"), "-std=c11", "-fsanitize=address,undefined", "-O1"]
    sources = [str(source), str(recorder / "bp_recorder.c")]
    subprocess.run([*command, f"-I{recorder}", *sources, "-o", str(program)], check=True)
    return program


def followed(
    follower: Path, folder: Path, executed: list[Executed], *, has_registers: bool = True
) -> list[list[str]]:
    """Return the lines of the record, as words."""
    plan = folder / "plan"
    plan.write_text(PLAN.format(folder=folder))
    lines = "".join(" ".join(f"{word:x}" for word in each) + "\n" for each in executed)
    command = [follower, plan, "1" if has_registers else "0"]
    subprocess.run(command, input=lines, text=True, check=True, timeout=30)
    return [line.split() for line in (folder / "record").read_text().splitlines()]


def test_another_task_at_the_same_instruction_is_not_the_call(
    follower: Path, tmp_path: Path
) -> None:
    executed = [*CALLED, *LOOP, *HANDLER, *OTHER, *OTHER, *HANDLER, *LOOP, *BACK]
    record = followed(follower, tmp_path, executed)
    assert record[2] == ["state", "complete"]
    assert record[3] == ["total", "5"]  # two rounds and the return


def test_a_handler_that_returns_to_the_call_is_left_out(follower: Path, tmp_path: Path) -> None:
    executed = [*CALLED, *LOOP, *HANDLER, *LOOP, *HANDLER, *LOOP, *BACK]
    record = followed(follower, tmp_path, executed)
    assert record[2:4] == [["state", "complete"], ["total", "7"]]


def test_without_registers_a_call_that_may_be_another_task_is_incomplete(
    follower: Path, tmp_path: Path
) -> None:
    executed = [*CALLED, *LOOP, *HANDLER, *OTHER, *HANDLER, *LOOP, *BACK]
    record = followed(follower, tmp_path, executed, has_registers=False)
    assert record[2] == ["state", "incomplete", "tasks"]


def test_the_total_of_a_function_has_its_tail_calls_in_turns(
    follower: Path, tmp_path: Path
) -> None:
    """2000 and 2100 jump to each other's beginning; each has two instructions."""
    there = [(0x2000, NEXT, 0, 0x8000), (0x2004, BRANCH, 0x2100, 0x8000)]
    here = [(0x2100, NEXT, 0, 0x8000), (0x2104, BRANCH, 0x2000, 0x8000)]
    executed = [*CALLED, *there, *here, *there, *here, *there, *here, *BACK]
    record = followed(follower, tmp_path, executed)
    totals = {words[1]: words[2] for words in record if words[0] == "function"}
    assert record[3] == ["total", "13"]
    assert (totals["2000"], totals["2100"]) == ("13", "11")
