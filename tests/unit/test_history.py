# SPDX-License-Identifier: Apache-2.0
"""Runs that are kept: found again by every name, by several processes, on bad disks and files."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from boardprof.base.errors import ReportFileError, StorageError, UnknownNameError, UsageError
from boardprof.jobs.run.saving import check_save_name, git_state, keep_run
from boardprof.results.history import sqlite
from boardprof.results.history.report_lookup import find_report, find_run, history_place, like_runs
from boardprof.results.history.run import GitState, HistoryError
from boardprof.results.history.store import History
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import write_report
from tests.cli.command import boardprof
from tests.support import ROOT, git
from tests.unit.reports import HARDWARE, report_of

A, B = "a1b2c3d4" * 5, "a1b2ffff" * 5


def report(cycles: int = 1, **options: str) -> Report:
    return report_of({"cycles": [cycles]}, **options)  # type: ignore[arg-type]


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "deep" / "history.sqlite", timeout_s=5.0)


# -- what is kept -----------------------------------------------------------------------------


def test_a_report_comes_back_as_it_was(history: History) -> None:
    kept = report(7, name='f"\u202e<b>\n')
    number = history.save(kept, "pr-118", ["boardprof", "run", "a b.c:f"])
    assert number == 1
    assert history.find("pr-118") == kept
    run = history.run("#1")
    assert (run.name, run.command) == ("pr-118", "boardprof run 'a b.c:f'")
    assert (run.boards, run.functions, run.flags) == (("board",), ('f"\u202e<b>\n',), ("-O2",))
    assert (run.rows, run.git) == (1, None)
    assert run.time.endswith("Z")
    assert len(run.time) == 20


def test_numbers_are_never_used_twice(history: History) -> None:
    assert [history.save(report()) for _ in range(3)] == [1, 2, 3]
    history.remove("#3")
    assert history.save(report()) == 4
    assert [run.id for run in history.runs()] == [4, 2, 1]


def test_runs_are_listed_by_board_and_function_the_newest_first(history: History) -> None:
    for device, name in (("m3", "f"), ("m4", "f"), ("m3", "g"), ("m3", "f")):
        history.save(report(device=device, name=name))
    assert [run.id for run in history.runs(board="m3")] == [4, 3, 1]
    assert [run.id for run in history.runs(board="m3", function="f")] == [4, 1]
    assert [run.id for run in history.runs(board="m3", limit=1)] == [4]
    assert history.runs(function="h") == []


def test_who_reads_while_the_first_run_is_saved_sees_a_history_without_runs(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has just made the file; it is done between two readings of ours."""
    history.path.parent.mkdir()
    with closing(sqlite3.connect(history.path)) as file:
        file.execute("PRAGMA journal_mode = WAL")
    saved: list[int] = []

    def meanwhile(statement: str) -> None:
        if statement == "PRAGMA user_version" and not saved:
            saved.append(0)
            saved[0] = history.save(report())

    def open_to_read(path: Path, timeout_s: float) -> sqlite3.Connection:
        file = opened(path, timeout_s)
        file.set_trace_callback(meanwhile)
        return file

    opened = sqlite._open_to_read
    monkeypatch.setattr(sqlite, "_open_to_read", open_to_read)
    assert history.runs() == []
    assert saved == [1]
    assert [run.id for run in history.runs()] == [1]


def test_a_file_that_is_not_there_has_no_runs_and_is_not_made_by_looking(history: History) -> None:
    assert history.runs() == []
    with pytest.raises(HistoryError, match="nothing was kept"):
        history.find("last")
    assert not history.path.exists()


# -- references -------------------------------------------------------------------------------


@pytest.fixture
def filled(history: History) -> History:
    def git(commit: str, branch: str = "main", is_dirty: bool = False) -> GitState:
        return GitState(commit, branch, is_dirty)

    history.save(report(1), git=git(A))
    history.save(report(2), "base", git=git(B))
    history.save(report(3), git=git(B, is_dirty=True))
    history.save(report(4), "base", git=git(B, "topic/x"))
    history.save(report(5), "topic/y", git=git("12345678" * 5, "", is_dirty=True))
    history.save(report(6), git=git("0" * 40, "wip", is_dirty=True))
    return history


