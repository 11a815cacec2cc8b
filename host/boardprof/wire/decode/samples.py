# SPDX-License-Identifier: Apache-2.0
"""Decoding of blobs to counts: differences of a layout's fields, modulo the counter's width.

Few samples are read by construct, many at once by numpy. A blob that does not fit its layout is an
error that names the field and the byte. There are no partial results.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from boardprof.base.errors import DecodeError
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof_protocol.blob import BLOB_HEADER, Blob, BlobError, encode_blob, split_blobs
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.layout import Counter, Layout

if TYPE_CHECKING:  # numpy takes a while to import: only many samples are worth it
    import numpy as np
    import numpy.typing as npt

    Records = npt.NDArray[np.void]

Layouts = Mapping[int, Layout]
"""Layouts by schema id."""


_FASTEST_HZ = 4_000_000_000  # highest rate assumed for a counter of unknown rate


@dataclass(frozen=True, slots=True)
class Reading:
    """What one counter counted in one window."""

    value: int  # stop - start, with wraps resolved as far as the board allows
    unit: str  # ``count``, ``ns`` or ``ticks``
    hz: int = 0  # rate of a clock; 0 if it is not a clock
    own_return: int = 0  # see `boardprof_protocol.layout.Counter`
    wrapped: int = 0  # how often, within the window
    ambiguous: bool = False  # it may have wrapped more often
    estimated: bool = False  # only part of the window was counted: its hardware was shared
    enabled_ns: int = 0  # of an estimate: how long it should have counted
    running_ns: int = 0  # and how long it has
    outside_hooks: int = 0  # what interrupts took outside of hooks; of no function

    @property
    def uninterrupted(self) -> int:
        """The value without what interrupts took outside of their hooks."""
        return self.value - self.outside_hooks


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured window: readings by counter name, and the blobs that they came from."""

    readings: dict[str, Reading]
    raw: bytes


def decode_samples(
    data: bytes,
    collectors: Sequence[CollectorInfo],
    layouts: Layouts,
    *,
    longest_s: float | None = None,
) -> list[Sample]:
    """Split the blobs of several samples, back to back, and decode each sample.

    ``longest_s``: upper bound on the length of a window by a clock of the host; None if the board's
    clock is simulated. Offsets in errors are counted from the first byte of ``data``.
    """
    try:
        blobs = list(split_blobs(data))
    except BlobError as error:
        raise DecodeError(f"{error}.", path=error.path, offset=error.offset) from error
    if not blobs or len(blobs) % len(collectors):
        raise DecodeError(
            f"{len(blobs)} blobs do not make whole samples of {len(collectors)} collectors.",
            path=f"blob[{len(blobs)}]",
            offset=len(data),
        )
    counters = _counters(collectors, layouts)
    offsets = itertools.accumulate((len(blob.raw) for blob in blobs), initial=0)
    placed = zip(offsets, blobs, strict=False)
    groups = zip(*[placed] * len(collectors), strict=True)
    return [_sample(group, collectors, counters, layouts, longest_s) for group in groups]


def _sample(
    blobs: Sequence[tuple[int, Blob]],
    collectors: Sequence[CollectorInfo],
    counters: Sequence[_SentCounter],
    layouts: Layouts,
    longest_s: float | None,
) -> Sample:
    bodies = [
        _fields(blob, offset, collector, layouts)
        for (offset, blob), collector in zip(blobs, collectors, strict=True)
    ]
    found = [(each, bodies[each.index]) for each in counters if each.ran(bodies[each.index])]
    longest_s = _shorter(longest_s, found)
    readings = {each.info.name: each.reading(body, body, longest_s) for each, body in found}
    return Sample(readings, b"".join(blob.raw for _, blob in blobs))


def _fields(blob: Blob, start: int, collector: CollectorInfo, layouts: Layouts) -> Any:
    """Parse the blob at byte ``start``."""
    if (blob.schema_id, blob.version) != (collector.schema_id, collector.version):
        raise DecodeError(
            f"Collector {collector.name!r} sent a blob of schema {blob.schema_id} version "
            f"{blob.version}; its dictionary says schema {collector.schema_id} version "
            f"{collector.version}.",
            path=f"{collector.name}.header",
            offset=start,
        )
    layout = layouts[collector.schema_id]
    if len(blob.body) != layout.size:
        path, offset = _first_misfit(layout, len(blob.body), collector.name)
        raise DecodeError(
            f"Collector {collector.name!r} sent {len(blob.body)} bytes; {layout.name} version "
            f"{layout.version} has {layout.size}.",
            path=path,
            offset=start + BLOB_HEADER.size + offset,
        )
    return layout.struct.parse(blob.body)


