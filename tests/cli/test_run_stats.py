# SPDX-License-Identifier: Apache-2.0
"""Statistics and warnings where the user looks: `run --stats`, `show --stats`."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.metrics import Duration
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import write_report
from boardprof.ui.cli import main
from tests.cli.command import FIXTURES, boardprof, rows
from tests.support import requires_tool
from tests.unit.reports import HARDWARE, report_of

FAULTY = FIXTURES / "faulty.c"
TOLD = {"BOARDPROF_WARNINGS": "yes"}
RISES = [Duration(100.0 + i) for i in range(15)]


def statistics(text: str) -> list[str]:
    """Return the words of the first line of the statistics, which stand below the table."""
    return text.split("\n\nName ")[1].splitlines()[0].split()


def test_run_prints_statistics_below_the_table_with_the_cold_call_apart() -> None:
    done = boardprof("run", "-b", "native", f"{FAULTY}:a_right", "--cold", "--stats")
    assert (done.code, done.err) == (0, "")
    assert rows(done.out) == ["a_right"]
    assert statistics(done.out)[:6] == ["Device", "Metric", "n", "Min", "Median", "Mean"]
    assert "Cold" in statistics(done.out)
    assert "\nCold: the very first call. The other columns do not include it.\n" in done.out


def test_nothing_is_said_against_exact_counts_however_few() -> None:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    fast = ("--warmup", "0", "--repeat", "2", "--stats")
    done = boardprof("run", "-b", "qemu-rv32", f"{FAULTY}:a_right", *fast, environment=TOLD)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    [line] = [
        line for line in lines if line.split()[:3] == ["a_right", "qemu-rv32", "instructions"]
    ]
    assert "exact" in line.split()


def test_run_tells_what_stands_against_the_samples_and_what_to_do() -> None:
    few = ("run", "-b", "native", f"{FAULTY}:a_right", "--repeat", "2")
    done = boardprof(*few, environment=TOLD)
    assert done.code == 0
    first = done.err.splitlines()[0]
    assert first.startswith("warning: Time of a_right on native: 2 samples are too few:")
    assert first.endswith("Take at least 10: --repeat 10.")


@pytest.fixture
def drifting(tmp_path: Path) -> Path:
    file = tmp_path / "report.json"
    write_report(report_of({"Duration (us)": RISES}, facts=HARDWARE, name="a\x1b[31mb"), file)
    return file


def test_show_prints_statistics_in_place_of_the_table_and_warns(
    drifting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(drifting), "--stats", "--warnings"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Name ")
    assert "Configuration" not in out
    assert err.startswith(
        "warning: Time of a\\x1b[31mb on board: the samples rise over the run, from"
    )
    assert err.count("\n") == 1


def test_what_helps_against_several_warnings_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [report_of({"Duration (us)": RISES}, facts=HARDWARE, name=name) for name in "ab"]
    file = tmp_path / "report.json"
    write_report(Report([*both[0].calls, *both[1].calls], {}, {}, both[0].extra), str(file))
    assert main(["show", str(file), "--warnings"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: Time of a on board: the samples rise over the run, from")
    assert " did not stay in one state. 1 more like it: b. Warm up longer: --warmup 100." in line


def test_quiet_is_without_warnings(
    drifting: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boardprof.ui.cli.output._quiet", False)  # and back to what it was
    assert main(["show", str(drifting), "--warnings", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_show_warns_below_a_table_and_not_of_data_for_programs(
    drifting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(drifting), "--warnings"]) == 0
    assert "warning: " in capsys.readouterr().err
    for form in ("--json", "--csv"):
        assert main(["show", str(drifting), form, "--warnings"]) == 0
        assert capsys.readouterr().err == ""
