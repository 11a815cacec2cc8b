# SPDX-License-Identifier: Apache-2.0
"""A function that takes long is called less often, unless somebody has said how often."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import boardprof as package
from boardprof.base.errors import DeviceTimeoutError
from boardprof.results.report.report import Report
from tests.cli.command import boardprof
from tests.support import requires_tool

LOOPS = """\
static unsigned calls;
unsigned loops(unsigned n) {
    for (volatile unsigned i = 0; i < n; i++) {
    }
    return ++calls;
}
"""
LONG = "n=180000000"  # 0.8 s of QEMU's, or more
SLEEPS = """\
#include <unistd.h>
static unsigned calls;
unsigned sleeps(void) {
    usleep(600000);
    return ++calls;
}
"""


@pytest.fixture
def loops(tmp_path: Path) -> str:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    (tmp_path / "loops.c").write_text(LOOPS)
    return f"{tmp_path / 'loops.c'}:loops"


@pytest.fixture
def sleeps(tmp_path: Path) -> str:
    (tmp_path / "sleeps.c").write_text(SLEEPS)
    return f"{tmp_path / 'sleeps.c'}:sleeps"


def rounds(out: str) -> tuple[str, str, str]:
    """Return warm-up calls, samples, and what the last call has returned: how many there were."""
    found = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)
    (returned,) = (value for name, value in found.items() if name.endswith(" returned"))
    return found["Warm-up"], found["Repeat"], returned


@pytest.mark.slow
def test_an_emulated_board_takes_two_samples_after_one_warm_up_call(loops: str) -> None:
    done = boardprof("run", "-b", "qemu-rv32", loops, LONG, timeout_s=120)
    assert done.code == 0
    # One to warm up, two samples, one for the stack and one for what is returned.
    assert rounds(done.out) == ("1", "2", "5")
    assert "note: loops on qemu-rv32: a call takes " in done.err
    assert (
        " s of wall time, so the run takes 2 samples after 1 warm-up call, instead of 10 after 10; "
        "--repeat and --warmup override this\n"
    ) in done.err


@pytest.mark.slow
def test_a_short_function_is_called_as_often_as_ever(loops: str) -> None:
    done = boardprof("run", "-b", "qemu-rv32", loops, "n=10")
    assert (done.code, rounds(done.out), done.err) == (0, ("10", "10", "22"), "")


def test_another_board_takes_as_many_as_a_rank_test_can_judge(sleeps: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = boardprof("run", "-b", "native", sleeps, "--json", file)
    assert (done.code, rounds(done.out)) == (0, ("1", "5", "8"))
    assert "so the run takes 5 samples after 1 warm-up call, instead of 10 after 10" in done.err
    # The smallest p of five a side: 2 of 252 arrangements.
    same = boardprof("compare", file, file)
    assert (same.code, "few samples" in same.out + same.err) == (0, False)
    assert len(json.loads(file.read_text())["calls"]) == 5


def test_the_first_call_that_is_measured_apart_tells_how_long_one_takes(sleeps: str) -> None:
    done = boardprof("run", "-b", "native", sleeps, "--cold")
    # One call more than without --cold, which is reported apart from the others.
    assert (done.code, rounds(done.out)) == (0, ("1", "5", "9"))


@pytest.mark.parametrize(
    ("options", "variables", "found", "told"),
    [
        (["--warmup", "0"], {}, ("0", "10", "12"), ""),
        ([], {"BOARDPROF_REPEAT": "1"}, ("1", "1", "4"), "takes 1 warm-up call, instead of 10; "),
    ],
)
def test_rounds_that_somebody_has_given_are_taken(
    sleeps: str,
    options: list[str],
    variables: dict[str, str],
    found: tuple[str, str, str],
    told: str,
) -> None:
    done = boardprof("run", "-b", "native", sleeps, *options, environment=variables)
    assert (done.code, rounds(done.out)) == (0, found)
    assert told in done.err
    assert done.err.count("\n") == bool(told)


def test_python_takes_what_it_says(sleeps: str) -> None:
    with package.build(sleeps.rpartition(":")[0], board="native").open() as board:
        measured = board.measure("sleeps", repeat=6, warmup=0, may_shorten=True)
        assert len(measured.samples) == 6
        assert measured.result == 8


HANGS = """\
int hangs(int n) {{
    static volatile int calls;
    if (++calls > {calls}) {{
        for (;;) {{
        }}
    }}
    return n;
}}

int works(int n) {{
    return 2 * n;
}}
"""


@pytest.mark.parametrize(("calls", "has_stack"), [(20, False), (21, True)])
def test_a_call_that_hangs_after_the_samples_keeps_them(
    calls: int, has_stack: bool, tmp_path: Path
) -> None:
    requires_tool("gcc", "gcc")
    source, file = tmp_path / "h.c", tmp_path / "report.json"
    source.write_text(HANGS.format(calls=calls))
    run = ("run", "-b", "native", f"{source}:all", "n=3", "--timeout", "0.5")
    done = boardprof(*run, "--json", str(file))
    assert done.code == 6
    names = Report.from_json(file.read_text()).calls.column("Name").filled("")
    assert [*names] == ["hangs"] * 10 + ["works"] * 10
    missing = re.search(r"(?m)^Missing: (.*)$", done.out)
    assert missing is not None
    assert missing[1].startswith("hangs did not end within 0.5 s of the board's clock")
    assert missing[1].endswith("; 10 samples from before are kept")
    unknown = "stack unknown: the call on painted stack did not end within the time limit"
    assert (unknown in done.out) == (not has_stack)


def test_python_gets_the_samples_from_before_a_call_that_hangs_with_the_error(
    tmp_path: Path,
) -> None:
    requires_tool("gcc", "gcc")
    source = tmp_path / "h.c"
    source.write_text(HANGS.format(calls=9))
    with package.build(source).open(timeout_s=0.5) as board:
        with pytest.raises(DeviceTimeoutError) as caught:
            board.measure("hangs", 3, warmup=2, repeat=7)
        assert len(caught.value.kept.passes[0].samples) == 7
        with pytest.raises(DeviceTimeoutError) as caught:
            board.measure("hangs", 3, warmup=2, repeat=7)
        assert caught.value.kept is None
