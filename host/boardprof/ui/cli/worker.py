# SPDX-License-Identifier: Apache-2.0
"""``boardprof worker``: offer the boards of this machine to a fleet."""

from __future__ import annotations

import platform

import click

from boardprof.base.errors import UsageError
from boardprof.ui.cli.exit_codes import shows_tracebacks
from boardprof.ui.cli.output import echo_note

_EXAMPLES = """
\b
Examples:
  boardprof worker tls://127.0.0.1:8786 -b KIND -b KIND
  boardprof worker tls://lab:8786 -b 'KIND=/dev/ttyACM0#066BFF51'
  boardprof worker tls://lab:8786 -b KIND=labgrid:bench-3
"""


@click.command(epilog=_EXAMPLES)
@click.argument("scheduler", envvar="BOARDPROF_SCHEDULER")
@click.option(
    "-b",
    "--board",
    "boards",
    multiple=True,
    metavar="KIND[=PORT[#SERIAL]]",
    help="A board to offer: its kind, its port, and its serial number. May be repeated.",
)
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
    from boardprof.jobs.fleet.security import show_logs

    if shows_tracebacks():
        show_logs()

    if not boards:
        raise UsageError("A worker needs boards.", hint="-b KIND, or -b KIND=PORT")
    host = name or platform.node()
    offered = boards_of_host(boards, host)
    for kind in dict.fromkeys(board.kind for board in offered if board.port is None):
        check_startable(kind)
    run_worker(scheduler, offered, host, echo_note)
