# SPDX-License-Identifier: Apache-2.0
"""The Report of several plans, what failed, and alternating sessions of what is compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property

from boardprof.base.errors import BoardprofError, BuildError, UsageError, WrongOutputError
from boardprof.base.progress import activity, shown_by
from boardprof.jobs.run.execution import Listener, of_benchmark, results
from boardprof.jobs.run.function_choice import Note
from boardprof.jobs.run.plan import ALL, Plan, WantedMetrics, boards_of, with_each_setting
from boardprof.results.report.assemble import assemble
from boardprof.results.report.calls import DURATION
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.report import Report
from boardprof.results.stats.groups import summaries
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.descriptions.board import BoardSpec


@dataclass(frozen=True)
class Outcome:
    """The result of a plan."""

    report: Report | None  # of all that could be measured; None if nothing could be
    failures: tuple[BoardprofError, ...]  # in the order of the attempts
    interrupted: bool = False  # by Ctrl-C; the Report has what was measured before


def run_plans(
    plans: Sequence[Plan],
    listener: Listener,
    is_chosen: Callable[[Plan], bool] = lambda plan: True,
    *,
    in_turns: bool = True,
) -> Outcome:
    """Measure several plans for one Report; those with the same files and flags share a start.

    ``in_turns``: take the samples that vary in several sessions, which alternate between rows.
    """
    # If a function, a board or a setting fails, the numbers of all others are kept, in any order.
    listener = replace(listener, on_note=once(listener.on_note))
    measurements: list[Measurement] = []
    found: list[_Failure] = []
    groups: dict[tuple[object, ...], tuple[BoardSpec, list[Plan]]] = {}
    wanted: list[WantedMetrics] = []
    names: dict[str, None] = {}
    known: dict[object, list[BoardSpec]] = {}  # to read a description takes milliseconds
    for plan in plans:
        try:
            key = plan.boards if plan.benchmark else id(plan)
            specs = known[key] = known.get(key) or boards_of(plan)
            # Report a mistake in these before anything is built.
            boards = [spec.name for spec in specs]
            data = plan.read_data(boards) if is_chosen(plan) else plan.data
            own = WantedMetrics(plan.metrics, len(specs))
            settings = with_each_setting(replace(plan, data=data, wanted=own))
        except BoardprofError as error:
            if len(plans) == 1:
                raise
            if is_chosen(plan):
                found.append(_Failure(of_benchmark(plan, error), [], None))
            continue
        wanted.append(own)
        names |= dict.fromkeys(boards)
        for spec, setting in itertools.product(specs, settings):
            place = (spec.folder, setting.path, setting.code)
            groups.setdefault(place, (spec, []))[1].append(setting)
    if len(names) > 1 and any(plan.energy is not None for plan in plans):
        raise UsageError(
            "--energy measures one board, but several boards were given.", hint="give one board"
        )
    interrupted = False
    taken: list[_Taken] = []
    try:
        counts = [len([*filter(is_chosen, group)]) for _, group in groups.values()]
        is_known = all(plan.function != ALL for _, group in groups.values() for plan in group)
        for index, (spec, group) in enumerate(groups.values()):
            if counts[index]:
                flags = None if group[0].sweep is None else group[0].code.cflags
                told = results(
                    spec,
                    group,
                    listener,
                    is_chosen=is_chosen,
                    place=(sum(counts[:index]), sum(counts)) if is_known else None,
                    on_measured=lambda *of, spec=spec: taken.append(_Taken(spec, *of)),
                )
                _take(told, spec.name, flags, measurements, found)
        sessions = _in_turns(taken, listener) if in_turns else {}
        measurements = [m for each in measurements for m in sessions.get(id(each), [each])]
    except KeyboardInterrupt:
        if not measurements:
            raise
        interrupted = True
    failures = [each.error for each in found]
    for metrics in wanted:
        failures = metrics.failures(failures, listener.on_note)
    for each in found:
        each.name_places([*names])
    missing, wrong = [], []
    for failure in failures:
        line = failure.message.partition("\n")[0]
        if isinstance(failure, WrongOutputError):
            wrong.append(line.removesuffix("."))
        else:
            missing.append(line.removesuffix(":"))
    missing += [text for metrics in wanted for text in metrics.left_out()]
    missing += ["the rest, after it was interrupted"] if interrupted else []
    report = None
    if measurements:
        places = {plan.benchmark: place for place, plan in enumerate(plans)}
        measurements.sort(key=lambda each: places.get(each.label or each.function, 0))
        if plans[0].case:  # what is compared has the same arguments
            calls = [*dict.fromkeys(each.arguments for each in measurements)]
            measurements.sort(key=lambda each: calls.index(each.arguments))
        # The flags of a benchmark are its own: its name tells its rows apart.
        swept = plans[0].sweep is not None or (False if plans[0].benchmark else None)
        report = assemble(
            measurements,
            swept=swept,
            missing=missing,
            wrong=wrong,
            alternatives=len({(plan.path, plan.function) for plan in plans if plan.case}) > 1,
        )
    return Outcome(report, tuple(failures), interrupted)


@dataclass(frozen=True)
class _Taken:
    """What a plan has measured."""

    spec: BoardSpec
    plan: Plan
    measurement: Measurement
    time_s: float
    firmware: BuiltFirmware | None

    @property
    def sessions(self) -> int:
        """How many sessions its samples can come from."""
        return min(SESSIONS, len(self.measurement.samples))

    @property
    def repeat(self) -> int:
        """How many samples each session takes."""
        return math.ceil(len(self.measurement.samples) / self.sessions)

    @cached_property
    def call_s(self) -> float:
        """About how long a call takes, by its own time if that was measured."""
        for group in summaries(assemble([self.measurement])):
            if group.metric == DURATION:
                return abs(float(group.summary.median)) / 1e6
        calls = self.measurement.warmup + len(self.measurement.samples) + _OTHER_CALLS
        return self.time_s / calls / self.measurement.number

    @property
    def in_all_s(self) -> float:
        """About how long the calls of all sessions take."""
        samples = self.repeat * self.measurement.number
        warmups = sum(map(self.warmup, range(self.sessions)))
        return self.call_s * (warmups + self.sessions * (samples + _OTHER_CALLS))

    def warmup(self, session: int) -> int:
        """Return the warm-up calls of a session: one if calls take long and the user gave none.

        Each further session has one more if calls are quick. If the cost depends on how many calls
        came before, the samples show it.
        """
        if self.call_s < _SLOW_S:
            return self.measurement.warmup + session
        return 1 if self.plan.warmup is None else self.measurement.warmup


_OTHER_CALLS = 2
"""One on painted stack, and one for the outputs."""

_SLOW_S = 0.01
"""Calls that take longer have seen all that a warm-up call can change."""

SESSIONS = 10
"""Sessions of each side if samples vary. If all ten pairs differ in one direction, p = 0.002."""

_MOST_S = {"listed": 20.0, "alone": 2.0}
"""What would take longer for each row is not measured again: its samples are spread over time."""

_MOST_ROWS = 100
"""The sessions of more rows would take half a minute."""


def _in_turns(taken: Sequence[_Taken], listener: Listener) -> dict[int, list[Measurement]]:
    """Measure what varies again, in sessions that alternate between rows; empty if not needed.

    Returns the measurements of all sessions by the identity of the one that they replace.

    On the clock of an operating system, ten samples are often taken within a millisecond. What
    varies from one millisecond to the next, and from start to start, then looks like a
    difference between two functions, or between two runs of one.
    """
    again = [
        each
        for each in taken
        if each.spec.clock.kind == "measured" and each.plan.connection.port is None
    ]
    plans = [each.plan for each in again]
    is_alone = len(again) == 1
    is_listed = any(plan.sweep is not None or plan.case for plan in plans)
    is_special = any(plan.cold or plan.hotspots or plan.energy or plan.benchmark for plan in plans)
    # What a kept array has after many calls is what its user wants to see.
    is_special = is_special or any(each.measurement.kept for each in again)
    is_few = max((each.sessions for each in again), default=1) == 1
    if not (is_alone or is_listed) or is_special or is_few or len(again) > _MOST_ROWS:
        return {}
    in_all_s = sum(each.in_all_s for each in again)
    if in_all_s > _MOST_S["alone" if is_alone else "listed"] * len(again):
        return {}
    what = "measuring in sessions" if is_alone else f"alternating between {len(again)} rows"
    quiet = replace(listener, on_console=None)  # the calls before have printed the same
    found: dict[int, list[Measurement]] = {index: [] for index in range(len(again))}
    steps = sum(each.sessions for each in again)
    with activity(what, steps) as done:
        for session in range(SESSIONS):
            places = [place for place, each in enumerate(again) if session < each.sessions]
            for place in places if session % 2 == 0 else reversed(places):
                try:
                    with shown_by(lambda what, done, total: None):
                        number = _number(again[place], again)
                        found[place] += _session(again[place], session, number, quiet)
                except BoardprofError as error:
                    line = error.message.partition("\n")[0]
                    listener.on_note(f"all samples are of one session: {line}")
                    return {}  # the samples from before are good
                done(sum(map(len, found.values())))
    return {id(each.measurement): found[place] for place, each in enumerate(again)}


def _number(taken: _Taken, others: Sequence[_Taken]) -> int:
    """Return how many calls a sample needs; as many as in those that it is compared with."""
    numbers = [
        each.measurement.number
        for each in others
        if each.spec is taken.spec and each.measurement.arguments == taken.measurement.arguments
    ]
    return max(numbers) if min(numbers) > 1 else taken.measurement.number


def _session(taken: _Taken, session: int, number: int, listener: Listener) -> list[Measurement]:
    """Take a part of the samples of what was measured before."""
    before, plan = taken.measurement, taken.plan
    target = f"{plan.path}:{before.function}" if plan.path else before.function
    again = replace(
        plan,
        target=target,
        number=number,
        warmup=taken.warmup(session),
        repeat=taken.repeat,
        data=replace(plan.data, expectations=(), folder=None),
    )
    found = results(taken.spec, [again], listener, firmware=taken.firmware)
    with closing(found):
        got = [*found]
    for each in got:
        if isinstance(each, BoardprofError):
            raise each
    return [each for each in got if isinstance(each, Measurement)]


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
        """Add to the error where it happened, if that is ambiguous."""
        # A mistake in the plan itself is one on all boards, so it names no board.
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


def _take(
    found: Generator[Measurement | BoardprofError, None, None],
    board: str,
    flags: str | None,
    measurements: list[Measurement],
    failures: list[_Failure],
) -> None:
    """Keep the results of one board and setting as they arrive, and an error that ends them."""
    now: list[BoardprofError] = []
    try:
        with closing(found):
            for result in found:
                if isinstance(result, Measurement):
                    measurements.append(result)
                elif not (
                    isinstance(result, UsageError) and _is_told(result, board, flags, failures)
                ):
                    now.append(result)
    except BoardprofError as error:
        if not _is_told(error, board, flags, failures):
            now.append(error)
    finally:
        failures += [_Failure(each, [board], flags) for each in now]


def _is_told(
    error: BoardprofError, board: str, flags: str | None, failures: Sequence[_Failure]
) -> bool:
    """Tell whether an error occurred before; a mistake in the plan does not depend on a setting."""
    told = next((each for each in failures if str(each.error) == str(error)), None)
    if told is None or (flags is not None and not isinstance(error, UsageError)):
        return False
    if board not in told.boards:
        told.boards.append(board)
    return True
