# SPDX-License-Identifier: Apache-2.0
"""The plugin in a pytest of its own, on real boards."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from boardprof.base.metrics import Count
from boardprof.measure.connect import build
from boardprof.results.history.run import GitState
from boardprof.results.history.store import History
from boardprof.results.report.calls import Row
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import write_report
from tests.pytest_plugin.suite import SQUARE, Suite
from tests.support import requires_tool

SQUARED = """\
def test_square(boardprof):
    square = boardprof("square.c:square", 12)
    assert square.result == 144
    assert square["Duration (us)"].n == 10
"""
ON_RISCV = """\
import pytest

@pytest.mark.board("qemu-rv32")
@pytest.mark.boardprof(fail_if=["instructions:max>0"], warmup=0, repeat=3)
def test_square(boardprof):
    square = boardprof("square.c:square", 12)
    assert square["instructions"].maximum == square["instructions"].minimum
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


@pytest.fixture
def on_riscv(suite: Suite) -> Suite:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    suite.write("test_square.py", ON_RISCV)
    return suite


MANY = """\
import os
from pathlib import Path

import pytest

def agents():
    own = f"PPid:\\t{os.getpid()}\\n"
    every = [each for each in Path("/proc").glob("[0-9]*/status")]
    return sum(own in each.read_text() for each in every if each.exists())

def case(number):
    mark = pytest.mark.board("linux", "square.c", cflags=f"-DNUMBER={number}")
    return pytest.param(number, marks=mark)

@pytest.mark.parametrize("number", map(case, [0, 1, 2, 3, 0, 4, 5, 0]))
def test_square(number, board):
    assert board.functions.square(12) == 144
    with open("agents", "a") as file:
        print(agents(), board.device.port, file=file)
"""


def test_a_bounded_number_of_boards_keeps_running(suite: Suite) -> None:
    suite.write("test_many.py", MANY)
    ran = suite.run()
    assert ran.code == 0, ran.out
    found = [line.split() for line in (suite.folder / "agents").read_text().splitlines()]
    assert [count for count, _ in found] == ["1", "2", "3", *["4"] * 5]
    first = found[0][1]  # lent often enough to be kept
    assert [number for number, (_, port) in enumerate(found) if port == first] == [0, 4, 7]


def test_a_function_is_measured_on_the_default_board(suite: Suite) -> None:
    suite.write("test_square.py", SQUARED)
    ran = suite.run("--bp-json", "report.json", "--junit-xml", "junit.xml")
    assert ran.code == 0, ran.out
    assert re.search(r"^-+ boardprof -+$|^=+ boardprof =+$", ran.out, re.MULTILINE)
    assert re.search(r"^square.* on native: .* [un]s ", ran.out, re.MULTILINE)
    report = json.loads((suite.folder / "report.json").read_text())
    assert [row["Name"] for row in report["calls"]] == [{"string": "square"}] * 10
    names = {each.get("name") for each in ElementTree.parse(suite.folder / "junit.xml").iter()}
    assert "boardprof.square.Duration (us).median" in names


def test_a_test_that_measures_nothing_sees_nothing_of_the_plugin(suite: Suite) -> None:
    suite.write(
        "test_plain.py",
        "import sys\n"
        "from boardprof.base.errors import BoardError\n"
        "def test_plain():\n    assert 'numpy' not in sys.modules\n"
        "def test_of_its_own():\n    raise BoardError('it is no skip')\n",
    )
    ran = suite.run(is_new=True)
    assert (ran.code, "1 failed, 1 passed" in ran.out) == (1, True), ran.out
    assert "boardprof ---" not in ran.out
    assert not (suite.folder / "history.sqlite").exists()


def test_a_limit_fails_the_test_with_the_numbers(suite: Suite) -> None:
    suite.write(
        "test_square.py",
        "import pytest\n"
        "@pytest.mark.boardprof(limit={'Duration (us)': -1.0})\n"
        "def test_square(boardprof):\n"
        "    boardprof('square.c:square', 12)\n",
    )
    ran = suite.run()
    assert ran.code == 1
    assert re.search(
        r"square on native: Duration \(us\) is \S+ per call \(median of 10\), above its limit of "
        r"-1",
        ran.out,
    )
    assert "1 failed" in ran.out


