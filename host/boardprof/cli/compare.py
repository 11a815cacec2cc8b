# SPDX-License-Identifier: Apache-2.0
"""``boardprof compare``: two runs against each other, and a gate for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from boardprof.cli.options import Real
from boardprof.cli.output import echo_data, echo_table, echo_written
from boardprof.cli.output_options import STDOUT, file_option, width_option
from boardprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["compare"]

_REGRESSION = 1
"""Exit code: the command itself went well, but a rule is broken."""

_LAST = "last"


@click.command(short_help="Compare two runs: what became better or worse; a gate for CI.")
@click.argument("before")
@click.argument("after", default=_LAST)
@click.option(
    "--fail-if",
    "rules",
    multiple=True,
    metavar="RULE",
    help="Exit with 1 where METRIC[:STATISTIC]>LIMIT holds of a change: 'cycles:median>2%', "
    "'instructions:max>0', 'IPC<-5%', 'busy:mean>1pp', '*>5%'.",
)
@click.option(
    "--alpha",
    default=0.01,
    show_default=True,
    type=Real(min=0, max=1, min_open=True, max_open=True),
    metavar="P",
    help="Level of the rank test, for what is no exact count.",
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["clock", "board", "compiler"]),
    help="Compare although the two differ in it.",
)
@click.option(
    "--fail-if-missing",
    is_flag=True,
    help="Exit with 1, too, where a rule could not judge what it is for: it is gone, no number, of "
    "too few samples, of other calls, or its limit is less than the measuring itself is sure.",
)
@click.option("--changed", is_flag=True, help="Leave out of the table what is the same.")
@file_option("json", "JSON")
@file_option("markdown", "Markdown for a pull request")
@file_option("junit", "JUnit XML")
@width_option
def compare(
    before: str,
    after: str,
    rules: tuple[str, ...],
    alpha: float,
    allow: tuple[str, ...],
    fail_if_missing: bool,
    changed: bool,
    json_file: str | None,
    markdown_file: str | None,
    junit_file: str | None,
) -> int:
    """Compare two runs: what became better or worse, and what is only noise.

    BEFORE and AFTER are a Report's JSON file, or a run of the history: last, last~1, #42, a name
    given by `run --save`, a branch or a commit; what it is first in this order, it is. In a git
    repository, all but #42 mean its own runs. Without AFTER it is the last run.

    Exact counts, as emulators have them, differ if they differ; all others if a rank test says so.
    Without --fail-if nothing is a regression.
    """
    if fail_if_missing and not rules:
        raise UsageError("--fail-if-missing is about rules, and there is none.", hint="--fail-if")
    from boardprof.comparison.compare import compare as compared
    from boardprof.report.report_file import write_text

    files = {"--json": json_file, "--markdown": markdown_file, "--junit": junit_file}
    if [*files.values()].count(STDOUT) > 1:
        raise UsageError("Only one form can be printed.", hint="write the others to files")
    comparison = compared(
        before, after, rules, alpha=alpha, allow=allow, fail_if_missing=fail_if_missing
    )
    forms: dict[str, Callable[[], str]] = {
        "--json": lambda: comparison.json() + "\n",
        "--markdown": comparison.markdown,
        "--junit": comparison.junit,
    }
    printed = None
    for option, file in files.items():
        if file == STDOUT:
            printed = forms[option]()
        elif file is not None:
            write_text(forms[option](), file)
            echo_written("Comparison", file)
    if printed is None:
        echo_table(comparison.table(changed_only=changed))
    else:
        echo_data(printed, nl=False)
    return _REGRESSION if comparison.failed else 0
