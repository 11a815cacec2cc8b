# SPDX-License-Identifier: Apache-2.0
"""`boardprof hotspots`, and profiles in Reports: what is printed, written and refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from boardprof.base.metrics import Count
from boardprof.results.report.report import Report
from tests.cli.command import boardprof
from tests.support import requires_tool

SLOW = """\
#include <stdint.h>
uint32_t cells[64];
static uint32_t share(uint32_t x) { return x * 0.5; }
void halve(void) {
    for (int i = 0; i < 64; i++) {
        cells[i] = share(cells[i]);
    }
}
"""


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source, and beside it a Report with hotspots."""
    source = tmp_path_factory.mktemp("slow") / "halve.c"
    source.write_text(SLOW)
    done = boardprof(
        *("run", "-b", "qemu-rv32", f"{source}:halve", "--hotspots", "--repeat", "2"),
        *("--json", source.with_name("slow.json")),
    )
    assert done.code == 0, done.err
    assert "Function " in done.out
    return source


def test_functions_are_printed_and_the_last_line_says_that_the_sum_was_checked(slow: Path) -> None:
    done = boardprof("hotspots", "-b", "qemu-rv32", f"{slow}:halve")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    total = lines[0].removeprefix("halve on qemu-rv32: ").removesuffix(" instructions")
    assert lines[-1] == f"total checked: the board has counted the same {total} instructions"
    names = [line.split()[0] for line in lines[3:-2]]
    assert {"__muldf3", "__floatunsidf", "__fixunsdfsi", "halve"} <= {*names}


def test_a_blank_line_is_between_functions_and_one_before_a_file(tmp_path: Path) -> None:
    source = tmp_path / "two.c"
    source.write_text("int one(int n) { return n; }\nint two(int n) { return one(n) + 1; }\n")
    text = boardprof("hotspots", "-b", "qemu-rv32", f"{source}:all", "n=1", "--lines").out
    assert "\n\ntwo on qemu-rv32: " in text
    assert "\n\n\n" not in text


def test_json_has_functions_lines_and_their_sum(slow: Path) -> None:
    done = boardprof("hotspots", "-b", "qemu-rv32", f"{slow}:halve", "--json", "-")
    found = json.loads(done.out)
    assert (found["metric"], found["exact"], found["function"]) == ("instructions", True, "halve")
    assert sum(each["self"] for each in found["functions"]) == found["total"]
    assert sum(each["self"] for each in found["lines"]) == found["total"]
    assert {*found["functions"][0]} == {"name", "file", "line", "self", "total", "calls"}
    (halve,) = [each for each in found["functions"] if each["name"] == "halve"]
    assert (halve["file"], halve["line"], halve["total"]) == ("halve.c", 4, found["total"])
    report = Report.from_json(slow.with_name("slow.json").read_text())
    assert report.calls[0]["instructions"] == Count(found["total"])


def test_a_stored_report_shows_lines_and_instructions_without_the_board(slow: Path) -> None:
    report = slow.with_name("slow.json")
    lines = boardprof("show", report, "--lines").out
    assert "static uint32_t share(uint32_t x) { return x * 0.5; }" in lines
    assert "__muldf3" in boardprof("show", report, "--hotspots").out
    assert "jal" in boardprof("show", report, "--asm").out
    refused = boardprof("show", report, "--asm", "--lines")
    assert refused.code == 2


def test_profiles_of_one_function_have_their_flags_in_their_titles(tmp_path: Path) -> None:
    source, report = tmp_path / "sum.c", tmp_path / "sum.json"
    source.write_text("int sum(int n) { int s = 0; while (n) s += n-- * s; return s; }\n")
    done = boardprof(
        *("run", "-b", "qemu-rv32", f"{source}:sum", "n=64", "--sweep", "-O0|-O2"),
        *("--hotspots", "--repeat", "2", "--json", report),
    )
    assert done.code == 0, done.err
    shown = boardprof("show", report, "--hotspots").out
    for text in (done.out, shown):
        heads = [line.partition(":")[0] for line in text.splitlines() if line.startswith("sum n=")]
        assert heads == ["sum n=64, -O0 on qemu-rv32", "sum n=64, -O2 on qemu-rv32"]
    speedscope = json.loads(boardprof("export", "speedscope", report).out)
    assert [each["name"] for each in speedscope["profiles"]][:2] == [
        "sum n=64, -O0 on qemu-rv32: instructions of one call",
        "sum n=64, -O2 on qemu-rv32: instructions of one call",
    ]


