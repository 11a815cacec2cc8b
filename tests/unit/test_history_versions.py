# SPDX-License-Identifier: Apache-2.0
"""Histories that former versions of boardprof have written: read, brought up to date, not lost."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import sys
import tempfile
import zlib
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from boardprof.errors import UnknownNameError
from boardprof.history.run import GitState
from boardprof.history.store import History
from boardprof.report.report import Report
from tests.support import git
from tests.unit.reports import report_of

VERSION_1 = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, name TEXT, command TEXT NOT NULL,
    git_commit TEXT, git_branch TEXT, git_dirty INTEGER, version TEXT NOT NULL,
    rows INTEGER NOT NULL, contents TEXT NOT NULL, report BLOB NOT NULL
);
CREATE INDEX runs_by_name ON runs (name);
CREATE INDEX runs_by_branch ON runs (git_branch);
CREATE INDEX runs_by_commit ON runs (git_commit);
PRAGMA application_id = 1651533929;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""


VERSION_2 = """
ALTER TABLE runs ADD COLUMN git_repository TEXT;
ALTER TABLE runs ADD COLUMN started_in TEXT;
UPDATE runs SET git_repository = '/there/.git', started_in = '/here/.git';
PRAGMA user_version = 2;
"""


def report(cycles: int) -> Report:
    return report_of({"cycles": [cycles]})


def version_1(path: Path, commit: str | None = "a1b2c3d4" * 5) -> Path:
    """Write a file of version 1 with the runs #1, saved as old, and #2, both on main."""
    with closing(sqlite3.connect(path)) as file:
        file.executescript(VERSION_1)
        for i, name in ((1, "old"), (2, None)):
            packed = zlib.compress(report(i).json().encode())
            row = (name, commit, commit and "main", commit and 0, packed)
            file.execute(
                "INSERT INTO runs (time, name, command, git_commit, git_branch, git_dirty, "
                "version, rows, contents, report) VALUES "
                "('2026-01-01T00:00:00Z', ?, 'boardprof run', ?, ?, ?, '0.1', 1, '{}', ?)",
                row,
            )
        file.commit()
    return path


def version_2(path: Path) -> Path:
    """Write a file of version 2 with the runs of `version_1`."""
    with closing(sqlite3.connect(version_1(path))) as file:
        file.executescript(VERSION_2)
    return path


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        return int(file.execute("PRAGMA user_version").fetchone()[0])


def test_an_old_file_is_read_and_looking_changes_nothing(tmp_path: Path) -> None:
    history = History(version_1(tmp_path / "h.sqlite"))
    assert [run.id for run in history.runs()] == [2, 1]
    assert history.find("old") == report(1)
    assert history.find("main") == report(2)
    assert history.run("main").git == GitState("a1b2c3d4" * 5, "main", is_dirty=False)
    assert version_of(history.path) == 1


def test_a_file_without_failures_is_read_and_its_runs_did_not_fail(tmp_path: Path) -> None:
    history = History(version_2(tmp_path / "h.sqlite"))
    run = history.run("main")
    assert (run.id, run.has_failed, run.project) == (2, False, "/here/.git")
    assert run.git == GitState("a1b2c3d4" * 5, "main", is_dirty=False)
    assert version_of(history.path) == 2
    assert history.save(report(3), git=run.git, has_failed=True) == 3
    assert version_of(history.path) == 4
    assert history.run("main").project == "/here/.git"
    assert [run.has_failed for run in history.runs()] == [True, False, False]
    assert history.find("main") == report(2)


def test_what_is_written_brings_an_old_file_up_to_date(tmp_path: Path) -> None:
    history = History(version_1(tmp_path / "h.sqlite"))
    state = GitState("b" * 40, "main", is_dirty=False)
    assert history.save(report(3), "new", git=state) == 3
    assert version_of(history.path) == 4
    assert [history.find(f"#{i}") for i in (1, 2, 3)] == [report(1), report(2), report(3)]
    assert history.run("new").git == state
    assert history.run("old").command == "boardprof run"


def test_an_old_file_on_a_read_only_disk_is_read() -> None:
    # Not in tmp_path, whose parents nobody may enter.
    with tempfile.TemporaryDirectory(prefix="boardprof-test-") as name:
        path = version_1(Path(name) / "h.sqlite")
        path.chmod(0o444)
        Path(name).chmod(0o555)
        user = os.geteuid()
        if user == 0:  # to root every folder can be written
            os.seteuid(65534)
        try:
            assert History(path).find("old") == report(1)
            assert [file.name for file in Path(name).iterdir()] == ["h.sqlite"]
        finally:
            os.seteuid(user)
            Path(name).chmod(0o755)


def save_some(path: Path, first: int, begin: Barrier) -> None:
    begin.wait(30)
    for i in range(first, first + 10):
        History(path, timeout_s=30.0).save(report(i), f"run-{i}")
        assert History(path).find("old") == report(1)


def test_two_processes_bring_one_file_up_to_date_at_once_and_lose_nothing(tmp_path: Path) -> None:
    path = version_1(tmp_path / "h.sqlite")
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    begin = context.Barrier(3)
    workers = [context.Process(target=save_some, args=(path, i, begin)) for i in (10, 20, 30)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    history = History(path)
    assert sorted(run.id for run in history.runs()) == list(range(1, 33))
    assert all(history.find(f"run-{i}") == report(i) for i in range(10, 40))


def test_an_old_run_stays_its_folders_and_one_of_an_unknown_folder_has_its_number(
    tmp_path: Path,
) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q", "-b", "main")
        git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", name)
    path = version_2(tmp_path / "h.sqlite")
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE runs SET started_in = ?", [str(tmp_path / "ours" / ".git")])
        file.commit()
    for _ in range(2):
        assert History(path, folder=tmp_path / "ours").run("main").id == 2
        with pytest.raises(UnknownNameError, match="There is no run 'main'"):
            History(path, folder=tmp_path / "theirs").run("main")
        History(path).save(report(3))  # brings it up to date
    unknown = version_1(tmp_path / "v1.sqlite")
    with pytest.raises(UnknownNameError, match="There is no run 'main'") as caught:
        History(unknown, folder=tmp_path / "ours").run("main")
    assert caught.value.hint == "there is a run called 'main' of another project: #2"
    bare = version_1(tmp_path / "bare.sqlite", commit=None)
    assert History(bare, folder=tmp_path / "theirs").run("old").id == 1
