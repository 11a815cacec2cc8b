# SPDX-License-Identifier: Apache-2.0
"""``boardprof history``: runs are listed, shown and removed; bad files are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from boardprof.results.history.run import GitState
from boardprof.results.history.store import History
from boardprof.ui.cli import main
from tests.cli.command import Outcome, boardprof
from tests.unit.reports import report_of


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # outside of any repository all runs are seen
    return tmp_path / "history.sqlite"


@pytest.fixture
def filled(path: Path) -> Path:
    git = GitState("a1b2c3d4" * 5, "main", is_dirty=True)
    history = History(path)
    history.save(report_of({"cycles": [11]}, device="m3"), command=["boardprof", "run"], git=git)
    history.save(report_of({"cycles": [12]}, device="m4", name="a\u202eb"), "pr-118")
    return path


Command = Callable[..., Outcome]


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command in this process; one test below does in its own."""

    def run(path: Path | str, *arguments: str) -> Outcome:
        monkeypatch.setenv("BOARDPROF_HISTORY", str(path))
        return Outcome(main(["history", *arguments]), *capsys.readouterr())

    return run


def test_runs_are_listed_the_newest_first(filled: Path, history: Command) -> None:
    found = history(filled)
    head, second, first = found.out.splitlines()
    assert head.split() == ["Run", "Time", "(UTC)", "Name", "Git", "Boards", "Functions", "Flags"]
    assert second.split()[0] == "#2"
    assert second.split()[3:] == ["pr-118", "m4", "a\\u202eb", "-O2"]
    assert first.split()[0] == "#1"
    assert first.split()[3:] == ["main", "a1b2c3d4+", "m3", "fir", "-O2"]
    assert [line.split()[0] for line in history(filled, "--board", "m3").out.splitlines()] == [
        "Run",
        "#1",
    ]


def test_a_run_that_failed_is_marked_in_the_list(filled: Path, history: Command) -> None:
    git = GitState("a1b2c3d4" * 5, "main", is_dirty=False)
    History(filled).save(report_of({"cycles": [13]}, device="m5"), git=git, has_failed=True)
    head, third, second, _ = history(filled).out.splitlines()
    assert head.split()[3:6] == ["Name", "Result", "Git"]
    assert third.split()[3:] == ["failed", "main", "a1b2c3d4", "m5", "fir", "-O2"]
    assert second.split()[3:5] == ["pr-118", "m4"]
    lines = [json.loads(line) for line in history(filled, "--json").out.splitlines()]
    assert [line["failed"] for line in lines] == [True, False, False]
    shown = history(filled, "show", "last").out
    assert shown.startswith("Run: #3 (failed; branch main, a1b2c3d4)\nTime (UTC): ")
    assert "\nResult: failed\n" in shown


def test_a_list_that_stops_says_of_how_many(path: Path, history: Command) -> None:
    for _ in range(23):
        History(path).save(report_of({"cycles": [11]}))
    lines = history(path).out.splitlines()
    assert len(lines) == 22
    assert lines[-1] == "20 of 23 runs; --limit N shows more, --limit 0 all"
    assert history(path, "--limit", "1").out.splitlines()[-1].startswith("1 of 23 runs;")
    assert len(history(path, "--limit", "0").out.splitlines()) == 24
    assert len(history(path, "--json").out.splitlines()) == 20


def test_as_json_each_run_is_a_line(filled: Path, history: Command) -> None:
    lines = [json.loads(line) for line in history(filled, "--json").out.splitlines()]
    assert [(line["id"], line["name"]) for line in lines] == [(2, "pr-118"), (1, None)]
    assert lines[1]["git"] == {
        "commit": "a1b2c3d4" * 5,
        "branch": "main",
        "dirty": True,
    }
    assert lines[1]["project"] == ""


def test_a_run_is_shown_with_what_it_was_made_of(filled: Path, history: Command) -> None:
    found = history(filled, "show", "#1").out
    assert found.startswith("Run: #1 (branch main, a1b2c3d4+)\nTime (UTC): ")
    assert f"Git: main {'a1b2c3d4' * 5}+\nCommand: boardprof run\n\nName " in found
    as_json = json.loads(history(filled, "show", "pr-118", "--json").out)
    assert as_json["calls"][0]["cycles"] == {"count": 12}
    assert history(filled, "show", "last", "--csv").out.startswith("Argument Shapes,Count,")


def test_runs_are_removed_by_what_they_were_called_before_any_was_gone(
    filled: Path, history: Command
) -> None:
    found = history(filled, "remove", "last", "last~1")
    assert found.code == 0
    assert found.err.splitlines() == [
        "note: run #2 (saved as pr-118) was removed",
        "note: run #1 (branch main, a1b2c3d4+) was removed",
    ]
    assert History(filled).runs() == []
    assert history(filled, "remove", "last").code == 2


def test_the_command_lists_runs_in_a_process_of_its_own(filled: Path) -> None:
    found = boardprof("history", environment={"BOARDPROF_HISTORY": str(filled)})
    assert (found.code, found.err) == (0, "")
    assert [line.split()[0] for line in found.out.splitlines()] == ["Run", "#2", "#1"]


def test_an_empty_history_says_how_it_is_filled(path: Path, history: Command) -> None:
    found = history(path)
    assert (found.code, found.out) == (0, "")
    assert "`boardprof run` stores every run" in found.err
    assert history(path, "path").out == f"{path}\n"
    assert not path.exists()


def test_a_history_that_cannot_be_read_is_an_error(path: Path, history: Command) -> None:
    path.write_text("no database at all, and too long to be an empty one")
    found = history(path)
    assert found.code == 2
    assert "is not a SQLite database" in found.err
    assert "turns it off" in history("off").err
    assert "There is no run 'x'" in history(path.parent / "other", "show", "x").err
