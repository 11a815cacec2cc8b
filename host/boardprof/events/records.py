# SPDX-License-Identifier: Apache-2.0
"""From blocks of words to events: columns of times, numbers and values (SPEC.md 5.12)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from boardprof.errors import DecodeError
from boardprof.events.probe_names import ProbeNames
from boardprof_protocol.codes import TraceBlockFlag, TraceId
from boardprof_protocol.trace import TRACE_BLOCK

_HEADER = struct.Struct("<BBHIIIIQ")
"""`TRACE_BLOCK`; struct is twenty times as fast as construct."""

_HINT = "trace the firmware again; if this happens again, its image is not the one that runs"


@dataclass(frozen=True)
class Block:
    """A block of one core's records.

    Attributes:
        core: its number.
        sequence: words of this core before it, modulo 2^32.
        dropped: events that this core has dropped so far.
        is_last: recording has ended, and no block follows.
        whole: it ends with the last record that there was, at the time ``last``.
        last: the trace clock of that record, 32 bits.
        now: the trace clock when the block was made, 32 bits.
        ticks: the port's tick counter at the same time.
        words: the records.
    """

    core: int
    sequence: int
    dropped: int
    is_last: bool
    whole: bool
    last: int
    now: int
    ticks: int
    words: npt.NDArray[np.uint32]


def blocks(content: bytes, order: str = "<") -> Iterator[Block]:
    """Yield the blocks in a stream's bytes; one that is cut off at the end is left out.

    Args:
        content: from the stream's beginning.
        order: of the bytes of records, ``<`` or ``>``.
    """
    at = 0
    while at + _HEADER.size <= len(content):
        core, flags, count, sequence, dropped, last, now, ticks = _HEADER.unpack_from(content, at)
        at += _HEADER.size
        if at + 4 * count > len(content):
            return
        words = np.frombuffer(content, f"{order}u4", count, at).astype(np.uint32, copy=False)
        at += 4 * count
        is_last, whole = bool(flags & TraceBlockFlag.LAST), bool(flags & TraceBlockFlag.WHOLE)
        yield Block(core, sequence, dropped, is_last, whole, last, now, ticks, words)


@dataclass(frozen=True)
class Events:
    """The events of one core, in their order.

    Attributes:
        time: ticks of the trace clock since recording began.
        number: what happened: a number of a name, or a `TraceId`.
        value: its value; 0 if it has none.
        late: whether recording it took longer than usual.
        took: if so, the ticks up to the place in the agent that is known.
    """

    time: npt.NDArray[np.int64]
    number: npt.NDArray[np.uint16]
    value: npt.NDArray[np.uint32]
    late: npt.NDArray[np.bool_]
    took: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        """Return how many events there are."""
        return len(self.time)

    @property
    def dropped(self) -> int:
        """Events that the board says it has dropped between these."""
        return int(self.value[self.number == TraceId.DROPPED].sum(dtype=np.int64))


def decode_words(words: npt.NDArray[np.uint32], names: ProbeNames) -> Events:
    """Decode the words of one core, from its first record on.

    A record that is cut off at the end is left out.

    Raises:
        DecodeError: they have a number that no name has.
    """
    pieces, at, now = [], 0, 0
    while at < len(words):
        piece = words[at : at + _PIECE]
        records = _records(piece, names.has_value, is_last=at + _PIECE >= len(words))
        if not records.count:
            break
        events = _events(records, now, names.end)
        pieces.append(events)
        now += records.span
        at += records.words
    return join(pieces)


def gap(time: int) -> Events:
    """Return an event that says that others were left out, since their times are not known."""
    return Events(
        np.array([time], np.int64),
        np.array([TraceId.DROPPED], np.uint16),
        np.zeros(1, np.uint32),
        np.zeros(1, np.bool_),
        np.zeros(1, np.uint32),
    )


_PIECE = 1 << 16
"""Words that are decoded at once: as many as the processor's cache holds."""


def join(pieces: Sequence[Events]) -> Events:
    """Return the events of all pieces, one after the other."""
    if not pieces:
        return Events(*(np.zeros(0, kind) for kind in ("i8", "u2", "u4", "?", "u4")))
    return Events(
        np.concatenate([each.time for each in pieces]),
        np.concatenate([each.number for each in pieces]),
        np.concatenate([each.value for each in pieces]),
        np.concatenate([each.late for each in pieces]),
        np.concatenate([each.took for each in pieces]),
    )


@dataclass(frozen=True)
class _Records:
    """Records as they stand in words: id, delta and value of each one."""

    id: npt.NDArray[np.uint16]
    delta: npt.NDArray[np.int64]
    value: npt.NDArray[np.uint32]
    words: int

    @property
    def count(self) -> int:
        return len(self.id)

    @property
    def span(self) -> int:
        return int(self.delta.sum())


