# SPDX-License-Identifier: Apache-2.0
"""The database that a history's path or URL means; see `boardprof.results.history.run_table`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.packages import entries, named_function
from boardprof.results.history.run_table import Database
from boardprof.results.history.sqlite import SqliteDatabase

_GROUP: Final = "histories"
_POSTGRES: Final = "boardprof.results.history.postgres.server"
_SERVERS: Final = dict.fromkeys(("postgresql", "postgres"), _POSTGRES)
"""Scheme -> module, which is imported when it is asked for; libpq knows both names."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_ALMOST_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|postgres(?:ql)?:", re.IGNORECASE)
_LOGIN: Final = re.compile(r":[^/]*@|^(?!/[^/]|[.~]).*:.*@", re.DOTALL)
_SETTING: Final = re.compile(
    r"(?:^|\s)(?:host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=",
    re.IGNORECASE,
)
"""libpq's other form of a connection: ``host=db.lab dbname=boardprof``."""

_EXTRA: Final = "boardprof[postgres]"


class MissingPackagesError(UsageError):
    """The Python packages for a kind of history are not installed."""

    exit_code = 7  # like a missing tool


def is_url(place: str | Path) -> bool:
    """Tell whether a place is a URL rather than the path of a file."""
    return isinstance(place, str) and _SCHEME.match(place.strip()) is not None


def require_place(place: str) -> None:
    """Require text to be the path of a file, or to look like a URL."""
    text = place.strip()
    if is_url(text):
        return
    form = "postgresql://USER@HOST:PORT/DATABASE, with the password in ~/.pgpass or PGPASSWORD"
    hidden = "It is not shown, because it may have a password."
    if _SETTING.search(text):
        raise UsageError(
            "The history cannot be given as host=... dbname=..., only as a file or a URL. "
            f"{hidden}",
            hint=form,
        )
    if _ALMOST_URL.match(text) or _LOGIN.search(text):
        raise UsageError(f"The URL of the history is not valid. {hidden}", hint=form)


def has_password(url: str) -> bool:
    """Tell whether a URL has a password, or may have one."""
    rest = url.partition("://")[2]
    user, at, _ = rest.rpartition("@")
    return bool(at and ":" in user) or "password" in rest.partition("?")[2].casefold()


def database_of(place: str | Path, timeout_s: float) -> Database:
    """Return the database at a place; nothing is opened yet."""
    if not is_url(place):
        if isinstance(place, str):
            require_place(place)
        return SqliteDatabase(Path(place), timeout_s)
    url = str(place).strip()
    scheme = url.partition("://")[0].casefold()
    if scheme in _SERVERS:
        return _server(scheme)(url, timeout_s)
    found = named_function(_GROUP, scheme, f"The history {scheme}")
    if found is None:
        known = sorted({*_SERVERS, *(entry.name for entry in entries(_GROUP))})
        hint = "BOARDPROF_HISTORY=FILE, or postgresql://USER@HOST/DATABASE"
        raise UnknownNameError("kind of history", f"{scheme}://", known, hint=hint)
    database: Database = found.function(url, timeout_s)
    return database


def _server(scheme: str) -> Callable[[str, float], Database]:
    try:
        return cast(
            "Callable[[str, float], Database]",
            importlib.import_module(_SERVERS[scheme]).PostgresDatabase,
        )
    except ImportError as error:
        if (error.name or "").startswith("boardprof"):
            raise
        raise MissingPackagesError(
            f"A history on PostgreSQL needs packages that are not installed: {_EXTRA}.",
            hint=f"pip install '{_EXTRA}'",
        ) from error
