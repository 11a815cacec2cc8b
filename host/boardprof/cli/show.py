# SPDX-License-Identifier: Apache-2.0
"""``boardprof show``: a Report that was kept."""

from __future__ import annotations

import click

__all__ = ["show"]


@click.command()
@click.argument("file", type=click.Path())
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one line a sample.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--aggregate/--samples", default=True, help="One row a function, or one a sample.")
@click.option(
    "--by-board/--one-column",
    default=None,
    help="A group of columns a board, per call; or all boards in one, with sums. [--by-board where "
    "there are several boards or settings]",
)
def show(file: str, as_csv: bool, as_json: bool, aggregate: bool, by_board: bool | None) -> None:
    """Print the table of a Report that was written by `run --json`."""
    from boardprof.report.report_file import read_report

    report = read_report(file)
    if as_json:
        click.echo(report.json())
    elif as_csv:
        click.echo(report.csv(), nl=False)
    else:
        chosen = aggregate and report.has_several if by_board is None else by_board
        click.echo(report.table(aggregate=aggregate, by_board=chosen))
