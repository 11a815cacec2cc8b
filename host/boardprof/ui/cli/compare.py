# SPDX-License-Identifier: Apache-2.0
"""``boardprof compare`` and ``trend``; the options of a gate, which decide the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.errors import UsageError
from boardprof.ui.cli.options import (
    STDOUT,
    Real,
    board_filter_option,
    complete_run,
    file_option,
    json_option,
    number_option,
    together,
    width_option,
)
from boardprof.ui.cli.output import echo_data, echo_json, echo_note, echo_page, echo_written

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
    """The values of the gate options."""

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
        from boardprof.results.comparison.comparison import ComparisonError
        from boardprof.results.history.run_comparison import compare

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
        """Check that rules could judge something: a gate must not pass because it sees nothing."""
        from boardprof.results.comparison.comparison import ComparisonError

        waits = may_wait and found.awaits_runs
        if found.unjudged and not found.judged and not found.failed and not waits:
            raise ComparisonError(
                "No rule could judge any row.",
                hint="the comparison has the reason for each; --fail-if-missing makes it exit "
                "code 1",
            )


gate_options = together(
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
    click.option(
        "--allow",
        multiple=True,
        type=click.Choice(["clock", "board", "compiler", "inputs"]),
        help="Compare although this setting differs.",
    ),
    click.option(
        "--fail-if-missing",
        is_flag=True,
        help="Also exit with 1 if a rule cannot be checked: the row is missing, is not a "
        "number, has too few samples or comes from other calls, or the limit is below "
        "the measurement uncertainty.",
    ),
)
"""Rules for changes; `parse_gate` returns their values."""


def parse_gate(options: Mapping[str, Any]) -> Gate:
    """Return the given options."""
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
    gate = parse_gate(options)
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


@click.command(short_help="Show a function over the last runs, and which commits changed it.")
@click.argument("function")
@board_filter_option
@click.option(
    "--branch",
    metavar="NAME",
    help="Only clean runs of this branch. [default: the current branch]",
)
@click.option(
    "--all",
    "takes_all",
    is_flag=True,
    help="All runs of the project that did not fail, of all branches, clean or not.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Show this metric. [default: the one that a comparison shows first]",
)
@number_option("--limit", "Read at most N runs.", default=50)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["clock", "board", "compiler", "inputs"]),
    help="Include runs that differ in this from the newest one.",
)
@json_option
@width_option
def trend(
    function: str,
    board: str | None,
    branch: str | None,
    takes_all: bool,
    metrics: tuple[str, ...],
    limit: int,
    allow: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the medians of FUNCTION over the last runs in the history, the oldest first.

    FUNCTION is a name or FILE:NAME. Functions of one name in several files are shown one by one.

    Any difference of exact counts is a change. For other values a rank test finds changes. In at
    most 1 % of series without a change, it finds one by chance. The median and the spread are those
    of the runs since the last change. The spread is 1.48 times the median distance from the median.
    """
    from boardprof.jobs.run.target import split_target
    from boardprof.results.history.run_comparison import function_trends, usual_branch
    from boardprof.show.trend_table import chosen_trends, trend_page

    if takes_all and branch is not None:
        raise UsageError("--all excludes --branch.", hint="one of them")
    file, name = split_target(function)
    if branch is None and not takes_all:
        branch = usual_branch(name, board)
    found = function_trends(name, file=file, branch=branch, board=board, limit=limit, allow=allow)
    if as_json:
        echo_json(found.json())
        return
    echo_page(trend_page(chosen_trends(found.for_people(), metrics)))
    for why, left_out in found.left_out.items():
        names = ", ".join(f"#{run.id}" for run in left_out)
        echo_note(f"left out: {names}. {why}")
