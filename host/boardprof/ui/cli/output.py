# SPDX-License-Identifier: Apache-2.0
"""All output of commands: results, notes, warnings, progress; nothing that a terminal obeys."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO

import click

from boardprof.base.printable import bounded, escaped
from boardprof.base.progress import Show, shown_by

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from boardprof.jobs.run.execution import Listener
    from boardprof.results.comparison.comparison import Comparison
    from boardprof.results.report.report import Report
    from boardprof.results.stats.warnings import Kind
    from boardprof.show.layout import Page


STDERR = 2
_STDOUT = 1
_TAB = "\t"
_quiet = False
_is_read = True
_width: int | None = None
_bar: Bar | None = None
"""What other output erases before it is printed."""
_turn = threading.RLock()
"""Seconds of progress come from a thread of their own."""


def set_quiet(quiet: bool) -> None:
    """Set whether notes and progress are kept back."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Tell whether notes are kept back."""
    return _quiet


def set_width(columns: int | None) -> None:
    """Set the width of tables and lists. None for the terminal's, or unlimited without one."""
    global _width
    _width = columns


def take_every_character() -> None:
    """Escape characters that a stream's encoding lacks, so that they do not end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def forget_output(*, err: bool = False) -> None:
    """Discard what is still buffered, which would fail again when Python ends."""
    global _is_read
    _is_read = _is_read and err
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    with contextlib.suppress(OSError):  # this process may not open any more files
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def is_output_read() -> bool:
    """Return whether anyone may read the output: false after a pipe was closed."""
    return _is_read


def _write(
    content: str | bytes, *, err: bool = False, nl: bool = True, color: bool | None = None
) -> None:
    """Print. If nobody reads it, the command continues, because its exit code may be a verdict."""
    try:
        with _turn:
            if _bar is not None:
                _bar.erase()
            click.echo(content, err=err, nl=nl, color=color)
    except BrokenPipeError:
        forget_output(err=err)


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print text for people, without characters that a terminal obeys: some of it is untrusted."""
    _write(_shown(str(text)), err=err, nl=nl)


def echo_data(content: str | bytes, *, nl: bool = True) -> None:
    """Print machine-readable output such as JSON or CSV: unchanged, but as text to a terminal."""
    if sys.stdout is not None and sys.stdout.isatty():
        text = content if isinstance(content, str) else content.decode(errors="backslashreplace")
        content = _shown(text)
    _write(content, nl=nl, color=True)  # or click would remove styles


def echo_json(facts: Mapping[str, Any]) -> None:
    """Print plain data as JSON."""
    import json  # later: --version does without it

    echo_data(json.dumps(facts, indent=2))


def echo_command(command: str) -> None:
    """Show a compiler's command."""
    echo(command, err=True)


def echo_console(line: str) -> None:
    """Show a line that a board has printed."""
    echo(f"  | {escaped(line, keep=_TAB)}", err=True)


def echo_error(text: str) -> None:
    """Report what ended the command; if that cannot be written, the exit code remains."""
    with contextlib.suppress(OSError):
        echo(text, err=True)


def echo_note(text: str) -> None:
    """Show a note that the user did not ask for."""
    if not _quiet:
        _echo_beside(f"note: {text}")


def echo_warning(text: str) -> None:
    """Show a warning: the outcome differs from the request. Shown even without notes."""
    _echo_beside(f"warning: {text}")


def echo_page(page: Page) -> None:
    """Print tables and lines: fitted to the width of a terminal, to a file or a program in full."""
    # Terminals that have styles get them, unless NO_COLOR is set (https://no-color.org).
    from boardprof.show.layout import fitted

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    terminal = os.environ.get("TERM", "")
    styled = is_terminal and not os.environ.get("NO_COLOR") and terminal not in ("", "dumb")
    text = fitted(page, _columns(sys.stdout), styled=styled)
    _write(text, nl=False, color=True)  # click must not decide again whether to keep the styles


def echo_answer(report: Report, since: Comparison | None = None, **options: Any) -> None:
    """Print the cost of a call, see `answer_page`; the table if no sample gives it."""
    from boardprof.show.answer import answer_page

    page = answer_page(report, since, **options)
    if page:
        echo_page(page)
    else:
        echo_report(report)


def echo_configuration(report: Report) -> None:
    """Print how a Report was measured, a fact a line."""
    from boardprof.show.cells import configuration_lines

    echo_page(configuration_lines(report.configuration, ","))


def echo_report(report: Report, *, by_board: bool | None = None, aggregate: bool = True) -> None:
    """Print a Report's table and a blank line."""
    from boardprof.show.table import report_page

    chosen = aggregate and report.has_several if by_board is None else by_board
    echo_page([*report_page(report, aggregate=aggregate, by_board=chosen), ""])


