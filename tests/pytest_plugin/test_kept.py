# SPDX-License-Identifier: Apache-2.0
"""What a session of pytest keeps in the history: of which sources, and for which repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.results.history.store import History
from tests.pytest_plugin.suite import SQUARE, Suite
from tests.support import git, requires_tool

ELSEWHERE = """
def test_square(boardprof):
    boardprof("../code/square.c:square", 3, repeat=2)
"""


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which repositories can be made, whatever is around it."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return tmp_path


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.mark.board("native")
def test_a_session_has_the_commit_of_its_sources_and_the_project_of_its_folder(apart: Path) -> None:
    code = repository(apart / "code")
    (code / "square.c").write_text("int square(int x) { return x * x; }\n")
    git(code, "add", "square.c")
    git(code, "commit", "-q", "-m", "square")
    suite = Suite(repository(apart / "tests"))
    suite.write("test_square.py", ELSEWHERE)
    ran = suite.run("-q", "-n", "1", "--bp-board", "native", "--bp-require-board")
    assert ran.code == 0, ran.out
    run = History(suite.folder / "history.sqlite").run("last")
    assert run.git is not None
    assert run.git.commit == git(code, "rev-parse", "HEAD")
    assert (run.git.branch, run.git.is_dirty) == ("", False)
    assert run.project == f"{apart}/tests/.git"  # nothing was committed there yet


MEASURING = """
def test_square(boardprof):
    boardprof("square.c:square", 3, repeat=2)
"""


def test_a_header_that_git_does_not_track_is_a_change(apart: Path) -> None:
    suite = Suite(repository(apart / "code"))
    suite.write("square.c", '#include "c.h"\nint square(int x) { return x * x + C; }\n')
    suite.write("c.h", "#define C 0\n")
    suite.write("test_square.py", MEASURING)
    suite.write(".gitignore", "/c.h\n")
    git(suite.folder, "add", "-f", "square.c", "c.h")
    git(suite.folder, "commit", "-q", "-m", "with the header")
    assert suite.run("-n", "1").code == 0
    git(suite.folder, "rm", "-q", "--cached", "c.h")
    git(suite.folder, "commit", "-q", "-m", "without the header")
    assert suite.run("-n", "1").code == 0
    states = [run.git for run in History(suite.folder / "history.sqlite").runs()]
    assert [state and state.is_dirty for state in states] == [True, False]


ON_RISCV = """
import pytest

@pytest.mark.board("qemu-rv32")
@pytest.mark.boardprof(fail_if=["instructions:max>0"], warmup=0, repeat=3)
def test_square(boardprof):
    boardprof("square.c:square", 12)
"""


@pytest.mark.board("qemu-rv32")
def test_a_session_that_regressed_is_not_the_baseline_of_the_next(apart: Path) -> None:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    suite = Suite(repository(apart / "code"))
    suite.write("test_square.py", ON_RISCV)
    git(suite.folder, "add", "square.c", "test_square.py")
    git(suite.folder, "commit", "-q", "-m", "fast")
    assert suite.run().code == 0
    suite.write("square.c", SQUARE.replace("return", '__asm__ volatile("nop"); return'))
    git(suite.folder, "commit", "-q", "-a", "-m", "slow")
    for _ in range(2):
        ran = suite.run("--bp-compare", "main")
        assert ran.code == 1, ran.out
        assert " (instructions:max>0)" in ran.out
    runs = [*History(suite.folder / "history.sqlite").runs()]
    assert [run.has_failed for run in runs] == [True, True, False]
    assert [run.git and run.git.is_dirty for run in runs] == [False, False, False]


FAILING = """
def test_square(boardprof):
    boardprof("square.c:square", 3, repeat=2)

def test_other():
    assert not FAILS
"""


def test_a_session_that_failed_is_kept_without_the_name(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    suite.write("test_square.py", FAILING.replace("FAILS", "False"))
    saved = suite.run("--bp-save", "base")
    assert saved.code == 0, saved.out
    suite.write("test_square.py", FAILING.replace("FAILS", "True"))
    for n in (2, 3):
        ran = suite.run("--bp-compare", "base", "--bp-save", "base")
        assert ran.code == 1, ran.out
        assert f"note: kept as #{n}, not as base: the session failed" in ran.out
        assert "Compared with #1 (saved as base) without a rule" in ran.out
    assert [run.name for run in History(tmp_path / "history.sqlite").runs()] == [None, None, "base"]


def test_a_session_with_an_error_is_kept_without_the_name(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    suite.write("test_square.py", FAILING.replace("FAILS", "False"))
    assert suite.run("--bp-save", "base").code == 0
    gate = ("--bp-compare", "base", "--bp-fail-if", "Duration (us)>1000000%")
    suite.write("test_other.py", FAILING.replace("FAILS", "False"))
    (tmp_path / "test_square.py").unlink()
    ran = suite.run(*gate, "--bp-save", "base", "-n", "1")
    assert ran.code == 1, ran.out
    assert "2 passed" in ran.out
    assert "note: kept as #2, not as base: the session failed" in ran.out


BROKEN_OFF = """
import pytest
EXIT

@pytest.mark.parametrize("n", [1, 2, 3])
def test_square(boardprof, n):
    if n == 2:
        stop()
    boardprof("square.c:square", n, repeat=2)
"""


@pytest.mark.parametrize(
    ("stop", "workers", "code"),
    [
        ("pytest.exit('done', returncode=0)", [], 0),
        ("raise KeyboardInterrupt", ["-n", "1"], 2),
    ],
)
def test_a_session_that_is_broken_off_is_kept_once_without_the_name(
    tmp_path: Path, stop: str, workers: list[str], code: int
) -> None:
    suite = Suite(tmp_path)
    suite.write("test_square.py", BROKEN_OFF.replace("EXIT", f"def stop():\n    {stop}\n"))
    ran = suite.run("--bp-save", "base", *workers)
    assert ran.code == code, ran.out
    assert "note: kept as #1, not as base: the session was interrupted" in ran.out
    assert "died" not in ran.out
    history = History(tmp_path / "history.sqlite")
    assert [run.name for run in history.runs()] == [None]
    assert [row["Argument Shapes"] for row in history.find("last").calls] == ["x=1", "x=1"]