def test_a_limit_fails_a_test_of_unittest_too(suite: Suite) -> None:
    suite.write(
        "test_square.py",
        "import unittest\n"
        "import pytest\n"
        "class TestSquare(unittest.TestCase):\n"
        "    @pytest.fixture(autouse=True)\n"
        "    def profiler(self, boardprof):\n"
        "        self.measure = boardprof\n"
        "    @pytest.mark.boardprof(limit={'Duration (us)': -1.0})\n"
        "    def test_square(self):\n"
        "        self.measure('square.c:square', 12)\n",
    )
    ran = suite.run()
    assert ran.code == 1, ran.out
    assert "above its limit of -1" in ran.out


def test_a_limit_on_what_nobody_counts_is_an_error_that_says_what_there_is(suite: Suite) -> None:
    suite.write(
        "test_square.py",
        "import pytest\n"
        "@pytest.mark.boardprof(limit={'duration_tme': 5})\n"
        "def test_square(boardprof):\n"
        "    boardprof('square.c:square', 12)\n",
    )
    ran = suite.run()
    assert ran.code == 1
    assert "There is no metric 'duration_tme'" in ran.out


@pytest.mark.board("qemu-rv32")
def test_one_more_instruction_fails_and_the_same_build_does_not(on_riscv: Suite) -> None:
    before = on_riscv.run("--bp-save", "main")
    assert before.code == 0, before.out
    again = on_riscv.run("--bp-compare", "main")
    assert again.code == 0, again.out
    on_riscv.write(
        "square.c",
        "unsigned square(unsigned x);\n"
        'unsigned square(unsigned x) {\n    __asm__ volatile("nop");\n    return x * x;\n}\n',
    )
    after = on_riscv.run("--bp-compare", "main")
    assert after.code == 1, after.out
    assert " (instructions:max>0)" in after.out
    assert "1 failed" in after.out


@pytest.mark.board("qemu-rv32")
def test_a_limit_in_spreads_comes_from_the_runs_of_a_branch(on_riscv: Suite) -> None:
    on_riscv.write("test_square.py", ON_RISCV.replace("instructions:max>0", "instructions>4spread"))
    assert on_riscv.run().code == 0
    history = History(on_riscv.folder / "history.sqlite")
    measured = history.find("last")
    for number in range(5):
        history.save(measured, git=GitState(f"{number}" * 40, "main", is_dirty=False))
    again = on_riscv.run("--bp-compare", "branch:main", "--bp-require-baseline")
    assert again.code == 0, again.out
    on_riscv.write(
        "square.c",
        "unsigned square(unsigned x);\n"
        'unsigned square(unsigned x) {\n    __asm__ volatile("nop");\n    return x * x;\n}\n',
    )
    after = on_riscv.run("--bp-compare", "branch:main")
    assert (after.code, "(instructions>4spread)" in after.out) == (1, True), after.out
    history.remove("branch:main~4")
    few = on_riscv.run("--bp-compare", "branch:main", "--bp-require-baseline")
    assert (few.code, "a spread needs 5 earlier runs" in few.out) == (1, True), few.out


@pytest.mark.board("qemu-rv32")
def test_tests_that_build_one_function_with_other_flags_have_each_their_own_baseline(
    on_riscv: Suite,
) -> None:
    on_riscv.write(
        "test_square.py",
        f"{ON_RISCV}"
        "@pytest.mark.board('qemu-rv32')\n"
        "@pytest.mark.boardprof(fail_if=['instructions:max>0'], repeat=3)\n"
        "def test_unoptimized(boardprof):\n"
        "    boardprof('square.c:square', 12, optimize='-O0')\n",
    )
    assert on_riscv.run("--bp-save", "main").code == 0
    again = on_riscv.run("--bp-compare", "main", "--bp-require-baseline")
    assert again.code == 0, again.out
    on_riscv.write(
        "square.c",
        "int square(int x);\nint square(int x) {\n#ifndef __OPTIMIZE__\n"
        '    __asm__ volatile("nop");\n#endif\n    return x * x;\n}\n',
    )
    after = on_riscv.run("--bp-compare", "main")
    assert after.code == 1, after.out
    assert "1 failed, 1 passed" in after.out  # only without optimization is it slower
    told = r"\nregression: (\+[\d.]+ %) instructions, (\d+) to (\d+) \(instructions:max>0\)\n"
    found = re.search(told, after.out)
    assert found is not None, after.out
    assert int(found[3]) == int(found[2]) + 1
    assert f"FAILED test_square.py::test_unoptimized - Failed: regression: {found[1]}" in after.out


