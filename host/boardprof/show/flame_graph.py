# SPDX-License-Identifier: Apache-2.0
r"""Stacks with weights, of Reports and profiles: collapsed, for flame graphs, and for speedscope.

Collapsed stacks are a line a stack, outermost frame first, then the sum of one metric over all
samples; a Duration is in whole nanoseconds. A semicolon in a name is written ``\x3b``, since it
would part frames. speedscope's format has no unit for events: of cycles it is ``none``.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import inf
from typing import Any, Final, TypeAlias

from boardprof import __version__
from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Count, Duration, Metric, metric_called
from boardprof.base.printable import bounded, escaped
from boardprof.results.report.calls import LABEL, LEVELS, Calls, Column, grouped
from boardprof.results.report.profile import INTERRUPTS, OTHER_PATHS, Frame, Profile
from boardprof.results.report.report import Report
from boardprof.results.row_origins import ProfiledRow, profiles_of
from boardprof.show.aggregate import SORT_COLUMNS, total_of
from boardprof.show.cells import KEY_COLUMNS, plural, text_of

_NO_WEIGHTS: Final = frozenset(["Count", LABEL, *LEVELS, *KEY_COLUMNS])

Weight: TypeAlias = int | float  # a Count, or a Duration in us; never below zero, infinite or NaN
INTERRUPTED = "(interrupts)"  # the frame above all handlers: they are not part of the call
Stack = tuple[Frame, ...]
"""Outermost first. A caller has the line at which its function begins, the innermost its own."""


class Stacks:
    """The rows of a Report by device and by stack; ``device_of`` and ``stack_of`` are by row."""

    def __init__(self, calls: Calls) -> None:
        """Look at all rows."""
        groups = calls.group_by("Device", "Name", LABEL, "Flags", "Argument Shapes")
        numbers: dict[str, int] = {}
        self._calls = calls
        self.frames = tuple(_frames(*names) for _, *names in groups.keys)  # outermost first
        self.stack_of, self.device_of = (array("q", bytes(8 * len(calls))) for _ in range(2))
        for stack, ((device, *_), rows) in enumerate(zip(groups.keys, groups.rows, strict=True)):
            name = bounded(text_of(device)) or "(no device)"
            number = numbers.setdefault(name, len(numbers))
            for row in rows:
                self.stack_of[row] = stack
                self.device_of[row] = number
        self.devices = tuple(numbers)

    @cached_property
    def rows(self) -> list[Sequence[int]]:
        """Of each device, in run order."""
        return grouped(self.device_of).rows

    @cached_property
    def columns(self) -> list[list[str]]:
        """For each device its Counts and Durations, what best stands for a row first."""
        found: list[list[str]] = [[] for _ in self.devices]
        for name in sorted(self._calls.names, key=_place):
            if name not in _NO_WEIGHTS:
                column = self._calls.column(name)
                counts, times = column.of(Count), column.of(Duration)
                for device in self.devices_with(counts) | self.devices_with(times):
                    found[device].append(name)
        return found

    def devices_with(self, column: Column) -> set[int]:
        """Return the devices that have a column in any row."""
        if column.rows is None:
            return set(range(len(self.devices)))
        return set(map(self.device_of.__getitem__, column.rows))


def _place(name: str) -> int:
    return SORT_COLUMNS.index(name) if name in SORT_COLUMNS else len(SORT_COLUMNS)


def _frames(*names: Metric) -> tuple[str, ...]:
    function, *rest = (bounded(text_of(name)) for name in names)
    return (function or "(no name)", *filter(None, rest))


def weights_of(column: Column) -> list[Weight | None]:
    """Return the total of each row in a column; None if it cannot be drawn."""
    return list(map(_weight, column.filled(None)))


def _weight(metric: Metric | None) -> Weight | None:
    if isinstance(metric, Count):
        return metric.value if metric.value >= 0 else None
    if isinstance(metric, Duration):
        return metric.microseconds if 0 <= metric.microseconds < inf else None
    return None


def metric_of_all(stacks: Stacks, metric: str | None) -> str:
    """Return the metric whose totals are drawn: ``metric``, or the first that all devices have."""
    if not stacks.devices:
        raise UsageError("The Report has no rows: there is nothing to draw.")
    columns = stacks.columns
    known = list(dict.fromkeys(name for names in columns for name in names))
    if metric is not None:
        found = metric_called(metric, known)
        if found is None:
            raise UnknownNameError("metric in the Report", metric, known)
        return found
    pairs = zip(stacks.devices, columns, strict=True)
    return min(_shared(list(pairs), "on all devices"), key=_place)


def _shared(columns: Sequence[tuple[str, Sequence[str]]], where: str) -> list[str]:
    """Return the metrics that all devices have; an error if they have none in common."""
    known = dict.fromkeys(name for _, names in columns for name in names)
    shared = [name for name in known if all(name in names for _, names in columns)]
    if not shared:
        told = "; ".join(f"{device}: {', '.join(names)}" for device, names in columns)
        raise UsageError(
            f"No metric is {where} of the Report, and different ones do not add up: {told}.",
            hint="name one: boardprof export collapsed REPORT --metric NAME, or "
            "render_collapsed(report, metric=NAME)",
        )
    return shared


_NS_PER_US = 1000


def render_collapsed(report: Report, *, metric: str | None = None) -> str:
    """Return ``report`` as collapsed stacks of ``metric``, or of the first all devices have."""
    # An error if nothing can be drawn: an empty file would look like a function that costs nothing.
    sums = stack_sums(report, metric) or _row_sums(report, metric)
    return "".join(f"{';'.join(map(frame_text, stack))} {total}\n" for stack, total in sums.items())


def _row_sums(report: Report, metric: str | None) -> dict[tuple[str, ...], int]:
    """Return the sum of each stack of a Report's rows, boards outermost."""
    stacks = Stacks(report.calls)
    name = metric_of_all(stacks, metric)
    counts: defaultdict[tuple[str, ...], int] = defaultdict(int)
    times: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    weights = weights_of(report.calls.column(name))
    for device, stack, weight in zip(stacks.device_of, stacks.stack_of, weights, strict=True):
        frames = (stacks.devices[device], *stacks.frames[stack])
        if isinstance(weight, int):
            counts[frames] += weight
        elif weight is not None:
            times[frames].append(weight)
    for frames, each in times.items():
        counts[frames] += round(_NS_PER_US * math.fsum(each))
    if not counts:
        raise UsageError(f"No value of {name} is 0 or more: there is nothing to draw.")
    return counts


