# SPDX-License-Identifier: Apache-2.0
"""Where the history is, and a Report by any name that people have for it."""

from __future__ import annotations

import os
import shlex
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from boardprof.errors import ReportFileError, UnknownNameError
from boardprof.history.reference import LAST
from boardprof.history.run import HistoryError, Run
from boardprof.history.store import History
from boardprof.report.report import Report
from boardprof.report.report_file import read_report

__all__ = ["Found", "find_report", "find_run", "history_path", "is_named", "user_history"]

_VARIABLE = "BOARDPROF_HISTORY"


@dataclass(frozen=True)
class Found:
    """A Report that was looked for.

    Attributes:
        report: it.
        label: what output calls it, e.g. ``#42 (saved as before)``, or the file's name.
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


def is_named() -> bool:
    """Tell whether the environment names the history's file."""
    return _VARIABLE in os.environ


def user_history(folder: str | Path = ".") -> History:
    """Return the user's history.

    Folders are made for the default file alone: another name may be a mistake.

    Args:
        folder: where the user is: references mean the runs of its repository.

    Raises:
        HistoryError: there is to be none, or the folder of the file that is named is not there.
    """
    path = history_path()
    if path is None:
        empty = "" if os.environ.get(_VARIABLE, "").strip() else ", which is empty,"
        raise HistoryError(
            f"There is no history: {_VARIABLE}{empty} turns it off.",
            hint=f"unset {_VARIABLE}, or give the file of a Report",
        )
    if is_named() and not path.parent.exists():
        raise HistoryError(
            f"There is no folder {path.parent} for the history {path}, which {_VARIABLE} names.",
            hint=f"see whether the name is right; mkdir -p {shlex.quote(str(path.parent))}",
        )
    return History(path, folder=folder)


def find_report(ref: str | int | Path) -> Report:
    """Return a Report by a file's path, or a run of the history by any reference to it.

    Args:
        ref: as `History.find` takes it, or a path. A Path, what ends in ``.json``, or has a slash
            and exists, is a file; anything else first a run.

    Raises:
        UnknownNameError: there is no such run, nor a file of that name.
        UsageError: no run can be called so.
        ReportFileError: the file holds no Report, or it is a folder.
        HistoryError: the history cannot be read, or there is none.
    """
    return find_run(ref).report


def find_run(ref: str | int | Path, folder: str | Path = ".") -> Found:
    """Return a Report as `find_report` does, with what is known of it.

    Args:
        ref: as `find_report` takes it.
        folder: where the user is, see `user_history`.
    """
    if isinstance(ref, Path):
        return _of_file(ref)
    text = str(ref)
    mode = _mode(text)
    if text.endswith(".json") or (stat.S_ISREG(mode) and os.sep in text):
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
                hint="the file of a Report in it, or `boardprof history`",
            ) from error
        raise
    return Found(history.load(run), run.label, run.time, run)


def _mode(path: str) -> int:
    """Return what stat says a path is; 0 where there is nothing, or no path can be such."""
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0


def _of_file(path: Path) -> Found:
    report = read_report(str(path))
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return Found(report, path.name, f"{written:%Y-%m-%dT%H:%M:%SZ}")