def test_a_report_without_hotspots_says_how_to_get_them(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(Report([{"Name": "f", "Count": 1, "cycles": Count(3)}], {}, {}).json())
    done = boardprof("show", file, "--hotspots")
    assert done.code == 2
    assert done.err == (
        "error: The Report has no profile.\nTry: measure with: boardprof run --hotspots\n"
    )


def test_compare_says_which_function_and_line_changed(slow: Path, tmp_path: Path) -> None:
    quick = tmp_path / "halve.c"
    quick.write_text("\n" + SLOW.replace("x * 0.5", "x / 2"))
    report = tmp_path / "quick.json"
    boardprof(
        *("run", "-b", "qemu-rv32", f"{quick}:halve", "--hotspots", "--repeat", "2"),
        *("--json", report),
    )
    done = boardprof("compare", slow.with_name("slow.json"), report)
    assert done.code == 0, done.err
    assert "Where instructions of halve on qemu-rv32 changed:" in done.out
    (helper,) = [line for line in done.out.splitlines() if line.startswith("__muldf3 ")]
    assert helper.endswith("gone, 64 calls before")
    assert "halve.c:4 " in done.out  # in the newer source, one line lower
    markdown = boardprof("compare", slow.with_name("slow.json"), report, "--markdown", "-").out
    assert "| `__muldf3` | gone, 64 calls before |" in markdown


def test_core_cycles_are_called_modelled_wherever_they_are_shown(tmp_path: Path) -> None:
    requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    requires_tool("qemu-system-arm", "qemu-system-arm")
    source = tmp_path / "spin.c"
    text = """__attribute__((naked)) void spin(void) {{
    __asm__(".syntax unified\\n movs r0, #{}\\n 1: subs r0, #1\\n bne 1b\\n bx lr");
}}
"""
    reports = [tmp_path / "old.json", tmp_path / "new.json"]
    for rounds, report in zip((10, 11), reports, strict=True):
        source.write_text(text.format(rounds))
        target = ("-b", "microbit", f"{source}:spin", "--repeat", "1")
        words = ("run", *target, "--metrics", "core-cycles", "--json", report)
        done = boardprof(*words, environment={"BOARDPROF_TABLE": "0"})
        assert done.code == 0, done.err
    # 1 + n + 3 * (n - 1) + 1 + 3, with n = 11
    assert "46 [46] core-cycles (modelled)" in done.out
    how = "modelled for a Cortex-M0: the core only, at zero wait states"
    assert f"microbit core-cycles: {how}" in done.out
    done = boardprof("compare", *reports, "--fail-if", "core-cycles>0")
    assert done.code == 1
    rows = [line.split() for line in done.out.splitlines() if " core-cycles " in line]
    assert rows[0][2:8] == ["core-cycles", "42", "46", "+9.52", "%", "modelled"]
    assert "Where core-cycles of spin on microbit changed:" in done.out
    assert f"Note: core-cycles are {how}; see docs/cycles.md." in done.out
    shown = boardprof("show", reports[1], "--stats").out
    assert " modelled " in shown
    assert "modelled" in boardprof("export", "html", reports[1]).out
    source.write_text("int spin(void) { return 1; }")
    done = boardprof("run", "-b", "qemu-rv32", f"{source}:spin", "--metrics", "core-cycles")
    assert done.code == 2
    assert "qemu-rv32 does not support core-cycles: its core has no table of costs" in done.err


@pytest.mark.parametrize(
    ("board", "why"),
    [
        ("native", "native runs in this process"),
        ("nucleo-f446re", "nucleo-f446re is a real one"),
    ],
)
def test_a_board_whose_instructions_nobody_sees_is_refused(
    slow: Path, board: str, why: str
) -> None:
    for command in ("hotspots", "run"):
        more = ["--hotspots"] if command == "run" else []
        done = boardprof(command, "-b", board, f"{slow}:halve", *more)
        assert (done.code, done.out) == (2, "")
        assert why in done.err


def test_a_board_without_profiles_is_measured_beside_one_that_has_them(
    slow: Path, tmp_path: Path
) -> None:
    file = tmp_path / "two.json"
    run = ("run", "-b", "qemu-rv32,native", f"{slow}:halve", "--hotspots", "--repeat", "2")
    done = boardprof(*run, "--json", file, "--no-warnings")
    assert done.code == 0, done.err
    assert "note: native is measured without a profile: native runs in this process" in done.err
    report = Report.from_json(file.read_text())
    found = {(each.device, each.hotspots is not None) for each in report.record.measurements}
    assert found == {("qemu-rv32", True), ("native", False)}


def test_a_call_that_does_not_return_is_exit_code_6_with_what_ran(tmp_path: Path) -> None:
    source = tmp_path / "stuck.c"
    source.write_text("volatile int n;\nvoid stuck(void) { for (;;) n++; }\n")
    done = boardprof("hotspots", "-b", "qemu-rv32", f"{source}:stuck", "--timeout", "20ms")
    assert done.code == 6
    assert "incomplete: stuck did not end within 0.02 s" in done.out
    assert "total not checked: the profile is incomplete" in done.out
    assert "stuck.c:2" in done.out


def test_an_image_without_symbols_is_refused(slow: Path, tmp_path: Path) -> None:
    image = tmp_path / "fw.elf"
    built = boardprof("build", "-b", "qemu-rv32", slow, "-o", image)
    assert built.code == 0, built.err
    strip = shutil.which("riscv64-unknown-elf-strip")
    assert strip is not None
    subprocess.run([strip, str(image)], check=True, timeout=60)
    done = boardprof("hotspots", "-b", "qemu-rv32", "--image", image, "halve")
    assert (done.code, done.out) == (2, "")
    assert "has no symbols, so there is no way to tell where a call begins" in done.err


def test_without_debug_information_functions_have_their_symbols(slow: Path, tmp_path: Path) -> None:
    image = tmp_path / "fw.elf"
    boardprof("build", "-b", "qemu-rv32", slow, "-o", image)
    strip = shutil.which("riscv64-unknown-elf-strip")
    assert strip is not None
    subprocess.run([strip, "--strip-debug", str(image)], check=True, timeout=60)
    done = boardprof("hotspots", "-b", "qemu-rv32", "--image", image, "halve")
    assert done.code == 0, done.err
    assert "__muldf3" in done.out
    assert "total checked" in done.out


def test_a_port_is_for_samples_since_nothing_can_record_there(slow: Path) -> None:
    done = boardprof("hotspots", "-p", "/dev/ttyUSB0", "halve")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: Nothing can record the calls of a board at a port (-p).\n"
        "Try: add --sampled, or leave out -p: then an emulator is started\n"
    )
    done = boardprof("hotspots", "-p", "/dev/ttyUSB0", "halve", "--sampled")
    assert (done.code, done.out) == (2, "")
    assert "have no names without the firmware's ELF file" in done.err
    assert "--image ELF" in done.err


