# SPDX-License-Identifier: Apache-2.0
"""A Report as a file for speedscope: for each device and metric a profile, samples in run order.

Its file format has no unit for events that are counted: of cycles and instructions it is ``none``.
"""

from __future__ import annotations

import json
from typing import Any

from boardprof._version import __version__
from boardprof.errors import UsageError
from boardprof.metrics import Duration
from boardprof.render.stacks import device_of, stack_of, summed_columns, weight_of
from boardprof.report.report import Report, Row

__all__ = ["render_speedscope"]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def render_speedscope(report: Report) -> str:
    """Return ``report`` in speedscope's own format, version 0.0.1 of its schema.

    Each sample is a stack (function, then compiler flags and arguments where the Report has them)
    and weighs what it counted. What cannot be drawn, a value below zero or infinite, is left out,
    and the profile's name says how many samples that were.

    Raises:
        UsageError: nothing can be drawn.
    """
    by_device: dict[str, list[Row]] = {}
    for row in report.calls:
        by_device.setdefault(device_of(row), []).append(row)
    frames: dict[str, int] = {}
    profiles = [
        profile
        for device, rows in by_device.items()
        for column in summed_columns(rows)
        if (profile := _profile(device, column, rows, frames)) is not None
    ]
    if not profiles:
        raise UsageError("The Report has no Counts and no Durations: there is nothing to draw.")
    document = {
        "$schema": _SCHEMA,
        "exporter": f"boardprof@{__version__}",
        "name": ", ".join(by_device),
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def _profile(
    device: str, column: str, rows: list[Row], frames: dict[str, int]
) -> dict[str, Any] | None:
    """Return one metric of a device; None if it has no sample that takes any room."""
    present = [row for row in rows if column in row]
    weighed = [(row, weight) for row in present if (weight := weight_of(row, column)) is not None]
    total = sum(weight for _, weight in weighed)
    if not total:
        return None
    left_out = len(present) - len(weighed)
    told = f" ({left_out} of {len(present)} samples left out: below 0 or infinite)"
    is_time = isinstance(weighed[0][0][column], Duration)
    return {
        "type": "sampled",
        "name": f"{device}: {column}" + (told if left_out else ""),
        "unit": "microseconds" if is_time else "none",
        "startValue": 0,
        "endValue": total,
        "samples": [[_index(frame, frames) for frame in stack_of(row)] for row, _ in weighed],
        "weights": [weight for _, weight in weighed],
    }


def _index(frame: str, frames: dict[str, int]) -> int:
    return frames.setdefault(frame, len(frames))
