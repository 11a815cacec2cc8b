# SPDX-License-Identifier: Apache-2.0
"""``boardprof tune``: find the flags and macros with which a function costs least."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.connection import Connection
from boardprof.base.errors import BuildError, MissingToolError, UsageError
from boardprof.base.printable import escaped
from boardprof.base.progress import shown_by
from boardprof.ui.cli.exit_codes import NOTHING_FOUND
from boardprof.ui.cli.group import SectionedCommand
from boardprof.ui.cli.options import (
    BUILD_SECTION,
    STDOUT,
    baud_option,
    board_option,
    build_options,
    complete_file,
    complete_target,
    complete_value,
    expect_options,
    file_option,
    number_option,
    parse_build_options,
    time_option,
    verbose_option,
    width_option,
    writable,
)
from boardprof.ui.cli.output import (
    echo,
    echo_command,
    echo_json,
    echo_note,
    echo_page,
    echo_warnings,
    echo_written,
    is_quiet,
    plain_console,
    stdout_of_boards,
)

if TYPE_CHECKING:
    from boardprof.jobs.run.plan import Plan
    from boardprof.jobs.tune.search import Search, Space, Trial
    from boardprof.jobs.tune.tuning import Subject
    from boardprof.results.stats.warnings import Kind

_SECTIONS = {
    "What to try": "flags params trials sampler seed study",
    "What to look for": "goals constraints expect tolerance",
    "How to measure": "warmup repeat number timeout_s wall_timeout_s",
    "The board": "board port baud fleet",
    "The build": BUILD_SECTION,
    "The output": "json_file html_file width verbose quiet debug",
}

_EXAMPLES = """
\b
Examples:
  boardprof tune -b BOARD fir.c:fir n=256 --flags "-O2|-O3|-Os"
  boardprof tune -b BOARD fir.c:fir n=256 --param TILE=4,8,16 --param UNROLL=1,2,4
  boardprof tune -b BOARD fir.c:fir n=256 --param TILE=4,8,16 --minimise cycles
      --minimise flash --constraint 'stack<=2048' --study fir.db
