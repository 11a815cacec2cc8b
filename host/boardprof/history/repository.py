# SPDX-License-Identifier: Apache-2.0
"""git, asked from outside: which repository a folder is in, and which commits it has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from boardprof.history.reference import storable
from boardprof.history.run import HistoryError

__all__ = ["Repository", "git_output", "repository_of"]

_TIMEOUT_S = 10.0  # a machine may stand still for seconds
_FOLDERS = {"GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"}
_FOLDERS |= {"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_WORK_TREE"}
"""Variables that hooks are given, and that would send git to another repository than the folder's
(git-rev-parse(1), --local-env-vars)."""

_QUIETLY = {
    "GIT_OPTIONAL_LOCKS": "0",  # somebody may be committing
    "GIT_NO_LAZY_FETCH": "1",  # a commit that is not here is not looked for in the network
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def git_output(folder: str | Path, *words: str, given: str = "") -> str | None:
    """Return what git prints in a folder; None where it fails, or there is no git.

    Args:
        folder: where it runs.
        words: of the command, without ``git``.
        given: its standard input.

    Raises:
        HistoryError: it has not ended after two seconds.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _FOLDERS}
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            input=given.encode(),
            capture_output=True,
            timeout=_TIMEOUT_S,
            env={**inherited, **_QUIETLY},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HistoryError(
            f"git has not answered in {folder} within {_TIMEOUT_S:g} s, so whose runs are meant is "
            "not known.",
            hint="try again; #NUMBER needs no git",
        ) from error
    except OSError:
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None  # names need not be UTF-8


@dataclass(frozen=True)
class Repository:
    """A git repository, with all of its work trees.

    Attributes:
        path: absolute, of the folder that its work trees share, such as ``/home/me/fir/.git``;
            as the history keeps it.
        folder: in one of its work trees.
    """

    path: str
    folder: str | Path

    def own(self, commits: Iterable[str]) -> frozenset[str]:
        """Return those of the commits that it has.

        Raises:
            HistoryError: git does not answer.
        """
        names = [commit for commit in commits if commit.isalnum()]
        lines = "".join(f"{name}\n" for name in names)
        if not lines:
            return frozenset()
        told = git_output(self.folder, "cat-file", "--batch-check", given=lines) or ""
        return frozenset(
            name for name, line in zip(names, told.splitlines(), strict=False) if " commit " in line
        )


def repository_of(folder: str | Path) -> Repository | None:
    """Return the repository that a folder is in; None outside of one, or without git.

    Raises:
        HistoryError: git does not answer.
    """
    told = git_output(folder, "rev-parse", "--git-common-dir")
    if not told:
        return None
    path = os.path.realpath(os.path.join(folder, told.removesuffix("\n")))
    return Repository(storable(path), folder)
