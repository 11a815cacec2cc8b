# SPDX-License-Identifier: Apache-2.0
"""A project's ``compile_commands.json``: the folders of its headers, and its other sources.

CMake, Meson, Bear and others write this file (JSON Compilation Database Format Specification).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

_NAME = "compile_commands.json"
_BUILD_FOLDER = re.compile(r"\.?build|_build|cmake-|out\b|obj|target\b", re.IGNORECASE)
_MOST_LEVELS = 6
"""How many folders above a source may have the file, or a build folder with it."""

_FOLDERS = ("-isystem", "-idirafter", "-iquote", "-I")


def header_folders(source: Path) -> list[Path]:
    """Return the existing folders in which the project's build looks for a source's headers."""
    entry = _entry_of(source)
    if entry is None:
        return []
    base, words = Path(entry["directory"]), _words(entry)
    named = [after for before, after in pairwise(words) if before in _FOLDERS]
    for word in words:
        option = next((each for each in _FOLDERS if word.startswith(each)), word)
        named += [word.removeprefix(option)] if word != option else []
    folders = dict.fromkeys(Path(os.path.normpath(base / name)) for name in named)
    return [folder for folder in folders if folder.is_dir() and "\n" not in str(folder)]


def defining_sources(sources: Sequence[Path], symbols: Collection[str]) -> list[Path]:
    """Return other sources of the project that seem to define symbols, such as generated ones."""
    wanted = [
        re.compile(rb"(?m)^\w[^\n#;=(]*\b%s\b[^;]*[={]" % re.escape(s.encode())) for s in symbols
    ]
    found: dict[Path, None] = {}
    for database in dict.fromkeys(filter(None, map(_database_of, sources))):
        for path in _entries(database):
            if path not in sources and path.is_file():
                content = path.read_bytes()
                found |= dict.fromkeys([path] if any(w.search(content) for w in wanted) else [])
    return [*found]


def _entry_of(source: Path) -> dict[str, Any] | None:
    database = _database_of(source)
    return None if database is None else _entries(database)[source.resolve()]


def _database_of(source: Path) -> Path | None:
    """Return the nearest file that names a source."""
    for path in _candidates(source.resolve().parent):
        if source.resolve() in _entries(path):
            return path
    return None


def _candidates(folder: Path) -> Iterator[Path]:
    for at in (folder, *folder.parents)[:_MOST_LEVELS]:
        with suppress(OSError):
            below = sorted(name for name in os.listdir(at) if _BUILD_FOLDER.match(name))
            places = (at / name / _NAME for name in ("", *below))
            yield from (path for path in places if path.is_file())
        if (at / ".git").exists():
            return


def _entries(database: Path) -> dict[Path, dict[str, Any]]:
    """Return the entries of a file by their source; empty if it cannot be read."""
    return _read(database, database.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(database: Path, _changed_ns: int) -> dict[Path, dict[str, Any]]:
    try:
        listed = json.loads(database.read_bytes())
        return {Path(each["directory"], each["file"]).resolve(): each for each in listed}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _words(entry: dict[str, Any]) -> list[str]:
    """Return the words of an entry's command; empty if it cannot be split."""
    try:
        return list(entry.get("arguments") or shlex.split(str(entry.get("command", ""))))
    except ValueError:
        return []
