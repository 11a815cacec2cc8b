# SPDX-License-Identifier: Apache-2.0
"""``boardprof agent``: the agent without a profiler."""

from __future__ import annotations

from typing import Any

import click

from boardprof.cli.build import build_options, taken_build_options
from boardprof.cli.group import Commands
from boardprof.cli.options import board_option, key_option
from boardprof.errors import UsageError


@click.group(cls=Commands)
def agent() -> None:
    """Run the agent without a profiler."""


@agent.command()
@board_option
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--pty", is_flag=True, help="Serve a pseudo-terminal and print its path.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to serve. Beyond loopback a key is required.",
)
@key_option("Key that hosts must have. [BOARDPROF_KEY, if it is set]")
@build_options
def serve(
    board: str | None,
    paths: tuple[str, ...],
    pty: bool,
    listen: str,
    key_file: str | None,
    **options: Any,
) -> None:
    """Build the agent with the functions in PATH and serve them until interrupted.

    This works for boards that are programs on this machine. `run -p` and `info -p` connect to the
    address that it prints.
    """
    from boardprof.scaffold.agent import serve_agent

    if board is None:
        raise UsageError("Which board should the agent serve?", hint="give -b BOARD")
    code = taken_build_options(options)
    serve_agent(board, paths, code, listen=None if pty else listen, key_file=key_file)