def echo_lines(text: str) -> None:
    """Print text that is not a table, folded at the width of a terminal."""
    echo(_folded(text, _columns(sys.stdout)))


def _columns(stream: TextIO | None) -> int:
    """Return the number of columns; 0 if unknown or unlimited."""
    if stream is sys.stdout and _width is not None:
        return _width
    if stream is None or not stream.isatty():
        return 0
    # Here, because --version needs no width, and the module brings archives' formats with it.
    import shutil

    return shutil.get_terminal_size((0, 0)).columns  # COLUMNS, else the terminal's width


def _folded(text: str, width: int) -> str:
    if not width:
        return text
    from boardprof.show.layout import folded

    return folded(_shown(text), width)


def echo_warnings(report: Report, kinds: Collection[Kind] | None = None) -> None:
    """Warn about unreliable samples of a Report, and suggest what to do."""
    if _quiet:
        return
    from boardprof.results.comparison.comparison import first_of
    from boardprof.results.stats.groups import summaries
    from boardprof.results.stats.warnings import warnings_by_hint
    from boardprof.show.answer import MOST_GROUPS
    from boardprof.show.cells import short_arguments

    groups = summaries(report, most=MOST_GROUPS)
    short = short_arguments((group.key.title, group.key.shapes) for group in groups)
    for hint, found in warnings_by_hint(groups).items():
        told = []
        for each in found:
            if kinds is None or each.kind in kinds:
                shapes = short[each.key.title, each.key.shapes]
                told.append(replace(each, key=replace(each.key, shapes=shapes)))
        if told:
            first = str(told[0]).removesuffix(hint).strip()
            is_one_board = len({each.key.device for each in told}) == 1
            names = dict.fromkeys(
                " ".join(
                    filter(
                        None, [each.name, each.key.flags, "" if is_one_board else each.key.device]
                    )
                )
                for each in told[1:]
            )
            more = f" {len(told) - 1} more like it: {first_of(names)}." if names else ""
            _echo_beside(bounded(f"warning: {first}{more} {hint}"))


def _echo_beside(text: str) -> None:
    echo(_folded(text, _columns(sys.stderr)), err=True)


def echo_incomplete_rows(report: Report) -> None:
    """Note incomplete rows of a Report, which its table does not show."""
    from boardprof.show.cells import incomplete_row_notes

    for text in incomplete_row_notes(report):
        echo_note(text)


def echo_written(what: str, file: object) -> None:
    """Report where output was written that is not on the terminal."""
    if not _quiet:
        echo(f"{what} written to {file}", err=True)


def _shown(text: str) -> str:
    return escaped(text, keep="\n\t")


def run_listener(options: Mapping[str, Any], **callbacks: Any) -> Listener:
    """Return what shows the notes and texts of a run, as ``--verbose`` and ``--console`` say."""
    from boardprof.jobs.run.execution import Listener

    return Listener(
        on_note=echo_note,
        on_command=echo_command if options["verbose"] else None,
        on_console=echo_console if shows_console(options) else None,
        flash_output=STDERR,
        **callbacks,
    )


def shows_console(options: Mapping[str, Any]) -> bool:
    """Tell whether to show what a board prints."""
    return bool(options["verbose"] or options.get("console"))


@contextlib.contextmanager
def stdout_of_boards(*, shown: bool) -> Iterator[None]:
    """Separate the output of measured functions that run in this process from our own."""
    if sys.stdout is not None:
        sys.stdout.flush()
    ours = os.dup(_STDOUT)
    theirs = os.dup(STDERR) if shown else os.open(os.devnull, os.O_WRONLY)
    os.dup2(theirs, _STDOUT)
    os.close(theirs)
    try:
        yield
    finally:
        if "boardprof.wire.transport.sockets" in sys.modules:  # such a board was used
            import ctypes

            ctypes.CDLL(None).fflush(None)  # or it would be printed when the process ends
        os.dup2(ours, _STDOUT)
        os.close(ours)


# -- progress: a bar on a terminal, lines in a log ---------------------------------------------


def plain_console() -> Console:
    """Return rich's console for stderr: brackets and colons in foreign names are plain text."""
    from rich.console import Console

    return Console(stderr=True, markup=False, emoji=False)


