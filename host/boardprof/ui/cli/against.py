# SPDX-License-Identifier: Apache-2.0
"""``boardprof run`` that ends with a comparison: with an earlier run, or with a second image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from boardprof.base.errors import BoardprofError, UnknownNameError, UsageError
from boardprof.ui.cli.compare import REGRESSION, Gate, comparison_text, gate_options, parse_gate
from boardprof.ui.cli.exit_codes import UNTESTABLE
from boardprof.ui.cli.options import complete_run, together
from boardprof.ui.cli.output import echo, echo_data, echo_page, echo_warning, echo_written

if TYPE_CHECKING:
    from boardprof.jobs.run.alternating import Alternated
    from boardprof.results.comparison.comparison import Comparison
    from boardprof.results.history.report_lookup import Found
    from boardprof.results.history.run_comparison import BranchRuns
    from boardprof.results.report.report import Report
    from boardprof.show.exporters import Export


@dataclass
class Against:
    """The comparison that a run ends with, if one was asked for."""

    gate: Gate
    target: str
    bisects: bool = False
    is_wanted: bool = True
    flags: str | None = None
    revision: str | None = None
    branch: BranchRuns | None = None
    is_first: bool = False
    _before: Report | None = None
    _names: tuple[str, str] = ("", "this run")
    _sessions: int = 1
    _runs: list[Report] | None = None
    _comparison: Comparison | None = None

    @property
    def has_turns(self) -> bool:
        """Whether the other side is measured, too."""
        return (self.flags or self.revision) is not None

    def find(self, ref: str, *, if_present: bool) -> None:
        """Look up the run to compare with; without one, nothing is compared if that is allowed."""
        from boardprof.results.history.project import repository_path
        from boardprof.results.history.report_lookup import (
            branch_meant,
            find_run,
            find_run_if_present,
        )
        from boardprof.results.history.run import NothingKeptError
        from boardprof.results.history.run_comparison import BranchRuns

        if ref.startswith("branch:") and repository_path(".") is None:
            raise UsageError(
                f"--against {ref} needs a git repository: a run of this folder has no branch, so "
                "it could never become a baseline.",
                hint="git init, or name a run: --against last",
            )
        if if_present and find_run_if_present(ref) is None:
            self.is_first = True
            echo_warning(f"there is no run {ref} yet, so no rule is checked (--against-if-present)")
            return
        try:
            found = find_run(ref)
        except (NothingKeptError, UnknownNameError) as error:
            if not _is_first_of_all(ref, error):
                raise
            self.is_first = True
            self.branch = BranchRuns(ref.removeprefix("branch:"))
            return
        if (branch := branch_meant(ref, found)) is not None:
            self.branch = BranchRuns(branch)
        else:
            self._take_run(found)

    def take_turns(self, found: Alternated) -> None:
        """Take the other side, which was measured in turns with the run."""
        self._before, self._names = found.before.report, found.names
        self._sessions = found.sessions

    def _take_run(self, found: Found) -> None:
        self._before, self._names = found.report, (found.label, "this run")
        if self.gate.needs_runs:
            self._runs = _branch_reports(found, self.gate.spread_runs)

    def compare(self, report: Report) -> list[BoardprofError]:
        """Compare a Report with the other one; return why it could not be compared."""
        try:
            self._find_baseline(report)
            if self._before is None:
                return []
            before, after = self._names
            self._comparison = self.gate.compared(
                self._part_about(report),
                report,
                before_name=before,
                after_name=after,
                sessions=self._sessions,
                earlier=self._runs,
            )
            self.gate.check(self._comparison, may_wait=self.branch is not None)
        except BoardprofError as error:
            return [error]
        return []

    def _part_about(self, report: Report) -> Report:
        """Return the part of the other Report that a run of one named function is compared with."""
        from boardprof.jobs.run.plan import ALL
        from boardprof.jobs.run.target import split_target
        from boardprof.results.report.join import part_of_calls

        assert self._before is not None
        if split_target(self.target)[1] == ALL:
            return self._before
        return part_of_calls(self._before, report) or self._before  # the error lists its rows

    def _find_baseline(self, report: Report) -> None:
        """Look up the newest clean run of the branch that is like a Report, if one is meant."""
        if self.branch is None or self.is_first:
            return
        gate = self.gate
        found = self.branch.baseline(report, rules=gate.rules, allow=gate.allow, target=self.target)
        if found is None:
            self.is_first = True
        else:
            self._take_run(found)

    @property
    def failed(self) -> bool:
        """Whether a rule is broken, or could not be checked and that counts as a failure."""
        return self._comparison is not None and self._comparison.failed

    @property
    def keeps_clean(self) -> bool:
        """Whether later runs may be compared with this one."""
        # A row that waits for further runs of its branch would wait for ever if no run counted.
        found = self._comparison
        if found is None or not found.failed:
            return True
        return self.branch is not None and found.awaits_runs and not found.regressed

    def echo(self) -> None:
        """Print the comparison below the Report."""
        if self._comparison is not None:
            from boardprof.show.comparison_table import comparison_page

            echo_page(["", *comparison_page(self._comparison)])
        elif self.is_first:
            branch = self.branch.branch if self.branch else None
            why = f"; no clean run of {branch} like this one was kept before" if branch else ""
            echo(f"\nResult: not compared{why}, so nothing is gated")

    def check_exports(self, exports: Sequence[Export]) -> None:
        """Check that there will be a comparison, if exports need one."""
        needed = [each.name for each in exports if each.is_comparison]
        if needed and not self.is_wanted:
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
        """Return the command's exit code."""
        found = self._comparison
        if self.bisects:
            if found is not None and found.regressed:
                return REGRESSION
            is_good = found is not None and found.held and not failures
            return 0 if is_good else UNTESTABLE
        if failures:
            return failures[0].exit_code
        is_missing = self.is_first and self.gate.fail_if_missing
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
    """Return whether a branch has no clean run yet, but this run or a later one may become it."""
    # It is an error if the branch does not exist, or if the work tree has changes: then no run
    # would ever be clean, and a gate must not pass for ever.
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


