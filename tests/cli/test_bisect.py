# SPDX-License-Identifier: Apache-2.0
"""``boardprof run --against RUN --fail-if RULE``, also as the real ``git bisect run`` runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.results.report.report_file import write_report
from boardprof.ui.cli import main
from boardprof.ui.cli.exit_codes import for_bisect
from tests.cli.command import BOARDPROF, boardprof
from tests.support import git, requires_tool
from tests.unit.reports import report_of

GATE = ("--fail-if", "instructions:max>0")
MEASURED = ("-b", "qemu-rv32", "work.c:work", "n=8", "--metrics", "instructions", "--repeat", "2")
FAST = "uint32_t work(uint32_t n) { return n * 2u; }\n"
SLOW = "uint32_t work(uint32_t n) { for (volatile uint32_t i = 0; i < n; i++); return n * 2u; }\n"
BROKEN = "uint32_t work(uint32_t n) { return n *; }\n"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of ten commits: the seventh is slower, the third and the fifth do not build."""
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "history.sqlite"))
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in range(1, 11):
        text = BROKEN if number in (3, 5) else SLOW if number >= 7 else FAST
        (folder / "work.c").write_text(f"#include <stdint.h>\n/* {number} */\n{text}")
        git(folder, "add", "work.c")
        git(folder, "commit", "-q", "-m", f"number {number}")
        git(folder, "tag", f"n{number}")
    return folder


@pytest.mark.slow
def test_git_bisect_run_finds_the_slower_commit_and_skips_those_that_do_not_build(
    world: Path,
) -> None:
    git(world, "checkout", "-q", "n1")
    saved = boardprof("run", "-q", *MEASURED, "--save", "good", folder=world)
    assert saved.code == 0, saved.err
    git(world, "bisect", "start", "n10", "n1")
    judge = [*BOARDPROF, "run", "-q", *MEASURED, "--against", "good", *GATE, "--bisect"]
    done = subprocess.run(
        ["git", "bisect", "run", *judge],
        cwd=world,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(world, "rev-parse", "refs/bisect/bad") == git(world, "rev-parse", "n7")
    log = git(world, "bisect", "log")
    assert "# skip: " in log
    skipped = {line.rpartition(" ")[2] for line in log.splitlines() if line.startswith("# skip: ")}
    assert skipped <= {"3", "5"}


@pytest.mark.slow
def test_without_bisect_the_exit_codes_are_ours(world: Path) -> None:
    git(world, "checkout", "-q", "n1")
    assert boardprof("run", "-q", *MEASURED, "--save", "good", folder=world).code == 0
    for tag, ours, gits in (("n6", 0, 0), ("n5", 7, 125), ("n10", 1, 1)):
        git(world, "checkout", "-q", tag)
        done = boardprof("run", "-q", *MEASURED, "--against", "good", *GATE, folder=world)
        assert done.code == ours, done.out + done.err
        command = ("run", "-q", *MEASURED, "--against", "good", *GATE, "--bisect")
        assert boardprof(*command, folder=world).code == gits
    assert "REGRESSION (instructions:max>0)" in done.out
    assert "Before: #1 (saved as good)" in done.out
    assert "After:  this run" in done.out


def test_of_all_exit_codes_git_sees_those_that_it_knows() -> None:
    """Also of one that nobody foresaw: from 128 on `git bisect run` stops (git-bisect(1))."""
    ours = (0, 1, 2, 3, 4, 5, 6, 7, 8, 70, 130)
    assert [for_bisect(code) for code in ours] == [0, 1, *[125] * 8, 130]


def test_what_cannot_be_judged_here_is_neither_good_nor_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong options or settings, no such run, no such function: all of them end with 125."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.c").write_text("int f(int n) { return n; }\n")
    write_report(report_of({"instructions": [5]}, device="qemu-rv32"), "old.json")
    run = ["run", "-b", "native", "f.c:f", "n=1", "--bisect"]
    gate = ["--against", "old.json", *GATE]
    for command, told in (
        (run, "--bisect needs a run to compare with and a rule."),
        ([*run, "--against", "old.json"], "--bisect needs a run to compare with and a rule."),
        ([*run, *gate, "--nonsense"], "No such option"),
        ([*run, "--against", "gone.json", *GATE], "gone.json cannot be read"),
        ([*run, "--against", "old.json", "--fail-if", "instructions"], "has no '>' or '<'"),
        ([*run[:3], "f.c:g", *run[4:], *gate], "no function 'g'"),
        ([*run, *gate], "The Reports are from different boards: qemu-rv32 before, native after."),
    ):
        assert main(command) == 125, command
        assert told in capsys.readouterr().err
    (tmp_path / "boardprof.toml").write_text("nonsense = 1\n")
    assert main([*run, *gate]) == 125
    assert "nonsense is not a setting" in capsys.readouterr().err


