# SPDX-License-Identifier: Apache-2.0
"""A history in a PostgreSQL database behaves as one in a file, for many writers and readers."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg
import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.results.history.databases import Choice
from boardprof.results.history.postgres.server import PostgresDatabase, PostgresRuns
from boardprof.results.history.run import GitState, HistoryError, StoredRun, read_file
from boardprof.results.history.store import History
from boardprof.results.report.report import Report
from tests.postgres.server import Server
from tests.support import ROOT
from tests.unit.reports import report_of

A, B = "a1b2c3d4" * 5, "a1b2ffff" * 5


def report(cycles: int = 1, **options: str) -> Report:
    return report_of({"cycles": [cycles]}, **options)  # type: ignore[arg-type]


def filled(history: History) -> History:
    history.save(report(1), git=GitState(A, "main", False))
    history.save(report(2), "base", git=GitState(B, "main", False))
    history.save(report(3), git=GitState(B, "main", True))
    history.save(report(4), "base", git=GitState(B, "topic/x", False))
    history.save(report(5, device="m3", name="g"), git=GitState("12345678" * 5, "", True))
    history.save(report(6), git=GitState("0" * 40, "wip", False), has_failed=True)
    return history


def test_runs_are_found_by_the_same_references_as_in_a_file(url: str) -> None:
    history = filled(History(url))
    expected = {
        **{"#1": 1, "2": 2, "last": 6, "last~1": 5, "last~5": 1, "base": 4, "base~1": 2},
        **{"main": 2, "main~1": 1, "topic/x": 4, "a1b2": 4, "A1B2C3D4": 1, "a1b2~2": 1},
        **{"branch:main": 2, "name:base": 4, "commit:a1b2c3": 1},
    }
    assert {ref: history.run(ref).id for ref in expected} == expected
    assert [history.find(ref) for ref in ("main", "base~1")] == [report(2)] * 2
    for missing in ("#7", "last~6", "base~2", "main~2", "nobody", "a1b2d", "12345678", "wip"):
        with pytest.raises(UnknownNameError):
            history.run(missing)
    assert [run.id for run in history.runs(function="fir", limit=2)] == [6, 4]
    assert [run.id for run in history.runs(board="m3")] == [5]
    assert (history.count(), history.count(board="board"), history.count(function="h")) == (6, 5, 0)
    assert history.run("#3").git == GitState(B, "main", is_dirty=True)


def test_runs_are_renamed_and_removed_and_no_number_is_used_twice(url: str) -> None:
    history = filled(History(url))
    assert history.rename("#1", "first").name is None
    assert history.run("first").id == 1
    assert history.rename("base", None).id == 4
    assert history.run("base").id == 2
    assert history.remove("#6").id == 6
    assert history.save(report(7)) == 7
    assert [run.id for run in history.runs()] == [7, 5, 4, 3, 2, 1]


def test_results_of_tuning_are_kept_and_replaced(url: str) -> None:
    history = History(url)
    assert history.results(["a"]) == {}
    history.keep_results({"b": "2", "a": "1"})
    history.keep_results({"a": "3"})
    assert history.results(["a", "b", "c"]) == {"a": "3", "b": "2"}


def test_a_database_without_runs_is_not_changed_by_reading(server: Server, url: str) -> None:
    history = History(url)
    assert history.runs() == []
    with pytest.raises(HistoryError, match="nothing was kept in postgresql://lab@127"):
        history.find("last")
    name = url.rpartition("/")[2]
    assert server.execute(name, "SELECT 1 FROM pg_namespace WHERE nspname = 'boardprof'") == []


def test_text_that_the_server_cannot_store_does_not_lose_a_run(url: str, tmp_path: Path) -> None:
    kept = report(1, name="f\0\udcff\u202e", device="b\0")
    line = {
        **{"time": "2026-01-01T00:00:00Z", "name": None, "command": "a\0b", "project": "p\0"},
        **{"commit": None, "branch": None, "dirty": None, "version": "0", "failed": False},
        "report": json.loads(kept.json()),
    }
    file = tmp_path / "runs.jsonl"
    file.write_text('{"kind": "boardprof.history", "version": 1}\n' + json.dumps(line) + "\n")
    history = History(url)
    for added in (1, 0):
        assert history.add(read_file(str(file))) == added
    assert history.find("last") == kept
    run = history.run("last")
    assert (run.command, run.functions) == ("a\ufffdb", ("f\ufffd?\u202e",))
    assert history.runs(function="f\0\udcff\u202e") == []  # it is kept under the other spelling


# -- several processes ------------------------------------------------------------------------


def save_many(url: str, first: int, begin: Barrier) -> None:
    begin.wait(30)
    for i in range(first, first + 10):
        History(url, timeout_s=30.0).save(report(i), f"run-{i}")


def in_processes(target: Callable[..., None], each: list[tuple[object, ...]]) -> None:
    context = multiprocessing.get_context("fork")
    begin = context.Barrier(len(each))
    workers = [context.Process(target=target, args=(*args, begin)) for args in each]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * len(each)


def test_nothing_is_lost_when_eight_processes_begin_an_empty_database_at_once(url: str) -> None:
    in_processes(save_many, [(url, first) for first in range(0, 80, 10)])
    history = History(url)
    runs = history.runs()
    assert sorted(run.name or "" for run in runs) == sorted(f"run-{i}" for i in range(80))
    assert len({run.id for run in runs}) == 80
    assert all(history.find(f"run-{i}") == report(i) for i in range(0, 80, 13))


def add_all(url: str, records: list[StoredRun], begin: Barrier) -> None:
    begin.wait(30)
    History(url, timeout_s=30.0).add(records)


def test_runs_that_two_processes_import_at_once_are_there_once(url: str, tmp_path: Path) -> None:
    source = filled(History(tmp_path / "h.sqlite"))
    records = [*source.records()]
    in_processes(add_all, [(url, records), (url, records), (url, records)])
    assert History(url).count() == 6


def test_who_reads_does_not_wait_for_who_writes(url: str) -> None:
    history = filled(History(url))
    with psycopg.connect(url) as writer:
        writer.execute("DELETE FROM boardprof.runs")
        assert history.find("main") == report(2)
        writer.rollback()


# -- migrations -------------------------------------------------------------------------------


def test_the_migrations_are_those_of_the_versions(url: str) -> None:
    from alembic.script import ScriptDirectory

    from boardprof.results.history.postgres.server import FOLDER, VERSIONS

    scripts = [each.revision for each in ScriptDirectory(FOLDER).walk_revisions()]
    assert tuple(reversed(scripts)) == VERSIONS
    assert History(url).upgrade() == "its tables have version 0001 now; before, there were none"
    assert History(url).upgrade() == "its tables already have version 0001"


LATER = """
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute("ALTER TABLE boardprof.runs ADD COLUMN place text NOT NULL DEFAULT 'lab'")
    op.execute("UPDATE boardprof.runs SET place = 'desk' WHERE name IS NULL")
    op.execute("{last}")
