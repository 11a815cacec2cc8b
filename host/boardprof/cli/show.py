# SPDX-License-Identifier: Apache-2.0
"""``boardprof show``: a Report that was kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from boardprof.cli.options import (
    complete_run,
    json_option,
    table_option,
    warnings_option,
    width_option,
)
from boardprof.cli.output import (
    echo_answer,
    echo_configuration,
    echo_data,
    echo_odd_rows,
    echo_page,
    echo_profiles,
    echo_report,
    echo_warnings,
)
from boardprof.errors import UsageError

if TYPE_CHECKING:
    from boardprof.history.report_lookup import Found


_MANY_CALLS = 100_000
"""With more rows, statistics that were not requested would take too long."""


@click.command(short_help="Print a stored Report, from a file or the history.")
@click.argument("ref", metavar="FILE|RUN", shell_complete=complete_run)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one line per sample.")
@json_option
@table_option
@click.option("--configuration", is_flag=True, help="Also print how it was measured.")
@click.option("--stats", is_flag=True, help="Print statistics of the samples.")
@click.option(
    "--hotspots", is_flag=True, help="Print where the functions spend what they cost, by function."
)
@click.option("--lines", is_flag=True, help="The same by line of the source.")
@click.option("--asm", is_flag=True, help="The same by instruction.")
@click.option(
    "--aggregate/--samples", default=True, help="Print one row per function, or one per sample."
)
@click.option(
    "--by-board/--one-column",
    default=None,
    help="Group the columns by board, with values per call; or show all boards in one column, "
    "with sums. [default: --by-board if there are several boards or settings]",
)
@warnings_option
@width_option
def show(
    ref: str,
    as_csv: bool,
    as_json: bool,
    table: bool,
    configuration: bool,
    stats: bool,
    hotspots: bool,
    lines: bool,
    asm: bool,
    aggregate: bool,
    by_board: bool | None,
    warnings: bool,
) -> None:
    """Print a Report, from a file of `run --json` or from a run in the history.

    RUN is last, last~1, #42, a name given by `run --save`, a branch or a commit. In a git
    repository, all except #42 refer to its own runs.
    """
    if as_csv + as_json + stats + hotspots + lines + asm > 1:
        raise UsageError(
            "--csv, --json, --stats, --hotspots, --lines and --asm cannot be combined.",
            hint="give one of them",
        )
    found = _found(ref)
    report = found.report
    if as_json:
        echo_data(report.json())
        return
    if as_csv:
        echo_data(report.csv(), nl=False)
        return
    if hotspots or lines or asm:
        echo_profiles(report, lines=lines, asm=asm)
        return
    echo_odd_rows(report)
    if stats:
        from boardprof.render.statistics_table import statistics_page

        echo_page(statistics_page(report))
    elif table or by_board is not None or not aggregate:
        echo_report(report, by_board=by_board, aggregate=aggregate)
    else:
        echo_answer(report, name=f"#{found.run.id}" if found.run else "")
        if configuration:
            echo_configuration(report)
    if warnings and (stats or len(report.calls) <= _MANY_CALLS):
        echo_warnings(report)


def _found(ref: str) -> Found:
    """Return the Report of a file or of a run; a pipe with that name is read as a file."""
    from boardprof.history.report_lookup import Found, find_run
    from boardprof.report.report_file import read_report

    try:
        return find_run(ref)
    except UsageError:
        if not ref.endswith(".json") and Path(ref).is_fifo():
            return Found(read_report(ref), ref, "")
        raise
