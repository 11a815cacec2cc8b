# SPDX-License-Identifier: Apache-2.0
"""What commands print beside their results: to stderr, or nowhere."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from boardprof.printable import bounded, escaped
from boardprof.progress import Show, shown_by

if TYPE_CHECKING:
    from boardprof.cli.bar import Bar
    from boardprof.report.report import Report

__all__ = ["echo", "echo_command", "echo_console", "echo_data", "echo_error", "echo_lines"]
__all__ += ["echo_note"]
__all__ += ["echo_odd_rows", "echo_table", "echo_warning", "echo_warnings", "echo_written"]
__all__ += ["forget_output", "progress_bar", "quieten", "set_width", "stdout_of_boards"]
__all__ += ["take_every_character"]

_STDOUT, _STDERR = 1, 2
_TAB = "\t"
_quiet = False
_width: int | None = None


def quieten() -> None:
    """Print no notes and no progress from now on."""
    global _quiet
    _quiet = True


def set_width(columns: int | None) -> None:
    """Print tables and lists so wide from now on; None: as a terminal is, or without an end."""
    global _width
    _width = columns


def take_every_character() -> None:
    """Let what a stream's encoding does not have be escaped: it is no reason to end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def forget_output() -> None:
    """Let what is still buffered go nowhere, or it would fail again when Python ends."""
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print text for people, and nothing that a terminal would obey: part of it is of others.

    All that commands print comes through here or `echo_data`.
    """
    click.echo(_shown(str(text)), err=err, nl=nl)


def echo_data(content: str | bytes, *, nl: bool = True) -> None:
    """Print what a program reads, such as JSON or CSV: as it is, but to a terminal as text."""
    if isinstance(content, str) and sys.stdout is not None and sys.stdout.isatty():
        content = _shown(content)
    click.echo(content, nl=nl, color=True)  # or it would take styles out


def echo_command(command: str) -> None:
    """Show a compiler's command."""
    echo(command, err=True)


def echo_console(line: str) -> None:
    """Show a line that a board has printed."""
    echo(f"  | {escaped(line, keep=_TAB)}", err=True)


def echo_error(text: str) -> None:
    """Tell what ended the command; if even that cannot be written, the exit code says it."""
    with contextlib.suppress(OSError):
        echo(text, err=True)


def echo_note(text: str) -> None:
    """Show what the user should know, but did not ask for."""
    if not _quiet:
        _echo_beside(f"note: {text}")


def echo_warning(text: str) -> None:
    """Show what went otherwise than the user takes it to be, though they want no notes."""
    _echo_beside(f"warning: {text}")


def echo_table(text: str) -> None:
    """Print a table: as it is to a file or a program, as wide as a terminal to a terminal."""
    text = _shown(text)  # before styles are added
    if _width is not None or (sys.stdout is not None and sys.stdout.isatty()):
        from boardprof.run.screen import table_shown

        text = table_shown(text, sys.stdout, _width)
    click.echo(text, nl=False, color=True)  # whatever its name: styles are for terminals only


def echo_lines(text: str) -> None:
    """Print text that is no table, likewise."""
    if _width is not None or (sys.stdout is not None and sys.stdout.isatty()):
        from boardprof.run.screen import lines_shown

        text = lines_shown(_shown(text), sys.stdout, _width)
    echo(text)


def echo_warnings(report: Report) -> None:
    """Tell what stands against a Report's samples, and what to do about it.

    What helps against several is said once.
    """
    if _quiet:
        return
    from boardprof.stats.warnings import Warning_, warnings

    by_hint: dict[str, list[Warning_]] = {}
    for each in warnings(report):
        by_hint.setdefault(each.hint, []).append(each)
    for hint, found in by_hint.items():
        if len(found) == 1:
            _echo_beside(bounded(f"warning: {found[0]}"))
        else:
            seen = (f"  {bounded(str(each).removesuffix(hint).strip())}" for each in found)
            _echo_beside("\n".join([f"warning: {bounded(hint)}", *seen]))


def _echo_beside(text: str) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        from boardprof.run.screen import lines_shown

        text = lines_shown(_shown(text), sys.stderr)
    echo(text, err=True)


def echo_odd_rows(report: Report) -> None:
    """Note what is odd about a Report's rows and does not show in its table."""
    from boardprof.run.odd_rows import odd_rows

    for text in odd_rows(report):
        echo_note(text)


def echo_written(what: str, file: object) -> None:
    """Say where something was put that nobody sees on the terminal."""
    if not _quiet:
        echo(f"{what} written to {file}", err=True)


def _shown(text: str) -> str:
    return escaped(text, keep="\n\t")


@contextlib.contextmanager
def progress_bar(*, measures: bool = False) -> Iterator[Show]:
    """Show where long work is while the context lasts: a bar, or a line now and then in a log.

    It shows what `boardprof.progress` has, and lends the function that does it.

    Args:
        measures: get ready at once: to load what draws would disturb what runs in this process.
    """
    bar: Bar | None = None
    shown: Show | None = None
    if sys.stderr is not None and sys.stderr.isatty():
        from boardprof.cli import bar as bars

        bar = shown = bars.Bar()
        if measures and not _quiet:
            bar.get_ready()

    turn = threading.Lock()  # seconds come from a thread of their own

    def show(what: str, done: int, total: int | None) -> None:
        nonlocal shown
        if not _quiet:
            with turn:
                shown = shown or _lines()
                shown(what, done, total)

    try:
        with shown_by(show):
            yield show
    finally:
        if bar is not None:
            bar.end()


def _lines() -> Show:
    from boardprof.cli.progress_lines import ProgressLines

    return ProgressLines(lambda line: echo(line, err=True))


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
