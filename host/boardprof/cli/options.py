# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["LONGEST_S", "Real", "Whole", "board_option", "complete_board", "complete_file"]
__all__ += ["image_option", "key_option", "port_options", "warnings_option"]

LONGEST_S = 1_000_000
"""The longest time that an option takes."""


class Real(click.FloatRange):
    """A finite number within its limits; click itself lets "nan" pass by them."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or say what is wrong with it."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is no number.", param, ctx)
        if math.isinf(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


class Whole(click.IntRange):
    """A whole number within its limits; click itself speaks of a "valid integer range"."""

    name = "integer"


Command = Callable[..., Any]


def key_option(help_text: str) -> Callable[[Command], Command]:
    """Return the decorator that adds ``--key-file``."""
    return click.option("--key-file", type=click.Path(), metavar="PATH", help=help_text)


def port_options(command: Command) -> Command:
    """Add what says how a board is reached."""
    for option in (
        key_option("Key that the agent at a TCP port asks for. [BOARDPROF_KEY, if it is set]"),
        click.option(
            "--takeover", is_flag=True, help="Take the board even if another host has it."
        ),
        click.option(
            "--wall-timeout",
            type=Real(min=0, min_open=True, max=LONGEST_S),
            metavar="SECONDS",
            help="Longest wall time of a call. [30 on emulated boards, or more if --timeout is "
            "above 10]",
        ),
        click.option(
            "--timeout",
            type=Real(min=0, min_open=True, max=LONGEST_S),
            metavar="SECONDS",
            help="Longest time of a call on the board's clock. [10; 30 of silence if unguarded]",
        ),
        click.option(
            "--clock",
            type=click.Choice(["measured", "declared", "simulated"]),
            help="What the board's clock is. [as its file says, or the emulator at its port]",
        ),
        click.option(
            "--baud",
            type=Whole(min=1),
            metavar="N",
            help="Bits a second of a serial port.",
        ),
        click.option(
            "-p",
            "--port",
            metavar="PORT",
            shell_complete=complete_file,
            help="Device path or socket://HOST:PORT of a running agent.",
        ),
    ):
        command = option(command)
    return command


def image_option(command: Command) -> Command:
    """Add ``--image``."""
    return click.option(
        "--image",
        type=click.Path(exists=True, dir_okay=False),
        metavar="ELF",
        help="Firmware that has the agent, to be started; with -p, what runs there.",
    )(command)


def warnings_option(command: Command) -> Command:
    """Add ``--no-warnings``."""
    return click.option(
        "--warnings/--no-warnings",
        default=True,
        help="Tell what stands against the samples, and what to do. [told]",
    )(command)


def board_option(command: Command) -> Command:
    """Add ``--board``."""
    return click.option(
        "-b",
        "--board",
        metavar="BOARD",
        shell_complete=complete_board,
        help="Board, as `boardprof boards` lists them, or the path of its folder.",
    )(command)


def complete_board(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Propose boards for a shell's completion; behind a comma, the next one; of a path, folders."""
    from click.shell_completion import CompletionItem

    from boardprof.boards.finding import find_boards

    if "/" in incomplete:
        return [CompletionItem(incomplete, type="dir")]
    before, comma, start = incomplete.rpartition(",")
    names = [name for name in find_boards() if name.startswith(start)]
    return [CompletionItem(f"{before}{comma}{name}") for name in names]


def complete_file(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let a shell complete files as it does where nobody tells it otherwise."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
