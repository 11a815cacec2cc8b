# SPDX-License-Identifier: Apache-2.0
"""TVM's way to profile one function, over any transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from boardprof.board.board import Board
from boardprof.errors import UsageError
from boardprof.metrics import Metric
from boardprof.papi import PAPIMetricCollector
from boardprof.report.assemble import assemble

__all__ = ["profile_function"]


def profile_function(
    mod: Board,
    dev: object = None,
    collectors: Sequence[str | PAPIMetricCollector] | None = None,
    func_name: str | None = None,
    warmup_iters: int = 10,
) -> Callable[..., dict[str, Metric]]:
    """Wrap a function of a board so that calling it measures one call.

    The names, their order and the defaults are those of ``tvm.runtime.profiling``; unlike there, it
    works over RPC, and there is a Duration where the board has a clock.

    Args:
        mod: a connected board.
        dev: the device to measure on; a board has one, so only None or the board's name is right.
        collectors: names of the board's collectors, e.g. ``["cycles"]``, or a
            `PAPIMetricCollector`; None takes all.
        func_name: the function; may be None when the board has exactly one.
        warmup_iters: calls before the measured one.

    Returns:
        A callable that takes the function's arguments and returns metric name -> metric, corrected
        by the calibration.

    Raises:
        UsageError: another device, or no name where the board has several functions.
        UnknownNameError: no such function or collector.
    """
    if dev is not None and str(dev) != mod.device.name:
        raise UsageError(f"The board {mod.device.name} has no device {dev}.")
    name = _only_function(mod) if func_name is None else mod.dictionary.function(func_name).name
    metrics = None if collectors is None else _counters(mod, collectors)

    def profiled(*args: object, **named: object) -> dict[str, Metric]:
        measurement = mod.measure(
            name, *args, metrics=metrics, warmup=warmup_iters, repeat=1, number=1, named=named
        )
        (row,) = assemble([measurement]).calls
        return {key: row[key] for key in row if key not in ("Name", "Device", "Count", "Percent")}

    return profiled


def _only_function(board: Board) -> str:
    names = [function.name for function in board.dictionary.user_functions if function.measurable]
    if len(names) != 1:
        raise UsageError(
            f"{board.device.name} has {len(names)} functions: {', '.join(names)}.",
            hint="say which: func_name=...",
        )
    return names[0]


def _counters(board: Board, collectors: Sequence[str | PAPIMetricCollector]) -> list[str]:
    supported: list[str] = []
    missing: dict[str, str] = {}
    for collector in collectors:
        if isinstance(collector, PAPIMetricCollector):
            supported += collector.metrics(board)
        else:
            names, reasons = _counters_of(board, collector)
            supported += names
            missing |= reasons
    if not supported:
        reasons_text = ", ".join(f"{name} ({why})" for name, why in missing.items())
        names_text = [str(c) if isinstance(c, str) else type(c).__name__ for c in collectors]
        raise UsageError(f"{board.device.name} supports nothing of {names_text}: {reasons_text}.")
    return supported


def _counters_of(board: Board, name: str) -> tuple[list[str], dict[str, str]]:
    """Return what a collector counts, by itself where it is programmable, and what it does not."""
    info = board.dictionary.collector(name)
    for programmable in board.offer.programmable:
        if programmable.collector.name == name:
            slots = programmable.by_itself()
            # Another collector may have an event of the same name; this one is meant.
            events = [event.removeprefix(f"{name}.") for event in slots.events]
            return [f"{name}.{event}" for event in events], dict(slots.refused)
    unsupported = board.device.unsupported
    names = [counter.name for counter in info.counters]
    return (
        [counter for counter in names if counter not in unsupported],
        {counter: unsupported[counter] for counter in names if counter in unsupported},
    )
