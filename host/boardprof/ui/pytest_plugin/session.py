# SPDX-License-Identifier: Apache-2.0
"""The state of one run of pytest, or of one worker: boards, baseline, measurements."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from boardprof.base.errors import (
    BoardError,
    BoardprofError,
    MissingToolError,
    UnknownNameError,
    UsageError,
)
from boardprof.ui.pytest_plugin.options import Options, read_options, unnumbered

if TYPE_CHECKING:
    from boardprof.results.history.report_lookup import Found
    from boardprof.results.history.run_comparison import BranchRuns
    from boardprof.results.report.measurement import Measurement
    from boardprof.results.report.report import Report
    from boardprof.show.layout import Page
    from boardprof.target.descriptions.board import BoardSpec
    from boardprof.ui.pytest_plugin.gate import MeasurementGate, Verdict
    from boardprof.ui.pytest_plugin.profiler import OpenBoards, Turns


_SENT = (
    *("measurements", "sources", "compiled", "notes", "verdicts"),
    *("is_narrowed", "is_ruled", "is_broken_off", "skipped", "waiting"),
)
"""What a worker sends to the controller."""


SESSION = pytest.StashKey["Session"]()
"""Where pytest's configuration keeps it."""


class Session:
    """Boards and baseline, loaded when the first test needs them, and the tests' measurements."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the options; raises as `read_options`."""
        self.options: Options = read_options(config)
        self._root = config.rootpath
        self.measurements: list[Measurement] = []
        self.sources: dict[Path, None] = {}
        # the files that they were compiled from, including headers, each once
        self.compiled: dict[Path, None] = {}
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.lost: list[str] = []  # workers of pytest-xdist that died
        # they fail the session: something could not be written or compared
        self.errors: list[str] = []
        self.verdicts: list[Verdict] = []
        self.is_narrowed = False  # tests were deselected
        # there are rules, for all tests or for a chosen test, even if it was skipped
        self.is_ruled = bool(self.options.rules)
        self.is_broken_off = False  # a user, or a test that called `pytest.exit`, ended the session
        self.skipped: dict[str, str] = {}  # label of each skipped test -> the reason
        self.changes: Page = ()
        # labels of tests that failed only because their branch has too few runs so far
        self.waiting: list[str] = []
        self._open = contextlib.ExitStack()
        self._is_asked_for: Callable[[str], bool] = lambda label: False

    @cached_property
    def boards(self) -> OpenBoards:
        """The worker's boards."""
        from boardprof.ui.pytest_plugin.profiler import OpenBoards

        boards = OpenBoards(self.options)
        self._open.callback(boards.close)
        return boards

    @cached_property
    def turns(self) -> Turns | None:
        """Measures in turns with other code. None if absent."""
        options = self.options
        if (options.ab_flags or options.ab_revision) is None:
            return None
        from boardprof.ui.pytest_plugin.profiler import Turns

        turns = Turns(self.boards, options)
        self._open.callback(turns.close)
        return turns

    @cached_property
    def _found(self) -> Found | None:
        """The run or file to compare with; None if there is none and that is allowed."""
        ref = self.options.baseline
        if ref is None:
            return None
        from boardprof.results.history.report_lookup import find_run, find_run_if_present
        from boardprof.results.history.run import NothingKeptError

        if self.options.may_lack_baseline:
            return find_run_if_present(ref, self._root)
        try:
            return find_run(ref, self._root)
        except (NothingKeptError, UnknownNameError) as error:
            first = "--bp-compare-if-present compares nothing before the first run"
            error.hint = "; ".join(filter(None, [error.hint, first]))
            raise

    @property
    def baseline(self) -> tuple[str, Report] | None:
        """Name and Report of the run to compare with, or None."""
        return None if self._found is None else (self._found.label, self._found.report)

    @cached_property
    def branch(self) -> BranchRuns | None:
        """The branch to compare with; None if a single run or nothing is meant."""
        ref, found = self.options.baseline, self._found
        if ref is None or found is None:
            return None
        from boardprof.results.history.report_lookup import branch_meant

        branch = branch_meant(ref, found)
        if branch is None:
            return None
        from boardprof.results.history.run_comparison import BranchRuns

        return BranchRuns(branch, self._root)

    @cached_property
    def earlier(self) -> list[Report]:
        """The runs of the baseline's branch up to it, the oldest first; see `branch_reports`."""
        from boardprof.results.history.report_lookup import branch_reports

        if self._found is None or self._found.run is None:
            raise UsageError(
                "A limit in spreads needs earlier runs of a branch.",
                hint="--bp-compare branch:main",
            )
        from boardprof.results.comparison.compare import SPREAD_RUNS

        return branch_reports(self._found.run, SPREAD_RUNS, self._root)

    def gate(self, limits: Mapping[str, float], rules: Sequence[str]) -> MeasurementGate:
        """Return a gate with these limits and rules, and with what this session compares."""
        from boardprof.ui.pytest_plugin.gate import MeasurementGate

        return MeasurementGate(
            limits,
            rules,
            self.baseline,
            self.options.allow,
            self.options.is_baseline_required,
            lambda: self.earlier,
            self.branch,
        )

    def check(self) -> None:
        """Check before any test that boards and files of the options exist or can be written."""
        # Modules that no option needs are not imported.
        options = self.options
        try:
            if options.boards:
                from boardprof.target.descriptions.board import board_spec

                for name in options.boards:
                    board_spec(name)
            if options.json_file is not None:
                from boardprof.results.report.report_file import check_report_file

                check_report_file(str(options.json_file))
            if options.new_baseline is not None:
                from boardprof.jobs.run.saving import check_baseline_file

                check_baseline_file(str(options.new_baseline))
            if options.exports:
                from boardprof.show.exporters import read_exports

                read_exports(options.exports)
            if options.save is not None:
                from boardprof.jobs.run.saving import check_save_name

                check_save_name(options.save, self._root)
            if options.baseline is not None or options.allow:
                from boardprof.results.comparison.compatibility import check_allowed
                from boardprof.ui.pytest_plugin.gate import check_counted, check_rules

                check_rules(options.rules)
                check_allowed(options.allow)
                if self.baseline is not None and self.branch is None:
                    check_counted(options.rules, *self.baseline)
        except BoardprofError as error:
            raise pytest.UsageError(str(error)) from None

    @contextlib.contextmanager
    def skipping(self) -> Iterator[None]:
        """Skip a test whose board or tools are not available, unless boards are required."""
        try:
            yield
        except (BoardError, MissingToolError) as error:
            if self.options.is_required:
                raise
            pytest.skip(f"{error.message} (--bp-require-board makes this a failure)")

    def records(self, spec: BoardSpec) -> bool:
        """Tell whether to record where calls on a board spend their cost; note why not."""
        from boardprof.target.descriptions.board import check_recordable

        try:
            if self.options.hotspots:
                check_recordable(spec)
        except UsageError as error:
            self.note(f"{spec.name} is measured without a profile: {error.message}")
            return False
        return self.options.hotspots

    def note(self, text: str) -> None:
        """Note something once, however many tests say it."""
        if text not in self.notes:
            self.notes.append(text)

    def report(self) -> Report:
        """Return the Report of all measurements; there must be at least one."""
        from boardprof.results.report.assemble import assemble

        # The flags of a benchmark are its own: its name tells its rows apart.
        return assemble(self.measurements, swept=False if self.options.benchmarks else None)

    def packed(self) -> bytes:
        """Return a worker's results for the controller."""
        return pickle.dumps([getattr(self, name) for name in _SENT])

    def take(self, packed: bytes) -> None:
        """Take over the results of a worker."""
        for name, found in zip(_SENT, pickle.loads(packed), strict=True):
            own = getattr(self, name)
            setattr(self, name, own + found if isinstance(own, list) else own | found)

    def conclude(self, is_asked_for: Callable[[str], bool]) -> None:
        """Compare all measurements with the baseline; see `errors`, `notes` and `changes`."""
        self._is_asked_for = is_asked_for
        baseline = self.baseline
        if self.options.baseline is not None and baseline is None:
            self.warnings.append(
                f"there is no {self.options.baseline} to compare with, so no change can fail a "
                "test (--bp-compare-if-present)"
            )
        if baseline is None:
            return
        if self.branch is not None and self.measurements:
            compared = [each.run for each in self.verdicts if each.run is not None]
            if not compared:
                if not all(each.failures for each in self.verdicts):  # which have their reason
                    self.warnings.append(
                        f"not compared: no clean run of {self.branch.branch} like this session was "
                        "kept before, so no change can fail a test"
                    )
                return
            from boardprof.results.history.report_lookup import find_run

            found_run = find_run(f"#{max(compared)}", self._root)
            baseline = found_run.label, found_run.report
        from boardprof.ui.pytest_plugin.gate import conclude

        found = conclude(
            baseline,
            self.report() if self.measurements else None,
            self.verdicts,
            any_board="board" in self.options.allow,
            is_ruled=self.is_ruled,
            is_required=self.options.is_baseline_required,
            is_asked_for=is_asked_for,
            skipped=self.skipped,
        )
        self.errors += found.errors
        self.notes += found.notes
        self.changes = found.changes

    def write(self, has_failed: bool) -> None:
        """Write the Report, and keep it in the history; see `errors`."""
        if not self.measurements:
            return
        from boardprof.jobs.run.saving import keep_run, write_baseline
        from boardprof.results.report.report_file import write_report
        from boardprof.show.exporters import read_exports, write_export

        report = self.report()
        file, name = self.options.json_file, self.options.save
        writers = [] if file is None else [partial(write_report, report, str(file))]
        exports = read_exports(self.options.exports)
        for write in [*writers, *(partial(write_export, report, each) for each in exports)]:
            try:
                write()
            except BoardprofError as error:
                self.errors.append(str(error))
        has_failed = has_failed or self.is_broken_off or bool(self.errors)
        baseline = self.options.new_baseline
        if baseline is not None and has_failed:
            self.notes.append(f"{baseline.name} was not written: the session failed")
        elif baseline is not None:
            try:
                made = write_baseline(report, str(baseline), self._keeps)
                self.notes.append(f"{baseline.name} was written: {made}")
            except BoardprofError as error:
                self.errors.append(str(error))
                has_failed = True
        try:
            kept = keep_run(
                report,
                name=name,
                command=["pytest"],
                measured=[*self.sources],
                sources=[*self.compiled],
                folder=self._root,
                has_failed=has_failed,
                on_note=self.notes.append,
            )
        except UsageError as error:
            (self.notes if name is None else self.errors).append(str(error))
            return
        if kept is not None and name is not None and has_failed:
            why = "was interrupted" if self.is_broken_off else "failed"
            self.notes.append(f"kept as #{kept}, not as {name}: the session {why}")

    def _keeps(self, label: str) -> bool:
        """Tell whether to keep a measurement of the baseline that was not repeated."""
        is_of_a_test = "::" in label  # what the command wrote has at most the name of a benchmark
        return not (is_of_a_test and self._is_asked_for(label)) or unnumbered(label) in self.skipped

    def close(self) -> None:
        """End what was started."""
        self._open.close()
