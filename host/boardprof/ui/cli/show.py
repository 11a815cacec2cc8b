# SPDX-License-Identifier: Apache-2.0
"""The commands for stored Reports: ``show``, ``export`` and ``decode``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.errors import BoardprofError, UsageError
from boardprof.ui.cli.options import (
    complete_run,
    csv_option,
    json_option,
    output_option,
    table_option,
    warnings_option,
    width_option,
)
from boardprof.ui.cli.output import (
    echo_answer,
    echo_configuration,
    echo_data,
    echo_incomplete_rows,
    echo_note,
    echo_page,
    echo_report,
    echo_warnings,
    echo_written,
)

if TYPE_CHECKING:
    from boardprof.results.history.report_lookup import Found
    from boardprof.results.probes.run import ProbeRun
    from boardprof.results.report.report import Report
    from boardprof.show.exporters import Exporter


_MANY_CALLS = 100_000  # with more rows, statistics that were not requested would take too long


@click.command(short_help="Print a stored Report, from a file or the history.")
@click.argument("ref", default="last", metavar="[FILE|RUN]", shell_complete=complete_run)
@csv_option
@json_option
@table_option
@click.option("--configuration", is_flag=True, help="Also print how it was measured.")
@click.option("--stats", is_flag=True, help="Print statistics of the samples.")
@click.option(
    "--hotspots", is_flag=True, help="Print the parts of each function's cost by function."
)
@click.option("--lines", is_flag=True, help="Print them by line of the source.")
@click.option("--asm", is_flag=True, help="Print them by instruction.")
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
def show(ref: str, **options: Any) -> None:
    """Print a Report, from a file of `run --json` or from a run in the history.

    RUN is last, last~1, 42 for #42, a name given by `run --save`, a branch or a commit. In a
    git repository, all except numbers refer to its own runs. [default: last]
    """
    names = ("as_csv", "as_json", "stats", "hotspots", "lines", "asm")
    if sum(options[name] for name in names) > 1:
        raise UsageError(
            "--csv, --json, --stats, --hotspots, --lines and --asm cannot be combined.",
            hint="give one of them",
        )
    found = _found(ref)
    report = found.report
    if options["as_json"]:
        echo_data(report.json())
        return
    if options["as_csv"]:
        echo_data(report.csv(), nl=False)
        return
    if options["hotspots"] or options["lines"] or options["asm"]:
        from boardprof.ui.cli.recording import echo_profiles

        echo_profiles(report, lines=options["lines"], asm=options["asm"])
        return
    echo_incomplete_rows(report)
    stats, by_board, aggregate = options["stats"], options["by_board"], options["aggregate"]
    if stats:
        from boardprof.show.table import statistics_page

        echo_page(statistics_page(report))
    elif options["table"] or by_board is not None or not aggregate:
        echo_report(report, by_board=by_board, aggregate=aggregate)
    else:
        echo_answer(report, name=f"#{found.run.id}" if found.run else "")
        if options["configuration"]:
            echo_configuration(report)
    if options["warnings"] and (stats or len(report.calls) <= _MANY_CALLS):
        echo_warnings(report)


def _found(ref: str) -> Found:
    """Return the Report of a file or of a run; a pipe with that name is read as a file."""
    from boardprof.results.history.report_lookup import Found, find_run
    from boardprof.results.report.report_file import read_report

    try:
        return find_run(ref)
    except UsageError:
        if not ref.endswith(".json") and Path(ref).is_fifo():
            return Found(read_report(ref), ref, "")
        raise


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the exporters that a shell can complete."""
    from boardprof.show.exporters import exporter_names, probe_exporter_names

    names = {*exporter_names(), *probe_exporter_names()}
    return [name for name in sorted(names) if name.startswith(incomplete)]