"""

_HERE = "here"  # value of --fleet for the boards of this machine
_SHARE = 4  # candidates that a board of a fleet measures at a time: samplers propose 16
_TOO_SHORT: tuple[Kind, ...] = ("grain", "overhead")  # warnings about samples that are too short
_SHOWN = 5  # rows of the live table


@click.command(
    cls=SectionedCommand,
    sections=_SECTIONS,
    epilog=_EXAMPLES,
    short_help="Find the compiler flags and macros that make a function fast.",
)
@click.argument("target", shell_complete=complete_target)
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...", shell_complete=complete_value)
@board_option
@click.option(
    "--flags",
    metavar='"FLAGS|FLAGS"',
    help='Settings of compiler flags to choose from, e.g. "-O2|-O3|-Os".',
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=V,V...",
    help="A macro, and the values to choose from.",
)
@number_option(
    "--trials", "Choices to try, including those of earlier runs of the study.", default=100
)
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "random", "grid", "nsga2"]),
    default="tpe",
    show_default=True,
    help="How choices are proposed: tpe learns from results, grid tries all in order, nsga2 suits "
    "several goals.",
)
@click.option("--seed", metavar="N", default=1, show_default=True, help="Seed of the sampler.")
@click.option(
    "--study",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="SQLite file that keeps the search. If it exists, the search goes on where it ended.",
)
@click.option(
    "--minimise",
    "goals",
    multiple=True,
    metavar="METRIC",
    help="Metric to minimise: one of the board, or flash, ram, stack, time. Several give a table "
    "of the best compromises. [default: cycles, or instructions if the board counts no cycles]",
)
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="'METRIC<=N'",
    help="Refuse candidates above a limit, e.g. 'stack<=2048'.",
)
@expect_options(
    "The right output. [default: that of the baseline]",
    "Relative tolerance for floats in the output. [default: 0]",
)
@number_option(
    "--warmup",
    "Calls before the first sample. [default: 0 on emulated boards, 1 on others]",
    least=0,
)
@number_option(
    "--repeat", "Samples of each candidate. [default: 1 on emulated boards, 5 on others]"
)
@number_option("--number", "Calls per sample.", default=1)
@time_option("--timeout", "Longest time of a call on the board's clock. [default: 10s]")
@time_option("--wall-timeout", "Longest wall time of a call.", default="10s")
@click.option(
    "-p",
    "--port",
    metavar="PORT",
    shell_complete=complete_file,
    help="Port of a real board, which is flashed with each image.",
)
@baud_option
@click.option(
    "--fleet",
    metavar="ADDRESS",
    help="Measure on all boards of this kind at once: those of a scheduler, e.g. "
    "tls://127.0.0.1:8786, or with `here` an emulator on each core of this machine.",
)
@build_options
@file_option("json", "all trials as JSON")
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    callback=writable,
    help="Write a page with the history of trials.",
)
@width_option
@verbose_option
def tune(target: str, values: tuple[str, ...], **options: Any) -> int:
    """Find the compiler flags and macros with which a function costs least on a board.

    TARGET is PATH:FUNCTION or one of the project's benchmarks, and NAME=VALUE sets an argument, as
    for `boardprof run`. Each --param
    is a macro of the source with alternatives; the first ones, and the first flags, are the
    baseline. A candidate counts only if its output is right. The exit code is 9 if none counts.

    Needs optuna: pip install 'boardprof[tune]'.
    """
    from boardprof.jobs.tune.tuning import render_tuning, tuning_facts, tuning_page
    from boardprof.results.report.report_file import write_text

    space = _space(options["flags"], options["params"])
    plan = _completed(_plan(target, values, options), space)
    subject = _subject(plan, options)
    # No bars: the live table has the terminal.
    with stdout_of_boards(shown=False), shown_by(lambda what, done, total: None):
        search, facts = _search(subject, space, plan, options)
        trials = min(options["trials"], space.size)
        with _live(search, trials) as show:
            search.run(trials, show)
        best = search.best
        winner = None if best is None else subject.winner(best.choice, search.goals[0])
    facts = tuning_facts(search, facts, winner)
    if options["json_file"] == STDOUT:
        echo_json(facts)
    else:
        echo_page(tuning_page(search, winner))
    if options["json_file"] not in (None, STDOUT):
        write_text(json.dumps(facts, indent=2) + "\n", options["json_file"])
        echo_written("JSON", options["json_file"])
    if options["html_file"] is not None:
        title = f"{target} on {subject.spec.name}"
        text = f"{len(search.trials)} of {space.size:,} choices, {options['sampler']}"
        write_text(render_tuning(search, title, text, winner), options["html_file"])
        echo_written("Page", options["html_file"])
    if winner is not None and winner.report is not None:
        echo_warnings(winner.report, _TOO_SHORT)
    return NOTHING_FOUND if best is None else 0


def _plan(target: str, values: tuple[str, ...], options: Mapping[str, Any]) -> Plan:
    from boardprof.jobs.run.plan import ALL, Plan

    if options["fleet"] is not None and (options["port"], options["baud"]) != (None, None):
        raise UsageError(
            "--fleet excludes --port and --baud.",
            hint="give the ports to the workers: boardprof worker -b KIND=PORT",
        )
    plan = Plan(
        target=target,
        values=values,
        boards=(options["board"],) if options["board"] else (),
        connection=Connection(options["port"]),
        code=parse_build_options(options),
        expect=options["expect"],
        flash=options["port"] is not None,
    )
    if plan.path is None and not values:
        from boardprof.ui.cli.benchmarks import one_plan

        plan = one_plan(target, plan) or plan
    if plan.path is None or plan.function == ALL:
        raise UsageError(
            f"{target!r} does not name one function of a source.", hint="PATH:FUNCTION"
        )
    return plan


def _completed(plan: Plan, space: Space) -> Plan:
    """Return a plan with what `run` would add to its build, and with the definition's names."""
    from boardprof.jobs.run.function_choice import with_own_names
    from boardprof.jobs.run.plan import boards_of
    from boardprof.jobs.run.plan_build import compiled

    [spec] = boards_of(plan)
    code, first = plan.code, space.candidate(space.baseline).options(plan.code)
    try:
        found = compiled(spec, replace(plan, code=first))
    except (BuildError, MissingToolError):  # the baseline tells of it, or only workers compile
        return plan
    added = [each for each in found.code.defines if each not in first.defines]
    more = replace(code, defines=(*code.defines, *added), keep=found.code.keep)
    more = replace(more, includes=found.code.includes, sources=found.code.sources)
    plan, names = with_own_names(replace(plan, code=more), found.functions, found.read)
    for text in filter(None, (*found.added, names)):
        echo_note(text)
    return plan


def _space(flags: str | None, params: Sequence[str]) -> Space:
    """Return the alternatives of ``--flags`` and of each ``--param``."""
    from boardprof.jobs.tune.search import FLAGS, Space
    from boardprof.target.build.build_options import settings_of

    alternatives: dict[str, tuple[str, ...]] = {}
    if flags is not None:
        alternatives[FLAGS] = settings_of(flags, "")
    for text in params:
        name, equals, rest = text.partition("=")
        values = tuple(each.strip() for each in rest.split(","))
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name) or "" in values:
            raise UsageError(f"{text!r} is not a valid --param.", hint="--param TILE=4,8,16")
        if name in alternatives:
            raise UsageError(f"--param {name} is given twice.", hint="one list of all values")
        if len(set(values)) < len(values):
            raise UsageError(f"--param {text} has a value twice.")
        alternatives[name] = values
    return Space(alternatives)


