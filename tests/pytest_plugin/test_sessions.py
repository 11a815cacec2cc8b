# SPDX-License-Identifier: Apache-2.0
"""A session as a whole against its baseline, in a pytest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pytest_plugin.suite import Ran, Suite

GATE = ("--bp-compare", "old.json", "--bp-fail-if", "Duration (us)>1000000%")
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
    ran = suite.run(*GATE, "-n", "2", "--rootdir", str(suite.folder.parent))
    assert ran.code == 1, ran.out
    assert "2 passed" in ran.out
    assert "ERROR: nothing could be compared with old.json" in ran.out
    assert "the same root folder (--rootdir)" in ran.out


def test_without_a_rule_the_comparison_is_shown(suite: Suite) -> None:
    ran = suite.run("--bp-compare", "old.json", "-n", "2")
    assert ran.code == 0, ran.out
    assert "Compared with old.json without a rule: 8 metrics: " in ran.out
    assert "No change can fail a test. To set rules: --bp-fail-if RULE" in ran.out


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
    text = f"{who}: 1 measurement of old.json was not repeated: test_two.py::test_two"
    assert text in ran.out


def is_nothing_measured(ran: Ran) -> bool:
    told = "ERROR: nothing was measured, so nothing could be compared with old.json and no test can"
    return (ran.code, told in ran.out) == (1, True)


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_session_whose_tests_are_all_skipped_fails_with_the_reason(
    suite: Suite, workers: list[str]
) -> None:
    ran = suite.run(*GATE, "--bp-port", "/dev/ttyNothing", *workers)
    assert is_nothing_measured(ran), ran.out
    assert "2 skipped" in ran.out
    assert "These tests now: 2 of 2 skipped: Port /dev/ttyNothing does not exist" in ran.out
    assert "(--bp-require-board makes this a failure)" in ran.out


def test_a_session_in_which_the_measuring_tests_are_gone_fails(suite: Suite) -> None:
    (suite.folder / "test_two.py").unlink()
    suite.write("test_one.py", "def test_one():\n    pass\n")
    ran = suite.run(*GATE)
    assert is_nothing_measured(ran), ran.out
    assert "These tests now: 2 of 2 are gone or measured nothing." in ran.out


def test_the_rule_of_a_skipped_tests_marker_is_a_rule_too(suite: Suite) -> None:
    marked = "import pytest\n@pytest.mark.boardprof(fail_if='Duration (us)>1000000%')\n"
    suite.write("test_one.py", marked + ONE)
    ran = suite.run("--bp-compare", "old.json", "--bp-port", "/dev/ttyNothing")
    assert is_nothing_measured(ran), ran.out


RULED = "import pytest\n@pytest.mark.boardprof(fail_if='Duration (us)>1000000%')\n"
SKIPPED = {
    "marker": f"{RULED}@pytest.mark.skip(reason='not now')\n{ONE}",
    "fixture": f"{RULED}{ONE}\n@pytest.fixture(autouse=True)\n"
    "def first():\n    pytest.skip('not now')\n",
}


@pytest.mark.parametrize(("by", "workers"), [("marker", ["-n", "1"]), ("fixture", [])])
def test_the_rule_of_a_test_that_is_skipped_before_our_fixture_is_a_rule_too(
    suite: Suite, by: str, workers: list[str]
) -> None:
    suite.write("test_one.py", SKIPPED[by])
    (suite.folder / "test_two.py").unlink()
    ran = suite.run("--bp-compare", "old.json", *workers)
    assert is_nothing_measured(ran), ran.out
    assert (
        "These tests now: 1 of 2 skipped: not now; 1 of 2 are gone or measured nothing." in ran.out
    )


LEAVING_OUT = """\
def pytest_collection_modifyitems(items):
    items[:] = [each for each in items if each.name == "test_other"]
"""


@pytest.mark.parametrize("chosen", [["-k", "other", "-n", "1"], []])
def test_the_rule_of_a_test_that_is_deselected_is_none(suite: Suite, chosen: list[str]) -> None:
    suite.write("test_one.py", f"{SKIPPED['marker']}\ndef test_other():\n    pass\n")
    if not chosen:  # as plugins do that tell nobody which tests they leave out
        suite.write("conftest.py", LEAVING_OUT)
    ran = suite.run("--bp-compare", "old.json", *chosen)
    assert ran.code == 0, ran.out
    assert "note: nothing was measured, so nothing is compared with old.json" in ran.out


def test_a_note_cannot_control_the_terminal(suite: Suite) -> None:
    suite.write("test_one.py", f"{SKIPPED['marker']}\ndef test_other():\n    pass\n")
    (suite.folder / "old.json").rename(suite.folder / "o\x1b[31mld.json")
    ran = suite.run("--bp-compare", "o\x1b[31mld.json", "-k", "other")
    assert "nothing is compared with o\\x1b[31mld.json" in ran.out


@pytest.mark.parametrize("chosen", [["test_other.py"], ["-k", "other"], ["--collect-only"]])
def test_a_session_that_was_to_measure_nothing_is_no_failure(
    suite: Suite, chosen: list[str]
) -> None:
    suite.write("test_other.py", "def test_other():\n    pass\n")
    ran = suite.run(*GATE, *chosen)
    assert ran.code == 0, ran.out
    assert "ERROR" not in ran.out
    is_noted = "note: nothing was measured, so nothing is compared with old.json" in ran.out
    assert is_noted == (chosen != ["--collect-only"])


# -- the first run ----------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_first_run_warns_that_there_is_nothing_to_compare_with(
    suite: Suite, workers: list[str]
) -> None:
    gate = ("--bp-compare", "main", "--bp-fail-if", "Duration (us)>1000000%", "--bp-save", "main")
    ran = suite.run(*gate, *workers)
    told = "--bp-compare-if-present compares nothing before the first run"
    assert (ran.code, told in ran.out) == (4, True), ran.out
    ran = suite.run(*gate, "--bp-compare-if-present", *workers)
    assert ran.code == 0, ran.out
    warning = "warning: there is no main to compare with, so no change can fail a test"
    assert ran.out.count(warning) == 1
    ran = suite.run(*gate, "--bp-compare-if-present", *workers)
    assert ran.code == 0, ran.out
    assert "warning:" not in ran.out


def test_a_baseline_file_may_be_missing_in_a_first_run(suite: Suite) -> None:
    gate = ("--bp-baseline", "base.json", "--bp-compare-if-present")
    ran = suite.run(*gate)
    assert ran.code == 0, ran.out
    assert "base.json to compare with" in ran.out
    suite.write("base.json", "{")
    assert suite.run(*gate).code == 4


@pytest.mark.parametrize("others", [[], ["--bp-compare", "main", "--bp-require-baseline"]])
def test_a_first_run_that_is_allowed_needs_a_run_that_is_not_required(
    suite: Suite, others: list[str]
) -> None:
    ran = suite.run("--bp-compare-if-present", *others)
    assert ran.code == 4
    assert "--bp-compare-if-present needs --bp-compare or --bp-baseline" in ran.out
