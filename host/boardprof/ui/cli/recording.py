# SPDX-License-Identifier: Apache-2.0
"""``boardprof hotspots``, ``trace``, ``top`` and ``dump``: what calls and firmware do, and when."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.errors import DeviceError, UsageError
from boardprof.ui.cli.group import SectionedCommand
from boardprof.ui.cli.options import (
    BOARD_SECTION,
    BUILD_SECTION,
    STDOUT,
    board_option,
    build_options,
    complete_target,
    complete_value,
    console_option,
    file_option,
    flash_option,
    image_option,
    number_option,
    output_option,
    parse_plan,
    port_options,
    probe_option,
    time_option,
    verbose_option,
    width_option,
)
from boardprof.ui.cli.output import (
    echo,
    echo_data,
    echo_note,
    echo_page,
    echo_written,
    is_output_read,
    progress_bar,
    run_listener,
    shows_console,
    stdout_of_boards,
)

if TYPE_CHECKING:
    from boardprof.jobs.run.plan import Plan
    from boardprof.results.probes.run import ProbeRun
    from boardprof.results.report.profile import Profile
    from boardprof.results.report.report import Report


_HOTSPOTS_SECTIONS = {
    "What to call": "warmup sampled samples seed probe",
    "The board": BOARD_SECTION,
    "The build": BUILD_SECTION,
    "What is printed": "lines asm metric all_functions width console verbose quiet debug",
    "What is kept": "json_file",
}

_HOTSPOTS_EXAMPLES = """
\b
Examples:
  boardprof hotspots -b BOARD fir.c:fir n=256           functions
  boardprof hotspots -b BOARD fir.c:fir n=256 --lines   source with a count at each line
  boardprof hotspots -b BOARD fir.c:fir --json fir.json     the profile as JSON
  boardprof hotspots -b BOARD -p PORT --flash fir.c:fir --sampled   on a real board
