# SPDX-License-Identifier: Apache-2.0
"""A run of probes as one self-contained HTML page: a timeline, memory, and ranges by share."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from boardprof.base.errors import UsageError
from boardprof.base.printable import bounded
from boardprof.results.probes.run import ProbeRun
from boardprof.results.probes.timeline import Ints
from boardprof.show.page_parts import asset, filled_page, inert, isolated, page_html
from boardprof.show.probe_tables import memory_page, probe_run_page
from boardprof.show.probe_tracks import Counter, Lane, ProbeTracks, Track

MOST_EVENTS = 200_000
"""More would make a page of many megabytes."""


def render_probe_page(run: ProbeRun, places: Mapping[int, str] | None = None) -> str:
    """Return a run as an HTML page; ``places`` has file and line of callers that took memory."""
    drawing = ProbeTracks(run)
    count = sum(len(each.events) for each in drawing.timelines.values())
    if count > MOST_EVENTS:
        raise UsageError(
            f"The recording has {count:,} events. A page can have {MOST_EVENTS:,}.",
            hint="boardprof export perfetto, and open it in ui.perfetto.dev",
        )
    facts = run.facts
    return filled_page(
        "timeline.html",
        asset("page.css"),
        asset("timeline.js"),
        title=html.escape(f"{bounded(facts.board)} \N{MIDDLE DOT} boardprof trace"),
        heading=isolated(facts.board),
        facts=_facts(run),
        notes=_tag(run),
        memory=_memory(drawing, places or {}),
        tables=_section("Ranges, interrupts and tasks", page_html(probe_run_page(run))),
        view=inert(json.dumps(_view(drawing), separators=(",", ":"), allow_nan=False)),
    )


def _facts(run: ProbeRun) -> str:
    facts = run.facts
    parts = [facts.time, f"build {facts.build_id}" if facts.build_id else "", facts.port]
    return " \N{MIDDLE DOT} ".join(isolated(part) for part in parts if part)


def _tag(run: ProbeRun) -> str:
    if run.facts.clock_kind != "simulated":
        return ""
    return '<p class="clocks"><span class="tag caution">Simulated clock: no wall time</span></p>'


def _memory(drawing: ProbeTracks, places: Mapping[int, str]) -> str:
    if drawing.heap is None:
        return ""
    return _section("Memory", page_html(memory_page(drawing.heap, places)))


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>"


# -- data for the script ---------------------------------------------------------------------


def _view(drawing: ProbeTracks) -> dict[str, Any]:
    """Return the page's data as plain JSON; times are differences to the one before."""
    return {
        "unit": drawing.unit,
        "end": drawing.end,
        "names": [bounded(name) for name in drawing.names],
        "tracks": [
            *(
                _track(drawing, each)
                for each in drawing.tracks
                if each.lanes or each.mark_time.size
            ),
            *(_counter(drawing, each) for each in drawing.counters),
        ],
    }


def _title(drawing: ProbeTracks, each: Track | Counter) -> str:
    where = f"core {each.core}: " if len(drawing.timelines) > 1 else ""
    return where + bounded(each.title)


def _track(drawing: ProbeTracks, track: Track) -> dict[str, Any]:
    return {
        "title": _title(drawing, track),
        "lanes": [_lane(lane) for lane in track.lanes],
        "marks": [_steps(track.mark_time), track.mark_name.tolist()],
    }


def _lane(lane: Lane) -> list[list[int]]:
    depths: list[int] = []
    for parent in lane.parent.tolist():
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return [_steps(lane.begin), (lane.end - lane.begin).tolist(), lane.name.tolist(), depths]


def _counter(drawing: ProbeTracks, counter: Counter) -> dict[str, Any]:
    values = (counter.value.astype(np.int64) if counter.is_whole else counter.value).tolist()
    finite = np.isfinite(counter.value).tolist()
    shown = [value if ok else None for value, ok in zip(values, finite, strict=True)]
    return {
        "title": _title(drawing, counter),
        "unit": counter.unit,
        "lanes": [],
        "values": [_steps(counter.time), shown],
    }


def _steps(times: Ints) -> list[int]:
    steps: list[int] = np.diff(times, prepend=0).tolist()
    return steps
