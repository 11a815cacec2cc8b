# SPDX-License-Identifier: Apache-2.0
"""Decoding of many samples at once, as numpy records whose dtype comes from the layouts.

Only `decode.samples` knows what a reading means. It is asked once for each new set of numbers, and
equal readings share one object. If anything about the blobs is wrong, it decodes all of them, so
that errors are the same on both paths.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from boardprof.base.errors import DecodeError
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import (
    Layouts,
    Reading,
    Sample,
    SentCounter,
    decode_samples,
    ran,
    reading_of,
    shorter,
)
from boardprof_protocol.blob import BLOB_HEADER, encode_blob
from boardprof_protocol.layout import Counter

if TYPE_CHECKING:  # numpy takes a while to import: only many samples are worth it
    import numpy as np
    import numpy.typing as npt

    Records = npt.NDArray[np.void]


MANY: Final = 1000
"""With fewer samples, construct is faster than importing numpy."""

_COARSE_BITS = 32


def decode_batch(
    data: bytes,
    collectors: Sequence[CollectorInfo],
    layouts: Layouts,
    *,
    longest_s: float | None = None,
) -> list[Sample]:
    """Decode many samples like `decode_samples`, twenty times as fast."""
    records = records_of(data, collectors, layouts)
    if records is not None:
        counters = [each for i, c in enumerate(collectors) for each in _counters(i, c, layouts)]
        try:
            return _samples(data, records, counters, longest_s)
        except DecodeError:  # the slow path also says where
            pass
    return decode_samples(data, collectors, layouts, longest_s=longest_s)


def records_of(
    data: bytes, collectors: Sequence[CollectorInfo], layouts: Layouts
) -> Records | None:
    """Return one record for each sample's blobs; None if anything about a blob is wrong.

    Field ``fI`` is the collector of index i, with ``header``, ``body`` and ``crc``.
    """
    import numpy as np

    parts = [
        [("header", BLOB_HEADER.dtype), ("body", layouts[each.schema_id].dtype), ("crc", "<u4")]
        for each in collectors
    ]
    record = np.dtype([(f"f{i}", part) for i, part in enumerate(parts)])
    count, rest = divmod(len(data), record.itemsize)
    if rest or not count:
        return None
    blobs = tuple(
        (each.schema_id, each.version, layouts[each.schema_id].size) for each in collectors
    )
    records = np.frombuffer(data, record)
    is_right = zlib.crc32(data) == _crc(blobs, count) and all(
        (records[f"f{i}"]["header"][name] == value).all()
        for i, blob in enumerate(blobs)
        for name, value in zip(("schema_id", "version", "length"), blob, strict=True)
    )
    return records if is_right else None


@lru_cache(maxsize=64)
def _crc(blobs: tuple[tuple[int, int, int], ...], count: int) -> int:
    """Return the CRC-32 over this many samples whose blobs all have correct CRCs.

    A CRC over bytes and their own CRC depends only on the length, so one pass in C checks all
    blobs. One damaged blob is always found, because no information is lost from blob to blob.
    """
    sample = b"".join(encode_blob(schema, version, bytes(size)) for schema, version, size in blobs)
    return zlib.crc32(sample * count)


@dataclass(frozen=True)
class _Counter:
    """A counter of the collector with that index, and the one that bounds it."""

    index: int
    meaning: Counter
    info: CounterInfo
    bound: _Counter | None = None

    def columns(self, records: Records) -> dict[str, Sequence[int]]:
        """Return the fields that a reading depends on, with one number per sample.

        Start and stop become their difference, as if each window began at 0.
        """
        body, meaning = records[f"f{self.index}"]["body"], self.meaning
        found: dict[str, npt.NDArray[np.integer[Any]]] = {}
        found[meaning.stop] = _steps(body, meaning.start, meaning.stop, self.info.bits)
        if meaning.coarse_start and meaning.coarse_stop:
            coarse = _steps(body, meaning.coarse_start, meaning.coarse_stop, _COARSE_BITS)
            found[meaning.coarse_stop] = coarse
        if meaning.wraps is not None:
            seen = _whole(body, meaning.stop) < _whole(body, meaning.start)
            wraps = _whole(body, meaning.wraps)
            if (wraps < seen).any():
                raise DecodeError("A counter stepped back.", path=meaning.wraps)
            found[meaning.wraps] = wraps - seen
        others = (meaning.own_return, meaning.enabled, meaning.running)
        for name in (*others, meaning.interrupts, meaning.interrupt_cost):
            if isinstance(name, str):
                found[name] = _whole(body, name)
        return {name: column.tolist() for name, column in found.items()}

    def found(self, numbers: Mapping[str, int], bound: SentCounter | None = None) -> SentCounter:
        """Return the counter as if these numbers were the fields of one sample's blob."""
        starts = (self.meaning.start, self.meaning.coarse_start)
        fields = {**{name: 0 for name in starts if name is not None}, **numbers}
        return SentCounter(fields, self.meaning, self.info, bound)

    @property
    def is_clock(self) -> bool:
        """Whether `shorter` uses it."""
        return self.info.bits == 64 and self.info.hz > 0 and self.meaning.unit == "ticks"