@contextlib.contextmanager
def progress_bar(*, measures: bool = False) -> Iterator[None]:
    """Show the progress of long work while the context lasts: a bar, or lines in a log."""
    global _bar
    shown: Show
    outer = _bar  # of the command that this work belongs to
    if sys.stderr is not None and sys.stderr.isatty():
        shown = _bar = Bar()
        if measures and not _quiet:
            _bar.get_ready()
    else:
        shown = ProgressLines(lambda line: echo(line, err=True))

    def show(what: str, done: int, total: int | None) -> None:
        if not _quiet:
            with _turn:
                shown(what, done, total)

    try:
        with shown_by(show):
            yield
    finally:
        with _turn:
            if _bar is not outer and _bar is not None:
                _bar.end()
            _bar = outer


_SHORT_S = 0.5
"""Shorter work gets no bar."""

_BESIDE = 28
"""Columns of the shortest bar, of the remaining time and of the gaps."""


class Bar:
    """Called with (what, done, total); see `boardprof.base.progress.Show`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Draw nothing yet."""
        self._clock = clock
        self._began_s: float | None = None
        self._bar: Progress | None = None
        self._what = ""

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Draw the progress of ``what``."""
        if not what:
            self.erase()
            return
        now_s = self._clock()
        if self._began_s is None:
            self._began_s = now_s - (_SHORT_S if total is None else 0)  # seconds come later, too
        if now_s - self._began_s < _SHORT_S:
            return
        bar = self._bar = self._bar or self._begun()
        (task,) = bar.task_ids
        if total is None:  # a bar would only look like progress
            bar.columns = self._columns[:1]
            shown = f"{escaped(what)[: bar.console.width - len(f': {done} s') - 1]}: {done} s"
            bar.update(task, description=shown, visible=True)
            bar.refresh()
            return
        bar.columns = self._columns
        if (name := what.partition(";")[0]) != self._what:
            self._what = name
            bar.reset(task)  # the speed of the last activity says nothing about this one
        what = escaped(what)
        room = bar.console.width - _BESIDE - 2 * len(str(total))
        shown = what if len(what) <= room else what[: max(0, room - 3)] + "..."
        bar.update(task, description=shown, completed=done, total=total, visible=True)
        bar.refresh()

    def get_ready(self) -> None:
        """Load the drawing library, which takes a while."""
        import rich.console
        import rich.progress  # noqa: F401

    def erase(self) -> None:
        """Remove what is drawn, so that other output can be printed; progress draws it again."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None
        self._what = ""

    def end(self) -> None:
        """Remove the bar: the work has ended."""
        self.erase()
        self._began_s = None

    def _begun(self) -> Progress:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        text = TextColumn("{task.description}", markup=False)
        self._columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        # No drawing thread: it would disturb the measurements of an in-process board.
        bar = Progress(
            *self._columns,
            console=plain_console(),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
        )
        bar.add_task("", visible=False)
        bar.start()
        return bar


_LOOK_S = 1.0
"""Time in which the speed is measured."""

_LONG_S = 10.0
"""Shorter work gets no line."""

_EVERY_S = 30.0


@dataclass
class _Way:
    """Progress of one activity since it was first seen; earlier work has no known duration."""

    began_s: float
    began_at: int
    done: int
    next_s: float


class ProgressLines:
    """Called with (what, done, total), as a progress bar is."""

    def __init__(
        self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Report nothing yet."""
        self._tell = tell
        self._clock = clock
        self._ways: dict[str, _Way] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Record the progress of ``what``; several activities may alternate."""
        # What stands after a semicolon is a detail that changes while the activity goes on. Without
        # ``total``, ``done`` is the seconds since it began; the rest is unknown.
        if not what:
            return  # no activity
        if total is None:
            self._take_seconds(what, done)
            return
        now_s = self._clock()
        name = what.partition(";")[0]
        way = self._ways.get(name)
        if way is None or done < way.done:
            # Do not report an activity that restarts soon, such as a transfer before each round.
            next_s = max(now_s + _LOOK_S, way.next_s if way is not None else 0.0)
            way = self._ways[name] = _Way(now_s, done, done, next_s)
        way.done = done
        if now_s < way.next_s or done <= way.began_at:
            return
        left_s = (now_s - way.began_s) / (done - way.began_at) * (total - done)
        if left_s + now_s - way.began_s < _LONG_S or done >= total:
            way.next_s = now_s + _LOOK_S
            return
        self._tell(f"{what}: {done:,} of {total:,}, about {_duration(left_s)} left")
        way.next_s = now_s + _EVERY_S

    def _take_seconds(self, what: str, passed: int) -> None:
        name = what.partition(";")[0]
        way = self._ways.get(name)
        if way is None or passed < way.done:
            way = self._ways[name] = _Way(0.0, 0, passed, _LONG_S)
        way.done = passed
        if passed >= way.next_s:
            self._tell(f"{what}: {_duration(passed)} so far")
            way.next_s = passed + _EVERY_S


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
