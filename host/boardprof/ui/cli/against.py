# SPDX-License-Identifier: Apache-2.0
"""``boardprof run`` that ends with a comparison: with an earlier run, or with a second image.

``--against RUN`` names the former; ``--ab`` and ``--ab-rev`` measure the latter in turns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from boardprof.base.errors import BoardprofError, UnknownNameError, UsageError
from boardprof.ui.cli.compare import REGRESSION, Gate, comparison_text, gate_options, taken_gate
from boardprof.ui.cli.exit_codes import UNTESTABLE
from boardprof.ui.cli.options import complete_run
from boardprof.ui.cli.output import echo, echo_data, echo_page, echo_warning, echo_written

if TYPE_CHECKING:
    from boardprof.jobs.run.alternating import Side
    from boardprof.jobs.run.execution import Listener, Outcome
    from boardprof.jobs.run.plan import Plan
    from boardprof.results.comparison.comparison import Comparison
    from boardprof.results.history.branch_baseline import BranchRuns
    from boardprof.results.history.report_lookup import Found
    from boardprof.results.report.report import Report
    from boardprof.show.exporters import Export


class Against:
    """The comparison that a run ends with, if one was asked for."""

    def __init__(self, gate: Gate, *, bisects: bool = False) -> None:
        """Compare nothing yet.

        Args:
            gate: rules for the change.
            bisects: the exit code is for ``git bisect run``.
        """
        self._gate = gate
        self._bisects = bisects
        self._comparison: Comparison | None = None
        self._before: Report | None = None
        self._runs: list[Report] | None = None
        self._names = ("", "this run")
        self._sessions = 1
        self._flags: str | None = None
        self._revision: str | None = None
        self._is_first = False
        self._compares = False
        self._branch: BranchRuns | None = None
        self._target = ""

    @classmethod
    def run(cls, ref: str, gate: Gate, *, bisects: bool, if_present: bool = False) -> Against:
        """Return the comparison with a run of the history, or a file.

        Args:
            ref: the run, or the file.
            gate: rules for the change.
            bisects: the exit code is for ``git bisect run``.
            if_present: without such a run, nothing is compared.
        """
        from boardprof.results.history.branch_baseline import BranchRuns
        from boardprof.results.history.project import repository_path
        from boardprof.results.history.report_lookup import (
            branch_meant,
            find_run,
            find_run_if_present,
        )
        from boardprof.results.history.run import NothingKeptError

        if ref.startswith("branch:") and repository_path(".") is None:
            raise UsageError(
                f"--against {ref} needs a git repository: a run of this folder has no branch, so "
                "it could never become a baseline.",
                hint="git init, or name a run: --against last",
            )
        made = cls(gate, bisects=bisects)
        made._compares = True
        if if_present and find_run_if_present(ref) is None:
            made._is_first = True
            echo_warning(f"there is no run {ref} yet, so no rule is checked (--against-if-present)")
            return made
        try:
            found = find_run(ref)
        except (NothingKeptError, UnknownNameError) as error:
            if not _is_first_of_all(ref, error):
                raise
            made._is_first = True
            made._branch = BranchRuns(ref.removeprefix("branch:"))
            return made
        if (branch := branch_meant(ref, found)) is not None:
            made._branch = BranchRuns(branch)
            return made
        made._before, made._names = found.report, (found.label, "this run")
        if gate.needs_runs:
            made._runs = _branch_reports(found, gate.spread_runs)
        return made

    @classmethod
    def in_turns(cls, gate: Gate, *, flags: str | None, revision: str | None) -> Against:
        """Return the comparison of two settings of flags, or with a commit."""
        if gate.needs_runs:
            raise _no_runs("--ab and --ab-rev measure both sides now")
        if flags is not None:  # these are meant to differ
            gate = replace(gate, allow=tuple({*gate.allow, "compiler"}))
        made = cls(gate)
        made._compares = True
        made._flags, made._revision = flags, revision
        return made

    def measure(self, plan: Plan, listener: Listener) -> Outcome:
        """Measure a plan, in turns with the other side if there is one."""
        from boardprof.jobs.run.execution import run_plan

        self._target = plan.target
        if self._flags is self._revision is None:
            return run_plan(plan, listener)
        from boardprof.jobs.run.alternating import run_in_turns

        with self._sides(plan) as (before, after):
            found = run_in_turns(before, after, listener)
        self._before, self._sessions = found.before.report, found.sessions
        self._names = (before.name, after.name)
        for each in found.before.failures:
            each.message = f"{before.name}: {each.message}"
        return replace(
            found.after,
            failures=(*found.before.failures, *found.after.failures),
            interrupted=found.before.interrupted or found.after.interrupted,
        )

    @contextlib.contextmanager
    def _sides(self, plan: Plan) -> Iterator[tuple[Side, Side]]:
        from boardprof.jobs.run.alternating import Side, sides_of_flags, worktree_of

        if self._flags is not None:
            yield sides_of_flags(plan, self._flags)
            return
        assert self._revision is not None
        if plan.path is None:
            raise UsageError("--ab-rev compiles the functions, so it needs a PATH.")
        here = Path.cwd()
        with worktree_of(here, self._revision) as tree:
            name = f"{self._revision} ({tree.commit[:8]})"
            folder = tree.inside(here)
            before = Side(tree.plan(plan), name, folder if folder.is_dir() else tree.folder)
            yield before, Side(plan, "the working tree")

    def compare(self, report: Report) -> list[BoardprofError]:
        """Compare a Report with the other one; return why it could not be compared."""
        try:
            self._find_baseline(report)
            if self._before is None:
                return []
            before, after = self._names
            self._comparison = self._gate.compared(
                self._part_about(report),
                report,
                before_name=before,
                after_name=after,
                sessions=self._sessions,
                earlier=self._runs,
            )
            self._gate.check(self._comparison, may_wait=self._branch is not None)
        except BoardprofError as error:
            return [error]
        return []

    def _part_about(self, report: Report) -> Report:
        """Return the part of the other Report that a run of one named function is compared with."""
        from boardprof.jobs.run.plan import ALL, split_target
        from boardprof.results.comparison.part import part_of_calls

        assert self._before is not None
        if split_target(self._target)[1] == ALL:
            return self._before
        return part_of_calls(self._before, report) or self._before  # the error lists its rows

    def _find_baseline(self, report: Report) -> None:
        """Look up the newest clean run of the branch that is like a Report, if one is meant."""
        if self._branch is None or self._is_first:
            return
        gate = self._gate
        found = self._branch.baseline(
            report, rules=gate.rules, allow=gate.allow, target=self._target
        )
        if found is None:
            self._is_first = True
            return
        self._before, self._names = found.report, (found.label, "this run")
        if self._gate.needs_runs:
            self._runs = _branch_reports(found, self._gate.spread_runs)

    @property
    def failed(self) -> bool:
        """Whether a rule is broken, or could not be checked and that counts as a failure."""
        return self._comparison is not None and self._comparison.failed

    @property
    def keeps_clean(self) -> bool:
        """Whether later runs may be compared with this one.

        A row that waits for further runs of its branch would wait for ever if no run counted.
        """
        found = self._comparison
        if found is None or not found.failed:
            return True
        return self._branch is not None and found.awaits_runs and not found.regressed

    def echo(self) -> None:
        """Print the comparison below the Report."""
        if self._comparison is not None:
            from boardprof.show.comparison_table import comparison_page

            echo_page(["", *comparison_page(self._comparison)])
        elif self._is_first:
            branch = self._branch.branch if self._branch else None
            why = f"; no clean run of {branch} like this one was kept before" if branch else ""
            echo(f"\nResult: not compared{why}, so nothing is gated")

    def check_exports(self, exports: Sequence[Export]) -> None:
        """Check that there will be a comparison, if exports need one.

        Raises:
            UsageError: there will be none.
        """
        needed = [each.name for each in exports if each.is_comparison]
        if needed and not self._compares:
            raise UsageError(
                f"--export {needed[0]} writes a comparison, and nothing is compared.",
                hint="add --against RUN, --ab or --ab-rev",
            )

    def write(self, exports: Sequence[Export]) -> Iterator[BoardprofError]:
        """Write the exports of the comparison, if there is one; yield why one failed."""
        from boardprof.results.report.report_file import write_text

        for each in exports:
            if not each.is_comparison or self._comparison is None:
                continue
            try:
                write_text(comparison_text(self._comparison, each), str(each.file))
                echo_written("Comparison", each.file)
            except BoardprofError as error:
                yield error

    def echo_export(self, export: Export) -> None:
        """Print an export of the comparison, if there is one."""
        if self._comparison is not None:
            echo_data(comparison_text(self._comparison, export), nl=False)

    def exit_code(self, failures: Sequence[BoardprofError]) -> int:
        """Return the command's exit code.

        Args:
            failures: of the run itself.
        """
        found = self._comparison
        if self._bisects:
            if found is not None and found.regressed:
                return REGRESSION
            is_good = found is not None and found.held and not failures
            return 0 if is_good else UNTESTABLE
        if failures:
            return failures[0].exit_code
        is_missing = self._is_first and self._gate.fail_if_missing
        return REGRESSION if self.failed or is_missing else 0


def _branch_reports(found: Found, most: int) -> list[Report]:
    """Return the runs that a limit in spreads comes from, the oldest first."""
    from boardprof.results.history.report_lookup import branch_reports

    if found.run is None:
        raise _no_runs(f"{found.label} is a file")
    return branch_reports(found.run, most)


def _no_runs(why: str) -> UsageError:
    return UsageError(
        f"A limit in spreads needs earlier runs of a branch, and {why}.",
        hint="--against branch:main",
    )


def _is_first_of_all(ref: str, error: BoardprofError) -> bool:
    """Return whether a branch has no clean run yet, but this run or a later one may become it.

    It is an error if the branch does not exist, or if the work tree has changes: then no run would
    ever be clean, and a gate must not pass for ever.
    """
    if not ref.startswith("branch:"):
        return False
    if not isinstance(error, UnknownNameError) or not error.known:
        return True
    from boardprof.jobs.run.saving import git_state
    from boardprof.results.history.project import has_branch

    if not has_branch(".", ref.removeprefix("branch:")):
        return False
    state = git_state()
    return state is not None and not state.is_dirty


def against_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--against``, the options of a gate, and ``--bisect``; `taken_against` has them."""
    bisect = click.option(
        "--bisect",
        is_flag=True,
        help="Set the exit code for `git bisect run`: 0 if all rules hold, 1 if one is broken, "
        "125 if that cannot be decided. Needs --against and --fail-if.",
    )
    against = click.option(
        "--against",
        metavar="RUN",
        shell_complete=complete_run,
        help="Also compare with RUN, as `boardprof compare RUN` does. --fail-if sets rules. "
        "A branch means its newest clean run like this one. If there is no such run, nothing is "
        "compared.",
    )
    if_present = click.option(
        "--against-if-present",
        is_flag=True,
        help="Warn if the run of --against does not exist, instead of failing: for a first run.",
    )
    flags = click.option(
        "--ab",
        metavar='"FLAGS|FLAGS"',
        help="Measure with two settings of compiler flags in alternating sessions, and compare "
        "them in pairs.",
    )
    revision = click.option(
        "--ab-rev",
        metavar="REV",
        help="Compare the commit REV with the working tree in the same way.",
    )
    return against(if_present(flags(revision(gate_options(bisect(command))))))


