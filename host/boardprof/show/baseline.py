# SPDX-License-Identifier: Apache-2.0
"""A Report as a baseline file: sorted, a line for each value, the same bytes if nothing changed.

It leaves out data that gates do not use, such as ports, boot ids, blobs and paths. It also leaves
out data that varies between runs of the same code:

- ``Percent`` and ``Perturbation (%)``, which depend on the agent's work around the samples;
- on emulators, values from a clock with steps, if the board also has an exact count.

The number of calls before a function is kept only if its exact samples differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from boardprof.base.metrics import TAGS, Metric, raw_of
from boardprof.results.comparison.compatibility import BoardFacts, comparable_flags, facts_of
from boardprof.results.report.calls import LEVELS, SHARES
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import (
    BASELINE_KIND,
    BASELINE_VERSION,
    COLD,
)
from boardprof.results.stats.boards import Boards, Source
from boardprof.results.stats.groups import GroupKey, GroupSummary, summaries

Entry: TypeAlias = dict[str, Any]

_IDENTITY: Final = ("function", "arguments", "label", "board", "device", "sweep", "hash")


def render_baseline(report: Report) -> str:
    """Return a Report as the text of a baseline file."""
    return baseline_text(baseline_of(report))


def baseline_text(content: dict[str, Any]) -> str:
    """Return the text of a baseline file with this content."""
    content["boards"] = dict(sorted(content["boards"].items()))
    content["measurements"] = sorted(content["measurements"], key=identity_of)
    return json.dumps(content, indent=1) + "\n"


def identity_of(entry: Entry) -> tuple[str, ...]:
    """Return what tells a row of a baseline from all others."""
    return tuple(str(entry.get(key, "")) for key in _IDENTITY)


def baseline_of(report: Report) -> dict[str, Any]:
    """Return the content of a baseline file."""
    boards = Boards(report)
    groups: dict[GroupKey, list[GroupSummary]] = {}
    for each in _chosen(summaries(report)):
        groups.setdefault(each.key, []).append(each)
    columns = _Columns(report)
    entries = []
    counters: dict[str, dict[str, int]] = {}
    for key, found in groups.items():
        source = boards.source(key.name, key.shapes, key.flags, key.device, key.label)
        used = {source.clock(each.metric) for each in found} & source.counters
        # In the board's own order, because its first clock gives the durations.
        names = [name for name in (*source.rates, *sorted(used)) if name in used]
        rates = {name: source.rates.get(name, 0) for name in names}
        counters[source.board] = {**counters.get(source.board, {}), **rates}
        entries.append(_entry(columns, found, source))
    facts = facts_of(report)
    return {
        "kind": BASELINE_KIND,
        "version": BASELINE_VERSION,
        "boards": {
            name: _board(facts.get(name, BoardFacts()), used) for name, used in counters.items()
        },
        "measurements": entries,
    }


def _chosen(groups: Sequence[GroupSummary]) -> list[GroupSummary]:
    """Return the metrics that gates need; see the top of this module."""
    exact = {each.board for each in groups if each.is_emulated and _is_exact(each)}
    return [
        each
        for each in groups
        if each.metric not in SHARES
        and (each.metric in LEVELS or each.board not in exact or not each.grain)
    ]


def _is_exact(group: GroupSummary) -> bool:
    return group.metric not in (SHARES | LEVELS) and not group.grain


def _board(facts: BoardFacts, counters: Mapping[str, int]) -> dict[str, Any]:
    found = {
        "clock": facts.clock_kind,
        "emulated": facts.is_emulated,
        "cflags": facts.cflags,
        "counters": dict(counters),
    }
    return {key: value for key, value in found.items() if value not in (None, "", {})}


def _entry(columns: _Columns, found: Sequence[GroupSummary], source: Source) -> Entry:
    key, kept = found[0].key, source.measurement
    flags = kept.get("flags")
    texts = {
        "function": key.name,
        "arguments": key.shapes,
        "label": key.label,
        "hash": key.hash,
        "board": source.board or key.device,
        "device": "" if key.device in ("", source.board) else key.device,
        "sweep": key.flags,
        "flags": comparable_flags(flags) if isinstance(flags, str) and not key.flags else "",
    }
    entry: Entry = {name: text for name, text in texts.items() if text}
    if compilers := kept.get("compilers"):
        entry["compilers"] = sorted(map(str, compilers))
    if isinstance(libc := kept.get("libc"), str):
        entry["C library"] = libc
    interrupts = kept.get("interrupts")
    if isinstance(interrupts, Mapping) and interrupts.get("masked") is True:
        entry["interrupts"] = "masked"
    if source.inputs:
        entry["inputs"] = source.inputs
    entry |= {"samples": columns.samples(key), "calls": columns.value(key, "Count")}
    entry |= _course(found)
    for name in sorted({source.clock(each.metric) for each in found if each.overhead.taken}):
        overhead = source.overheads[name]
        entry.setdefault("overhead", {})[name] = int(overhead.taken)
        if overhead.doubt:
            entry.setdefault("doubt", {})[name] = int(overhead.doubt)
    for each in sorted(found, key=lambda each: each.metric):
        tag = TAGS[each.kind]
        entry.setdefault(tag, {})[each.metric] = columns.value(key, each.metric)
        if each.metric in source.cold:
            entry.setdefault(COLD + tag, {})[each.metric] = source.cold[each.metric]
    return entry


def _course(found: Sequence[GroupSummary]) -> Entry:
    """Return which calls exact samples are of, if they are not all equal."""
    for each in found:
        if each.is_deterministic and each.course and not each.summary.is_exact:
            _, warmup, before, _, _, *replies = each.course
            return {"warm-up": warmup, "calls before": before, "replies": replies}
    return {}


class _Columns:
    """The values of a Report's columns by groups of rows."""

    def __init__(self, report: Report) -> None:
        names = ("Name", "Argument Shapes", "Flags", "Device", "Hash", "Label")
        groups = report.calls.group_by(*names)
        keys = (GroupKey(*map(str, key)) for key in groups.keys)
        self._rows = dict(zip(keys, groups.rows, strict=True))
        self._calls = report.calls
        self._columns: dict[str, list[Metric | None]] = {}

    def samples(self, key: GroupKey) -> int:
        """Return the number of a group's samples."""
        return len(self._rows[key])

    def value(self, key: GroupKey, name: str) -> Any:
        """Return the value of a group's samples in a column; a list of all if they differ."""
        if name not in self._columns:
            self._columns[name] = [*self._calls.column(name).filled(None)]
        column = self._columns[name]
        values = [_raw(column[row]) for row in self._rows[key]]
        return values[0] if all(value == values[0] for value in values) else values


def _raw(metric: Metric | None) -> Any:
    """Return the number in a metric; None if JSON cannot hold it."""
    raw = None if metric is None else raw_of(metric)
    return raw if isinstance(raw, int | float) and math.isfinite(raw) else None
