# SPDX-License-Identifier: Apache-2.0
"""A recording of probes as stacks of ranges: in the order of time for speedscope, or summed up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from boardprof.base.errors import UsageError
from boardprof.base.printable import bounded
from boardprof.results.probes.recording import ProbeRecording
from boardprof.show.flame_graph import frame_text, speedscope_text
from boardprof.show.probe_tracks import (
    Lane,
    ProbeTracks,
    TrackKind,
    check_events,
    lane_title,
    task_title,
)


def render_probe_speedscope(recording: ProbeRecording) -> str:
    """Return a recording for speedscope: a profile for each track, in the order of time.

    Raises:
        UsageError: there is no complete pass of a range and no task.
        DecodeError: the recording is damaged.
    """
    drawing = ProbeTracks(recording)
    _check(drawing)
    frames = [{"name": bounded(name)} for name in drawing.names]
    profiles = [
        {
            "type": "evented",
            "name": title if drawing.clock.hz else f"{title} ({drawing.unit})",
            "unit": "nanoseconds" if drawing.clock.hz else "none",
            "startValue": 0,
            "endValue": drawing.end,
            "events": _edges(lane),
        }
        for title, lane in _lanes(drawing)
    ]
    return speedscope_text(bounded(recording.facts.board), frames, profiles)


def _core(core: int) -> str:
    return f"core {core}"


def _lanes(drawing: ProbeTracks) -> Iterator[tuple[str, Lane]]:
    """Yield all lanes with their titles."""
    for track in drawing.tracks:
        for number, lane in enumerate(track.lanes):
            yield f"{_core(track.core)}: {lane_title(track, number)}", lane


def _check(drawing: ProbeTracks) -> None:
    """See that there is something to draw.

    Raises:
        UsageError: there is nothing.
    """
    check_events(drawing.recording)
    if not any(track.lanes for track in drawing.tracks):
        raise UsageError(
            f"The recording of {drawing.recording.facts.board} has no complete pass of a range: "
            "there is nothing to draw.",
            hint="put BP_RANGE_BEGIN and BP_RANGE_END around code that runs while you record",
        )


def _edges(lane: Lane) -> list[dict[str, Any]]:
    which, is_begin = lane.edges()
    columns = (column.tolist() for column in (lane.begin, lane.end, lane.name))
    begin, end, name = columns
    return [
        {"type": "O", "frame": name[i], "at": begin[i]}
        if opens
        else {"type": "C", "frame": name[i], "at": end[i]}
        for i, opens in zip(which.tolist(), is_begin.tolist(), strict=True)
    ]


def render_probe_collapsed(recording: ProbeRecording) -> str:
    """Return collapsed stacks: core, task or interrupt, then ranges, and the innermost one's ticks.

    What other tasks, interrupts and inner ranges took is not in them. So the sum is that of the
    core, unless ranges overlap without nesting, which counts twice.

    Raises:
        UsageError: there is no complete pass of a range and no task.
        DecodeError: the recording is damaged.
    """
    drawing = ProbeTracks(recording)
    _check(drawing)
    sums: dict[_Path, int] = {}
    for core, line in drawing.timelines.items():
        for task, ticks in line.task_ticks().items():
            sums[_core(core), task_title(task, recording.tasks)] = ticks
    for track in drawing.tracks:
        base = (_core(track.core), track.title)
        for lane in track.lanes if track.kind != TrackKind.CORE else ():
            _add(sums, base if track.kind == TrackKind.TASK else base[:1], lane, drawing.names)
    return "".join(
        f"{';'.join(map(frame_text, stack))} {own}\n" for stack, own in sums.items() if own > 0
    )


_Path: TypeAlias = tuple[str, ...]


def _add(sums: dict[_Path, int], base: _Path, lane: Lane, names: Sequence[str]) -> None:
    """Add the slices of a lane: what one took, the one around it did not take itself."""
    paths: list[_Path] = []
    columns = (column.tolist() for column in (lane.name, lane.parent, lane.own))
    for name, parent, own in zip(*columns, strict=True):
        around = base if parent < 0 else paths[parent]
        paths.append((*around, names[name]))
        sums[paths[-1]] = sums.get(paths[-1], 0) + own
        if around in sums:
            sums[around] -= own
