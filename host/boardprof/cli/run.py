# SPDX-License-Identifier: Apache-2.0
"""``boardprof run``: measure and print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from boardprof.cli import INTERRUPTED
from boardprof.cli.against import Against, against_options, taken_against
from boardprof.cli.build_options import build_options, taken_build_options
from boardprof.cli.options import (
    LONGEST_S,
    Real,
    Whole,
    complete_board,
    image_option,
    port_options,
    warnings_option,
)
from boardprof.cli.output import (
    echo,
    echo_command,
    echo_console,
    echo_data,
    echo_note,
    echo_table,
    echo_warning,
    echo_warnings,
    echo_written,
    progress_bar,
    stdout_of_boards,
)
from boardprof.cli.output_options import STDOUT, baseline_option, file_option, width_option
from boardprof.errors import BoardprofError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from boardprof.report.report import Report
    from boardprof.run.exports import Export
    from boardprof.run.plan import Plan
    from boardprof.run.runner import Outcome

__all__ = ["run"]

_STDERR = 2


@click.command()
@click.argument("target")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "-b",
    "--board",
    "board_names",
    multiple=True,
    metavar="BOARD[,BOARD...]",
    shell_complete=complete_board,
    help="Board, or several: -b A,B makes one Report. [the default board; with -p, what is there]",
)
@port_options
@image_option
@click.option(
    "--metrics",
    metavar="NAME[,NAME...]",
    help="Metrics to read, comma-separated. [what the board counts by itself; all: its events too]",
)
@click.option(
    "--warmup",
    metavar="N",
    type=Whole(min=0),
    help="Calls before the first sample. [10; 1 if a call takes over 0.5 s]",
)
@click.option(
    "--repeat",
    metavar="N",
    type=Whole(min=1),
    help="Samples. [10; if a call takes over 0.5 s, 2 on emulated boards and 5 on others]",
)
@click.option(
    "--number",
    metavar="N",
    default=1,
    show_default=True,
    type=Whole(min=1),
    help="Calls in each sample.",
)
@click.option("--cold", is_flag=True, help="Measure the first call of all apart, too.")
@click.option(
    "--mask-interrupts", is_flag=True, help="Let no interrupt run within the measured windows."
)
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
    help="Fail unless the output is that of the file; NAME may be `return`; in FILE, {board} is "
    "the board's name.",
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
    type=Whole(min=1, max=1000 * LONGEST_S),
    metavar="MS",
    help="As --timeout, in milliseconds.",
)
@file_option("json", "the Report as JSON")
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
@baseline_option
@against_options
@click.option("--stats", is_flag=True, help="Print statistics of the samples, too.")
@warnings_option
@width_option
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
    x=int16[64]:random(7)          or :zeros, :ones, :random
    x=[64]:ones                    of x's own type
    y=int32[16,16]:out             only written
    s=@s.npy:keep                  not put back between calls
    s=zeros  s=[3]:zeros           structs
    s='{gain=2.5, taps=[1, 2]}'    a struct's members
    p=NULL                         no array
    """  # noqa: D301 (click knows the backspace as: do not wrap)
    from boardprof.run.exports import read_exports
    from boardprof.run.saving import check_save_name

    check_save_name(options["save"])
    against = taken_against(options)
    exports = read_exports(options["exports"])
    plan = _plan(target, values, board_names, options)
    sources: list[Path] = []
    outcome = _measured(plan, against, options, sources.extend)
    failures = list(outcome.failures)
    if outcome.report is not None:
        if not outcome.interrupted:
            failures += against.compare(outcome.report)
        has_failed = bool(failures) or against.failed
        why = "was interrupted" if outcome.interrupted else "failed" if has_failed else ""
        # The files first: nobody may be reading what we print.
        failures += _write(outcome.report, options["json_file"], exports)
        failures += _write_baseline(outcome.report, options["baseline_file"], why)
        failures += _keep(outcome.report, options["save"], plan, sources, why)
        as_json = options["json_file"] == STDOUT
        _echo_report(outcome.report, as_json=as_json, stats=options["stats"])
        if options["warnings"]:
            echo_warnings(outcome.report)
        if not as_json:
            against.echo()
    for failure in failures:
        echo(f"error: {failure}", err=True)
    if outcome.interrupted:
        echo("interrupted", err=True)
        return INTERRUPTED
    return against.exit_code(failures)


