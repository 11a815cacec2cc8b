# SPDX-License-Identifier: Apache-2.0
"""Baseline files, which are meant to be committed and read in a diff: only what gates need.

They are JSON with one line per value, sorted, and the same bytes if nothing changed. If all samples
are equal, there is one value for all; otherwise a list with one value for each::

    {
     "kind": "boardprof.baseline",
     "version": 1,
     "boards": {
      "qemu-rv32": {"clock": "simulated", "emulated": true, "counters": {"instructions": 0}}
     },
     "measurements": [
      {"function": "fir", "arguments": "n=256", "board": "qemu-rv32", "flags": "-O2",
       "samples": 10, "calls": 1, "count": {"Stack (bytes)": 0, "instructions": 116869}}
     ]
    }

They leave out data that gates do not use, such as ports, boot ids, blobs and paths. They also leave
out data that varies between runs of the same code:

- ``Percent`` and ``Perturbation (%)``, which depend on the agent's work around the samples;
- on emulators, values from a clock with steps, if the board also has an exact count.

The number of calls before a function is kept only if its exact samples differ.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from boardprof.base.errors import ReportFileError
from boardprof.base.metrics import (
    TAGS,
    Count,
    Duration,
    Metric,
    Percent,
    Ratio,
    metric_from_json,
    raw_of,
)
from boardprof.results.comparison.compatibility import BoardFacts, comparable_flags, facts_of
from boardprof.results.record import (
    NO_SAMPLE,
    NOT_MASKED,
    ColdRecord,
    Device,
    Interrupts,
    MeasurementRecord,
    PassRecord,
    Record,
    SampleRecord,
)
from boardprof.results.report.calls import LABEL, LEVELS, SHARES, Row
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey, Origin, RowOrigins
from boardprof.results.stats.groups import GroupSummary, summaries
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof_protocol.codes import CounterStatus

BASELINE_KIND: Final = "boardprof.baseline"
BASELINE_VERSION: Final = 1
"""Version of the layout; it grows if an old reader would misread new files."""

_BEGINNING: Final = rf'\s*{{\s*"kind":\s*"{re.escape(BASELINE_KIND)}"'

VALUES: Final = tuple(TAGS[kind] for kind in (Count, Duration, Percent, Ratio))
"""Keys of a measurement's values, by kind of metric."""

COLD: Final = "cold "
"""Prefix of such a key for the very first call."""

COLUMNS: Final = {
    "arguments": "Argument Shapes",
    "sweep": "Flags",
    "hash": "Hash",
    "label": LABEL,
}
"""Column of the rows for each key of a measurement."""

_NAMES: Final = {dict: "an object", list: "an array", str: "a text", int: "a whole number"}
_WROTE: Final = "a file that `--baseline FILE` wrote, unchanged"
_MOST_SAMPLES: Final = 10_000_000

T = TypeVar("T", dict[str, Any], list[Any], str, int)

# -- reading ---------------------------------------------------------------------------


def is_baseline(text: str) -> bool:
    """Tell whether a text is a baseline file, even if reformatted, rather than a Report."""
    if re.match(_BEGINNING, text) or f'"{BASELINE_KIND}"' not in text:
        return re.match(_BEGINNING, text) is not None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("kind") == BASELINE_KIND


def baseline_content(text: str) -> dict[str, Any]:
    """Parse a baseline file; raise a ReportFileError if this package cannot read its version."""
    try:
        content = _need(json.loads(text), dict, "the file")
    except (ValueError, RecursionError) as error:
        raise ReportFileError(f"this is not JSON: {error}.", hint=_WROTE) from error
    if content.get("kind") != BASELINE_KIND or content.get("version") != BASELINE_VERSION:
        raise ReportFileError(
            f"this is a baseline of version {content.get('version')!r:.20}, and this boardprof "
            f"reads version {BASELINE_VERSION}.",
            hint="write it again with --baseline FILE",
        )
    return content


