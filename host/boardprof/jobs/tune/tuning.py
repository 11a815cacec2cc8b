# SPDX-License-Identifier: Apache-2.0
"""A function that is tuned: its baseline, its winner, and the search as tables, JSON and a page."""

from __future__ import annotations

import html
import shlex
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from boardprof.base.connection import Connection
from boardprof.base.errors import MissingToolError, UsageError
from boardprof.base.metrics import Count, metric_called
from boardprof.jobs.run.execution import Listener, firmware_of
from boardprof.jobs.run.plan import Plan
from boardprof.jobs.tune.candidate import (
    FLASH,
    RAM,
    SHORT_NAMES,
    STACK,
    MeasureError,
    MeasureResult,
)
from boardprof.jobs.tune.measuring import rounds_on
from boardprof.jobs.tune.runner import AnyRunner, Runner
from boardprof.jobs.tune.search import FLAGS, Choice, Search, Space, Trial
from boardprof.measure.connect import open_firmware
from boardprof.measure.sampling.available_metrics import asks_core_cycles
from boardprof.measure.sampling.measure_function import Rounds
from boardprof.results.report.assemble import assemble, samples_of
from boardprof.results.report.profile import CORE_CYCLES
from boardprof.results.report.report import Report
from boardprof.results.row_origins import profiles_of
from boardprof.show.cells import number_text
from boardprof.show.html import asset, filled_page, isolated, tables_html
from boardprof.show.layout import Column, Page, Table
from boardprof.show.profile_tables import modelled_text
from boardprof.target.arguments.argument_text import ArgumentText
from boardprof.target.build.build_options import BuildOptions
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

    def _command(self, choice: Choice, metric: str, exact: Rounds | None = None) -> str:
        """Return the command line that measures a choice as the search does."""
        # One more call may cost more, so an exact cost needs the same number of calls.
        port, baud = self.limits.get("port"), self.limits.get("baud")
        words = ["boardprof", "run", "-b", self.spec.name]
        words += ["-p", port, "--flash"] if port is not None else []
        words += ["--baud", str(baud)] if baud is not None else []
        words += [f"{self.path}:{self.function}", *self.values]
        words += _words(self.chosen(choice))
        words += ["--metrics", CORE_CYCLES] if asks_core_cycles(metric) else []
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
            return Winner(self._command(choice, metric))
        port, limits = self.limits.get("port"), self.limits
        connection = Connection(
            port,
            limits.get("baud"),
            timeout_s=limits.get("timeout_s"),
            wall_timeout_s=limits.get("wall_timeout_s"),
        )
        target, code = f"{self.path}:{self.function}", self.chosen(choice)
        plan = Plan(
            target, tuple(self.values), connection=connection, code=code, flash=port is not None
        )
        firmware = firmware_of(self.spec, plan, Listener(on_note=lambda text: None))
        assert firmware is not None
        with open_firmware(firmware, connection) as board:
            pointers = board.functions[self.function].signature.pointers
            named = {name: text.value(pointers.get(name)) for name, text in self.arguments.items()}
            is_exact = board.device.emulated
            rounds = rounds_on(
                board, limits.get("warmup"), limits.get("repeat"), limits.get("number", 1)
            )
            is_beside = not asks_core_cycles(metric) and board.offer.find(metric) is None
            wanted = None if is_beside else [metric]
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
            return Winner(self._command(choice, metric))
        cost = statistics.median(samples[name][: rounds.repeat])
        return Winner(
            self._command(choice, metric, rounds if is_exact else None),
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


# -- as text -----------------------------------------------------------------------------------

_MOST_ROWS = 5
_WIDTH, _HEIGHT, _MARGIN = 900, 240, 70
_RADIUS = 3

_FAILURES = {
    MeasureError.INSTANTIATION_ERROR: "are not valid",
    MeasureError.COMPILE_DEVICE: "do not compile or link",
    MeasureError.RUNTIME_DEVICE: "trapped or ended the board",
    MeasureError.WRONG_ANSWER: "have a wrong output",
    MeasureError.RUN_TIMEOUT: "did not end in time",
    MeasureError.UNKNOWN_ERROR: "failed in another way",
    MeasureError.OVER_LIMIT: "are above a limit",
}


def tuning_page(search: Search, winner: Winner | None = None) -> Page:
    """Return a search's result as tables and lines."""
    best, goal = search.best, search.goals[0]
    lines: list[Table | str] = []
    if best is None:
        lines.append("No candidate has a right output within the limits.")
    else:
        first = next((each for each in search.trials if each.choice == search.space.baseline), None)
        lines.append(_gain(goal, best, first))
        leading = sorted((t for t in search.trials if t.ok), key=lambda t: t.metrics[goal])
        lines += ["", trial_table(search, leading[:_MOST_ROWS], first)]
        if len(search.goals) > 1:
            lines += ["", f"Not beaten in all of {', '.join(search.goals)}:"]
            lines += [trial_table(search, search.pareto)]
    importance = search.importance()
    if importance:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in importance.items())
        lines += ["", f"Importance for {goal}: {shares}"]
    lines += [
        f"{name} changes nothing: all its values compile to the same code. Does the source use it?"
        for name in search.unused
    ]
    failed = Counter(each.error_no for each in search.trials if not each.ok)
    for error_no, count in sorted(failed.items()):
        example = next(each for each in search.trials if each.error_no is error_no)
        what = _FAILURES.get(error_no, "failed")
        lines.append(f"{count} of {len(search.trials)} {what}, such as: {example.error}")
    earlier = sum(each.is_from_history for each in search.trials)
    if earlier:
        lines.append(
            f"{earlier} of {len(search.trials)} results are from the history. "
            "BOARDPROF_HISTORY=off measures them again."
        )
    if winner is not None:
        lines += ["", "Measure the best one by itself:", f"  {winner.command}"]
        if winner.cost is not None and best is not None:
            lines += _costs_by_itself(goal, winner, best.metrics[goal])
        if asks_core_cycles(goal) and winner.report is not None:
            found = [each.profile for each in profiles_of(winner.report)]
            lines += [f"{modelled_text(each)}, modelled {each.modelled}." for each in found]
    return lines


