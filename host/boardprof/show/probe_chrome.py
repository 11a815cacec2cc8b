# SPDX-License-Identifier: Apache-2.0
"""A recording of probes in the Chrome trace format, with counters besides slices and instants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from boardprof import __version__
from boardprof.results.probes.recording import ProbeRecording
from boardprof.results.probes.timeline import Ints
from boardprof.show.chrome_trace import json_text, microseconds, trace_text, track_names
from boardprof.show.probe_tracks import (
    Counter,
    Lane,
    ProbeTracks,
    Track,
    check_events,
    lane_title,
)


def render_probe_chrome(recording: ProbeRecording) -> str:
    """Return a recording for chrome://tracing, ui.perfetto.dev and similar programs.

    A core is a process. Values that are infinite or NaN are left out, as JSON has none.

    Raises:
        UsageError: the recording has no events.
        DecodeError: it is damaged.
    """
    check_events(recording)
    drawing = ProbeTracks(recording)
    entries = _Entries(drawing)
    names = [line for core in drawing.timelines for line in entries.names_of(core)]
    for counter in drawing.counters:
        entries.add_values(counter)
    metadata = {
        "boardprof": __version__,
        "boardprof_time_base": drawing.unit_note or "time",
        "boardprof_began": recording.facts.time,
    }
    return trace_text(chain(names, entries.in_order()), metadata=metadata)


class _Entries:
    """The entries of a file."""

    def __init__(self, drawing: ProbeTracks) -> None:
        self._drawing = drawing
        self._names = [json_text(name) for name in drawing.names]
        self._times: list[Ints] = []
        self._texts: list[str] = []
        self._threads = 0

    def names_of(self, core: int) -> Sequence[str]:
        """Add what is on a core's tracks; return the entries with their names."""
        titles = {}
        for track in self._drawing.tracks:
            for number, lane in enumerate(track.lanes or [None]) if track.core == core else []:
                self._threads += 1
                titles[self._threads] = lane_title(track, number)
                if lane is not None:
                    self._times.append(lane.begin)
                    self._texts += self._slices(core, lane)
                if not number:
                    self._times.append(track.mark_time)
                    self._texts += self._marks(core, track)
        return track_names(core + 1, self._drawing.process(core), titles)

    def _slices(self, core: int, lane: Lane) -> Iterator[str]:
        place = f'"pid": {core + 1}, "tid": {self._threads}'
        lengths = (lane.end - lane.begin).tolist()
        for begin, length, name in zip(
            lane.begin.tolist(), lengths, lane.name.tolist(), strict=True
        ):
            yield (
                f'{{"ph": "X", "name": {self._names[name]}, {place}, '
                f'"ts": {microseconds(begin)}, "dur": {microseconds(length)}}}'
            )

    def _marks(self, core: int, track: Track) -> Iterator[str]:
        place = f'"pid": {core + 1}, "tid": {self._threads}, "s": "t"'
        for time, name in zip(track.mark_time.tolist(), track.mark_name.tolist(), strict=True):
            yield f'{{"ph": "i", "name": {self._names[name]}, {place}, "ts": {microseconds(time)}}}'

    def add_values(self, counter: Counter) -> None:
        """Add the values of a counter."""
        finite = np.isfinite(counter.value)
        values = counter.value[finite]
        self._times.append(counter.time[finite])
        head = f'{{"ph": "C", "name": {json_text(counter.title)}, "pid": {counter.core + 1}'
        key = json_text(counter.unit or "value")
        for time, value in zip(
            counter.time[finite].tolist(),
            (values.astype(np.int64) if counter.is_whole else values).tolist(),
            strict=True,
        ):
            self._texts.append(
                f'{head}, "ts": {microseconds(time)}, "args": {{{key}: {value!r}}}}}'
            )

    def in_order(self) -> Iterator[str]:
        """Yield the entries of events in the order of time; those of a lane keep theirs."""
        order = np.argsort(np.concatenate([*self._times, np.zeros(0, np.int64)]), kind="stable")
        return map(self._texts.__getitem__, order.tolist())
