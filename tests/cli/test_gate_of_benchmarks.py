# SPDX-License-Identifier: Apache-2.0
"""A gate on a project's benchmarks: limits, errors beside regressions, benchmarks that are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import boardprof
from tests.pytest_plugin.suite import Suite
from tests.support import requires_tool

SOURCE = """\
int work(int n) { volatile int sum = 0; for (int i = 0; i < n; i++) sum += i; return sum; }
int twice(int n) { return 2 * n; }
"""
COMMON = '[benchmarks]\nboards = ["qemu-rv32"]\nmetrics = ["instructions"]\nrepeat = 2\n'
WORK = '[[benchmark]]\nname = "work"\ntarget = "a.c:work"\narguments = {n = 10}\n'
TWO = '[[benchmark]]\nname = "two"\ntarget = "a.c:twice"\narguments = {n = 10}\n'
RULE = ("--fail-if", "instructions:max>0")
GATE = ("run", "-q", "--against", "base.json", *RULE)
GONE = "twice [two](n=10) on qemu-rv32"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two benchmarks and their baseline."""
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    (tmp_path / "a.c").write_text(SOURCE)
    (tmp_path / "boardprof.toml").write_text(COMMON + WORK + TWO)
    done = boardprof("run", "-q", "--baseline", "base.json", folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    return tmp_path


def test_a_lowered_limit_is_in_all_that_a_reviewer_reads(project: Path) -> None:
    (project / "boardprof.toml").write_text(COMMON + WORK + "limit = {instructions = 20}\n" + TWO)
    files = ("--json", "now.json", "--export", "summary=summary.md", "--export", "junit=junit.xml")
    done = boardprof(*GATE, *files, "--export", "github=-", folder=project)
    assert done.code == 1
    error, notice = done.out.splitlines()
    assert error.startswith(
        "::error file=a.c,line=1,title=Above its limit%3A work::work on qemu-rv32: instructions is "
    )
    assert error.endswith(" per call (median of 2), above its limit of 20")
    assert notice == (
        "::notice title=boardprof::1 value above its limit; no regression; 4 metrics: 4 same."
    )
    summary = (project / "summary.md").read_text()
    assert summary.startswith("### ❌ boardprof: 1 value above its limit; ")
    assert "\n- **Above its limit**: work on qemu-rv32: instructions is " in summary
    assert ' type="above its limit" ' in (project / "junit.xml").read_text()
    # The Report keeps it, for a job that only compares.
    later = boardprof("compare", "base.json", "now.json", *RULE, "--json", "-", folder=project)
    assert later.code == 1
    [told] = json.loads(later.out)["above_limit"]
    assert f"::{told}\n" in done.out


def test_a_regression_is_1_whatever_else_failed_and_missing_rows_are_not(project: Path) -> None:
    worse = SOURCE.replace("sum += i;", "sum += 2 * i + sum;")
    (project / "a.c").write_text(worse.replace("return 2 * n;", "__builtin_trap();"))
    done = boardprof(*GATE, folder=project)
    assert (done.code, "error: " in done.err, "REGRESSION" in done.out) == (1, True, True)
    (project / "a.c").write_text(SOURCE.replace("return 2 * n;", "__builtin_trap();"))
    done = boardprof(*GATE, "--fail-if-missing", folder=project)
    assert (done.code, "NOT JUDGED" in done.out) == (6, True)


def test_a_benchmark_that_is_gone_is_named(project: Path) -> None:
    (project / "boardprof.toml").write_text(COMMON + WORK)
    compared = boardprof(*GATE, "--fail-if-missing", folder=project)
    assert compared.code == 1
    assert f"instructions of {GONE}; it is no longer there." in compared.out
    written = boardprof("run", "-q", "--baseline", "base.json", folder=project)
    assert f"base.json has rows that no benchmark measures: {GONE}." in written.err
    options = ("boardprof.toml", "--bp-benchmarks", "--bp-baseline", "base.json")
    told = f"1 measurement of base.json was not repeated: {GONE}"
    suite = Suite(project)
    noted = suite.run(*options, "--bp-require-board")
    assert (noted.code, f"note: {told}\n" in noted.out) == (0, True), noted.out
    failed = suite.run(*options, "--bp-require-board", "--bp-require-baseline")
    assert (failed.code, f"ERROR: {told} (--bp-require-baseline)\n" in failed.out) == (1, True)
    (project / "boardprof.toml").write_text(COMMON + WORK + TWO)
    chosen = suite.run(*options, "--bp-require-baseline", "-k", "work")
    assert (chosen.code, told in chosen.out) == (0, False), chosen.out
    alone = boardprof("run", "-q", "work", "--baseline", "base.json", folder=project)
    assert (alone.code, alone.err) == (0, "")


def test_reports_of_several_jobs_are_compared_as_one(project: Path) -> None:
    for name in ("work", "two"):
        assert boardprof("run", "-q", name, "--json", f"{name}.json", folder=project).code == 0
    strict = (*RULE, "--fail-if-missing")
    both = boardprof("compare", "base.json", "work.json", "two.json", *strict, folder=project)
    assert both.code == 0, both.err
    assert "After:  work.json, two.json" in both.out
    assert "Result: no regression; 4 metrics: 4 same." in both.out
    one = boardprof("compare", "base.json", "work.json", *strict, folder=project)
    assert (one.code, GONE in one.out) == (1, True)
    twice = boardprof("compare", "base.json", "work.json", "work.json", folder=project)
    assert twice.code == 2
    assert "Two Reports cannot be joined: both have work, measured alike." in twice.err
