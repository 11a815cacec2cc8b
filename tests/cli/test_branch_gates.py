# SPDX-License-Identifier: Apache-2.0
"""Gates against a branch: several jobs share one history, and none of them locks itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.results.history.run import GitState
from boardprof.results.history.run_comparison import BranchRuns
from boardprof.results.history.store import History
from boardprof.results.report.report import Report
from tests.cli.command import Outcome, boardprof
from tests.support import git
from tests.unit.reports import HARDWARE, report_of

GATE = ("--against", "branch:main", "--fail-if", "time>1e6spread")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two functions on the branch main, without any run.

    Their time differs from process to process: on a quiet machine it would have no spread.
    """
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "history.sqlite"))
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for name in ("one", "two"):
        text = (
            f"#include <unistd.h>\nint {name}(int n) {{ volatile int s = 0; "
            "for (int i = getpid() % 61 * 100; i < n; i++) s += i; return n; }\n"
        )
        (folder / f"{name}.c").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "two functions")
    return folder


def measured(world: Path, target: str, *more: str) -> Outcome:
    words = ("run", "-q", "-b", "native", target, "n=20000", "--repeat", "5", *more)
    return boardprof(*words, folder=world)


def kept(world: Path) -> list[bool]:
    """Whether each run has failed, the oldest first."""
    history = History(world.parent / "history.sqlite", folder=world)
    return [run.has_failed for run in history.runs()][::-1]


def test_a_gate_in_spreads_starts_with_an_empty_history(world: Path) -> None:
    first = measured(world, "one.c:one", *GATE)
    assert first.code == 0, first.err
    assert first.out.endswith(
        "Result: not compared; no clean run of main like this one was kept before, so nothing is "
        "gated\n"
    )
    history = History(world.parent / "history.sqlite", folder=world)
    for count, more in (("is 1", ("--fail-if-missing",)), ("are 4", ())):
        few = measured(world, "one.c:one", *GATE, *more)
        assert (few.code, few.err) == (1 if more else 0, "")
        text = " ".join(few.out.split())
        assert (
            f"a spread needs 5 earlier runs of the branch since its last change, and there {count}."
        ) in text
        assert "1 row not judged" in text
        assert "no rule could judge anything, so nothing is gated" in text
        for ref in ("#1", "#2") if more else ():
            history.save(history.find(ref), git=history.run(ref).git)
    judged = measured(world, "one.c:one", *GATE)
    assert (judged.code, "Result: no regression; " in judged.out) == (0, True)
    assert kept(world) == [False] * 6


def test_jobs_for_other_functions_and_flags_share_a_branch(world: Path) -> None:
    rule = ("--against", "branch:main", "--fail-if", "time>100000%")
    jobs = [("one.c:one",), ("two.c:two",), ("one.c:one", "-O3")]
    first = [measured(world, *job, *rule) for job in jobs]
    assert [done.code for done in first] == [0, 0, 0]
    assert all("Result: not compared; " in done.out for done in first)
    again = [measured(world, *job, *rule) for job in jobs]
    assert [done.code for done in again] == [0, 0, 0], again
    befores = [done.out.partition("Before: ")[2].split()[0] for done in again]
    assert befores == ["#1", "#2", "#3"]
    refused = measured(world, "two.c:two", "--against", "#1", "--fail-if", "time>1%")
    assert (refused.code, "have no row in common" in refused.err) == (2, True)
    missing = measured(world, "two.c:two", "-O1", *rule, "--fail-if-missing")
    assert (missing.code, "Result: not compared; " in missing.out) == (1, True)
    assert kept(world) == [*[False] * 6, True, False]


def test_a_branch_whose_only_run_failed_has_a_first_run(world: Path) -> None:
    history = History(world.parent / "history.sqlite", folder=world)
    failed = report_of({"cycles": [1]})
    history.save(failed, git=GitState("a" * 40, "main", is_dirty=False), has_failed=True)
    history.save(failed, git=GitState("b" * 40, "topic", is_dirty=False))
    done = measured(world, "one.c:one", *GATE)
    assert (done.code, "Result: not compared; no clean run of main" in done.out) == (0, True)


