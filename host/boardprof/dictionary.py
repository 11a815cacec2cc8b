# SPDX-License-Identifier: Apache-2.0
"""What a board offers: its packed functions, collectors and counters (SPEC.md 5).

The board answers entry by entry. Its dictionary hash is the CRC-32 over all answers, so the host
can keep them and ask no more until the hash changes.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgpack

from boardprof.errors import FrameError, LinkError, UnknownNameError
from boardprof.session import Session, Welcome
from boardprof_protocol.codes import BuiltIn, CounterStatus

__all__ = ["CollectorInfo", "CounterInfo", "Dictionary", "FunctionInfo", "fetch_dictionary"]

_SECTIONS = 4


@dataclass(frozen=True)
class FunctionInfo:
    """A packed function: id for the wire, name for people.

    ``signature`` is such as ``(n: u32) -> i32``, or empty when only the board knows it.
    """

    id: int
    name: str
    signature: str
    measurable: bool


@dataclass(frozen=True)
class CounterInfo:
    """One counter as the board describes it.

    Attributes:
        name: the metric's name.
        source: the register or call that it is read from.
        bits: width; differences are modulo 2**bits.
        hz: rate of a clock, 0 for what is no clock.
        coarse_hz: rate of the slower clock that tells its wraps, 0: none.
        counts_in_sleep: whether it goes on while the core sleeps.
        status: whether it can be trusted.
        detail: the system's error number when it was refused.
    """

    name: str
    source: str
    bits: int
    hz: int
    coarse_hz: int
    counts_in_sleep: bool
    status: CounterStatus
    detail: int

    @property
    def unsupported(self) -> str | None:
        """Why there is no such count on this board, or None when there is."""
        if self.status is CounterStatus.OK:
            return None
        if self.status is CounterStatus.ABSENT:
            return f"this core has no {self.source}"
        if self.status is CounterStatus.STUCK:
            return f"{self.source} does not advance"
        return f"{self.source} was refused: {os.strerror(self.detail)} (errno {self.detail})"


@dataclass(frozen=True)
class CollectorInfo:
    """One collector: which layout its blobs have, and its counters."""

    index: int
    name: str
    schema_id: int
    version: int
    layout_crc: int
    counters: tuple[CounterInfo, ...]


@dataclass(frozen=True)
class Dictionary:
    """All that a board offers.

    ``arena_bytes`` is the memory that the host may use through handles, 0: none.
    """

    board: str
    agent_version: str
    arena_bytes: int
    functions: tuple[FunctionInfo, ...]
    collectors: tuple[CollectorInfo, ...]

    def function(self, name: str) -> FunctionInfo:
        """Find a function.

        Raises:
            UnknownNameError: there is none of that name; lists what there is.
        """
        for function in self.functions:
            if function.name == name:
                return function
        raise UnknownNameError("function", name, [f.name for f in self.user_functions])

    @property
    def user_functions(self) -> tuple[FunctionInfo, ...]:
        """The functions that are not the agent's own: those that can be measured or called."""
        own = {f"{c.name}.{op}" for c in self.collectors for op in ("init", "start", "stop")}
        return tuple(
            f for f in self.functions if not f.name.startswith("bp.") and f.name not in own
        )

    def collector(self, name: str) -> CollectorInfo:
        """Find a collector.

        Raises:
            UnknownNameError: there is none of that name; lists what there is.
        """
        for collector in self.collectors:
            if collector.name == name:
                return collector
        raise UnknownNameError("collector", name, [c.name for c in self.collectors])


def fetch_dictionary(session: Session, cache: Path | None) -> Dictionary:
    """Ask the board, or take what was kept of a board with the same build and hash.

    Args:
        session: open.
        cache: folder for kept dictionaries, or None.

    Raises:
        FrameError: what the board says contradicts its own hash, or is no dictionary.
    """
    welcome = session.welcome
    assert welcome is not None, "the session is open"
    kept = None if cache is None else cache / _file_name(welcome)
    if kept is not None:
        with contextlib.suppress(OSError):
            stored = kept.read_bytes()
            if zlib.crc32(stored) == welcome.dictionary_hash:
                return _parse(stored)
    stored = b"".join(_ask(session))
    if zlib.crc32(stored) != welcome.dictionary_hash:
        raise FrameError(
            f"The dictionary of {session.transport.name} does not match its hash: "
            f"{zlib.crc32(stored):#010x}, WELCOME said {welcome.dictionary_hash:#010x}.",
            hint="connect again",
        )
    if kept is not None:
        _keep(kept, stored)
    return _parse(stored)


def _file_name(welcome: Welcome) -> str:
    return f"{welcome.build_id.hex()}-{welcome.dictionary_hash:08x}.msgpack"


def _keep(path: Path, stored: bytes) -> None:
    # A cache that cannot be written costs time, nothing else.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(stored)
        temporary.replace(path)


def _ask(session: Session) -> Iterator[bytes]:
    for section in range(_SECTIONS):
        index = 0
        while True:
            arguments = bytes(msgpack.packb(section)) + bytes(msgpack.packb(index))
            result = session.call(BuiltIn.DESCRIBE, arguments, 2, name="bp.describe")
            yield result.body
            if result.value is None:
                break
            index += 1


def _sections(stored: bytes) -> list[list[list[object]]]:
    sections: list[list[list[object]]] = [[]]
    unpacker = msgpack.Unpacker(raw=False)
    unpacker.feed(stored)
    for entry in unpacker:
        if entry is None:
            sections.append([])
        elif isinstance(entry, list):
            sections[-1].append(entry)
    return sections[:-1]


def _parse(stored: bytes) -> Dictionary:
    try:
        firmware, functions, collectors, counters = _sections(stored)
        board, agent_version, arena_bytes = firmware[0]
        left = [_counter(entry) for entry in counters]
        infos = []
        for index, entry in enumerate(collectors):
            infos.append(_collector(index, entry, left))
            left = left[len(infos[-1].counters) :]
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


def _collector(
    index: int, entry: Sequence[object], counters: Sequence[CounterInfo]
) -> CollectorInfo:
    name, schema_id, version, layout_crc, count = entry
    return CollectorInfo(
        index,
        _text(name),
        _number(schema_id),
        _number(version),
        _number(layout_crc),
        tuple(counters[: _number(count)]),
    )


def _counter(entry: Sequence[object]) -> CounterInfo:
    name, source, bits, hz, coarse_hz, counts_in_sleep, status, detail = entry
    return CounterInfo(
        _text(name),
        _text(source),
        _number(bits),
        _number(hz),
        _number(coarse_hz),
        bool(counts_in_sleep),
        CounterStatus(_number(status)),
        _number(detail),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    return value
