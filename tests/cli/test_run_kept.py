# SPDX-License-Identifier: Apache-2.0
"""`boardprof run` keeps what it has measured: a part of it, and in the history."""

from __future__ import annotations

import json
from pathlib import Path

from boardprof.results.history.store import History
from tests.cli.command import FIXTURES, boardprof, rows

FAULTY = FIXTURES / "faulty.c"
FAST = ("-b", "native", "--warmup", "1", "--repeat", "2")


def test_a_report_without_one_function_names_it_in_the_table_and_in_the_json(
    tmp_path: Path,
) -> None:
    file = tmp_path / "report.json"
    done = boardprof("run", *FAST, f"{FAULTY}:all", "--json", file)
    assert (done.code, sorted(rows(done.out))) == (6, ["a_right", "c_right"])
    [missing] = json.loads(file.read_text())["boardprof"]["missing"]
    assert missing.startswith("b_wrong ran, but its check function says")
    assert f"\nMissing: {missing}\n" in done.out
    whole = boardprof("run", *FAST, f"{FAULTY}:a_right", "--json", file)
    assert "Missing" not in whole.out
    assert json.loads(file.read_text())["boardprof"]["missing"] == []


def test_a_run_is_kept_in_the_history_under_its_name_and_is_shown_from_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "history.sqlite"
    environment = {"BOARDPROF_HISTORY": str(path)}
    target = f"{FAULTY}:a_right"
    done = boardprof("run", *FAST, target, "--save", "before", environment=environment)
    assert (done.code, done.err) == (
        0,
        f"note: {path} did not exist: a new history starts with this run\n",
    )
    again = boardprof("run", *FAST, target, environment=environment)
    assert (again.code, again.err) == (0, "")
    History(path).remove("last")
    [run] = History(path).runs()
    assert (run.id, run.name, list(run.boards), list(run.functions)) == (
        1,
        "before",
        ["native"],
        ["a_right"],
    )
    assert "--save before" in run.command
    for ref in ("last", "#1", "before"):
        shown = boardprof("show", ref, environment=environment)
        assert (shown.code, shown.out, shown.err) == (0, done.out, "")


def test_a_history_that_cannot_be_written_loses_no_report(tmp_path: Path) -> None:
    """A run that nobody has named is kept if it can be; one that was given a name must be."""
    environment = {"BOARDPROF_HISTORY": str(tmp_path)}
    done = boardprof("run", *FAST, f"{FAULTY}:a_right", environment=environment)
    assert (done.code, rows(done.out)) == (0, ["a_right"])
    assert done.err.startswith("warning: the run was not kept: ")
    assert str(tmp_path) in done.err
    quiet = boardprof("run", "-q", *FAST, f"{FAULTY}:a_right", environment=environment)
    assert (quiet.code, quiet.err) == (0, done.err)
    named = boardprof("run", *FAST, f"{FAULTY}:a_right", "--save", "x", environment=environment)
    assert (named.code, rows(named.out)) == (2, ["a_right"])
    assert named.err.startswith("error: the run was not kept: ")


def test_a_run_that_failed_is_kept_without_its_name(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    environment = {"BOARDPROF_HISTORY": str(path)}
    done = boardprof("run", "-q", *FAST, f"{FAULTY}:all", "--save", "base", environment=environment)
    assert (done.code, sorted(rows(done.out))) == (6, ["a_right", "c_right"])
    assert done.err.startswith("warning: kept as #1, not as base: the run failed\nerror: b_wrong ")
    [run] = History(path).runs()
    assert (run.id, run.name, run.has_failed) == (1, None, True)
    command = ("run", "-q", *FAST, f"{FAULTY}:a_right", "--save", "base", "--json", "/dev/full")
    unwritten = boardprof(*command, environment=environment)
    assert unwritten.code == 8  # the file could not be written, and the run is whole
    assert History(path).run("base").id == 2
    assert not History(path).run("base").has_failed


def test_a_history_in_a_folder_that_is_not_there_is_told_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    environment = {"BOARDPROF_HISTORY": str(tmp_path / "nope" / "history.sqlite")}
    done = boardprof("run", *FAST, f"{FAULTY}:a_right", environment=environment)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: There is no folder {tmp_path}/nope for the history ")
    assert not (tmp_path / "nope").exists()


def test_the_default_history_is_made_with_its_folders_and_without_a_word(tmp_path: Path) -> None:
    before = ("env", "-u", "BOARDPROF_HISTORY", f"XDG_DATA_HOME={tmp_path / 'data'}")
    done = boardprof("run", *FAST, f"{FAULTY}:a_right", before=before)
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "data" / "boardprof" / "history.sqlite").is_file()
