# SPDX-License-Identifier: Apache-2.0
"""A Report as a file for speedscope: for each device and metric a profile, samples in run order.

Its file format has no unit for events that are counted: of cycles and instructions it is ``none``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

from boardprof._version import __version__
from boardprof.errors import UsageError
from boardprof.metrics import Duration
from boardprof.render.profile_stacks import stacks_of
from boardprof.render.stacks import Stacks, weights_of
from boardprof.report.columns import Column
from boardprof.report.profile import Profile
from boardprof.report.profile_json import profiles_of
from boardprof.report.report import Report

_Profile: TypeAlias = dict[str, Any]
_Frame: TypeAlias = tuple[str, str, int]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def render_speedscope(report: Report) -> str:
    """Return ``report`` in speedscope's own format, version 0.0.1 of its schema.

    Each sample is a stack (function, then compiler flags and arguments where the Report has them)
    and weighs what it counted. What cannot be drawn, a value below zero or infinite, is left out,
    and the profile's name says how many samples that were.

    Raises:
        UsageError: nothing can be drawn.
    """
    stacks = Stacks(report.calls)
    frames: dict[_Frame, int] = {}
    stack_frames = [
        [frames.setdefault((f, "", 0), len(frames)) for f in stack] for stack in stacks.frames
    ]
    found: dict[tuple[int, str], _Profile] = {}
    for name in dict.fromkeys(chain(*stacks.columns)):
        for device, profile in _profiles(report.calls.column(name), name, stacks, stack_frames):
            found[device, name] = profile
    inside = [
        _inside(row.profile, name, frames)
        for row in profiles_of(report)
        for name in row.profile.columns
    ]
    places = ((device, name) for device, names in enumerate(stacks.columns) for name in names)
    profiles = inside + [found[place] for place in places if place in found]
    if not profiles:
        raise UsageError("The Report has no Counts and no Durations: there is nothing to draw.")
    document = {
        "$schema": _SCHEMA,
        "exporter": f"boardprof@{__version__}",
        "name": ", ".join(stacks.devices),
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(*frame) for frame in frames]},
        "profiles": profiles,
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def _frame(name: str, file: str, line: int) -> dict[str, Any]:
    return {"name": name, **({"file": file} if file else {}), **({"line": line} if line else {})}


def _inside(profile: Profile, metric: str, frames: dict[_Frame, int]) -> _Profile:
    """Return what happens within one call, if the Report knows."""
    stacks = stacks_of(profile, metric)
    samples = [
        [frames.setdefault((f.function, f.file, f.line), len(frames)) for f in stack]
        for stack in stacks
    ]
    return {
        "type": "sampled",
        "name": f"{profile.function} on {profile.board}: {metric} of one call",
        "unit": "none",
        "startValue": 0,
        "endValue": sum(stacks.values()),
        "samples": samples,
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
        total = sum(shown)
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