"""


@click.command(
    cls=SectionedCommand,
    sections=_HOTSPOTS_SECTIONS,
    epilog=_HOTSPOTS_EXAMPLES,
    short_help="Show which functions and lines a call spends its cost in.",
)
@click.argument("target", shell_complete=complete_target)
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...", shell_complete=complete_value)
@board_option
@image_option
@number_option("--warmup", "Calls before the one that is recorded.", least=0, default=1)
@click.option(
    "--sampled",
    is_flag=True,
    help="Interrupt repeated calls at random times, on the board itself, instead of recording one.",
)
@number_option("--samples", "Samples to take. [default: 1000]")
@number_option("--seed", "Seed of the random times. [default: 1]", least=0)
@probe_option
@flash_option
@port_options
@build_options
@click.option("--lines", is_flag=True, help="Print the source with a count at each line.")
@click.option("--asm", is_flag=True, help="Print the instructions under the lines they belong to.")
@click.option(
    "--metric",
    metavar="NAME",
    help="Metric to show. [default: cycles if the board has them, else instructions]",
)
@click.option("--all", "all_functions", is_flag=True, help="Print all functions, not just 20.")
@file_option("json", "the profile as JSON")
@width_option
@console_option
@verbose_option
def hotspots(target: str, values: tuple[str, ...], **options: Any) -> int:
    """Record one call on an emulated board and print where it spends its instructions.

    Every instruction is counted. With --sampled, the board's own timer samples the call instead, on
    real boards, too; each share then has a 95 % confidence interval. TARGET and NAME=VALUE are as
    for `boardprof run`.
    """
    from boardprof.jobs.run.execution import record_plan

    _check_sampling(options)
    plan = _plan(options, target, values)
    with progress_bar(), stdout_of_boards(shown=shows_console(options)):
        profiles = list(record_plan(plan, run_listener(options)))
    _write_profiles(profiles, options["json_file"])
    if options["json_file"] != STDOUT:
        for number, profile in enumerate(profiles):
            if number:
                echo("")
            echo_profile(
                profile,
                options["metric"],
                lines=options["lines"],
                asm=options["asm"],
                most=None if options["all_functions"] else _MOST_FUNCTIONS,
            )
    is_complete = all(profile.is_complete for profile in profiles)
    return 0 if is_complete else DeviceError.exit_code


def _check_sampling(options: Mapping[str, Any]) -> None:
    if options["sampled"]:
        return
    for name in ("samples", "seed"):
        if options[name] is not None:
            raise UsageError(f"--{name} needs --sampled.", hint="add --sampled")
    if options["probe"] is not None:
        raise UsageError("--debug-probe works only with --sampled.", hint="add --sampled")
    if options["port"] is not None:
        raise UsageError(
            "Nothing can record the calls of a board at a port (-p).",
            hint="add --sampled, or leave out -p: then an emulator is started",
        )


def _write_profiles(profiles: Sequence[Profile], file: str | None) -> None:
    if file is None:
        return
    from boardprof.results.report.report_file import write_text
    from boardprof.show.profile_files import render_profiles

    text = render_profiles(profiles)
    if file == STDOUT:
        echo_data(text)
    else:
        write_text(text, file)
        echo_written("Profile", file)


_MOST_FUNCTIONS = 20


def echo_profile(
    profile: Profile,
    metric: str | None = None,
    *,
    lines: bool = False,
    asm: bool = False,
    most: int | None = _MOST_FUNCTIONS,
    title: str | None = None,
) -> None:
    """Print where a call spends its cost: by function, by line or by instruction."""
    from boardprof.show import profile_tables as tables

    if asm:
        body = tables.instructions_page(profile, metric)
    elif lines:
        body = tables.lines_page(profile, metric)
    else:
        body = tables.functions_page(profile, metric, most)
    head = tables.heading(profile, metric, title)
    echo_page([head, "", *body, "", *tables.notes(profile, metric)])


def echo_profiles(report: Report, *, lines: bool = False, asm: bool = False) -> None:
    """Print the profiles in a Report."""
    from boardprof.show.profile_tables import profiles_in, titles

    changed: dict[str, None] = {}
    rows = profiles_in(report)
    for number, (row, title) in enumerate(zip(rows, titles(rows), strict=True)):
        if number:
            echo("")
        echo_profile(row.profile, lines=lines, asm=asm, title=title)
        changed |= dict.fromkeys(changed_sources(row.profile))
    for name in changed:
        echo_note(f"{name} has changed since it was measured; the lines are those of then")


def changed_sources(profile: Profile) -> list[str]:
    """Return the sources that have changed since a profile was made."""
    # A profile has their names as the compiler was given them, so those below another folder are
    # not found. Its lines are those of its own text in any case.
    found = []
    for name, text in profile.sources.items():
        with suppress(OSError):
            # A pipe or a device of that name would never end.
            if os.path.isfile(name) and Path(name).read_text("utf-8", "replace") != text:
                found.append(name)
    return found


_TRACE_SECTIONS = {
    "What to record": "time_s calls heap statistics events mode",
    "The board": BOARD_SECTION,
    "The build": BUILD_SECTION,
    "The output": "output width console verbose quiet debug",
}

_TOP_SECTIONS = {"What to show": "interval_s count events", "The board": BOARD_SECTION}

_TRACE_EXAMPLES = """
\b
Examples:
  boardprof trace -b BOARD fir.c:fir n=256 -o fir.trace     during a call
  boardprof trace -p PORT --image app.elf --time 10s -o app.trace    as it runs
  boardprof trace -p PORT --image app.elf --statistics --no-events --time 1h
  boardprof export perfetto app.trace -o app.pftrace        for ui.perfetto.dev
"""


@click.command(
    cls=SectionedCommand,
    sections=_TRACE_SECTIONS,
    epilog=_TRACE_EXAMPLES,
    short_help="Record the probes of firmware while it runs.",
)
@click.argument("target", required=False, default="", shell_complete=complete_target)
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...", shell_complete=complete_value)
@board_option
@image_option
@time_option(
    "--time", "How long to record if there is no TARGET, such as 10s. [default: until Ctrl-C]"
)
@number_option("--calls", "Calls of TARGET.", default=1)
@click.option(
    "--heap", is_flag=True, help="Also record malloc and free; see `boardprof export memory`."
)
@click.option("--statistics", is_flag=True, help="Let the board keep the statistics of ranges.")
@click.option("--events/--no-events", default=True, help="Record each event, or statistics alone.")
@click.option(
    "--mode",
    type=click.Choice(["drop", "stop", "overwrite"]),
    default="drop",
    show_default=True,
    help="What happens when the board's ring is full: new events are dropped, recording stops, or "
    "the oldest events are overwritten, for `boardprof dump`.",
)
@flash_option
@port_options
@build_options
@output_option("Write the trace there.")
@width_option
@console_option
@verbose_option
def trace(target: str, values: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Record the probes of firmware (boardprof/bp_trace.h) while it runs, and print its ranges.

    TARGET and NAME=VALUE are a function to call, as for `boardprof run`. Without a TARGET, the
    board's own firmware runs, and --image names its ELF file.

    `show`, `compare` and `export` take the trace like a Report: a range is a row.
    """
    from boardprof.jobs.run.probe_run import RecordingPlan, record_events

    if not options["events"] and not options["statistics"]:
        raise UsageError("Nothing is recorded: neither events nor statistics.", hint="--statistics")
    _check_trace(target, output, options)
    wanted = RecordingPlan(
        mode=options["mode"],
        events=options["events"],
        statistics=options["statistics"],
        calls=options["calls"] if target else 0,
        time_s=options["time_s"],
    )
    with progress_bar(), stdout_of_boards(shown=shows_console(options)):
        plan, listener = _plan(options, target or "all", values), run_listener(options)
        recording, error = record_events(plan, wanted, listener)
    if wanted.mode == "overwrite" and error is None:
        echo_note("recording goes on; read it with boardprof dump, also after a reset")
    else:
        _finish(recording, output)
    if error is not None:  # what came until then is shown and written
        raise error