"""


def with_a_later_revision(monkeypatch: pytest.MonkeyPatch, folder: Path, last: str) -> None:
    """Let this boardprof have one revision more, whose last statement is given."""
    from boardprof.results.history.postgres import server

    shutil.copytree(server.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "0002_place.py").write_text(LATER.format(last=last))
    monkeypatch.setattr(server, "FOLDER", folder)
    monkeypatch.setattr(server, "VERSIONS", ("0001", "0002"))


def test_a_database_of_the_first_revision_is_upgraded_with_its_runs(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = filled(History(url))
    runs, reports = kept.runs(), kept.load_all(kept.runs())
    kept.keep_results({"key": "result"})
    name = url.rpartition("/")[2]
    places = "SELECT id, place FROM boardprof.runs ORDER BY id"
    with monkeypatch.context() as patched:
        with_a_later_revision(patched, tmp_path / "migrations", "ANALYZE boardprof.runs")
        later = History(url)
        needed = "has tables of version 0001, this boardprof needs 0002"
        for action in (later.runs, lambda: later.save(report())):
            with pytest.raises(HistoryError, match=needed) as caught:
                action()
            assert "boardprof history upgrade" in str(caught.value.hint)
        done = later.upgrade()
        assert done == "its tables have version 0002 now; before, they had version 0001"
        assert (later.runs(), later.load_all(later.runs())) == (runs, reports)
        assert later.results(["key"]) == {"key": "result"}
        assert later.save(report(7)) == runs[0].id + 1
        assert [place for _, place in server.execute(name, places)] == [
            *("desk", "lab", "desk", "lab", "desk", "desk", "lab")
        ]
        assert later.upgrade() == "its tables already have version 0002"
    with pytest.raises(HistoryError, match="has tables of version 0002") as caught:
        History(url).runs()
    assert caught.value.hint == "install a newer boardprof"


def test_an_upgrade_that_fails_half_way_changes_nothing(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = filled(History(url)).runs()
    with monkeypatch.context() as patched:
        with_a_later_revision(patched, tmp_path / "migrations", "SELECT 1 / 0")
        with pytest.raises(HistoryError, match="cannot be upgraded: division by zero"):
            History(url).upgrade()
    assert History(url).runs() == runs
    columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'boardprof'"
    assert ("place",) not in server.execute(url.rpartition("/")[2], columns)


def test_tables_of_a_newer_boardprof_are_not_touched(server: Server, url: str) -> None:
    history = filled(History(url))
    name = url.rpartition("/")[2]
    server.execute(name, "UPDATE boardprof.alembic_version SET version_num = '9999'")
    for action in (history.runs, lambda: history.save(report()), history.upgrade):
        with pytest.raises(HistoryError, match="has tables of version 9999") as caught:
            action()
        assert caught.value.hint == "install a newer boardprof"


# -- users, and a server that does not answer -------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("DELETE FROM boardprof.alembic_version", "boardprof.alembic_version has 0 rows"),
        ("DROP TABLE boardprof.alembic_version", "boardprof.alembic_version is missing"),
        (
            "INSERT INTO boardprof.alembic_version VALUES ('0000')",
            "boardprof.alembic_version has 2 rows",
        ),
        ("DROP TABLE boardprof.runs", 'relation "boardprof.runs" does not exist'),
    ],
)
def test_tables_without_their_version_are_not_taken_for_an_empty_history(
    server: Server, url: str, damage: str, told: str
) -> None:
    history = filled(History(url))
    server.execute(url.rpartition("/")[2], damage)
    actions = [history.runs, lambda: history.find("main"), lambda: history.save(report())]
    for action in (*actions, *([] if damage.endswith(".runs") else [history.upgrade])):
        with pytest.raises(HistoryError, match="are not as boardprof has made them") as caught:
            action()
        assert f": {told}. " in str(caught.value)
        assert "server runs" not in str(caught.value.hint)
        assert "boardprof.alembic_version" in str(caught.value.hint)


def test_a_run_with_a_null_among_its_names_is_listed_without_it(server: Server, url: str) -> None:
    history = History(url)
    history.save(report())
    null = "UPDATE boardprof.runs SET boards = ARRAY[NULL, 'b'], functions = '{NULL}'"
    server.execute(url.rpartition("/")[2], null)
    assert [(run.boards, run.functions) for run in history.runs()] == [(("b",), ())]


def test_a_version_table_without_rows_and_tables_is_an_empty_history(
    server: Server, url: str
) -> None:
    name = url.rpartition("/")[2]
    server.execute(name, "CREATE SCHEMA boardprof")
    server.execute(name, "CREATE TABLE boardprof.alembic_version (version_num text PRIMARY KEY)")
    assert History(url).runs() == []
    assert len(filled(History(url)).runs()) == 6


@pytest.fixture
def reader(server: Server, url: str) -> History:
    """The history of `filled`, for a user who may only read."""
    filled(History(url))
    name = url.rpartition("/")[2]
    server.execute(name, f"CREATE ROLE {name}_reader LOGIN PASSWORD 'r'")
    server.execute(name, f"GRANT USAGE ON SCHEMA boardprof TO {name}_reader")
    server.execute(name, f"GRANT SELECT ON ALL TABLES IN SCHEMA boardprof TO {name}_reader")
    return History(server.url(name, f"{name}_reader", "r"))


def test_a_user_who_may_only_read_reads_and_is_told_why_nothing_is_written(reader: History) -> None:
    assert reader.find("main") == report(2)
    assert reader.count() == 6
    for action in (
        lambda: reader.save(report()),
        lambda: reader.remove("#1"),
        lambda: reader.rename("#1", "x"),
        lambda: reader.keep_results({"a": "1"}),
    ):
        with pytest.raises(HistoryError, match=r"cannot be written by this user: .*denied") as told:
            action()
        assert "ask the owner for INSERT" in str(told.value.hint)
    assert reader.count() == 6


def test_the_rights_that_the_page_on_gates_gives_suffice(server: Server, url: str) -> None:
    filled(History(url))
    page = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
    name = url.rpartition("/")[2]
    for role in ("reader", "writer"):
        server.execute(name, f"CREATE ROLE {role} LOGIN PASSWORD 'r'")
    grants = re.findall(r"^GRANT .*;$", page, re.MULTILINE)
    assert len(grants) == 3
    for statement in grants:
        server.execute(name, statement)
    writer = History(server.url(name, "writer", "r"))
    assert writer.save(report(7), "new") == 7
    assert writer.remove("#1").id == 1
    writer.keep_results({"a": "1"})
    writer.keep_results({"a": "2"})
    reader = History(server.url(name, "reader", "r"))
    assert (reader.find("new"), reader.results(["a"])) == (report(7), {"a": "2"})


def test_a_user_without_any_right_is_told_what_to_ask_for(server: Server, url: str) -> None:
    filled(History(url))
    name = url.rpartition("/")[2]
    server.execute(name, f"CREATE ROLE {name}_nobody LOGIN PASSWORD 'n'")
    nobody = History(server.url(name, f"{name}_nobody", "n"))
    with pytest.raises(HistoryError, match="cannot be read by this user: permission denied") as one:
        nobody.runs()
    assert one.value.hint == (
        "ask the owner for USAGE on the schema boardprof and SELECT on its tables"
    )
    empty = server.database(f"{name}_empty").rpartition("/")[2]
    with pytest.raises(HistoryError, match="cannot be written by this user") as other:
        History(server.url(empty, f"{name}_nobody", "n")).save(report())
    assert "the owner first runs `boardprof history upgrade`" in str(other.value.hint)


def test_locked_tables_are_given_up_in_time(url: str) -> None:
    filled(History(url))
    history = History(url, timeout_s=0.3)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE boardprof.runs")
        began_s = time.monotonic()
        with pytest.raises(HistoryError, match=r"did not answer within 0\.3 s"):
            history.save(report())
        assert time.monotonic() - began_s < 5
        other.rollback()


def read_from_a_stopped_server(history: History) -> None:
    with history._database.reading() as runs:
        assert isinstance(runs, PostgresRuns)
        pid = runs.connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        os.kill(pid, signal.SIGSTOP)
        try:
            runs.report(1)
        finally:
            os.kill(pid, signal.SIGCONT)


def test_time_that_the_reader_takes_between_answers_does_not_count(url: str) -> None:
    filled(History(url))
    history = History(url, timeout_s=0.5)  # and 2 s in which the server is to say why
    found = []
    with history._database.reading() as runs:
        assert isinstance(runs, PostgresRuns)
        for run in runs.runs(Choice()):
            found.append(run.id)
            if len(found) == 3:
                time.sleep(3)
        assert runs.report(1) is not None
    assert found == [6, 5, 4, 3, 2, 1]


def test_a_server_that_hangs_in_a_transaction_is_given_up_in_time(url: str) -> None:
    filled(History(url))
    history = History(url, timeout_s=0.5)
    began_s = time.monotonic()
    with pytest.raises(HistoryError, match=r"did not answer within 0\.5 s"):
        read_from_a_stopped_server(history)
    assert time.monotonic() - began_s < 10
    assert History(url).find("main") == report(2)


def test_each_of_two_threads_has_a_watch_of_its_own(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One connects slowly, to a server that stops; the other one works for longer than allowed."""
    history = filled(History(url))
    history = History(url, timeout_s=0.5)
    database = history._database
    assert isinstance(database, PostgresDatabase)
    connect = database._connect

    def slowly() -> object:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.5)
        return connect()

    monkeypatch.setattr(database, "_connect", slowly)
    told: list[str] = []

    def stopped() -> None:
        try:
            read_from_a_stopped_server(history)
        except HistoryError as error:
            told.append(error.message)

    thread = threading.Thread(target=stopped)
    thread.start()
    time.sleep(0.2)
    with database.reading() as runs:
        assert isinstance(runs, PostgresRuns)
        for _ in range(16):
            [*runs.execute("SELECT pg_sleep(0.25)")]
    thread.join(20.0)
    assert [text.partition(" did ")[2] for text in told] == ["not answer within 0.5 s."]