def _first_misfit(layout: Layout, length: int, name: str) -> tuple[str, int]:
    """Return the field at which a body is cut off, or the place where the surplus begins."""
    offset = 0
    for field in layout.fields:
        if offset + field.size > length:
            return f"{name}.{field.name}", offset
        offset += field.size
    return f"{name}.(end)", offset


@dataclass(frozen=True)
class _SentCounter:
    """A counter in the blobs of the collector with that index, and the one that bounds it."""

    index: int
    meaning: Counter
    info: CounterInfo
    bound: _SentCounter | None = None
    clock: CounterInfo | None = None  # whose ticks are counted in instructions

    @property
    def is_clock(self) -> bool:
        """Whether it is a clock of the board that never wraps."""
        return self.info.bits == 64 and self.info.hz > 0 and self.meaning.unit == "ticks"

    def ran(self, fields: Any) -> bool:
        """Tell whether it ran at all; one that never ran has no value, not 0."""
        meaning = self.meaning
        if meaning.enabled is None or meaning.running is None:
            return True
        return bool(fields[meaning.running]) or not fields[meaning.enabled]

    def reading(self, fields: Any, bounds: Any, longest_s: float | None) -> Reading:
        """Return what it counted in a window of ``longest_s`` at most, if that is known.

        ``bounds``: the fields of the counter that bounds it.
        """
        meaning, info = self.meaning, self.info
        hz = self.clock.hz if self.clock else info.hz
        period = 1 << info.bits
        value: int = (fields[meaning.stop] - fields[meaning.start]) % period
        wrapped, ambiguous = 0, False
        if info.bits == 64 and value >> 63:
            raise DecodeError(
                f"{info.source} stepped back within the window: {fields[meaning.start]} at its "
                f"start, {fields[meaning.stop]} at its end.",
                path=f"{info.name}.{meaning.stop}",
                hint="the counter may have fewer than its declared 64 bits: check with boardprof "
                "doctor; under an operating system, a function that forks or migrates may read "
                "the counter of another thread",
            )
        if meaning.wraps is not None:
            wrapped = self._counted_wraps(fields, meaning.wraps)
        elif info.bits < 64:
            if info.coarse_hz and hz and meaning.coarse_start and meaning.coarse_stop:
                coarse = (fields[meaning.coarse_stop] - fields[meaning.coarse_start]) % (1 << 32)
                expected = coarse * hz / info.coarse_hz
                wrapped = max(0, round((expected - value) / period))
                # The slower clock may be off by one of its own ticks.
                ambiguous = 2 * hz >= period * info.coarse_hz
            else:
                # Without a slower clock, more than the one wrap of the subtraction is not seen.
                ambiguous = longest_s is None or longest_s * (hz or _FASTEST_HZ) >= period
                ambiguous = ambiguous and not self._is_bounded(bounds, period, longest_s)
        own_return = meaning.own_return
        whole = value + wrapped * period - _interrupts(fields, meaning)
        enabled_ns, running_ns = _shared(fields, meaning)
        if self.clock:
            each = hz * info.instruction_ns  # ticks, in 1e-9
            whole = (2 * 10**9 * whole + each) // (2 * each)
        return Reading(
            round(whole * Fraction(enabled_ns, running_ns)) if enabled_ns else whole,
            meaning.unit,
            info.hz,
            fields[own_return] if isinstance(own_return, str) else own_return,
            wrapped,
            ambiguous,
            estimated=bool(enabled_ns),
            enabled_ns=enabled_ns,
            running_ns=running_ns,
        )

    def _is_bounded(self, bounds: Any, period: int, longest_s: float | None) -> bool:
        """Tell whether a counter that counts at least as much stayed below this one's period."""
        if self.bound is None or self.bound.info.status != CounterStatus.OK:
            return False
        reading = self.bound.reading(bounds, bounds, longest_s)
        return not reading.ambiguous and reading.value < period

    def _counted_wraps(self, fields: Any, wraps: str) -> int:
        """Return the wraps that the board counted beyond the one that the subtraction resolves."""
        start, stop = fields[self.meaning.start], fields[self.meaning.stop]
        wrapped: int = fields[wraps] - (stop < start)
        if wrapped < 0:
            raise DecodeError(
                f"{self.info.source} ran from {start} to {stop}, but the board counted no wrap.",
                path=f"{self.info.name}.{wraps}",
            )
        return wrapped


