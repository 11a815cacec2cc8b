# SPDX-License-Identifier: Apache-2.0
"""``boardprof compare``: compare two Reports; the options that decide the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.errors import UsageError
from boardprof.ui.cli.options import STDOUT, Real, Whole, complete_run, file_option, width_option
from boardprof.ui.cli.output import echo_data, echo_page, echo_written

if TYPE_CHECKING:
    from pathlib import Path

    from boardprof.results.comparison.comparison import Comparison
    from boardprof.results.report.report import Report
    from boardprof.show.exporters import Export


REGRESSION = 1
"""Exit code: the command itself went well, but a rule is broken."""

Command = Callable[..., Any]


@dataclass(frozen=True)
class Gate:
    """The values of the gate options.

    Attributes:
        rules: a change must not break them.
        alpha: level of the rank test.
        allow: mismatches to ignore.
        fail_if_missing: fail if a rule could not be checked.
        spread_runs: earlier runs that limits in spreads come from, at most.
    """

    rules: tuple[str, ...]
    alpha: float
    allow: tuple[str, ...]
    fail_if_missing: bool
    spread_runs: int

    @property
    def needs_runs(self) -> bool:
        """Whether a rule needs earlier runs of a branch."""
        from boardprof.results.comparison.rule import parse_rules

        return any(rule.needs_runs for rule in parse_rules(self.rules))

    def compared(
        self,
        before: Report | str | int | Path,
        after: Report | str | int | Path,
        *,
        before_name: str | None = None,
        after_name: str | None = None,
        sessions: int = 1,
        earlier: Sequence[Report] | None = None,
    ) -> Comparison:
        """Compare two Reports; raises as `boardprof.compare`, and if a rule could check nothing."""
        from boardprof.results.comparison.compare import compare
        from boardprof.results.comparison.comparison import ComparisonError

        found = compare(
            before,
            after,
            self.rules,
            alpha=self.alpha,
            allow=self.allow,
            before_name=before_name,
            after_name=after_name,
            fail_if_missing=self.fail_if_missing,
            sessions=sessions,
            earlier=earlier,
            spread_runs=self.spread_runs,
        )
        for rule in found.idle:
            raise ComparisonError(
                f"The rule {rule} cannot be checked: {rule.metric} was not measured before.",
                hint="measure it before, too, or leave the rule out; a baseline file has only "
                "metrics that repeat",
            )
        return found

    def check(self, found: Comparison, *, may_wait: bool = False) -> None:
        """Check that rules could judge something: a gate must not pass because it sees nothing.

        Args:
            found: the comparison.
            may_wait: it may see nothing as long as the branch has too few runs for a spread. Only
                for a run that is kept, since otherwise it would wait for ever.

        Raises:
            ComparisonError: no rule could judge any row, and that is not a failure anyway.
        """
        from boardprof.results.comparison.comparison import ComparisonError

        waits = may_wait and found.awaits_runs
        if found.unjudged and not found.judged and not found.failed and not waits:
            raise ComparisonError(
                "No rule could judge any row.",
                hint="the comparison has the reason for each; --fail-if-missing makes it exit "
                "code 1",
            )


def gate_options(command: Command) -> Command:
    """Add the options; `taken_gate` returns their values."""
    for option in (
        click.option(
            "--fail-if-missing",
            is_flag=True,
            help="Also exit with 1 if a rule cannot be checked: the row is missing, is not a "
            "number, has too few samples or comes from other calls, or the limit is below "
            "the measurement uncertainty.",
        ),
        click.option(
            "--allow",
            multiple=True,
            type=click.Choice(["clock", "board", "compiler", "inputs"]),
            help="Compare even if the runs differ in this.",
        ),
        click.option(
            "--spread-runs",
            default=20,
            show_default=True,
            type=Whole(min=5),
            metavar="N",
            help="Runs of the branch that set a limit in spreads, up to the one to compare with.",
        ),
        click.option(
            "--alpha",
            default=0.01,
            show_default=True,
            type=Real(min=0, max=1, min_open=True, max_open=True),
            metavar="P",
            help="Significance level of the rank test, for metrics that are not exact.",
        ),
        click.option(
            "--fail-if",
            "rules",
            multiple=True,
            metavar="RULE",
            help="Exit with 1 if a change meets METRIC[:STATISTIC]>LIMIT: 'cycles:median>2%', "
            "'instructions:max>0', 'IPC<-5%', 'busy:mean>1pp', 'time>4spread', '*>5%'.",
        ),
    ):
        command = option(command)
    return command


def taken_gate(options: Mapping[str, Any]) -> Gate:
    """Return the given options.

    Raises:
        UsageError: ``--fail-if-missing`` is given without a rule.
    """
    if options["fail_if_missing"] and not options["rules"]:
        raise UsageError("--fail-if-missing needs a rule.", hint="--fail-if")
    names = ("rules", "alpha", "allow", "fail_if_missing", "spread_runs")
    return Gate(**{name: options[name] for name in names})


def comparison_text(comparison: Comparison, export: Export) -> str:
    """Return what an exporter makes of a Comparison; the text ends with its line."""
    from boardprof.show.exporters import exported

    content = exported(comparison, export.name, export.exporter)
    assert isinstance(content, bytes), "exporters of Comparisons make one file"
    text = content.decode()
    return text if text.endswith("\n") else f"{text}\n"


_LAST = "last"


@click.command(short_help="Compare two runs: what got better or worse; a gate for CI.")
@click.argument("before", shell_complete=complete_run)
@click.argument("after", default=_LAST, shell_complete=complete_run)
@gate_options
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
@width_option
def compare(
    before: str,
    after: str,
    changed: bool,
    json_file: str | None,
    markdown_file: str | None,
    junit_file: str | None,
    exports: tuple[str, ...],
    **options: Any,
) -> int:
    """Compare two runs: what got better or worse, and what is only noise.

    BEFORE and AFTER are files of a Report or a baseline, or runs in the history: last, last~1, #42,
    a name given by `run --save`, a branch or a commit. In a project, all except #42 refer to its
    own runs. [AFTER defaults to the last run]

    Exact counts, such as those of emulators, differ if the numbers differ. All other metrics differ
    if a rank test says so. Without --fail-if nothing counts as a regression.
    """
    gate = taken_gate(options)
    from boardprof.results.report.report_file import write_text
    from boardprof.show.comparison_table import comparison_page
    from boardprof.show.exporters import read_exports

    own = {"json": json_file, "markdown": markdown_file, "junit": junit_file}
    texts = [f"{name}={file}" for name, file in own.items() if file is not None]
    files = read_exports([*texts, *exports], comparisons=True)
    if [str(each.file) for each in files].count(STDOUT) > 1:
        raise UsageError("Only one output format can be printed.", hint="write the others to files")
    comparison = gate.compared(before, after)
    printed = None
    for each in files:
        text = comparison_text(comparison, each)
        if str(each.file) == STDOUT:
            printed = text
        else:
            write_text(text, str(each.file))
            echo_written("Comparison", each.file)
    if printed is None:
        echo_page(comparison_page(comparison, changed_only=changed))
    else:
        echo_data(printed, nl=False)
    gate.check(comparison)
    return REGRESSION if comparison.failed else 0
