# SPDX-License-Identifier: Apache-2.0
"""``--bp-ab`` and ``--bp-ab-rev``: tests that are held against other code, measured in turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from boardprof.results.history.store import History
from tests.pytest_plugin.suite import Suite
from tests.support import git, requires_tool

WORK = """\
unsigned work(unsigned n);
unsigned work(unsigned n) {
    unsigned s = n;
    for (unsigned i = 0; i < n; i++) s = s * 31u + (s >> 7) / (i | 1u);
    return s;
}
"""
TEST = """\
def test_work(boardprof):
    assert boardprof("work.c:work", 500, repeat=2).result == boardprof("work.c:work", 500).result
"""
RULE = ("--bp-fail-if", "instructions>5%")


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "project"
    folder.mkdir()
    found = Suite(folder)
    found.write("work.c", WORK)
    found.write("test_work.py", TEST)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "work.c", "test_work.py")
    git(folder, "commit", "-q", "-m", "work")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_the_working_tree_is_held_against_a_commit(suite: Suite, workers: list[str]) -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    gate = ("--bp-board", "qemu-rv32", "--bp-ab-rev", "HEAD", *RULE, *workers)
    same = suite.run(*gate)
    assert same.code == 0, same.out
    suite.write("work.c", WORK.replace("s * 31u", "s * 31u / 7u"))
    slower = suite.run(*gate)
    assert slower.code == 1
    commit = git(suite.folder, "rev-parse", "HEAD")
    assert f"Before: HEAD ({commit[:8]})" in slower.out
    assert "REGRESSION (instructions>5%)" in slower.out
    assert len(git(suite.folder, "worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_a_failure_says_in_which_functions_and_lines_the_change_is(suite: Suite) -> None:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    options = ("--bp-board", "qemu-rv32", "--bp-hotspots")
    before = suite.run(*options, "--bp-json", "before.json")
    assert before.code == 0, before.out
    suite.write("work.c", WORK.replace("s * 31u", "s * 31u + i"))  # one more instruction a round
    slower = suite.run(*options, "--bp-compare", "before.json", *RULE)
    assert slower.code == 1
    assert "Where instructions of work" in slower.out
    told = next(line for line in slower.out.splitlines() if "work.c:4" in line)
    assert "+500" in told
    without = suite.run("--bp-board", "native", "--bp-hotspots")
    assert without.code == 0, without.out
    assert without.out.count("native is measured without a profile: native runs in this") == 1


def test_two_settings_of_flags_take_ten_sessions_each_on_a_board_that_varies(
    suite: Suite,
) -> None:
    file = suite.folder / "r.json"
    flags = ("--bp-ab=-O0|-O2", "--bp-json", str(file))
    ran = suite.run("--bp-board", "native", *flags, "--bp-fail-if", "stack>1000")
    assert ran.code == 0, ran.out
    assert "judged by the medians of 10 alternating sessions on each side" in ran.out
    kept = json.loads(file.read_text())["boardprof"]["measurements"]
    assert (len(kept), {each["flags"] for each in kept}) == (20, {"-O2"})
    labels = {each["label"] for each in kept}
    assert labels == {"test_work.py::test_work", "test_work.py::test_work #2"}
    assert len(History(suite.folder / "history.sqlite").runs()) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--bp-ab=-O2|-O3", "--bp-ab-rev", "HEAD"], "cannot be combined"),
        (["--bp-ab=-O2|-O3", "--bp-compare", "last"], "cannot be combined"),
    ],
)
def test_what_does_not_go_together_is_told_first(
    suite: Suite, options: list[str], told: str
) -> None:
    ran = suite.run(*options)
    assert (ran.code, told in ran.out) == (4, True), ran.out


def test_a_commit_that_there_is_not_fails_the_test(suite: Suite) -> None:
    ran = suite.run("--bp-board", "native", "--bp-ab-rev", "nowhere")
    assert ran.code == 1
    assert "git does not know the commit 'nowhere'" in ran.out
