# SPDX-License-Identifier: Apache-2.0
"""What tuning has measured of candidates, by a digest of all that a result depends on.

The results are in the history's file, beside the runs. A result is a text of its own format.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from boardprof.history.database import reading, writing

_TABLE = "CREATE TABLE IF NOT EXISTS candidates (key TEXT PRIMARY KEY, result TEXT NOT NULL)"
_EXISTS = "SELECT count(*) FROM sqlite_schema WHERE name = 'candidates'"
_TIMEOUT_S = 10.0


def known_results(path: Path, keys: Sequence[str]) -> dict[str, str]:
    """Return the results that are kept for ``keys``.

    Raises:
        HistoryError: the file cannot be read.
    """
    with reading(path, _TIMEOUT_S) as file:
        if file is None or not file.execute(_EXISTS).fetchone()[0]:
            return {}
        return {key: found for key in keys if (found := _result(file, key)) is not None}


def keep_results(path: Path, results: Mapping[str, str]) -> None:
    """Keep results by their keys.

    Raises:
        HistoryError: the file cannot be written.
    """
    if results:
        with writing(path, _TIMEOUT_S) as file:
            file.execute(_TABLE)
            file.executemany("INSERT OR REPLACE INTO candidates VALUES (?, ?)", results.items())


def _result(file: sqlite3.Connection, key: str) -> str | None:
    row = file.execute("SELECT result FROM candidates WHERE key = ?", [key]).fetchone()
    return None if row is None else str(row[0])
