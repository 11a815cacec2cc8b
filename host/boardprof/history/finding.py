# SPDX-License-Identifier: Apache-2.0
"""Where the history is, and a Report by any name that people have for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from boardprof.errors import UnknownNameError
from boardprof.history.run import HistoryError, Run
from boardprof.history.store import History
from boardprof.report.report import Report
from boardprof.report.report_file import read_report

__all__ = ["Found", "find_report", "find_run", "history_path", "user_history"]

_VARIABLE = "BOARDPROF_HISTORY"


@dataclass(frozen=True)
class Found:
    """A Report that was looked for.

    Attributes:
        report: it.
        label: what output calls it, e.g. ``#42 (main)``, or the file's name.
        time: when it was kept; of a file, when it was written: ISO 8601, in UTC.
        run: of the history; None of a file.
    """

    report: Report
    label: str
    time: str
    run: Run | None = None

    @property
    def dated(self) -> str:
        """What output calls it where it stands beside another that may be called alike."""
        return f"{self.label} of {self.time}"


def history_path() -> Path | None:
    """Return the history's file, which need not exist; None where there is to be none.

    It is ``$BOARDPROF_HISTORY``, of which ``off`` or nothing means none; else
    ``boardprof/history.sqlite`` in ``$XDG_DATA_HOME``, which is ``~/.local/share`` where it is not
    set (XDG Base Directory Specification: relative paths are to be ignored).
    """
    chosen = os.environ.get(_VARIABLE)
    if chosen is not None:
        return None if chosen.strip().casefold() in ("", "off") else Path(chosen).expanduser()
    home = os.environ.get("XDG_DATA_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "share"
    return base / "boardprof" / "history.sqlite"


def user_history() -> History:
    """Return the user's history.

    Raises:
        HistoryError: there is to be none.
    """
    path = history_path()
    if path is None:
        empty = "" if os.environ.get(_VARIABLE, "").strip() else ", which is empty,"
        raise HistoryError(
            f"There is no history: {_VARIABLE}{empty} turns it off.",
            hint=f"unset {_VARIABLE}, or give the file of a Report",
        )
    return History(path)


def find_report(ref: str) -> Report:
    """Return a Report by a file's path, or a run of the history by any reference to it.

    Args:
        ref: as `History.find` takes it, or a path. What ends in ``.json`` or has a slash and exists
            is a file; anything else first a run.

    Raises:
        UnknownNameError: there is no such run, nor a file of that name.
        ReportFileError: the file holds no Report.
        HistoryError: the history cannot be read, or there is none.
    """
    return find_run(ref).report


def find_run(ref: str) -> Found:
    """Return a Report as `find_report` does, with what is known of it."""
    path = Path(ref)
    is_file = ref != "" and path.is_file()
    if ref.endswith(".json") or (is_file and os.sep in ref):
        return _of_file(path)
    try:
        history = user_history()
        run = history.run(ref)
    except (HistoryError, UnknownNameError):
        if is_file:
            return _of_file(path)
        raise
    return Found(history.load(run), run.label, run.time, run)


def _of_file(path: Path) -> Found:
    report = read_report(str(path))
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return Found(report, path.name, f"{written:%Y-%m-%dT%H:%M:%SZ}")