def _counters(index: int, collector: CollectorInfo, layouts: Layouts) -> list[_Counter]:
    meanings = layouts[collector.schema_id].counters
    found = [
        _Counter(index, meaning, info)
        for meaning, info in zip(meanings, collector.counters, strict=True)
    ]
    by_name = {each.meaning.name: each for each in found}
    return [
        _Counter(index, each.meaning, each.info, by_name.get(each.meaning.bound or ""))
        for each in found
    ]


def _whole(body: Records, name: str) -> npt.NDArray[np.integer[Any]]:
    column = body[name]
    if column.ndim > 1 or column.dtype.kind == "f":
        raise DecodeError(f"{name} is not one whole number.", path=name)
    return column


def _steps(body: Records, start: str, stop: str, bits: int) -> npt.NDArray[np.uint64]:
    """Return ``stop - start`` modulo the counter's width."""
    import numpy as np

    ends = (_whole(body, name).astype(np.uint64) for name in (stop, start))
    return np.subtract(*ends) & np.uint64((1 << bits) - 1)


def _samples(
    data: bytes, records: Records, counters: Sequence[_Counter], longest_s: float | None
) -> list[Sample]:
    longest = _longest(records, counters, longest_s)
    readings = [_readings(each, records, longest) for each in counters]
    names, size = [each.info.name for each in counters], records.itemsize
    return [
        Sample(
            {
                name: reading
                for name, reading in zip(names, row, strict=True)
                if reading is not None
            },
            data[start : start + size],
        )
        for start, *row in zip(range(0, len(data), size), *readings, strict=True)
    ]


def _longest(
    records: Records, counters: Sequence[_Counter], longest_s: float | None
) -> Sequence[float | None]:
    """Return the longest that each window may have taken; see `shorter`."""
    clocks = [each for each in counters if each.is_clock]
    if not clocks:
        return [longest_s] * len(records)
    rows = zip(*(_founds(each, records) for each in clocks), strict=True)
    return [
        shorter(longest_s, [found for found in row if ran(found.fields, found.meaning)])
        for row in rows
    ]


def _founds(counter: _Counter, records: Records) -> list[SentCounter]:
    columns = counter.columns(records)
    rows = zip(*columns.values(), strict=True)
    return [counter.found(dict(zip(columns, row, strict=True))) for row in rows]


class _Known(dict[tuple[Any, ...], "Reading | None"]):
    """Cache of one counter's readings, by all values that they depend on."""

    def __init__(self, counter: _Counter, names: Sequence[str], bounds: Sequence[str]) -> None:
        """Begin with an empty cache; its keys are the longest time, ``names`` and ``bounds``."""
        self._counter, self._names, self._bounds = counter, names, bounds

    def __missing__(self, key: tuple[Any, ...]) -> Reading | None:
        counter, first = self._counter, 1 + len(self._names)
        bound = None
        if counter.bound is not None:
            bound = counter.bound.found(dict(zip(self._bounds, key[first:], strict=True)))
        found = counter.found(dict(zip(self._names, key[1:first], strict=True)), bound)
        reading = reading_of(found, key[0]) if ran(found.fields, found.meaning) else None
        self[key] = reading
        return reading


def _readings(
    counter: _Counter, records: Records, longest: Sequence[float | None]
) -> list[Reading | None]:
    columns = counter.columns(records)
    bounds = counter.bound.columns(records) if counter.bound else {}
    known = _Known(counter, [*columns], [*bounds])
    keys = zip(longest, *columns.values(), *bounds.values(), strict=True)
    return list(map(known.__getitem__, keys))