def _constraints(texts: Sequence[str]) -> dict[str, float]:
    from boardprof.jobs.tune.runner import metric_name

    found: dict[str, float] = {}
    for text in texts:
        short, _, number = text.partition("<=")
        name = metric_name(short.strip())
        try:
            limit = float(number)
        except ValueError:
            limit = math.nan
        if not name or not 0 <= limit < math.inf:
            raise UsageError(
                f"{text!r} is not a valid --constraint.", hint="--constraint 'stack<=2048'"
            )
        if name in found:
            raise UsageError(f"--constraint has two limits of {name}.", hint="give the lower one")
        found[name] = limit
    return found


def _subject(plan: Plan, options: Mapping[str, Any]) -> Subject:
    from boardprof.jobs.run.plan import boards_of
    from boardprof.jobs.tune.tuning import Subject

    [spec] = boards_of(plan)
    assert plan.path is not None, "_plan has checked it"
    names = ("port", "baud", "timeout_s", "wall_timeout_s", "warmup", "repeat", "number")
    limits: dict[str, Any] = {name: options[name] for name in names}
    limits["verbose"] = echo_command if options["verbose"] else None
    data = plan.read_data([spec.name])
    path, code = plan.path, plan.code
    subject = Subject(spec, path, plan.function, plan.values, data.arguments, code, limits)
    if options["fleet"] is None:
        return subject
    from boardprof.jobs.fleet.fleet import FleetRunner

    limits = {name: each for name, each in limits.items() if name not in ("port", "baud")}
    scheduler = None if options["fleet"] == _HERE else options["fleet"]
    kind = partial(FleetRunner, scheduler=scheduler, share=_SHARE)
    can_start = spec.launch.kind != "serial"
    limits["verbose"] = None
    return replace(subject, limits=limits, runner_kind=kind, can_start=can_start)


def _search(
    subject: Subject, space: Space, plan: Plan, options: Mapping[str, Any]
) -> tuple[Search, dict[str, Any]]:
    """Measure the baseline, and open the study; also return what it is about."""
    from boardprof.jobs.tune.runner import metric_name
    from boardprof.jobs.tune.search import Search

    constraints = _constraints(options["constraints"])
    given = {each.name: each.array for each in plan.read_data([subject.spec.name]).expectations}
    goals, baseline = subject.baseline(space, options["goals"], given, options["tolerance"])
    expect = given or baseline.outputs
    if not expect:
        echo_note(f"{plan.function} returns nothing and writes no array, so nothing is checked")
    facts = {
        **subject.facts(space, baseline),
        "constraints": constraints,
        "tolerance": options["tolerance"],
    }
    wanted = {"metrics": goals[1:], "expect": expect, "tolerance": options["tolerance"]}
    runner = subject.runner(goals[0], constraints=constraints, **wanted)
    how = {name: options[name] for name in ("sampler", "seed", "study")}
    return Search(runner, space, list(map(metric_name, goals)), subject=facts, **how), facts


# -- while it runs -----------------------------------------------------------------------------


@contextmanager
def _live(search: Search, trials: int) -> Iterator[Callable[[Trial], None] | None]:
    """Show the best trials so far: a table on a terminal, or a line for each new best."""
    if is_quiet():
        yield None
        return
    if sys.stderr is None or not sys.stderr.isatty():
        yield _lines(search)
        return
    from rich.live import Live

    every = list(search.trials)
    with Live(console=plain_console(), auto_refresh=False, transient=True) as live:

        def show(trial: Trial) -> None:
            every.append(trial)
            live.update(_live_table(search, every, trials), refresh=True)

        yield show


def _lines(search: Search) -> Callable[[Trial], None]:
    """Return a function that prints a line for each trial that is better than all before."""
    from boardprof.jobs.tune.tuning import number

    goal = search.goals[0]
    best = math.inf if search.best is None else search.best.metrics[goal]

    def tell(trial: Trial) -> None:
        nonlocal best
        if trial.ok and trial.metrics[goal] < best:
            best = trial.metrics[goal]
            what = ", ".join(f"{name}={value}" for name, value in trial.choice.items())
            echo(f"trial {trial.number}: {number(best)} {goal} with {what}", err=True)

    return tell


def _live_table(search: Search, every: Sequence[Trial], trials: int) -> Any:
    from rich.table import Table

    from boardprof.jobs.tune.tuning import number

    failed = sum(not each.ok for each in every)
    table = Table(title=f"{len(every)} of {trials} trials, {failed} failed", title_justify="left")
    for header in ("trial", *search.goals, *search.space.alternatives):
        table.add_column(escaped(header), justify="right")
    good = sorted((t for t in every if t.ok), key=lambda t: t.metrics[search.goals[0]])
    for each in good[:_SHOWN]:
        goals = (number(each.metrics[goal]) for goal in search.goals)
        choice = (each.choice[name] for name in search.space.alternatives)
        table.add_row(f"#{each.number}", *goals, *map(escaped, choice))
    return table
