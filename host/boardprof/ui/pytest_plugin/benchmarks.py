# SPDX-License-Identifier: Apache-2.0
"""The project's benchmarks as tests: ``pytest --bp-benchmarks``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    DeviceError,
    UsageError,
    speaking_of_options,
)
from boardprof.base.settings import BENCHMARK, find_settings, read_settings, user_file
from boardprof.jobs.run.benchmarks import Benchmark, plan_of_settings, read_benchmarks
from boardprof.jobs.run.execution import Listener, firmware_of, measure
from boardprof.jobs.run.function_choice import chosen_functions
from boardprof.jobs.run.plan import Plan, boards_of
from boardprof.results.report.assemble import assemble
from boardprof.ui.pytest_plugin.options import PREFIX
from boardprof.ui.pytest_plugin.profiler import Wanted
from boardprof.ui.pytest_plugin.session import SESSION, Session

if TYPE_CHECKING:
    from boardprof.target.descriptions.board import BoardSpec


class BenchmarkFile(pytest.File):
    """The project's settings file, with a test for each benchmark on each of its boards."""

    def collect(self) -> Iterator[BenchmarkItem]:
        """Yield the tests; raises a CollectError if the file is wrong."""
        try:
            yield from self._items()
        except BoardprofError as error:
            raise self.CollectError(str(error)) from None

    def _items(self) -> Iterator[BenchmarkItem]:
        ours: Session = self.session.config.stash[SESSION]
        options = ours.options
        if (options.ab_flags or options.ab_revision) is not None:
            raise UsageError(
                "--bp-ab and --bp-ab-rev measure tests, not benchmarks.",
                hint="boardprof run --ab, or --ab-rev, measures all benchmarks twice",
            )
        benchmarks = read_benchmarks(read_settings(self.path))
        self.folder = benchmarks.folder
        base = plan_of_settings(benchmarks.file, options.settings, options.boards)
        base = replace(base, connection=options.connection)
        given = {"boards"} if self.config.getoption("--bp-board") else set()
        given |= {"timeout_s"} if options.connection.timeout_s is not None else set()
        pairs = benchmarks.planned(base, given, on_note=ours.note)
        self.plans = [plan for _, plan in pairs if plan is not None]
        known = {plan.boards: plan for plan in self.plans}
        specs = {boards: boards_of(plan) for boards, plan in known.items()}
        for benchmark, plan in pairs:
            for spec in specs[plan.boards] if plan is not None else ():
                name = f"{benchmark.name}[{spec.name}]"
                yield BenchmarkItem.from_parent(
                    self, name=name, file=self, benchmark=benchmark, plan=plan, spec=spec
                )


def benchmark_path(config: pytest.Config) -> Path:
    """Return the project's file; raises a UsageError if it has no benchmark."""
    files = find_settings(config.rootpath, lambda text: None)
    own = [each for each in files if each.file != user_file() and BENCHMARK in each.content]
    if not own:
        raise UsageError("--bp-benchmarks needs a boardprof.toml with [[benchmark]].")
    return own[0].file


class BenchmarkItem(pytest.Item):
    """One benchmark on one board."""

    def __init__(
        self,
        *,
        file: BenchmarkFile,
        benchmark: Benchmark,
        plan: Plan,
        spec: BoardSpec,
        **facts: Any,
    ) -> None:
        """Measure nothing yet."""
        super().__init__(**facts)
        self._ours: Session = self.config.stash[SESSION]
        self._file = file
        self._benchmark = benchmark
        self._plan = plan
        self._spec = spec

    def runtest(self) -> None:
        """Measure, and check outputs, limits and rules."""
        place = contextlib.chdir(self._file.folder)
        with self._ours.skipping(), speaking_of_options(PREFIX), place:
            failures = self._failures()
        if failures:
            pytest.fail("\n".join(failures), pytrace=False)

    def _failures(self) -> list[str]:
        ours, plan, benchmark = self._ours, self._plan, self._benchmark
        listener = Listener(on_note=ours.note)
        data = plan.read_data([self._spec.name])
        plan = replace(plan, data=data, hotspots=ours.records(self._spec))
        alike = (plan.path, plan.code)
        others = [each for each in self._file.plans if (each.path, each.code) == alike]
        assert plan.path is not None, "the target has been checked"
        wanted = Wanted(
            self._spec.name,
            tuple(self._file.folder / path for path in plan.files),
            plan.code,
            make=lambda: firmware_of(self._spec, others[0], listener, others[1:]),
            is_of_benchmarks=True,
        )
        found, failures = [], []
        with ours.boards.board(wanted) as board:
            try:
                for name in chosen_functions(board, plan, None, listener.on_note):
                    found.append(measure(board, name, plan, listener)[0])
                    wrong = plan.data.take(found[-1])
                    failures += [f"{wrong}"] if wrong is not None else []
            except (BoardTimeoutError, DeviceError):
                ours.boards.forget(wanted)
                raise
        ours.measurements += found
        ours.sources |= dict.fromkeys(wanted.sources)
        ours.compiled |= dict.fromkeys(ours.boards.compiled.get(wanted, ()))
        limits, rules = benchmark.limits_on(self._spec.name), benchmark.rules
        gate = ours.gate(limits, (*ours.options.rules, *rules))
        verdict = gate.judge(assemble(found, swept=False))
        ours.verdicts.append(verdict)
        ours.notes += [f"{self.nodeid}: {note}" for note in verdict.notes]
        if verdict.failures and verdict.is_waiting and not failures:
            ours.waiting.append(self.name)
        return [*failures, *verdict.failures]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show our errors without a traceback, with the line of the benchmark."""
        if isinstance(excinfo.value, BoardprofError):
            return f"{self._benchmark.place}: {type(excinfo.value).__name__}: {excinfo.value}"
        return super().repr_failure(excinfo, style)
