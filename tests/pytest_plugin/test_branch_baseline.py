# SPDX-License-Identifier: Apache-2.0
"""Sessions that are compared with a branch, which other sessions measure on, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.results.history.store import History
from tests.pytest_plugin.suite import SQUARE, Suite
from tests.support import git

TEST = """\
import pytest
@pytest.mark.board("native")
@pytest.mark.boardprof(fail_if=["Duration (us)>1e6spread"], repeat=5)
def test_{name}(boardprof):
    boardprof("{name}.c:{name}", 12)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Two functions with a test each, in a repository on the branch main."""
    made = Suite(tmp_path)
    made.write("cube.c", SQUARE.replace("square", "cube"))
    for name in ("square", "cube"):
        made.write(f"test_{name}.py", TEST.format(name=name))
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "two functions")
    return made


def kept(suite: Suite) -> list[tuple[tuple[str, ...], bool]]:
    """The functions of each session, and whether it failed, the oldest first."""
    history = History(suite.folder / "history.sqlite", folder=suite.folder)
    return [(run.functions, run.has_failed) for run in history.runs()][::-1]


def test_a_session_of_another_job_is_not_the_baseline_and_does_not_lock_the_gate(
    suite: Suite,
) -> None:
    assert suite.run("test_square.py").code == 0
    first = suite.run("--bp-compare", "main", "test_cube.py")
    assert first.code == 0, first.out
    assert (
        "warning: not compared: no clean run of main like this session was kept before, so no "
        "change can fail a test"
    ) in first.out
    second = suite.run("--bp-compare", "main", "test_cube.py", "--bp-require-baseline")
    assert second.code == 1, second.out
    assert "a spread needs 5 earlier runs of the branch since its last change, and there is 1" in (
        second.out
    )
    assert "#2 (branch main" not in second.out.partition("no matching run")[2]
    assert kept(suite) == [(("square",), False), (("cube",), False), (("cube",), False)]


def test_a_session_that_lacks_its_baseline_fails_where_it_is_required_and_counts(
    suite: Suite,
) -> None:
    assert suite.run("test_square.py").code == 0
    first = suite.run("--bp-compare", "branch:main", "test_cube.py", "--bp-require-baseline")
    assert first.code == 1, first.out
    assert "not compared: the branch main has no matching run of cube by this test" in first.out
    failing = TEST.format(name="cube") + "    assert False\n"
    suite.write("test_cube.py", failing)
    git(suite.folder, "commit", "-q", "-a", "-m", "a test that fails")
    assert suite.run("--bp-compare", "main", "test_cube.py").code == 1
    assert kept(suite) == [(("square",), False), (("cube",), False), (("cube",), True)]


def test_a_rule_that_cannot_be_checked_says_nothing_about_the_runs_of_the_branch(
    suite: Suite,
) -> None:
    plain = TEST.replace('fail_if=["Duration (us)>1e6spread"], ', "").format(name="cube")
    suite.write("test_plain.py", plain)
    assert suite.run("test_plain.py").code == 0
    wrong = suite.run("--bp-compare", "main", "--bp-fail-if", "instruct>0", "test_plain.py")
    assert wrong.code == 1
    assert "the rule instruct>0 cannot be check" in wrong.out
    assert "no clean run of main" not in wrong.out
