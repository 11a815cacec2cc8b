# SPDX-License-Identifier: Apache-2.0
"""Decoding of blobs to counts: differences of a layout's fields, modulo the counter's width.

It does not know any transport. A blob that does not fit its layout is an error that names the field
and the byte. There are no partial results.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from boardprof.base.errors import DecodeError, LayoutMismatchError
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof_protocol.blob import BLOB_HEADER, Blob, BlobError, split_blobs
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.layout import Counter, Layout

Layouts = Mapping[int, Layout]
"""Layouts by schema id."""


_FASTEST_HZ = 4_000_000_000
"""Highest rate assumed for a counter of unknown rate."""


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


def check_layouts(board: str, collectors: Iterable[CollectorInfo], layouts: Layouts) -> None:
    """Check that the board's collectors have layouts known to the host."""
    for collector in collectors:
        layout = layouts.get(collector.schema_id)
        if layout is None:
            raise LayoutMismatchError(
                f"Collector {collector.name!r} of {board} uses schema {collector.schema_id}, which "
                f"this boardprof does not know; it knows {sorted(layouts)}.",
                hint="install the package that has the board's schema, or a newer boardprof",
            )
        ours = (layout.version, layout.crc)
        theirs = (collector.version, collector.layout_crc)
        if ours != theirs:
            raise LayoutMismatchError(
                f"Collector {collector.name!r} of {board} lays its blob out as {layout.name} "
                f"version {theirs[0]}, CRC {theirs[1]:#010x}; this boardprof has version "
                f"{ours[0]}, CRC {ours[1]:#010x}.",
                hint="build the firmware again with this boardprof",
            )
        meant = [counter.name for counter in layout.counters]
        found = [counter.name.removeprefix(f"{collector.name}.") for counter in collector.counters]
        if meant != found:
            raise LayoutMismatchError(
                f"Collector {collector.name!r} of {board} has the counters {found}; {layout.name} "
                f"version {layout.version} has {meant}.",
                hint="build the firmware again with this boardprof",
            )


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
    offsets = itertools.accumulate((len(blob.raw) for blob in blobs), initial=0)
    placed = zip(offsets, blobs, strict=False)
    groups = zip(*[placed] * len(collectors), strict=True)
    return [_sample(group, collectors, layouts, longest_s) for group in groups]


def _sample(
    blobs: Sequence[tuple[int, Blob]],
    collectors: Sequence[CollectorInfo],
    layouts: Layouts,
    longest_s: float | None,
) -> Sample:
    found: list[SentCounter] = []
    for (offset, blob), collector in zip(blobs, collectors, strict=True):
        fields = _fields(blob, offset, collector, layouts)
        layout = layouts[collector.schema_id]
        pairs = list(zip(layout.counters, collector.counters, strict=True))
        by_name = {meaning.name: SentCounter(fields, meaning, info) for meaning, info in pairs}
        found += [
            replace(each, bound=by_name.get(each.meaning.bound or ""))
            for each in by_name.values()
            if ran(fields, each.meaning)
        ]
    longest_s = shorter(longest_s, found)
    readings = {each.info.name: reading_of(each, longest_s) for each in found}
    return Sample(readings, b"".join(blob.raw for _, blob in blobs))


@dataclass(frozen=True)
class SentCounter:
    """A counter in a blob, by its fields, and the one that bounds it."""

    fields: Any
    meaning: Counter
    info: CounterInfo
    bound: SentCounter | None = None


def shorter(longest_s: float | None, found: Sequence[SentCounter]) -> float | None:
    """Return an upper bound on a window's length, from a clock of the board that never wraps."""
    for each in found:
        fields, meaning, info = each.fields, each.meaning, each.info
        if info.bits == 64 and info.hz and meaning.unit == "ticks":
            ticks = (fields[meaning.stop] - fields[meaning.start]) % (1 << 64) + 1
            longest_s = min(ticks / info.hz, longest_s or math.inf)
    return longest_s


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


