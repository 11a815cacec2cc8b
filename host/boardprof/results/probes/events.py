# SPDX-License-Identifier: Apache-2.0
"""From blocks of words to events, with the names that the image has for them (SPEC.md 5.12)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import DecodeError
from boardprof_protocol.codes import TRACE_FIRST_NAME, ProbeKind, TraceBlockFlag, TraceId

NAMES_SECTION = "bp_trace_names"  # of the ELF file

CHECK_SECTION = "bp_trace_check"  # of the ELF file, and of the board's memory: a hash of each name

ADDRESSES = (TraceId.TASK, TraceId.ALLOC, TraceId.SIZE, TraceId.CALLER, TraceId.FREE)
"""Records that may follow HIGH, which has bits 32 to 63 of their values."""

_PAIRS = frozenset({ProbeKind.RANGE, ProbeKind.INTERRUPT})  # names with two numbers: begin and end

VALUES = frozenset({ProbeKind.U32, ProbeKind.I32, ProbeKind.F32})  # kinds of names with a value


@dataclass(frozen=True)
class ProbeName:
    """A name; the end of a range or an interrupt has the number after that of its begin."""

    number: int
    kind: ProbeKind
    text: str


@dataclass(frozen=True)
class ProbeNames:
    """The names in an image, in the order of their numbers."""

    names: Sequence[ProbeName]

    @cached_property
    def end(self) -> int:
        """The first number after those of all names."""
        if not self.names:
            return TRACE_FIRST_NAME
        last = self.names[-1]
        return last.number + (2 if last.kind in _PAIRS else 1)

    @cached_property
    def by_number(self) -> dict[int, ProbeName]:
        """The names by each of their numbers."""
        ends = {name.number + 1: name for name in self.of_kind(*_PAIRS)}
        return {name.number: name for name in self.names} | ends

    @cached_property
    def has_value(self) -> npt.NDArray[np.bool_]:
        """Whether the record of an id, 0 to 255, has a value."""
        found = np.zeros(256, np.bool_)
        found[[each for each in TraceId if each != TraceId.INTERRUPT_EXIT]] = True
        found[[name.number for name in self.of_kind(*VALUES) if name.number < 256]] = True
        return found

    @cached_property
    def unusual(self) -> npt.NDArray[np.uint8]:
        """What is unusual of the record of an id, 0 to 255.

        0: nothing, 1: it belongs to the record after it or before it, 2: there is no such id.
        """
        found = np.full(256, 2, np.uint8)
        found[list(TraceId)] = 0
        found[TRACE_FIRST_NAME : self.end] = 0
        found[[TraceId.LONG, TraceId.WIDE, TraceId.VALUE, TraceId.WRAPPED]] = 1
        return found

    def of_kind(self, *kinds: ProbeKind) -> list[ProbeName]:
        """Return the names of some kinds."""
        return [name for name in self.names if name.kind in kinds]

    def section(self) -> bytes:
        """Return the names as `read_names` reads them."""
        return b"".join(bytes([n.kind]) + n.text.encode() + b"\0" for n in self.names)


def read_names(content: bytes) -> ProbeNames:
    """Read the bytes of the section."""
    names, number, at = [], TRACE_FIRST_NAME, 0
    while at < len(content):
        stop = content.find(b"\0", at + 1)
        try:
            kind, text = ProbeKind(content[at]), content[at + 1 : stop].decode()
        except UnicodeDecodeError:
            raise DecodeError(
                f"The name of a probe, {content[at + 1 : stop]!r:.60}, is not UTF-8.",
                hint="save the source file as UTF-8, or name the probe in ASCII",
            ) from None
        except ValueError:
            stop = -1
        if stop < 0:
            raise DecodeError(
                f"The section {NAMES_SECTION} has no name of a probe at byte {at}.",
                hint="link all files of the firmware against one version of bp_trace.h",
            )
        names.append(ProbeName(number, kind, text))
        number += 2 if kind in _PAIRS else 1
        at = stop + 1
    return ProbeNames(tuple(names))


_HEADER = struct.Struct("<BBHIIIIQ")  # `TRACE_BLOCK`; struct is twenty times as fast as construct

_WHOLE, _LAST = int(TraceBlockFlag.WHOLE), int(TraceBlockFlag.LAST)
_OTHER_CLOCK = int(TraceBlockFlag.OTHER_CLOCK)
"""A flag's own operators would take longer than all else that a block takes."""

