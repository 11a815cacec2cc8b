# SPDX-License-Identifier: Apache-2.0
"""``boardprof compare``: two runs of one build are the same, one more instruction is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest

from boardprof.measure.connect import build
from boardprof.results.history.store import History
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import write_report
from boardprof.results.row_origins import places_of
from boardprof.ui.cli import main
from tests.cli.command import Outcome, boardprof
from tests.support import requires_tool
from tests.unit.reports import report_of

LOOP = "int f(int n) {{ int s = 0; for (int i = 0; i < n; i++) s += i * i; {} return s; }}\n"
NOP = '__asm__ volatile("nop");'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two runs of one build on a deterministic board, and one of it with one more instruction."""
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    folder = tmp_path_factory.mktemp("runs")
    for name, extra in (("plain", ""), ("nop", NOP)):
        (folder / name).mkdir()
        (folder / name / "f.c").write_text(LOOP.format(extra))
    firmware = {name: build(folder / name / "f.c", board="qemu-rv32") for name in ("plain", "nop")}
    files = {}
    for name, image in (("first", "plain"), ("again", "plain"), ("nop", "nop")):
        files[name] = folder / f"{name}.json"
        with firmware[image].open() as board:
            write_report(board.profile("f", 50, repeat=5), str(files[name]))
    return files


def test_two_runs_of_one_build_on_a_deterministic_board_do_not_differ(
    runs: dict[str, Path],
) -> None:
    found = boardprof("compare", runs["first"], runs["again"], "--fail-if", "*>0", "--json", "-")
    assert found.code == 0, found.out + found.err
    rows = json.loads(found.out)["rows"]
    assert {row["metric"]: row["exact"] for row in rows}["instructions"] is True
    assert {row["verdict"] for row in rows} <= {"same", "noise"}


def test_a_gate_writes_for_ci_and_appends_to_the_summary_of_a_step(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    summary, issues = tmp_path / "summary.md", tmp_path / "issues.json"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    files = (f"gitlab={issues}", f"summary={summary}", "github=-")
    exports = [word for text in files for word in ("--export", text)]
    gate = ("--fail-if", "instructions:max>0")
    assert main(["compare", str(runs["first"]), str(runs["nop"]), *gate, *exports]) == 1
    error, notice = capfd.readouterr().out.splitlines()
    assert error.startswith(
        "::error file=f.c,line=1,title=Regression%3A instructions of f::f(n=50)"
    )
    assert notice.startswith("::notice title=boardprof::1 regression")
    assert json.loads(issues.read_text())[0]["location"] == {"path": "f.c", "lines": {"begin": 1}}
    assert summary.read_text().startswith("before\n### ❌ boardprof: 1 regression")


def test_run_writes_the_comparison_only_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "history.sqlite"))
    source, file = tmp_path / "f.c", tmp_path / "junit.xml"
    source.write_text(LOOP.format(""))
    run = ["run", "-q", f"{source}:f", "n=50", "--save", "base", "--export", f"junit={file}"]
    assert main(run) == 2
    assert "--export junit writes a comparison, and nothing is compared" in capfd.readouterr().err
    against = ["--against", "base", "--against-if-present"]
    assert main([*run, *against]) == 0
    assert not file.exists()
    assert main([*run, *against]) == 0
    cases = [*xml.parse(file).iter("testcase")]
    assert {case.get("line") for case in cases} == {"1"}
    assert main(["run", *run[1:4], "--export", "nothing=x"]) == 2
    assert "There is no exporter 'nothing'" in capfd.readouterr().err


def test_one_more_instruction_is_found_and_gated(runs: dict[str, Path]) -> None:
    gate = ("--fail-if", "instructions:max>0")
    found = boardprof("compare", runs["first"], runs["nop"], *gate)
    assert found.code == 1
    [line] = [line for line in found.out.splitlines() if " instructions " in line]
    *_, before, after, _, _, certainty, verdict, rule = line.split()
    assert int(after) == int(before) + 1
    assert (certainty, verdict, rule) == ("exact", "REGRESSION", "(instructions:max>0)")
    assert boardprof("compare", runs["nop"], runs["first"], *gate).code == 0
    assert boardprof("compare", runs["first"], runs["nop"]).code == 0
    assert (
        boardprof("compare", runs["first"], runs["nop"], "--fail-if", "instructions>2%").code == 0
    )


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    found = (tmp_path / "old.json", tmp_path / "new.json")
    for file, count in zip(found, (100, 110), strict=True):
        write_report(report_of({"instructions": [count] * 3}), str(file))
    return found