def _gain(goal: str, best: Trial, first: Trial | None) -> str:
    text = f"Best {goal}: {number(best.metrics[goal])}"
    if first is None or not first.ok or first is best or not best.metrics[goal]:
        return text
    before = first.metrics[goal]
    return f"{text}, {before / best.metrics[goal]:.2f} times less than {number(before)}"


def _costs_by_itself(goal: str, winner: Winner, cost: float) -> Iterator[str]:
    """Yield what the winner costs by itself, and later; ``cost`` is that of the search."""
    if winner.cost == cost:
        yield f"By itself it takes {number(winner.cost)} {goal}, too."
    else:
        yield (
            f"By itself it takes {number(winner.cost)} {goal}. The difference comes from where the "
            "code is placed in the image, or from noise."
        )
    if winner.later_cost not in (None, winner.cost):
        later = number(winner.later_cost)
        yield (
            f"That is its first call. The next one takes {later}. To tune it, add --warmup 1."
            if winner.is_first_call
            else f"The next calls take {later}: the cost depends on earlier calls."
        )


def trial_table(search: Search, trials: Sequence[Trial], first: Trial | None = None) -> Table:
    """Return trials as a table; ``first`` is the baseline, as a last row."""
    rows = [*trials]
    names = [f"#{each.number}" for each in rows]
    if first is not None and first.ok and first not in rows:
        rows.append(first)
        names.append(f"#{first.number} baseline")
    sizes = [n for n in (FLASH, RAM, STACK) if any(each.metrics.get(n) for each in rows)]
    metrics = list(dict.fromkeys([*search.goals, *sizes]))
    return Table(
        [
            Column("Trial", names, is_text=True),
            *(Column(name, [number(each.metrics.get(name)) for each in rows]) for name in metrics),
            *(
                Column(name, [each.choice[name] for each in rows], is_text=name == FLAGS)
                for name in search.space.alternatives
            ),
        ]
    )


