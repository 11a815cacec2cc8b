# SPDX-License-Identifier: Apache-2.0
"""What `run` and `show` print where nobody asks for the table: what a call costs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import Outcome, boardprof
from tests.support import git, requires_tool

SOURCE = """\
unsigned count(unsigned n) {
    unsigned sum = 0;
    for (volatile unsigned i = 0; i < n; i++) sum += STEP;
    return sum;
}
"""


@pytest.fixture
def history(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "count.c").write_text(SOURCE)
    return {"BOARDPROF_HISTORY": str(tmp_path / "history.sqlite"), "BOARDPROF_TABLE": "", "CI": ""}


def show(history: dict[str, str], *words: str) -> str:
    folder = Path(history["BOARDPROF_HISTORY"]).parent
    return boardprof("show", "last", *words, environment=history, folder=folder).out


def run(
    history: dict[str, str],
    *words: str,
    step: int = 1,
    target: str = "count.c:count",
    n: int = 100,
    cwd: Path | None = None,
) -> Outcome:
    folder = cwd or Path(history["BOARDPROF_HISTORY"]).parent
    return boardprof(
        *("run", target, f"n={n}", f"-DSTEP={step}", *words),
        environment=history,
        folder=folder,
    )


def test_a_run_says_what_a_call_costs_and_what_it_is_kept_as(history: dict[str, str]) -> None:
    # Long enough for a busy machine, which may add a warning.
    answer, *_, origin = run(history, n=20_000).out.splitlines()
    assert answer.startswith("count(n=20000) on native: ")
    assert re.search(r": [\d.,]+ ± [\d.]+ us per call(;|$)", answer)
    assert re.match(
        r"Median ± (half the interquartile range|the overhead's uncertainty) "
        r"of 10 samples( \([^)]*us\))? after",
        origin,
    )
    assert " after 10 to 19 warm-up calls on native; " in origin
    assert origin.endswith("; kept as #1.")


def test_the_next_run_tells_the_change_unless_it_is_quiet_or_a_ci_job(
    history: dict[str, str],
) -> None:
    first = run(history).out
    assert " since " not in first
    assert " since #1" in run(history).out
    assert " since " not in run(history, "-q").out
    assert " since " not in run({**history, "CI": "true"}).out


def test_a_run_of_other_flags_arguments_or_board_is_not_compared_with(
    history: dict[str, str],
) -> None:
    run(history)
    assert " since " not in run(history, "--cflags=-Os").out
    assert " since " not in run(history, "-b", "linux").out
    assert " since #1" in run(history).out


def test_a_run_with_more_calls_in_a_sample_is_not_compared_with(history: dict[str, str]) -> None:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    board = ("-b", "qemu-rv32")
    run(history, *board)
    assert "since" not in run(history, *board, "--number", "3").out
    assert " since #1" in run(history, *board).out


def test_several_calls_of_one_that_changes_an_array_are_not_compared_with_one(
    history: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "more.c").write_text("void more(int *x) { x[0]++; }\n")
    words = ("run", "more.c:more", "x=[1]:ones")
    for more, told in (((), False), (("--number", "100"), False), (("--number", "1"), True)):
        done = boardprof(*words, *more, environment=history, folder=tmp_path)
        assert (" since #1" in done.out) is told, done.out


def test_a_function_of_that_name_in_another_file_is_not_compared_with(
    history: dict[str, str], tmp_path: Path
) -> None:
    run(history)
    (tmp_path / "other.c").write_text(SOURCE)
    first = run(history, target="other.c:count").out
    assert " since " not in first
    assert " since #2" in run(history, target="other.c:count").out
    assert " since #1" in run(history).out


def test_a_file_of_that_name_in_another_folder_is_not_compared_with(
    history: dict[str, str], tmp_path: Path
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "loop.c").write_text(SOURCE)
    assert " since " not in run(history, target="a/loop.c:count").out
    assert " since " not in run(history, target="b/loop.c:count").out
    assert " since #1" in run(history, target="a/loop.c:count").out
    assert " since #2" in run(history, target=f"{tmp_path}/b/loop.c:count").out


def test_a_file_of_a_repository_is_the_same_in_each_folder_and_clone(
    history: dict[str, str], tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, one / "src"):
        folder.mkdir()
        (folder / "loop.c").write_text(SOURCE)
    git(one, "init", "-q")
    git(one, "add", ".")
    git(one, "commit", "-qm", "1")
    git(tmp_path, "clone", "-q", "one", "other")

    assert " since " not in run(history, target="loop.c:count", cwd=one).out
    assert " since " not in run(history, target="loop.c:count", cwd=one / "src").out
    assert " since #2" in run(history, target="src/loop.c:count", cwd=one).out
    assert " since #1" in run(history, target="../loop.c:count", cwd=one / "src").out
    assert " since #4" in run(history, target="loop.c:count", cwd=other).out


def test_verbose_and_show_add_the_configuration(history: dict[str, str]) -> None:
    assert "\nConfiguration\n" in run(history, "-v").out
    shown = show(history)
    assert "\nConfiguration\n" not in shown
    assert shown.startswith("count(n=100) on native: ")
    assert "\nConfiguration\n" in show(history, "--configuration")


def test_the_table_is_there_when_it_is_asked_for(history: dict[str, str]) -> None:
    assert run(history, "--table").out.split()[:3] == ["Name", "Duration", "(us)"]
    assert show(history, "--table").startswith("Name ")


def test_metrics_that_were_asked_for_are_told(history: dict[str, str]) -> None:
    assert " page-faults" in run(history, "--metrics", "page-faults").out.splitlines()[0]
    assert " page-faults" not in run(history).out.splitlines()[0]