@pytest.mark.board("qemu-rv32")
def test_a_new_test_beside_one_that_is_compared_is_a_notice(on_riscv: Suite) -> None:
    assert on_riscv.run("--bp-save", "main").code == 0
    on_riscv.write("cube.c", "int cube(int x);\nint cube(int x) { return x * x * x; }\n")
    on_riscv.write("test_cube.py", ON_RISCV.replace("square.c:square", "cube.c:cube"))
    ran = on_riscv.run("--bp-compare", "main")
    assert ran.code == 0, ran.out
    who = "test_cube.py::test_square"
    assert f"note: {who}: #1 (saved as main) has no matching run of cube by this test" in ran.out
    assert "note: 1 of 2 not compared: they are missing from #1 (saved as main)" in ran.out


def test_a_rule_on_what_the_board_does_not_count_fails_without_a_baseline_too(
    suite: Suite,
) -> None:
    suite.write(
        "test_square.py",
        "import pytest\n"
        "@pytest.mark.boardprof(fail_if=['squares:max>0'])\n"
        "def test_square(boardprof):\n"
        "    boardprof('square.c:square', 12)\n",
    )
    ran = suite.run()
    assert ran.code == 1
    assert (
        "the rule squares:max>0 cannot be checked, because its metric was not counted: native has "
        "no" in (ran.out)
    )


def test_what_the_baseline_lacks_fails_where_that_is_asked_for(suite: Suite) -> None:
    suite.write("test_square.py", SQUARED)
    assert suite.run("--bp-json", "old.json").code == 0
    suite.write("test_square.py", SQUARED.replace("12)", "13)").replace("144", "169"))
    ran = suite.run("--bp-compare", "old.json", "--bp-require-baseline")
    assert ran.code == 1, ran.out
    assert "old.json has no matching run of square by this test (--bp-require-baseline)" in ran.out


def test_a_run_of_the_command_line_is_a_baseline_too(suite: Suite) -> None:
    suite.write("test_square.py", SQUARED)
    with build(suite.folder / "square.c", board="native").open() as board:
        write_report(board.profile("square", 12), str(suite.folder / "old.json"))
    ran = suite.run("--bp-compare", "old.json", "--bp-require-baseline")
    assert ran.code == 0, ran.out


def test_a_mistake_is_told_in_a_few_lines_with_the_line_of_the_test(suite: Suite) -> None:
    suite.write(
        "test_square.py",
        "import pytest\n"
        "def test_call(boardprof):\n"
        "    boardprof('square.c:cube', 12)  # mine\n"
        "@pytest.mark.board('native', 'square.c')\n"
        "def test_board(board):\n"
        "    board.functions.cube(12)  # mine\n"
        "@pytest.mark.board('nativ')\n"
        "def test_fixture(board):\n    pass\n"
        "@pytest.mark.boardprof(repat=3)\n"
        "def test_marker(boardprof):\n    pass\n",
    )
    ran = suite.run()
    assert "2 failed, 2 errors" in ran.out, ran.out
    assert ran.out.count("# mine") == 2
    for message in ("function 'cube'", "board 'nativ'", "argument of the marker boardprof 'repat'"):
        assert message in ran.out
    assert "/host/boardprof/" not in ran.out, ran.out
    assert "During handling" not in ran.out
    assert len(ran.out.splitlines()) < 70, ran.out
    assert "/host/boardprof/" in suite.run("--full-trace", "-k", "call").out


def test_a_report_that_cannot_be_written_is_no_success(suite: Suite) -> None:
    suite.write("test_square.py", SQUARED)
    ran = suite.run("--bp-json", "/dev/full")
    assert ran.code == 1
    assert "1 passed" in ran.out
    assert re.search(r"^ERROR: /dev/full .*space", ran.out, re.MULTILINE), ran.out


