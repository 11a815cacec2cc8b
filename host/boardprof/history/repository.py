# SPDX-License-Identifier: Apache-2.0
"""Queries to git: the repository of a folder, its remotes and its branches."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from boardprof.history.run import HistoryError, storable

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
    """Return git's output in a folder; None if it fails, or git is not installed.

    Args:
        folder: where it runs.
        words: of the command, without ``git``.

    Raises:
        HistoryError: it has not ended after two seconds.
    """
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            env=git_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HistoryError(
            f"git did not answer in {folder} within {_TIMEOUT_S:g} s, so the project is not known.",
            hint="try again, or use #NUMBER, which does not need git",
        ) from error
    except OSError:
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None  # names need not be UTF-8


def git_environment() -> dict[str, str]:
    """Return the environment for git: it uses the folder's repository and never prompts."""
    inherited = {name: value for name, value in os.environ.items() if name not in _FOLDERS}
    return {**inherited, **_QUIETLY}


def repository_path(folder: str | Path) -> str | None:
    """Return the folder that all work trees of a folder's repository share.

    It is absolute, such as ``/home/me/fir/.git``; None outside of a repository, or without git.

    Raises:
        HistoryError: git does not answer.
    """
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
    """Tell whether a folder's repository, or a remote of it as last fetched, has a branch.

    Raises:
        HistoryError: git does not answer.
    """
    told = git_output(folder, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes")
    parts = (line.split("/", 3) for line in (told or "").splitlines())
    return any(
        "/".join(rest[kind == "remotes" :]) == name for _, kind, *rest in parts if len(rest) > 0
    )