def test_each_form_is_written_to_its_file_or_printed(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    written = {name: tmp_path / name for name in ("c.json", "c.md", "c.xml")}
    options = ("--json", written["c.json"], "--markdown", written["c.md"], "--junit", "-")
    found = boardprof("compare", *files, *options, "--fail-if", "instructions>5%")
    assert found.code == 1
    assert xml.fromstring(found.out)[0].get("failures") == "1"
    assert json.loads(written["c.json"].read_text())["regressed"] is True
    assert "+10.00 %" in written["c.md"].read_text()
    assert found.err.count("Comparison written to ") == 2


def test_a_rule_that_could_not_judge_a_row_ends_with_1_where_that_is_asked_for(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    one = report_of({"instructions": [100]})
    other = report_of({"instructions": [7]}, name="iir")
    write_report(Report([*one.calls, *other.calls], {}, {}, one.extra), str(files[0]))
    command = ["compare", *map(str, files), "--fail-if", "instructions>20%"]
    assert main(command) == 0
    words = "Result: 1 row not judged (instructions of iir); no regression in what was judged; 2 me"
    assert words in capsys.readouterr().out
    assert main([*command, "--fail-if-missing", "--junit", "-"]) == 1
    suite = xml.fromstring(capsys.readouterr().out)[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "0")
    [failure] = suite.iter("failure")
    assert failure.get("message") == "not judged by instructions>20%: it is no longer there"


def test_what_cannot_be_compared_is_an_error_and_no_regression(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str | Path) -> Outcome:
        code = main(["compare", *map(str, arguments)])
        found = Outcome(code, *capsys.readouterr())
        assert (found.code, found.out) == (2, "")
        return found

    assert (
        "  instructions>=5%\n               ^"
        in refused(*files, "--fail-if", "instructions>=5%").err
    )
    assert "did you mean 'instructions'" in refused(*files, "--fail-if", "instrutions>0").err
    assert (
        "Only one output format can be printed"
        in refused(*files, "--json", "-", "--junit", "-").err
    )
    assert "cannot be written" in refused(*files, "--json", tmp_path / "no" / "x.json").err
    assert "cannot be read" in refused(files[0], tmp_path / "missing.json").err
    other = tmp_path / "other.json"
    write_report(report_of({"loads": [1]}, device="m4"), str(other))
    assert "different boards: board before, m4 after" in refused(files[0], other).err
    allowed = refused(files[0], other, "--allow", "board")
    assert "no metric in common: instructions before, loads after" in allowed.err
    files[0].write_text(files[0].read_text()[:50])
    assert "old.json" in refused(*files).err


def test_one_run_is_compared_with_the_last(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    environment = {"BOARDPROF_HISTORY": str(path)}
    History(path).save(report_of({"instructions": [100]}), "base")
    History(path).save(report_of({"instructions": [90]}))
    found = boardprof("compare", "base", environment=environment)
    assert found.code == 0
    assert "Before: #1 (saved as base)" in found.out
    assert "After:  #2" in found.out
    assert "-10.00 %" in found.out
    assert (
        "There is no run 'bsae'; did you mean 'base'"
        in boardprof("compare", "bsae", environment=environment).err
    )


def test_the_last_run_is_compared_with_the_newest_one_of_the_same_function(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    environment = {"BOARDPROF_HISTORY": str(path)}
    for name, count in (("fir", 100), ("fir", 80), ("iir", 70), ("fir", 90), ("dct", 60)):
        rows = report_of({"instructions": [count]}, name=name)
        History(path).save(rows)
    refused = boardprof("compare", environment=environment)
    assert (refused.code, refused.out) == (2, "")
    assert "No run before #5 measured one of its functions" in refused.err
    History(path).remove("#5")
    found = boardprof("compare", environment=environment)
    assert found.code == 0
    assert "Before: #2" in found.out
    assert "After:  #4" in found.out
    assert "+12.50 %" in found.out


def test_a_run_is_not_compared_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.sqlite"
    monkeypatch.setenv("BOARDPROF_HISTORY", str(path))
    History(path).save(report_of({"instructions": [100]}), "main")
    assert main(["compare", "main", "--fail-if", "*>0"]) == 2
    assert "Before and after are the same run, #1 (saved as main)" in capsys.readouterr().err


def test_what_is_missing_is_missing_to_a_rule(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *map(str, files), "--fail-if-missing"]) == 2
    assert "--fail-if-missing needs a rule." in capsys.readouterr().err


@pytest.mark.parametrize("place", ["f.h", "include/f.h"])
def test_a_function_of_a_header_has_its_file_and_line(place: str, tmp_path: Path) -> None:
    requires_tool("gcc", "gcc")
    (tmp_path / ".git").mkdir()
    header = tmp_path / place
    header.parent.mkdir(exist_ok=True)
    header.write_text("\nstatic inline int g(int n) { return n * 3; }\n")
    (tmp_path / "f.c").write_text('#include "f.h"\n')
    include = ("-I", str(header.parent), "--keep", "g")
    file = tmp_path / "r.json"
    target = f"{tmp_path / 'f.c'}:g"
    done = boardprof("run", "-q", "-b", "native", target, "n=5", *include, "--json", str(file))
    assert done.code == 0, done.err
    report = Report.from_json(file.read_text())
    assert {name: str(found) for name, found in places_of(report).items()} == {"g": f"{place}:2"}
