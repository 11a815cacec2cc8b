# SPDX-License-Identifier: Apache-2.0
"""Programmable counters of a Linux board over the bare RPC: select, measure, read the blobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from boardprof.measure.board.board import Board
from boardprof_protocol.blob import split_blobs
from boardprof_protocol.codes import BuiltIn, CounterStatus
from boardprof_protocol.collectors import linux_perf, papi

__all__ = ["EVENTS_C", "Event", "Slots", "reader", "working_slots"]

EVENTS_C = Path(__file__).parent / "fixtures" / "linux_events.c"
_LAYOUTS = {layout.schema_id: layout for layout in (linux_perf.LAYOUT, papi.LAYOUT)}


@dataclass(frozen=True)
class Event:
    """What the board says of an event: an item of NAME.select, or an answer of NAME.event."""

    status: CounterStatus
    error: int
    reason: str
    name: str
    hz: int = 0
    description: str = ""


class Slots:
    """One programmable collector of a connected board.

    Attributes:
        index: of the collector; its bit in bp.measure's mask is 1 << index.
    """

    def __init__(self, board: Board, name: str) -> None:
        """Find the collector and its operations."""
        self._board = board
        self._name = name
        self._ids = {function.name: function.id for function in board.dictionary.functions}
        self.index = board.dictionary.collector(name).index

    def call(self, function: str, *arguments: object) -> Any:
        """Call any function of the board by name."""
        return self._board.session.invoke(self._ids[function], function, *arguments)

    def init(self) -> None:
        self.call(f"{self._name}.init")

    def select(self, *events: str) -> list[Event]:
        answer = self.call(f"{self._name}.select", *(event.encode() for event in events))
        return [
            Event(CounterStatus(status), error, reason, name, hz)
            for status, error, hz, name, reason in answer
        ]

    def events(self) -> Iterator[Event]:
        """Yield all that can be asked for."""
        index = 0
        while (entry := self.call(f"{self._name}.event", index)) is not None:
            name, description, status, error, reason = entry
            yield Event(CounterStatus(status), error, reason, name, description=description)
            index += 1

    def described(self) -> list[tuple[str, str, CounterStatus]]:
        """Return name, source and status of each slot, as the dictionary has them now."""
        first = sum(len(c.counters) for c in self._board.dictionary.collectors[: self.index])
        entries = [self.call("bp.describe", 3, first + slot) for slot in range(10)]
        return [(entry[0], entry[1], CounterStatus(entry[6])) for entry in entries]

    def measure(self, function: str, *arguments: int, repeat: int = 5) -> list[list[int]]:
        """Return the ten slots' raw counts of each sample."""
        return [counts for (counts,) in reader(self._board, [self], function, *arguments)(repeat)]


def reader(board: Board, slots: list[Slots], function: str, *arguments: int) -> Any:
    """Return what measures with several collectors at once: samples of collectors of counts."""
    ids = {entry.name: entry.id for entry in board.dictionary.functions}
    mask = sum(1 << each.index for each in slots)

    def measure(repeat: int) -> list[list[list[int]]]:
        head = (ids[function], 0, 2, repeat, 1, mask, *arguments)
        count, blobs = board.session.invoke(BuiltIn.MEASURE, function, *head)
        assert count == repeat
        bodies = [_counts(blob.schema_id, blob.body) for blob in split_blobs(blobs)]
        size = len(slots)
        return [bodies[at : at + size] for at in range(0, repeat * size, size)]

    return measure


def _counts(schema: int, body: bytes) -> list[int]:
    layout = _LAYOUTS[schema]
    fields = layout.struct.parse(body)
    for counter in layout.counters:
        if counter.enabled is not None and counter.running is not None:
            assert fields[counter.enabled] == fields[counter.running], "no turns were taken"
    return [fields[counter.stop] - fields[counter.start] for counter in layout.counters]


def working_slots(board: Board, name: str, event: str) -> Slots:
    """Return a collector as it is at first; skip the test where it cannot count this event."""
    found = Slots(board, name)
    (answer,) = found.select(event)
    if answer.status is not CounterStatus.OK:
        pytest.skip(f"{name} cannot count {event}: {answer.reason}")
    found.init()
    return found
