# SPDX-License-Identifier: Apache-2.0
"""Whose run it is: an id of the project that is the same on every machine and in every folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from boardprof.history.project_name import project_name
from boardprof.history.reference import storable
from boardprof.history.repository import first_commit, remote_url, repository_path

__all__ = ["Project", "id_of_url", "project_of"]

_LONGEST_CHAIN = 8
"""Of clones of clones on one machine."""

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LIKE_SCP = re.compile(r"(?:[^/@]+@)?(?P<host>\[[^\]]+\]|[^/:]{2,}):(?P<path>.*)")
"""``[USER@]HOST:PATH``, as ssh has it (git-clone(1), "GIT URLS"); C: is a disk."""


@dataclass(frozen=True)
class Project:
    """A project.

    Attributes:
        id: the same on each machine: what the setting ``project`` says, else the first remote's
            URL, else the first commit.
        place: of its repository here, which is the id of runs that former versions have kept, and
            of those before the first commit; "" where it is in none.
        folder: in it.
    """

    id: str
    place: str = ""
    folder: str | Path = ""

    def has(self, id: str) -> bool:
        """Tell whether a run's project is this one; one of no project is everybody's.

        Raises:
            HistoryError: git does not answer.
        """
        if id in ("", self.id, self.place):
            return True
        return _COMMIT.fullmatch(id) is not None and id == self._first_commit

    @cached_property
    def _first_commit(self) -> str:
        """The id of runs that were made before it had a remote."""
        return first_commit(self.folder) if self.place else ""


def project_of(folder: str | Path) -> Project | None:
    """Return the project that a folder is in; None where it is in none.

    Raises:
        HistoryError: git does not answer.
    """
    place = repository_path(folder)
    named = storable(project_name())
    if named:
        return Project(named, place or "", folder)
    return None if place is None else Project(_id(folder, place, _LONGEST_CHAIN), place, folder)


def _id(folder: str | Path, place: str, chain: int) -> str:
    url = remote_url(folder)
    if not url:
        return first_commit(folder) or place
    found = id_of_url(url)
    if os.path.isabs(found) and chain > 0 and os.path.isdir(found):
        # A clone on this machine: its project is that of where it comes from.
        origin = repository_path(found)
        if origin is not None:
            return _id(found, origin, chain - 1)
    return found


def id_of_url(url: str) -> str:
    """Return what a remote's URLs have in common, however it is reached: ``github.com/me/fir``.

    Users, passwords, tokens and ports are left out; of a folder it is the absolute path.
    """
    scp = None if "://" in url else _LIKE_SCP.fullmatch(url)
    if scp is not None:
        host, path = scp["host"], scp["path"]
    elif "://" in url:
        try:
            parts = urlsplit(url)
        except ValueError:  # no address that anything could be fetched from
            return url
        if parts.scheme == "file":
            return _plain(os.path.realpath(unquote(parts.path)))
        host, path = parts.netloc.rpartition("@")[2].partition(":")[0], parts.path
    else:
        return _plain(os.path.realpath(url))
    return _plain(f"{host.lower()}/{path.lstrip('/')}")


def _plain(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")
