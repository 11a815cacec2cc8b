# SPDX-License-Identifier: Apache-2.0
"""Small Reports by hand, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from boardprof.base.metrics import Count, Metric
from boardprof.results.report.report import Report

__all__ = ["EMULATOR", "HARDWARE", "report_of"]

EMULATOR: dict[str, Any] = {"clock_kind": "simulated", "emulated": True}
HARDWARE: dict[str, Any] = {"clock_kind": "declared", "emulated": False}


def report_of(
    metrics: Mapping[str, Sequence[Metric | int]],
    *,
    name: str = "fir",
    shapes: str = "n=64",
    device: str = "board",
    facts: Mapping[str, Any] | None = EMULATOR,
    number: int = 1,
    clocks: Mapping[str, int] | None = None,
    flags: str | None = "-O2",
    swept: bool = False,
    measurement: Mapping[str, Any] | None = None,
) -> Report:
    """Return a Report of one function on one board.

    Args:
        metrics: column -> one value a sample.
        name: of the function.
        shapes: of its arguments.
        device: the board.
        facts: of the board, for ``extra``; None: there is no ``extra``.
        number: calls in each sample.
        clocks: counter -> Hz.
        flags: of the compiler.
        swept: the flags stand in each row.
        measurement: further keys of the measurement in ``extra``.
    """
    first: dict[str, Metric | int] = {"Name": name}
    last: dict[str, Metric | int] = {"Argument Shapes": shapes, "Device": device}
    if swept and flags is not None:
        last["Flags"] = flags
    last["Count"] = Count(number)
    values = zip(*metrics.values(), strict=True)
    rows = [{**first, **dict(zip(metrics, row, strict=True)), **last} for row in values]
    if facts is None:
        return Report(rows, {}, {})
    rates = clocks or {}
    computed = (measurement or {}).get("formulas", {})
    names = [name for name in {**metrics, **rates} if name not in computed]
    counters = [{"name": name, "hz": rates.get(name)} for name in names]
    taken = {
        "name": name,
        "device": device,
        "arguments": shapes,
        "flags": flags,
        "number": number,
        "warmup": 3,
        "calls_before": 0,
        "calibration": dict.fromkeys([*metrics, *rates], 0),
        **(measurement or {}),
    }
    devices = {device: {**facts, "collectors": [{"counters": counters}]}}
    extra = {"schema_version": 1, "devices": devices, "measurements": [taken]}
    return Report(rows, {}, {"boardprof": "1"}, extra)