@click.command(
    cls=SectionedCommand,
    sections={"The board": BOARD_SECTION},
    short_help="Read the last events before a reset.",
)
@board_option
@image_option
@port_options
@output_option("Write the trace there.")
@width_option
@verbose_option
def dump(output: str | None, **options: Any) -> None:
    """Read the last events before a reset, from a ring that was overwritten.

    Start with `boardprof trace --mode overwrite`. The ring must be in memory that a reset leaves
    alone, and --image must name the ELF file of the firmware.
    """
    from boardprof.jobs.run.probe_run import board_of

    with progress_bar(), board_of(_plan(options), run_listener(options)) as (board, _):
        recording = board.kept_events()
    _finish(recording, output)


@click.command(
    cls=SectionedCommand,
    sections=_TOP_SECTIONS,
    short_help="Show live which ranges and tasks take the most time.",
)
@board_option
@image_option
@time_option("--interval", "Time between two tables.", default="1s")
@click.option(
    "--events/--no-events",
    default=True,
    help="Also record events, for tasks and interrupts. Statistics alone cost less.",
)
@number_option("--count", "Tables to print. [default: until Ctrl-C]")
@port_options
@width_option
@verbose_option
def top(interval_s: float, count: int | None, **options: Any) -> None:
    """Show live which ranges and tasks of running firmware take the most time.

    The figures are those of the last interval. On a terminal, each table replaces the one before.
    Shares of ranges are from statistics and include other tasks and interrupts within a range.
    """
    from boardprof.jobs.run.probe_run import board_of, intervals
    from boardprof.show.probe_tables import interval_page

    with board_of(_plan(options), run_listener(options)) as (board, _), suppress(KeyboardInterrupt):
        found = intervals(board, interval_s, count, events=options["events"])
        for number, interval in enumerate(found):
            if sys.stdout.isatty():
                click.clear()
            elif number:
                echo("")
            echo_page(interval_page(interval))
            if not is_output_read():
                break


def _check_trace(target: str, output: str | None, options: Mapping[str, Any]) -> None:
    if not target and options["image"] is None and options["port"] is None:
        raise UsageError(
            "There is nothing to record: no function and no firmware is named.",
            hint="FILE.c:FUNCTION, or --image ELF",
        )
    if options["heap"] and not target:
        raise UsageError(
            "--heap changes how firmware is built, and no function is named to build it with.",
            hint="build firmware of your own with BP_CFG_TRACE_HEAP, and trace it without --heap",
        )
    if options["mode"] != "overwrite":
        return
    if options["port"] is None:
        raise UsageError(
            "A board that is started here ends with this command, and its ring with it.",
            hint="--mode overwrite needs a board at a port (-p)",
        )
    if output is not None:
        raise UsageError(
            "With --mode overwrite the events stay on the board.",
            hint="leave out -o, and read them later with: boardprof dump",
        )


def _plan(options: Mapping[str, Any], target: str = "all", values: tuple[str, ...] = ()) -> Plan:
    return parse_plan(target, values, [options["board"]] if options["board"] else [], options)


def _finish(recording: ProbeRun, output: str | None) -> None:
    from boardprof.results.probes.run import write_run
    from boardprof.show.probe_tables import probe_run_page

    if output is not None:
        write_run(recording, output)
    echo_page(probe_run_page(recording))
    if output is not None:
        echo_written("Trace", output)