def _plan(
    target: str, values: tuple[str, ...], board_names: Sequence[str], options: Mapping[str, Any]
) -> Plan:
    from boardprof.run.plan import Plan

    names = [name for part in board_names for name in part.split(",") if name]
    if board_names and not names:
        raise UsageError("-b names no board.", hint="`boardprof boards` lists them")
    metrics = options["metrics"]
    as_given = (
        *("port", "baud", "takeover", "clock", "key_file", "image", "warmup", "repeat", "number"),
        *("cold", "mask_interrupts", "sweep", "flash", "expect", "tolerance", "save_output"),
    )
    return Plan(
        target=target,
        values=values,
        boards=tuple(names),
        timeout_s=_timeout_s(options),
        wall_timeout_s=options["wall_timeout"],
        metrics=tuple(m.strip() for m in metrics.split(",") if m.strip()) if metrics else None,
        code=taken_build_options(options),
        **{name: options[name] for name in as_given},
    )


def _measured(
    plan: Plan,
    against: Against,
    options: Mapping[str, Any],
    on_sources: Callable[[Sequence[Path]], None],
) -> Outcome:
    from boardprof.run.measuring import Listener

    shows_console = options["verbose"] or options["console"]
    with progress_bar(measures=True) as on_progress, stdout_of_boards(shown=shows_console):
        listener = Listener(
            on_note=echo_note,
            on_command=echo_command if options["verbose"] else None,
            on_progress=on_progress,
            on_console=echo_console if shows_console else None,
            on_sources=on_sources,
            flash_output=_STDERR,
        )
        return against.measure(plan, listener)


def _write(
    report: Report, json_file: str | None, exports: Sequence[Export]
) -> Iterator[BoardprofError]:
    """Write the files that were asked for; yield why one could not be."""
    from boardprof.report.report_file import write_report
    from boardprof.run.exports import write_export

    writers: list[tuple[object, Callable[[], None]]] = []
    if json_file is not None and json_file != STDOUT:
        writers.append((json_file, partial(write_report, report, json_file)))
    writers += [(export.file, partial(write_export, report, export)) for export in exports]
    for file, write in writers:
        try:
            write()
            echo_written("Report", file)
        except BoardprofError as error:
            yield error


def _write_baseline(report: Report, file: str | None, why: str) -> Iterator[BoardprofError]:
    """Write the baseline, if it was asked for; yield why it could not be.

    Args:
        report: of the run.
        file: None: it was not asked for.
        why: what keeps the run from being a baseline, such as ``failed``; "" if nothing does.
    """
    if file is None:
        return
    if why:
        echo_warning(f"{file} was not written: the run {why}")
        return
    from boardprof.run.baseline import write_baseline

    try:
        write_baseline(report, file)
        echo_written("Baseline", file)
    except BoardprofError as error:
        yield error


def _keep(
    report: Report, name: str | None, plan: Plan, sources: Sequence[Path], why: str
) -> list[BoardprofError]:
    """Keep a run in the history; return why not, where a name for it was given.

    What is not whole gets no name, and is not its branch's: nobody shall compare with it unawares.
    """
    from boardprof.run.saving import keep_run

    notes: list[str] = []
    kept = keep_run(
        report,
        name=name,
        measured=plan.files,
        sources=sources,
        has_failed=bool(why),
        on_note=notes.append,
    )
    if kept is None and name is not None:
        return [UsageError(note) for note in notes]
    for note in notes:
        (echo_warning if kept is None else echo_note)(note)
    if why and name is not None:
        echo_warning(f"kept as #{kept}, not as {name}: the run {why}")
    return []


def _echo_report(report: Report, *, as_json: bool, stats: bool) -> None:
    if as_json:
        echo_data(report.json())
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
