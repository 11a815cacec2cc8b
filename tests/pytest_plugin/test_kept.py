# SPDX-License-Identifier: Apache-2.0
"""What a session of pytest keeps in the history: of which sources, and for which repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from boardprof.history.store import History
from tests.pytest_plugin.suite import Suite

ELSEWHERE = """
def test_square(boardprof):
    boardprof("../code/square.c:square", 3, repeat=2)
"""


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = ["git", "-C", str(folder), *identity, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    return done.stdout.strip()


@pytest.mark.board("native")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed (Debian: git)")
def test_a_session_is_of_the_repository_of_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for name in ("code", "tests"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q", "-b", "main")
    (tmp_path / "code" / "square.c").write_text("int square(int x) { return x * x; }\n")
    git(tmp_path / "code", "add", "square.c")
    git(tmp_path / "code", "commit", "-q", "-m", "square")
    suite = Suite(tmp_path / "tests")
    suite.write("test_square.py", ELSEWHERE)
    ran = suite.run("-q", "-n", "1", "--bp-board", "native", "--bp-require-board")
    assert ran.code == 0, ran.out
    run = History(suite.folder / "history.sqlite").run("last")
    assert run.git is not None
    assert run.git.commit == git(tmp_path / "code", "rev-parse", "HEAD")
    assert (run.git.repository, run.git.is_dirty) == (f"{tmp_path}/code/.git", False)
    assert run.started_in == f"{tmp_path}/tests/.git"
