# SPDX-License-Identifier: Apache-2.0
"""A run with its Report for transfer between histories: as a row, or as a line of JSON."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from boardprof.errors import BoardprofError, ReportFileError
from boardprof.history.run import check_name, contents_of, storable
from boardprof.report.report import Report

_KIND: Final = "boardprof.history"
_VERSION: Final = 1
"""Version of the lines' layout; it grows if an old reader would misread new lines."""

_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_WROTE: Final = "a file that `boardprof history export` wrote, unchanged"
_COLUMNS: Final = (
    "time, name, command, project, git_commit, git_branch, git_dirty, version, failed, report"
)


@dataclass(frozen=True)
class Record:
    """A run.

    Attributes:
        time: when it was saved, as `Run.time`.
        name: None if absent.
        command: the command line.
        project: of the run; "" if it has none.
        commit: None if it is not from a repository.
        branch: None likewise.
        dirty: None likewise.
        version: of boardprof.
        failed: as `Run.has_failed`.
        report: as one line of JSON.
    """

    time: str
    name: str | None
    command: str
    project: str
    commit: str | None
    branch: str | None
    dirty: bool | None
    version: str
    failed: bool
    report: str


def unpacked(kept: Any) -> str:
    """Return the JSON of a Report in the history.

    Raises:
        ValueError: it is damaged.
    """
    try:
        return zlib.decompress(kept).decode("utf-8", "surrogatepass")
    except (zlib.error, TypeError) as error:
        raise ValueError(str(error)) from error


def records_of(file: sqlite3.Connection, ids: Iterable[int]) -> Iterator[Record]:
    """Yield runs by their numbers.

    Raises:
        ValueError: a Report is damaged.
    """
    for each in ids:
        row = file.execute(f"SELECT {_COLUMNS} FROM runs WHERE id = ?", [each]).fetchone()
        if row is not None:
            *facts, report = row
            time, name, command, project, commit, branch, dirty, version, failed = facts
            if not isinstance(time, str) or not isinstance(command, str):
                raise ValueError("its time or its command is missing")
            is_dirty = None if dirty is None else bool(dirty)
            text = unpacked(report)
            git = (commit, branch, is_dirty)
            yield Record(time, name, command, project or "", *git, version, bool(failed), text)


def add_records(file: sqlite3.Connection, records: Iterable[Record]) -> int:
    """Add runs that are not there yet, in the order in which they were made; return how many.

    A run is there if one with the same time, command, commit and Report is, whatever its name.

    Raises:
        ReportFileError: a run has no Report.
    """
    added = 0
    for each in sorted(records, key=lambda record: record.time):
        report = Report.from_json(each.report)
        same = "SELECT report FROM runs WHERE time = ? AND command = ? AND git_commit IS ?"
        there = file.execute(same, [each.time, each.command, each.commit])
        if any(_is_same(kept, report) for (kept,) in there):
            continue
        insert(file, each, report)
        added += 1
    return added


def insert(file: sqlite3.Connection, record: Record, report: Report) -> int:
    """Add a run with its Report; return its number."""
    values = (
        *(record.time, record.name, record.command, record.project or None),
        *(record.commit, record.branch, record.dirty, record.version, record.failed),
        *(
            zlib.compress(record.report.encode("utf-8", "surrogatepass")),
            len(report.calls),
            json.dumps(contents_of(report)),
        ),
    )
    marks = ", ".join("?" * len(values))
    statement = f"INSERT INTO runs ({_COLUMNS}, rows, contents) VALUES ({marks})"
    number = file.execute(statement, values).lastrowid
    assert number is not None  # an INSERT always sets it
    return number


def _is_same(kept: Any, report: Report) -> bool:
    try:
        return Report.from_json(unpacked(kept)) == report
    except (ValueError, ReportFileError):
        return False


def written(records: Iterable[Record]) -> Iterator[str]:
    """Yield the lines of a file with runs: a header, then one line for each run."""
    yield json.dumps({"kind": _KIND, "version": _VERSION}) + "\n"
    for each in records:
        facts = {field.name: getattr(each, field.name) for field in fields(each)}
        yield f"{json.dumps(facts | {'report': None})[:-5]}{each.report}}}\n"


def read_file(file: str) -> list[Record]:
    """Return the runs of a file whose lines came from `written`.

    Raises:
        ReportFileError: it cannot be read, or is not such a file.
    """
    try:
        with Path(file).open(encoding="utf-8") as lines:
            return [*_records(lines)]
    except ReportFileError as error:
        raise ReportFileError(f"{file}: {error.message}", hint=error.hint) from error
    except OSError as error:
        raise ReportFileError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ReportFileError(f"{file} is not text (byte {error.start}).", hint=_WROTE) from error


def _records(lines: Iterable[str]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _refused(number, f"this is not JSON: {error}") from error
        if number == 1:
            if found != {"kind": _KIND, "version": _VERSION}:
                raise _refused(1, "this boardprof cannot read this file as a history")
        else:
            yield _record(found, number)


def _record(found: Any, number: int) -> Record:
    kinds: dict[str, tuple[type, ...]] = {
        **dict.fromkeys(("time", "command", "project", "version"), (str,)),
        **dict.fromkeys(("name", "commit", "branch"), (str, type(None))),
        "dirty": (bool, type(None)),
        "failed": (bool,),
        "report": (dict,),
    }
    for name, kind in kinds.items():
        if not isinstance(found, dict) or not isinstance(found.get(name), kind):
            raise _refused(number, f"{name} is missing, or has the wrong type")
    if re.fullmatch(_TIME, found["time"]) is None:
        raise _refused(number, f"{found['time']!r:.40} is not a time")
    try:
        if found["name"] is not None:
            check_name(found["name"])
        report = Report.from_json(json.dumps(found["report"])).json()
    except BoardprofError as error:
        raise _refused(number, error.message) from error
    facts: dict[str, Any] = {
        name: storable(found[name]) if isinstance(found[name], str) else found[name]
        for name in kinds
    }
    return Record(**facts | {"report": report})


def _refused(number: int, why: str) -> ReportFileError:
    return ReportFileError(f"{why}.", where=f"line {number}", hint=_WROTE)
