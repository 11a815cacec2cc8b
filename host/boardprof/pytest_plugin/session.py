# SPDX-License-Identifier: Apache-2.0
"""What one run of pytest, or one worker of it, has at hand and has measured."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from boardprof.pytest_plugin.options import Options, read_options

if TYPE_CHECKING:
    from boardprof.pytest_plugin.boards import Boards
    from boardprof.report.measurement import Measurement
    from boardprof.report.report import Report

__all__ = ["Session"]


class Session:
    """Boards and baseline, each had when the first test needs it; and what tests have measured.

    Attributes:
        options: of this run.
        measurements: in the order of the tests.
        notes: what people should know of it.
        compared: for each measurement that was to be, whether it was compared with the baseline.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Read the options; raises as `read_options`."""
        self.options: Options = read_options(config)
        self.measurements: list[Measurement] = []
        self.notes: list[str] = []
        self.compared: list[bool] = []
        self._boards: Boards | None = None
        self._baseline: tuple[str, Report] | None = None

    @property
    def boards(self) -> Boards:
        """The worker's boards."""
        if self._boards is None:
            from boardprof.pytest_plugin.boards import Boards

            self._boards = Boards(self.options)
        return self._boards

    @property
    def baseline(self) -> tuple[str, Report] | None:
        """Name and Report of the run to compare with; None: with nothing."""
        if self._baseline is None and self.options.baseline is not None:
            from boardprof.history.finding import find_run

            found = find_run(self.options.baseline)
            self._baseline = (found.label, found.report)
        return self._baseline

    def check(self) -> None:
        """See before any test that there is what to compare with, and that rules parse.

        Raises:
            pytest.UsageError: there is not, or they do not.
        """
        from boardprof.comparison.matching import check_allowed
        from boardprof.errors import BoardprofError
        from boardprof.pytest_plugin.gate import check_rules

        try:
            check_rules(self.options.rules)
            check_allowed(self.options.allow)
            _ = self.baseline
        except BoardprofError as error:
            raise pytest.UsageError(str(error)) from None

    @contextlib.contextmanager
    def skipping(self) -> Iterator[None]:
        """Skip a test whose board, or a tool for it, cannot be had, unless boards are required."""
        from boardprof.errors import BoardError, MissingToolError

        try:
            yield
        except (BoardError, MissingToolError) as error:
            if self.options.is_required:
                raise
            pytest.skip(f"{error.message} (--bp-require-board makes this a failure)")

    @property
    def not_compared(self) -> str:
        """How much of what was measured the baseline has nothing of; "" where it has all."""
        lacking = self.compared.count(False)
        return f"{lacking} of {len(self.compared)} not compared" if lacking else ""

    def report(self) -> Report:
        """Return the Report of all that was measured; there must be something."""
        from boardprof.report.assemble import assemble

        return assemble(self.measurements)

    def packed(self) -> bytes:
        """Return what a worker sends to the controller."""
        return pickle.dumps((self.measurements, self.notes, self.compared))

    def take(self, packed: bytes) -> None:
        """Take over what a worker has sent."""
        measurements, notes, compared = pickle.loads(packed)
        self.measurements += measurements
        self.notes += notes
        self.compared += compared

    def write(self) -> bool:
        """Write the Report and keep it in the history.

        Returns:
            Whether all went well that somebody has asked for; what has not is a note.
        """
        if not self.measurements:
            return True
        from boardprof.errors import BoardprofError
        from boardprof.report.report_file import write_report
        from boardprof.run.saving import keep_run

        report = self.report()
        file, name = self.options.json_file, self.options.save
        is_written = True
        try:
            if file is not None:
                write_report(report, str(file))
        except BoardprofError as error:
            self.notes.append(str(error))
            is_written = False
        kept = keep_run(
            report, name=name, folder=Path.cwd(), command=["pytest"], on_note=self.notes.append
        )
        return is_written and (name is None or kept is not None)

    def close(self) -> None:
        """End what was started."""
        if self._boards is not None:
            self._boards.close()
