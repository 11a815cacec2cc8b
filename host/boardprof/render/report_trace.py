# SPDX-License-Identifier: Apache-2.0
"""A Report as a Chrome trace: the samples in run order, one behind the other, a track a device.

A Report does not say when a sample began: only what it took is true, and that they follow each
other as they ran. Where a device has no time, its samples are as long as their instructions or
ticks are many, one of which is drawn as 1 us; the device's name, and ``boardprof_time_base`` in the
metadata, say so.
"""

from __future__ import annotations

from collections.abc import Iterator

from boardprof._version import __version__
from boardprof.errors import UsageError
from boardprof.metrics import Duration
from boardprof.render.aggregate import SORT_COLUMNS
from boardprof.render.chrome_trace import TraceEvent, Track, chrome_trace
from boardprof.render.names import KEY_COLUMNS, plain, text_of
from boardprof.render.stacks import device_of, summed_columns, weight_of
from boardprof.report.report import Report, Row

__all__ = ["render_chrome"]

_ORDER = "samples in run order, end to end; when each began was not recorded"
_MOST_NS = (1 << 53) - 1
"""Times that are exact as the floats that readers take them for, ns."""


def render_chrome(report: Report) -> str:
    """Return ``report`` in the Chrome trace format, for Perfetto and its like.

    Raises:
        UsageError: no sample has a length that can be drawn.
    """
    by_device: dict[str, list[Row]] = {}
    for row in report.calls:
        by_device.setdefault(device_of(row), []).append(row)
    bases = {device: _base(rows) for device, rows in by_device.items()}
    events = [
        event
        for device, rows in by_device.items()
        if (base := bases[device]) is not None
        for event in _events(device, rows, base)
    ]
    if not events:
        raise UsageError("The Report has no Counts and no Durations: there is nothing to draw.")
    metadata = {
        "boardprof": __version__,
        "boardprof_time_base": {d: _base_text(rows, bases[d]) for d, rows in by_device.items()},
        "boardprof_order": _ORDER,
        "boardprof_configuration": {k: plain(v) for k, v in report.configuration.items()},
    }
    return chrome_trace(events, metadata=metadata)


def _base(rows: list[Row]) -> str | None:
    """Return the column that a device's samples are as long as."""
    columns = summed_columns(rows)
    return next((name for name in (*SORT_COLUMNS, *columns) if name in columns), None)


def _is_time(rows: list[Row], base: str) -> bool:
    return any(isinstance(row.get(base), Duration) for row in rows)


def _base_text(rows: list[Row], base: str | None) -> str:
    if base is None:
        return "nothing to draw"
    return "time" if _is_time(rows, base) else f"{base}, not time: one is drawn as 1 us"


def _events(device: str, rows: list[Row], base: str) -> Iterator[TraceEvent]:
    """Lay the samples end to end; whatever cannot be drawn takes no room."""
    name = device if _is_time(rows, base) else f"{device} ({base}, not time)"
    track = Track(name, "samples")
    at_ns = 0
    for row in rows:
        weight = weight_of(row, base)
        if weight is None:
            continue
        length_ns = round(weight * 1000)
        if at_ns + length_ns > _MOST_NS:
            raise UsageError(
                f"The samples on {device} are too long for a trace: {base} adds up to more than "
                "2**53 ns.",
                hint="export speedscope, or fewer samples",
            )
        args: dict[str, object] = {
            key: plain(metric) for key, metric in row.items() if key not in KEY_COLUMNS
        }
        args |= {k: text_of(row[k]) for k in ("Argument Shapes", "Flags") if k in row}
        label = text_of(row.get("Name", "")) or "(no name)"
        yield TraceEvent(label, at_ns / 1000, length_ns / 1000, track, args, "sample")
        at_ns += length_ns
