# SPDX-License-Identifier: Apache-2.0
"""Where a measured function is defined: the file as its repository calls it, and the line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePath

from boardprof.results.record import SourcePlace


def source_place(source: str, line: int, files: Iterable[Path]) -> SourcePlace | None:
    """Return a function's place, if need be relative to a folder of ``files``; None if unknown."""
    if line < 1 or not source:
        return None
    parts = PurePath(source).parts
    found = {file for file in files if file.parts[-len(parts) :] == parts}
    if os.path.isabs(source):
        found = {Path(source)}
    return SourcePlace(_in_repository(found.pop()), line) if len(found) == 1 else None


def place_of_line(path: str, line: int) -> SourcePlace | None:
    """Return a place from the debug information of an image; None if it is not known."""
    return SourcePlace(_in_repository(Path(path)), line) if path and line > 0 else None


def _in_repository(file: Path) -> str:
    """Return the path from the folder with ``.git`` above a file. It need not exist."""
    whole = Path(os.path.abspath(file))
    for folder in whole.parents:
        if (folder / ".git").exists():
            return whole.relative_to(folder).as_posix()
    return whole.name
