# SPDX-License-Identifier: Apache-2.0
"""``boardprof decode``: the blobs of a Report, decoded again."""

from __future__ import annotations

import click

from boardprof.cli.output import echo_data, echo_table, echo_written
from boardprof.cli.output_options import json_option, output_option, width_option

__all__ = ["decode"]


@click.command(short_help="Decode the blobs of a kept Report again, and print its table.")
@click.argument("report", metavar="REPORT")
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Python file whose LAYOUT or LAYOUTS replace those of the same schema id. It is run.",
)
@output_option("Write the new Report there as JSON, and print nothing.")
@json_option
@width_option
def decode(report: str, schemas: tuple[str, ...], output: str | None, as_json: bool) -> None:
    """Decode the blobs that a Report keeps once more, and print its table.

    REPORT is a file that `run --json` wrote, or a run of the history. With the layouts that it was
    made with, the Report comes out as it went in.
    """
    from boardprof.history.finding import find_report
    from boardprof.report.report_file import check_report_file, write_report
    from boardprof.run.decoding import decode_again
    from boardprof.run.stored_layouts import load_schemas

    if output is not None:
        check_report_file(output)
    layouts = [layout for file in schemas for layout in load_schemas(file)]
    decoded = decode_again(find_report(report), layouts)
    if output is not None:
        write_report(decoded, output)
        echo_written("Report", output)
    if as_json:
        echo_data(decoded.json())
    elif output is None:
        echo_table(decoded.table(by_board=decoded.has_several) + "\n")
