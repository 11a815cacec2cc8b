# SPDX-License-Identifier: Apache-2.0
"""What a real terminal gets: tables that fit, styles unless it wants none, and a bar."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from boardprof.base.metrics import Count, Duration
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import write_report
from tests.cli.command import FIXTURES, boardprof
from tests.cli.terminal import WIDTH, on_terminal
from tests.support import requires_tool

HOSTILE = "\x1b]0;title\x07\x1b[31mred"
STYLES = re.compile("\x1b\\[[012]m")
STYLED = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    values = {f"counter-{i}": Count(10**9 + i) for i in range(6)}
    rows = [
        {"Name": name, "Duration (us)": Duration(1.5), "Device": "m3", "Count": Count(1), **values}
        for name in ("fir_q15", HOSTILE)
    ]
    file = tmp_path / "report.json"
    write_report(Report(rows, {"m3": values}, {"flags": "-O2 " * 40}), file)
    return file


def test_columns_without_room_are_below_each_other_in_style(report: Path) -> None:
    code, text = on_terminal("show", report, "--table", environment={"TERM": "xterm"})
    plain = STYLES.sub("", text)
    assert code == 0
    assert "\x1b" not in plain
    assert "\\x1b]0;title\\x07\\x1b[31mred" in plain
    assert max(map(len, plain.splitlines())) <= WIDTH
    headers = [line for line in text.splitlines() if line.startswith("\x1b[1mName ")]
    assert len(headers) > 1
    words = " ".join(headers)
    assert all(f"counter-{i}/call" in words for i in range(6))
    assert "\x1b[1mConfiguration\x1b[0m" in text


@pytest.mark.parametrize("environment", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_style_gets_none_and_the_same_columns(
    report: Path, environment: Mapping[str, str]
) -> None:
    code, text = on_terminal("show", report, "--stats", environment=environment)
    assert (code, "\x1b" in text) == (0, False)
    assert max(map(len, text.splitlines())) <= WIDTH
    lines = [line for line in text.splitlines() if re.match(r"fir_q15 +counter-5 ", line)]
    assert len(lines) > 1


def test_a_pipe_gets_the_table_as_it_is(report: Path) -> None:
    done = boardprof("show", report, environment={"TERM": "xterm", "COLUMNS": "60"})
    assert done.out == Report.from_json(report.read_text()).table() + "\n"
    assert max(map(len, done.out.splitlines())) > 200


def test_a_width_that_is_given_holds_for_a_pipe_too_and_brings_no_style(report: Path) -> None:
    done = boardprof("show", report, "--width", str(WIDTH), environment={"TERM": "xterm"})
    assert max(map(len, done.out.splitlines())) <= WIDTH
    assert "\x1b" not in done.out
    environment = {"BOARDPROF_WIDTH": str(WIDTH)}
    assert boardprof("show", report, environment=environment).out == done.out


def test_lists_go_on_under_their_items() -> None:
    code, text = on_terminal("boards", environment={"TERM": "xterm"})
    lines = text.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= WIDTH
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert names[:2] == ["arduino-mega", "arduino-uno"]
    assert {line[:18] for line in lines if line.startswith(" ")} == {" " * 18}


def test_compiling_shows_how_many_files_and_the_bar_is_gone_before_the_result(
    tmp_path: Path,
) -> None:
    source, image = tmp_path / "one.c", tmp_path / "one.elf"
    source.write_text("int one(void) { return 1; }\n")
    # However many processors compile at a time: what ends soon has no bar.
    slow, pause_s = tmp_path / "bin" / "gcc", 0.02 * (os.cpu_count() or 1)
    slow.parent.mkdir()
    gcc = requires_tool("gcc", "gcc")
    slow.write_text(f'#!/bin/sh\nsleep {pause_s:.2f}\nexec {gcc} "$@"\n')
    slow.chmod(0o755)
    environment = {
        "TERM": "xterm",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PATH": f"{slow.parent}:{os.environ['PATH']}",
    }
    arguments = ("build", "-b", "native", "-o", image, source)
    code, text = on_terminal(*arguments, environment=environment, both=True)
    assert code == 0
    counted = re.findall(r"compiling for native .*?(\d+)/(\d+)", text)
    assert counted
    assert len({total for _, total in counted}) == 1
    # The line of the bar is erased (ECMA-48, EL), and the result begins there.
    assert f"\x1b[2K{image}: firmware for native" in text


LONG_WAY = """
import itertools
from boardprof.ui.cli.output import Bar
bar = Bar(clock=itertools.count(1).__next__)
for done in range(3):
    bar("a_function_of_many_words on qemu-cortex-m4, -O3 -funroll-loops", done, 1000)
