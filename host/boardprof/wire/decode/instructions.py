# SPDX-License-Identifier: Apache-2.0
"""Instructions from the clock of a QEMU that takes the same time for each (``-icount shift=N``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo, Dictionary
from boardprof.wire.decode.samples import Layouts
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.layout import Layout

INSTRUCTIONS: Final = "instructions"
_CLOCK: Final = "ticks"
_LEAST_TICKS: Final = 2.5
"""A reading leaves out a part of a tick, so the difference of two is off by less than a tick. That
is less than half an instruction, so the nearest whole number of instructions is the right one."""


def with_instructions(dictionary: Dictionary, instruction_ns: int) -> Dictionary:
    """Return a dictionary whose clock also counts instructions, if its ticks are short enough.

    ``instruction_ns``: what each instruction takes; 0 if that is not known.
    """
    if any(each.name == INSTRUCTIONS for c in dictionary.collectors for each in c.counters):
        return dictionary
    collectors = tuple(_also_counting(each, instruction_ns) for each in dictionary.collectors)
    return replace(dictionary, collectors=collectors)


def _also_counting(collector: CollectorInfo, instruction_ns: int) -> CollectorInfo:
    if [each.name for each in collector.counters] != [_CLOCK]:
        return collector
    [clock] = collector.counters
    ticks = clock.hz * instruction_ns / 1e9
    if clock.status is not CounterStatus.OK or ticks < _LEAST_TICKS:
        return collector
    source = f"{clock.source} in QEMU, {ticks:.7g} ticks each"
    found = replace(clock, name=INSTRUCTIONS, source=source, hz=0, instruction_ns=instruction_ns)
    return replace(collector, counters=(clock, found))


def counting_layouts(collectors: Iterable[CollectorInfo], layouts: Layouts) -> Mapping[int, Layout]:
    """Return layouts that have a meaning for instructions where `with_instructions` added them."""
    found = dict(layouts)
    for each in collectors:
        layout = layouts.get(each.schema_id)
        if layout is not None and _counts(each.counters) and len(layout.counters) == 1:
            [clock] = layout.counters
            # The empty function's own return is one instruction.
            meaning = replace(clock, name=INSTRUCTIONS, unit="count", own_return=1)
            found[each.schema_id] = replace(layout, counters=(clock, meaning))
    return found


def _counts(counters: Iterable[CounterInfo]) -> bool:
    return any(each.instruction_ns for each in counters)
