# SPDX-License-Identifier: Apache-2.0
"""What a search begins and ends with: the baseline's output, and the winner built by itself."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from boardprof.base.connection import Connection
from boardprof.base.errors import MissingToolError, UsageError
from boardprof.base.metrics import metric_called
from boardprof.jobs.tune.candidate import FLASH, RAM, SHORT_NAMES, STACK, MeasureResult
from boardprof.jobs.tune.measuring import rounds_on
from boardprof.jobs.tune.runner import AnyRunner, Runner
from boardprof.jobs.tune.search import Choice, Space
from boardprof.measure.connect import open_firmware
from boardprof.measure.sampling.measure_function import Rounds
from boardprof.results.report.assemble import assemble, samples_of
from boardprof.results.report.report import Report
from boardprof.target.arguments.argument_text import ArgumentText
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.builder import build
from boardprof.target.build.firmware import flash
from boardprof.target.build.versions import VersionBuilder
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.toolchain.cache import FileHashes, digest

_DEFAULT_GOALS = ("cycles", "instructions", "time")
"""The first one that the board counts is minimised by default."""


@dataclass(frozen=True)
class Winner:
    """The best choice, built by itself; without costs if it cannot be measured."""

    command: str  # that measures it
    cost: float | None = None  # as the search measures it
    later_cost: float | None = None  # of the next call; the same as `cost` where samples differ
    is_first_call: bool = False
    report: Report | None = None


@dataclass(frozen=True)
class Subject:
    """The function that is tuned, and how it is measured."""

    spec: BoardSpec
    path: Path
    function: str
    values: Sequence[str]  # as they were given: NAME=VALUE
    arguments: Mapping[str, ArgumentText]
    options: BuildOptions
    limits: Mapping[str, Any]  # further arguments of `Runner`
    runner_kind: Callable[..., AnyRunner] = Runner
    can_start: bool = True  # the board can be started here, to measure the winner by itself

    def runner(self, metric: str, **options: Any) -> AnyRunner:
        """Return a runner for its candidates."""
        return self.runner_kind(
            self.spec,
            self.arguments,
            metric,
            function=self.function,
            sources=[self.path],
            options=self.options,
            **{**self.limits, **options},
        )

    def baseline(
        self,
        space: Space,
        goals: Sequence[str],
        expect: Mapping[str | None, npt.NDArray[Any]],
        tolerance: float,
    ) -> tuple[list[str], MeasureResult]:
        """Measure the first alternatives; return the goals, or their default, and the result."""
        candidate = space.candidate(space.baseline)
        for number, first in enumerate(goals[:1] or _DEFAULT_GOALS, 1):
            runner = self.runner(
                first, metrics=goals[1:], expect=expect, tolerance=tolerance, remember=False
            )
            try:
                [result] = runner.measure([candidate])
            except UsageError:
                if goals or number == len(_DEFAULT_GOALS):
                    raise
                continue
            if result.error is not None:
                raise result.error
            return [first, *goals[1:]], result
        raise AssertionError("the last default goal raises or returns")

    def chosen(self, choice: Choice) -> BuildOptions:
        """Return the options of a build with a choice."""
        options = Space.candidate(choice).options(self.options)
        return replace(options, cflags=options.cflags.strip())

    def _command(self, choice: Choice, exact: Rounds | None = None) -> str:
        """Return the command line that measures a choice as the search does."""
        # One more call may cost more, so an exact cost needs the same number of calls.
        port, baud = self.limits.get("port"), self.limits.get("baud")
        words = ["boardprof", "run", "-b", self.spec.name]
        words += ["-p", port, "--flash"] if port is not None else []
        words += ["--baud", str(baud)] if baud is not None else []
        words += [f"{self.path}:{self.function}", *self.values]
        words += _words(self.chosen(choice))
        for name, default in (("warmup", None), ("repeat", None), ("number", 1)):
            value = getattr(exact, name) if exact is not None else self.limits.get(name, default)
            words += [f"--{name}", str(value)] if value != default else []
        return shlex.join(words)

    def facts(self, space: Space, baseline: MeasureResult) -> dict[str, Any]:
        """Return what the costs of all choices depend on, as plain data for a study."""
        sampling = ("repeat", "number", "warmup")
        return {
            "board": self.spec.name,
            "target": f"{self.path}:{self.function}",
            "arguments": list(self.values),
            "options": shlex.join(_words(self.options)),
            **{name: self.limits.get(name) for name in sampling},
            "sources": self._sources_digest(space.baseline),
            "baseline_key": baseline.key,
        }

    def _sources_digest(self, choice: Choice) -> str:
        """Return a digest of the sources and their headers; without a compiler, of the sources."""
        extra = [Path(each) for each in self.options.sources if Path(each).suffix != ".a"]
        files: Sequence[Path] = [self.path, *extra]
        try:
            builder = VersionBuilder(self.spec, self.function, self.options)
            version = builder.compile(files, self.chosen(choice))
        except MissingToolError:  # the boards of a fleet are built for on other hosts
            pass
        else:
            files = version.headers
        hashes = FileHashes()
        return digest([hashes.of(file) for file in files])

    def winner(self, choice: Choice, metric: str) -> Winner:
        """Build a choice as its command does, and measure it if that is possible here."""
        if not self.can_start or metric in (FLASH, RAM, STACK):
            return Winner(self._command(choice))
        firmware = build(self.spec, [self.path], self.chosen(choice))
        port, limits = self.limits.get("port"), self.limits
        if port is not None:
            flash(self.spec, firmware.image, port)
        connection = Connection(
            port,
            limits.get("baud"),
            timeout_s=limits.get("timeout_s"),
            wall_timeout_s=limits.get("wall_timeout_s"),
        )
        with open_firmware(firmware, connection) as board:
            pointers = board.functions[self.function].signature.pointers
            named = {name: text.value(pointers.get(name)) for name, text in self.arguments.items()}
            is_exact = board.device.emulated
            rounds = rounds_on(
                board, limits.get("warmup"), limits.get("repeat"), limits.get("number", 1)
            )
            wanted = None if board.offer.find(metric) is None else [metric]
            measurement = board.measure(
                self.function,
                named=named,
                metrics=wanted,
                warmup=rounds.warmup,
                repeat=rounds.repeat + is_exact,
                number=rounds.number,
            )
        samples = samples_of(measurement)
        name = metric_called(SHORT_NAMES.get(metric, metric), samples)
        if name is None:
            return Winner(self._command(choice))
        cost = statistics.median(samples[name][: rounds.repeat])
        return Winner(
            self._command(choice, rounds if is_exact else None),
            cost,
            samples[name][-1] if is_exact else cost,
            is_exact and rounds == Rounds(warmup=0, repeat=1, number=1),
            assemble([measurement]),
        )


def _words(options: BuildOptions) -> list[str]:
    """Return the options of a command that builds so."""
    level = options.optimize.removeprefix("-O")
    words = [f"-O{level}"] if level != "2" else []
    for flag, each in (
        ("--source", options.sources),
        ("-I", options.includes),
        ("-D", options.defines),
        ("--no-inline", options.keep),
    ):
        words += [word for value in each for word in (flag, str(value))]
    words += [f"--cflags={options.cflags}"] if options.cflags else []
    words += [f"--ldflags={options.ldflags}"] if options.ldflags else []
    words += ["--libc", options.libc] if options.libc != "board" else []
    return words
