# SPDX-License-Identifier: Apache-2.0
"""What commands print beside their results: to stderr, or nowhere."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

import click

__all__ = ["echo_command", "echo_console", "echo_note", "forget_output", "progress_bar"]
__all__ += ["stdout_of_boards"]

_STDOUT, _STDERR = 1, 2


def forget_output() -> None:
    """Let what is still buffered go nowhere, or it would fail again when Python ends."""
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def echo_command(command: str) -> None:
    """Show a compiler's command."""
    click.echo(command, err=True)


def echo_console(line: str) -> None:
    """Show a line that a board has printed."""
    shown = "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in line)
    click.echo(f"  | {shown}", err=True)


def echo_note(text: str) -> None:
    """Show what the user should know, but did not ask for."""
    click.echo(f"note: {text}", err=True)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Lend a function that shows where a long run is: a bar, or a line now and then in a log."""
    if not sys.stderr.isatty():
        from boardprof.cli.progress_lines import ProgressLines

        yield ProgressLines(lambda line: click.echo(line, err=True))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # No thread that draws: it would run beside what an in-process board measures.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    with bar:
        task = bar.add_task("", total=None, visible=False)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total, visible=True)
            bar.refresh()

        yield show


@contextlib.contextmanager
def stdout_of_boards(*, shown: bool) -> Iterator[None]:
    """Keep what functions print that run in this very process out of our own output.

    Args:
        shown: it goes to stderr; else nowhere, as any board's console.
    """
    if sys.stdout is None or sys.stderr is None:
        yield
        return
    sys.stdout.flush()
    ours = os.dup(_STDOUT)
    theirs = os.dup(_STDERR) if shown else os.open(os.devnull, os.O_WRONLY)
    os.dup2(theirs, _STDOUT)
    os.close(theirs)
    try:
        yield
    finally:
        if "cffi" in sys.modules:  # such a board was there
            import ctypes

            ctypes.CDLL(None).fflush(None)  # or it would come to light when the process ends
        os.dup2(ours, _STDOUT)
        os.close(ours)
