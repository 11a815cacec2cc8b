# SPDX-License-Identifier: Apache-2.0
"""Measure two sides in alternating sessions, so that only the code differs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from boardprof.base.errors import BoardprofError, UsageError
from boardprof.base.progress import part_of
from boardprof.jobs.run.execution import Listener
from boardprof.jobs.run.outcome import SESSIONS, Outcome, once, run_plans
from boardprof.jobs.run.plan import Plan, boards_of, with_each_setting
from boardprof.results.history.run import git_output, git_refusal, run_git
from boardprof.results.report.report import Report
from boardprof.target.build.build_options import BuildOptions, effective_flags
from boardprof.target.descriptions.board import BoardSpec


@dataclass(frozen=True)
class Side:
    """One of the two sides: a plan, or those of the project's benchmarks."""

    plans: Sequence[Plan]
    name: str
    folder: Path | None = None  # where relative paths of the plan start; None for the current one


@dataclass(frozen=True)
class Alternated:
    """The results of both sides."""

    before: Outcome
    after: Outcome
    sessions: int  # of each side
    names: tuple[str, str]

    def outcome(self) -> Outcome:
        """Return the Report of the second side, with the failures of both."""
        for each in self.before.failures:
            each.message = f"{self.names[0]}: {each.message}"
        return replace(
            self.after,
            failures=(*self.before.failures, *self.after.failures),
            interrupted=self.before.interrupted or self.after.interrupted,
        )


def two_settings(code: BuildOptions, flags: str) -> list[tuple[str, BuildOptions]]:
    """Return the build options for each of two settings of flags, and their names in output."""
    texts = flags.split("|")
    if len(texts) != 2:
        raise UsageError(f"--ab {flags!r} is not two settings of flags.", hint="--ab '-O2|-O3'")
    found = [effective_flags(f"{code.optimize} {code.cflags} {text}") for text in texts]
    names = found if found[0] != found[1] else [f"{found[0]} (A)", f"{found[1]} (B)"]
    return [
        (name, replace(code, optimize="", cflags=each))
        for name, each in zip(names, found, strict=True)
    ]


def run_in_turns(
    before: Side,
    after: Side,
    listener: Listener,
    is_chosen: Callable[[Plan], bool] = lambda plan: True,
) -> Alternated:
    """Measure two sides in alternating sessions; each session starts the boards again."""
    # The side that begins changes from pair to pair, so that a drift affects both. On emulators one
    # session per side is enough, because the next one would be the same.
    specs = [spec for plan in after.plans if is_chosen(plan) for spec in boards_of(plan)]
    sessions = sessions_on(specs, after.plans[0].connection.port)
    listener = replace(listener, on_note=once(listener.on_note))
    outcomes: tuple[list[Outcome], list[Outcome]] = ([], [])
    for number, turn in enumerate(turns(sessions), 1):
        side, found = (before, after)[turn], outcomes[turn]
        # Sessions with another number of calls would not be pairs.
        plans = [replace(plan, number=plan.number or 1) for plan in side.plans]
        with contextlib.chdir(side.folder or "."), part_of(f"session {number} of {2 * sessions}"):
            found.append(run_plans(plans, listener, is_chosen, in_turns=False))
        last = found[-1]
        is_lost = last.report is None or len(side.plans) == 1
        if last.interrupted or (last.failures and is_lost):
            break
    names = (before.name, after.name)
    return Alternated(_joined(outcomes[0]), _joined(outcomes[1]), sessions, names)


@contextlib.contextmanager
def two_sides(
    plans: Sequence[Plan], *, flags: str | None, revision: str | None
) -> Iterator[tuple[Side, Side]]:
    """Lend plans with two settings of flags; or those of a commit, and of the working tree."""
    if flags is not None:
        for plan in plans:
            with_each_setting(replace(plan, sweep="-g"))  # the same requirements as a sweep
        pairs = [two_settings(plan.code, flags) for plan in plans]
        names = [name for name, _ in pairs[0]]
        if any([name for name, _ in pair] != names for pair in pairs):  # with flags of their own
            names = [text.strip() or "no flags" for text in flags.split("|")]
        codes = [[code for _, code in pair] for pair in pairs]
        before, after = (
            [replace(plan, code=both[turn]) for plan, both in zip(plans, codes, strict=True)]
            for turn in (0, 1)
        )
        yield Side(before, names[0]), Side(after, names[1])
        return
    assert revision is not None
    if any(plan.path is None for plan in plans):
        raise UsageError("--ab-rev compiles the functions, so it needs a PATH.")
    here = Path.cwd()
    with worktree_of(here, revision) as tree:
        name = f"{revision} ({tree.commit[:8]})"
        folder = tree.inside(here)
        place = folder if folder.is_dir() else tree.folder
        yield Side([*map(tree.plan, plans)], name, place), Side(plans, "the working tree")


