# SPDX-License-Identifier: Apache-2.0
"""Which counters are read in which run: more events than slots take several passes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from boardprof.board.events import Programmable, Slots
from boardprof.board.selection import Selection
from boardprof_protocol.layout import Layout

__all__ = ["Pass", "layouts_of", "split_into_passes"]


@dataclass(frozen=True)
class Pass:
    """One run of a function with one set of counters.

    Attributes:
        fixed: the collectors that cannot be programmed. Their counters are those of the first pass.
        events: collector -> what its slots shall count; None: what they count by themselves.
    """

    fixed: Selection
    events: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)

    def slots(self, collectors: Iterable[Programmable]) -> tuple[Slots, ...]:
        """Program the slots of this pass."""
        chosen = [(c, self.events[c.collector.name]) for c in collectors if self._has(c)]
        return tuple(c.by_itself() if names is None else c.select(names) for c, names in chosen)

    def selection(self, slots: Sequence[Slots]) -> Selection:
        """Return the collectors of this pass, by index, and the counters of theirs that count."""
        active = [s for s in slots if s.events]
        collectors = (*self.fixed.collectors, *(s.collector for s in active))
        events = itertools.chain.from_iterable(s.events for s in active)
        return Selection(
            tuple(sorted(collectors, key=lambda c: c.index)), self.fixed.counters | {*events}
        )

    def _has(self, collector: Programmable) -> bool:
        return collector.collector.name in self.events


def split_into_passes(
    fixed: Selection, events: Mapping[str, Sequence[str] | None], slots: Mapping[str, int]
) -> tuple[Pass, ...]:
    """Spread events over as few passes as their collectors' slots allow.

    Args:
        fixed: what is read in the first pass beside them.
        events: collector -> what it shall count, None: what it counts by itself.
        slots: collector -> how many events it counts at a time, >= 1.
    """
    chunks: dict[str, list[tuple[str, ...] | None]] = {}
    for name, wanted in events.items():
        size = slots[name]
        chunks[name] = (
            [None]
            if wanted is None
            else [tuple(wanted[i : i + size]) for i in range(0, len(wanted), size)]
        )
    count = max(1, *(len(chunk) for chunk in chunks.values())) if chunks else 1
    nothing = Selection((), frozenset())
    return tuple(
        Pass(
            fixed if i == 0 else nothing,
            {name: chunk[i] for name, chunk in chunks.items() if i < len(chunk)},
        )
        for i in range(count)
    )


def layouts_of(layouts: Mapping[int, Layout], slots: Iterable[Slots]) -> dict[int, Layout]:
    """Return the layouts with the events' names in those of programmed collectors."""
    return {**layouts, **{s.collector.schema_id: s.layout for s in slots}}
