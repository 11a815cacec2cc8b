# SPDX-License-Identifier: Apache-2.0
"""``boardprof decode``: the blobs of a Report, decoded again."""

from __future__ import annotations

import click

from boardprof.cli.options import json_option, output_option, table_option, width_option
from boardprof.cli.output import echo_answer, echo_data, echo_report, echo_written


@click.command(short_help="Decode the blobs of a stored Report again and print it.")
@click.argument("report", metavar="REPORT")
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Python file whose LAYOUT or LAYOUTS replace those with the same schema id. The file is "
    "executed.",
)
@output_option("Write the new Report there as JSON, and print nothing.")
@json_option
@table_option
@width_option
def decode(
    report: str, schemas: tuple[str, ...], output: str | None, table: bool, as_json: bool
) -> None:
    """Decode the stored blobs of a Report again, and print it as `show` does.

    REPORT is a file from `run --json`, or a run in the history. With unchanged layouts the Report
    stays exactly as it is.
    """
    from boardprof.history.report_lookup import find_report
    from boardprof.report.report_file import check_report_file, write_report
    from boardprof.stored.decoding import decode_again
    from boardprof.stored.layouts import load_schemas

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
        (echo_report if table else echo_answer)(decoded)
