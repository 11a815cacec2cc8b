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
       "output call": 21, "outputs": {"y": "int32[256] 1f3a5c70"},
       "samples": 10, "calls": 1, "count": {"Stack (bytes)": 0, "instructions": 116869}}
     ]
    }

An output that is an array has its type, its shape and its CRC-32. The values of floats are kept,
too, because they may be compared with a tolerance.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from boardprof.base.errors import ReportFileError, UsageError, option
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
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.comparison import ComparisonError
from boardprof.results.comparison.compatibility import (
    BoardFacts,
    check_same,
    comparable_flags,
    facts_of,
    is_same_rate,
)
from boardprof.results.record import RETURN, MeasurementRecord
from boardprof.results.record_json import SCHEMA_VERSION, read_record
from boardprof.results.report.calls import DURATION, LABEL, Row
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey, Origin, RowOrigins, clock_of_column, titled
from boardprof.results.stats.groups import GroupSummary, keyed_groups, metrics_of_gates, summaries

_KIND: Final = "boardprof.baseline"
_VERSION: Final = 1  # version of the layout; it grows if an old reader would misread new files

_BEGINNING: Final = rf'\s*{{\s*"kind":\s*"{re.escape(_KIND)}"'

_VALUES: Final = tuple(TAGS[kind] for kind in (Count, Duration, Percent, Ratio))
"""Keys of a measurement's values, by kind of metric."""

_COLD: Final = "cold "  # prefix of such a key for the very first call

_BOTH_CALLS: Final = "first and last call"

_COLUMNS: Final = {"arguments": "Argument Shapes", "sweep": "Flags", "hash": "Hash", "label": LABEL}
"""Column of the rows for each key of a measurement."""

_NAMES: Final = {dict: "an object", list: "an array", str: "a text", int: "a whole number"}
_WROTE: Final = "a file that `--baseline FILE` wrote, unchanged"
_MOST_SAMPLES: Final = 10_000_000

T = TypeVar("T", dict[str, Any], list[Any], str, int)

Content: TypeAlias = dict[str, Any]  # a file's JSON
Entry: TypeAlias = dict[str, Any]  # one of its measurements: rows of a function

# -- reading ---------------------------------------------------------------------------


def is_baseline(text: str) -> bool:
    """Tell whether a text is a baseline file, even if reformatted, rather than a Report."""
    if re.match(_BEGINNING, text) or f'"{_KIND}"' not in text:
        return re.match(_BEGINNING, text) is not None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("kind") == _KIND


def baseline_content(text: str) -> Content:
    """Parse a baseline file; raise a ReportFileError if this package cannot read its version."""
    try:
        content = _need(json.loads(text), dict, "the file")
    except (ValueError, RecursionError) as error:
        raise ReportFileError(f"this is not JSON: {error}.", hint=_WROTE) from error
    if content.get("kind") != _KIND or content.get("version") != _VERSION:
        raise ReportFileError(
            f"this is a baseline of version {content.get('version')!r:.20}, and this boardprof "
            f"reads version {_VERSION}.",
            hint="write it again with --baseline FILE",
        )
    return content


def report_of_baseline(content: Content) -> Report:
    """Return the Report that a baseline represents: its rows, and what comparing needs."""
    boards = _need(content.get("boards"), dict, "boards")
    entries = _need(content.get("measurements"), list, "measurements")
    rows = [row for place, entry in enumerate(entries) for row in _rows(entry, place)]
    record = {
        "schema_version": SCHEMA_VERSION,
        "devices": {name: _device(facts, f"boards.{name}") for name, facts in boards.items()},
        "measurements": [_measurement(each, boards.get(each.get("board"), {})) for each in entries],
    }
    try:
        return Report(rows, {}, {}, record=read_record(record))
    except ReportFileError as error:
        raise ReportFileError(error.message, hint=_WROTE) from error


def _need(value: object, kind: type[T], at: str) -> T:
    if type(value) is not kind:
        raise ReportFileError(f"{_NAMES[kind]} is needed.", where=at, hint=_WROTE)
    return value


