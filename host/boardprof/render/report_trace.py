# SPDX-License-Identifier: Apache-2.0
"""A Report as a Chrome trace: a track for each device, with its samples end to end in run order.

Only the lengths and the order are real, because a Report does not say when a sample began. If a
device has no time, the length of its samples is their instructions or ticks, each drawn as 1 us.
The device's name, and ``boardprof_time_base`` in the metadata, say so.

Entries are written as text, column by column, because Reports may have many rows.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from functools import cache
from itertools import chain
from operator import itemgetter

from boardprof import __version__
from boardprof.errors import UsageError
from boardprof.metrics import Duration, raw_of
from boardprof.render.cells import KEY_COLUMNS
from boardprof.render.chrome_trace import json_text, microseconds, trace_text, track_names
from boardprof.render.flame_graph import Stacks, weights_of
from boardprof.report.calls import Calls
from boardprof.report.columns import Column
from boardprof.report.report import Report

_ORDER = "samples in run order, end to end; when each began was not recorded"
_TEXTS = ("Argument Shapes", "Flags")
_MOST_NS = (1 << 53) - 1
"""Largest time in ns that is exact as a float, as which readers parse it."""


def render_chrome(report: Report) -> str:
    """Return ``report`` in the Chrome trace format, for Perfetto and similar programs.

    Raises:
        UsageError: no sample has a length that can be drawn.
    """
    tracks = _Tracks(report.calls)
    samples = list(tracks.samples())
    if not samples:
        raise UsageError("The Report has no Counts and no Durations: there is nothing to draw.")
    samples.sort(key=itemgetter(0, 1))
    metadata = {
        "boardprof": __version__,
        "boardprof_time_base": tracks.bases,
        "boardprof_order": _ORDER,
        "boardprof_configuration": {k: raw_of(v) for k, v in report.configuration.items()},
    }
    return trace_text(chain(tracks.names(), map(itemgetter(2), samples)), metadata=metadata)


class _Tracks:
    """The samples of each device, end to end."""

    def __init__(self, calls: Calls) -> None:
        """Choose the column that gives the length of each device's samples."""
        self._calls = calls
        self._stacks = stacks = Stacks(calls)
        self._base = [next(iter(names), None) for names in stacks.columns]
        self._is_time = [
            base is not None and device in stacks.devices_with(calls.column(base).of(Duration))
            for device, base in enumerate(self._base)
        ]
        self._numbers: dict[int, int] = {}

    @property
    def bases(self) -> dict[str, str]:
        """The meaning of lengths on each device."""
        texts = map(_base_text, self._base, self._is_time)
        return dict(zip(self._stacks.devices, texts, strict=True))

    def names(self) -> Iterator[str]:
        """Yield the entries that name the tracks of all samples yielded so far."""
        for device, number in self._numbers.items():
            name = self._stacks.devices[device]
            if not self._is_time[device]:
                name = f"{name} ({self._base[device]}, not time)"
            yield from track_names(number, name, {number: "samples"})

    def samples(self) -> Iterator[tuple[int, int, str]]:
        """Yield begin and negated end in ns, and the entry; each device's samples in order.

        Samples without a length are left out.
        """
        stacks, numbers = self._stacks, self._numbers
        columns = {base: self._calls.column(base) for base in self._base if base is not None}
        weights = {base: weights_of(column) for base, column in columns.items()}
        names = [json_text(frames[0]) for frames in stacks.frames]
        at_ns = [0] * len(stacks.devices)
        rows = zip(stacks.device_of, stacks.stack_of, _args(self._calls), strict=True)
        for row, (device, stack, args) in enumerate(rows):
            base = self._base[device]
            weight = None if base is None else weights[base][row]
            if weight is None:
                continue
            begin_ns, length_ns = at_ns[device], round(weight * 1000)
            at_ns[device] = end_ns = begin_ns + length_ns
            if end_ns > _MOST_NS:
                raise _too_long(stacks.devices[device], base)
            number = numbers.setdefault(device, len(numbers) + 1)
            yield (
                begin_ns,
                -end_ns,
                f'{{"ph": "X", "name": {names[stack]}, "pid": {number}, "tid": {number}, '
                f'"ts": {microseconds(begin_ns)}, "dur": {microseconds(length_ns)}, '
                f'"cat": "sample", "args": {{{args}}}}}',
            )


def _base_text(base: str | None, is_time: bool) -> str:
    if base is None:
        return "nothing to draw"
    return "time" if is_time else f"{base}, not time: one is drawn as 1 us"


def _too_long(device: str, base: str | None) -> UsageError:
    return UsageError(
        f"The samples on {device} are too long for a trace: {base} adds up to more than 2**53 ns.",
        hint="export to speedscope instead, or export fewer samples",
    )


def _args(calls: Calls) -> Iterator[str]:
    """Yield the other values of each row, as members of a JSON object."""
    texts = {name: _texts(calls.column(name)) for name in calls.names}

    @cache
    def members(layout: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        names = [name for name in layout if name not in KEY_COLUMNS]
        names += [name for name in _TEXTS if name in layout]
        keys = (json_text(name).replace("%", "%%") for name in names)
        return ", ".join(f"{key}: %s" for key in keys), tuple(names)

    for layout in calls.layouts:
        form, names = members(layout)
        yield form % tuple([next(texts[name]) for name in names])


def _texts(column: Column) -> Iterator[str]:
    """Return a column's values as JSON, without the rows that have none."""
    given = column.given
    if isinstance(given, array) and (given.typecode == "q" or all(map(math.isfinite, given))):
        return map(repr, given)
    text = cache(json_text) if column.kind is str else json_text
    return map(text, given if column.kind is not None else map(raw_of, given))
