# SPDX-License-Identifier: Apache-2.0
"""Record the probes of a plan's board: while a function is called, or for a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from boardprof.base.errors import BoardprofError, StorageError, UsageError
from boardprof.base.progress import show_progress
from boardprof.jobs.run.execution import Listener, connected, firmware_of
from boardprof.jobs.run.function_choice import chosen_functions
from boardprof.jobs.run.plan import Plan, boards_of
from boardprof.measure.board.board import Board
from boardprof.measure.probe_recorder import ProbeRecorder
from boardprof.results.probes.figures import Interval, Intervals
from boardprof.results.probes.run import MOST_RECORDED, ProbeRun

if TYPE_CHECKING:
    from boardprof.target.build.firmware import BuiltFirmware

_AT_ONCE_S = 0.1
"""How long the stream is waited for, before progress is shown."""

_SPEED_S = 1.0
"""Time in which the speed of events is measured."""

_SILENCE_S = 2.0
"""After how long without events the board is asked whether it still records."""

_LOOK_S = 1.0
"""How often the trace clock is read, so that it does not wrap unnoticed."""


@dataclass(frozen=True)
class RecordingPlan:
    """What is recorded, and for how long."""

    mode: str = "drop"  # what happens to events that find no room
    events: bool = True
    statistics: bool = False  # let the board keep the statistics of ranges
    calls: int = 1  # of the function; 0 if there is no function to call
    time_s: float | None = None  # in wall time, if no function is called; None until Ctrl-C


@contextmanager
def board_of(plan: Plan, listener: Listener) -> Iterator[tuple[Board, BuiltFirmware | None]]:
    """Build, flash and connect the one board of a plan."""
    specs = boards_of(plan)
    if len(specs) != 1:
        names = ", ".join(spec.name for spec in specs)
        raise UsageError(f"Events are recorded on one board, not on {names}.", hint="-b BOARD")
    firmware = firmware_of(specs[0], plan, listener)
    with connected(specs[0], plan, firmware, listener) as board:
        yield board, firmware


def record_events(
    plan: Plan, wanted: RecordingPlan, listener: Listener
) -> tuple[ProbeRun, BoardprofError | None]:
    """Record a board's probes; Ctrl-C ends the time, and what was recorded is returned."""
    # The error is what has ended it; None if it ended as planned. It is raised if no event had
    # come.
    plan = replace(plan, data=plan.read_data())
    with board_of(plan, listener) as (board, firmware):
        names = chosen_functions(board, plan, firmware, listener.on_note) if wanted.calls else []
        if len(names) > 1:
            raise UsageError(
                f"One function is called while events are recorded, not {', '.join(names)}.",
                hint="FILE.c:FUNCTION",
            )
        recorder = board.tracing(
            events=wanted.events, statistics=wanted.statistics, mode=wanted.mode
        )
        try:
            with recorder:
                if names:
                    _call(plan, wanted, board, names[0], recorder)
                elif wanted.mode != "overwrite":
                    with suppress(KeyboardInterrupt):
                        _wait(wanted.time_s, recorder)
                return recorder.stop(), None
        except BoardprofError as error:
            recording = recorder.recording()
            if not recording.facts.time or not recording.content:
                raise
            return recording, error


def _call(
    plan: Plan,
    wanted: RecordingPlan,
    board: Board,
    name: str,
    recorder: ProbeRecorder,
) -> None:
    function = board.functions[name]
    show = _SpeedLine(recorder)
    values = plan.data.values(function, board.memory.size)
    for done in range(wanted.calls):
        function(**values)
        _check_size(recorder.read())
        show(done + 1, wanted.calls)


def _wait(time_s: float | None, recorder: ProbeRecorder) -> None:
    show = _SpeedLine(recorder)
    began_s = heard_s = time.monotonic()
    received = 0
    while True:
        now_s = time.monotonic()
        passed_s = now_s - began_s
        if time_s is not None and passed_s >= time_s:
            return
        before = received
        received = recorder.read(
            _AT_ONCE_S if time_s is None else min(_AT_ONCE_S, time_s - passed_s)
        )
        _check_size(received)
        if received != before:
            heard_s = now_s
        elif now_s - heard_s > _SILENCE_S:  # a line may not show that a board was reset
            recorder.check_board()
            heard_s = now_s
        whole = None if time_s is None else max(1, round(time_s))
        show(int(passed_s), whole)


def _check_size(received: int) -> None:
    if received >= MOST_RECORDED:
        raise StorageError(
            f"The recording has {received:,} bytes, and a larger file could not be read.",
            hint="record for a shorter time, or only the statistics of ranges (--statistics "
            "--no-events)",
        )


class _SpeedLine:
    """Shows how fast events come, and how many were dropped."""

    def __init__(self, recorder: ProbeRecorder) -> None:
        """Show nothing yet."""
        self._recorder = recorder
        self._looked_s = time.monotonic()
        self._records = 0
        self._speed = ""

    def __call__(self, done: int, total: int | None) -> None:
        """Show that ``done`` of ``total`` seconds or calls are over."""
        words, dropped = self._recorder.progress
        now_s = time.monotonic()
        if now_s - self._looked_s >= _SPEED_S:
            records = self._recorder.records
            per_second = (records - self._records) / (now_s - self._looked_s)
            self._speed = f"{per_second:,.0f} events/s, "
            self._looked_s, self._records = now_s, records
        lost = f"{dropped:,} events dropped, " if dropped else ""  # first: a narrow line ends early
        what = f"recording; {lost}{self._speed}{words * 4:,} bytes"
        show_progress(what, done, total)


def intervals(
    board: Board, interval_s: float, count: int | None, *, events: bool
) -> Iterator[Interval]:
    """Yield what probes record in each interval of wall time, without end if ``count`` is None."""
    number = 0
    with board.tracing(events=events, statistics=True) as recorder:
        made = Intervals(recorder.began)
        while count is None or number < count:
            deadline_s = time.monotonic() + interval_s
            while (left_s := deadline_s - time.monotonic()) > 0:
                recorder.read(min(left_s, _LOOK_S))
                made.look(recorder.now)
            before, recording = recorder.now, recorder.take()
            yield made.next(recording, before, recorder.now)
            number += 1
