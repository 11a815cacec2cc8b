# SPDX-License-Identifier: Apache-2.0
"""``boardprof show``: a Report that was kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from boardprof.cli.options import warnings_option
from boardprof.cli.output import echo_data, echo_odd_rows, echo_table, echo_warnings
from boardprof.cli.output_options import json_option, width_option
from boardprof.errors import UsageError

if TYPE_CHECKING:
    from boardprof.report.report import Report

__all__ = ["show"]

_MANY_CALLS = 100_000
"""So many rows make one wait for the statistics of a table that nobody asked them of."""


@click.command(short_help="Print a Report that was kept: of a file, or of the history.")
@click.argument("ref", metavar="FILE|RUN")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one line a sample.")
@json_option
@click.option("--stats", is_flag=True, help="Print statistics of the samples.")
@click.option("--aggregate/--samples", default=True, help="One row a function, or one a sample.")
@click.option(
    "--by-board/--one-column",
    default=None,
    help="A group of columns a board, per call; or all boards in one, with sums. [--by-board where "
    "there are several boards or settings]",
)
@warnings_option
@width_option
def show(
    ref: str,
    as_csv: bool,
    as_json: bool,
    stats: bool,
    aggregate: bool,
    by_board: bool | None,
    warnings: bool,
) -> None:
    """Print the table of a Report: of a file that `run --json` wrote, or of a run of the history.

    RUN is last, last~1, #42, a name given by `run --save`, a branch or a commit. In a git
    repository, all but #42 mean its own runs.
    """
    if as_csv + as_json + stats > 1:
        raise UsageError("--csv, --json and --stats are three forms.", hint="one of them")
    report = _report(ref)
    if as_json:
        echo_data(report.json())
        return
    if as_csv:
        echo_data(report.csv(), nl=False)
        return
    echo_odd_rows(report)
    if stats:
        echo_table(report.statistics())
    else:
        chosen = aggregate and report.has_several if by_board is None else by_board
        echo_table(report.table(aggregate=aggregate, by_board=chosen) + "\n")
    if warnings and (stats or len(report.calls) <= _MANY_CALLS):
        echo_warnings(report)


def _report(ref: str) -> Report:
    """Return the Report of a file or of a run; a pipe of that name, which is no run, is read."""
    from boardprof.history.finding import find_run
    from boardprof.report.report_file import read_report

    try:
        return find_run(ref).report
    except UsageError:
        if not ref.endswith(".json") and Path(ref).is_fifo():
            return read_report(ref)
        raise
