# SPDX-License-Identifier: Apache-2.0
"""One function on several boards, or with several settings of flags: one table for all."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boardprof as boardprof_package
from tests.cli.command import FIXTURES, boardprof
from tests.support import ROOT, requires_tool

FIR_FILE = ROOT / "examples" / "workloads" / "fir_q15.c"
FIR = f"{FIR_FILE}:fir_q15"
SCALARS = FIXTURES / "scalars.c"
FAST = ("--repeat", "2", "--warmup", "1")


@pytest.fixture
def rv32() -> str:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    return "qemu-rv32"


@pytest.fixture
def cortex_m3() -> str:
    requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    requires_tool("qemu-system-arm", "qemu-system-arm")
    return "qemu-cortex-m3"


def table(text: str) -> list[list[str]]:
    """Return the words of each line above the first blank one."""
    return [line.split() for line in text.split("\n\n")[0].splitlines()]


def read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def test_three_boards_make_one_row_with_three_groups_of_columns(rv32: str, cortex_m3: str) -> None:
    done = boardprof("run", "-b", f"{rv32},{cortex_m3},native", FIR, *FAST)
    assert (done.code, done.err) == (0, "")
    titles, _, *rows = done.out.split("\n\n")[0].splitlines()
    assert [word for word in titles.split() if set(word) != {"-"}] == [rv32, cortex_m3, "native"]
    assert [row.split()[0] for row in rows] == ["fir_q15"]
    headers = done.out.splitlines()[1]
    # Only what has a real clock has a duration.
    assert headers.count("instructions") == 2
    assert headers.count("Duration (us)") == 1
    assert headers.count("ticks") == 2
    assert headers.index("Duration (us)") >= titles.index("native")
    for line in ("Configuration", f"{rv32} clock: simulated", "native clock: measured"):
        assert f"\n{line}" in done.out


def test_one_board_has_the_table_that_it_always_had() -> None:
    done = boardprof("run", "-b", "native", FIR, *FAST)
    assert done.out.startswith("Name ")
    assert "\n----------\nSum " in done.out
    assert "Flags" not in done.out
    assert "\nnative flags: -O2\n" in done.out


def test_a_report_of_a_build_in_python_has_its_flags_too() -> None:
    firmware = boardprof_package.build(FIR_FILE, board="native", optimize="-O1", define=["X=1"])
    with firmware.open() as board:
        report = board.profile("fir_q15", repeat=1, warmup=0)
    assert report.configuration["native flags"] == "-O1 -DX=1"
    assert not report.has_several


def test_a_sweep_has_a_row_for_each_setting_in_the_given_order(tmp_path: Path, rv32: str) -> None:
    file = tmp_path / "report.json"
    done = boardprof("run", "-b", rv32, FIR, *FAST, "--sweep", "-Os|-O0|-O3", "--json", file)
    assert done.code == 0, done.err
    titles, headers, *rows = table(done.out)
    assert titles[0] == rv32
    assert headers[:2] == ["Name", "Flags"]
    assert [row[:2] for row in rows] == [["fir_q15", f] for f in ("-Os", "-O0", "-O3")]
    assert rows[0][-1] == "1.00"
    assert float(rows[1][-1]) > 2
    report = read(file)
    flags = [m["flags"] for m in report["boardprof"]["measurements"]]
    assert flags == ["-Os", "-O0", "-O3"]
    assert len({m["build_id"] for m in report["boardprof"]["measurements"]}) == 3
    assert [row["Flags"]["string"] for row in report["calls"][::2]] == flags
    assert report["configuration"][f"{rv32} flags"]["string"].endswith(" -Os | -O0 | -O3")


def test_a_sweep_over_boards_has_rows_for_settings_and_groups_for_boards() -> None:
    done = boardprof("run", "-b", "native,linux", FIR, *FAST, "--sweep", "|-O3")
    assert (done.code, done.err) == (0, "")
    titles, _, *rows = table(done.out)
    assert [word for word in titles if set(word) != {"-"}] == ["native", "linux"]
    assert [row[:2] for row in rows] == [["fir_q15", "-O2"], ["fir_q15", "-O3"]]
    assert all(len(row) == len(rows[0]) for row in rows)


def test_settings_stand_behind_the_level_of_all() -> None:
    done = boardprof("run", FIR, *FAST, "-O1", "--sweep", "|-funroll-loops -fno-inline")
    _, _, first, second = table(done.out)
    assert first[1] == "-O1"
    assert second[1:4] == ["-O1", "-funroll-loops", "-fno-inline"]


def test_a_setting_that_does_not_compile_fails_alone() -> None:
    done = boardprof("run", FIR, *FAST, "--sweep", "-O2|-O9000 -fno-such-thing|-O3")
    assert done.code == 7
    assert [row[1] for row in table(done.out)[2:]] == ["-O2", "-O3"]
    assert "error: With -O9000 -fno-such-thing: " in done.err
    assert "-fno-such-thing" in done.err.splitlines()[1]


def test_what_is_missing_of_a_setting_ends_at_no_colon() -> None:
    done = boardprof("run", FIR, *FAST, "--sweep", "-fno-such-thing|-O3")
    (missing,) = [line for line in done.out.splitlines() if line.startswith("Missing: ")]
    assert missing.startswith("Missing: With -O2 -fno-such-thing: ")
    assert not missing.endswith(":")


def test_the_one_setting_that_is_left_still_says_which_it_is() -> None:
    done = boardprof("run", FIR, *FAST, "--sweep", "-fno-such-thing|-O3")
    assert (done.code, [row[1] for row in table(done.out)[2:]]) == (7, ["-O3"])


def test_the_first_failure_decides_the_exit_code() -> None:
    checks = f"{SCALARS}:take_i8"  # whose check wants another value: exit code 6
    done = boardprof("run", checks, "value=1", *FAST, "--sweep", "-O1|-fno-such-thing")
    assert (done.code, done.out) == (6, "")
    assert "error: With -O1: take_i8 ran, but its check function says" in done.err
    assert "error: With -O2 -fno-such-thing: " in done.err


def test_a_mistake_of_the_user_is_told_once_and_not_for_each_setting() -> None:
    done = boardprof("run", f"{SCALARS}:take_u23", "--sweep", "-O1|-O2")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("There is no function") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([FIR, "--sweep", ""], "The sweep has no settings."),
        ([FIR, "--sweep", "-O3|-Os|-O3"], "The sweep has -O3 twice."),
        ([FIR, "--sweep", "O2|O3"], "'O2' in the sweep is not a compiler flag."),
        (["fir_q15", "--sweep", "-O2|-O3"], "--sweep compiles the functions, so it needs a PATH."),
        (
            [FIR, "-b", "arduino-uno", "-p", "/dev/ttyNONE7", "--sweep", "-O2|-O3"],
            "Each setting of --sweep needs its own firmware",
        ),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(arguments: list[str], message: str) -> None:
    done = boardprof("run", *arguments)
    assert (done.code, done.out) == (2, "")
    assert f"error: {message}" in done.err


def test_a_sweep_over_compiled_code_alone_is_refused(tmp_path: Path) -> None:
    made = tmp_path / "fir.o"
    subprocess.run(["gcc", "-g", "-c", FIR_FILE, "-o", made], check=True, timeout=60)
    done = boardprof("run", f"{made}:fir_q15", *FAST, "--sweep", "-O0|-O3")
    assert (done.code, done.out) == (2, "")
    assert f"error: --sweep compiles the functions, but {made}:fir_q15 has only" in done.err


def test_show_prints_the_same_table_and_the_other_one_when_asked(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    ran = boardprof("run", "-b", "native,linux", FIR, *FAST, "--json", file)
    shown = boardprof("show", file)
    assert (shown.code, shown.out) == (0, ran.out)
    assert boardprof("show", file, "--by-board").out == ran.out
    plain = boardprof("show", file, "--one-column").out
    assert plain.startswith("Name ")
    assert "\n----------\nSum " in plain
    refused = boardprof("show", file, "--by-board", "--samples")
    assert (refused.code, refused.out) == (2, "")


def test_a_trap_names_its_board_where_there_are_several(tmp_path: Path) -> None:
    source = tmp_path / "trap.c"
    source.write_text("int get(const int *p, int n) { return p == 0 ? *(volatile int *)8 : n; }\n")
    done = boardprof("run", "-b", "native,linux", f"{source}:all", "p=NULL", "n=1", *FAST)
    assert (done.code, done.out) == (6, "")
    lines = [line for line in done.err.splitlines() if "trapped" in line]
    assert [line.partition("get trapped")[0] for line in lines] == [
        "error: On native: ",
        "error: On linux: ",
    ]


def test_a_trap_in_a_sweep_names_board_and_setting(tmp_path: Path) -> None:
    source = tmp_path / "trap.c"
    source.write_text("int get(void) { return *(volatile int *)8; }\n")
    sweep = ("--sweep", "-O1|-O2")
    done = boardprof("run", "-b", "native,linux", f"{source}:get", *FAST, *sweep)
    starts = [li.partition("get trapped")[0] for li in done.err.splitlines() if "trapped" in li]
    assert starts == [
        "error: On native, with -O1: ",
        "error: On native, with -O2: ",
        "error: On linux, with -O1: ",
        "error: On linux, with -O2: ",
    ]


def test_a_trap_on_the_only_board_names_none(tmp_path: Path) -> None:
    source = tmp_path / "trap.c"
    source.write_text("int get(void) { return *(volatile int *)8; }\n")
    done = boardprof("run", f"{source}:get", *FAST)
    assert done.err.startswith("error: get trapped on the board: bad address")


def test_each_board_can_have_a_file_of_its_own_of_what_is_expected(tmp_path: Path) -> None:
    arrays = ("x=int16[8]:ones", "h=int16[2]:ones", "y=int32[8]:out", "n=8")
    fir = ("run", "-q", f"{FIXTURES / 'kernels.c'}:fir", *arrays, *FAST, "-b", "native,linux")
    gold = tmp_path / "gold"
    assert boardprof(*fir, "--save-output", gold).code == 0
    expect = ("--expect", f"y=@{gold}/{{board}}/y.npy")
    assert boardprof(*fir, *expect).code == 0
    file = gold / "linux" / "y.npy"
    np.save(file, np.load(file) + 1)
    done = boardprof(*fir, *expect)
    assert done.code == 6
    assert f"y of fir on linux differs from {file}: 8 of 8 values." in done.err
    assert "on native" not in done.err
    file.unlink()
    missing = boardprof(*fir, *expect)
    assert (missing.code, missing.out) == (2, "")
    assert f"{file} cannot be read" in missing.err
    nameless = boardprof("run", "fir", *arrays, "-p", "/dev/ttyNONE7", *expect)
    assert nameless.code == 2
    assert "needs the name of the board.\nTry: -b BOARD" in nameless.err