def number(value: float | None) -> str:
    """Return a value as `boardprof run` shows it; "" if there is none."""
    return number_text(value, Count)


def tuning_facts(search: Search, subject: dict[str, Any], winner: Winner | None) -> dict[str, Any]:
    """Return a search as plain data for JSON; ``subject`` is what it was about."""
    return {
        **subject,
        "goals": list(search.goals),
        "alternatives": {name: list(each) for name, each in search.space.alternatives.items()},
        "best": None if search.best is None else search.best.number,
        "pareto": [each.number for each in search.pareto],
        "importance": search.importance(),
        "command": None if winner is None else winner.command,
        "cost_by_itself": None if winner is None else winner.cost,
        "later_cost_by_itself": None if winner is None else winner.later_cost,
        "trials": [{**asdict(each), "error_no": int(each.error_no)} for each in search.trials],
    }


# -- page --------------------------------------------------------------------------------------


def render_tuning(search: Search, title: str, facts: str, winner: Winner | None = None) -> str:
    """Return a search as an HTML page; ``facts`` is a line on how."""
    every = [trial_table(search, [each for each in search.trials if each.ok])]
    failed = [each for each in search.trials if not each.ok]
    errors = Table(
        [
            Column("Trial", [f"#{each.number}" for each in failed], is_text=True),
            *(
                Column(name, [each.choice[name] for each in failed], is_text=True)
                for name in search.space.alternatives
            ),
            Column("Error", [each.error for each in failed], is_text=True),
        ]
    )
    return filled_page(
        "tuning.html",
        asset("page.css") + asset("tuning.css"),
        title=html.escape(f"{title} \N{MIDDLE DOT} boardprof tune"),
        heading=isolated(title),
        facts=isolated(facts),
        result=tables_html(tuning_page(search, winner)),
        history=_history(search),
        trials=tables_html(every) if every[0].columns[0].cells else "",
        failed=f"<section>\n<h2>Failed</h2>\n{tables_html([errors])}\n</section>" if failed else "",
    )


def _history(search: Search) -> str:
    """Return a drawing of the first goal over the trials, with the best so far as a line."""
    goal = search.goals[0]
    good = [each for each in search.trials if each.ok]
    if not good:
        return ""
    values = [each.metrics[goal] for each in good]
    low, high = min(values), max(values)
    span, last = (high - low) or 1.0, max(1, search.trials[-1].number)

    def place(trial: int, value: float) -> tuple[float, float]:
        x = _MARGIN + (_WIDTH - _MARGIN - 10) * trial / last
        return round(x, 1), round(10 + (_HEIGHT - 40) * (high - value) / span, 1)

    best = float("inf")
    steps: list[str] = []
    dots = []
    for each, value in zip(good, values, strict=True):
        x, y = place(each.number, value)
        label = html.escape(f"#{each.number}: {number(value)}")
        dots.append(f'<circle cx="{x}" cy="{y}" r="{_RADIUS}"><title>{label}</title></circle>')
        if value < best:
            steps.append(f"{'H' if steps else 'M'}{x}" + (f"V{y}" if steps else f" {y}"))
            best = value
    steps.append(f"H{_WIDTH - 10}")
    ticks = "".join(
        f'<text x="{_MARGIN - 8}" y="{place(0, value)[1] + 4}">{number(value)}</text>'
        for value in dict.fromkeys((high, low))
    )
    text = html.escape(f"{goal} of each trial; the line is the best so far")
    return (
        f'<svg class="trials" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text}">'
        f'<path d="{"".join(steps)}"/>{"".join(dots)}{ticks}'
        f'<text class="end" x="{_WIDTH - 10}" y="{_HEIGHT - 6}">trial {last}</text></svg>'
    )
