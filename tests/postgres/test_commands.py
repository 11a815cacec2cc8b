# SPDX-License-Identifier: Apache-2.0
"""The commands with a history on PostgreSQL, and its exchange with one in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from boardprof.results.history.run import GitState
from boardprof.results.history.store import History
from tests.cli.command import Outcome, boardprof
from tests.postgres.server import PASSWORD, Server
from tests.unit.reports import report_of

GIT = GitState("a1b2c3d4" * 5, "main", is_dirty=False)


def command(history: str | Path, *words: str, folder: Path, **more: str) -> Outcome:
    environment = {"BOARDPROF_HISTORY": str(history), **more}
    done = boardprof(*words, environment=environment, folder=folder)
    for secret in (PASSWORD, "s3cr", "%C3%A9t"):
        assert secret not in done.out + done.err
    return done


def facts(history: History) -> list[tuple[object, ...]]:
    runs = [(r.time, r.name, r.command, r.git, r.has_failed, r.functions) for r in history.runs()]
    return [(*run, history.load(each)) for run, each in zip(runs, history.runs(), strict=True)]


def shown(url: str) -> str:
    """Return a URL as messages have it."""
    head, _, tail = url.partition("://lab:")
    return f"{head}://lab@{tail.rpartition('@')[2]}"


@pytest.fixture
def desk(tmp_path: Path) -> History:
    """A history in a file, with three runs."""
    history = History(tmp_path / "desk.sqlite")
    history.save(report_of({"cycles": [100]}), "base", "boardprof run", git=GIT)
    history.save(report_of({"cycles": [101]}), git=GIT, has_failed=True)
    history.save(report_of({"cycles": [120]}), "slow")
    return history


def test_runs_are_pushed_and_pulled_and_are_there_once(
    url: str, desk: History, tmp_path: Path
) -> None:
    assert desk.path is not None
    for added in (3, 0):
        pushed = command(
            desk.path, "history", "push", folder=tmp_path, BOARDPROF_SHARED_HISTORY=url
        )
        told = f"note: {shown(url)}: added {added} of 3 runs; {3 - added} already there\n"
        assert (pushed.code, pushed.out, pushed.err) == (0, "", told)
    assert facts(History(url)) == facts(desk)
    other = tmp_path / "other.sqlite"
    for words, count in ((["base"], 1), (["#1", "slow"], 2), (["--all"], 3)):
        pulled = command(
            other, "history", "pull", *words, folder=tmp_path, BOARDPROF_SHARED_HISTORY=url
        )
        assert (pulled.code, History(other).count()) == (0, count)
    assert sorted(facts(History(other)), key=str) == sorted(facts(desk), key=str)


def test_a_history_that_is_the_teams_exchanges_with_the_default_file(
    url: str, desk: History, tmp_path: Path
) -> None:
    desk.copy(desk.runs(), History(url))
    home = str(tmp_path / "home")
    pulled = command(url, "history", "pull", folder=tmp_path, XDG_DATA_HOME=home)
    assert pulled.code == 0
    assert facts(History(tmp_path / "home" / "boardprof" / "history.sqlite")) == facts(desk)
    assert command(url, "history", "path", folder=tmp_path).out == f"{shown(url)}\n"


def test_the_commands_do_the_same_as_with_a_file(url: str, desk: History, tmp_path: Path) -> None:
    desk.copy(desk.runs(), History(url))
    listed = command(url, "history", "--limit", "2", folder=tmp_path)
    assert [line.split()[0] for line in listed.out.splitlines()] == ["Run", "#3", "#2", "2"]
    assert listed.out.endswith("2 of 3 runs; --limit N shows more, --limit 0 all\n")
    found = command(url, "history", "show", "base", "--csv", folder=tmp_path)
    assert found.out.splitlines()[1] == '"n=64",1,"board","fir",100'
    rule = ("--fail-if", "cycles>10%")
    compared = command(url, "compare", "main", "slow", *rule, folder=tmp_path)
    assert (compared.code, "#3 (saved as slow)" in compared.out) == (1, True)
    assert command(url, "history", "rename", "#3", "slower", folder=tmp_path).code == 0
    assert command(url, "history", "remove", "slower", folder=tmp_path).code == 0
    exported = command(url, "history", "export", "--all", folder=tmp_path)
    assert [json.loads(line).get("name") for line in exported.out.splitlines()] == [
        *(None, None, "base")
    ]


def test_a_run_is_kept_on_the_server_and_is_compared_with_the_last_one(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "f.c").write_text("int twice(int n) { return 2 * n; }\n")
    words = ("run", "-q", "-b", "native", "f.c:twice", "n=3", "--repeat", "5")
    assert command(url, *words, "--save", "first", folder=tmp_path).code == 0
    second = command(url, *words, "--against", "first", folder=tmp_path)
    assert (second.code, "Result: no rule" in second.out) == (0, True)
    assert [run.name for run in History(url).runs()] == [None, "first"]


def test_who_may_only_read_compares_and_measures_and_cannot_save_a_name(
    server: Server, url: str, desk: History, tmp_path: Path
) -> None:
    desk.copy(desk.runs(), History(url))
    name = url.rpartition("/")[2]
    server.execute(name, f"CREATE ROLE {name}_ci LOGIN PASSWORD 'r'")
    server.execute(name, f"GRANT USAGE ON SCHEMA boardprof TO {name}_ci")
    server.execute(name, f"GRANT SELECT ON ALL TABLES IN SCHEMA boardprof TO {name}_ci")
    ci = server.url(name, f"{name}_ci", "r")
    assert command(ci, "compare", "base", "slow", folder=tmp_path).code == 0
    (tmp_path / "f.c").write_text("int twice(int n) { return 2 * n; }\n")
    words = ("run", "-b", "native", "f.c:twice", "n=3", "--repeat", "5", "--no-warnings")
    measured = command(ci, *words, folder=tmp_path)
    assert (measured.code, measured.out.startswith("Name")) == (0, True)
    assert "the run was not kept: The history postgresql://" in measured.err
    refused = command(ci, *words, "--save", "mine", folder=tmp_path)
    assert (refused.code, "cannot be written by this user" in refused.err) == (2, True)
    assert History(url).count() == 3


def test_errors_do_not_show_the_password(server: Server, tmp_path: Path) -> None:
    wrong = server.url("postgres", password="s3cr%C3%A9twrong")
    gone = f"postgresql://lab:s3cr%C3%A9twrong@127.0.0.1:1/{'x' * 9}"
    nowhere = server.url("nowhere")
    for url, why in (
        (wrong, "password authentication failed"),
        (gone, "refused"),
        (nowhere, '"nowhere" does not exist'),
    ):
        done = command(url, "history", folder=tmp_path)
        assert (done.code, why in done.err, "Try: " in done.err) == (2, True, True)
    broken = command("postgresql://lab:s3cr/x@host/db", "history", folder=tmp_path)
    assert (broken.code, "not a valid PostgreSQL URL" in broken.err) == (2, True)
    debug = command(wrong, "history", "--debug", folder=tmp_path)
    assert debug.code == 2


def test_a_password_on_the_command_line_is_refused(url: str, desk: History, tmp_path: Path) -> None:
    assert desk.path is not None
    done = command(desk.path, "history", "push", "--shared-history", url, folder=tmp_path)
    assert (done.code, "--shared-history has a password" in done.err) == (2, True)
    plain = url.replace(url.partition("://lab:")[2].rpartition("@")[0], "").replace("lab:@", "lab@")
    words = ("history", "push", "--shared-history", plain)
    pushed = command(desk.path, *words, folder=tmp_path, PGPASSWORD=PASSWORD)
    assert (pushed.code, History(url).count()) == (0, 3)


def test_a_password_in_a_settings_file_is_refused(desk: History, tmp_path: Path) -> None:
    assert desk.path is not None
    settings = tmp_path / "boardprof.toml"
    settings.write_text('shared-history = "postgresql://ada:s3cret@127.0.0.1:1/runs"\n')
    done = command(desk.path, "history", "push", folder=tmp_path)
    assert (done.code, done.err) == (
        2,
        "error: The setting shared-history has a password, which all readers of the file can see.\n"
        "Try: put it into ~/.pgpass or PGPASSWORD, and leave it out of the URL\n",
    )
    settings.write_text('shared-history = "postgresql://ada@127.0.0.1:1/runs"\n')
    plain = command(desk.path, "history", "push", folder=tmp_path)
    assert (plain.code, "refused" in plain.err, "setting" in plain.err) == (2, True, False)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("postgresql:/ada:s3cret@127.0.0.1:1/runs", "The URL of the history is not valid."),
        ("postgres:ada:s3cret@127.0.0.1:1/runs", "The URL of the history is not valid."),
        ("//ada:s3cret@127.0.0.1:1/runs", "The URL of the history is not valid."),
        ("ada:s3cr/et@127.0.0.1:1/runs", "The URL of the history is not valid."),
        ("host=127.0.0.1 user=ada password=s3cret dbname=runs", "cannot be given as host=..."),
        ("password = s3cret", "cannot be given as host=..."),
    ],
)
@pytest.mark.parametrize("words", [("history",), ("run", "-b", "native", "f.c:f")])
def test_text_that_is_almost_a_url_is_refused_without_its_password(
    value: str, told: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "f.c").write_text("int f(int n) { return n; }\n")
    done = command(value, *words, folder=tmp_path)
    assert (done.code, done.out, told in done.err) == (2, "", True)
    assert "Try: postgresql://USER@HOST:PORT/DATABASE" in done.err
    assert [file.name for file in tmp_path.iterdir()] == ["f.c"]


def test_a_file_may_have_a_colon_an_at_sign_or_an_equals_sign(tmp_path: Path) -> None:
    for name in ("a=b.sqlite", "12:30.sqlite", "me@home.sqlite"):
        done = command(name, "history", "path", folder=tmp_path)
        assert (done.code, done.out.endswith(f"{name}\n")) == (0, True)


def test_without_a_team_there_is_nothing_to_push_to(desk: History, tmp_path: Path) -> None:
    assert desk.path is not None
    done = command(desk.path, "history", "push", folder=tmp_path)
    assert (done.code, "No history of a team is known." in done.err) == (2, True)
    words = ("history", "pull", "--shared-history", "x.sqlite")
    assert "needs a URL" in command(desk.path, *words, folder=tmp_path).err


def test_without_its_packages_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sqlalchemy.py").write_text("raise ImportError\n")
    url = "postgresql://lab:s3cr@127.0.0.1/x"
    done = command(url, "history", folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.code, done.out) == (7, "")
    assert done.err == (
        "error: A history on PostgreSQL needs packages that are not installed: "
        "boardprof[postgres].\nTry: pip install 'boardprof[postgres]'\n"
    )


def test_another_package_may_bring_a_kind_of_history(tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text(
        "from pathlib import Path\n"
        "from boardprof.results.history.sqlite import SqliteDatabase\n"
        "def opened(url, timeout_s):\n"
        "    return SqliteDatabase(Path(url.removeprefix('lab://')), timeout_s)\n"
    )
    info = tmp_path / "lab-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[boardprof.histories]\nlab = lab:opened\n")
    History(tmp_path / "h.sqlite").save(report_of({"cycles": [1]}), "kept")
    words = ("history", "show", "kept", "--csv")
    done = command(f"lab://{tmp_path}/h.sqlite", *words, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.code, "fir" in done.out) == (0, True)
