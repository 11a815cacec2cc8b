# SPDX-License-Identifier: Apache-2.0
"""Options for the format, width and destination of a command's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from boardprof.cli.options import Whole
from boardprof.cli.output import set_width

Command = Callable[..., Any]

STDOUT = "-"
"""The name that means standard output instead of a file."""


def json_option(command: Command) -> Command:
    """Add ``--json``, which prints; the command gets ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def file_option(form: str, what: str) -> Callable[[Command], Command]:
    """Return the decorator that adds ``--FORM FILE``; the command gets ``FORM_file``.

    Whether the file can be written is checked before anything is done.

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
        help="Write a baseline file to commit. Unchanged results keep their lines.",
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


def table_option(command: Command) -> Command:
    """Add ``--table``; the command gets ``table``."""
    return click.option(
        "--table", is_flag=True, help="Print the table of all metrics, with sums and configuration."
    )(command)


def width_option(command: Command) -> Command:
    """Add ``--width``, the maximum width of the output."""

    def taken(ctx: click.Context, option: click.Parameter, value: int | None) -> None:
        set_width(value)

    return click.option(
        "--width",
        type=Whole(min=20),
        metavar="COLUMNS",
        expose_value=False,
        callback=taken,
        help="Maximum width. [default: terminal width; unlimited when redirected]",
    )(command)
