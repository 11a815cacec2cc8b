# SPDX-License-Identifier: Apache-2.0
"""Which runs of a history are meant."""

from __future__ import annotations

from dataclasses import dataclass

from boardprof.results.history.project import Project
from boardprof.results.history.run import Run


@dataclass(frozen=True)
class Choice:
    """Conditions that a run must meet, all of them; one that is None does not matter.

    Attributes:
        id: the run's number.
        before: only runs with a smaller number.
        name: given by ``--save``.
        branch: of its sources.
        commit: the beginning of the id of its commit, in lower case.
        is_clean: True for a run that did not fail and whose sources were not changed; False for all
            others.
        has_failed: it failed or was interrupted.
        project: that it belongs to.
        boards: it was measured on one of these.
        functions: it measured one of these.
    """

    id: int | None = None
    before: int | None = None
    name: str | None = None
    branch: str | None = None
    commit: str | None = None
    is_clean: bool | None = None
    has_failed: bool | None = None
    project: Project | None = None
    boards: frozenset[str] | None = None
    functions: frozenset[str] | None = None

    def has(self, run: Run) -> bool:
        """Tell whether a run meets the conditions on its project, its boards and its functions.

        The others are columns of every history, so its database checks them. It may check these,
        too, to find fewer runs.

        Raises:
            HistoryError: git does not answer.
        """
        return (
            (self.project is None or self.project.has(run.project))
            and (self.boards is None or not self.boards.isdisjoint(run.boards))
            and (self.functions is None or not self.functions.isdisjoint(run.functions))
        )
