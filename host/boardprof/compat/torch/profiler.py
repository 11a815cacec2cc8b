# SPDX-License-Identifier: Apache-2.0
"""Profiling of a host program's use of boards, step by step, and its events, averages and files."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from boardprof.base.errors import UsageError, warn_user
from boardprof.compat.torch.export import (
    RESERVED_KEYS,
    TRACE_ID,
    chrome_trace_text,
    memory_changes,
    page_text,
    raw_text,
    sizes_text,
    stacks_text,
    write_text,
)
from boardprof.compat.torch.flops import flops_of
from boardprof.compat.torch.host_events import HostEvent, record_function
from boardprof.compat.torch.host_trace import HostTrace, make_trace
from boardprof.compat.torch.recorder import Recorder
from boardprof.compat.torch.settings import (
    ProfilerAction,
    ProfilerActivity,
    Schedule,
    Settings,
    always,
    chosen_activities,
    chosen_metrics,
    chosen_ranges,
)
from boardprof.compat.torch.table import EventAverages, EventList


class profile:
    """Record the host's calls of packed functions on any board.

    ::

        with boardprof.profile(record_shapes=True) as prof:
            board.functions.fir(x, h)
        print(prof.key_averages().table(sort_by="cpu_time_total"))

    `Board.profile` is one event, ``profile(fir)``, which stands for the calls in its samples.
    `Program.profile`, `time_evaluator`, and `profile_function` with host collectors measure sample
    by sample. There each sample is an event, with those of ``metrics`` that it counts itself. A
    call that the host refuses, such as one with wrong arguments, is not an event. A call that fails
    is an event with its error.

    The host's times cover the whole call: arrays to the board and back, the link's exchange, and
    the cost of counting ``metrics``. If a board's clock is real, its samples and windows (of
    `Board.profile` and ``metrics``) are also placed on the host's time.

    Attributes:
        step_num: the current step, counted from 0.
        current_action: the action of the current step.
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
        metrics: str | Iterable[str] | Mapping[str, Iterable[str]] | None = None,
        *,
        mask_interrupts: bool = False,
    ) -> None:
        """Set what will be recorded; nothing is recorded yet.

        Args:
            activities: of the host, of boards, or both; None for both.
            schedule: function from a step's number to its action, such as `schedule` returns. If
                None, everything is recorded and the trace is ready at the end.
            on_trace_ready: called with this profile when a trace is ready.
            record_shapes: keep the shapes and values of arguments.
            profile_memory: record the memory that boards take and give back during each call, as
                their malloc and free (``build(..., heap=True)``) or BP_ALLOC and BP_FREE tell it;
                see `export_memory_timeline`. If the firmware of
                a board has no probes, its first call raises NotSupportedByAgentError. Recording
                begins before each call and ends after it, which takes several exchanges.
            with_stack: record file and line of each called function, and which functions run
                within each call, and what they cost; see `Board.hotspots`. Averages then have a row
                for each of them, and `export_stacks` goes on into the call. Each call is made once
                more, on an emulator of its own, before it is made; calls of one function with equal
                arguments share a recording. If both calls did other work, by their counts, the call
                has no functions, and `diagnostics` has the counts. The host's times of ranges
                around a call include that. Emulated boards can, and this machine by callgrind; for
                others `diagnostics` gives the reason. With ``profile_memory``, the memory of
                any board also has file and line where it was taken; see `FunctionEvent.memory`.
            with_flops: count operations by the formulas of `register_flops`.
            with_modules: traces name the ranges around each event.
            experimental_config: ``{"metrics": [...]}``, as the argument of that name, or with
                the counters of each board: ``{"metrics": {"native": ["duration"], ...}}``.
                ``{"device_ranges": True}`` makes events of the ranges on boards (BP_RANGE_BEGIN)
                within each call, and shows their marks. It records as ``profile_memory`` does. A
                dict, such as ``{"device_ranges": {"qemu-rv32": True}}``, sets it by board.
            acc_events: keep the events of earlier cycles together with later ones.
            custom_trace_id_callback: called before a trace begins; returns its name.
            metrics: counters of each call, by the names that `Board.profile` takes; they cover the
                call alone, as there. ``"duration"`` is its time by the board's clock. None counts
                nothing, since counting makes calls slower for the host. Within another profile that
                counts, and if the agent does not return results of what it measures, the host opens
                a window around the call. Its counts include the agent's work and its wait for the
                link, and tables mark them. A board that lacks a counter counts the others, and
                `diagnostics` gives the reason. A warning at the end names metrics that no called
                board has. A dict has the counters of each board, by its name.
            mask_interrupts: mask interrupts on the board while it counts ``metrics`` of a call. In
                a window of the host they still run, and the event's ``args`` say so. If a board
                cannot mask, or only after a call with interrupts on, its first call raises
                UsageError.

        Raises:
            UsageError: no activity, an unknown setting or board, metrics without boards, masked
                interrupts without metrics, or a callback that cannot be called.
        """
        chosen = chosen_activities(activities)
        names = chosen_metrics(experimental_config, metrics, chosen)
        settings = Settings(
            chosen,
            record_shapes,
            profile_memory,
            with_stack,
            with_flops,
            with_modules,
            names,
            mask_interrupts,
            chosen_ranges(experimental_config),
        )
        for name, function in (
            ("schedule", schedule),
            ("on_trace_ready", on_trace_ready),
            ("custom_trace_id_callback", custom_trace_id_callback),
        ):
            if function is not None and not callable(function):
                raise UsageError(f"{name}={function!r:.60} cannot be called.")
        self._settings = settings
        self._metadata: dict[str, object] = {}
        self._trace_id = ""
        self._trace: HostTrace | None = None
        self._is_running = False
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
        """The profile itself; in torch, events and averages are on a separate object."""
        return self

    # -- steps ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start recording with the current step.

        Raises:
            UsageError: it has begun already.
        """
        if self._is_running:
            raise UsageError("This profile is already running.", hint="call stop() first")
        self._is_running = True
        self._go(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def step(self) -> None:
        """End the current step and begin the next one, even if ``on_trace_ready`` raises.

        Raises:
            UsageError: the profile is not running.
        """
        if not self._is_running:
            raise UsageError(
                "step() was called on a profile that is not running.", hint="call start() first"
            )
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        try:
            self._go(before, self.current_action)
        finally:
            self._begin_step()

    def stop(self) -> None:
        """End the current step and the trace; do nothing if the profile is not running."""
        if self._is_running:
            self._end_step()
            self._is_running = False
            self._go(self.current_action, None)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; events recorded before an error are kept."""
        self.stop()

    def _action(self) -> ProfilerAction:
        action = self._schedule(self.step_num)
        if not isinstance(action, ProfilerAction):
            raise UsageError(
                f"The schedule gave {action!r:.60} for step {self.step_num}, which is not a "
                "ProfilerAction."
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
        """Do what is due between two steps, and then raise any error of a handler."""
        # After any other error nothing is recorded. ``now`` is None if the profile ends.
        self._handler_error = None
        try:
            self._end_recording(before, now)
            if now is not None and now is not ProfilerAction.NONE:
                self._continue_recording(now)
        except BaseException:
            self._is_running = False
            self._drop_trace()
            raise
        if self._handler_error is not None:
            raise self._handler_error

    def _end_recording(self, before: ProfilerAction, now: ProfilerAction | None) -> None:
        """Deliver the trace, or discard it, if the cycle is over."""
        records = before is ProfilerAction.RECORD
        if before is ProfilerAction.RECORD_AND_SAVE or (records and now is None):
            self._stop_trace()
            self._call_handler()
        elif now in (None, ProfilerAction.NONE) or (records and now is ProfilerAction.WARMUP):
            if now is not None and before is not ProfilerAction.NONE:
                warn_user(
                    f"The schedule went from {before.name} to {now.name}, so the cycle is "
                    "discarded: a cycle must end with RECORD_AND_SAVE."
                )
            self._drop_trace()

    def _continue_recording(self, now: ProfilerAction) -> None:
        if self._recorder is None:
            if self._make_trace_id is not None:
                self._trace_id = self._make_trace_id()
            self._recorder = Recorder(self._settings)
        if now is not ProfilerAction.WARMUP and not self._recorder.keeps:
            self._recorder.keep()

    def _stop_trace(self) -> None:
        assert self._recorder is not None
        recorder, self._recorder = self._recorder, None
        recorder.finish()
        failed: dict[str, str] = {}
        trace = make_trace(recorder, functools.partial(self._flops, failed))
        trace = replace(trace, diagnostics=(*trace.diagnostics, *failed.values()))
        if self._accumulates and self._trace is not None:
            trace = self._trace.and_then(trace)
        self._trace = trace
        for text in failed.values():
            warn_user(text)
        if recorder.unknown:
            warn_user(_uncounted(recorder))
        if recorder.uncalled:
            names = ", ".join(recorder.uncalled)
            warn_user(f"Settings are named for {names}, but no board of that name was called.")

    def _drop_trace(self) -> None:
        if self._recorder is not None:
            self._recorder.drop()
            self._recorder = None

    def _call_handler(self) -> None:
        if self.on_trace_ready is not None:
            try:
                self.on_trace_ready(self)
            except Exception as error:  # any error of a user's handler; the profile goes on
                self._handler_error = error

    def _flops(self, failed: dict[str, str], record: HostEvent) -> int | None:
        """Return the operations of one call; failures are noted once for each function."""
        if not self._settings.with_flops or not record.board or record.input_shapes is None:
            return None
        try:
            return flops_of(record.name, record.dims, record.values)
        except UsageError as error:  # an error of a formula must not lose the recording
            failed.setdefault(record.name, str(error))
            return None

    # -- results --------------------------------------------------------------------------------

    def events(self) -> EventList:
        """Return the events of the last trace, or of all traces with ``acc_events``.

        Raises:
            UsageError: no trace is ready.
        """
        return EventList(self._ready.events, has_shapes=self._settings.record_shapes)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventAverages:
        """Return the events averaged by name.

        Args:
            group_by_input_shape: also group by the shapes and values of arguments.
            group_by_stack_n: also group by this many of the ranges around them, innermost first.

        Raises:
            UsageError: no trace is ready, shapes were not recorded, or the number is negative.
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """Notes on the last trace: what is missing, and why."""
        return self._ready.diagnostics

    @property
    def _ready(self) -> HostTrace:
        if self._trace is None:
            raise UsageError(
                "No trace is ready.",
                hint="ask in on_trace_ready, or after stop(); the schedule must have recorded",
            )
        return self._trace

    def get_trace_id(self) -> str:
        """Return the name that ``custom_trace_id_callback`` gave the last trace, else ""."""
        return self._trace_id

    def add_metadata(self, key: str, value: str) -> None:
        """Add a string to the metadata of exported traces.

        Raises:
            UsageError: it is not a string, or the trace already has this key.
        """
        if not isinstance(value, str):
            raise UsageError(
                f"The metadata {key!r:.60} is not a string: {value!r:.60}.",
                hint="add_metadata_json",
            )
        self._put(key, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add JSON to the metadata of exported traces.

        Raises:
            UsageError: the value is not JSON, or the trace already has this key.
        """
        try:
            found = json.loads(value)
            json.dumps(found, allow_nan=False)  # json.loads takes NaN and 1e999, JSON has neither
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"The metadata {key!r} is not JSON: {error}.", hint="add_metadata takes a text"
            ) from error
        self._put(key, found)

    def _put(self, key: str, value: object) -> None:
        if not isinstance(key, str):
            raise UsageError(f"{key!r:.60} is not a key of metadata: it must be a string.")
        if key in RESERVED_KEYS:
            raise UsageError(
                f"{key!r} cannot be a key of metadata: the trace already has it.",
                hint=f"another name, such as {'my_' + key!r}",
            )
        self._metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Do the same as `add_metadata_json` before the profile starts.

        Raises:
            UsageError: the profile is already running, or the value is not JSON.
        """
        if self._is_running:
            raise UsageError("preset_metadata_json comes before start().", hint="add_metadata_json")
        self.add_metadata_json(key, value)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last trace in the format of Perfetto and chrome://tracing.

        Args:
            path: of the file; compressed if it ends in ``.gz``.

        Raises:
            UsageError: no trace is ready, or the file cannot be written.
        """
        metadata = {**self._settings.flags, **self._metadata}
        if self._trace_id:
            metadata[TRACE_ID] = self._trace_id
        write_text(path, chrome_trace_text(self._ready, metadata, self._settings))

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write a line for each stack of ranges and calls, for flame graphs; times in whole ns.

        Args:
            path: of the file; compressed if it ends in ``.gz``.
            metric: ``self_cpu_time_total``, ``self_device_time_total`` (``cuda`` or ``board`` for
                ``device`` are the same), or a counter. If several boards have it, they are the
                outermost frames. ``device_memory_usage``, with ``profile_memory``, is the bytes
                that boards have taken; with ``with_stack`` file and line are the innermost frame.

        Raises:
            UnknownNameError: there is no such metric.
            UsageError: no trace is ready, no event has a value, or the file cannot be written.
        """
        write_text(path, stacks_text(self._ready, metric))

    def export_memory_timeline(
        self, path: str | os.PathLike[str], device: str | None = None
    ) -> None:
        """Write the memory of a board over time; all of it has torch's last category, unknown.

        A change lies inside its call, in proportion to the board's ticks. Times are of the day, as
        those of the exported trace: its ``baseTimeNanoseconds`` and the ``ts`` of an event.

        Args:
            path: of the file. ``.html`` is a page, ``.raw.json.gz`` has each change in ns, and
                ``.json``, ``.json.gz`` and others have ``[times in us, bytes by category]``.
            device: name of a board; None for the only one with memory, or for all on a page.

        Raises:
            UnknownNameError: no memory of such a board was recorded.
            UsageError: ``profile_memory`` was not set, no trace is ready, no board has memory
                events, several have and ``device`` does not choose one, some events were dropped,
                or the file cannot be written.
        """
        if not self._settings.profile_memory:
            raise UsageError(
                "export_memory_timeline needs memory that was recorded.",
                hint="profile(profile_memory=True)",
            )
        boards, name = memory_changes(self._ready, device), os.fsdecode(path)
        if name.endswith(".html"):
            write_text(path, page_text(boards))
            return
        if len(boards) > 1:
            raise UsageError(
                f"Memory of {len(boards)} boards was recorded, and such a file has one: "
                f"{', '.join(boards)}.",
                hint=f"device={next(iter(boards))!r}, or a page: {Path(name).stem}.html",
            )
        (changes,) = boards.values()
        is_raw = name.endswith(".raw.json.gz")
        write_text(path, raw_text(changes) if is_raw else sizes_text(changes))


def _uncounted(recorder: Recorder) -> str:
    unknown = recorder.unknown
    whys = [f"{board}: {why}" for (board, n), why in recorder.lacking.items() if n in unknown]
    return (
        f"No board that was called counts {', '.join(unknown)} ({'; '.join(whys)}); "
        "`boardprof metrics` lists what a board counts."
    )