@pytest.mark.parametrize(
    ("reference", "number"),
    [
        ("#1", 1),
        ("2", 2),
        ("last", 6),
        ("last~0", 6),
        ("last~", 5),
        ("last~1", 5),
        ("last~5", 1),
        ("base", 4),
        ("base~1", 2),
        ("main", 2),
        ("main~1", 1),
        ("topic/x", 4),
        ("topic/y", 5),
        ("a1b2", 4),
        ("A1B2C3D4", 1),
        ("a1b2~2", 1),
        ("a1b2c", 1),
    ],
)
def test_a_run_is_found_by_number_name_branch_and_commit(
    filled: History, reference: str, number: int
) -> None:
    assert filled.run(reference).id == number
    assert filled.find(reference) == report(number)


@pytest.mark.parametrize(
    "reference", ["#7", "7", "last~6", "base~2", "main~2", "nobody", "a1b", "a1b2d", "12345678"]
)
def test_there_is_no_such_run(filled: History, reference: str) -> None:
    with pytest.raises(UnknownNameError, match="There is no run"):
        filled.run(reference)


def test_beyond_the_oldest_run_of_a_name_there_is_none(filled: History) -> None:
    with pytest.raises(UnknownNameError, match="There is no run 'base~2'") as two:
        filled.run("base~2")
    assert two.value.hint == "2 runs were saved as base: base~1 is the oldest"


def test_a_name_that_is_a_branch_as_well_is_refused_where_they_are_of_different_runs(
    filled: History,
) -> None:
    filled.save(report(7), "main", git=GitState(B, "main", False))
    assert filled.run("main").id == 7
    filled.save(report(8), git=GitState(B, "main", False))
    for word in ("main", "main~1"):
        with pytest.raises(UsageError, match="'main' is ambiguous: #7 was saved as main, and #8 "):
            filled.run(word)
    found = {word: filled.run(word).id for word in ("name:main", "branch:main", "branch:main~1")}
    assert found == {"name:main": 7, "branch:main": 8, "branch:main~1": 7}
    with pytest.raises(UnknownNameError, match="There is no run 'name:main~1'"):
        filled.run("name:main~1")
    filled.rename("#7", "before")
    assert (filled.run("main").id, filled.run("main~1").id, filled.run("before").id) == (8, 7, 7)


@pytest.mark.parametrize(
    ("reference", "number"), [("commit:a1b2c3d4", 1), ("branch:topic/x", 4), ("name:topic/y", 5)]
)
def test_a_reference_may_say_what_it_is(filled: History, reference: str, number: int) -> None:
    assert filled.run(reference).id == number
    with pytest.raises(UnknownNameError):
        filled.run(f"name:{reference.partition(':')[2]}x")


def test_a_run_gets_another_name_or_none(filled: History) -> None:
    assert filled.rename("#1", "first").name is None
    assert filled.run("first").id == 1
    assert filled.rename("base", None).id == 4
    assert [filled.run("base").id, filled.run("#4").name] == [2, None]
    for name in ("last", "#1", "name:x", ""):
        with pytest.raises(UsageError, match="cannot be the name of a run"):
            filled.rename("#1", name)


def test_a_branch_that_was_only_run_with_changes_names_that_run(filled: History) -> None:
    with pytest.raises(UnknownNameError, match="no run of an unchanged 'wip'") as caught:
        filled.run("wip")
    assert "#6 is of wip with changes" in str(caught.value.hint)


def test_a_misspelt_name_is_proposed(filled: History) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'base'"):
        filled.run("bsae")


@pytest.mark.parametrize("digits", ["9" * 19, "9" * 23, "9" * 5000])
@pytest.mark.parametrize("form", ["{}", "#{}", "last~{}"])
def test_a_number_that_no_file_can_hold_is_of_no_run(
    filled: History, form: str, digits: str
) -> None:
    with pytest.raises(UnknownNameError, match="There is no run"):
        filled.run(form.format(digits))


def test_a_commit_may_begin_with_many_digits(history: History) -> None:
    history.save(report(1), git=GitState("1234567890" * 4, "main", False))
    assert history.run("1234567890" * 3).id == 1