# -- samples ----------------------------------------------------------------------------------


def test_samples_are_printed_with_intervals_and_called_samples(slow: Path) -> None:
    done = boardprof(
        "hotspots", "-b", "qemu-rv32", f"{slow}:halve", "--sampled", "--samples", "300"
    )
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert re.fullmatch(r"halve on qemu-rv32: 3\d\d samples in \d+ calls", lines[0])
    assert lines[2].split("  ")[0] == "Function"
    assert "95 % interval" in lines[2]
    assert "Calls" not in lines[2]
    assert {"__muldf3", "halve"} <= {line.split()[0] for line in lines[3:] if line}
    assert lines[-1].startswith("sampled by mtime, not counted: ")


def test_json_of_samples_is_not_exact_and_has_intervals_around_the_exact_shares(slow: Path) -> None:
    exact = json.loads(boardprof("hotspots", "-b", "qemu-rv32", f"{slow}:halve", "--json", "-").out)
    done = boardprof(
        *("hotspots", "-b", "qemu-rv32", f"{slow}:halve", "--json", "-"),
        *("--sampled", "--samples", "500", "--seed", "11"),
    )
    found = json.loads(done.out)
    assert (found["metric"], found["exact"]) == ("samples", False)
    assert found["record"]["sampled"]["seed"] == 11
    shares = {each["name"]: each["self"] / exact["total"] for each in exact["functions"]}
    for each in found["functions"]:
        low, high = each["interval"]
        assert low <= each["share"] <= high
        assert abs(each["share"] - shares[each["name"]]) < 2.2 * (high - low) / 2


def test_a_sampled_profile_is_kept_compared_and_marked(slow: Path, tmp_path: Path) -> None:
    quick = tmp_path / "halve.c"
    quick.write_text(SLOW.replace("x * 0.5", "x / 2"))
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    for source, report in ((slow, before), (quick, after)):
        done = boardprof(
            *("run", "-b", "qemu-rv32", f"{source}:halve", "--hotspots", "--sampled"),
            *("--repeat", "2", "--json", report),
        )
        assert done.code == 0, done.err
        assert "sampled by mtime" in done.out
    assert "sampled by mtime" in boardprof("show", before, "--lines").out
    compared = boardprof("compare", before, after).out
    assert "Where instructions of halve on qemu-rv32 changed:" in compared
    (helper,) = [line for line in compared.splitlines() if line.startswith("__muldf3 ")]
    assert helper.split()[2] == "~0"
    assert helper.endswith("gone")
    assert "Sampled: estimates." in compared
    assert "Sampled: estimates." in boardprof("compare", before, after, "--markdown", "-").out


@pytest.mark.parametrize(
    ("command", "options", "what"),
    [
        ("hotspots", ["--samples", "5"], "--samples needs --sampled."),
        ("hotspots", ["--seed", "5"], "--seed needs --sampled."),
        ("run", ["--sampled"], "--sampled needs --hotspots."),
    ],
)
def test_options_of_samples_need_samples(
    slow: Path, command: str, options: list[str], what: str
) -> None:
    done = boardprof(command, "-b", "qemu-rv32", f"{slow}:halve", *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {what}\nTry: add --")


def test_a_board_that_takes_no_samples_names_those_that_do(slow: Path) -> None:
    done = boardprof("hotspots", "-b", "native", f"{slow}:halve", "--sampled")
    assert (done.code, done.out) == (2, "")
    assert "native cannot sample its calls: its agent has no bp.sample." in done.err
    assert "linux" in done.err


def test_show_says_that_the_source_has_changed_since(
    slow: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    report = slow.with_name("slow.json")
    Path("halve.c").write_text(SLOW)
    assert boardprof("show", report, "--lines").err == ""
    Path("halve.c").write_text(SLOW + "\n")
    done = boardprof("show", report, "--lines")
    assert done.err == (
        "note: halve.c has changed since it was measured; the lines are those of then\n"
    )
    assert "x * 0.5" in done.out
