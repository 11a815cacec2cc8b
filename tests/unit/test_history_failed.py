# SPDX-License-Identifier: Apache-2.0
"""Runs that failed are kept and listed, and are no run of their branch, commit or name."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import UnknownNameError
from boardprof.jobs.run.saving import keep_run
from boardprof.results.history.report_lookup import history_place
from boardprof.results.history.run import GitState, kept_contents
from boardprof.results.history.store import History
from tests.unit.reports import report_of

COMMIT = "a1b2c3d4" * 5
CLEAN = GitState(COMMIT, "main", is_dirty=False)
DIRTY = GitState(COMMIT, "main", is_dirty=True)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "h.sqlite")


def save(
    history: History, name: str | None = None, git: GitState = CLEAN, *, has_failed: bool = False
) -> int:
    return history.save(report_of({"cycles": [1]}), name, git=git, has_failed=has_failed)


@pytest.mark.parametrize("reference", ["main", "a1b2c3d4"])
def test_a_run_that_failed_is_not_found_by_branch_or_commit(
    history: History, reference: str
) -> None:
    save(history)
    save(history)
    save(history, has_failed=True)
    assert (history.run(reference).id, history.run(f"{reference}~1").id) == (2, 1)


@pytest.mark.parametrize(("reference", "number"), [("last", 2), ("#2", 2), ("2", 2), ("last~1", 1)])
def test_a_run_that_failed_is_found_by_number_and_as_last(
    history: History, reference: str, number: int
) -> None:
    save(history)
    save(history, has_failed=True)
    assert history.run(reference).id == number


def test_a_run_says_that_it_failed(history: History) -> None:
    save(history)
    save(history, has_failed=True)
    history.save(report_of({"cycles": [1]}), has_failed=True)
    bare, failed, whole = history.runs()
    assert whole.label == "#1 (branch main, a1b2c3d4)"
    assert failed.label == "#2 (failed; branch main, a1b2c3d4)"
    assert bare.label == "#3 (failed)"
    assert [run.has_failed for run in (whole, failed, bare)] == [False, True, True]
    assert (whole.json()["failed"], failed.json()["failed"]) == (False, True)


@pytest.mark.parametrize("reference", ["main", "a1b2c3d4"])
def test_where_there_is_only_a_failed_run_the_error_names_it(
    history: History, reference: str
) -> None:
    save(history, has_failed=True)
    with pytest.raises(UnknownNameError) as caught:
        history.run(reference)
    assert str(caught.value).startswith(f"There is no whole run of {reference!r}. Known: last")
    assert caught.value.known == ("last",)
    assert caught.value.hint == (
        f"#1 is of {reference}, and failed or was interrupted; see why, and run again"
    )
    with pytest.raises(UnknownNameError) as numbered:
        history.run("#12345678")
    assert numbered.value.hint == "boardprof history; the newest run is #1"


def test_a_commit_that_was_only_run_with_changes_names_that_run(history: History) -> None:
    save(history, git=DIRTY, has_failed=True)
    with pytest.raises(UnknownNameError, match="no run of an unchanged 'a1b2c3d4'") as caught:
        history.run("a1b2c3d4")
    assert "#1 is of a1b2c3d4 with changes" in str(caught.value.hint)


def test_a_run_that_failed_is_kept_without_its_name(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(history.path))
    assert history_place() == history.path
    notes: list[str] = []
    for has_failed in (False, True):
        keep_run(
            report_of({"cycles": [1]}), name="base", has_failed=has_failed, on_note=notes.append
        )
    assert notes == [f"{history.path} did not exist: a new history starts with this run"]
    failed, whole = history.runs()
    assert (whole.name, whole.has_failed) == ("base", False)
    assert (failed.name, failed.has_failed) == (None, True)
    assert history.run("base").id == 1


def test_of_many_runs_of_a_name_only_those_up_to_the_one_that_is_meant_are_read(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(30):
        save(history, "main")
    read: list[object] = []

    def counted(text: object) -> dict[str, tuple[str, ...]]:
        read.append(text)
        return kept_contents(text)

    monkeypatch.setattr("boardprof.results.history.sqlite.kept_contents", counted)
    assert (history.run("main").id, len(read)) == (30, 2)
    assert (history.run("main~4").id, len(read)) == (26, 12)
