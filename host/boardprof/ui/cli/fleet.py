# SPDX-License-Identifier: Apache-2.0
"""``boardprof fleet`` and ``worker``: batches of jobs on many boards, here or on many hosts."""

from __future__ import annotations

import contextlib
import math
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.errors import BoardprofError, UsageError
from boardprof.base.printable import escaped
from boardprof.base.settings import PROJECT_FILE
from boardprof.ui.cli.exit_codes import shows_tracebacks
from boardprof.ui.cli.group import Commands
from boardprof.ui.cli.options import (
    STDOUT,
    Decorator,
    file_option,
    json_option,
    number_option,
    save_option,
    time_option,
    width_option,
)
from boardprof.ui.cli.output import (
    echo,
    echo_data,
    echo_error,
    echo_json,
    echo_note,
    echo_page,
    echo_written,
    is_quiet,
    plain_console,
)

if TYPE_CHECKING:
    from boardprof.jobs.fleet.batch import Progress
    from boardprof.jobs.fleet.job import Job, Result
    from boardprof.show.layout import Page

_EXAMPLES = """
\b
Examples:
  boardprof fleet run jobs.toml
  boardprof fleet run jobs.toml --scheduler tls://127.0.0.1:8786
  boardprof fleet status --scheduler tls://127.0.0.1:8786
  boardprof fleet scheduler --port 8786
"""

_MAIN = ("cycles", "instructions", "Duration (us)", "ticks")  # of the table, the best one first
_SHOWN = 30  # boards in the live table
_REDRAW_S = 0.2
_PATIENCE_S = 3.0
_EVERY_S = 30.0


@click.group(cls=Commands, epilog=_EXAMPLES, no_args_is_help=True)
def fleet() -> None:
    """Run batches of jobs on many boards, here or on many hosts.

    Boards of other hosts need dask: pip install 'boardprof[fleet]'.
    """


def _dask_logs() -> None:
    """Let dask log with ``--debug``."""
    from boardprof.jobs.fleet.dask_worker import show_logs

    if shows_tracebacks():
        show_logs()


_scheduler_option = click.option(
    "--scheduler",
    envvar="BOARDPROF_SCHEDULER",
    metavar="ADDRESS",
    help="Scheduler of the fleet, e.g. tls://127.0.0.1:8786. [default: the boards of this machine]",
)


def _boards_option(help_text: str) -> Decorator:
    return click.option(
        "-b", "--board", "boards", multiple=True, metavar="KIND[=PORT[#SERIAL]]", help=help_text
    )