def test_a_run_that_holds_nothing_is_not_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a rule is for what only the new run has, nobody can say that the commit is good."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.c").write_text("int f(int n) { return n; }\n")
    run = ["run", "-b", "native", "f.c:f", "n=1"]
    assert main([*run, "--json", "old.json"]) == 0
    rows = Path("old.json").read_text()
    Path("old.json").write_text(rows.replace("Stack (bytes)", "Other (bytes)"))
    gate = ["--against", "old.json", "--fail-if", "stack>0"]
    assert main([*run, *gate]) == 2
    assert main([*run, *gate, "--bisect"]) == 125


def test_a_rule_needs_something_to_compare_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.c").write_text("int f(int n) { return n; }\n")
    run = ["run", "-b", "native", "f.c:f", "n=1"]
    assert main([*run, *GATE]) == 2
    assert "--fail-if needs a run to compare with" in capsys.readouterr().err
    # In a file of settings a rule may be for `boardprof compare` alone.
    (tmp_path / "boardprof.toml").write_text('fail-if = "instructions>0"\nfail-if-missing = true\n')
    assert main(run) == 0


def test_a_run_that_broke_a_rule_is_nobodys_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a session of pytest that regressed: the next run is held against the same one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "history.sqlite"))
    (tmp_path / "f.c").write_text("int f(int n) { return n; }\n")
    run = ["run", "-b", "native", "f.c:f", "n=1", "--metrics", "duration_time"]
    assert main([*run, "--save", "base", "--json", "old.json"]) == 0
    (tmp_path / "f.c").write_text(
        "int f(int n) { volatile char a[999]; for (int i = 0; i < 999; i++) a[i] = 1; return n; }\n"
    )
    gate = ["--against", "base", "--fail-if", "stack>0"]
    assert main([*run, *gate, "--save", "base"]) == 1
    assert "warning: kept as #2, not as base: the run failed" in capsys.readouterr().err
    assert main([*run, *gate]) == 1
    assert "Before: #1 (saved as base)" in capsys.readouterr().out


@pytest.mark.slow
def test_the_first_run_of_all_passes_and_the_next_is_held_against_it(world: Path) -> None:
    gated = ("run", "-q", *MEASURED, "--against", "branch:main", *GATE)
    git(world, "checkout", "-q", "-B", "main", "n6")
    first = boardprof(*gated, folder=world)
    assert (first.code, first.err) == (0, "")
    assert first.out.endswith(
        "Result: not compared; no clean run of main like this one was kept before, so nothing is "
        "gated\n"
    )
    same = boardprof(*gated, folder=world)
    assert same.code == 0, same.err
    assert "Result: no regression" in same.out
    git(world, "checkout", "-q", "-b", "topic", "n7")
    assert boardprof(*gated, folder=world).code == 1


@pytest.mark.slow
def test_a_run_that_does_not_exist_yet_is_a_warning_if_that_is_allowed(world: Path) -> None:
    run = ("run", "-q", *MEASURED, "--save", "base", "--against", "base", *GATE)
    assert boardprof(*run, folder=world).code == 2
    first = boardprof(*run, "--against-if-present", folder=world)
    assert first.code == 0, first.err
    assert "warning: there is no run base yet, so no rule is checked" in first.err
    second = boardprof(*run, "--against-if-present", folder=world)
    assert (second.code, second.err) == (0, "")
    assert "Result: no regression" in second.out
    alone = boardprof("run", *MEASURED, "--against-if-present", folder=world)
    assert alone.code == 2
    assert "--against-if-present needs --against" in alone.err


@pytest.mark.slow
def test_a_first_run_fails_where_nothing_may_be_missing_and_is_kept_as_clean(world: Path) -> None:
    gated = ("run", "-q", *MEASURED, "--against", "branch:main", *GATE, "--fail-if-missing")
    git(world, "checkout", "-q", "-B", "main", "n6")
    assert [boardprof(*gated, folder=world).code for _ in range(2)] == [1, 0]


@pytest.mark.slow
def test_a_branch_with_nothing_but_changed_sources_does_not_pass_its_gate_for_ever(
    world: Path,
) -> None:
    git(world, "checkout", "-q", "-B", "main", "n6")
    (world / "work.c").write_text(f"#include <stdint.h>\n{FAST}")
    gated = ("run", "-q", *MEASURED, "--against", "branch:main", *GATE)
    first, second = (boardprof(*gated, folder=world) for _ in range(2))
    assert (first.code, second.code) == (0, 2)
    assert "commit and run again" in second.err


@pytest.mark.slow
def test_another_branch_than_those_with_runs_is_a_mistake(world: Path) -> None:
    git(world, "checkout", "-q", "-B", "main", "n6")
    assert boardprof("run", "-q", *MEASURED, folder=world).code == 0
    done = boardprof("run", "-q", *MEASURED, "--against", "branch:mian", *GATE, folder=world)
    assert done.code == 2
    assert "There is no run 'branch:mian'" in done.err