@click.command(short_help="Write a Report or a trace as CSV, HTML, for Perfetto ...")
@click.argument("name", shell_complete=_names)
@click.argument("report", metavar="REPORT|TRACE", shell_complete=complete_run)
@output_option(
    "Output file; for ctf, a folder. [default: standard output]", prints=True, folder=True
)
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
    help="With --diff: compare even if clock, board, compiler or inputs differ.",
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
    """Write a Report as NAME: table, csv, json, markdown, html, or another one below.

    REPORT is a file from `run --json`, or a run in the history, such as `last`. TRACE is a file
    from `trace -o`. Exporters that are for Reports only get its ranges as a Report.

    \b
    medians      CSV with a line for each function and metric, for a table or a plot
    baseline     medians to commit, as a baseline for compare and pytest
    html         one page with tables and charts, for a TRACE with a timeline; it needs no network
    chrome       a trace for ui.perfetto.dev or chrome://tracing
    speedscope   for speedscope.app
    collapsed    stacks for flamegraph.pl
    callgrind    for callgrind_annotate and KCachegrind; needs run --hotspots
    pprof        for pprof; needs run --hotspots
    bencher      medians for Bencher, as JSON
    hyperfine    times in seconds, as JSON for hyperfine's scripts
    benchmark-action  medians for github-action-benchmark, as JSON
    openmetrics  medians for GitLab's metrics report
    perfetto     TRACE only: for ui.perfetto.dev
    ctf          TRACE only: a folder for babeltrace2 and Trace Compass
    memory       TRACE only: memory that was taken and given back, by call site
    """  # noqa: D301 (click knows the backspace as: do not wrap)
    from boardprof.results.history.report_lookup import find_run
    from boardprof.results.report.report_file import check_report_file, is_probe_run
    from boardprof.show.exporters import (
        FOLDERS,
        exported,
        exporter_names,
        find_exporter,
        find_probe_exporter,
        probe_exporter_names,
    )

    if allow and diff is None:
        raise UsageError("--allow needs --diff.")
    of_recording = find_probe_exporter(name) if is_probe_run(report) else None
    if of_recording is None:
        only_traces = {*probe_exporter_names()} - {*exporter_names()}
        if name in only_traces and not Path(report).exists():
            raise UsageError(
                f"The exporter {name} is for recordings of probes, and there is no file {report}.",
                hint="record one with `boardprof trace -o FILE`, and name that FILE",
            )
        find_exporter(name)
    for option, wanted, only in (("--diff", diff, "html"), ("--metric", metric, "collapsed")):
        if wanted is not None and name != only:
            raise UsageError(f"{option} is for {only}, not for {name}.")
    if name in FOLDERS:
        if output is None:
            raise UsageError(f"The exporter {name} writes a folder.", hint="name it: -o FOLDER")
    elif output is not None:
        check_report_file(output)
    if of_recording is not None and diff is None and metric is None:
        _export_recording(name, of_recording, report, output)
        return
    found = find_run(report)
    before = None if diff is None else find_run(diff)
    exporter = _option_exporter(name, found, before, allow, metric)
    _write(exported(found.report, name, exporter), "Report", output)


def _write(content: bytes | dict[str, bytes], what: str, output: str | None) -> None:
    from boardprof.show.exporters import write_exported

    if output is not None:
        write_exported(content, Path(output))
        echo_written(what, output)
    elif isinstance(content, bytes):
        echo_data(content, nl=False)


def _export_recording(
    name: str, exporter: Callable[..., object], file: str, output: str | None
) -> None:
    from boardprof.results.probes.run import read_run
    from boardprof.show.exporters import WITH_PLACES, exported

    recording = read_run(file)
    if name in WITH_PLACES:
        exporter = partial(exporter, places=_places(recording))
    _write(exported(recording, name, exporter), "Trace", output)


def _places(recording: ProbeRun) -> dict[int, str]:
    """Return file and line of the calls that took memory; none if its image is not there."""
    from boardprof.results.probes.heap import heap_of
    from boardprof.target.elf.addresses import call_sites_of_build

    heap = heap_of(recording.timelines().values())
    if heap is None:
        return {}
    callers = [site.caller for site in heap.sites]
    try:
        return call_sites_of_build(recording.facts.image, recording.facts.build_id, callers)
    except UsageError as error:
        why = error.message.rstrip(".") if recording.facts.image else "no image is known"
        echo_note(f"{why}, so call sites are shown by their addresses.")
        return {}


def _option_exporter(
    name: str, after: Found, before: Found | None, allow: Sequence[str], metric: str | None
) -> Exporter:
    """Return an exporter with its options, which it has: the HTML page also gets earlier runs."""
    from boardprof.show.exporters import find_exporter

    exporter: Callable[..., Any] = find_exporter(name)
    if metric is not None:
        return partial(exporter, metric=metric)
    if name != "html":
        return exporter
    page = partial(exporter, earlier=_earlier(after))
    if before is None:
        return page
    return partial(page, before=before.report, allow=allow, names=(before.dated, after.dated))


def _earlier(found: Found) -> list[tuple[str, Report]]:
    """Return the older runs that are like one of the history, the oldest first, with commits."""
    if found.run is None:
        return []
    from boardprof.results.history.report_lookup import like_runs

    runs: list[tuple[str, Report]] = []
    with contextlib.suppress(BoardprofError):  # if a run is damaged, the page has the newer ones
        for each in like_runs(found.report, before=found.run):
            git = each.run.git.text if each.run is not None and each.run.git is not None else ""
            runs.append((f"{each.label} ({git})" if git else each.label, each.report))
    return runs[::-1]


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
@output_option(
    "Write the new Report there as JSON, and print nothing.", hint="--json, which prints it"
)
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
    from boardprof.results.history.report_lookup import find_report
    from boardprof.results.redecode import decode_again, load_schemas
    from boardprof.results.report.report_file import write_report
    from boardprof.target.descriptions.board import find_boards

    layouts = [layout for file in schemas for layout in load_schemas(file)]
    decoded = decode_again(find_report(report), layouts, find_boards())
    if output is not None:
        write_report(decoded, output)
        echo_written("Report", output)
    if as_json:
        echo_data(decoded.json())
    elif output is None:
        (echo_report if table else echo_answer)(decoded)