@fleet.command()
@click.argument("jobs", required=False, type=click.Path(dir_okay=False))
@_scheduler_option
@_boards_option(
    "A board of this machine. [default: those that the jobs name and that need no port]"
)
@click.option(
    "--results",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Folder for the results. Jobs with a final result there do not run again. [default: "
    "JOBS.results]",
)
@number_option(
    "--retries",
    "Try a job again N times after its board failed or its process died.",
    least=0,
    default=2,
)
@click.option(
    "--check-now",
    is_flag=True,
    help="Check boards in quarantine at once, instead of when their time is over.",
)
@file_option("json", "one Report of all jobs as JSON")
@save_option
@width_option
def run(jobs: str | None, **options: Any) -> int:
    """Run the jobs of JOBS, a TOML file; without it, the project's benchmarks.

    Each result is written at once. If the batch is interrupted, the same command goes on. On a
    terminal a table shows the boards; otherwise each result is a line of JSON. The history keeps
    one run for the whole batch, if something was measured.
    """
    from boardprof.jobs.fleet.fleet import Fleet
    from boardprof.jobs.fleet.job import DONE, read_jobs
    from boardprof.jobs.fleet.policy import Rules
    from boardprof.jobs.run.saving import check_save_name

    _dask_logs()
    check_save_name(options["save"])
    if jobs is None:
        from boardprof.ui.cli.benchmarks import all_jobs

        wanted, jobs = all_jobs(), PROJECT_FILE
    else:
        wanted = read_jobs(jobs)
    results = options["results"]
    if results is None:
        results = f"{jobs.removesuffix('.toml')}.results"
    rules = Rules(retries=options["retries"], check_now=options["check_now"])
    on_fleet = Fleet(options["scheduler"], boards=options["boards"], rules=rules)
    by_job: dict[Job, Result] = {}
    sources: list[Path] = []
    has_lines = options["json_file"] != STDOUT
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    with _live(shown=is_terminal and not is_quiet()) as live:
        show = live if is_terminal else _Waits()
        for result in on_fleet.as_completed(
            wanted, results=results, on_progress=show, on_sources=sources.extend
        ):
            by_job[result.job] = result
            if not is_terminal and has_lines:
                echo_data(result.line())
    failed = [result for result in by_job.values() if result.state != DONE]
    found = [by_job[job] for job in dict.fromkeys(wanted)]
    if is_terminal and has_lines:
        echo_page(_results_page(found))
        echo(f"{len(found) - len(failed)} of {len(found)} jobs done; results in {results}")
    failures = [*_report(found, options, sources)]
    _echo_errors(failed)
    for failure in failures:
        echo_error(f"error: {failure}")
    codes = [result.errors[0].exit_code for result in failed]
    return [*codes, *(failure.exit_code for failure in failures), 0][0]


def _report(
    found: Sequence[Result], options: Mapping[str, Any], sources: Sequence[Path]
) -> Iterator[BoardprofError]:
    """Write the batch's Report and keep it in the history; yield what could not be done."""
    from boardprof.jobs.fleet.job import DONE, merged_report
    from boardprof.jobs.run.saving import keep_run
    from boardprof.results.report.report_file import write_report

    file, name = options["json_file"], options["save"]
    try:
        report = merged_report(found)
        if report is None:
            return
        if file == STDOUT:
            echo_data(report.json())
        elif file is not None:
            write_report(report, file)
            echo_written("Report", file)
    except BoardprofError as error:
        yield error
        return
    if name is None and all(result.was_known for result in found):
        return  # it is kept already
    try:
        keep_run(
            report,
            name=name,
            measured=[*dict.fromkeys(result.job.file for result in found)],
            sources=sources,
            has_failed=any(result.state != DONE for result in found),
            on_note=echo_note,
        )
    except UsageError as error:
        if name is None:
            echo_note(str(error))
        else:
            yield error


@fleet.command()
@_scheduler_option
@json_option
@width_option
def status(scheduler: str | None, as_json: bool) -> None:
    """Show hosts and boards, what they work on, and their last error.

    Without a scheduler: what is leased on this machine and by which process, and which boards are
    in quarantine.
    """
    from boardprof.jobs.fleet.dask_provider import fleet_status, local_status, status_page

    _dask_logs()
    facts = local_status() if scheduler is None else fleet_status(scheduler)
    if as_json:
        echo_json(facts)
    else:
        echo_page(status_page(facts))


@fleet.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen at.",
)
@click.option(
    "--port",
    default=8786,
    show_default=True,
    type=click.IntRange(0, 65535),
    metavar="N",
    help="TCP port to listen at.",
)
@time_option(
    "--silence",
    "A host that does not answer for this long counts as gone: its jobs run elsewhere.",
    default="30s",
)
def scheduler(host: str, port: int, silence_s: float) -> None:
    """Run the scheduler of a fleet until it is interrupted.

    Only programs of the same user on this machine can connect. Other users and other machines need
    certificates, which dask's settings name.
    """
    from boardprof.jobs.fleet.dask_worker import run_scheduler

    _dask_logs()
    run_scheduler(host, port, silence_s, lambda address: echo(f"scheduler at {address}"))


_WORKER_EXAMPLES = """
\b
Examples:
  boardprof worker tls://127.0.0.1:8786 -b KIND -b KIND
  boardprof worker tls://lab:8786 -b 'KIND=/dev/ttyACM0#066BFF51'
  boardprof worker tls://lab:8786 -b KIND=labgrid:bench-3
"""