def test_a_run_is_found_by_the_number_that_save_returned(history: History) -> None:
    number = history.save(report(1))
    assert history.find(number) == report(1)
    with pytest.raises(UnknownNameError, match=r"There is no run '#10{30}'"):
        history.find(10**30)
    assert history.remove(number).id == 1


def test_a_word_that_is_no_utf8_is_no_run(filled: History) -> None:
    with pytest.raises(UnknownNameError, match="There is no run"):
        filled.run("\udcff")


@pytest.mark.parametrize("reference", ["", "#", "#x", "~1", " ", -1, 1.0, None, True])
def test_what_is_no_reference_is_refused(filled: History, reference: Any) -> None:
    with pytest.raises(UsageError, match="does not name a run"):
        filled.run(reference)


@pytest.mark.parametrize("limit", [-1, 1.5, "2"])
def test_a_limit_that_is_no_number_of_runs_is_refused(filled: History, limit: Any) -> None:
    assert filled.runs(limit=0) == []
    with pytest.raises(UsageError, match=r"limit=.* is out of range: 0 or more"):
        filled.runs(limit=limit)


@pytest.mark.parametrize(
    "name", ["", " a", "last", "12", "#1", "-x", "a~1", "a\nb", "a.json", "x" * 201, 5]
)
def test_a_name_by_which_a_run_could_not_be_found_is_refused(history: History, name: Any) -> None:
    with pytest.raises(UsageError, match="cannot be the name"):
        history.save(report(), name)
    assert not history.path.exists()


