# SPDX-License-Identifier: Apache-2.0
"""Which runs are meant, and what a history needs of the database that has them.

Another package brings a database by an entry point of the group ``boardprof.histories``. Its name
is the scheme of the URLs in ``BOARDPROF_HISTORY``, and it names a function that takes a URL and a
timeout in seconds, and returns a `Database`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from boardprof.results.history.project import Project
from boardprof.results.history.run import Run, StoredRun


@dataclass(frozen=True)
class Choice:
    """Conditions that a run must meet, all of them; one that is None does not matter."""

    id: int | None = None
    before: int | None = None  # only runs with a smaller number
    name: str | None = None
    branch: str | None = None
    commit: str | None = None  # the beginning of the id of its commit, in lower case
    # True for a run that did not fail and whose sources were not changed; False for all others
    is_clean: bool | None = None
    has_failed: bool | None = None
    project: Project | None = None
    boards: frozenset[str] | None = None
    functions: frozenset[str] | None = None

    def has(self, run: Run) -> bool:
        """Tell whether a run meets the conditions on its project, its boards and its functions.

        The others are columns of every history, so its database checks them. It may check these,
        too, to find fewer runs.
        """
        return (
            (self.project is None or self.project.has(run.project))
            and (self.boards is None or not self.boards.isdisjoint(run.boards))
            and (self.functions is None or not self.functions.isdisjoint(run.functions))
        )


class RunTable(Protocol):
    """The runs, and the results of tuning, within one transaction."""

    def runs(self, choice: Choice) -> Iterator[Run]:
        """Yield runs, newest first by time, then by number; those that `Choice.has` are meant."""

    def count(self, choice: Choice) -> int:
        """Return the number of runs; the choice has no project."""

    def report(self, number: int) -> bytes | None:
        """Return the packed Report of a run; None if there is no such run."""

    def record(self, number: int) -> StoredRun | None:
        """Return a run with its Report; None if there is no such run.

        Raises:
            ValueError: it is damaged.
        """

    def like(self, record: StoredRun) -> Iterator[bytes]:
        """Yield the packed Reports of runs with the same time, command and commit."""

    def insert(
        self, record: StoredRun, packed: bytes, rows: int, contents: Mapping[str, Sequence[str]]
    ) -> int:
        """Add a run; return its number, which no run has had before."""

    def remove(self, number: int) -> None:
        """Remove a run."""

    def rename(self, number: int, name: str | None) -> None:
        """Name a run, or take its name away."""

    def results(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the results of tuning that are kept for ``keys``."""

    def keep_results(self, results: Mapping[str, str]) -> None:
        """Keep results of tuning by their keys."""


class Database(Protocol):
    """Where a history is.

    Attributes:
        name: for people: a file's path, or a URL without secrets.
    """

    name: str

    def may_exist(self) -> bool:
        """Tell whether it exists, as far as that is known without opening it."""

    def reading(self) -> AbstractContextManager[RunTable | None]:
        """Provide the runs as they are at one moment; None if nothing was kept yet.

        Raises:
            HistoryError: they cannot be read.
        """

    def writing(self) -> AbstractContextManager[RunTable]:
        """Provide the runs within a transaction, which is committed as a whole at the end.

        Raises:
            HistoryError: they cannot be written.
            StorageError: the disk has no room, or fails.
        """

    def adding(self) -> AbstractContextManager[RunTable]:
        """Do the same while no other process adds runs that it has read elsewhere."""

    def upgrade(self) -> str:
        """Create or convert the tables for this version of boardprof; return what was done.

        Raises:
            HistoryError: that cannot be done.
        """