def turns(sessions: int) -> Iterator[int]:
    """Yield the side to measure, 0 or 1: pairs of both, which begin with alternating sides."""
    for number in range(sessions):
        yield from (0, 1) if number % 2 == 0 else (1, 0)


def sessions_on(specs: Iterable[BoardSpec], port: str | None) -> int:
    """Return the number of sessions per side; ``port`` is None for boards that are started."""
    are_emulators = all(spec.clock.kind == "simulated" or spec.clock.emulated for spec in specs)
    return 1 if port is None and are_emulators else SESSIONS


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of all sessions of one side."""
    failures: dict[str, BoardprofError] = {
        str(each): each for outcome in outcomes for each in outcome.failures
    }
    reports = [outcome.report for outcome in outcomes if outcome.report is not None]
    joined = None
    if reports:
        last = reports[-1]
        records = [report.record for report in reports if report.record is not None]
        measurements = tuple(each for record in records for each in record.measurements)
        record = replace(records[-1], measurements=measurements) if records else None
        rows = [row for report in reports for row in report.calls]
        joined = Report(rows, last.device_metrics, last.configuration, record=record)
    is_interrupted = any(outcome.interrupted for outcome in outcomes)
    return Outcome(joined, tuple(failures.values()), is_interrupted)


_CHECKOUT_TIMEOUT_S = 300.0
_TRY = "check that the disk has space, and that git worktree works there"


@dataclass(frozen=True)
class Worktree:
    """A commit's files."""

    top: Path  # of the working tree that the user is in
    folder: Path  # with the commit's files
    commit: str

    def inside(self, path: str | Path) -> Path:
        """Return the path in the commit for a path of the working tree; others become absolute."""
        whole = Path(path).absolute()
        real = whole.parent.resolve() / whole.name
        if real.resolve() == self.top:
            return self.folder
        return self.folder / real.relative_to(self.top) if real.is_relative_to(self.top) else real

    def plan(self, plan: Plan) -> Plan:
        """Return a plan that measures the commit's files with the data of the working tree."""
        return replace(
            plan,
            target=f"{self.inside(plan.path or '.')}:{plan.function}",
            values=tuple(map(_with_whole_path, plan.values)),
            expect=(),
            save_output=None,
            code=self.code(plan.code),
        )

    def code(self, code: BuildOptions) -> BuildOptions:
        """Return how the commit's files are built."""
        return replace(
            code,
            sources=tuple(self.inside(path) for path in code.sources),
            includes=tuple(self.inside(path) for path in code.includes),
        )


def _with_whole_path(value: str) -> str:
    """Return ``NAME=@FILE`` with a file that is found from anywhere; other values as they are."""
    name, mark, file = value.partition("=@")
    return f"{name}=@{os.path.abspath(file)}" if mark else value


@contextlib.contextmanager
def worktree_of(folder: Path, revision: str) -> Iterator[Worktree]:
    """Lend a worktree of a commit, which is removed afterwards."""
    top = git_output(folder, "rev-parse", "--show-toplevel")
    if not top and (refused := git_refusal(folder)):
        raise UsageError(f"The commits of {folder} cannot be read: {refused[0]}.", hint=refused[1])
    if not top:
        raise UsageError(
            f"{folder} is not in a git repository.",
            hint="use --ab '-O2|-O3', which needs no repository",
        )
    told = git_output(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not told or revision.startswith("-"):
        raise UsageError(
            f"git does not know the commit {revision!r}.",
            hint="git log --oneline; in a shallow clone, git fetch --unshallow first",
        )
    with tempfile.TemporaryDirectory(prefix="boardprof-") as made:
        place = Path(made).resolve() / "tree"
        _git(folder, "worktree", "add", "--quiet", "--detach", str(place), told.strip())
        try:
            yield Worktree(Path(top.removesuffix("\n")).resolve(), place, told.strip())
        finally:
            with contextlib.suppress(UsageError):  # git forgets a missing worktree by itself
                _git(folder, "worktree", "remove", "--force", str(place))


def _git(folder: Path, *words: str) -> None:
    """Run git for as long as a large checkout takes."""
    try:
        done = run_git(folder, *words, timeout_s=_CHECKOUT_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git {words[0]} {words[1]} failed: {error}.", hint=_TRY) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise UsageError(f"git {words[0]} {words[1]} failed: {said}", hint=_TRY)