_HINT = "trace the firmware again; if this happens again, its image is not the one that runs"


class TraceBlock(NamedTuple):
    """A block of one core's records."""

    core: int
    sequence: int  # words of this core before it, modulo 2^32
    dropped: int  # events that this core has dropped so far
    is_last: bool  # recording has ended, and no block follows
    whole: bool  # it ends with the last record that there was, at the time ``last``
    other_clock: bool  # ``now`` is the clock of another core, which has made the block
    last: int  # the trace clock of that record, 32 bits
    now: int  # the trace clock when the block was made, 32 bits
    ticks: int  # the port's tick counter at the same time
    words: npt.NDArray[np.uint32]  # the records


def blocks(content: bytes, order: str = "<") -> Iterator[TraceBlock]:
    """Yield the blocks in a stream's bytes; one that is cut off at the end is left out."""
    all_words = np.frombuffer(content, f"{order}u4", len(content) // 4)
    all_words = all_words.astype(np.uint32, copy=False)
    at = 0
    while at + _HEADER.size <= len(content):
        core, flags, count, sequence, dropped, last, now, ticks = _HEADER.unpack_from(content, at)
        at += _HEADER.size
        if at + 4 * count > len(content):
            return
        words = all_words[at // 4 : at // 4 + count]
        at += 4 * count
        is_last, whole, other = (bool(flags & each) for each in (_LAST, _WHOLE, _OTHER_CLOCK))
        yield TraceBlock(core, sequence, dropped, is_last, whole, other, last, now, ticks, words)


@dataclass(frozen=True)
class Events:
    """The events of one core, in their order."""

    time: npt.NDArray[np.int64]  # ticks of the trace clock since recording began
    number: npt.NDArray[np.uint16]  # of a name, or a `TraceId`
    value: npt.NDArray[np.uint32]  # 0 if it has none
    late: npt.NDArray[np.bool_]  # whether recording it took longer than usual
    took: npt.NDArray[np.uint32]  # if so, the ticks up to the place in the agent that is known

    def __len__(self) -> int:
        """Return how many events there are."""
        return len(self.time)

    def whole(self, at: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
        """Return the values of the events at ``at``, addresses with what HIGH says of them."""
        found: npt.NDArray[np.int64] = self.value[at].astype(np.int64)
        high = np.flatnonzero(self.number == TraceId.HIGH)
        if len(high):
            is_address = np.isin(self.number, ADDRESSES)
            address = np.flatnonzero(is_address)
            last = high[np.maximum(np.searchsorted(high, at) - 1, 0)]
            is_next = np.searchsorted(address, last) == np.searchsorted(address, at)
            is_next &= is_address[at] & (last < at)
            found[is_next] |= self.value[last[is_next]].astype(np.int64) << 32
        return found

    def where(self, kept: npt.NDArray[np.bool_] | slice) -> Events:
        """Return some of the events."""
        return Events(*(getattr(self, field.name)[kept] for field in fields(self)))

    @property
    def dropped(self) -> int:
        """Events that the board says it has dropped between these."""
        return int(self.value[self.number == TraceId.DROPPED].sum(dtype=np.int64))


def decode_words(words: npt.NDArray[np.uint32], names: ProbeNames) -> Events:
    """Decode the words of one core; a record that is cut off at the end is left out."""
    pieces, at, now = [], 0, 0
    while at < len(words):
        piece = words[at : at + _PIECE]
        records = _records(piece, names.has_value, is_last=at + _PIECE >= len(words))
        if not len(records.id):
            break
        pieces.append(_events(records, now, names))
        now += int(records.delta.sum(dtype=np.int64))
        at += records.words
    return join(pieces)


def count_records(words: npt.NDArray[np.uint32], names: ProbeNames) -> int:
    """Count the records in words that begin with one; quicker than decoding them."""
    return int(np.count_nonzero(_begins(names.has_value.take(words.astype(np.uint8)))))


def gap(time: int, dropped: int = 0) -> Events:
    """Return an event that says how many were dropped; 0 if left out for unknown times."""
    return Events(
        np.array([time], np.int64),
        np.array([TraceId.DROPPED], np.uint16),
        np.array([dropped], np.uint32),
        np.zeros(1, np.bool_),
        np.zeros(1, np.uint32),
    )


_PIECE = 1 << 16  # words that are decoded at once, at most: as many as the processor's cache holds


def join(pieces: Sequence[Events]) -> Events:
    """Return the events of all pieces, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return Events(*(np.zeros(0, kind) for kind in ("i8", "u2", "u4", "?", "u4")))
    names = [field.name for field in fields(Events)]
    return Events(*(np.concatenate([getattr(each, name) for each in pieces]) for name in names))


def gather(pieces: Iterable[Events], most: int) -> Events:
    """Return the events of all pieces, at most ``most``, copying each while the cache has it."""
    time, number = np.empty(most, np.int64), np.empty(most, np.uint16)
    # Zeros that nobody writes or reads take no memory.
    found = Events(time, number, np.zeros(most, np.uint32), *_nothing_late(most))
    count = 0
    for each in pieces:
        place = slice(count, count + len(each))
        found.time[place] = each.time
        found.number[place] = each.number
        if each.value.any():
            found.value[place] = each.value
        if each.late.any():
            found.late[place] = each.late
            found.took[place] = each.took
        count += len(each)
    return found.where(slice(0, count))


def _nothing_late(count: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint32]]:
    return np.zeros(count, np.bool_), np.zeros(count, np.uint32)


class _Records(NamedTuple):
    """Records as they stand in words: id, delta and value of each one."""

    id: npt.NDArray[np.uint8]
    delta: npt.NDArray[np.integer[Any]]
    value: npt.NDArray[np.uint32]
    words: int


_MOST_WRAPS = 1 << 24  # in words that are decoded at once; of a clock of ns that is two years

_ODD = (np.arange(_PIECE) & 1).astype(np.uint8)


def _begins(two: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Tell which words begin a record; the first one does.

    ``two`` is whether a record of two words has such a low byte; at most `_PIECE` words. After a
    word whose low byte is the id of a record of one word there always begins another record: either
    it is such a record, or it is a value. Up to the next such word, records of two words follow
    each other.
    """
    runs = np.concatenate(([0], np.flatnonzero(~two) + 1, [len(two)]))
    begins = np.repeat((runs[:-1] & 1).astype(np.uint8), np.diff(runs))
    found: npt.NDArray[np.bool_] = begins == _ODD[: len(two)]
    return found


def _records(
    words: npt.NDArray[np.uint32], has_value: npt.NDArray[np.bool_], *, is_last: bool
) -> _Records:
    """Find the records in words, which begin with one."""
    two = has_value.take(words.astype(np.uint8))
    starts = np.flatnonzero(_begins(two))
    used = len(words)
    last = starts[-1]
    if two[last] and last + 1 == len(words):
        starts, used = starts[:-1], used - 1
    first = words.take(starts)
    value = np.append(words[1:], np.uint32(0)).take(starts) * two.take(starts)
    delta: npt.NDArray[np.integer[Any]] = np.right_shift(first, 8)
    id_ = first.astype(np.uint8)
    long = np.flatnonzero(id_ == TraceId.LONG)
    if len(long):
        delta[long] += value[long] << 24
    wrapped = np.flatnonzero(id_ == TraceId.WRAPPED)
    if len(wrapped):
        if int(value[wrapped].sum(dtype=np.int64)) > _MOST_WRAPS:
            raise DecodeError("The board's clock has run for years, as its events say.", hint=_HINT)
        delta = delta.astype(np.int64)
        delta[wrapped] += value[wrapped].astype(np.int64) << 32
    end = len(starts)
    # What belongs together must not be taken apart.
    if not is_last and end > 1 and id_[-1] in (TraceId.WIDE, TraceId.LONG):
        end, used = end - 1, int(starts[-1])
    return _Records(id_[:end], delta[:end], value[:end], used)


def _events(records: _Records, now: int, names: ProbeNames) -> Events:
    """Return records as events: wide numbers put together, long deltas left out."""
    id_, value = records.id, records.value
    unusual = names.unusual.take(id_)
    worst = int(unusual.max())
    if worst > 1:
        raise _no_such_number(int(id_[unusual > 1][0]), names)
    time = np.cumsum(records.delta, dtype=np.int64)
    time += now
    number = id_.astype(np.uint16)
    late, took = _nothing_late(len(number))
    if worst:
        wide = np.flatnonzero(id_ == TraceId.WIDE)
        following = np.minimum(wide + 1, len(number) - 1)
        has_value = id_[following] == TraceId.VALUE
        late[1:] = id_[:-1] == TraceId.LONG
        took[1:] = np.where(late[1:], value[:-1] >> 8, 0)
        kept = (id_ != TraceId.LONG) & (id_ != TraceId.VALUE) & (id_ != TraceId.WRAPPED)
        unknown = (value[wide] <= 255) | (value[wide] >= names.end)
        if unknown.any():
            raise _no_such_number(int(value[wide][unknown][0]), names)
        if int(has_value.sum()) != int((id_ == TraceId.VALUE).sum()):
            raise DecodeError("An event has a value and no number.", hint=_HINT)
        number[wide] = value[wide]
        value[wide] = np.where(has_value, value[following], 0)
        late, took = late[kept], took[kept]
        time, number, value = time[kept], number[kept], value[kept]
    return Events(time, number, value, late, took)


def _no_such_number(number: int, names: ProbeNames) -> DecodeError:
    return DecodeError(
        f"An event has the number {number}, and the image has names up to {names.end - 1}.",
        hint=_HINT,
    )


def kept_blocks(
    core: int, words: npt.NDArray[np.uint32], at: int, written: int, last: int, names: ProbeNames
) -> bytes:
    """Return blocks with the records of a ring that was overwritten, the oldest one first.

    Each record has two words there. The time of the oldest one is not known: it is 0. ``at`` is
    where the next record would begin, and ``written`` is words since recording began, modulo 2^32.
    """
    count = min(written, len(words))
    pairs = np.roll(words, -at)[len(words) - count :].reshape(-1, 2)
    ids = pairs[:, 0] & 255
    is_cut = np.isin(ids[:1], ADDRESSES).any() and (ids == TraceId.HIGH).any()
    if len(pairs) and (is_cut or ids[0] == TraceId.VALUE):  # HIGH or its number is overwritten
        pairs, ids = pairs[1:], ids[1:]
    kept = np.ones(pairs.shape, np.bool_)
    kept[:, 1] = names.has_value[ids]
    records = pairs.copy()
    if len(records):
        records[0, 0] &= 255
        if ids[0] in (TraceId.LONG, TraceId.WRAPPED):
            records[0, 1] = 0
    found = records[kept]
    parts = {at: found[at : at + _BLOCK].tobytes() for at in range(0, max(len(found), 1), _BLOCK)}
    return b"".join(
        block_of(core, last, words, at, whole=at + _BLOCK >= len(found))
        for at, words in parts.items()
    )


_BLOCK = 1 << 15  # words of a block that the host makes


def block_of(
    core: int, now: int, words: bytes = b"", at: int = 0, ticks: int = 0, *, whole: bool = True
) -> bytes:
    """Return a block that the host makes, at the time of the last record; it may have none."""
    flags = TraceBlockFlag.WHOLE if whole else 0
    return _HEADER.pack(core, flags, len(words) // 4, at, 0, now, now, ticks) + words
