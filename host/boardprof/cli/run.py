# SPDX-License-Identifier: Apache-2.0
"""``boardprof run``: measure and print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from boardprof.cli import INTERRUPTED
from boardprof.cli.build_options import build_options, taken_build_options
from boardprof.cli.options import (
    LONGEST_S,
    Real,
    complete_board,
    image_option,
    port_options,
    warnings_option,
)
from boardprof.cli.output import (
    echo_command,
    echo_console,
    echo_note,
    echo_table,
    echo_warnings,
    echo_written,
    progress_bar,
    stdout_of_boards,
)
from boardprof.errors import BoardprofError, UsageError

if TYPE_CHECKING:
    from boardprof.report.report import Report

__all__ = ["run"]

_STDERR = 2
_STDOUT = "-"


@click.command()
@click.argument("target")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "-b",
    "--board",
    "board_names",
    multiple=True,
    shell_complete=complete_board,
    help="Board, or several: -b A,B makes one Report. [the default board; with -p, what is there]",
)
@port_options
@image_option
@click.option(
    "--metrics",
    help="Metrics to read, comma-separated. [what the board counts by itself; all: its events too]",
)
@click.option(
    "--warmup",
    default=10,
    show_default=True,
    type=click.IntRange(min=0),
    help="Calls before the first sample.",
)
@click.option(
    "--repeat", default=10, show_default=True, type=click.IntRange(min=1), help="Samples."
)
@click.option(
    "--number",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Calls in each sample.",
)
@click.option("--cold", is_flag=True, help="Measure the first call of all apart, too.")
@build_options
@click.option(
    "--sweep",
    metavar='"FLAGS|FLAGS"',
    help='Measure once with each setting of compiler flags, e.g. "-O2|-O3|-Os"; a row each.',
)
@click.option("--flash", is_flag=True, help="Write the firmware to the board at the port first.")
@click.option(
    "--save-output",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write return.npy and one NAME.npy for each array that the function wrote.",
)
@click.option(
    "--expect",
    multiple=True,
    metavar="[NAME=]@FILE.npy",
    help="Fail unless the output is that of the file; NAME may be `return`.",
)
@click.option(
    "--tolerance",
    default=0.0,
    type=Real(min=0),
    metavar="REL",
    help="How far floats may be from --expect, as a share of it. [not a bit]",
)
@click.option(
    "--timeout-ms",
    type=click.IntRange(min=1, max=1000 * LONGEST_S),
    metavar="MS",
    help="As --timeout, in milliseconds.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write the Report as JSON; - prints it in place of the table.",
)
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="NAME=FILE",
    help="Write the Report by an exporter: csv, html, markdown ..., or another package's.",
)
@click.option(
    "--save", metavar="NAME", help="Keep the run in the history under NAME. [kept without a name]"
)
@click.option("--stats", is_flag=True, help="Print statistics of the samples, too.")
@warnings_option
@click.option("--console", is_flag=True, help="Show what the board prints.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show each compiler command and what the board prints."
)
def run(target: str, values: tuple[str, ...], board_names: tuple[str, ...], **options: Any) -> int:
    """Measure functions on boards and print the Report.

    TARGET is PATH:FUNCTION or PATH:all, where PATH is a C file, a folder, or what else --source
    takes; without a PATH, it is a function that the board's firmware, or the --image, already has,
    or all. NAME=VALUE gives an argument.

    \b
    n=256  gain=-1.5  on=true      numbers
    x=@x.npy  x=@x.bin             an array of a file
    x=int16[64]:random(7)          or :zeros, :ones, :random; [64]:ones is of x's own type
    y=int32[16,16]:out             only written; s=@s.npy:keep is not put back between calls
    s=zeros  s=[3]:zeros           structs; s='{gain=2.5, taps=[1, 2]}' sets members
    p=NULL                         no array
    """  # noqa: D301 (click knows the backspace as: do not wrap)
    from boardprof.report.report_file import check_report_file, write_report
    from boardprof.run.exports import read_exports, write_export
    from boardprof.run.runner import Plan, run_plan
    from boardprof.run.saving import check_save_name, keep_run

    check_save_name(options["save"])
    exports = read_exports(options["exports"])
    json_file = options["json_file"]
    if json_file not in (None, _STDOUT):
        check_report_file(json_file)
    names = [name for part in board_names for name in part.split(",") if name]
    if board_names and not names:
        raise UsageError("-b names no board.", hint="`boardprof boards` lists them")
    metrics = options["metrics"]
    plan = Plan(
        target=target,
        values=values,
        boards=tuple(names),
        port=options["port"],
        baud=options["baud"],
        timeout_s=_timeout_s(options),
        takeover=options["takeover"],
        key_file=options["key_file"],
        image=options["image"],
        metrics=tuple(m.strip() for m in metrics.split(",") if m.strip()) if metrics else None,
        warmup=options["warmup"],
        repeat=options["repeat"],
        number=options["number"],
        cold=options["cold"],
        code=taken_build_options(options),
        sweep=options["sweep"],
        flash=options["flash"],
        expect=options["expect"],
        tolerance=options["tolerance"],
        save_output=options["save_output"],
    )
    shows_console = options["verbose"] or options["console"]
    with progress_bar(measures=True) as on_progress, stdout_of_boards(shown=shows_console):
        outcome = run_plan(
            plan,
            on_command=echo_command if options["verbose"] else None,
            on_progress=on_progress,
            on_console=echo_console if shows_console else None,
            on_note=echo_note,
            flash_output=_STDERR,
        )
    failures = list(outcome.failures)
    if outcome.report is not None:
        # The file first: nobody may be reading what we print.
        if json_file not in (None, _STDOUT):
            try:
                write_report(outcome.report, json_file)
                echo_written("Report", json_file)
            except BoardprofError as error:
                failures.append(error)
        for export in exports:
            try:
                write_export(outcome.report, export)
                echo_written("Report", export.file)
            except BoardprofError as error:
                failures.append(error)
        notes: list[str] = []
        kept = keep_run(outcome.report, name=options["save"], on_note=notes.append)
        if kept is None and options["save"] is not None:
            failures += [UsageError(note) for note in notes]
        else:
            for note in notes:
                echo_note(note)
        _echo_report(outcome.report, as_json=json_file == _STDOUT, stats=options["stats"])
        if options["warnings"]:
            echo_warnings(outcome.report)
    for failure in failures:
        click.echo(f"error: {failure}", err=True)
    if outcome.interrupted:
        click.echo("interrupted", err=True)
        return INTERRUPTED
    return failures[0].exit_code if failures else 0


def _echo_report(report: Report, *, as_json: bool, stats: bool) -> None:
    if as_json:
        click.echo(report.json())
        return
    echo_table(report.table(by_board=report.has_several) + "\n")
    if stats:
        echo_table(report.statistics())


def _timeout_s(options: Mapping[str, Any]) -> float | None:
    """Return the limit of a call, in seconds, from either option.

    Raises:
        UsageError: both are given.
    """
    seconds: float | None = options["timeout"]
    milliseconds: int | None = options["timeout_ms"]
    if milliseconds is None:
        return seconds
    if seconds is not None:
        raise UsageError("--timeout and --timeout-ms are the same limit.", hint="give one of them")
    return milliseconds / 1000