def _counters(collectors: Sequence[CollectorInfo], layouts: Layouts) -> list[_SentCounter]:
    """Return the counters of all collectors, in the order of a sample's blobs."""
    found: list[_SentCounter] = []
    for index, collector in enumerate(collectors):
        meanings = layouts[collector.schema_id].counters
        pairs = zip(meanings, collector.counters, strict=False)  # `check_layouts` has counted them
        own = {meaning.name: _SentCounter(index, meaning, info) for meaning, info in pairs}
        clock = next((each for each in collector.counters if each.hz), None)
        found += [
            replace(
                each,
                bound=own.get(each.meaning.bound or ""),
                clock=clock if each.info.instruction_ns else None,
            )
            for each in own.values()
        ]
    return found


def _shorter(longest_s: float | None, found: Iterable[tuple[_SentCounter, Any]]) -> float | None:
    """Return an upper bound on a window's length, from a clock of the board that never wraps."""
    for each, fields in found:
        if each.is_clock:
            ticks = (fields[each.meaning.stop] - fields[each.meaning.start]) % (1 << 64) + 1
            longest_s = min(ticks / each.info.hz, longest_s or math.inf)
    return longest_s


def _shared(fields: Any, meaning: Counter) -> tuple[int, int]:
    """Return how long a counter should have counted and has; zeros if that is all the window."""
    if meaning.enabled is None or meaning.running is None:
        return 0, 0
    enabled, running = fields[meaning.enabled], fields[meaning.running]
    return (0, 0) if enabled == running else (int(enabled), int(running))


def _interrupts(fields: Any, meaning: Counter) -> int:
    """Return what the agent's own interrupts added to a counter within the window."""
    if meaning.interrupts is None or meaning.interrupt_cost is None:
        return 0
    return int(fields[meaning.interrupts] * fields[meaning.interrupt_cost])


# -- many samples ------------------------------------------------------------------------------

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
    # The blobs become numpy records, and equal readings share one object: each is computed once for
    # each new set of numbers. If anything about the blobs is wrong, construct reads all of them, so
    # that errors are the same both ways.
    records = records_of(data, collectors, layouts)
    if records is not None:
        try:
            return _samples(data, records, _counters(collectors, layouts), longest_s)
        except DecodeError:  # the slow way also says where
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


def _columns(counter: _SentCounter, records: Records) -> dict[str, Sequence[int]]:
    """Return the fields that a reading depends on, with one number per sample.

    Start and stop become their difference, as if each window began at 0.
    """
    body, meaning = records[f"f{counter.index}"]["body"], counter.meaning
    found: dict[str, npt.NDArray[np.integer[Any]]] = {}
    found[meaning.stop] = _steps(body, meaning.start, meaning.stop, counter.info.bits)
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
    data: bytes, records: Records, counters: Sequence[_SentCounter], longest_s: float | None
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
    records: Records, counters: Sequence[_SentCounter], longest_s: float | None
) -> Sequence[float | None]:
    """Return the longest that each window may have taken; see `_shorter`."""
    clocks = [each for each in counters if each.is_clock]
    if not clocks:
        return [longest_s] * len(records)
    columns = [_columns(each, records) for each in clocks]
    rows = zip(*(zip(*each.values(), strict=True) for each in columns), strict=True)
    return [
        _shorter(
            longest_s,
            [
                (clock, fields)
                for clock, names, values in zip(clocks, columns, row, strict=True)
                if clock.ran(fields := _as_fields(clock, names, values))
            ],
        )
        for row in rows
    ]


def _as_fields(
    counter: _SentCounter, names: Iterable[str], values: Iterable[int]
) -> dict[str, int]:
    """Return numbers of `_columns` as the fields of one sample's blob."""
    starts = (counter.meaning.start, counter.meaning.coarse_start)
    fields = {name: 0 for name in starts if name is not None}
    return {**fields, **dict(zip(names, values, strict=True))}


def _readings(
    counter: _SentCounter, records: Records, longest: Sequence[float | None]
) -> list[Reading | None]:
    columns = _columns(counter, records)
    bounds = _columns(counter.bound, records) if counter.bound else {}

    @cache
    def reading(longest_s: float | None, *values: int) -> Reading | None:
        fields, rest = _as_fields(counter, columns, values[: len(columns)]), values[len(columns) :]
        if not counter.ran(fields):
            return None
        bounding = _as_fields(counter.bound, bounds, rest) if counter.bound else {}
        return counter.reading(fields, bounding, longest_s)

    return list(map(reading, longest, *columns.values(), *bounds.values()))
