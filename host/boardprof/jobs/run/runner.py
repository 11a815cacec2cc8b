# SPDX-License-Identifier: Apache-2.0
"""A run from its plan to its Report."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from boardprof.base.errors import BoardprofError, BuildError, UsageError, WrongOutputError
from boardprof.jobs.run.measure_plan import Listener, Note, results
from boardprof.jobs.run.plan import Plan, WantedMetrics, boards_of, with_each_setting
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.report import Report


@dataclass(frozen=True)
class Outcome:
    """The result of a plan.

    Attributes:
        report: of all that could be measured; None if nothing could be.
        failures: what could not be measured, and why, in the order of the attempts.
        interrupted: by Ctrl-C; the report has what was measured before.
    """

    report: Report | None
    failures: tuple[BoardprofError, ...]
    interrupted: bool = False


def run_plan(plan: Plan, listener: Listener) -> Outcome:
    """Build, start and measure on one board after the other, and one setting after the other.

    If a function, a board or a setting fails, the numbers of all others are kept, in any order.

    Args:
        plan: what to do.
        listener: gets progress and notes; equal notes only once.

    Raises:
        UsageError: the plan contradicts itself or lacks something; nothing was built.
    """
    specs = boards_of(plan)
    # Report a mistake in these before anything is built.
    names = [spec.name for spec in specs]
    data = plan.read_data(names)
    wanted = WantedMetrics(plan.metrics, len(specs))
    settings = with_each_setting(replace(plan, data=data, wanted=wanted))
    listener = replace(listener, on_note=once(listener.on_note))
    findings = Findings(names)
    interrupted = False
    try:
        for spec, setting in itertools.product(specs, settings):
            flags = None if plan.sweep is None else setting.code.cflags
            found = results(spec, setting, listener)
            with findings.failing(spec.name, flags), contextlib.closing(found):
                findings.take(found)
    except KeyboardInterrupt:
        if not findings.measurements:
            raise
        interrupted = True
    failures = wanted.failures(findings.failures, listener.on_note)
    findings.name_places()
    missing, wrong = [], []
    for failure in failures:
        line = failure.message.partition("\n")[0]
        if isinstance(failure, WrongOutputError):
            wrong.append(line.removesuffix("."))
        else:
            missing.append(line.removesuffix(":"))
    missing += wanted.left_out()
    missing += ["the rest, after it was interrupted"] if interrupted else []
    report = None
    if findings.measurements:
        swept = plan.sweep is not None
        report = assemble(findings.measurements, swept=swept, missing=missing, wrong=wrong)
    return Outcome(report, tuple(failures), interrupted)


def once(on_note: Note) -> Note:
    """Return a callback that passes each note on once."""
    noted: set[str] = set()

    def note(text: str) -> None:
        if text not in noted:
            noted.add(text)
            on_note(text)

    return note


@dataclass(frozen=True)
class _Failure:
    """An error, the boards on which it occurred, and the setting of a sweep."""

    error: BoardprofError
    boards: list[str]
    setting: str | None

    def name_places(self, boards: Sequence[str]) -> None:
        """Add to the error where it happened, if that is ambiguous.

        A mistake in the plan itself is one on all boards, so it names no board.
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
    """The results of a plan so far, which later failures do not remove."""

    def __init__(self, boards: Sequence[str]) -> None:
        """Start without results; ``boards`` are the names of all boards of the run."""
        self.measurements: list[Measurement] = []
        self._failures: list[_Failure] = []
        self._boards = boards
        self._told: dict[str, _Failure] = {}
        self._now: list[BoardprofError] = []

    @property
    def failures(self) -> list[BoardprofError]:
        """The errors, in the order in which they occurred."""
        return [failure.error for failure in self._failures]

    def name_places(self) -> None:
        """Add to each error the board and the setting, if there are several."""
        for failure in self._failures:
            failure.name_places(self._boards)

    @contextlib.contextmanager
    def failing(self, board: str, flags: str | None) -> Iterator[None]:
        """Keep the errors of one board and setting, so that the next ones are still measured.

        Args:
            board: its name.
            flags: of the compiler, in a sweep; else None.
        """
        self._now = []
        try:
            yield
        except BoardprofError as error:
            told = self._told.get(str(error))
            # Report a mistake in the plan once, and errors that do not depend on a setting.
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
        """Keep results as they arrive."""
        for result in results:
            if isinstance(result, Measurement):
                self.measurements.append(result)
            else:
                self._now.append(result)
