# SPDX-License-Identifier: Apache-2.0
"""What ``boardprof run`` says of boards and arguments, and what it keeps out of its output."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import boardprof


def test_a_comma_alone_names_no_board() -> None:
    done = boardprof("run", "-b", ",", "nothing.c:f")
    assert done.code == 2
    assert "-b names no board" in done.err


def test_what_a_function_prints_in_this_process_is_not_in_the_json(tmp_path: Path) -> None:
    source = tmp_path / "says.c"
    source.write_text('#include <stdio.h>\nint says(void) { return printf("hello\\n"); }\n')
    target = (f"{source}:says", "--repeat", "2", "--warmup", "0", "--json", "-")
    quiet, shown = boardprof("run", *target), boardprof("run", *target, "--console")
    assert json.loads(quiet.out)["calls"]
    assert "hello" not in quiet.err
    assert json.loads(shown.out)["calls"]
    assert "hello\n" in shown.err


def test_a_struct_is_given_by_its_members(tmp_path: Path) -> None:
    source = tmp_path / "move.c"
    source.write_text(
        "typedef struct { short x; double y; } point;\n"
        "double move(point *p, int n) { p[n].x += 2; return p[n].x + p[n].y; }\n"
    )
    target = (f"{source}:move", "--repeat", "1", "--warmup", "0")
    one = boardprof("run", *target, "p={x=3, y=0.5}", "n=0")
    assert "native returned: 5.5\n" in one.out
    three = boardprof("run", *target, "p=[3]:ones", "n=2")
    assert "native returned: 4.0\n" in three.out
    wrong = boardprof("run", *target, "p=5", "n=0")
    assert wrong.code == 2
    assert "Try: p=zeros, p=[3]:zeros for three, p='{x=..., ...}'" in wrong.err


def test_a_mistake_on_one_of_several_boards_names_it(tmp_path: Path) -> None:
    source = tmp_path / "sum.c"
    source.write_text("long sum(const long *p) { return p[0] + p[1]; }\n")
    done = boardprof(
        "run", "-b", "qemu-rv32,native", f"{source}:sum", "p=int64[2]:ones", "--repeat", "1"
    )
    assert "native returned: 2\n" in done.out
    assert "error: On qemu-rv32: p=int64[2]:ones is int64" in done.err