# -- the URL ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://lab:s3cret@host:port/db",
        "postgresql://lab:s3cret/x@host/db",
        "postgresql://lab:s3cret:1@[::1/db",
        "postgresql://lab:p@s3cret:5432/a@b",
    ],
)
def test_a_url_that_is_not_valid_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError, match="is not a valid PostgreSQL URL") as caught:
        History(url)
    assert "s3cret" not in str(caught.value)


def test_an_option_of_a_url_that_postgresql_does_not_know_is_named() -> None:
    with pytest.raises(UsageError, match="has the option pasword, which PostgreSQL") as caught:
        History("postgresql://lab:s3cret@host/db?sslmode=require&pasword=s3cret")
    assert "s3cret" not in str(caught.value)


def test_the_name_of_a_history_has_no_secret() -> None:
    named = {
        "postgresql://lab:s3cret@db.lab:5433/runs?sslmode=require": (
            "postgresql://lab@db.lab:5433/runs"
        ),
        "postgres://db.lab/runs?user=lab&password=s3cret": "postgresql://lab@db.lab/runs",
        "postgresql://lab@[fd00::7]:5433/runs": "postgresql://lab@[fd00::7]:5433/runs",
        "postgresql:///runs?host=/run/postgresql": "postgresql:///run/postgresql/runs",
        "postgresql://?service=team": "postgresql://?service=team",
    }
    assert {url: History(url).name for url in named} == named


def test_an_unknown_kind_of_url_is_refused_and_a_file_is_still_a_file(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="There is no kind of history 'mysql://'"):
        History("mysql://lab:s3cret@host/db")
    history = History(tmp_path / "h.sqlite")
    history.save(report())
    with closing(sqlite3.connect(tmp_path / "h.sqlite")) as file:
        assert file.execute("SELECT count(*) FROM runs").fetchone() == (1,)