def test_each_board_that_is_named_runs_the_test(suite: Suite) -> None:
    suite.write("test_square.py", SQUARED)
    ran = suite.run("--bp-board", "native,linux", "-v", "--bp-json", "report.json")
    assert ran.code == 0, ran.out
    assert "test_square[native] PASSED" in ran.out
    assert "test_square[linux] PASSED" in ran.out
    report = json.loads((suite.folder / "report.json").read_text())
    labels = {(row["Device"]["string"], row["Label"]["string"]) for row in report["calls"]}
    test = "test_square.py::test_square"  # without its board, so that boards can be compared
    assert labels == {("native", test), ("linux", test)}


def test_the_board_itself_is_a_fixture(suite: Suite) -> None:
    suite.write(
        "test_square.py",
        "import pytest\n"
        "@pytest.mark.board('native', 'square.c', optimize='-O0')\n"
        "def test_square(board):\n"
        "    assert board.functions.square(12) == 144\n",
    )
    ran = suite.run()
    assert ran.code == 0, ran.out


def test_a_board_that_cannot_be_had_skips_with_the_reason_or_fails(suite: Suite) -> None:
    suite.write("test_square.py", SQUARED)
    ran = suite.run("--bp-port", "/dev/ttyNothing")
    assert ran.code == 0
    assert "SKIPPED" in ran.out
    assert "Port /dev/ttyNothing does not exist" in ran.out
    assert suite.run("--bp-port", "/dev/ttyNothing", "--bp-require-board").code == 1


