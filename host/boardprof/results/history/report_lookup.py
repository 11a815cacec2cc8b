# SPDX-License-Identifier: Apache-2.0
"""The location of the history, and Reports found by any reference."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from boardprof.base.errors import ReportFileError, UnknownNameError, UsageError
from boardprof.base.files import home_folder
from boardprof.base.metrics import Metric
from boardprof.results.comparison.compatibility import has_other_cpu
from boardprof.results.history.databases import Choice, is_url, parse_reference, require_place
from boardprof.results.history.run import LAST, HistoryError, NothingKeptError, Run
from boardprof.results.history.sqlite import may_exist
from boardprof.results.history.store import History
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import is_probe_run, read_report

_VARIABLE = "BOARDPROF_HISTORY"

_LOOKED_AT = 20
_LISTED = 200
_MOST_ROWS = 10_000
"""Limits on the runs that `like_runs` reads, to keep it fast."""


@dataclass(frozen=True)
class Found:
    """A Report that was found."""

    report: Report
    label: str  # its name in output, e.g. ``#42 (saved as before)``, or the file's name
    time: str  # when it was kept, or when the file was written; ISO 8601, in UTC
    run: Run | None = None

    @property
    def dated(self) -> str:
        """Its name in output beside another Report that may have the same label."""
        return f"{self.label} of {self.time}"


def history_place() -> Path | str | None:
    """Return the history's file or URL; None if ``$BOARDPROF_HISTORY`` turns it off."""
    chosen = os.environ.get(_VARIABLE)
    if chosen is None:
        return default_file()
    if is_url(chosen):
        return chosen
    require_place(chosen)
    return None if chosen.strip().casefold() in ("", "off") else Path(chosen).expanduser()


def default_file() -> Path:
    """Return ``boardprof/history.sqlite`` in ``$XDG_DATA_HOME``, by default ``~/.local/share``.

    XDG Base Directory Specification: relative paths are to be ignored.
    """
    home = os.environ.get("XDG_DATA_HOME", "")
    base = Path(home) if os.path.isabs(home) else home_folder() / ".local" / "share"
    return base / "boardprof" / "history.sqlite"


def is_named() -> bool:
    """Tell whether the environment names the history."""
    return _VARIABLE in os.environ


def user_history(folder: str | Path = ".") -> History:
    """Return the user's history; folders are made only for the default file."""
    place = history_place()
    if place is None:
        empty = "" if os.environ.get(_VARIABLE, "").strip() else ", which is empty,"
        raise HistoryError(
            f"There is no history: {_VARIABLE}{empty} turns it off.",
            hint=f"unset {_VARIABLE}, or give the file of a Report",
        )
    if isinstance(place, Path) and is_named() and not may_exist(place.parent):
        raise HistoryError(
            f"There is no folder {place.parent} for the history {place}, which {_VARIABLE} names.",
            hint=f"see whether the name is right; mkdir -p {shlex.quote(str(place.parent))}",
        )
    return History(place, folder=folder)


def local_history() -> History:
    """Return the history in this machine's file, whatever URL ``$BOARDPROF_HISTORY`` has."""
    is_url_given = isinstance(history_place(), str)
    return History(default_file(), folder=".") if is_url_given else user_history()


def shared_history(url: str | None) -> History:
    """Return a team's history."""
    place = history_place() if url is None else url
    if not isinstance(place, str) or not is_url(place):
        raise UsageError(
            "No history of a team is known."
            if url is None
            else "--shared-history needs a URL, such as postgresql://USER@HOST/DATABASE.",
            hint='--shared-history URL; or shared-history = "URL" in boardprof.toml; or '
            f"{_VARIABLE}=URL",
        )
    return History(place, folder=".")


def find_report(ref: str | int | Path) -> Report:
    """Return a Report by a file's path, or a run of the history by any reference to it.

    Args:
        ref: as `History.find` takes it, or a path. A Path is a file, and so is text that ends in
            ``.json``, or has a slash and exists. Anything else is first looked up as a run.

    Raises:
        UnknownNameError: there is no such run, nor a file of that name.
        UsageError: it cannot refer to a run.
        ReportFileError: the file does not hold a Report, or is a folder.
        HistoryError: the history cannot be read, or is off.
    """
    return find_run(ref).report