def report_of_baseline(content: Mapping[str, Any]) -> Report:
    """Return the Report that a baseline represents: its rows, and what comparing needs."""
    boards = _need(content.get("boards"), dict, "boards")
    rows: list[Row] = []
    measurements = []
    for place, entry in enumerate(_need(content.get("measurements"), list, "measurements")):
        at = f"measurements[{place}]"
        rows += _rows(_need(entry, dict, at), at)
        facts = _need(boards.get(entry.get("board"), {}), dict, "boards")
        measurements.append(_measurement(entry, facts, at))
    devices = {name: _device(name, facts, f"boards.{name}") for name, facts in boards.items()}
    return Report(rows, {}, {}, record=Record(devices, tuple(measurements)))


def _need(value: object, kind: type[T], at: str) -> T:
    if type(value) is not kind:
        raise ReportFileError(f"{_NAMES[kind]} is needed.", where=at, hint=_WROTE)
    return value


def _device(name: str, facts: object, at: str) -> Device:
    known = _need(facts, dict, at)
    counters = _need(known.get("counters", {}), dict, f"{at}.counters")
    infos = tuple(
        CounterInfo(counter, "", 0, _need(hz, int, f"{at}.counters"), 0, False, CounterStatus.OK, 0)
        for counter, hz in counters.items()
    )
    return Device(
        name,
        clock_kind=_need(known.get("clock", ""), str, f"{at}.clock"),
        emulated=known.get("emulated") is True,
        collectors=(CollectorInfo(0, "", 0, 0, 0, infos),),
        cflags=tuple(shlex.split(_need(known.get("cflags", ""), str, f"{at}.cflags"))),
    )


def _rows(entry: Mapping[str, Any], at: str) -> Iterator[Row]:
    """Yield a row for each sample of a measurement."""
    same: Row = {"Name": _need(entry.get("function"), str, f"{at}.function")}
    for key, column in COLUMNS.items():
        if key in entry:
            same[column] = _need(entry[key], str, f"{at}.{key}")
    device = _need(entry.get("device", entry.get("board", "")), str, f"{at}.board")
    same |= {"Device": device} if device else {}
    samples = _need(entry.get("samples"), int, f"{at}.samples")
    if not 0 < samples <= _MOST_SAMPLES:
        raise ReportFileError(f"{samples} is out of range.", where=f"{at}.samples", hint=_WROTE)
    columns = {"Count": (TAGS[Count], _each(entry.get("calls"), samples, f"{at}.calls"))}
    for tag in VALUES:
        for metric, value in _need(entry.get(tag, {}), dict, f"{at}.{tag}").items():
            columns[metric] = (tag, _each(value, samples, f"{at}.{tag}.{metric}"))
    for n in range(samples):
        row = {**same}
        for metric, (tag, each) in columns.items():
            if each[n] is not None:
                row[metric] = _metric(tag, each[n], f"{at}.{tag}.{metric}")
        yield row


def _each(value: object, samples: int, at: str) -> list[Any]:
    """Return each sample's value, from one value for all or a list."""
    if not isinstance(value, list):
        return [value] * samples
    if len(value) != samples:
        raise ReportFileError(f"there are {len(value)} values for {samples} samples.", where=at)
    return value