against_options = together(
    click.option(
        "--against",
        metavar="RUN",
        shell_complete=complete_run,
        help="Also compare with RUN, as `boardprof compare RUN` does. --fail-if sets rules. "
        "A branch means its newest clean run like this one. If there is no such run, nothing is "
        "compared.",
    ),
    click.option(
        "--against-if-present",
        is_flag=True,
        help="Warn if the run of --against does not exist, instead of failing: for a first run.",
    ),
    click.option(
        "--ab",
        metavar='"FLAGS|FLAGS"',
        help="Measure with two settings of compiler flags in alternating sessions, and compare "
        "them in pairs.",
    ),
    click.option(
        "--ab-rev",
        metavar="REV",
        help="Compare the commit REV with the working tree in the same way.",
    ),
    gate_options,
    click.option(
        "--bisect",
        is_flag=True,
        help="Set the exit code for `git bisect run`: 0 if all rules hold, 1 if one is broken, "
        "125 if that cannot be decided. Needs --against and --fail-if.",
    ),
)
"""What a run is compared with; `parse_against` has the values."""


def parse_against(options: Mapping[str, Any], target: str) -> Against:
    """Return the given options."""
    # The earlier run is looked up now, so ``last`` is the one before this, and a mistake is
    # reported before anything is measured.
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
        return Against(parse_gate({**options, "fail_if_missing": False}), target, is_wanted=False)
    from boardprof.results.comparison.rule import parse_rules

    gate = parse_gate(options)
    parse_rules(gate.rules)
    found = Against(gate, target, bisects, flags=flags, revision=revision)
    if ref is not None:
        found.find(ref, if_present=options["against_if_present"])
        return found
    if gate.needs_runs:
        raise _no_runs("--ab and --ab-rev measure both sides now")
    if flags is not None:  # these are meant to differ
        found.gate = replace(gate, allow=tuple({*gate.allow, "compiler"}))
    return found


def _check_no_rule_was_given() -> None:
    """Check that each rule has an effect; in a settings file, one may be for `compare` alone."""
    context = click.get_current_context()
    for name, option in (("rules", "--fail-if"), ("fail_if_missing", "--fail-if-missing")):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{option} needs a run to compare with.",
                hint="add --against RUN, --ab FLAGS or --ab-rev REV",
            )