def find_run(ref: str | int | Path, folder: str | Path = ".") -> Found:
    """Return a Report like `find_report`, with what is known about it."""
    if isinstance(ref, Path):
        return _of_file(ref)
    text = str(ref)
    mode = _mode(text)
    is_named = os.sep in text and not stat.S_ISDIR(mode) and not stat.S_ISFIFO(mode)
    if text.endswith(".json") or (mode and is_named):
        return _of_file(Path(text))
    try:
        history = user_history(folder)
        run = history.run(ref)
    except (HistoryError, UnknownNameError) as error:
        if stat.S_ISREG(mode):
            return _of_file(Path(text))
        if stat.S_ISDIR(mode) and text != LAST:
            raise ReportFileError(
                f"{text} is a folder, and there is no run of that name.",
                hint="name the file of a Report in it, or list the runs with `boardprof history`",
            ) from error
        raise
    return Found(history.load(run), run.label, run.time, run)


def find_run_if_present(ref: str | Path, folder: str | Path = ".") -> Found | None:
    """Return a Report like `find_run`, or None if neither a run nor a file has that name."""
    if (isinstance(ref, Path) or ref.endswith(".json")) and not os.path.lexists(ref):
        return None
    try:
        return find_run(ref, folder)
    except (NothingKeptError, UnknownNameError):
        return None


def like_runs(report: Report, *, before: Run | None = None) -> Iterator[Found]:
    """Yield runs that share a row with a Report (function, arguments, board), newest first.

    They are of the current folder's project and of the same CPUs, and did not fail. At most 20 runs
    with a function and a board of the Report are read; runs of more than 10,000 rows are left out.
    """
    if history_place() is None or not (history := user_history()).may_exist():
        return
    rows = _rows(report)
    boards, functions = (frozenset(str(row[i]) for row in rows) for i in (0, 1))
    number = None if before is None else int(before.id)
    choice = Choice(before=number, has_failed=False, boards=boards, functions=functions)
    runs = history.own_runs(choice, limit=_LISTED)
    for run, earlier in like_runs_of(report, runs, history.load):
        if not has_other_cpu(earlier, report):
            yield Found(earlier, f"#{run.id}", run.time, run)


def like_runs_of(
    report: Report,
    runs: Iterable[Run],
    load: Callable[[Run], Report],
    part: Callable[[Report], Report | None] = lambda report: report,
    *,
    any_board: bool = False,
) -> Iterator[tuple[Run, Report]]:
    """Yield those of runs that share a row with a Report; at most 20 are read, see `like_runs`."""
    columns = _COLUMNS[1:] if any_board else _COLUMNS
    rows = _rows(report, columns)
    for run in islice((run for run in runs if run.rows <= _MOST_ROWS), _LOOKED_AT):
        earlier = part(load(run))
        if earlier is not None and rows & _rows(earlier, columns):
            yield run, earlier


def branch_meant(ref: str | Path, found: Found) -> str | None:
    """Return the branch whose newest run is meant, as by ``main``; None for one run or a file."""
    run = found.run
    if isinstance(ref, Path) or run is None or run.git is None:
        return None
    reference = parse_reference(ref)
    is_other = reference.back or reference.kind not in ("", "branch") or reference.must_be_number
    if is_other or (not reference.kind and run.name == reference.word):
        return None
    return reference.word if run.git.branch == reference.word else None


def branch_reports(run: Run, limit: int, folder: str | Path = ".") -> list[Report]:
    """Return a run and clean runs of its branch before it that share a row, the oldest first."""
    if run.git is None or not run.git.branch:
        raise UsageError(
            f"The run {run.label} is not of a branch, so it has no earlier runs.",
            hint="compare with a run of a branch, such as branch:main",
        )
    boards, functions = frozenset(run.boards), frozenset(run.functions)
    choice = Choice(branch=run.git.branch, is_clean=True, boards=boards, functions=functions)
    history = user_history(folder)
    before = (e for e in history.own_runs(choice) if (e.time, e.id) < (run.time, run.id))
    older = (each for each in before if each.rows <= _MOST_ROWS)
    found = [history.load(run)]
    rows = _rows(found[0])
    while len(found) < limit and (batch := [*islice(older, limit)]):
        found += [each for each in history.load_all(batch) if rows & _rows(each)]
    return found[:limit][::-1]


_COLUMNS = ("Device", "Name", "Argument Shapes", "Flags", "Label")


def _rows(report: Report, columns: Sequence[str] = _COLUMNS) -> set[tuple[Metric, ...]]:
    """Return the keys of a Report's rows, board and function first."""
    return {*report.calls.group_by(*columns).keys}


def _mode(path: str) -> int:
    """Return the file mode of a path; 0 if there is nothing, or it cannot be a path."""
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0


def _of_file(path: Path) -> Found:
    if is_probe_run(str(path)):
        from boardprof.results.probes.figures import report_of_file  # it needs numpy

        report = report_of_file(str(path))
    else:
        report = read_report(str(path))
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return Found(report, path.name, f"{written:%Y-%m-%dT%H:%M:%SZ}")
