# SPDX-License-Identifier: Apache-2.0
"""``boardprof export``: a Report that was kept, in another form."""

from __future__ import annotations

from pathlib import Path

import click

from boardprof.cli.options import complete_run, output_option
from boardprof.cli.output import echo_data, echo_written
from boardprof.errors import UsageError


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the exporters that a shell can complete."""
    from boardprof.run.exports import exporter_names

    return [name for name in exporter_names() if name.startswith(incomplete)]


@click.command(short_help="Write a Report as CSV, Markdown, HTML, a Chrome trace ...")
@click.argument("name", shell_complete=_names)
@click.argument("report", metavar="REPORT", shell_complete=complete_run)
@output_option("Write it there. [standard output]")
@click.option(
    "--diff",
    metavar="REPORT",
    shell_complete=complete_run,
    help="html only: an older Report. The page shows what has changed since.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="WHAT",
    help="With --diff: compare even if clock, board or compiler differ.",
)
@click.option(
    "--metric", metavar="NAME", help="collapsed only: metric that sets the width of a frame."
)
def export(
    name: str,
    report: str,
    output: str | None,
    diff: str | None,
    allow: tuple[str, ...],
    metric: str | None,
) -> None:
    """Write a Report as NAME: table, csv, json, markdown, html, chrome, speedscope, collapsed.

    REPORT is a file from `run --json`, or a run in the history, such as `last`.

    \b
    html        one page with tables and charts; it needs no network
    chrome      a trace for ui.perfetto.dev or chrome://tracing
    speedscope  for speedscope.app
    collapsed   stacks for flamegraph.pl
    callgrind   for callgrind_annotate and KCachegrind; needs run --hotspots
    pprof       for pprof; needs run --hotspots
    """  # noqa: D301 (click knows the backspace as: do not wrap)
    from boardprof.history.report_lookup import find_run
    from boardprof.report.report_file import check_report_file
    from boardprof.run.exports import exported, find_exporter, option_exporter, write_exported

    find_exporter(name)
    if output is not None:
        check_report_file(output)
    if allow and diff is None:
        raise UsageError("--allow needs --diff.")
    found = find_run(report)
    before = None if diff is None else find_run(diff)
    exporter = option_exporter(name, found, before=before, allow=allow, metric=metric)
    content = exported(found.report, name, exporter)
    if output is not None:
        write_exported(content, Path(output))
        echo_written("Report", output)
        return
    echo_data(content, nl=False)