def test_a_board_that_runs_another_build_fails_the_test(suite: Suite) -> None:
    suite.write("test_square.py", SQUARED)
    image = build(suite.write("other.c", "int other(int a) { return a; }"), board="linux").image
    with subprocess.Popen([image], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        port = agent.stdout.readline().split()[-1]
        ran = suite.run("--bp-board", "linux", "--bp-port", port)
        agent.kill()
    assert ran.code == 1
    assert f"BuildMismatchError: The board at socket://{port} runs build " in ran.out
    assert "; these sources produce build " in ran.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bp-fail-if", "cycles>1%"], "needs something to compare with"),
        (["--bp-fail-if", "cycles:medan>1%", "--bp-compare", "x"], "medan"),
        (["--bp-compare", "nowhere"], "'nowhere'"),
        (["--bp-compare", "nowhere.json"], "nowhere.json"),
        (["--bp-allow", "foo"], "There is no mismatch 'foo'"),
        (["--bp-wait", "nan"], "--bp-wait nan is not a number of seconds"),
        (["--bp-timeout", "-1"], "timeout is -1; it must be above 0 and at most 1,000,000"),
        (["--bp-timeout", "0"], "timeout is 0; it must be above 0"),
        (["--bp-timeout", "nan"], "timeout is nan; it must be above 0"),
        (["--bp-timeout", "soon"], "timeout is 'soon', which is not a number"),
        (["--bp-wall-timeout", "0"], "wall-timeout is 0; it must be above 0"),
        (["--bp-require-baseline"], "needs something to compare with"),
        (["--bp-board", "native,nativ"], "There is no board 'nativ'; did you mean 'native'?"),
        (["--bp-json", "nowhere/report.json"], "/nowhere/report.json cannot be written"),
        (["--bp-save", "last~1"], "'last~1' cannot be the name of a run"),
        (
            ["--bp-compare", "old.json", "--bp-fail-if", "foo>1"],
            "old.json has no metric 'foo'. Known: loads",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_told_before_any_test(
    suite: Suite, options: list[str], message: str
) -> None:
    suite.write("test_square.py", SQUARED)
    row: Row = {"Name": "iir", "Device": "native", "loads": Count(5), "Count": Count(1)}
    suite.write("old.json", Report([row], {}, {}).json())
    ran = suite.run(*options)
    assert ran.code == 4, ran.out
    assert message in ran.out
    assert "Traceback" not in ran.out
    assert "passed" not in ran.out


def test_a_setting_that_is_no_name_of_a_board_is_told_before_any_test(suite: Suite) -> None:
    suite.write("boardprof.toml", "board = 5\n")
    ran = suite.run()
    assert ran.code == 4
    assert "board is 5, which is not a board name" in ran.out


def test_a_call_that_does_not_end_fails_its_test_in_the_time_that_is_given(suite: Suite) -> None:
    suite.write("square.c", f"{SQUARE}void hang(void);\nvoid hang(void) {{ for (;;) {{ }} }}\n")
    suite.write(
        "test_square.py", SQUARED + "def test_hang(boardprof):\n    boardprof('square.c:hang')\n"
    )
    ran = suite.run("--bp-timeout", "0.2")
    assert "1 failed, 1 passed" in ran.out, ran.out
    assert "hang did not end within 0.2 s" in ran.out
    assert "Try: if hang is only slow, give --bp-timeout 2" in ran.out
    for name in ("timeout", "wall-timeout"):
        variable = f"BOARDPROF_{name.upper().replace('-', '_')}"
        broken = suite.run(environment={variable: "soon"})
        assert (broken.code, f"{name} is 'soon', which is not a number" in broken.out) == (4, True)


@pytest.mark.slow
def test_an_emulator_that_was_ended_in_a_hang_is_started_again_for_the_next_test(
    suite: Suite,
) -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    suite.write("square.c", f"void hang(void);\nvoid hang(void) {{ for (;;) {{ }} }}\n{SQUARE}")
    suite.write(
        "test_square.py",
        "def test_a_hang(boardprof):\n    boardprof('square.c:hang')\n\n"
        "def test_square(boardprof):\n    boardprof('square.c:square', 12)\n",
    )
    ran = suite.run("--bp-board", "qemu-rv32", "--bp-wall-timeout", "2")
    assert "1 failed, 1 passed" in ran.out, ran.out
    assert "hang did not end within 2 s of wall time" in ran.out
    assert "Try: if hang is only slow, give --bp-wall-timeout 20" in ran.out


def test_a_projects_file_names_the_board(suite: Suite) -> None:
    suite.write("pyproject.toml", '[tool.boardprof]\nboard = "linux"\n')
    suite.write("test_square.py", SQUARED)
    ran = suite.run()
    assert ran.code == 0, ran.out
    assert re.search(r"^square.* on linux: .* [un]s ", ran.out, re.MULTILINE)


def test_two_workers_never_measure_on_one_board_at_once(suite: Suite) -> None:
    suite.write(
        "test_many.py",
        "import time, pytest, pathlib\n"
        "@pytest.mark.parametrize('turn', range(6))\n"
        "@pytest.mark.board('native', 'square.c')\n"
        "def test_turn(board, turn, tmp_path_factory):\n"
        "    began = time.monotonic()\n"
        "    assert board.functions.square(turn) == turn * turn\n"
        "    time.sleep(0.1)\n"
        "    name = pathlib.Path(__file__).with_name(f'turn{turn}.txt')\n"
        "    name.write_text(f'{began} {time.monotonic()}')\n",
    )
    ran = suite.run("-n", "2", "--dist", "load")
    assert ran.code == 0, ran.out
    files = sorted(suite.folder.glob("turn*.txt"))
    assert len(files) == 6
    spans = sorted(tuple(map(float, file.read_text().split())) for file in files)
    for (_, end), (begin, _) in itertools.pairwise(spans):
        assert end <= begin


def test_what_a_worker_had_measured_that_died_is_said_to_be_missing(suite: Suite) -> None:
    suite.write("test_one.py", SQUARED)
    suite.write(
        "test_two.py",
        "import os\n" + SQUARED + "def test_death():\n    os._exit(7)\n",
    )
    # xdist gives a test that kills its worker to eight more.
    ran = suite.run("-n", "2", "--dist", "loadfile", "--max-worker-restart", "0")
    assert ran.code == 1, ran.out
    assert re.search("note: worker gw[01] died: its measurements are missing", ran.out), ran.out


def test_what_workers_have_measured_is_one_report(suite: Suite) -> None:
    suite.write("test_one.py", SQUARED)
    suite.write("test_two.py", SQUARED.replace("12", "13").replace("144", "169"))
    ran = suite.run("-n", "2", "--bp-json", "report.json")
    assert ran.code == 0, ran.out
    report = json.loads((suite.folder / "report.json").read_text())
    arguments = {row["Argument Shapes"]["string"] for row in report["calls"]}
    assert arguments == {"x=12", "x=13"}
    assert len(report["calls"]) == 20
