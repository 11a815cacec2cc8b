# SPDX-License-Identifier: Apache-2.0
"""`boardprof export`: each form of a real board's Report, in a file or on standard output."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest

from boardprof.results.history.store import History
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import read_report
from boardprof.show.exporters import read_exports, write_export
from boardprof.show.html import read_page
from boardprof.ui.cli import main
from tests.cli.command import Outcome, boardprof
from tests.support import ROOT
from tests.unit.reports import report_of

SOURCE = ROOT / "examples" / "workloads" / "crc32.c"
"""Its time is far above what is in doubt of one: samples below 0 are not drawn."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Report file of two boards, one by this machine's clock, one without a sense of time."""
    file = tmp_path_factory.mktemp("export") / "report.json"
    done = boardprof("run", "-b", "native,qemu-rv32", f"{SOURCE}:crc32", "--json", file)
    assert done.code == 0, done.err
    return file


Run = Callable[..., Outcome]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: a tenth of the time of a process of its own."""

    def run(*arguments: str | Path) -> Outcome:
        code = main([str(argument) for argument in arguments])
        return Outcome(code, *capfd.readouterr())

    return run


def test_a_dash_is_standard_output_and_no_file_is_written(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = command("export", "csv", measured)
    assert plain.out.startswith("Count,Device,Duration (us),Name,")
    assert command("export", "csv", measured, "-o", "-") == plain
    assert plain.err == ""
    decoded = command("decode", measured, "-o", "-")
    assert (decoded.code, decoded.out) == (2, "")
    assert decoded.err.endswith("Try: --json, which prints it\n")
    assert [*tmp_path.iterdir()] == []


def test_run_prints_one_export_in_place_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    run = ("run", "-b", "native", f"{SOURCE}:crc32", "--repeat", "3")
    done = command(*run, "--export", "csv=-")
    assert done.code == 0, done.err
    assert done.out.startswith("Count,Device,Duration (us),Name,")
    assert "written to" not in done.err
    assert [*tmp_path.iterdir()] == []
    both = command(*run, "--export", "csv=-", "--json", "-")
    assert (both.code, both.out) == (2, "")
    assert "Only one output format can be printed." in both.err
    baseline = command(*run, "--baseline", "-")
    assert (baseline.code, baseline.out) == (2, "")
    assert "--export baseline=- prints it" in baseline.err


def is_speedscope(text: str) -> bool:
    names = [profile["name"] for profile in json.loads(text)["profiles"]]
    assert names[0].startswith("native: Duration (us)")
    return "qemu-rv32: instructions" in names


def is_chrome(text: str) -> bool:
    base = json.loads(text)["boardprof_time_base"]
    told = "instructions, not time: one is drawn as 1 us"
    return bool(base == {"native": "time", "qemu-rv32": told})


FORMS: dict[str, Callable[[str], bool]] = {
    "table": lambda text: text.startswith("Name "),
    "csv": lambda text: len(text.splitlines()) == 21,
    "json": lambda text: len(Report.from_json(text).calls) == 20,
    "markdown": lambda text: "**`qemu-rv32`** (simulated clock, no wall time, emulated)" in text,
    "html": lambda text: len(read_page(text).calls) == 20,
    "chrome": is_chrome,
    "speedscope": is_speedscope,
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_printed_and_written_alike(
    measured: Path, name: str, tmp_path: Path, command: Run
) -> None:
    done = command("export", name, measured)
    assert (done.code, done.err) == (0, "")
    assert FORMS[name](done.out)
    file = tmp_path / "out"
    silent = command("export", name, measured, "-o", file)
    assert (silent.code, silent.out) == (0, "")
    assert file.read_text() == done.out


def test_the_page_and_the_json_hold_the_report_that_was_measured(
    measured: Path, command: Run
) -> None:
    report = read_report(str(measured))
    assert read_page(command("export", "html", measured).out) == report
    assert Report.from_json(command("export", "json", measured).out) == report


def test_collapsed_stacks_take_one_metric_that_all_devices_have(
    measured: Path, command: Run
) -> None:
    refused = command("export", "collapsed", measured)
    assert refused.code == 2
    assert "No metric is on all devices" in refused.err
    assert "Try: name one: boardprof export collapsed REPORT --metric NAME" in refused.err
    done = command("export", "collapsed", measured, "--metric", "instructions")
    assert re.fullmatch(r"qemu-rv32;crc32 \d+\n", done.out)


def test_the_page_of_two_shows_what_changed(measured: Path, tmp_path: Path, command: Run) -> None:
    older = json.loads(measured.read_text())
    for row in older["calls"]:
        if "instructions" in row:
            row["instructions"]["count"] += 7
    file = tmp_path / "older.json"
    file.write_text(json.dumps(older))
    done = command("export", "html", measured, "--diff", file)
    assert done.code == 0, done.err
    assert read_page(done.out, before=True) == read_report(str(file))
    view = json.loads(re.search(r'id="boardprof-view">(.*?)</script>', done.out)[1])
    changes = view["changes"]
    assert re.fullmatch(rf"{measured.name} of \d{{4}}-\S+Z", changes["after"])
    assert re.fullmatch(r"older.json of \d{4}-\S+Z", changes["before"])
    facts = {name: sides for name, *sides in changes["facts"]}
    assert facts["qemu-rv32 flags"] == ["-O2", "-O2"]
    assert len(set(facts["qemu-rv32 build"])) == 1
    found = {
        row["device"]: row for row in view["changes"]["rows"] if row["metric"] == "instructions"
    }
    changed = found["qemu-rv32"]
    assert (changed["verdict"], changed["before"] - changed["after"]) == ("better", 7)


def test_the_page_of_a_kept_run_has_the_medians_of_the_runs_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Run
) -> None:
    path = tmp_path / "history.sqlite"
    monkeypatch.setenv("BOARDPROF_HISTORY", str(path))
    history = History(path, folder=".")
    for cycles in (420, 410, 777, 400, 390):
        history.save(report_of({"cycles": [cycles] * 3}), has_failed=cycles == 777)
    for i in range(30):  # another function's runs do not hide them
        history.save(report_of({"cycles": [i]}, name="other"))
    history.save(report_of({"cycles": [380] * 3}))

    def medians(run: str) -> dict[str, object] | None:
        text = command("export", "html", run).out
        view = json.loads(re.search(r'id="boardprof-view">(.*?)</script>', text)[1])
        return view["groups"][0]["metrics"]["0"].get("history")

    assert medians("#1") is None
    earlier = medians("#4")
    assert earlier is not None
    assert (earlier["runs"], earlier["medians"]) == (["#1", "#2", "this run"], [420, 410, 400])
    assert medians("last")["medians"] == [420, 410, 400, 390, 380]  # type: ignore[index]
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE runs SET report = 'damaged' WHERE id = 2")
    assert medians("last")["medians"] == [400, 390, 380]  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["pandas", "R"],
            "The command line cannot use the exporter pandas: a DataFrame is not a file",
        ),
        (["htlm", "R"], "There is no exporter 'htlm'; did you mean 'html'?"),
        (
            ["junit", "R"],
            "The exporter junit is for comparisons, not for Reports.",
        ),
        (
            ["perfetto", "last"],
            "The exporter perfetto is for recordings of probes, and there is no file last.",
        ),
        (["csv", "R", "--metric", "ticks"], "--metric is for collapsed, not for csv."),
        (["json", "R", "--diff", "R"], "--diff is for html, not for json."),
        (["html", "R", "--allow", "clock"], "--allow needs --diff."),
        (["collapsed", "R", "--metric", "tiks"], "no metric in the Report 'tiks'"),
        (["csv", "R", "-o", "none/x.csv"], "none/x.csv cannot be written: there is no folder "),
        (["csv", "R", "-o", "none/"], "none/ cannot be written: it is a folder."),
        (["csv", "R", "-o", ""], "A file without a name cannot be written."),
        (["csv", "none.json"], "none.json cannot be read"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    measured: Path,
    arguments: list[str],
    message: str,
    command: Run,
) -> None:
    given = [str(measured) if argument == "R" else argument for argument in arguments]
    done = command("export", *given)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err.splitlines()[0]


def test_run_knows_the_same_forms(measured: Path, tmp_path: Path) -> None:
    report = read_report(str(measured))
    for export in read_exports([f"{name}={tmp_path / name}" for name in FORMS]):
        write_export(report, export)
    assert all(FORMS[name]((tmp_path / name).read_text()) for name in FORMS)


# -- the JSON's schema --------------------------------------------------------------------------

SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())


def test_the_published_schema_is_one_and_fits_what_boards_give(measured: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(measured.read_text()))


@pytest.mark.parametrize(
    "document",
    [
        {"calls": [], "device_metrics": {}},
        {"calls": [], "device_metrics": {}, "configuration": {}, "more": 1},
        {"calls": [{"x": {"count": 1.5}}], "device_metrics": {}, "configuration": {}},
        {"calls": [{"x": {"microseconds": "Inf"}}], "device_metrics": {}, "configuration": {}},
        {"calls": [], "device_metrics": {}, "configuration": {}, "boardprof": {}},
        {
            "calls": [],
            "device_metrics": {},
            "configuration": {},
            "boardprof": {"schema_version": 2},
        },
    ],
)
def test_the_published_schema_refuses_what_is_no_report(document: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_an_exporter_of_something_else_is_told_with_the_command_that_has_it() -> None:
    junit = boardprof("export", "junit", "last")
    assert junit.err.endswith("\nTry: boardprof compare BEFORE AFTER --export junit=FILE\n")
    perfetto = boardprof("export", "perfetto", "last")
    assert "\nTry: record one with `boardprof trace -o FILE`" in perfetto.err
