# SPDX-License-Identifier: Apache-2.0
"""A session as a whole against its baseline, in a pytest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pytest_plugin.suite import Suite

ONE = """\
def test_one(boardprof):
    boardprof("square.c:square", 12)
"""
TWO = """\
def test_two(boardprof):
    boardprof("square.c:square", 13)
"""


def suite_in(folder: Path) -> Suite:
    suite = Suite(folder)
    suite.write("test_one.py", ONE)
    suite.write("test_two.py", TWO)
    return suite


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What both tests have measured, as a Report's file."""
    suite = suite_in(tmp_path_factory.mktemp("old"))
    ran = suite.run("--bp-json", "old.json")
    assert ran.code == 0, ran.out
    return (suite.folder / "old.json").read_text()


@pytest.fixture
def suite(tmp_path: Path, old: str) -> Suite:
    suite = suite_in(tmp_path)
    suite.write("old.json", old)
    return suite


def test_labels_of_another_root_folder_fail_the_session_of_several_workers(suite: Suite) -> None:
    gate = ("--bp-compare", "old.json", "--bp-fail-if", "Duration (us)>1000000%")
    ran = suite.run(*gate, "-n", "2", "--rootdir", str(suite.folder.parent))
    assert ran.code == 1, ran.out
    assert "2 passed" in ran.out
    assert "ERROR: nothing could be compared with old.json: no change can fail." in ran.out
    assert "the same root folder (--rootdir)" in ran.out


def test_without_a_rule_the_comparison_is_shown(suite: Suite) -> None:
    ran = suite.run("--bp-compare", "old.json", "-n", "2")
    assert ran.code == 0, ran.out
    assert "Compared with old.json without a rule: 8 metrics: " in ran.out
    assert "None of it can fail: --bp-fail-if RULE" in ran.out


@pytest.mark.parametrize(
    ("chosen", "code"), [([], 1), (["test_one.py"], 0), (["-n", "2", "-k", "one"], 0)]
)
def test_a_test_that_is_gone_fails_a_session_of_all_tests_that_requires_the_baseline(
    suite: Suite, chosen: list[str], code: int
) -> None:
    suite.write("test_two.py", "def test_other():\n    pass\n")
    ran = suite.run("--bp-compare", "old.json", "--bp-require-baseline", *chosen)
    assert ran.code == code, ran.out
    who = "ERROR" if code else "note"
    text = f"{who}: 1 measurement of old.json was not made now: test_two.py::test_two"
    assert text in ran.out
