# SPDX-License-Identifier: Apache-2.0
"""`boardprof run`: which functions, with which arguments and metrics, on which boards."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import FIXTURES, Outcome, boardprof, rows
from tests.link.peers import running_agent
from tests.support import ROOT, requires_tool

WORKLOADS = ROOT / "examples" / "workloads"
SCALARS = FIXTURES / "scalars.c"
FAULTY = FIXTURES / "faulty.c"


@pytest.fixture
def rv32() -> str:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    return "qemu-rv32"


def measured(tmp_path: Path, *arguments: str | Path) -> dict[str, Any]:
    """Run with --json and return the Report as plain data."""
    file = tmp_path / "report.json"
    done = boardprof("run", *arguments, "--json", file)
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def refused(done: Outcome, message: str) -> bool:
    """Tell whether the command ended as a mistake of the user's, with ``message`` and no table."""
    assert (done.code, done.out) == (2, ""), done
    return message in done.err


# -- which functions --------------------------------------------------------------------------


def test_one_function_of_a_file_is_measured_on_the_default_board() -> None:
    done = boardprof("run", WORKLOADS / "fir_q15.c:fir_q15")
    assert (done.code, done.err) == (0, "")
    assert rows(done.out) == ["fir_q15"]
    header = done.out.splitlines()[0]
    for column in ("Duration (us)", "Percent", "Device", "Count", "task-clock (us)"):
        assert column in header
    for line in ("Sum ", "Total ", "Configuration", "Repeat: 10", "Warm-up: 10", "Number: 1"):
        assert f"\n{line}" in done.out


def test_one_function_of_a_folder_is_measured_without_the_others() -> None:
    done = boardprof("run", f"{WORKLOADS}:crc32", "--repeat", "2")
    assert (done.code, rows(done.out)) == (0, ["crc32"])


def test_all_of_a_folder_are_the_functions_of_all_its_files() -> None:
    done = boardprof("run", f"{WORKLOADS}:all", "--repeat", "2", "--warmup", "1")
    assert (done.code, done.err) == (0, "")
    assert sorted(rows(done.out)) == [
        "conv2d_i8",
        "crc32",
        "depthwise_separable",
        "dot_i8",
        "fir_q15",
        "matmul_f32",
        "matmul_q15",
        "quicksort",
        "sha256",
        "state_machine",
    ]


def test_all_of_a_file_leaves_out_what_cannot_be_called_and_says_why() -> None:
    done = boardprof("run", f"{SCALARS}:all", "--repeat", "2")
    assert (done.code, rows(done.out)) == (0, ["count_calls"])
    reason = "it takes a variable number of arguments"
    assert f"note: sum_of is skipped: {reason}\n" in done.err
    assert "note: take_i8 is skipped: it takes (value: i8) -> i8; it needs value\n" in done.err


def test_all_with_arguments_takes_the_functions_that_want_just_these() -> None:
    done = boardprof("run", f"{SCALARS}:all", "value=1", "--repeat", "1", "--warmup", "0")
    # Their checks want other values. That of take_bool wants true, which 1 is.
    assert (done.code, rows(done.out)) == (6, ["take_bool"])
    assert "note: count_calls is skipped: it takes () -> u32; it has no value\n" in done.err


def test_all_measures_the_others_if_a_function_does_not_take_such_a_value(tmp_path: Path) -> None:
    (tmp_path / "four.c").write_text(
        "int aaa(const int *n) { return *n; }\n"
        "int mid(int n) { return n; }\n"
        "int small(signed char n) { return n; }\n"
        "int zzz(int n) { return n + 1; }\n"
    )
    done = boardprof("run", f"{tmp_path / 'four.c'}:all", "n=200", "--repeat", "1")
    assert (done.code, sorted(rows(done.out))) == (0, ["mid", "zzz"])
    notes = [line for line in done.err.splitlines() if "is skipped" in line]
    assert notes == [
        "note: aaa is skipped: n=200 is not an array; the parameter's type is const i32*",
        "note: small is skipped: n='200' of small is out of range: i8 is -128 to 127",
    ]


def test_a_function_that_cannot_be_called_is_refused_by_its_name() -> None:
    done = boardprof("run", f"{SCALARS}:sum_of")
    assert refused(done, "sum_of cannot be called over the wire: it takes a variable number of")