def taken_against(options: Mapping[str, Any]) -> Against:
    """Return the given options.

    The earlier run is looked up now, so ``last`` is the one before this, and a mistake is reported
    before anything is measured.

    Raises:
        UsageError: options conflict, a rule does not parse, or the run does not exist.
    """
    ref, bisects = options["against"], options["bisect"]
    if options["against_if_present"] and (ref is None or options["fail_if_missing"] or bisects):
        raise UsageError(
            "--against-if-present needs --against, and excludes --bisect and --fail-if-missing.",
            hint="--against RUN --against-if-present",
        )
    if bisects and not (ref and options["rules"]):
        raise UsageError(
            "--bisect needs a run to compare with and a rule.",
            hint="add --against RUN --fail-if 'instructions:max>0'",
        )
    flags, revision = options["ab"], options["ab_rev"]
    given = {"--against": ref, "--ab": flags, "--ab-rev": revision}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1 or (named and named[0] != "--against" and options["sweep"] is not None):
        names = " and ".join([*named, *(["--sweep"] if options["sweep"] is not None else [])])
        raise UsageError(f"{names} cannot be combined.", hint="one after the other")
    if not named:
        _check_no_rule_was_given()
        return Against(taken_gate({**options, "fail_if_missing": False}))
    from boardprof.results.comparison.rule import parse_rules

    gate = taken_gate(options)
    parse_rules(gate.rules)
    if ref is not None:
        return Against.run(ref, gate, bisects=bisects, if_present=options["against_if_present"])
    return Against.in_turns(gate, flags=flags, revision=revision)


def _check_no_rule_was_given() -> None:
    """Check that each rule has an effect; in a settings file, one may be for `compare` alone."""
    context = click.get_current_context()
    for name, option in (("rules", "--fail-if"), ("fail_if_missing", "--fail-if-missing")):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{option} needs a run to compare with.",
                hint="add --against RUN, --ab FLAGS or --ab-rev REV",
            )
