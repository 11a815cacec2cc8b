# SPDX-License-Identifier: Apache-2.0
"""Results of a profile once a trace is ready: events, averages, files."""

from __future__ import annotations

import json
import os

from boardprof.base.errors import UsageError
from boardprof.compat.torch.event_lists import EventAverages, EventList
from boardprof.compat.torch.export import (
    RESERVED_KEYS,
    TRACE_ID,
    chrome_trace_text,
    stacks_text,
    write_text,
)
from boardprof.compat.torch.memory_timeline import memory_of, page_text, raw_text, sizes_text
from boardprof.compat.torch.settings import Settings
from boardprof.compat.torch.trace import Trace


class Results:
    """The last trace of a profile, which is ready in its handler and after its end."""

    def __init__(self, settings: Settings) -> None:
        """Begin without a trace."""
        self._settings = settings
        self._metadata: dict[str, object] = {}
        self._trace_id = ""
        self._trace: Trace | None = None
        self._is_running = False

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
            self._put(key, json.loads(value))
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"The metadata {key!r} is not JSON: {error}.", hint="add_metadata takes a text"
            ) from error

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
        text = chrome_trace_text(
            self._ready,
            metadata,
            self._settings.activities,
            with_modules=self._settings.with_modules,
            with_ranges=self._settings.device_ranges,
            with_memory=self._settings.profile_memory,
        )
        write_text(path, text)

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
        """Write the memory of boards over time; all of it has torch's last category, unknown.

        A change lies inside its call, in proportion to the board's ticks.

        Args:
            path: of the file. ``.html`` is a page, ``.raw.json.gz`` has each change in ns, and
                ``.json``, ``.json.gz`` and others have ``[times in us, bytes by category]``.
            device: name of a board; None for all.

        Raises:
            UsageError: ``profile_memory`` was not set, no trace is ready, the board has no memory
                events, some were dropped, or the file cannot be written.
        """
        if not self._settings.profile_memory:
            raise UsageError(
                "export_memory_timeline needs memory that was recorded.",
                hint="profile(profile_memory=True)",
            )
        events = [e for e in self._ready.events if device is None or e.board == device]
        if any(each.probes is not None and each.probes.dropped for each in events):
            raise UsageError(
                "The memory is not known: a board has dropped events.",
                hint="a larger ring (BP_CFG_TRACE), or fewer probes",
            )
        changes, name = memory_of(events, self._ready.places).changes, os.fspath(path)
        sizes = sizes_text(changes)
        if name.endswith(".html"):
            write_text(path, page_text(changes))
        elif name.endswith(".raw.json.gz"):
            write_text(path, raw_text(changes))
        else:
            write_text(path, sizes)
