# SPDX-License-Identifier: Apache-2.0
"""``--bp-baseline FILE``: a file that is committed; ``--bp-update-baseline`` writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.pytest_plugin.suite import Suite

TEST = """\
def test_{name}(boardprof):
    boardprof("square.c:square", {argument}, repeat=12)
"""
RULE = ("--bp-fail-if", "stack>0")
BOARD = ("--bp-board", "native", "--bp-baseline", "base.json")


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    found = Suite(tmp_path)
    for name in ("one", "two"):
        found.write(f"test_{name}.py", TEST.format(name=name, argument=7))
    return found


def labels(suite: Suite) -> list[str]:
    content = json.loads((suite.folder / "base.json").read_text())
    return [each["label"] for each in content["measurements"]]


def test_a_session_writes_it_and_later_ones_are_held_against_it(suite: Suite) -> None:
    missing = suite.run(*BOARD)
    assert missing.code == 4
    assert "base.json does not exist: --bp-update-baseline writes it" in missing.out
    made = suite.run(*BOARD, "--bp-update-baseline", *RULE)
    assert made.code == 0, made.out
    assert "note: base.json was written: 2 rows added" in made.out
    assert labels(suite) == ["test_one.py::test_one", "test_two.py::test_two"]
    held = suite.run(*BOARD, *RULE, "--bp-require-baseline")
    assert held.code == 0, held.out
    file = suite.folder / "base.json"
    file.write_text(re.sub(r'"Stack \(bytes\)": \d+', '"Stack (bytes)": 999', file.read_text()))
    changed = suite.run(*BOARD, "--bp-fail-if", "stack<-10")
    assert changed.code == 1
    assert "REGRESSION (stack<-10)" in changed.out
    assert "base.json" in changed.out


def test_an_update_of_some_tests_leaves_the_others(suite: Suite) -> None:
    assert suite.run(*BOARD, "--bp-update-baseline").code == 0
    suite.write("test_two.py", TEST.format(name="other", argument=9))
    one = suite.run(*BOARD, "--bp-update-baseline", "-k", "one")
    assert (one.code, ", 1 kept" in one.out) == (0, True)
    assert labels(suite) == ["test_one.py::test_one", "test_two.py::test_two"]
    whole = suite.run(*BOARD, "--bp-update-baseline")
    assert (whole.code, ", 1 removed" in whole.out) == (0, True)
    assert labels(suite) == ["test_one.py::test_one", "test_two.py::test_other"]


def test_an_update_leaves_the_rows_of_the_command(suite: Suite) -> None:
    assert suite.run(*BOARD, "--bp-update-baseline").code == 0
    file = suite.folder / "base.json"
    content = json.loads(file.read_text())
    row = {**content["measurements"][0], "function": "measured_by_run"}
    del row["label"]
    content["measurements"].append(row)
    file.write_text(json.dumps(content))
    again = suite.run(*BOARD, "--bp-update-baseline")
    assert (again.code, ", 1 kept" in again.out) == (0, True), again.out
    names = [each["function"] for each in json.loads(file.read_text())["measurements"]]
    assert sorted(names) == ["measured_by_run", "square", "square"]


def test_a_session_that_failed_leaves_it_as_it_was(suite: Suite) -> None:
    assert suite.run(*BOARD, "--bp-update-baseline").code == 0
    before = (suite.folder / "base.json").read_bytes()
    suite.write("test_two.py", TEST.format(name="two", argument=9) + "    assert False\n")
    failed = suite.run(*BOARD, "--bp-update-baseline")
    assert failed.code == 1
    assert "note: base.json was not written: the session failed" in failed.out
    assert (suite.folder / "base.json").read_bytes() == before


def test_a_damaged_file_is_told_before_the_first_test(suite: Suite) -> None:
    (suite.folder / "base.json").write_text('{"kind": "boardprof.baseline"')
    ran = suite.run(*BOARD, "--bp-update-baseline")
    assert (ran.code, "base.json: this is not JSON: " in ran.out) == (4, True)
    assert (suite.folder / "base.json").read_text() == '{"kind": "boardprof.baseline"'


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--bp-update-baseline"], "--bp-update-baseline needs a file to write: add --bp-baseline"),
        (["--bp-fail-if", "stack>0"], "--bp-fail-if needs something to compare with: add --bp"),
        ([*BOARD, "--bp-compare", "last"], "--bp-compare and --bp-baseline cannot be combined"),
    ],
)
def test_options_that_do_not_go_together_are_told_first(
    suite: Suite, options: list[str], told: str
) -> None:
    ran = suite.run(*options)
    assert ran.code == 4
    assert told in ran.out
