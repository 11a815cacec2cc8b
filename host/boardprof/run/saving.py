# SPDX-License-Identifier: Apache-2.0
"""Keeping each run in the history, without ever losing its result over it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from boardprof.errors import BoardprofError
from boardprof.history.finding import history_path, is_named, user_history
from boardprof.history.reference import check_name
from boardprof.history.run import GitState, RunId
from boardprof.report.report import Report

__all__ = ["check_save_name", "git_state", "keep_run"]

_GIT_TIMEOUT_S = 2.0
_NO_BRANCH = "(detached)"
_NO_COMMIT = "(initial)"


def check_save_name(name: str | None) -> None:
    """See before anything is measured that a run can be kept, and found by its name.

    Args:
        name: given by ``--save``; None: there is none, nor need there be a history.

    Raises:
        UsageError: it cannot, or there is no history.
    """
    if name is not None:
        check_name(name)
    if name is not None or history_path() is not None:
        user_history()


def keep_run(
    report: Report,
    *,
    name: str | None = None,
    command: Sequence[str] | None = None,
    folder: str | Path | None = None,
    on_note: Callable[[str], None],
) -> RunId | None:
    """Save a Report in the user's history; a failure is a note, never an error.

    Args:
        report: what was measured.
        name: given by ``--save``.
        command: the command line; None takes that of this process.
        folder: whose git work tree the run is of; None takes the current one.
        on_note: gets a sentence where it could not be saved, and where a file that the user has
            named was not there before: the name may be a mistake.

    Returns:
        The run's number, or None where nothing was saved.
    """
    if history_path() is None:
        return None
    words = shlex.join(["boardprof", *sys.argv[1:]] if command is None else command)
    try:
        history = user_history()
        is_new = is_named() and not history.path.exists()
        kept = history.save(report, name, words, git=git_state(folder))
    except BoardprofError as error:
        on_note(f"the run was not kept: {error}")
        return None
    if is_new:
        on_note(f"{history.path} was not there: a new history begins with this run")
    return kept


def git_state(folder: str | Path | None = None) -> GitState | None:
    """Return the state of the git work tree of a folder.

    None outside of one, without git, or where git does not answer within two seconds.
    """
    command = ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            # No lock: somebody may be committing.
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit, branch = heads.get("branch.oid", ""), heads.get("branch.head", "")
    return GitState(
        commit="" if commit == _NO_COMMIT else commit,
        branch="" if branch == _NO_BRANCH else branch,
        is_dirty=any(not line.startswith("#") for line in lines),
    )
