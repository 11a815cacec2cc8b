# SPDX-License-Identifier: Apache-2.0
"""What a profile gives once a trace is ready: events, averages, files."""

from __future__ import annotations

import json
import os

from boardprof.errors import UsageError
from boardprof.trace.configuration import Configuration
from boardprof.trace.event_lists import EventAverages, EventList
from boardprof.trace.events import Trace
from boardprof.trace.export import (
    RESERVED_KEYS,
    TRACE_ID,
    chrome_trace_text,
    stacks_text,
    write_text,
)
from boardprof.trace.unsupported import require_board_events

__all__ = ["Results"]


class Results:
    """The last trace of a profile, which is ready in its handler and behind its end."""

    def __init__(self, wanted: Configuration) -> None:
        """Begin without a trace; ``wanted`` is what is recorded."""
        self._wanted = wanted
        self._metadata: dict[str, object] = {}
        self._trace_id = ""
        self._trace: Trace | None = None
        self._is_running = False

    def events(self) -> EventList:
        """Return the events of the last trace, of all with ``acc_events``.

        Raises:
            UsageError: no trace is ready.
        """
        return EventList(self._ready.events, has_shapes=self._wanted.record_shapes)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventAverages:
        """Return the events taken together by name.

        Args:
            group_by_input_shape: and by the shapes and values of their arguments.
            group_by_stack_n: and by so many of the ranges around them, the innermost first.

        Raises:
            UsageError: no trace is ready, shapes were not recorded, or the number is negative.
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """What is to be known of the last trace: what is missing, and why."""
        return self._ready.diagnostics

    @property
    def _ready(self) -> Trace:
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
        """Put a text beside the events of exported traces.

        Raises:
            UsageError: it is none, or the trace has something of that name itself.
        """
        if not isinstance(value, str):
            raise UsageError(
                f"The metadata {key!r:.60} is no text: {value!r:.60}.", hint="add_metadata_json"
            )
        self._put(key, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put JSON beside the events of exported traces.

        Raises:
            UsageError: the value is no JSON, or the trace has something of that name itself.
        """
        try:
            self._put(key, json.loads(value))
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"The metadata {key!r} is no JSON: {error}.", hint="add_metadata takes a text"
            ) from error

    def _put(self, key: str, value: object) -> None:
        if not isinstance(key, str):
            raise UsageError(f"{key!r:.60} is no key of metadata: a text is.")
        if key in RESERVED_KEYS:
            raise UsageError(
                f"{key!r} cannot be a key of metadata: the trace has it.",
                hint=f"another name, such as {'my_' + key!r}",
            )
        self._metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Do the same before the profile starts.

        Raises:
            UsageError: it runs already, or the value is no JSON.
        """
        if self._is_running:
            raise UsageError("preset_metadata_json comes before start().", hint="add_metadata_json")
        self.add_metadata_json(key, value)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the last trace as Perfetto and chrome://tracing open it.

        Args:
            path: of the file; compressed if it ends in ``.gz``.

        Raises:
            UsageError: no trace is ready, or the file cannot be written.
        """
        metadata = {**self._wanted.flags, **self._metadata}
        if self._trace_id:
            metadata[TRACE_ID] = self._trace_id
        text = chrome_trace_text(
            self._ready,
            metadata,
            self._wanted.activities,
            with_modules=self._wanted.with_modules,
        )
        write_text(path, text)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write a line a stack of ranges and calls, as flame graphs are made of; times in whole ns.

        Args:
            path: of the file; compressed if it ends in ``.gz``.
            metric: ``self_cpu_time_total``, ``self_device_time_total`` (``cuda`` or ``board`` for
                ``device`` are the same), or a counter. Where several boards have it, they are the
                outermost frames.

        Raises:
            UnknownNameError: there is no such metric.
            UsageError: no trace is ready, no event has any of it, or the file cannot be written.
        """
        write_text(path, stacks_text(self._ready, metric))

    def export_memory_timeline(
        self, path: str | os.PathLike[str], device: str | None = None
    ) -> None:
        """Refuse: it would take allocations that are recorded on the board.

        Raises:
            NotSupportedByAgentError: always.
        """
        require_board_events("export_memory_timeline")