def reading_of(found: SentCounter, longest_s: float | None) -> Reading:
    """Return what a counter counted in a window of ``longest_s`` at most, if that is known."""
    fields, meaning, info = found.fields, found.meaning, found.info
    period = 1 << info.bits
    value: int = (fields[meaning.stop] - fields[meaning.start]) % period
    wrapped, ambiguous = 0, False
    if info.bits == 64 and value >> 63:
        raise DecodeError(
            f"{info.source} stepped back within the window: {fields[meaning.start]} at its start, "
            f"{fields[meaning.stop]} at its end.",
            path=f"{info.name}.{meaning.stop}",
            hint="the counter may have fewer than its declared 64 bits: check with boardprof "
            "doctor; under an operating system, a function that forks or migrates may read "
            "the counter of another thread",
        )
    if meaning.wraps is not None:
        wrapped = _counted_wraps(fields, meaning, info)
    elif info.bits < 64:
        if info.coarse_hz and info.hz and meaning.coarse_start and meaning.coarse_stop:
            coarse = (fields[meaning.coarse_stop] - fields[meaning.coarse_start]) % (1 << 32)
            expected = coarse * info.hz / info.coarse_hz
            wrapped = max(0, round((expected - value) / period))
            # The slower clock may be off by one of its own ticks.
            ambiguous = 2 * info.hz >= period * info.coarse_hz
        else:
            # Without a slower clock, the subtraction resolves one wrap. More cannot be detected.
            ambiguous = longest_s is None or longest_s * (info.hz or _FASTEST_HZ) >= period
            ambiguous = ambiguous and not _is_bounded(found.bound, period, longest_s)
    own_return = meaning.own_return
    whole = value + wrapped * period - _interrupts(fields, meaning)
    scale = _scale(fields, meaning)
    return Reading(
        whole if scale is None else round(whole * scale),
        meaning.unit,
        info.hz,
        fields[own_return] if isinstance(own_return, str) else own_return,
        wrapped,
        ambiguous,
        estimated=scale is not None,
    )


def _is_bounded(bound: SentCounter | None, period: int, longest_s: float | None) -> bool:
    """Tell whether a counter that counts at least as much stayed below this one's period."""
    if bound is None or bound.info.status != CounterStatus.OK:
        return False
    reading = reading_of(bound, longest_s)
    return not reading.ambiguous and reading.value < period


def ran(fields: Any, meaning: Counter) -> bool:
    """Tell whether a counter ran at all; one that never ran has no value, not 0."""
    if meaning.enabled is None or meaning.running is None:
        return True
    return bool(fields[meaning.running]) or not fields[meaning.enabled]


def _scale(fields: Any, meaning: Counter) -> Fraction | None:
    """Return the factor for a count of part of the window; None if it covers the whole window."""
    if meaning.enabled is None or meaning.running is None:
        return None
    enabled, running = fields[meaning.enabled], fields[meaning.running]
    return None if enabled == running else Fraction(enabled, running)


def _counted_wraps(fields: Any, meaning: Counter, info: CounterInfo) -> int:
    """Return the wraps that the board counted beyond the one that the subtraction resolves."""
    seen = fields[meaning.stop] < fields[meaning.start]
    wrapped: int = fields[meaning.wraps] - seen
    if wrapped < 0:
        raise DecodeError(
            f"{info.source} ran from {fields[meaning.start]} to {fields[meaning.stop]}, but the "
            "board counted no wrap.",
            path=f"{info.name}.{meaning.wraps}",
        )
    return wrapped


def _interrupts(fields: Any, meaning: Counter) -> int:
    """Return what the agent's own interrupts added to a counter within the window."""
    if meaning.interrupts is None or meaning.interrupt_cost is None:
        return 0
    return int(fields[meaning.interrupts] * fields[meaning.interrupt_cost])
