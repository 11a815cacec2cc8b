# SPDX-License-Identifier: Apache-2.0
"""``boardprof run --watch``: measure again whenever a source of the image was saved."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from boardprof.base.errors import BoardprofError, BuildError, UsageError
from boardprof.ui.cli.output import echo_error, echo_note, echo_page

if TYPE_CHECKING:
    from boardprof.jobs.run.outcome import Outcome
    from boardprof.results.comparison.comparison import Comparison
    from boardprof.results.report.report import Report

_POLL_S = 0.02  # between two looks at the files; a look at a hundred takes 0.2 ms
_SUFFIXES = frozenset(  # of files that are watched while it is not known which ones the image needs
    (".c", ".h", ".S", ".s", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".inc")
)

# Time of the last change, length and inode of each file; None if it does not exist.
_Stamps: TypeAlias = dict[Path, tuple[int, int, int] | None]


def watch(
    measure: Callable[[list[Path]], Outcome],
    show: Callable[[Report, Comparison | None], None],
    measured: Sequence[str | Path],
) -> None:
    """Measure and show, again after each save, until Ctrl-C."""
    # ``measure`` adds the files that the image was compiled from to its list; ``show`` also shows
    # how a Report differs from that of the last save.
    from boardprof.show.cells import plural

    before: Report | None = None
    known = _around(measured)
    while True:
        stamps = _stamps(known)
        sources: list[Path] = []
        try:
            outcome = measure(sources)
            report, failures = outcome.report, list(outcome.failures)
            if outcome.interrupted:
                raise KeyboardInterrupt
        except BoardprofError as error:  # such as one of the compiler, which the next save corrects
            report, failures = None, [error]
        if sys.stdout.isatty():
            click.clear()
        if report is not None:
            show(report, _since(before, report))
            before = report
        for failure in failures:
            echo_error(f"error: {failure}")
        found = {*sources}
        if not sources or any(isinstance(each, BuildError) for each in failures):
            found |= known | _around(measured)  # the file with the mistake is among them
        if not found:
            names = ", ".join(map(str, measured))
            raise UsageError(
                f"There is no source to watch: {names}.", hint="PATH:FUNCTION, with a C file"
            )
        stamps = {
            **_stamps(found),
            **{path: stamp for path, stamp in stamps.items() if path in found},
        }
        known = found
        echo_note(f"watching {plural(len(known), 'file')}; {_how_to_end()}")
        changed = _next_change(stamps)
        echo_note(f"{changed.name} was saved")


def _how_to_end() -> str:
    # A shell without job control lets its background jobs ignore Ctrl-C.
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return f"kill {os.getpid()} ends it" if is_ignored else "Ctrl-C ends"


def _since(before: Report | None, report: Report) -> Comparison | None:
    if before is None:
        return None
    from boardprof.results.comparison.compare import compare

    try:
        return compare(before, report, allow=["compiler"], before_name="the last save")
    except UsageError:  # such as no row in common
        return None


def echo_reasons(since: Comparison | None) -> None:
    """Print where functions changed, if both sides have a profile."""
    from boardprof.show.comparison_table import reason_page

    if since is not None and since.reasons:
        echo_page(["", *reason_page(since)])


def _around(measured: Iterable[str | Path]) -> set[Path]:
    """Return what is measured, and the sources and headers in its folders."""
    paths = [Path(each).resolve() for each in measured]
    places = {path if path.is_dir() else path.parent for path in paths}
    files = {file.resolve() for place in places if place.is_dir() for file in place.iterdir()}
    own = {path for path in paths if path.is_file()}
    return own | {file for file in files if file.suffix in _SUFFIXES}


def _stamps(files: Iterable[Path]) -> _Stamps:
    found: _Stamps = {}
    for path in files:
        try:
            status = path.stat()
        except OSError:  # an editor replaces it just now
            found[path] = None
        else:
            found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def _next_change(stamps: _Stamps) -> Path:
    """Wait for a file that differs from its stamp; a file that is gone may come back."""
    while True:
        for path, stamp in _stamps(stamps).items():
            if stamp is not None and stamp != stamps[path]:
                return path
        time.sleep(_POLL_S)