@click.command(epilog=_WORKER_EXAMPLES)
@click.argument("scheduler", envvar="BOARDPROF_SCHEDULER")
@_boards_option("A board to offer: its kind, its port, and its serial number. May be repeated.")
@click.option("--name", metavar="NAME", help="Name of this worker. [default: the host's name]")
def worker(scheduler: str, boards: tuple[str, ...], name: str | None) -> None:
    """Offer the boards of this machine to the fleet of a scheduler.

    SCHEDULER is an address such as tls://127.0.0.1:8786. The worker runs until it is interrupted.
    Anyone who can connect to the scheduler can run any program here as this user. On one machine,
    that is only this user.

    Needs dask: pip install 'boardprof[fleet]'.
    """
    from boardprof.jobs.fleet.boards import boards_of_host, check_startable
    from boardprof.jobs.fleet.dask_worker import run_worker

    _dask_logs()
    if not boards:
        raise UsageError("A worker needs boards.", hint="-b KIND, or -b KIND=PORT")
    host = name or platform.node()
    offered = boards_of_host(boards, host)
    for kind in dict.fromkeys(board.kind for board in offered if board.port is None):
        check_startable(kind)
    run_worker(scheduler, offered, host, echo_note)


def _echo_errors(failed: Sequence[Result]) -> None:
    """Print each distinct error once, with the job, or the number of jobs, that it ended."""
    jobs: dict[tuple[str, str], dict[str, None]] = {}
    for result in failed:
        for error in result.errors:
            jobs.setdefault((result.state, error.message), {})[str(result.job)] = None
    for (state, message), ended in jobs.items():
        first = next(iter(ended))
        more = f" and {len(ended) - 1} more" if len(ended) > 1 else ""
        echo_error(f"error: {first}{more}: {state}: {message}")


def _results_page(found: Sequence[Result]) -> Page:
    """Return the median of each function's main metric, a row for each job."""
    from boardprof.show.layout import text_table

    rows = []
    for result in found:
        job = result.job
        for name, medians in result.medians.items():
            metric = next((each for each in _MAIN if each in medians), "")
            number = f"{medians[metric]:,.10g}" if metric else ""
            place = (" ".join(job.arguments), job.flags, result.board or job.board)
            rows.append((name, *place, number, metric))
    headers = ("function", "arguments", "flags", "board", "median", "metric")
    return [text_table(headers, rows)] if rows else []


# -- while it runs -----------------------------------------------------------------------------


class _Waits:
    """Notes what a batch waits for while no board works, every 30 s."""

    def __init__(self) -> None:
        self._idle_s: float | None = None
        self._noted_s = -math.inf

    def __call__(self, progress: Progress) -> None:
        now_s = time.monotonic()
        is_working = any(state == "busy" for state, _, _ in progress.boards.values())
        if is_working or not progress.waiting:
            self._idle_s = None
            return
        if self._idle_s is None:
            self._idle_s = now_s
        if now_s - self._idle_s >= _PATIENCE_S and now_s - self._noted_s >= _EVERY_S:
            self._noted_s = now_s
            for what in progress.waiting:
                echo_note(f"waiting for {what}")


@contextlib.contextmanager
def _live(*, shown: bool) -> Iterator[Callable[[Progress], None] | None]:
    if not shown:
        yield None
        return
    from rich.live import Live

    drawn_s = 0.0
    with Live(console=plain_console(), auto_refresh=False, transient=True) as live:

        def show(progress: Progress) -> None:
            nonlocal drawn_s
            if time.monotonic() - drawn_s > _REDRAW_S:
                drawn_s = time.monotonic()
                live.update(_table(progress), refresh=True)

        yield show


def _table(progress: Progress) -> Any:
    from rich.table import Table

    ended = sum(progress.states.values())
    states = "".join(f", {count} {state}" for state, count in sorted(progress.states.items()))
    left = "" if progress.left_s is None else f", about {progress.left_s:,.0f} s left"
    table = Table(title=f"{ended} of {progress.total} jobs{states}{left}", title_justify="left")
    for header in ("board", "state", "jobs", "works on"):
        table.add_column(header)
    shown = sorted(progress.boards.items())[:_SHOWN]
    for serial, (state, what, count) in shown:
        table.add_row(escaped(serial), state, f"{count}", escaped(what))
    if (more := len(progress.boards) - len(shown)) > 0:
        table.add_row(f"{more} more", "", "", "")
    for what in progress.waiting:
        table.caption = f"{table.caption or ''}waiting for {escaped(what)}\n"
    return table