# -- which run of a branch --------------------------------------------------------------------


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    path = tmp_path / "history.sqlite"
    monkeypatch.setenv("BOARDPROF_HISTORY", str(path))
    monkeypatch.chdir(tmp_path)
    return History(path)


def save(history: History, report: Report, command: str = "", branch: str = "main") -> None:
    history.save(report, command=command, git=GitState("a" * 40, branch, is_dirty=False))


def cycles(name: str = "fir", file: str = "fir.c", **more: str) -> Report:
    source = {"source": {"file": file, "line": 1}}
    return report_of({"cycles": [10] * 3}, name=name, facts=HARDWARE, measurement=source, **more)  # type: ignore[arg-type]


def both() -> Report:
    one, two = cycles("fir"), cycles("iir", "iir.c")
    assert one.extra is not None
    assert two.extra is not None
    measurements = [*one.extra["measurements"], *two.extra["measurements"]]
    extra = {**one.extra, "measurements": measurements}
    return Report([*one.calls, *two.calls], {}, {}, extra)


def number(found: Report, **more: object) -> int | None:
    baseline = BranchRuns("main").baseline(found, **more)  # type: ignore[arg-type]
    return None if baseline is None or baseline.run is None else int(baseline.run.id)


def test_the_baseline_is_the_newest_run_like_the_measured_one(history: History) -> None:
    assert number(cycles()) is None
    save(history, cycles())  # 1
    save(history, cycles())
    save(history, cycles("iir", "iir.c"))  # 3
    save(history, cycles(flags="-O3"))
    save(history, cycles(device="other"))  # 5
    save(history, cycles(shapes="n=128"))
    save(history, cycles(file="lib/fir.c"))  # 7
    save(history, cycles(), branch="topic")
    history.save(cycles(), git=GitState("a" * 40, "main", is_dirty=False), has_failed=True)
    assert number(cycles()) == 2
    assert number(cycles("iir", "iir.c")) == 3
    assert number(cycles(flags="-O3")) == 4
    assert number(cycles(device="other")) == 5
    assert number(cycles(shapes="n=128")) == 6
    assert number(cycles(file="lib/fir.c")) == 7
    assert number(cycles(flags="-Os")) is None
    assert number(cycles(flags="-Os"), allow=["compiler"]) == 4
    assert number(cycles(device="third")) is None
    assert number(cycles(device="third"), allow=["board"]) == 5


def test_a_run_with_more_of_the_measured_rows_is_preferred_to_a_newer_one(
    history: History,
) -> None:
    save(history, both(), "boardprof run fir.c:all")  # 1
    save(history, cycles(), "boardprof run fir.c:fir")
    assert number(both(), target="fir.c:all") == 1
    save(history, both(), "boardprof run fir.c:all")  # 3
    assert number(cycles(), target="fir.c:fir") == 2
    # A function that is gone is missed by the same command.
    assert number(cycles(), target="fir.c:all") == 3


def test_a_run_without_the_metric_of_a_rule_is_not_like_the_measured_one(
    history: History,
) -> None:
    save(history, cycles())
    wider = report_of(
        {"cycles": [10] * 3, "stalls": [2] * 3},
        facts=HARDWARE,
        measurement={"source": {"file": "fir.c", "line": 1}},
    )
    assert number(wider, rules=["cycles>1%"]) == 1
    assert number(wider, rules=["stalls>1%"]) is None
    save(history, wider)
    assert number(wider, rules=["stalls>1%"]) == 2


def test_a_branch_outside_of_a_repository_is_an_error(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (outside := tmp_path / "outside").mkdir()
    done = boardprof("run", f"{world / 'one.c'}:one", "n=1", *GATE, folder=outside)
    assert (done.code, done.out) == (2, "")
    assert "needs a git repository: a run of this folder has no branch" in done.err
    assert "Try: git init, or name a run: --against last" in done.err
