# SPDX-License-Identifier: Apache-2.0
"""Whose a settings file is. A stranger's is not read: settings can name compilers and emulators.

Anybody can write a file to ``/tmp``, which is a parent folder of whatever is measured there. The
rule is git's of "dubious ownership" (git-config(1), safe.directory).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["foreign_owner"]

_ROOT = 0
_ANYWHERE = "*"


def foreign_owner(file: Path, trusted: Sequence[str]) -> str | None:
    """Return who owns a file that is not to be read; None if it may be read.

    It may be if it belongs to the user or to root, if it is in a git repository that does, or in a
    trusted folder.

    Args:
        file: that is there.
        trusted: folders; ``*`` is all of them.
    """
    if _is_ours(file) or _is_trusted(file, trusted):
        return None
    project = next((each for each in file.parents if os.path.lexists(each / ".git")), None)
    if project is not None and _is_ours(project) and _is_ours(project / ".git"):
        return None
    return _name(next(uid for uid in _owners(file) if uid not in _our_ids()))


def _is_ours(path: Path) -> bool:
    return all(uid in _our_ids() for uid in _owners(path))


def _owners(path: Path) -> list[int]:
    """Return who owns a file and, if it is a link, who made it lead there."""
    return [path.lstat().st_uid, path.stat().st_uid]


def _our_ids() -> set[int]:
    user = os.geteuid()
    sudo = os.environ.get("SUDO_UID", "") if user == _ROOT else ""
    return {_ROOT, user, *([int(sudo)] if sudo.isascii() and sudo.isdigit() else [])}


def _is_trusted(file: Path, trusted: Sequence[str]) -> bool:
    folders = (Path(each).expanduser() for each in trusted if each != _ANYWHERE)
    return _ANYWHERE in trusted or any(file.is_relative_to(folder) for folder in folders)


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
