# SPDX-License-Identifier: Apache-2.0
"""Whose runs a reference means: one file has the runs of all repositories of a user."""

from __future__ import annotations

import sqlite3
from functools import cached_property

from boardprof.history.repository import Repository
from boardprof.history.run import Run

__all__ = ["Scope"]


class Scope:
    """The runs that are seen from inside of a repository; from outside of any, all are.

    A run of another repository is left aside, though its name or branch be the same. A run of
    sources outside of any repository is seen from everywhere.
    """

    def __init__(self, file: sqlite3.Connection, repository: Repository | None) -> None:
        """See the runs of a file.

        Args:
            file: open for reading.
            repository: from where they are looked at; None: from outside of any.
        """
        self._file = file
        self._repository = repository

    def is_of_it(self, run: Run) -> bool:
        """Tell whether a run's sources are of the repository, or of none."""
        ours, git = self._repository, run.git
        if ours is None or git is None or git.repository == ours.path:
            return True
        return git.commit in self._own_commits

    def is_seen(self, run: Run) -> bool:
        """Tell whether a run is of it, or was started in it: whoever made it calls it ``last``."""
        ours = self._repository
        return (ours is not None and run.started_in == ours.path) or self.is_of_it(run)

    @cached_property
    def _own_commits(self) -> frozenset[str]:
        """Of runs of other paths: a clone or a folder that was moved has the same commits."""
        assert self._repository is not None
        rows = self._file.execute(
            "SELECT DISTINCT git_commit FROM runs WHERE git_commit <> '' AND "
            "git_repository IS NOT ?",
            [self._repository.path],
        )
        return self._repository.own(commit for (commit,) in rows)