def _measurement(entry: Mapping[str, Any], facts: Mapping[str, Any], at: str) -> MeasurementRecord:
    """Return a record's measurement, as far as comparing uses it."""

    def text(key: str, default: str = "") -> str:
        return _need(entry.get(key, default), str, f"{at}.{key}")

    def number(key: str) -> int | None:
        return _need(entry[key], int, f"{at}.{key}") if key in entry else None

    overheads = _need(entry.get("overhead", {}), dict, f"{at}.overhead")
    doubts = _need(entry.get("doubt", {}), dict, f"{at}.doubt")
    replies = _need(entry.get("replies", []), list, f"{at}.replies") or [0]
    first, *further = (
        PassRecord(totals=(NO_SAMPLE,) * _need(each, int, f"{at}.replies")) for each in replies
    )
    cold = {
        metric: _metric(tag, value, f"{at}.{COLD}{tag}.{metric}")
        for tag in VALUES
        for metric, value in _need(entry.get(COLD + tag, {}), dict, f"{at}.{COLD}{tag}").items()
    }
    has_course = "replies" in entry
    return MeasurementRecord(
        name=entry["function"],
        device=text("board"),
        arguments=text("arguments"),
        label=text("label"),
        inputs_crc32=text("inputs"),
        flags=text("sweep") if "sweep" in entry else entry.get("flags") and text("flags"),
        compilers=tuple(_need(entry.get("compilers", []), list, f"{at}.compilers")),
        libc=text("C library"),
        interrupts=Interrupts(masked=True) if entry.get("interrupts") == "masked" else NOT_MASKED,
        calibration={n: overheads.get(n, 0) for n in facts.get("counters", {})}
        if overheads
        else None,
        number=number("calls") if has_course else None,
        warmup=number("warm-up") if has_course else None,
        calls_before=number("calls before") if has_course else None,
        cold=ColdRecord(cold) if cold else None,
        passes=(replace(first, calibration_samples=_windows(overheads, doubts, at)), *further),
    )


def _windows(
    overheads: Mapping[str, Any], doubts: Mapping[str, Any], at: str
) -> tuple[SampleRecord, ...]:
    """Return windows around the empty function with the original spread."""
    taken = {name: _need(value, int, f"{at}.overhead") for name, value in overheads.items()}
    apart = {n: value + _need(doubts.get(n, 0), int, f"{at}.doubt") for n, value in taken.items()}
    return (SampleRecord(taken), SampleRecord(apart)) if taken else ()


def _metric(tag: str, value: object, at: str) -> Metric:
    try:
        return metric_from_json({tag: value})
    except ValueError as error:
        raise ReportFileError(f"{error}.", where=at) from error


# -- writing ------------------------------------------------------------------------------------


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
    origins = RowOrigins(report)
    groups: dict[GroupKey, list[GroupSummary]] = {}
    for each in _chosen(summaries(report)):
        groups.setdefault(each.key, []).append(each)
    columns = _Columns(report)
    entries = []
    counters: dict[str, dict[str, int]] = {}
    for key, found in groups.items():
        origin = origins.origin(key)
        used = {origin.clock(each.metric) for each in found} & origin.counters
        # In the board's own order, because its first clock gives the durations.
        names = [name for name in (*origin.rates, *sorted(used)) if name in used]
        rates = {name: origin.rates.get(name, 0) for name in names}
        counters[origin.board] = {**counters.get(origin.board, {}), **rates}
        entries.append(_entry(columns, found, origin))
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


def _entry(columns: _Columns, found: Sequence[GroupSummary], origin: Origin) -> Entry:
    key, kept = found[0].key, origin.measurement
    texts = {
        "function": key.name,
        "arguments": key.shapes,
        "label": key.label,
        "hash": key.hash,
        "board": origin.board or key.device,
        "device": "" if key.device in ("", origin.board) else key.device,
        "sweep": key.flags,
        "flags": comparable_flags(kept.flags) if kept.flags and not key.flags else "",
    }
    entry: Entry = {name: text for name, text in texts.items() if text}
    if kept.compilers:
        entry["compilers"] = sorted(kept.compilers)
    if kept.libc:
        entry["C library"] = kept.libc
    if kept.interrupts.masked:
        entry["interrupts"] = "masked"
    if origin.inputs:
        entry["inputs"] = origin.inputs
    entry |= {"samples": columns.samples(key), "calls": columns.value(key, "Count")}
    entry |= _course(found)
    for name in sorted({origin.clock(each.metric) for each in found if each.overhead.taken}):
        overhead = origin.overheads[name]
        entry.setdefault("overhead", {})[name] = int(overhead.taken)
        if overhead.doubt:
            entry.setdefault("doubt", {})[name] = int(overhead.doubt)
    for each in sorted(found, key=lambda each: each.metric):
        tag = TAGS[each.kind]
        entry.setdefault(tag, {})[each.metric] = columns.value(key, each.metric)
        if each.metric in origin.cold:
            entry.setdefault(COLD + tag, {})[each.metric] = origin.cold[each.metric]
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
