# SPDX-License-Identifier: Apache-2.0
"""``boardprof hotspots``: where a call spends its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    parse_build_options,
    parse_connection,
    port_options,
    probe_option,
    verbose_option,
    width_option,
)
from boardprof.ui.cli.output import (
    echo,
    echo_data,
    echo_profile,
    echo_written,
    progress_bar,
    run_listener,
    shows_console,
    stdout_of_boards,
)

if TYPE_CHECKING:
    from boardprof.results.report.profile import Profile

_SECTIONS = {
    "What to call": "warmup sampled samples seed probe",
    "The board": BOARD_SECTION,
    "The build": BUILD_SECTION,
    "What is printed": "lines asm metric all_functions width console verbose quiet debug",
    "What is kept": "json_file",
}

_EXAMPLES = """
\b
Examples:
  boardprof hotspots -b BOARD fir.c:fir n=256           functions
  boardprof hotspots -b BOARD fir.c:fir n=256 --lines   source with a count at each line
  boardprof hotspots -b BOARD fir.c:fir --json fir.json     the profile as JSON
  boardprof hotspots -b BOARD -p PORT --flash fir.c:fir --sampled   on a real board
"""


@click.command(
    cls=SectionedCommand,
    sections=_SECTIONS,
    epilog=_EXAMPLES,
    short_help="Show which functions, lines and instructions a call spends its cost in.",
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
def hotspots(target: str, values: tuple[str, ...], board: str | None, **options: Any) -> int:
    """Record one call on an emulated board and print where it spends its instructions.

    Every instruction is counted. With --sampled, the board's own timer samples the call instead, on
    real boards, too; each share then has a 95 % confidence interval. TARGET and NAME=VALUE are as
    for `boardprof run`.
    """
    from boardprof.jobs.run.execution import record_plan
    from boardprof.jobs.run.plan import Plan

    _check_sampling(options)
    plan = Plan(
        target=target,
        values=values,
        boards=(board,) if board else (),
        code=parse_build_options(options),
        connection=parse_connection(options),
        **{name: options[name] for name in ("image", "flash", "warmup", "sampled", "probe")},
        **{name: options[name] for name in ("samples", "seed") if options[name] is not None},
    )
    shown = shows_console(options)
    with progress_bar(), stdout_of_boards(shown=shown):
        listener = run_listener(options)
        profiles = list(record_plan(plan, listener))
    _write(profiles, options["json_file"])
    if options["json_file"] != STDOUT:
        for number, profile in enumerate(profiles):
            if number:
                echo("")
            echo_profile(
                profile,
                options["metric"],
                lines=options["lines"],
                asm=options["asm"],
                **({"most": None} if options["all_functions"] else {}),
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


def _write(profiles: Sequence[Profile], file: str | None) -> None:
    if file is None:
        return
    from boardprof.results.report.report_file import write_text
    from boardprof.show.json import render_profiles

    text = render_profiles(profiles)
    if file == STDOUT:
        echo_data(text)
    else:
        write_text(text, file)
        echo_written("Profile", file)
