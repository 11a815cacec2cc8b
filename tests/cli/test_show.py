# SPDX-License-Identifier: Apache-2.0
"""`boardprof show`: the table of a file, the same as when it was measured; or a clear error."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest

from boardprof.base.metrics import Metric
from boardprof.results.report.report import Report
from tests.cli.command import BOARDPROF, FIXTURES, boardprof, rows


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A Report file of two boards, and what `run` printed as it wrote it."""
    file = tmp_path_factory.mktemp("show") / "report.json"
    arguments = ["-b", "native,linux", f"{FIXTURES / 'scalars.c'}:count_calls", "--json", file]
    done = boardprof("run", *arguments)
    assert done.code == 0, done.err
    return file, done.out


def test_the_table_is_byte_for_byte_what_run_printed(measured: tuple[Path, str]) -> None:
    file, printed = measured
    done = boardprof("show", file)
    assert (done.code, done.out, done.err) == (0, printed, "")


@pytest.mark.parametrize("forms", [("--csv", "--json"), ("--stats", "--csv")])
def test_two_forms_at_once_are_none(measured: tuple[Path, str], forms: tuple[str, ...]) -> None:
    done = boardprof("show", measured[0], *forms)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "error: --csv, --json, --stats, --hotspots, --lines and --asm cannot be "
        "combined.\nTry: give one of them\n",
    )


def test_samples_are_a_row_each_when_asked_for(measured: tuple[Path, str]) -> None:
    done = boardprof("show", measured[0], "--samples")
    assert (done.code, rows(done.out)) == (0, ["count_calls"] * 20)


def test_csv_has_a_line_for_each_sample(measured: tuple[Path, str]) -> None:
    done = boardprof("show", measured[0], "--csv")
    lines = list(csv.DictReader(io.StringIO(done.out)))
    assert (done.code, len(lines)) == (0, 20)
    assert {line["Device"] for line in lines} == {"native", "linux"}


def test_json_is_what_the_file_holds(measured: tuple[Path, str]) -> None:
    done = boardprof("show", measured[0], "--json")
    assert (done.code, json.loads(done.out)) == (0, json.loads(measured[0].read_text()))


BAD = {
    "empty": (b"", "the text is empty"),
    "text": (b"Name  Duration (us)\nfir  1.00\n", "this is not JSON"),
    "binary": (b"\x7fELF\x02\x01\x01\x00\xff\xfe", "it is not text (byte 8)"),
    "other": (b'{"benchmarks": [{"name": "fir"}]}', "benchmarks: not a key of a Report"),
    "list": (b"[1, 2]", "a JSON object is needed, not an array"),
    "number": (b'{"calls": [{"Name": 3.5}]}', 'calls[0]["Name"]'),
    "future": (b'{"calls": [], "boardprof": {"schema_version": 99}}', "schema version 99"),
    "nan": (b'{"calls": [{"x": {"microseconds": NaN}}]}', "NaN is not JSON"),
    "deep": (b'{"calls": ' + b"[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_report_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.json"
    content, message = BAD[name]
    file.write_bytes(content)
    assert_refused(file, message)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_a_file_that_was_cut_off_is_told(
    tmp_path: Path, measured: tuple[Path, str], share: float
) -> None:
    whole = measured[0].read_bytes()
    file = tmp_path / "cut.json"
    file.write_bytes(whole[: int(share * len(whole))])
    assert_refused(file, "the JSON ends too early")


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    assert_refused(tmp_path / "none.json", "cannot be read: No such file or directory")
    assert_refused(tmp_path, "is a folder")
    (tmp_path / "folder.json").mkdir()
    assert_refused(tmp_path / "folder.json", "is a folder")
    done = boardprof("show", tmp_path / "folder.json")
    assert "`boardprof history` lists the runs" in done.err


def test_a_folder_that_no_run_is_named_like_is_told_with_what_lists_runs(tmp_path: Path) -> None:
    history = {"BOARDPROF_HISTORY": str(tmp_path / "history.sqlite")}
    done = boardprof("show", tmp_path, environment=history)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        f"error: {tmp_path} is a folder, and there is no run of that name.\nTry: name the file of "
        "a Report in it, or list the runs with `boardprof history`\n",
    )


def test_a_report_that_comes_through_a_pipe_is_shown(measured: tuple[Path, str]) -> None:
    command = [*BOARDPROF, "show", "--table", "/dev/stdin"]
    done = subprocess.run(
        command, input=measured[0].read_text(), stdout=subprocess.PIPE, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, measured[1])


def test_a_run_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    environment = {"BOARDPROF_HISTORY": str(tmp_path / "history.sqlite")}
    done = boardprof("show", "last", environment=environment)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    off = boardprof("show", "last")
    assert (off.code, off.out) == (2, "")
    assert off.err.startswith("error: There is no history: BOARDPROF_HISTORY turns it off.")


def test_a_file_of_any_name_is_read_where_no_run_has_it(
    tmp_path: Path, measured: tuple[Path, str]
) -> None:
    file = tmp_path / "report"
    file.write_bytes(measured[0].read_bytes())
    assert boardprof("show", file).out == measured[1]


def assert_refused(file: Path, message: str) -> None:
    done = boardprof("show", file)
    assert (done.code, done.out) == (2, "")
    first, *others = done.err.splitlines()
    assert first.startswith(f"error: {file}")
    assert message in first
    assert all(line.startswith("Try: ") for line in others)


@pytest.mark.parametrize("words", [("show",), ("--version",), ("boards",), ("show", "--help")])
def test_a_reader_that_leaves_is_no_failure(
    measured: tuple[Path, str], words: tuple[str, ...]
) -> None:
    command = [*BOARDPROF, *words, *([str(measured[0])] if words == ("show",) else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(30), process.stderr.read()) == (0, b"")


def test_a_full_disk_behind_the_output_is_told_in_one_line(measured: tuple[Path, str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*BOARDPROF, "show", str(measured[0])],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 8
    assert done.stderr == (
        "error: Standard output cannot be written: No space left on device.\n"
        "Try: free some space, or write to another disk\n"
    )


def test_rows_that_do_not_say_of_what_or_how_many_calls_are_noted(tmp_path: Path) -> None:
    calls: list[dict[str, Metric | int]] = [
        {"Name": "f", "Count": 1, "ticks": 5},
        {"Name": "f", "Count": 0, "ticks": 5},
        {"Name": "f", "Count": -1, "ticks": 5},
        {"Name": "f", "ticks": 5},
        {"Count": 1, "ticks": 5},
        {"Name": "", "Count": 1, "ticks": 5},
    ]
    file = tmp_path / "odd.json"
    file.write_text(Report(calls, {}, {}).json())
    done = boardprof("show", file, "--no-warnings")
    assert done.code == 0
    assert done.err.splitlines() == [
        "note: 2 rows have no Name",
        "note: 1 row has no Count, so values per call cannot be computed",
        "note: 2 rows have a Count below 1, so values per call cannot be computed",
    ]


def test_an_empty_variable_that_turns_the_history_off_is_named_as_that() -> None:
    done = boardprof("history", "path", environment={"BOARDPROF_HISTORY": ""})
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        "error: There is no history: BOARDPROF_HISTORY, which is empty, turns it off.\n"
    )
