# SPDX-License-Identifier: Apache-2.0
"""``boardprof compare``, the options of a gate, and the comparison that a run ends with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from boardprof.base.errors import BoardprofError, UnknownNameError, UsageError
from boardprof.ui.cli.exit_codes import UNTESTABLE
from boardprof.ui.cli.options import (
    STDOUT,
    Real,
    allow_option,
    complete_run,
    file_option,
    number_option,
    together,
    width_option,
)
from boardprof.ui.cli.output import (
    echo,
    echo_data,
    echo_error,
    echo_page,
    echo_warning,
    echo_written,
)

if TYPE_CHECKING:
    from pathlib import Path

    from boardprof.jobs.run.alternating import Alternated
    from boardprof.results.comparison.comparison import Comparison
    from boardprof.results.comparison.rule import Rule
    from boardprof.results.history.report_lookup import Found
    from boardprof.results.history.run_comparison import BranchRuns
    from boardprof.results.report.report import Report
    from boardprof.show.exporters import Export


REGRESSION = 1  # exit code: the command itself went well, but a rule is broken


@dataclass(frozen=True)
class GateOptions:
    """The values of the gate options."""

    rules: tuple[str | Rule, ...]
    alpha: float
    allow: tuple[str, ...]
    fail_if_missing: bool
    spread_runs: int
    tolerance: float = 0.0

    @property
    def needs_runs(self) -> bool:
        """Whether a rule needs earlier runs of a branch."""
        from boardprof.results.comparison.rule import parse_rules

        return any(rule.needs_runs for rule in parse_rules(self.rules))

    def compared(
        self, before: Report | str | int | Path, after: Report | str | int | Path, **facts: Any
    ) -> Comparison:
        """Compare two Reports; raises as `boardprof.compare`, and if a rule could check nothing."""
        from boardprof.results.comparison.comparison import ComparisonError
        from boardprof.results.history.run_comparison import compare

        found = compare(
            before,
            after,
            self.rules,
            alpha=self.alpha,
            allow=self.allow,
            fail_if_missing=self.fail_if_missing,
            spread_runs=self.spread_runs,
            tolerance=self.tolerance,
            **facts,
        )
        for rule in found.idle:
            raise ComparisonError(
                f"The rule {rule} cannot be checked: {rule.metric} was not measured before.",
                hint="measure it before, too, or leave the rule out; a baseline file has only "
                "metrics that repeat",
            )
        return found

    def check(self, found: Comparison, *, may_wait: bool = False) -> None:
        """Check that rules could judge something: a gate must not pass because it sees nothing."""
        from boardprof.results.comparison.comparison import ComparisonError

        waits = may_wait and found.awaits_runs
        is_blind = not found.judged and any(each.rule for each in found.unjudged)
        if is_blind and not found.failed and not waits:
            raise ComparisonError(
                "No rule could judge any row.",
                hint="the comparison has the reason for each; --fail-if-missing makes it exit "
                "code 1",
            )


gate_options = together(  # rules for changes; `parse_gate` returns their values
    click.option(
        "--fail-if",
        "rules",
        multiple=True,
        metavar="RULE",
        help="Exit with 1 if a change meets METRIC[:STATISTIC]>LIMIT: 'cycles:median>2%', "
        "'instructions:max>0', 'IPC<-5%', 'busy:mean>1pp', 'time>4spread', '*>5%'.",
    ),
    click.option(
        "--alpha",
        default=0.01,
        show_default=True,
        type=Real(min=0, max=1, min_open=True, max_open=True),
        metavar="P",
        help="Significance level of the rank test, for metrics that are not exact.",
    ),
    number_option(
        "--spread-runs", "How many earlier runs to compute the spread from.", least=5, default=20
    ),
    allow_option("Compare although this differs."),
    click.option(
        "--fail-if-missing",
        is_flag=True,
        help="Also exit with 1 if a rule cannot be checked: the row is missing, is not a "
        "number, has too few samples or comes from other calls, or the limit is below "
        "the measurement uncertainty.",
    ),
)


def parse_gate(options: Mapping[str, Any]) -> GateOptions:
    """Return the given options."""
    if options["fail_if_missing"] and not options["rules"]:
        raise UsageError("--fail-if-missing needs a rule.", hint="--fail-if")
    names = ("rules", "alpha", "allow", "fail_if_missing", "spread_runs", "tolerance")
    return GateOptions(**{name: options[name] for name in names})


def comparison_text(comparison: Comparison, export: Export) -> str:
    """Return what an exporter makes of a Comparison; the text ends with its line."""
    from boardprof.show.exporters import exported

    content = exported(comparison, export.name, export.exporter)
    assert isinstance(content, bytes), "exporters of Comparisons make one file"
    text = content.decode()
    return text if text.endswith("\n") else f"{text}\n"


def write_comparison(comparison: Comparison, export: Export) -> None:
    """Write a file of a Comparison, and report that."""
    from boardprof.results.report.report_file import write_text

    write_text(comparison_text(comparison, export), str(export.file))
    echo_written("Comparison", export.file)


def printed_export(exports: Sequence[Export], *others: str | None) -> Export | None:
    """Return the export that is printed in place of the table; ``others`` may be printed, too."""
    printed = [each for each in exports if str(each.file) == STDOUT]
    if len(printed) + others.count(STDOUT) > 1:
        raise UsageError("Only one output format can be printed.", hint="write the others to files")
    return printed[0] if printed else None


comment_option = click.option(
    "--comment",
    metavar="NAME",
    help="In a job of GitHub Actions or GitLab CI, write the comparison as a comment of the pull "
    "request. A later job with the same NAME updates it.",
)


def check_comment(name: str | None) -> None:
    """Check the name before anything is measured."""
    if name is not None and (not re.fullmatch(r"\w[\w .-]{0,99}", name) or "--" in name):
        raise UsageError(
            f"{name!r} is not a name for --comment: letters, digits, blanks and ._- only.",
            hint="--comment cost",
        )


def write_comment(comparison: Comparison, name: str | None) -> list[BoardprofError]:
    """Write the comment if one is wanted; see `comment.write_comment`."""
    if name is None:
        return []
    # Imported here, because urllib's parsers of mail take a tenth of a run to import.
    from boardprof.ui.cli.comment import write_comment

    return write_comment(comparison, name)


@click.command(short_help="Compare two runs: what got better or worse; a gate for CI.")
@click.argument("before", required=False, shell_complete=complete_run)
@click.argument("after", nargs=-1, metavar="[AFTER]...", shell_complete=complete_run)
@gate_options
@click.option(
    "--tolerance",
    default=0.0,
    type=Real(min=0),
    metavar="REL",
    help="Relative tolerance for floats in outputs. [default: 0]",
)
@click.option("--changed", is_flag=True, help="Show only what has changed.")
@file_option("json", "JSON")
@file_option("markdown", "Markdown for a pull request")
@file_option("junit", "JUnit XML")
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="NAME=FILE",
    help="Write it with an exporter: github, gitlab, summary, ... or one of another package; "
    "NAME=- prints it in place of the table.",
)
@comment_option
@width_option
def compare(
    before: str | None, after: tuple[str, ...], changed: bool, comment: str | None, **options: Any
) -> int:
    """Compare two runs: what got better or worse, and what is only noise.

    BEFORE and AFTER are files of a Report or a baseline, or runs in the history: last, last~1, 42
    for #42, a name given by `run --save`, a branch or a commit. In a project, all except numbers
    refer to its own runs. [AFTER defaults to last, BEFORE to the newest run before it with a
    function, arguments and a board of it] Several AFTERs, such as Reports of jobs for one board
    each, are compared as one Report.

    Exact counts, such as those of emulators, differ if the numbers differ. All other metrics differ
    if a rank test says so. Without --fail-if nothing counts as a regression.

    If a function returned or wrote something else than before, with the same arguments, the exit
    code is 1 without any rule. --allow outputs accepts that.
    """
    gate = parse_gate(options)
    check_comment(comment)
    from boardprof.show.comparison_table import comparison_page
    from boardprof.show.exporters import read_exports

    own = {name: options[f"{name}_file"] for name in ("json", "markdown", "junit")}
    texts = [f"{name}={file}" for name, file in own.items() if file is not None]
    exports = read_exports([*texts, *options["exports"]], comparisons=True)
    printed = printed_export(exports)
    comparison = _compared(gate, before, after)
    text = None if printed is None else comparison_text(comparison, printed)
    for each in exports:
        if each is not printed:
            write_comparison(comparison, each)
    if text is None:
        echo_page(comparison_page(comparison, changed_only=changed))
    else:
        echo_data(text, nl=False)
    failures = write_comment(comparison, comment)
    for failure in failures:
        echo_error(f"error: {failure}")
    gate.check(comparison)
    return REGRESSION if comparison.failed else failures[0].exit_code if failures else 0


def _compared(gate: GateOptions, before: str | None, after: Sequence[str]) -> Comparison:
    if before is None:
        from boardprof.results.history.report_lookup import find_run, like_runs

        last = find_run("last")
        earlier = next(like_runs(last.report, before=last.run), None)
        if earlier is None:
            raise UsageError(
                f"No run before {last.label} measured one of its functions with the same arguments "
                "on the same board.",
                hint="boardprof history lists the runs; name two: boardprof compare BEFORE AFTER",
            )
        before = earlier.label
    if len(after) < 2:
        return gate.compared(before, *(after or ("last",)))
    from boardprof.results.history.report_lookup import find_run
    from boardprof.results.report.join import Part, joined

    found = [find_run(each) for each in after]
    report = joined([Part(each.report, {}) for each in found])
    return gate.compared(before, report, after_name=", ".join(each.label for each in found))


# -- of `boardprof run` ------------------------------------------------------------------------


@dataclass
class Against:
    """The comparison that a run ends with, if one was asked for."""

    gate: GateOptions
    target: str
    bisects: bool = False
    is_wanted: bool = True
    flags: str | None = None
    revision: str | None = None
    branch: BranchRuns | None = None  # if its newest clean run like this one is meant
    is_first: bool = False  # there is no run to compare with
    comparison: Comparison | None = None
    _before: Report | None = None
    _facts: dict[str, Any] = field(default_factory=dict)  # see `GateOptions.compared`

    @property
    def has_turns(self) -> bool:
        """Whether the other side is measured, too."""
        return (self.flags or self.revision) is not None

    def find(self, ref: str, *, if_present: bool) -> None:
        """Look up the run to compare with; without one, nothing is compared if that is allowed."""
        from boardprof.results.history.report_lookup import (
            branch_meant,
            find_run,
            find_run_if_present,
        )
        from boardprof.results.history.run import NothingKeptError, repository_path
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
        before, after = found.names
        self._before = found.before.report
        self._facts = {"before_name": before, "after_name": after, "sessions": found.sessions}

    def _take_run(self, found: Found) -> None:
        self._before = found.report
        self._facts = {"before_name": found.label, "after_name": "this run"}
        if self.gate.needs_runs:
            from boardprof.results.history.report_lookup import branch_reports

            if found.run is None:
                raise _no_runs(f"{found.label} is a file")
            self._facts["earlier"] = branch_reports(found.run, self.gate.spread_runs)

    def compare(self, report: Report) -> list[BoardprofError]:
        """Compare a Report with the other one; return why it could not be compared."""
        from boardprof.jobs.run.plan import ALL, split_target
        from boardprof.results.report.join import part_of_calls

        gate = self.gate
        try:
            if self.branch is not None and not self.is_first:
                found = self.branch.baseline(
                    report, rules=gate.rules, allow=gate.allow, target=self.target
                )
                if found is not None:
                    self._take_run(found)
                self.is_first = found is None
            before = self._before
            if before is None:
                return []
            if split_target(self.target)[1] != ALL:  # a whole run has other functions, too
                before = part_of_calls(before, report) or before  # the error lists its rows
            gate = replace(gate, rules=tuple(self._rules_of(report)))
            self.comparison = gate.compared(before, report, **self._facts)
            gate.check(self.comparison, may_wait=self.branch is not None)
        except BoardprofError as error:
            return [error]
        return []

    def _rules_of(self, report: Report) -> Iterator[str | Rule]:
        """Yield the rules, without those of benchmarks that could not be measured."""
        from boardprof.results.stats.groups import summaries

        keys = [each.key for each in summaries(report)]
        for rule in self.gate.rules:
            if isinstance(rule, str) or any(rule.is_about(key.name, key.label) for key in keys):
                yield rule

    @property
    def keeps_clean(self) -> bool:
        """Whether later runs may be compared with this one."""
        # A row that waits for further runs of its branch would wait for ever if no run counted.
        found = self.comparison
        if found is None or not found.failed:
            return True
        return self.branch is not None and found.awaits_runs and not found.is_worse

    def echo(self) -> None:
        """Print the comparison below the Report."""
        if self.comparison is not None:
            from boardprof.show.comparison_table import comparison_page

            echo_page(["", *comparison_page(self.comparison)])
        elif self.is_first:
            branch = self.branch.branch if self.branch else None
            why = f"; no clean run of {branch} like this one was kept before" if branch else ""
            echo(f"\nResult: not compared{why}, so nothing is gated")

    def check_files(self, exports: Sequence[Export], comment: str | None) -> None:
        """Check that there will be a comparison, if exports or a comment need one."""
        needed = [f"--export {each.name}" for each in exports if each.is_comparison]
        needed += [f"--comment {comment}"] if comment else []
        if needed and not self.is_wanted:
            raise UsageError(
                f"{needed[0]} writes a comparison, and nothing is compared.",
                hint="add --against RUN, --ab or --ab-rev",
            )

    def exit_code(self, failures: Sequence[BoardprofError], *, is_over: bool) -> int:
        """Return the command's exit code; ``is_over``: a value is above its limit."""
        # A regression that was measured is certain, whatever else failed, and a job may be allowed
        # to fail with the code of an unplugged board. Rows that are missing may be missing because
        # of an error, so its code overrides theirs.
        found = self.comparison
        if is_over or (found is not None and found.is_worse):
            return REGRESSION
        if self.bisects:
            is_good = found is not None and found.held and not failures
            return 0 if is_good else UNTESTABLE
        if failures:
            return failures[0].exit_code
        is_missing = self.is_first and self.gate.fail_if_missing
        return REGRESSION if is_missing or (found is not None and found.failed) else 0


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
    from boardprof.results.history.run import has_branch

    if not has_branch(".", ref.removeprefix("branch:")):
        return False
    state = git_state()
    return state is not None and not state.is_dirty


against_options = together(  # what a run is compared with; `parse_against` has the values
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


def parse_against(options: Mapping[str, Any], target: str, rules: Sequence[Rule] = ()) -> Against:
    """Return the given options; ``rules`` are those of the project's benchmarks."""
    options = {**options, "rules": (*options["rules"], *rules)}
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
