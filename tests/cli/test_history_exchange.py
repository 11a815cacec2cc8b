# SPDX-License-Identifier: Apache-2.0
"""Runs that go from one history to another: by a file, or by the other history itself."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from boardprof.results.history.run import GitState
from boardprof.results.history.store import History
from tests.cli.command import Outcome, boardprof
from tests.unit.reports import report_of

GIT = GitState("a1b2c3d4" * 5, "main", is_dirty=False)


@pytest.fixture
def ci(tmp_path: Path) -> History:
    """A history of two runs, made before those of `desk`."""
    history = History(tmp_path / "ci.sqlite")
    history.save(report_of({"cycles": [100]}, name='f"\u202e\n'), "base", "boardprof run", git=GIT)
    history.save(report_of({"cycles": [101]}), git=GIT, has_failed=True)
    dated(history, "2026-01-0{}T00:00:00Z")
    return history


@pytest.fixture
def desk(tmp_path: Path) -> History:
    history = History(tmp_path / "desk.sqlite")
    history.save(report_of({"cycles": [90]}), "mine")
    return history


def dated(history: History, time: str) -> None:
    with closing(sqlite3.connect(history.path)) as file:
        for run in history.runs():
            values = [time.format(run.id), run.id]
            file.execute("UPDATE runs SET time = ? WHERE id = ?", values)
        file.commit()


def command(history: History, *words: str | Path) -> Outcome:
    environment = {"BOARDPROF_HISTORY": str(history.path)}
    return boardprof("history", *words, environment=environment, folder=history.path.parent)


def facts(history: History) -> list[tuple[object, ...]]:
    """Return all that is known of the runs but their numbers, and their Reports."""
    runs = [(r.time, r.name, r.command, r.git, r.has_failed, r.functions) for r in history.runs()]
    return [(*run, history.load(each)) for run, each in zip(runs, history.runs(), strict=True)]


def test_what_was_exported_is_imported_as_it_was_and_only_once(
    ci: History, desk: History, tmp_path: Path
) -> None:
    file = tmp_path / "runs.jsonl"
    exported = command(ci, "export", "--all", "-o", file)
    assert (exported.code, exported.err) == (0, f"2 runs written to {file}\n")
    (own,) = facts(desk)
    for added in (2, 0):
        done = command(desk, "import", file)
        told = f"note: {file}: added {added} of 2 runs; {2 - added} already there\n"
        assert (done.code, done.err) == (0, told)
    assert facts(desk) == [own, *facts(ci)]
    assert desk.run("last").name == "mine"  # an imported run is as old as it is
    assert (desk.run("base").id, desk.run("main").id) == (2, 2)
    printed = command(ci, "export", "base")
    assert printed.code == 0
    assert [json.loads(line).get("name") for line in printed.out.splitlines()] == [None, "base"]


def test_histories_are_merged_and_what_was_renamed_here_keeps_its_name(
    ci: History, desk: History
) -> None:
    assert command(desk, "merge", ci.path).code == 0
    assert command(desk, "rename", "base", "january").code == 0
    again = command(desk, "merge", ci.path)
    assert again.err == f"note: {ci.path}: added 0 of 2 runs; 2 already there\n"
    assert [run.name for run in desk.runs()] == ["mine", None, "january"]
    assert facts(desk)[1] == facts(ci)[0]


def test_names_are_given_and_taken_away(ci: History) -> None:
    renamed = command(ci, "rename", "base", "before")
    assert renamed.err == "note: run #1 (saved as base) is now saved as before\n"
    assert (ci.run("before").id, command(ci, "show", "base").code) == (1, 2)
    unnamed = command(ci, "unname", "before")
    assert unnamed.err == "note: run #1 (saved as before) no longer has a name\n"
    assert [run.name for run in ci.runs()] == [None, None]
    refused = command(ci, "rename", "#1", "last")
    assert (refused.code, "cannot be the name of a run" in refused.err) == (2, True)


LINE = {
    "time": "2026-01-01T00:00:00Z",
    "name": None,
    "command": "",
    "project": "",
    "commit": None,
    "branch": None,
    "dirty": None,
    "version": "0.1",
    "failed": False,
    "report": json.loads(report_of({"cycles": [1]}).json()),
}
HEAD = '{"kind": "boardprof.history", "version": 1}\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}\n", "line 1: this boardprof cannot read this file as a history"),
        ("\n", "line 1: this is not JSON"),
        (HEAD + "[1]\n", "line 2: time is missing, or has the wrong type"),
        (HEAD + json.dumps({**LINE, "time": "now"}) + "\n", "line 2: 'now' is not a time"),
        (
            HEAD + json.dumps({**LINE, "failed": 0}) + "\n",
            "line 2: failed is missing, or",
        ),
        (HEAD + json.dumps({**LINE, "name": "last"}) + "\n", "line 2: 'last' cannot be the name"),
        (HEAD + json.dumps({**LINE, "report": {}}) + "\n", "line 2: "),
        (HEAD + json.dumps(LINE) + "\n" + json.dumps(LINE)[:-1], "line 3: this is not JSON"),
    ],
)
def test_a_file_that_is_no_export_is_told_with_its_line_and_nothing_is_added(
    desk: History, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(text)
    done = command(desk, "import", file)
    assert done.code == 2
    assert f"error: {file}: {told}" in done.err
    assert len(desk.runs()) == 1


def test_what_cannot_be_read_is_told(desk: History, ci: History, tmp_path: Path) -> None:
    missing = command(desk, "merge", tmp_path / "no.sqlite")
    assert (missing.code, "does not exist" in missing.err) == (2, True)
    text = tmp_path / "text"
    text.write_text("x" * 5000)
    other = command(desk, "merge", text)
    assert (other.code, "is not a SQLite database" in other.err) == (2, True)
    assert command(desk, "import", tmp_path / "no").code == 2
    with closing(sqlite3.connect(ci.path)) as file:
        file.execute("UPDATE runs SET report = x'00' WHERE id = 1")
        file.commit()
    damaged = command(desk, "merge", ci.path)
    assert (damaged.code, f"Run #1 in {ci.path} is damaged" in damaged.err) == (2, True)
    assert len(desk.runs()) == 1
