# SPDX-License-Identifier: Apache-2.0
"""Metrics to measure on several boards; not every board has every metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from boardprof.board.board import Board
from boardprof.errors import BoardprofError, UsageError
from boardprof.measure.available_metrics import ALL, lack_text
from boardprof.report.measurement import Measurement


class WantedMetrics:
    """The metrics of one run on several boards; it remembers which no board has."""

    def __init__(self, names: Sequence[str] | None, boards: int) -> None:
        """Ask this number of boards for ``names``, or None for the fixed counters."""
        self._names = names
        self._may_lack = boards > 1 and names is not None and ALL not in names
        self._had: set[str] = set()
        self._errors: dict[tuple[str, str], UsageError] = {}
        self._without: list[UsageError] = []

    def of(self, board: Board) -> list[str] | None:
        """Return those that a board has, or None for the fixed counters.

        Raises:
            UsageError: it has none of them; or it lacks one and is the only board.
        """
        if self._names is None or not self._may_lack:
            return None if self._names is None else list(self._names)
        found, lacking = board.offer.split(self._names)
        self._errors |= {(board.spec.name, name): error for name, error in lacking.items()}
        self._had.update(found)
        if not found and (errors := self._of(board.spec.name)):
            self._without.append(next(iter(errors.values())))
            raise self._without[-1]
        return [*found]

    def told(self, measurement: Measurement, board: Board) -> Measurement:
        """Return the measurement, with the board's missing metrics noted."""
        lacking = {
            name: lack_text(name, error) for name, error in self._of(board.spec.name).items()
        }
        unsupported = {**measurement.device.unsupported, **lacking}
        return replace(measurement, device=replace(measurement.device, unsupported=unsupported))

    def failures(
        self, failures: Sequence[BoardprofError], on_note: Callable[[str], None]
    ) -> list[BoardprofError]:
        """Return the failures, with an error for each name that no board has.

        A board that has none of them is not a failure if other boards have some; it gets a note.
        """
        if not self._had:
            return [*failures]
        for board, told in self._boards_without():
            on_note(f"{board} was not measured, because it has none of the metrics: {told}")
        others = [failure for failure in failures if failure not in self._without]
        return others + [e for (_, name), e in self._errors.items() if name not in self._had]

    def left_out(self) -> list[str]:
        """Return the boards that have none of the metrics, which others have, and why."""
        boards = self._boards_without() if self._had else ()
        return [f"all of {board}, which has none of the metrics ({told})" for board, told in boards]

    def _boards_without(self) -> Iterator[tuple[str, str]]:
        for board in dict.fromkeys(at for at, _ in self._errors):
            lacking = self._of(board)
            if any(error in self._without for error in lacking.values()):
                yield (
                    board,
                    "; ".join(f"{name}: {lack_text(name, e)}" for name, e in lacking.items()),
                )

    def _of(self, board: str) -> dict[str, UsageError]:
        return {name: error for (at, name), error in self._errors.items() if at == board}
