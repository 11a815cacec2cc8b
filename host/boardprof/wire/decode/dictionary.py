# SPDX-License-Identifier: Apache-2.0
"""What a board offers: its packed functions, collectors and counters (SPEC.md 5)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from boardprof.base.errors import LinkError, UnknownNameError
from boardprof_protocol.codes import CounterStatus

MOST_BYTES = 1 << 20
"""Size limit of a dictionary; our largest has 3 kB."""

_MOST_FIELDS = 64  # size limit of an entry
_OPERATIONS = ("init", "start", "stop", "select", "event")  # limit for a collector (SPEC.md 5.3)
_WIDEST_BITS = 64
_LAST_ERRNO = (1 << 31) - 1  # an error number is a C int


@dataclass(frozen=True)
class FunctionInfo:
    """A packed function: its id on the wire and its name."""

    id: int
    name: str
    signature: str  # such as ``(n: u32) -> i32``; "" if only the board knows it
    measurable: bool


@dataclass(frozen=True)
class CounterInfo:
    """One counter as the board describes it."""

    name: str  # the metric's name; ``COLLECTOR.name`` if an earlier collector has that name
    source: str  # the register or call that it is read from
    bits: int  # width; differences are modulo 2**bits
    hz: int  # rate of a clock; 0 if it is not a clock
    coarse_hz: int  # rate of the slower clock that reveals its wraps; 0 if absent
    counts_in_sleep: bool
    status: CounterStatus
    detail: int  # the system's error number when it was refused
    # what each instruction takes on the clock of the same collector, whose ticks are counted in
    # instructions; 0 for any other counter
    instruction_ns: int = 0

    @property
    def unsupported(self) -> str | None:
        """Why this counter is not available on this board; None if it is."""
        if self.status is CounterStatus.OK:
            return None
        if self.status is CounterStatus.ABSENT:
            return f"this core has no {self.source}"
        if self.status is CounterStatus.STUCK:
            return f"{self.source} does not advance"
        return f"{self.source} was refused: {os.strerror(self.detail)} (errno {self.detail})"


@dataclass(frozen=True)
class CollectorInfo:
    """One collector: the layout of its blobs, and its counters."""

    index: int
    name: str
    schema_id: int
    version: int
    layout_crc: int
    counters: tuple[CounterInfo, ...]


@dataclass(frozen=True)
class Dictionary:
    """All that a board offers."""

    board: str
    agent_version: str
    arena_bytes: int  # memory for the host's handles; 0 if absent
    functions: tuple[FunctionInfo, ...]
    collectors: tuple[CollectorInfo, ...]

    def function(self, name: str) -> FunctionInfo:
        """Find a function."""
        for function in self.functions:
            if function.name == name:
                return function
        raise UnknownNameError("function", name, [f.name for f in self.user_functions])

    @property
    def user_functions(self) -> tuple[FunctionInfo, ...]:
        """The functions that are not the agent's own: those that can be measured or called."""
        own = {f"{c.name}.{op}" for c in self.collectors for op in _OPERATIONS}
        return tuple(
            f for f in self.functions if not f.name.startswith("bp.") and f.name not in own
        )

    def collector(self, name: str) -> CollectorInfo:
        """Find a collector."""
        for collector in self.collectors:
            if collector.name == name:
                return collector
        raise UnknownNameError("collector", name, [c.name for c in self.collectors])


def parse_dictionary(stored: bytes) -> Dictionary:
    """Parse the board's answers, which are msgpack back to back."""
    try:
        firmware, functions, collectors, counters = _sections(stored)
        board, agent_version, arena_bytes = firmware[0]
        left = iter([_counter(entry) for entry in counters])
        taken: set[str] = set()
        infos = [_collector(i, entry, left, taken) for i, entry in enumerate(collectors)]
        return Dictionary(
            board=_text(board),
            agent_version=_text(agent_version),
            arena_bytes=_number(arena_bytes),
            functions=tuple(
                FunctionInfo(i, _text(name), _text(signature), bool(measurable))
                for i, (name, signature, measurable) in enumerate(functions)
            ),
            collectors=tuple(infos),
        )
    except (ValueError, IndexError, TypeError) as error:
        raise LinkError(
            f"The board's dictionary cannot be read: {error}",
            hint="build the firmware again with this boardprof",
        ) from error


def _sections(stored: bytes) -> list[list[list[object]]]:
    if len(stored) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    import msgpack  # readers of Reports need only the types in this module

    sections: list[list[list[object]]] = [[]]
    # This limit keeps a few bytes from asking for an array of a hundred million elements.
    unpacker = msgpack.Unpacker(
        raw=False, max_buffer_size=MOST_BYTES, max_array_len=_MOST_FIELDS, max_map_len=0
    )
    unpacker.feed(stored)
    for entry in unpacker:
        if entry is None:
            sections.append([])
        elif isinstance(entry, list):
            sections[-1].append(entry)
        else:
            raise TypeError(f"{entry!r:.60} is not an entry")
    return sections[:-1]


def _collector(
    index: int, entry: Sequence[object], counters: Iterator[CounterInfo], taken: set[str]
) -> CollectorInfo:
    """Parse one collector; take its counters from ``counters``, and add names to ``taken``."""
    name, schema_id, version, layout_crc, count = entry
    own = list(itertools.islice(counters, _number(count)))
    if len(own) != count:
        raise ValueError(
            f"collector {name!r:.60} has {count} counters, but {len(own)} are described"
        )
    # Two collectors may count the same thing; neither may hide the other.
    apart = [replace(c, name=f"{name}.{c.name}") if c.name in taken else c for c in own]
    taken.update(counter.name for counter in apart)
    return CollectorInfo(
        index, _text(name), _number(schema_id), _number(version), _number(layout_crc), tuple(apart)
    )


def _counter(entry: Sequence[object]) -> CounterInfo:
    name, source, bits, hz, coarse_hz, counts_in_sleep, status, detail = entry
    return CounterInfo(
        _text(name),
        _text(source),
        _number(bits, 1, _WIDEST_BITS),
        _number(hz),
        _number(coarse_hz),
        bool(counts_in_sleep),
        CounterStatus(_number(status)),
        _number(detail, most=_LAST_ERRNO),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not a text")
    return value


def _number(value: object, least: int = 0, most: int = 0xFFFFFFFF) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r:.60} is not a number")
    if not least <= value <= most:
        raise ValueError(f"{value} is not within {least} to {most}")
    return value