@pytest.mark.parametrize("run", [5, "last", None])
def test_only_a_run_is_loaded(filled: History, run: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a Run\.") as caught:
        filled.load(run)
    assert caught.value.hint == "find() takes a number or a name"


def test_what_is_no_report_is_not_kept(history: History) -> None:
    with pytest.raises(UsageError, match=r"'r\.json' is not a Report"):
        history.save("r.json")  # type: ignore[arg-type]
    assert not history.path.exists()


# -- several processes ------------------------------------------------------------------------


def save_many(path: Path, first: int, count: int, begin: Barrier) -> None:
    begin.wait(30)
    for i in range(first, first + count):
        History(path, timeout_s=30.0).save(report(i), f"run-{i}")


def test_nothing_is_lost_when_two_processes_save_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    begin = context.Barrier(2)
    workers = [
        context.Process(target=save_many, args=(path, first, 50, begin)) for first in (0, 50)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    history = History(path)
    assert sorted(run.id for run in history.runs()) == list(range(1, 101))
    assert all(history.find(f"run-{i}") == report(i) for i in range(0, 100, 7))


def test_who_reads_does_not_wait_for_who_writes(history: History) -> None:
    history.save(report(1))
    with closing(sqlite3.connect(history.path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM runs")
        assert history.find("last") == report(1)


def test_who_writes_waits_for_the_other(history: History) -> None:
    history.save(report(1))
    with closing(
        sqlite3.connect(history.path, isolation_level=None, check_same_thread=False)
    ) as writer:
        writer.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, writer.execute, ["COMMIT"])
        release.start()
        assert history.save(report(2)) == 2
        release.join()


LOCKER = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path) -> Iterator[int]:
    command = [sys.executable, "-c", LOCKER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"locked\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()
            process.wait(10)


def test_a_locked_history_is_given_up_in_time_and_names_who_has_it(history: History) -> None:
    history.save(report(1))
    with locked(history.path) as pid:
        quick = History(history.path, timeout_s=0.2)
        with pytest.raises(HistoryError, match=r"was locked for 0\.2 s") as caught:
            quick.save(report(2))
        assert f" (pid {pid}) has it" in caught.value.message
        assert quick.find("last") == report(1)


# -- disks and files --------------------------------------------------------------------------


def test_a_full_disk_is_told_and_what_was_kept_stays(history: History) -> None:
    history.save(report(1))
    size = history.path.stat().st_size
    large = report(2, shapes="".join(chr(0x4E00 + i * 7919 % 20000) for i in range(40_000)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"cannot be written: .*disk"):
            history.save(large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert [run.id for run in history.runs()] == [1]
    assert history.save(large) == 2
    assert history.find("last") == large


def test_a_disk_without_any_room_is_told() -> None:
    with pytest.raises(HistoryError, match="cannot be written"):
        History("/dev/full/history.sqlite").save(report())
    with pytest.raises(HistoryError, match="is not a regular file"):
        History("/dev/full").save(report())


def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    for action in (History(tmp_path).runs, lambda: History(tmp_path).save(report())):
        with pytest.raises(HistoryError, match="is a folder"):
            action()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match=r"cannot be written: (Not a directory|File exists)"):
        History(tmp_path / "file" / "history.sqlite").save(report())


@contextmanager
def without_permission() -> Iterator[None]:
    """Be nobody for a while: to root every file and folder can be written."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only() -> Iterator[History]:
    """A history with one run, in a folder that cannot be written."""
    # Not in tmp_path, whose parents nobody may enter.
    with tempfile.TemporaryDirectory(prefix="boardprof-test-") as folder:
        kept = History(Path(folder) / "history.sqlite", timeout_s=0.5)
        kept.save(report(1))
        kept.path.chmod(0o444)
        Path(folder).chmod(0o555)
        yield kept
        Path(folder).chmod(0o755)


def test_a_history_on_a_read_only_disk_can_be_read_and_not_written(read_only: History) -> None:
    with without_permission():
        assert read_only.find("last") == report(1)
        with pytest.raises(HistoryError, match="cannot be written: it is read-only"):
            read_only.save(report(2))
        with pytest.raises(HistoryError, match="cannot be written: Permission denied"):
            History(read_only.path.parent / "new" / "history.sqlite").save(report(2))
    assert [run.id for run in read_only.runs()] == [1]


def test_a_history_in_a_folder_that_may_not_be_entered_is_told(
    read_only: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(read_only.path))
    read_only.path.parent.chmod(0o600)
    with without_permission():
        with pytest.raises(HistoryError, match="cannot be read: Permission denied"):
            read_only.runs()
        with pytest.raises(HistoryError, match="cannot be read: Permission denied"):
            [*like_runs(report(2))]


def test_a_run_on_another_cpu_is_not_the_one_before(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(history.path))
    xeon, epyc = (
        report_of({"cycles": [2]}, facts={**HARDWARE, "cpu": f"x86_64, {name}"})
        for name in ("Intel(R) Xeon(R) Processor (6-207-2)", "AMD EPYC (25-1-1)")
    )
    for each in (xeon, epyc):
        history.save(each)
    assert [found.label for found in like_runs(xeon)] == ["#1"]
    assert [found.label for found in like_runs(epyc)] == ["#2"]


def test_what_is_no_database_is_told_and_left_alone(history: History) -> None:
    history.path.parent.mkdir()
    text = "Not a database, but somebody's notes. " * 50
    history.path.write_text(text)
    for action in (history.runs, lambda: history.save(report())):
        with pytest.raises(HistoryError, match="is not a SQLite database") as caught:
            action()
        assert "BOARDPROF_HISTORY" in str(caught.value.hint)
    assert history.path.read_text() == text


def test_another_programs_database_is_told_and_left_alone(history: History) -> None:
    history.path.parent.mkdir()
    with closing(sqlite3.connect(history.path)) as file:
        file.execute("CREATE TABLE songs (name)")
        file.commit()
    for action in (history.runs, lambda: history.save(report())):
        with pytest.raises(HistoryError, match="the database of another program"):
            action()


@pytest.mark.parametrize("version", [3, 99])
def test_another_schema_is_told_and_left_alone(history: History, version: int) -> None:
    history.save(report(1))
    with closing(sqlite3.connect(history.path)) as file:
        file.execute(f"PRAGMA user_version = {version}")
    for action in (history.runs, lambda: history.save(report())):
        with pytest.raises(HistoryError, match=f"its schema is version {version}, .* needs 4"):
            action()


def test_an_empty_file_becomes_a_history(history: History) -> None:
    history.path.parent.mkdir()
    history.path.touch()
    assert history.runs() == []
    assert history.save(report()) == 1


def test_a_damaged_run_is_told_and_the_others_stay(history: History) -> None:
    history.save(report(1))
    history.save(report(2))
    with closing(sqlite3.connect(history.path)) as file:
        file.execute("UPDATE runs SET report = x'00' WHERE id = 2")
        file.commit()
    with pytest.raises(HistoryError, match=r"Run #2 .* is damaged"):
        history.find("last")
    assert history.find("#1") == report(1)


@pytest.mark.parametrize(
    "contents",
    [
        *("NULL", "'{'", "'[1]'", "'{}'", """'{"boards": 7}'""", "CAST(x'ff' AS TEXT)"),
        "replace(hex(zeroblob(9999)), '0', '[')",
    ],
)
def test_a_run_whose_facts_are_damaged_is_listed_and_can_be_removed(
    history: History, contents: str
) -> None:
    history.save(report(1))
    history.save(report(2))
    with closing(sqlite3.connect(history.path)) as file:
        file.execute("PRAGMA writable_schema = 1")  # as a damaged disk, it asks for no permission
        file.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'contents TEXT NOT NULL', 'contents TEXT')"
        )
        file.commit()
    with closing(sqlite3.connect(history.path)) as file:
        file.execute(
            f"UPDATE runs SET contents = {contents}, command = CAST(x'ff' AS TEXT) WHERE id = 2"
        )
        file.commit()
    assert [run.boards for run in history.runs()] == [(), ("board",)]
    assert history.runs()[0].command == "\ufffd"
    assert history.remove("#2").id == 2
    assert [run.id for run in history.runs()] == [1]


@pytest.mark.parametrize("value", ["NULL", "x'ff00'"])
def test_a_run_of_which_every_column_is_damaged_is_listed_and_can_be_removed(
    history: History, value: str
) -> None:
    for number in (1, 2):
        history.save(report(number), "base", git=GitState("3f2a91c0", "main", False))
    with closing(sqlite3.connect(history.path)) as file:
        file.execute("PRAGMA writable_schema = 1")  # as a damaged disk, it asks for no permission
        file.execute("UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '')")
        file.commit()
    columns = ["time", "name", "command", "git_commit", "git_branch", "git_dirty", "version"]
    columns += ["rows", "contents", "report", "project", "failed"]
    with closing(sqlite3.connect(history.path)) as file:
        for column in columns:
            file.execute(f"UPDATE runs SET {column} = {value} WHERE id = 2")
        file.commit()
    done = boardprof("history", environment={"BOARDPROF_HISTORY": str(history.path)})
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == ["#2", "#1"]
    for reference in ("#2", "last"):
        done = boardprof("show", reference, environment={"BOARDPROF_HISTORY": str(history.path)})
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: Run #2 in {history.path} is damaged: ")
    assert history.find("base") == report(1)
    assert history.remove("#2").id == 2
    assert [run.id for run in history.runs()] == [1]


def test_whatever_is_damaged_in_a_history_is_told(history: History) -> None:
    for i in range(8):
        history.save(report(i), f"run-{i}")
    with closing(sqlite3.connect(history.path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = history.path.read_bytes()
    chance = random.Random(19)
    for _ in range(60):
        damaged = bytearray(whole)
        for place in chance.sample(range(len(whole)), chance.choice([3, 30, 300])):
            damaged[place] = chance.randrange(256)
        history.path.write_bytes(
            damaged[: chance.choice([len(whole), chance.randrange(len(whole))])]
        )
        for action in (history.runs, lambda: history.find("run-3"), lambda: history.save(report())):
            with suppress(HistoryError, UnknownNameError, ReportFileError):
                action()


# -- where it is ------------------------------------------------------------------------------


def test_the_history_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "h.sqlite"))
    assert history_place() == tmp_path / "h.sqlite"
    for none in ("off", "OFF", ""):
        monkeypatch.setenv("BOARDPROF_HISTORY", none)
        assert history_place() is None
    monkeypatch.delenv("BOARDPROF_HISTORY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert history_place() == tmp_path / "boardprof" / "history.sqlite"
    for none in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", none)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert history_place() == tmp_path / ".local/share/boardprof/history.sqlite"


def test_a_report_is_found_in_a_file_or_in_the_history(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "h.sqlite"))
    monkeypatch.chdir(tmp_path)
    History(tmp_path / "h.sqlite").save(report(1), "main")
    for name in ("main", "report", "report.json"):
        write_report(report(2), name)
    assert find_report("main") == report(1)  # a run, though there is a file of that name
    assert find_report("./main") == report(2)
    assert find_report("report") == report(2)
    assert find_report("report.json") == report(2)
    assert find_report(Path("main")) == report(2)
    assert find_report(1) == report(1)
    assert find_run("main").label == "#1 (saved as main)"
    assert find_run("./main").label == "main"
    with pytest.raises(ReportFileError, match=r"missing\.json cannot be read"):
        find_report("missing.json")
    with pytest.raises(UnknownNameError, match="There is no run 'nobody'"):
        find_report("nobody")
    monkeypatch.setenv("BOARDPROF_HISTORY", "off")
    assert find_report("report") == report(2)
    with pytest.raises(HistoryError, match="turns it off"):
        find_report("main~1")


def test_a_folder_is_told_in_place_of_a_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "h.sqlite"))
    monkeypatch.chdir(tmp_path)
    Path("build").mkdir()
    for kept in ("of an empty history", "beside a run"):
        with pytest.raises(ReportFileError, match="build is a folder, and there is no run of that"):
            find_report("build")
        with pytest.raises(ReportFileError, match="is a folder"):
            find_report(str(tmp_path))
        History(tmp_path / "h.sqlite").save(report(1), kept)
    History(tmp_path / "h.sqlite").save(report(2), "build")
    assert find_report("build") == report(2)


def test_a_name_too_long_for_a_file_is_no_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "h.sqlite"))
    History(tmp_path / "h.sqlite").save(report(1))
    with pytest.raises(UnknownNameError, match="There is no run 'xxx"):
        find_report("x" * 300)


# -- keeping a run ----------------------------------------------------------------------------


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "h.sqlite"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return tmp_path


def test_a_run_knows_its_commit_branch_and_whether_files_were_changed(here: Path) -> None:
    tree = here / "tree"
    tree.mkdir()
    assert git_state([], tree) is None
    git(tree, "init", "-q", "-b", "main")
    assert git_state([], tree) == GitState("", "main", False)
    (tree / "a.c").write_text("1")
    git(tree, "add", "a.c")
    git(tree, "commit", "-q", "-m", "a")
    commit = git(tree, "rev-parse", "HEAD")
    (tree / "untracked").write_text("")
    assert git_state([], tree) == GitState(commit, "main", False)
    (tree / "a.c").write_text("2")
    assert git_state([], tree) == GitState(commit, "main", True)
    git(tree, "checkout", "-q", "--detach")
    assert git_state([], tree) == GitState(commit, "", True)


def test_without_git_a_run_is_kept_all_the_same(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(here))
    notes: list[str] = []
    assert keep_run(report(3), name="x", command=["boardprof", "run"], on_note=notes.append) == 1
    run = History(here / "h.sqlite").run("x")
    assert (run.git, run.command) == (None, "boardprof run")
    assert notes == [
        "the run is kept without a commit: git is not installed. Try: install the package git "
        "(Debian: apt install git)",
        f"{here}/h.sqlite did not exist: a new history starts with this run",
    ]


def test_a_git_that_does_not_answer_is_not_waited_for(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = here / "git"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}:/usr/bin:/bin")
    monkeypatch.setattr("boardprof.results.history.run._TIMEOUT_S", 0.1)
    assert git_state([], here) is None
    assert keep_run(report(), name="x", on_note=[].append) == 1
    with pytest.raises(HistoryError, match=r"git did not answer in \. within 0\.1 s"):
        find_run("x")
    assert find_run("#1").report == report()


def test_it_is_said_why_a_run_is_not_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(here))
    with pytest.raises(UsageError) as caught:
        keep_run(report(), on_note=[].append)
    assert str(caught.value).startswith(f"the run was not kept: The history {here} is a folder.")


def test_with_the_history_turned_off_nothing_is_kept_and_nothing_said(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", "off")
    notes: list[str] = []
    assert keep_run(report(), on_note=notes.append) is None
    assert notes == []
    check_save_name(None)
    with pytest.raises(HistoryError, match="turns it off"):
        check_save_name("pr-118")


def test_the_work_tree_of_a_run_is_that_of_the_folder() -> None:
    state = git_state([], ROOT)
    assert state is None or len(state.commit) in (0, 40, 64)
