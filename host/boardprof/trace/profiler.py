# SPDX-License-Identifier: Apache-2.0
"""Profiles what a program of the host does with boards, step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from boardprof.errors import UsageError
from boardprof.trace.configuration import Configuration
from boardprof.trace.events import make_trace
from boardprof.trace.flops import flops_of
from boardprof.trace.ranges import record_function
from boardprof.trace.recorder import Recorded, Recorder
from boardprof.trace.records import Record
from boardprof.trace.results import Results
from boardprof.trace.schedule import ProfilerAction, ProfilerActivity, Schedule, always
from boardprof.trace.transitions import Act, acts_between
from boardprof.trace.user_warning import warn_user

__all__ = ["profile"]


class profile(Results):
    """Records the calls of packed functions that the host makes of any board.

    ::

        with boardprof.profile(record_shapes=True) as prof:
            board.functions.fir(x, h)
        print(prof.key_averages().table(sort_by="cpu_time_total"))

    `Board.profile` is one event, ``profile(fir)``, which stands for the calls in its samples. What
    the host measures sample by sample, as `Program.profile`, `time_evaluator`, and
    `profile_function` with collectors of the host do, is an event a sample, with those of
    ``metrics`` that it counts itself. A call that the host refuses, such as one of wrong arguments,
    is no event; one that fails is, with its error.

    The host's times are those of the whole call: arrays to the board and back, the link's exchange,
    and with ``metrics`` what counting takes. Where a board's clock is a real one, its samples and
    windows (of `Board.profile` and ``metrics``) stand on the host's time, too.

    Attributes:
        step_num: the step under way, counted from 0 on.
        current_action: what is done in it.
    """

    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Schedule | None = None,
        on_trace_ready: Callable[[profile], object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Mapping[str, object] | None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        metrics: str | Iterable[str] | None = None,
    ) -> None:
        """Say what is recorded; nothing is yet.

        Args:
            activities: the host's, those of boards, or both, which None is.
            schedule: from a step's number to what is done in it, such as `schedule` returns. None:
                all is recorded, and the trace is ready at the end.
            on_trace_ready: called with this profile when a trace is ready.
            record_shapes: keep the shapes and values of arguments.
            profile_memory: no agent can, yet.
            with_stack: likewise.
            with_flops: count operations by the formulas of `register_flops`.
            with_modules: traces name the ranges that each event stands in.
            experimental_config: ``{"metrics": [...]}``, as the argument of that name.
            acc_events: keep the events of earlier cycles beside those of later ones.
            custom_trace_id_callback: returns the name of a trace that is about to begin.
            metrics: what is counted of each call, names as `Board.profile` takes them: the call
                alone, as there. ``"duration"`` is its time, by whatever clock the board has. None:
                nothing, since counting makes calls slower for the host. Within another profile that
                counts, and where the agent returns no result of what it measures, it is a window of
                the host's, with the agent's work and its waiting for the line in it. Tables mark
                these. A board that lacks one counts the others, and `diagnostics` says why; a
                warning at the end tells of what no board has that was called.

        Raises:
            UsageError: no activity, an unknown setting, metrics without boards, or what is to be
                called cannot be.
            NotSupportedByAgentError: it would have to be recorded on the board.
        """
        wanted = Configuration(
            activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            metrics=metrics,
        )
        for name, function in (
            ("schedule", schedule),
            ("on_trace_ready", on_trace_ready),
            ("custom_trace_id_callback", custom_trace_id_callback),
        ):
            if function is not None and not callable(function):
                raise UsageError(f"{name}={function!r:.60} cannot be called.")
        super().__init__(wanted)
        self._schedule = always if schedule is None else schedule
        self._marks_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self._accumulates = acc_events
        self._make_trace_id = custom_trace_id_callback
        self._recorder: Recorder | None = None
        self._step: record_function | None = None
        self._handler_error: Exception | None = None
        self.step_num = 0
        self.current_action = self._action()

    @property
    def profiler(self) -> Self:
        """Itself: in torch, what has the events and averages is an object of its own."""
        return self

    # -- steps ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with the step under way.

        Raises:
            UsageError: it has begun already.
        """
        if self._is_running:
            raise UsageError("This profile runs already.", hint="stop() it first")
        self._is_running = True
        self._go(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def step(self) -> None:
        """End the step under way and begin the next one, also where ``on_trace_ready`` raises.

        Raises:
            UsageError: the profile does not run.
        """
        if not self._is_running:
            raise UsageError("step() of a profile that does not run.", hint="start() it before")
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        try:
            self._go(before, self.current_action)
        finally:
            self._begin_step()

    def stop(self) -> None:
        """End the step under way, and with it the trace; nothing if the profile does not run."""
        if self._is_running:
            self._end_step()
            self._is_running = False
            self._go(self.current_action, None)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop; what was recorded before an error is there as well."""
        self.stop()

    def _action(self) -> ProfilerAction:
        action = self._schedule(self.step_num)
        if not isinstance(action, ProfilerAction):
            raise UsageError(
                f"The schedule gave {action!r:.60} for step {self.step_num}, no ProfilerAction."
            )
        return action

    def _begin_step(self) -> None:
        if self._marks_steps and self._recorder is not None:
            self._step = record_function(f"ProfilerStep#{self.step_num}", kind="step")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _go(self, before: ProfilerAction, now: ProfilerAction | None) -> None:
        """Do what lies between two steps, and then raise what a handler has raised.

        After any other error nothing is recorded.
        """
        self._handler_error = None
        doing: dict[Act, Callable[[], None]] = {
            Act.PREPARE: self._prepare,
            Act.START: self._start_trace,
            Act.STOP: self._stop_trace,
            Act.DROP: self._drop_trace,
            Act.READY: self._tell,
            Act.WARN: lambda: _warn(before, now),
        }
        try:
            for act in acts_between(before, now):
                doing[act]()
        except BaseException:
            self._is_running = False
            self._drop_trace()
            raise
        if self._handler_error is not None:
            raise self._handler_error

    def _prepare(self) -> None:
        if self._make_trace_id is not None:
            self._trace_id = self._make_trace_id()
        self._recorder = Recorder(self._wanted.wanted)

    def _start_trace(self) -> None:
        assert self._recorder is not None
        self._recorder.keep()

    def _stop_trace(self) -> None:
        assert self._recorder is not None
        recorder, self._recorder = self._recorder, None
        recorded = recorder.finish()
        failed: dict[str, str] = {}
        trace = make_trace(recorded, functools.partial(self._flops, failed))
        trace = replace(trace, diagnostics=(*trace.diagnostics, *failed.values()))
        is_more = self._accumulates and self._trace is not None
        self._trace = self._trace.and_then(trace) if is_more and self._trace else trace
        for text in failed.values():
            warn_user(text)
        if recorded.unknown:
            warn_user(_uncounted(recorded))

    def _drop_trace(self) -> None:
        if self._recorder is not None:
            self._recorder.drop()
            self._recorder = None

    def _tell(self) -> None:
        if self.on_trace_ready is not None:
            try:
                self.on_trace_ready(self)
            except Exception as error:  # whatever a user's handler raises; the profile goes on
                self._handler_error = error

    def _flops(self, failed: dict[str, str], record: Record) -> int | None:
        """Return the operations of one call; what fails is noted once for each function."""
        if not self._wanted.with_flops or not record.board or record.shapes is None:
            return None
        try:
            return flops_of(record.name, record.dims, record.values)
        except UsageError as error:  # of a formula; what was recorded is worth more
            failed.setdefault(record.name, str(error))
            return None


def _uncounted(recorded: Recorded) -> str:
    whys = [
        f"{board}: {why}" for (board, n), why in recorded.lacking.items() if n in recorded.unknown
    ]
    return (
        f"No board that was called counts {', '.join(recorded.unknown)} ({'; '.join(whys)}); "
        "`boardprof metrics` lists what one counts."
    )


def _warn(before: ProfilerAction, now: ProfilerAction | None) -> None:
    after = "the end" if now is None else now.name
    warn_user(
        f"The schedule went from {before.name} to {after}, so that the cycle is thrown away: a "
        "cycle ends with RECORD_AND_SAVE."
    )