def test_an_unknown_function_is_refused_with_the_nearest_and_the_list() -> None:
    done = boardprof("run", f"{SCALARS}:take_u23")
    assert refused(done, "There is no function ")
    assert "did you mean 'take_u32'?" in done.err
    for name in ("Known: count_calls, mix, take_bool", "sum_of"):
        assert name in done.err


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (str(SCALARS), f"Try: {SCALARS}:FUNCTION or {SCALARS}:all"),
        (f"{SCALARS}:", "names no function"),
        ("", "The target is empty: give a function.\nTry: PATH:FUNCTION or PATH:all\n"),
        ("fir", "There is no function 'fir' on native."),
        ("nowhere.c:fir", "The file or folder nowhere.c does not exist."),
        (f"{FIXTURES.parent}:fir", "has no C, C++ or assembler files"),
    ],
)
def test_a_target_that_is_none_is_refused(target: str, message: str) -> None:
    assert refused(boardprof("run", target), message)


# -- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "value"),
    [
        ("take_i8", "-128"),
        ("take_i16", "-32768"),
        ("take_i32", "-2147483648"),
        ("take_i64", "-9223372036854775808"),
        ("take_u8", "0xff"),
        ("take_u64", "18446744073709551615"),
        ("take_f32", "-0.5"),
        ("take_f64", "0.1"),
        ("take_bool", "true"),
        ("take_colour", "5"),
    ],
)
def test_a_value_of_each_type_reaches_the_function(function: str, value: str) -> None:
    done = boardprof("run", f"{SCALARS}:{function}", f"value={value}", "--repeat", "1")
    assert (done.code, done.err) == (0, "")