def _device(facts: object, at: str) -> dict[str, Any]:
    """Return a board as the record's JSON has it."""
    known = _need(facts, dict, at)
    counters = _need(known.get("counters", {}), dict, f"{at}.counters")
    infos = [{"name": name, "hz": hz} for name, hz in counters.items()]
    return {
        "clock_kind": known.get("clock"),
        "emulated": known.get("emulated"),
        "cpu": _need(known.get("cpu", ""), str, f"{at}.cpu"),
        "cflags": shlex.split(_need(known.get("cflags", ""), str, f"{at}.cflags")),
        "collectors": [{"index": 0, "counters": infos}],
    }


def _rows(found: object, place: int) -> Iterator[Row]:
    """Yield a row for each sample of a measurement."""
    at = f"measurements[{place}]"
    entry = _need(found, dict, at)
    same: Row = {"Name": _need(entry.get("function"), str, f"{at}.function")}
    for key, column in _COLUMNS.items():
        if key in entry:
            same[column] = _need(entry[key], str, f"{at}.{key}")
    device = _need(entry.get("device", entry.get("board", "")), str, f"{at}.board")
    same |= {"Device": device} if device else {}
    samples = _need(entry.get("samples"), int, f"{at}.samples")
    if not 0 < samples <= _MOST_SAMPLES:
        raise ReportFileError(f"{samples} is out of range.", where=f"{at}.samples", hint=_WROTE)
    columns = {"Count": (TAGS[Count], _each(entry.get("calls"), samples, f"{at}.calls"))}
    for tag in _VALUES:
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