def frame_text(name: str) -> str:
    """Return a name as a frame of collapsed stacks."""
    return escaped(name).replace(";", r"\x3b")


_Profile: TypeAlias = dict[str, Any]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def render_speedscope(report: Report) -> str:
    """Return ``report`` in speedscope's own format, version 0.0.1 of its schema."""
    # A value below zero or infinite is left out, and the profile's name says how many that were.
    stacks = Stacks(report.calls)
    frames: dict[Frame, int] = {}
    stack_frames = [
        [frames.setdefault(Frame(f, "", 0), len(frames)) for f in stack] for stack in stacks.frames
    ]
    found: dict[tuple[int, str], _Profile] = {}
    for name in dict.fromkeys(chain(*stacks.columns)):
        for device, profile in _profiles(report.calls.column(name), name, stacks, stack_frames):
            found[device, name] = profile
    places = ((device, name) for device, names in enumerate(stacks.columns) for name in names)
    profiles = [*_inside(report, frames), *(found[each] for each in places if each in found)]
    if not profiles:
        raise UsageError("The Report has no Counts and no Durations: there is nothing to draw.")
    return speedscope_text(", ".join(stacks.devices), list(map(_frame_json, frames)), profiles)


def speedscope_text(
    name: str, frames: Sequence[dict[str, Any]], profiles: Sequence[_Profile]
) -> str:
    """Return the text of a file for speedscope; profiles refer to frames by number."""
    document = {
        "$schema": _SCHEMA,
        "exporter": f"boardprof@{__version__}",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def _frame_json(frame: Frame) -> dict[str, Any]:
    place = {"file": frame.file, "line": frame.line}
    return {"name": frame.function, **{key: value for key, value in place.items() if value}}


def _inside(report: Report, frames: dict[Frame, int]) -> Iterator[_Profile]:
    """Yield what happens within one call, for each of its metrics, if the Report knows."""
    for row in profiles_of(report):
        how = row.profile.sampled
        calls = "one call" if how is None else plural(how.calls, "call")
        for metric in row.profile.columns:
            stacks = stacks_of(row.profile, metric)
            yield {
                "type": "sampled",
                "name": f"{row.title} on {row.device}: {metric} of {calls}",
                "unit": "none",
                "startValue": 0,
                "endValue": sum(stacks.values()),
                "samples": [
                    [frames.setdefault(frame, len(frames)) for frame in stack] for stack in stacks
                ],
                "weights": list(stacks.values()),
            }


def _profiles(
    column: Column, name: str, stacks: Stacks, frames: Sequence[list[int]]
) -> Iterator[tuple[int, _Profile]]:
    """Yield a metric of each device that has a sample which takes any room, and the device."""
    weights = weights_of(column)
    present = column.present
    for device, on_device in enumerate(stacks.rows):
        rows = [row for row in on_device if weights[row] is not None]
        shown = [weight for row in rows if (weight := weights[row]) is not None]
        total = total_of(shown)
        if not total:
            continue
        if math.isinf(total):
            raise UsageError(f"{name} on {stacks.devices[device]} adds up to more than a float.")
        there = len(on_device) if present is None else sum(present[row] for row in on_device)
        told = f" ({there - len(rows)} of {there} samples left out: below 0 or infinite)"
        is_time = device in stacks.devices_with(column.of(Duration))
        yield (
            device,
            {
                "type": "sampled",
                "name": f"{stacks.devices[device]}: {name}" + (told if there > len(rows) else ""),
                "unit": "microseconds" if is_time else "none",
                "startValue": 0,
                "endValue": total,
                "samples": [frames[stacks.stack_of[row]] for row in rows],
                "weights": shown,
            },
        )


# -- profiles ----------------------------------------------------------------------------------


def stacks_of(profile: Profile, metric: str | None = None) -> Mapping[Stack, int]:
    """Return the cost of each stack, inlined functions as frames of their own."""
    column = profile.column(metric)
    found: defaultdict[Stack, int] = defaultdict(int)
    for node, number, cost in profile.counts:
        if cost[column]:
            found[_stack(profile, node, number)] += cost[column]
    return found


def stack_sums(report: Report, metric: str | None = None) -> dict[tuple[str, ...], int]:
    """Return the cost of each stack within the calls of a Report, boards outermost, by names."""
    sums: defaultdict[tuple[str, ...], int] = defaultdict(int)
    profiles = list(profiles_of(report))
    name = _metric_of_all(profiles) if metric is None else metric
    for row in profiles:
        if name in row.profile.columns:
            for stack, cost in stacks_of(row.profile, name).items():
                sums[row.device, *(frame.function for frame in stack)] += cost
    return dict(sums)


def _metric_of_all(rows: Sequence[ProfiledRow]) -> str | None:
    """Return the metric that all profiles show, else the first that all have."""
    if len(shown := {row.profile.metric for row in rows}) <= 1:
        return next(iter(shown), None)
    return _shared([(row.device, row.profile.columns) for row in rows], "in all profiles")[0]


def _stack(profile: Profile, node: int, number: int) -> Stack:
    instruction = profile.instructions[number]
    own = profile.symbols[instruction.symbol]
    # Of the symbol itself the caller's frame tells; its innermost frame has the line.
    inner = instruction.frames[::-1] or (Frame(own.name, own.file, 0),)
    leaf = [Frame(own.name, inner[0].file, inner[0].line), *inner[1:]]
    return (*_callers(profile, node), *leaf)


def _callers(profile: Profile, node: int) -> list[Frame]:
    path: list[Frame] = []
    if node == INTERRUPTS:
        return [Frame(INTERRUPTED, "", 0)]
    if profile.names(node) == (OTHER_PATHS,):
        return [Frame(OTHER_PATHS, "", 0)]
    above = profile.tree[node].parent
    while above not in (-1, INTERRUPTS):
        symbol = profile.symbols[profile.tree[above].symbol]
        path.append(Frame(symbol.name, symbol.file, symbol.line))
        above = profile.tree[above].parent
    if above == INTERRUPTS:
        path.append(Frame(INTERRUPTED, "", 0))
    return path[::-1]
