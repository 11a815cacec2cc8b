# SPDX-License-Identifier: Apache-2.0
"""Options that say in which form, how wide and where a command's result is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from boardprof.cli.options import Whole
from boardprof.cli.output import set_width

__all__ = [
    "STDOUT",
    "baseline_option",
    "file_option",
    "json_option",
    "output_option",
    "width_option",
]

Command = Callable[..., Any]

STDOUT = "-"
"""What stands for standard output in place of a file."""


def json_option(command: Command) -> Command:
    """Add ``--json``, which prints; the command gets ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def file_option(form: str, what: str) -> Callable[[Command], Command]:
    """Return the decorator that adds ``--FORM FILE``; the command gets ``FORM_file``.

    That the file can be written is seen before anything is done.

    Args:
        form: ``json``, ``markdown``, ...
        what: of the help: what is written as what.
    """
    return click.option(
        f"--{form}",
        f"{form}_file",
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        callback=_writable,
        help=f"Write {what}; - prints it in place of the table.",
    )


def baseline_option(command: Command) -> Command:
    """Add ``--baseline FILE``; the command gets ``baseline_file``."""
    return click.option(
        "--baseline",
        "baseline_file",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        callback=_writable,
        help="Write what gates need, to be committed; what has not changed stays as it is.",
    )(command)


def _writable(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is not None and value != STDOUT:
        from boardprof.report.report_file import check_report_file

        check_report_file(value)
    return value


def output_option(help_text: str) -> Callable[[Command], Command]:
    """Return the decorator that adds ``--output``."""
    return click.option(
        "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help=help_text
    )


def width_option(command: Command) -> Command:
    """Add ``--width``, which what is printed then keeps to."""

    def taken(ctx: click.Context, option: click.Parameter, value: int | None) -> None:
        set_width(value)

    return click.option(
        "--width",
        type=Whole(min=20),
        metavar="COLUMNS",
        expose_value=False,
        callback=taken,
        help="How wide to print. [as the terminal; to a file or a program without an end]",
    )(command)