def _records(
    words: npt.NDArray[np.uint32], has_value: npt.NDArray[np.bool_], *, is_last: bool
) -> _Records:
    """Find the records in words, which begin with one.

    After a word whose low byte is the id of a record of one word there always begins another
    record: either it is such a record, or it is a value. Up to the next such word, records of two
    words follow each other.
    """
    low = (words & 255).astype(np.uint8)
    two = has_value.take(low)
    where = np.arange(len(words), dtype=np.int32)
    begin = np.zeros(len(words), np.int32)
    np.maximum.accumulate(np.where(two, 0, where + 1)[:-1], out=begin[1:])
    starts = np.flatnonzero(((where - begin) & 1) == 0)
    used = len(words)
    last = starts[-1]
    if two[last] and last + 1 == len(words):
        starts, used = starts[:-1], used - 1
    first = words[starts]
    with_value = two[starts]
    value = np.append(words[1:], np.uint32(0))[starts] * with_value
    delta = (first >> 8).astype(np.int64)
    id_ = low[starts]
    long = id_ == TraceId.LONG
    if long.any():
        delta[long] += (value[long] & 255).astype(np.int64) << 24
    wrapped = id_ == TraceId.WRAPPED
    if wrapped.any():
        delta[wrapped] += value[wrapped].astype(np.int64) << 32
    end = len(starts)
    # What belongs together must not be taken apart.
    if not is_last and end > 1 and id_[-1] in (TraceId.WIDE, TraceId.LONG):
        end, used = end - 1, int(starts[-1])
    return _Records(id_[:end].astype(np.uint16), delta[:end], value[:end], used)


_IS_NO_EVENT = np.zeros(1 << 16, np.bool_)
"""By number: records that only say more of the event that follows, or of the one before."""

_IS_NO_EVENT[[TraceId.LONG, TraceId.WRAPPED, TraceId.VALUE]] = True
_IS_SPECIAL = _IS_NO_EVENT.copy()
_IS_SPECIAL[TraceId.WIDE] = True


def _events(records: _Records, now: int, end: int) -> Events:
    """Return records as events: wide numbers put together, long deltas left out."""
    number, value = records.id, records.value
    time = np.cumsum(records.delta)
    time += now
    late, took = np.zeros(len(number), np.bool_), np.zeros(len(number), np.uint32)
    special = _IS_SPECIAL.take(number)
    if special.any():
        wide = np.flatnonzero(number == TraceId.WIDE)
        following = np.minimum(wide + 1, len(number) - 1)
        has_value = number[following] == TraceId.VALUE
        late[1:] = number[:-1] == TraceId.LONG
        took[1:] = np.where(late[1:], value[:-1] >> 8, 0)
        kept = ~_IS_NO_EVENT.take(number)
        number[wide] = value[wide]
        value[wide] = np.where(has_value, value[following], 0)
        late, took = late[kept], took[kept]
        time, number, value = time[kept], number[kept], value[kept]
    if len(number) and int(number.max()) >= end:
        raise DecodeError(
            f"An event has the number {number.max()}, and the image has names up to {end - 1}.",
            hint=_HINT,
        )
    return Events(time, number, value, late, took)


def kept_blocks(
    core: int,
    words: npt.NDArray[np.uint32],
    at: int,
    written: int,
    last: int,
    names: ProbeNames,
) -> bytes:
    """Return blocks with the records of a ring that was overwritten, the oldest one first.

    Each record has two words there. When the oldest one was recorded is not known: its time is 0.

    Args:
        core: its number.
        words: of the ring.
        at: where the next record would begin.
        written: words since recording began, modulo 2^32.
        last: clock of the newest record.
        names: of the image.
    """
    count = min(written, len(words))
    pairs = np.roll(words, -at)[len(words) - count :].reshape(-1, 2)
    ids = pairs[:, 0] & 255
    if len(pairs) and ids[0] == TraceId.VALUE:  # its number is overwritten
        pairs, ids = pairs[1:], ids[1:]
    kept = np.ones(pairs.shape, np.bool_)
    kept[:, 1] = names.has_value[ids]
    records = pairs.copy()
    if len(records):
        records[0, 0] &= 255
        if ids[0] in (TraceId.LONG, TraceId.WRAPPED):
            records[0, 1] = 0
    found = records[kept]
    return b"".join(
        _block(core, at, found[at : at + _BLOCK], last, whole=at + _BLOCK >= len(found))
        for at in range(0, max(len(found), 1), _BLOCK)
    )


_BLOCK = 1 << 15
"""Words of a block that the host makes."""


def _block(
    core: int, sequence: int, words: npt.NDArray[np.uint32], last: int, *, whole: bool
) -> bytes:
    head = empty_block(core, last, whole=whole)
    header = {**TRACE_BLOCK.struct.parse(head), "words": len(words), "sequence": sequence}
    return bytes(TRACE_BLOCK.struct.build(header)) + words.tobytes()


def empty_block(core: int, now: int, ticks: int = 0, *, whole: bool = True) -> bytes:
    """Return a block without records, made at the time of the last record."""
    flags = TraceBlockFlag.WHOLE if whole else 0
    return _HEADER.pack(core, flags, 0, 0, 0, now, now, ticks)
