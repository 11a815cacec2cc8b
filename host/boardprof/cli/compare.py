# SPDX-License-Identifier: Apache-2.0
"""``boardprof compare``: two runs against each other, and a gate for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from boardprof.cli.gate_options import REGRESSION, gate_options, taken_gate
from boardprof.cli.options import complete_run
from boardprof.cli.output import echo_data, echo_page, echo_written
from boardprof.cli.output_options import STDOUT, file_option, width_option
from boardprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


_LAST = "last"


@click.command(short_help="Compare two runs: what got better or worse; a gate for CI.")
@click.argument("before", shell_complete=complete_run)
@click.argument("after", default=_LAST, shell_complete=complete_run)
@gate_options
@click.option("--changed", is_flag=True, help="Show only what has changed.")
@file_option("json", "JSON")
@file_option("markdown", "Markdown for a pull request")
@file_option("junit", "JUnit XML")
@width_option
def compare(
    before: str,
    after: str,
    changed: bool,
    json_file: str | None,
    markdown_file: str | None,
    junit_file: str | None,
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
    from boardprof.render.comparison_table import comparison_page
    from boardprof.report.report_file import write_text

    files = {"--json": json_file, "--markdown": markdown_file, "--junit": junit_file}
    if [*files.values()].count(STDOUT) > 1:
        raise UsageError("Only one output format can be printed.", hint="write the others to files")
    comparison = gate.compared(before, after)
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
        echo_page(comparison_page(comparison, changed_only=changed))
    else:
        echo_data(printed, nl=False)
    return REGRESSION if comparison.failed else 0
