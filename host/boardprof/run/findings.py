# SPDX-License-Identifier: Apache-2.0
"""What has come of a run: its measurements, and its errors with the places where they happened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from boardprof.errors import BoardprofError, BuildError, UsageError
from boardprof.report.measurement import Measurement

__all__ = ["Findings"]


@dataclass(frozen=True)
class _Failure:
    """An error, the boards that it came of, and the setting of a sweep."""

    error: BoardprofError
    boards: list[str]
    setting: str | None

    def name_places(self, boards: Sequence[str]) -> None:
        """Let the error tell where it happened, if it could have been elsewhere.

        A mistake of the plan itself, which is one on all boards, names none.
        """
        wrong = list(dict.fromkeys(self.boards))
        is_told = any(name in self.error.message for name in wrong)
        is_general = isinstance(self.error, UsageError) and len(wrong) == len(boards)
        at = "for" if isinstance(self.error, BuildError) else "on"
        is_placed = len(boards) > 1 and not is_told and not is_general
        places = [f"{at} {', '.join(wrong)}"] if is_placed else []
        if self.setting is not None:
            places.append(f"with {self.setting or 'no flags'}")
        if places:
            where = ", ".join(places)
            self.error.message = f"{where[0].upper()}{where[1:]}: {self.error.message}"


class Findings:
    """What has come of a plan so far: it stays, whatever comes later."""

    def __init__(self, boards: Sequence[str]) -> None:
        """Nothing yet; ``boards`` are the names of all that the run is for."""
        self.measurements: list[Measurement] = []
        self._failures: list[_Failure] = []
        self._boards = boards
        self._told: dict[str, _Failure] = {}
        self._now: list[BoardprofError] = []

    @property
    def failures(self) -> list[BoardprofError]:
        """The errors, in the order in which they came."""
        return [failure.error for failure in self._failures]

    def name_places(self) -> None:
        """Let each error tell the board and the setting that it came of, if there are several."""
        for failure in self._failures:
            failure.name_places(self._boards)

    @contextlib.contextmanager
    def failing(self, board: str, flags: str | None) -> Iterator[None]:
        """Take the errors of one board and setting, so that the next ones have their turn.

        Args:
            board: its name.
            flags: of the compiler, in a sweep; else None.
        """
        self._now = []
        try:
            yield
        except BoardprofError as error:
            told = self._told.get(str(error))
            # A mistake in the plan is told once, and so is what has nothing to do with a setting.
            if told is None or (flags is not None and not isinstance(error, UsageError)):
                self._now.append(error)
            else:
                told.boards.append(board)
        finally:
            for each in self._now:
                failure = _Failure(each, [board], flags)
                self._failures.append(failure)
                self._told.setdefault(str(each), failure)

    def take(self, results: Iterable[Measurement | BoardprofError]) -> None:
        """Take results as they come."""
        for result in results:
            if isinstance(result, Measurement):
                self.measurements.append(result)
            else:
                self._now.append(result)