bar("", 0, None)
"""


def test_a_bar_keeps_its_counts_and_the_remaining_time_beside_a_long_name() -> None:
    command = (sys.executable, "-c", LONG_WAY)
    code, text = on_terminal(environment={"TERM": "xterm"}, both=True, program=command)
    drawn = re.findall(r"(a_func\S*)\.\.\. .*?   2/1000 \S*(\S:--|\d:\d\d)", STYLED.sub("", text))
    assert code == 0
    assert drawn


DETAIL = """
import itertools
from boardprof.ui.cli.output import Bar
bar = Bar(clock=itertools.count(1).__next__)
for done in range(4):
    bar(f"work; {done} s a call", done, 4)
"""


def test_a_detail_that_changes_does_not_begin_the_remaining_time_again() -> None:
    command = (sys.executable, "-c", DETAIL)
    code, text = on_terminal(environment={"TERM": "xterm"}, both=True, program=command)
    assert code == 0
    assert re.search(r"work; 3 s a call .*3/4 \S*\d:\d\d:\d\d", STYLED.sub("", text)), text


def test_a_bar_says_how_long_a_slow_call_takes(tmp_path: Path) -> None:
    requires_tool("gcc", "gcc")
    (tmp_path / "nap.c").write_text("#include <unistd.h>\nvoid nap(void) { usleep(150000); }\n")
    run = ("run", "-b", "native", f"{tmp_path / 'nap.c'}:nap", "--warmup", "1", "--repeat", "6")
    code, text = on_terminal(*run, environment={"TERM": "xterm"}, both=True)
    assert code == 0
    paces = re.findall(r"nap on native; (\S+) s a call", STYLED.sub("", text))
    assert paces
    assert 0.15 <= float(paces[-1]) < 1.5  # seconds; a busy machine takes longer


NOTE_BESIDE_A_BAR = """
import time
from boardprof.base.progress import show_progress
from boardprof.ui.cli.output import echo_note, progress_bar
with progress_bar():
    show_progress("work", 0, 3)
    time.sleep(0.6)
    show_progress("work", 1, 3)
    echo_note("a third is done")
    show_progress("work", 2, 3)
"""


def test_a_note_has_a_line_of_its_own_and_the_bar_goes_on_below_it() -> None:
    command = (sys.executable, "-c", NOTE_BESIDE_A_BAR)
    code, text = on_terminal(environment={"TERM": "xterm"}, both=True, program=command)
    before, note, after = text.partition("note: a third is done\n")
    assert (code, bool(note)) == (0, True)
    assert "1/3" in before
    # The line is erased after the bar was drawn for the last time (ECMA-48, EL).
    assert before.rindex("\x1b[2K") > before.rindex("1/3")
    assert "2/3" in after


def test_a_line_counts_up_while_a_slow_board_does_not_answer() -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    target = f"{FIXTURES / 'endless.c'}:b_endless"
    run = ("run", "-b", "qemu-rv32", target, "--wall-timeout", "6")
    code, text = on_terminal(*run, environment={"TERM": "xterm"}, both=True)
    assert code == 6
    waiting = r"waiting for b_endless on qemu-rv32, 6 s at most: (\d+) s"
    seconds = re.findall(waiting, STYLED.sub("", text))
    counted = [int(each) for each in seconds]
    assert counted == sorted(counted)
    assert len({*counted}) >= 3, text
    assert text.index("error: b_endless did not end within 6 s of wall time") > text.rindex("wait")