def test_another_value_is_noticed_by_the_check() -> None:
    done = boardprof("run", f"{SCALARS}:take_i8", "value=-127", "--repeat", "1")
    assert (done.code, done.out) == (6, "")
    assert (
        "take_i8 ran, but its check function says that the result is wrong (it returned 1)"
        in done.err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["value=-129"], "value='-129' of take_i8 is out of range: i8 is -128 to 127."),
        (["value=ten"], "value='ten' of take_i8 is not an integer; the parameter's type is i8."),
        (["value=1.5"], "value='1.5' of take_i8 is not an integer"),
        (["value="], "value='' of take_i8 is not an integer"),
        ([], "take_i8 was called without value.\nTry: take_i8(value: i8) -> i8; e.g. value=64"),
        (["valeu=1"], "There is no parameter 'valeu'; did you mean 'value'? Known: value\nTry: "),
        (["valeu=i8[2]:zeros"], "There is no parameter 'valeu'; did you mean 'value'? Known: "),
        (["value=1", "value=2"], "The argument value is given twice."),
        (["5"], "'5' is not an argument.\nTry: NAME=VALUE"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused(arguments: list[str], message: str) -> None:
    assert refused(boardprof("run", f"{SCALARS}:take_i8", *arguments), message)


@pytest.mark.parametrize(
    ("argument", "message"),
    [("x=7", "There is no parameter 'x'. Known: n"), ("", "thrice was called without n.")],
)
def test_wrong_arguments_are_told_before_anything_is_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, message: str
) -> None:
    """With an empty cache the agent's 41 files and the link would come before it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "thrice.c").write_text("int thrice(int n) { return 3 * n; }\n")
    target = f"{tmp_path / 'thrice.c'}:thrice"
    assert refused(boardprof("run", "-b", "linux", target, *filter(None, [argument])), message)
    assert not (tmp_path / "boardprof" / "images").exists()


def test_an_image_that_is_none_is_told_before_anything_starts(tmp_path: Path) -> None:
    image = tmp_path / "fw.elf"
    image.write_bytes(b"# Not a program")
    message = f"{image} is not a firmware image in the ELF format.\nTry: give the linker"
    assert refused(boardprof("run", "-b", "linux", "--image", image, "fir"), message)


# -- metrics and how often --------------------------------------------------------------------


def test_metrics_that_are_named_are_the_only_ones(tmp_path: Path) -> None:
    report = measured(tmp_path, f"{WORKLOADS}:crc32", "--metrics", "task-clock")
    for measurement in report["boardprof"]["measurements"]:
        assert set(measurement["samples"][0]["raw"]) == {"task-clock"}
    assert "Duration (us)" not in report["calls"][0]
    report = measured(tmp_path, f"{WORKLOADS}:crc32", "--metrics", "Duration (us), task-clock")
    for measurement in report["boardprof"]["measurements"]:
        assert set(measurement["samples"][0]["raw"]) == {"duration_time", "task-clock"}


def test_an_unknown_metric_is_refused_with_the_nearest_and_the_list() -> None:
    done = boardprof("run", f"{WORKLOADS}:crc32", "--metrics", "task-clok")
    assert refused(done, "native has no metric 'task-clok'; did you mean 'task-clock'?")
    assert "Known: page-faults, duration_time, task-clock" in done.err


def test_a_list_of_metrics_without_one_is_refused() -> None:
    done = boardprof("run", f"{WORKLOADS}:crc32", "--metrics", ",")
    assert refused(done, "No metric is named.")


def test_an_unsupported_metric_is_refused_with_the_reason(rv32: str) -> None:
    done = boardprof("run", "-b", rv32, f"{WORKLOADS}:crc32", "--metrics", "cycles")
    assert refused(done, "qemu-rv32 does not support cycles: QEMU has no cycle model")
    assert "Try: one of instructions, ticks" in done.err


def test_more_samples_than_a_reply_holds_are_all_there(tmp_path: Path, rv32: str) -> None:
    arguments = ["--repeat", "200", "--warmup", "0", "--number", "5"]
    report = measured(tmp_path, "-b", rv32, f"{WORKLOADS}:quicksort", *arguments)
    assert len(report["calls"]) == 200
    (measurement,) = report["boardprof"]["measurements"]
    assert len(measurement["samples"]) == 200
    # A reply of this board has room for a dozen, and each brings totals of its own.
    assert len(measurement["totals"]) > 10
    assert {row["Count"]["count"] for row in report["calls"]} == {5}


def test_five_calls_in_a_sample_count_five_times_one(tmp_path: Path, rv32: str) -> None:
    one = measured(tmp_path, "-b", rv32, f"{WORKLOADS}:crc32", "--repeat", "2")
    five = measured(tmp_path, "-b", rv32, f"{WORKLOADS}:crc32", "--repeat", "2", "--number", "5")
    ones = [row["instructions"]["count"] for row in one["calls"]]
    fives = [row["instructions"]["count"] for row in five["calls"]]
    # Between two calls of a sample stands the loop of the agent: a few instructions, subtracted.
    assert fives == [5 * ones[0]] * 2
    assert five["calls"][0]["Count"] == {"count": 5}


SHORT = """
int twice(int a) { return a + a; }
void clear(int *x) { *x = 0; }
int next(void) { static int n; return ++n; }
int first(int *x) { return x[0]; }
void copy(const int *x, int *y) { *y = *x; }
"""


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        pytest.param("twice", ["a=3"], id="scalars"),
        pytest.param("first", ["x=[1]:ones"], id="may-write-and-does-not"),
        pytest.param("copy", ["x=[1]:ones", "y=[1]:out"], id="only-writes"),
    ],
)
def test_a_sample_has_more_calls_if_one_is_too_short_for_the_systems_clock(
    tmp_path: Path, function: str, arguments: list[str]
) -> None:
    (tmp_path / "short.c").write_text(SHORT)
    target = tmp_path / f"short.c:{function}"
    found = measured(tmp_path, target, *arguments)["boardprof"]["measurements"]
    [number] = {each["number"] for each in found}
    assert number in (100, 1000, 10_000)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        pytest.param("twice", ["a=3", "--number", "1"], id="asked-for"),
        pytest.param("twice", ["a=3", "--cold"], id="cold"),
        pytest.param("clear", ["x=[1]:ones"], id="changes-its-input"),
        pytest.param("copy", ["x=[1]:ones", "y=[1]:zeros"], id="changes-what-it-only-writes"),
        pytest.param("next", [], id="keeps-state"),
    ],
)
def test_a_sample_has_one_call_if_more_were_another_measurement(
    tmp_path: Path, function: str, arguments: list[str]
) -> None:
    (tmp_path / "short.c").write_text(SHORT)
    target = tmp_path / f"short.c:{function}"
    found = measured(tmp_path, target, *arguments)["boardprof"]["measurements"]
    assert {each["number"] for each in found} == {1}


def test_optimisation_is_that_of_the_users_code(tmp_path: Path, rv32: str) -> None:
    plain = measured(tmp_path, "-b", rv32, f"{WORKLOADS}:fir_q15", "-O0", "--repeat", "1")
    tuned = measured(tmp_path, "-b", rv32, f"{WORKLOADS}:fir_q15", "-O3", "--repeat", "1")
    counts = [r["calls"][0]["instructions"]["count"] for r in (plain, tuned)]
    assert counts[0] > 2 * counts[1]


# -- the file ---------------------------------------------------------------------------------


def test_the_file_is_readable_as_the_umask_says_and_replaces_what_was_there(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    done = boardprof("run", f"{SCALARS}:count_calls", "--json", link)
    assert (done.code, link.is_symlink()) == (0, True)
    assert done.err == f"Report written to {link}\n"
    assert json.loads(target.read_text())["calls"][0]["Name"] == {"string": "count_calls"}
    mask = os.umask(0)
    os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask
    assert sorted(os.listdir(tmp_path)) == ["link.json", "target.json"]


def test_a_dash_prints_the_json_in_place_of_the_table() -> None:
    done = boardprof("run", f"{SCALARS}:count_calls", "--repeat", "3", "--json", "-")
    assert (done.code, done.err) == (0, "")
    assert len(json.loads(done.out)["calls"]) == 3
    assert not Path("-").exists()


def test_a_file_in_no_folder_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    done = boardprof("run", f"{SCALARS}:count_calls", "--json", tmp_path / "none" / "report.json")
    assert refused(done, "report.json cannot be written: there is no folder")


def test_a_full_disk_loses_the_file_and_not_the_table() -> None:
    done = boardprof("run", f"{SCALARS}:count_calls", "--json", "/dev/full")
    assert (done.code, rows(done.out)) == (8, ["count_calls"])
    assert done.err == (
        "error: /dev/full cannot be written: No space left on device.\n"
        "Try: free some space, or write to another disk\n"
    )


def test_a_full_disk_loses_an_export_and_not_the_table() -> None:
    done = boardprof("run", f"{SCALARS}:count_calls", "--export", "csv=/dev/full")
    assert (done.code, rows(done.out)) == (8, ["count_calls"])
    assert done.err.startswith("error: /dev/full cannot be written: No space left on device.\n")


def test_a_full_disk_behind_an_output_is_8_and_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "return.npy").symlink_to("/dev/full")
    done = boardprof("run", f"{SCALARS}:count_calls", "--save-output", tmp_path)
    assert done.code == 8
    assert f"{tmp_path}/return.npy cannot be written: No space left on device." in done.err


@pytest.mark.parametrize("option", ["--json", "--export"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_is_no_report_file_be_it_there_or_not(
    tmp_path: Path, option: str, is_there: bool
) -> None:
    folder = tmp_path / "reports"
    if is_there:
        folder.mkdir()
    value = f"{folder}/" if option == "--json" else f"csv={folder}/"
    done = boardprof("run", f"{SCALARS}:count_calls", option, value)
    assert (done.code, done.out) == (2, "")
    assert "reports" in done.err
    assert "folder" in done.err or "is a directory" in done.err
    assert sorted(os.listdir(tmp_path)) == ["reports"] * is_there


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    done = boardprof("run", f"{SCALARS}:count_calls", "--json", pipe)
    reader.join(10)
    assert (done.code, pipe.is_fifo()) == (0, True)
    assert len(json.loads(read[0])["calls"]) == 10


# -- several boards, and what goes wrong on one of them ---------------------------------------


def test_several_boards_make_one_report_told_apart_by_device(tmp_path: Path) -> None:
    report = measured(tmp_path, "-b", "native,linux", f"{SCALARS}:count_calls", "--repeat", "3")
    devices = [row["Device"]["string"] for row in report["calls"]]
    assert devices == ["native"] * 3 + ["linux"] * 3
    assert list(report["device_metrics"]) == ["native", "linux"]


def test_a_board_that_is_named_twice_is_measured_once(tmp_path: Path) -> None:
    report = measured(tmp_path, "-b", "native", "-b", "native", f"{SCALARS}:count_calls")
    assert len(report["calls"]) == 10


def test_a_failing_check_does_not_take_the_others_rows_with_it() -> None:
    done = boardprof("run", f"{FAULTY}:all")
    assert (done.code, sorted(rows(done.out))) == (6, ["a_right", "c_right"])
    assert done.err.startswith(
        "error: b_wrong ran, but its check function says that the result is wrong"
    )
    assert "(it returned -3)" in done.err


def test_a_function_that_hangs_does_not_take_the_others_rows_with_it(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    arguments = ["--timeout", "0.5", "--json", file]
    done = boardprof("run", "-b", "linux", f"{FIXTURES / 'endless.c'}:all", *arguments)
    assert (done.code, sorted(rows(done.out))) == (6, ["a_ends", "c_ends"])
    assert "error: b_endless did not end within 0.5 s of the board's clock" in done.err
    assert len(json.loads(file.read_text())["calls"]) == 20


def test_a_board_that_is_lost_is_started_again_for_the_others(tmp_path: Path) -> None:
    (tmp_path / "lost.c").write_text(
        "#include <signal.h>\n"
        "void a_ends(void) {}\nvoid b_dies(void) { raise(SIGKILL); }\nvoid c_ends(void) {}\n"
    )
    done = boardprof("run", "-b", "linux", tmp_path / "lost.c:all")
    assert (done.code, sorted(rows(done.out))) == (6, ["a_ends", "c_ends"])
    assert "error: The board ended during b_dies: linux.elf ended by signal 9" in done.err


def test_a_board_at_a_port_that_is_lost_measures_no_others(tmp_path: Path) -> None:
    source = tmp_path / "lost.c"
    source.write_text(
        "#include <signal.h>\n"
        "void a_ends(void) {}\nvoid b_dies(void) { raise(SIGKILL); }\nvoid c_ends(void) {}\n"
    )
    with running_agent(source) as (_, port):
        done = boardprof("run", "-b", "linux", "-p", port, "all")
    assert (done.code, rows(done.out)) == (4, ["a_ends"])
    assert "note: not measured on linux: c_ends\n" in done.err


def test_a_board_without_its_compiler_does_not_take_the_others_rows(tmp_path: Path) -> None:
    for tool in ("gcc", "as", "ld"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or requires_tool(tool, "gcc"))
    bare = {"PATH": str(tmp_path)}
    arguments = ["-b", "qemu-rv32,native", f"{SCALARS}:count_calls"]
    done = boardprof("run", *arguments, environment=bare)
    assert (done.code, rows(done.out)) == (7, ["count_calls"])
    assert "error: For qemu-rv32: riscv64-unknown-elf-gcc was not found on PATH." in done.err
    assert "gcc-riscv64-unknown-elf" in done.err


# -- what a board prints ----------------------------------------------------------------------

PRINTS = """\
#include <stdio.h>
static int turns;
void prints(void) { printf("turn %d\\n", turns++); }
"""

PRINTS_FOR_EVER = """\
#include <stdint.h>
static volatile uint32_t *const uart = (volatile uint32_t *)0x40004000u; /* AN385, table 4-1 */
void prints_for_ever(void) {
    for (;;) {
        while (uart[1] & 1) {
        }
        uart[0] = '\\n';
    }
}
"""


def test_what_a_program_of_this_machine_prints_is_shown_as_the_boards(tmp_path: Path) -> None:
    file = tmp_path / "prints.c"
    file.write_text(PRINTS)
    done = boardprof(
        "run", "-b", "linux", f"{file}:prints", "--console", "--warmup", "0", "--repeat", "3"
    )
    assert done.code == 0
    # Three samples, the call whose stack is painted, and the one whose result counts.
    assert done.err == "".join(f"  | turn {number}\n" for number in range(5))
    assert "turn" not in done.out


def test_a_function_that_never_stops_printing_is_ended_by_the_board(tmp_path: Path) -> None:
    """Its output slows the emulator down by more than the board's time_scale says."""
    requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    requires_tool("qemu-system-arm", "qemu-system-arm")
    file = tmp_path / "prints.c"
    file.write_text(PRINTS_FOR_EVER)
    limits = ("--timeout", "0.4", "--wall-timeout", "90")  # a machine may need 20 s for these 0.4 s
    done = boardprof("run", "-b", "qemu-cortex-m3", f"{file}:prints_for_ever", *limits)
    assert done.code == 6
    assert "prints_for_ever did not end within 0.4 s of the board's clock" in done.err


def test_a_closed_standard_output_is_no_failure(tmp_path: Path) -> None:
    done = boardprof(
        "run",
        SCALARS.with_name("scalars.c:count_calls"),
        before=("sh", "-c", 'exec "$@" >&-', "sh"),
    )
    assert (done.code, done.out, done.err) == (0, "", "")
