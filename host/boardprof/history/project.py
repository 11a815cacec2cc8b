# SPDX-License-Identifier: Apache-2.0
"""The id of a run's project, which is the same on every machine and in every folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from boardprof.history.project_name import project_name
from boardprof.history.repository import first_commit, remote_url, repository_path
from boardprof.history.run import storable

_LONGEST_CHAIN = 8
"""Limit for clones of clones on one machine."""

_COMMIT = r"[0-9a-f]{40}|[0-9a-f]{64}"
_LIKE_SCP = r"(?:[^/@]+@)?(?P<host>\[[^\]]+\]|[^/:]{2,}):(?P<path>.*)"
"""``[USER@]HOST:PATH``, as ssh has it (git-clone(1), "GIT URLS"); a one-letter host such as C: is a
drive.
"""


@dataclass(frozen=True)
class Project:
    """A project.

    Attributes:
        id: the same on each machine: the setting ``project``, else the first remote's URL, else the
            first commit.
        place: path of its repository here. It is the id of runs kept by former versions, and of
            runs before the first commit. "" if it is not in a repository.
        folder: a folder in the project.
    """

    id: str
    place: str = ""
    folder: str | Path = ""

    def has(self, id: str) -> bool:
        """Tell whether a run belongs to this project; a run without a project belongs to all.

        Raises:
            HistoryError: git does not answer.
        """
        if id in ("", self.id, self.place):
            return True
        return re.fullmatch(_COMMIT, id) is not None and id == self._first_commit

    @cached_property
    def _first_commit(self) -> str:
        """The id of runs from before it had a remote."""
        return first_commit(self.folder) if self.place else ""


def project_of(folder: str | Path) -> Project | None:
    """Return the project that a folder is in; None if it is not in one.

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
        # A clone on this machine belongs to the project of its origin.
        origin = repository_path(found)
        if origin is not None:
            return _id(found, origin, chain - 1)
    return found


def id_of_url(url: str) -> str:
    """Return the common part of all URLs of a remote: ``github.com/me/fir``.

    Users, passwords, tokens and ports are left out. For a folder it is the absolute path.
    """
    scp = None if "://" in url else re.fullmatch(_LIKE_SCP, url)
    if scp is not None:
        host, path = scp["host"], scp["path"]
    elif "://" in url:
        try:
            parts = urlsplit(url)
        except ValueError:  # not an address to fetch from
            return url
        if parts.scheme == "file":
            return _plain(os.path.realpath(unquote(parts.path)))
        host, path = parts.netloc.rpartition("@")[2].partition(":")[0], parts.path
    else:
        return _plain(os.path.realpath(url))
    return _plain(f"{host.lower()}/{path.lstrip('/')}")


def _plain(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")
