# SPDX-License-Identifier: Apache-2.0
"""Whose a run is: the id of its project, the same on every machine; and the repository it is in."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from boardprof.base.settings import project_name
from boardprof.results.history.run import HistoryError, storable

_TIMEOUT_S = 10.0  # a machine may hang for seconds
_FOLDERS = {"GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"}
_FOLDERS |= {"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_WORK_TREE"}
"""Variables set for hooks, which would lead git to another repository than the folder's
(git-rev-parse(1), --local-env-vars).
"""

_QUIETLY = {
    "GIT_OPTIONAL_LOCKS": "0",  # another process may be committing
    "GIT_NO_LAZY_FETCH": "1",  # do not fetch missing commits from the network
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def git_output(folder: str | Path, *words: str) -> str | None:
    """Return git's output in a folder; None if it fails, or git is not installed."""
    try:
        done = run_git(folder, *words)
    except subprocess.TimeoutExpired as error:
        raise HistoryError(
            f"git did not answer in {folder} within {_TIMEOUT_S:g} s, so the project is not known.",
            hint="try again, or use #NUMBER, which does not need git",
        ) from error
    except OSError:
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None  # names need not be UTF-8


def git_refusal(folder: str | Path) -> tuple[str, str] | None:
    """Return why git does not read the repository around a folder, and what it says to do.

    None outside of a repository, and if git reads it. git refuses one that another user owns.
    """
    place = Path(folder).absolute()
    if not any((each / ".git").exists() for each in (place, *place.parents)):
        return None
    try:
        done = run_git(folder, "rev-parse", "--git-dir")
    except FileNotFoundError:
        return "git is not installed", "install the package git (Debian: apt install git)"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"git failed: {error}", "try git status there"
    if done.returncode == 0:
        return None
    said = os.fsdecode(done.stderr).strip()
    command = re.search(r"^\s*(git config .*)$", said, re.MULTILINE)
    first = said.partition("\n")[0].removeprefix("fatal: ")
    return f"git says: {first}", command[1] if command else "try git status there"


def run_git(
    folder: str | Path, *words: str, timeout_s: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git on a folder's repository, whatever the environment says; it never prompts."""
    inherited = {name: value for name, value in os.environ.items() if name not in _FOLDERS}
    return subprocess.run(
        ["git", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S if timeout_s is None else timeout_s,
        env={**inherited, **_QUIETLY},
        check=False,
    )


def repository_path(folder: str | Path) -> str | None:
    """Return the absolute path that all work trees of a repository share; None outside of one."""
    told = git_output(folder, "rev-parse", "--git-common-dir")
    if not told:
        return None
    return storable(os.path.realpath(os.path.join(folder, told.removesuffix("\n"))))


def remote_url(folder: str | Path) -> str:
    """Return the URL of the first remote of a folder's repository; "" if it has none."""
    told = git_output(folder, "config", "--local", "--get-regexp", r"^remote\..*\.url$") or ""
    return storable(told.partition("\n")[0].partition(" ")[2])


def first_commit(folder: str | Path) -> str:
    """Return the oldest root commit of a folder's repository; "" before the first commit."""
    told = git_output(folder, "rev-list", "--max-parents=0", "HEAD") or ""
    return told.rstrip("\n").rpartition("\n")[2]


def has_branch(folder: str | Path, name: str) -> bool:
    """Tell whether a folder's repository, or a remote of it as last fetched, has a branch."""
    told = git_output(folder, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes")
    parts = (line.split("/", 3) for line in (told or "").splitlines())
    return any(
        "/".join(rest[kind == "remotes" :]) == name for _, kind, *rest in parts if len(rest) > 0
    )


_LONGEST_CHAIN = 8
"""Limit for clones of clones on one machine."""

_COMMIT = r"[0-9a-f]{40}|[0-9a-f]{64}"
_LIKE_SCP = r"(?:[^/@]+@)?(?P<host>\[[^\]]+\]|[^/:]{2,}):(?P<path>.*)"
"""``[USER@]HOST:PATH``, as ssh has it (git-clone(1), "GIT URLS"); a one-letter host such as C: is a
drive.
"""


@dataclass(frozen=True)
class Project:
    """A project."""

    # setting ``project``, else first remote's URL, else first commit, else the folder's path
    id: str
    place: str = ""  # its repository here, the id of runs before the first commit; "" if none
    folder: str | Path = ""

    @property
    def is_folder(self) -> bool:
        """Whether it is only a folder: there is neither a setting nor a repository."""
        return not self.place and self.id == _path_of(self.folder)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its runs, besides that of its first commit; "" is of runs for all projects."""
        # Runs from before the folder became a repository have the folder's path.
        return ("", self.id, self.place, self.place.removesuffix("/.git"))

    def has(self, id: str) -> bool:
        """Tell whether a run belongs to this project; a run without a project belongs to all."""
        if id in self.ids:
            return True
        return re.fullmatch(_COMMIT, id) is not None and id == self._first_commit

    @cached_property
    def _first_commit(self) -> str:
        """The id of runs from before it had a remote."""
        return first_commit(self.folder) if self.place else ""


def project_of(folder: str | Path) -> Project:
    """Return the project that a folder is in; a folder that is in none is one by itself."""
    place = repository_path(folder)
    named = storable(project_name())
    if named:
        return Project(named, place or "", folder)
    if place is None:
        return Project(_path_of(folder), folder=folder)
    return Project(_id(folder, place, _LONGEST_CHAIN), place, folder)


def _path_of(folder: str | Path) -> str:
    return storable(os.path.realpath(folder))


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
    """Return what all URLs of a remote share, without secrets and ports: ``github.com/me/fir``."""
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
        place = parts.netloc.rpartition("@")[2]
        host, path = re.findall(r"^\[[^\]]*\]|^[^:]*", place)[0], parts.path
    else:
        return _plain(os.path.realpath(url))
    return _plain(f"{host.lower()}/{path.lstrip('/')}")


def _plain(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")