def _measurement(entry: Entry, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a measurement as the record's JSON has it, as far as comparing uses it."""

    def numbers(key: str) -> dict[str, int]:
        found = _need(entry.get(key, {}), dict, key)
        return {name: _need(value, int, key) for name, value in found.items()}

    taken, doubts = numbers("overhead"), numbers("doubt")
    apart = {name: value + doubts.get(name, 0) for name, value in taken.items()}
    replies = _need(entry.get("replies", []), list, "replies")
    totals, *further = ([_window({})] * _need(n, int, "replies") for n in replies or [0])
    course = entry if replies else {}
    cold = {
        metric: {tag: value}
        for tag in _VALUES
        for metric, value in _need(entry.get(_COLD + tag, {}), dict, _COLD + tag).items()
    }
    return {
        "name": entry["function"],
        "device": entry.get("board"),
        "arguments": entry.get("arguments"),
        "label": entry.get("label"),
        "inputs_crc32": entry.get("inputs"),
        "output_call": entry.get("output call"),
        "output_crc32s": _need(entry.get(_BOTH_CALLS, ""), str, _BOTH_CALLS).split(),
        "result": entry.get("returned"),
        "outputs": _arrays(entry),
        "flags": entry.get("sweep", entry.get("flags")),
        "compilers": entry.get("compilers", []),
        "libc": entry.get("C library"),
        "interrupts": {"masked": entry.get("interrupts") == "masked"},
        "calibration": {n: taken.get(n, 0) for n in facts.get("counters", {})} if taken else None,
        "number": course.get("calls"),
        "warmup": course.get("warm-up"),
        "calls_before": course.get("calls before"),
        "cold": {"metrics": cold} if cold else None,
        # Two windows around the empty function have the original spread.
        "calibration_samples": [_window(taken), _window(apart)] if taken else [],
        "totals": totals,
        "further_passes": [{"totals": each} for each in further],
    }


def _arrays(entry: Entry) -> dict[str, Any]:
    """Return the outputs that are arrays as the record's JSON has them."""
    outputs = _need(entry.get("outputs", {}), dict, "outputs")
    values = _need(entry.get("output values", {}), dict, "output values")
    arrays = {}
    for name, text in outputs.items():
        found = re.fullmatch(r"(.+)\[([\d, ]*)\] ([0-9a-f]{8})", _need(text, str, "outputs"))
        if found is None:
            raise ReportFileError(f"{text!r:.60} is not an array.", where="outputs", hint=_WROTE)
        shape = [int(length) for length in found[2].split(",") if length.strip()]
        facts = {"dtype": found[1], "shape": shape, "crc32": found[3]}
        arrays[name] = {**facts, "values": values.get(name, "")}
    return arrays


def _window(raw: Mapping[str, int]) -> dict[str, Any]:
    return {"raw": raw, "blobs": ""}


def _metric(tag: str, value: object, at: str) -> Metric:
    try:
        return metric_from_json({tag: value})
    except ValueError as error:
        raise ReportFileError(f"{error}.", where=at) from error


# -- writing ------------------------------------------------------------------------------------


_OF_OUTPUTS: Final = ("returned", "outputs", "output call", _BOTH_CALLS)
_IDENTITY: Final = ("function", "arguments", "label", "board", "device", "sweep", "hash")


def render_baseline(report: Report) -> str:
    """Return a Report as the text of a baseline file."""
    return _text(baseline_of(report))


def _text(content: Content) -> str:
    content["boards"] = dict(sorted(content["boards"].items()))
    content["measurements"] = sorted(content["measurements"], key=_identity)
    return json.dumps(content, indent=1) + "\n"


def _identity(entry: Entry) -> tuple[str, ...]:
    """Return what tells a row of a baseline from all others."""
    return tuple(str(entry.get(key, "")) for key in _IDENTITY)


def baseline_of(report: Report) -> Content:
    """Return the content of a baseline file."""
    origins = RowOrigins(report)
    groups: dict[GroupKey, list[GroupSummary]] = {}
    for each in metrics_of_gates(summaries(report)):
        groups.setdefault(each.key, []).append(each)
    values = _values(report)
    entries = []
    counters: dict[str, dict[str, int]] = {}
    for key, found in groups.items():
        origin = origins.origin(key)
        used = {origin.clock(each.metric) for each in found} & origin.counters
        # In the board's own order, because its first clock gives the durations.
        names = [name for name in (*origin.rates, *sorted(used)) if name in used]
        rates = {name: origin.rates.get(name, 0) for name in names}
        counters[origin.board] = {**counters.get(origin.board, {}), **rates}
        entries.append(_entry(values[key], found, origin))
    facts = facts_of(report)
    return {
        "kind": _KIND,
        "version": _VERSION,
        "boards": {
            name: _board(facts.get(name, BoardFacts()), used) for name, used in counters.items()
        },
        "measurements": entries,
    }


def _board(facts: BoardFacts, counters: Mapping[str, int]) -> dict[str, Any]:
    found = {
        "clock": facts.clock_kind,
        "emulated": facts.is_emulated,
        "cpu": facts.cpu,
        "cflags": facts.cflags,
        "counters": dict(counters),
    }
    return {key: value for key, value in found.items() if value not in (None, "", {})}


def _entry(values: Entry, found: Sequence[GroupSummary], origin: Origin) -> Entry:
    key, kept = found[0].key, origin.measurement
    facts = {
        "function": key.name,
        "arguments": key.shapes,
        "label": key.label,
        "hash": key.hash,
        "board": origin.board or key.device,
        "device": "" if key.device in ("", origin.board) else key.device,
        "sweep": key.flags,
        "flags": comparable_flags(kept.flags) if kept.flags and not key.flags else "",
        "compilers": sorted(kept.compilers),
        "C library": kept.libc,
        "interrupts": "masked" if kept.interrupts.masked else "",
        "inputs": origin.inputs,
    }
    entry: Entry = {name: each for name, each in facts.items() if each}
    entry |= _outputs(kept)
    entry |= {"samples": values[""], "calls": values.get("Count")}
    entry |= _course(found)
    for name in sorted({origin.clock(each.metric) for each in found if each.overhead.taken}):
        overhead = origin.overheads[name]
        entry.setdefault("overhead", {})[name] = int(overhead.taken)
        if overhead.doubt:
            entry.setdefault("doubt", {})[name] = int(overhead.doubt)
    for each in sorted(found, key=lambda each: each.metric):
        tag = TAGS[each.kind]
        entry.setdefault(tag, {})[each.metric] = values[each.metric]
        if each.metric in origin.cold:
            entry.setdefault(_COLD + tag, {})[each.metric] = origin.cold[each.metric]
    return entry


def _outputs(kept: MeasurementRecord) -> Entry:
    """Return what one call returned and wrote; of floats also the values, for a tolerance."""
    arrays = sorted(kept.outputs.items())
    found: Entry = {
        "returned": kept.result if RETURN not in kept.outputs else None,
        "outputs": {
            name: f"{each.dtype}[{', '.join(map(str, each.shape))}] {each.crc32}"
            for name, each in arrays
        },
        "output values": {
            name: each.values for name, each in arrays if each.dtype.startswith("float")
        },
    }
    found = {key: each for key, each in found.items() if each not in (None, {})}
    if not found or kept.output_call is None:
        return found
    calls = {_BOTH_CALLS: " ".join(kept.output_crc32s)} if kept.output_crc32s else {}
    return {"output call": kept.output_call, **calls, **found}


def _course(found: Sequence[GroupSummary]) -> Entry:
    """Return which calls exact samples are of, if they are not all equal."""
    for each in found:
        if each.is_deterministic and each.course and not each.summary.is_exact:
            _, warmup, before, _, _, *replies = each.course
            return {"warm-up": warmup, "calls before": before, "replies": replies}
    return {}


def _values(report: Report) -> dict[GroupKey, Entry]:
    """Return what each group has by column: a value of all samples, or a list if they differ."""
    groups = keyed_groups(report)
    found: list[Entry] = [{"": len(rows)} for rows in groups.rows]  # "": how many samples
    for name in report.calls.names:
        column = [*map(_raw, report.calls.column(name).filled(None))]
        for group, rows in zip(found, groups.rows, strict=True):
            values = [column[row] for row in rows]
            group[name] = values if any(value != values[0] for value in values) else values[0]
    return dict(zip(groups.keys, found, strict=True))


def _raw(metric: Metric | None) -> Any:
    """Return the number in a metric; None if JSON cannot hold it."""
    raw = None if metric is None else raw_of(metric)
    return raw if isinstance(raw, int | float) and math.isfinite(raw) else None


# -- joining with an earlier file --------------------------------------------------------------

_UNCHANGED: Final = ("same", "noise", "within overhead")


@dataclass(frozen=True)
class BaselineUpdate:
    """A baseline file to be written, and what happened to the rows of the earlier one."""

    text: str  # of the file
    added: int  # number of rows that are new
    replaced: int = 0  # rows that were measured again and have changed
    unchanged: int = 0  # rows that were measured again and keep their old samples
    kept: int = 0  # rows that were not measured again
    removed: int = 0  # rows that are gone
    kept_rows: tuple[str, ...] = ()  # those that were not measured again

    def __str__(self) -> str:
        """Return the numbers, such as ``1 row added, 2 kept``."""
        names = ("added", "replaced", "unchanged", "kept", "removed")
        counts = [(getattr(self, name), name) for name in names if getattr(self, name)]
        (first, name), *others = counts
        rows = "row" if first == 1 else "rows"
        return ", ".join([f"{first} {rows} {name}", *(f"{n} {name}" for n, name in others)])


def updated_baseline(
    report: Report, earlier: Content | None, keeps: Callable[[str], bool]
) -> BaselineUpdate:
    """Return a file that replaces the earlier one; ``keeps`` decides by labels of old measurements.

    An unchanged measurement keeps its old samples: noise is not a change.
    """
    content = baseline_of(report)
    after = {_identity(each): each for each in content["measurements"]}
    if earlier is None:
        return BaselineUpdate(_text(content), len(after))
    before = {_identity(each): each for each in earlier["measurements"]}
    same = _unchanged(report_of_baseline(earlier), report_of_baseline(content))
    kept = {
        k: each for k, each in before.items() if k not in after and keeps(each.get("label", ""))
    }
    _join_boards(content, {**earlier, "measurements": [*kept.values()]})
    repeated = after.keys() & before.keys()
    for key in repeated:
        _check_metrics(before[key], after[key])
    unchanged = {key for key in repeated if _is_same(before[key], after[key], same)}
    content["measurements"] = [
        *(before[key] if key in unchanged else each for key, each in after.items()),
        *kept.values(),
    ]
    return BaselineUpdate(
        _text(content),
        added=len(after) - len(repeated),
        replaced=len(repeated) - len(unchanged),
        unchanged=len(unchanged),
        kept=len(kept),
        removed=len(before) - len(repeated) - len(kept),
        kept_rows=tuple(map(_row_title, kept.values())),
    )


def _row_title(entry: Entry) -> str:
    arguments, board = entry.get("arguments", ""), entry.get("device", entry.get("board", ""))
    return f"{titled(entry['function'], entry.get('label', ''))}({arguments}) on {board}"


def _join_boards(content: Content, kept: Content) -> None:
    """Add the boards of kept measurements, each described once, if they are comparable."""
    old, new = (facts_of(report_of_baseline(each)) for each in (kept, content))
    boards, earlier = content["boards"], kept["boards"]
    for board in sorted({str(each.get("board", "")) for each in kept["measurements"]} & {*earlier}):
        if board in boards:
            check_same({board: board}, old, new, ())
            counters = _joined_counters(board, kept, content)
            boards[board] = {**boards[board], **({"counters": counters} if counters else {})}
        else:
            boards[board] = earlier[board]


def _joined_counters(board: str, *sides: Content) -> dict[str, int]:
    """Return the counters of both sides, with the rate of each; the first clock gives durations."""
    old, new = (side["boards"][board].get("counters", {}) for side in sides)
    for name in old.keys() & new.keys():
        if not is_same_rate(old[name], new[name]):
            raise ComparisonError(
                f"{board}: {name} has {old[name]:,} Hz before, {new[name]:,} Hz after."
            )
    # The same order whichever of two runs with other metrics was the last one.
    found = {**old, **new} if new.keys() <= old.keys() else {**new, **old, **new}
    clock = _clock_of_time(found)
    for counters, side in zip((old, new), sides, strict=True):
        entries = (each for each in side["measurements"] if each.get("board", "") == board)
        own = _clock_of_time(counters)
        if own != clock and any(DURATION in each.get(TAGS[Duration], {}) for each in entries):
            raise ComparisonError(
                f"{board}: some durations are from the clock {own}, others from {clock}."
            )
    return found


def _clock_of_time(counters: Mapping[str, int]) -> str:
    return clock_of_column(DURATION, [name for name, hz in counters.items() if hz])


def _unchanged(before: Report, after: Report) -> set[tuple[str, ...]]:
    """Return the places of the rows without a change, see `MetricRow.place`."""
    try:
        rows = compare(before, after).rows
    except ComparisonError:
        return set()
    return {
        row.place
        for row in rows
        if row.verdict in _UNCHANGED and not (row.is_emulated and row.is_cold_apart)
    }


def _check_metrics(old: Entry, new: Entry) -> None:
    """Check that no metric of a row is lost: a gate on it would then pass, whatever it costs."""
    if lost := sorted({n for tag in _VALUES for n in old.get(tag, {}).keys() - new.get(tag, {})}):
        row = titled(new["function"], new.get("label", ""))
        raise UsageError(
            f"The baseline has {', '.join(lost)} of {row}, which this run did not measure.",
            hint=f"measure them, too ({option('--metrics')}), or remove the row from the file "
            "first",
        )


def _is_same(old: Entry, new: Entry, same: set[tuple[str, ...]]) -> bool:
    """Tell whether two measurements differ only by noise; ``same`` as `_unchanged` returns it."""
    facts = ("samples", "calls", "flags", "compilers", "inputs", *_OF_OUTPUTS)
    if old.keys() != new.keys() or any(old.get(key) != new.get(key) for key in facts):
        return False
    names = (new.get(key, "") for key in ("function", "label", "arguments"))
    group = (*names, new.get("device", new.get("board", "")), new.get("sweep", ""))
    return all(
        old.get(tag, {}).keys() == new.get(tag, {}).keys()
        and all((*group, metric) in same for metric in new.get(tag, {}))
        for tag in _VALUES
    )
