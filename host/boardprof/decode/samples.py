# SPDX-License-Identifier: Apache-2.0
"""Blobs to counts: a layout's fields, subtracted modulo the counter's width.

Knows no transport. A blob that does not fit its layout is an error that names the field and the
byte; there are no partial numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from boardprof.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.errors import DecodeError, LayoutMismatchError
from boardprof_protocol.blob import BLOB_HEADER, Blob, BlobError, split_blobs
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.layout import Counter, Layout

__all__ = ["Reading", "Sample", "check_layouts", "decode_samples"]

Layouts = Mapping[int, Layout]
"""Layouts by schema id."""


_FASTEST_HZ = 4_000_000_000
"""No counter of unknown rate is taken to be faster than this."""


@dataclass(frozen=True)
class Reading:
    """What one counter counted in one window.

    Attributes:
        value: stop - start, wraps resolved as far as the board allows.
        unit: ``count``, ``ns`` or ``ticks``.
        hz: rate of a clock, 0 for what is no clock.
        own_return: see `boardprof_protocol.layout.Counter`.
        wrapped: how often the counter wrapped within the window.
        ambiguous: it may have wrapped more often than can be told.
        estimated: it counted for a part of the window only, because others shared its hardware.
        outside_hooks: of the value, what interrupts took outside of the hooks of their handlers, by
            calibration; no function's.
    """

    value: int
    unit: str
    hz: int = 0
    own_return: int = 0
    wrapped: int = 0
    ambiguous: bool = False
    estimated: bool = False
    outside_hooks: int = 0

    @property
    def uninterrupted(self) -> int:
        """The value less what interrupts took outside of their hooks."""
        return self.value - self.outside_hooks


@dataclass(frozen=True)
class Sample:
    """One measured window: readings by counter name, and the blobs that they came from."""

    readings: dict[str, Reading]
    raw: bytes


def check_layouts(board: str, collectors: Iterable[CollectorInfo], layouts: Layouts) -> None:
    """See that the board's collectors have the layouts that the host knows.

    Raises:
        LayoutMismatchError: another version or another CRC; both sides are named.
    """
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
    """Take the blobs of several samples apart and decode each sample.

    Args:
        data: blobs back to back, for each sample one of every collector, in order.
        collectors: those that were active, in the order of their index.
        layouts: by schema id.
        longest_s: no window lasted longer, by a clock of the host; None when its clock says
            nothing about the board's (a simulated one).

    Raises:
        DecodeError: a blob is short, long, damaged, or of another schema than expected; its offset
            is counted from the first byte of ``data``.
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
    found: list[_Found] = []
    for (offset, blob), collector in zip(blobs, collectors, strict=True):
        fields = _fields(blob, offset, collector, layouts)
        layout = layouts[collector.schema_id]
        pairs = list(zip(layout.counters, collector.counters, strict=True))
        by_name = {meaning.name: _Found(fields, meaning, info) for meaning, info in pairs}
        found += [
            replace(each, bound=by_name.get(each.meaning.bound or ""))
            for each in by_name.values()
            if _ran(fields, each.meaning)
        ]
    longest_s = _shorter(longest_s, found)
    readings = {each.info.name: _reading(each, longest_s) for each in found}
    return Sample(readings, b"".join(blob.raw for _, blob in blobs))


@dataclass(frozen=True)
class _Found:
    """A counter in a blob, and the one that bounds it."""

    fields: Any
    meaning: Counter
    info: CounterInfo
    bound: _Found | None = None


def _shorter(longest_s: float | None, found: Sequence[_Found]) -> float | None:
    """Return the longest that a window may have taken, by a clock of the board that never wraps."""
    for each in found:
        fields, meaning, info = each.fields, each.meaning, each.info
        if info.bits == 64 and info.hz and meaning.unit == "ticks":
            ticks = (fields[meaning.stop] - fields[meaning.start]) % (1 << 64) + 1
            longest_s = min(ticks / info.hz, longest_s or math.inf)
    return longest_s


def _fields(blob: Blob, start: int, collector: CollectorInfo, layouts: Layouts) -> Any:
    """Parse the blob that stands at byte ``start``."""
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
    """Return the field of a body that is cut off, or the place where the surplus begins."""
    offset = 0
    for field in layout.fields:
        if offset + field.size > length:
            return f"{name}.{field.name}", offset
        offset += field.size
    return f"{name}.(end)", offset


def _reading(found: _Found, longest_s: float | None) -> Reading:
    fields, meaning, info = found.fields, found.meaning, found.info
    period = 1 << info.bits
    value: int = (fields[meaning.stop] - fields[meaning.start]) % period
    wrapped, ambiguous = 0, False
    if info.bits == 64 and value >> 63:
        raise DecodeError(
            f"{info.source} stepped back within the window: {fields[meaning.start]} at its start, "
            f"{fields[meaning.stop]} at its end.",
            path=f"{info.name}.{meaning.stop}",
            hint="it may have fewer than the 64 bits that it is declared with, as boardprof doctor "
            "tells; under an operating system a function that forks or migrates takes the counter "
            "of another thread with it",
        )
    if meaning.wraps is not None:
        wrapped = _counted_wraps(fields, meaning, info)
    elif info.bits < 64:
        if info.coarse_hz and info.hz and meaning.coarse_start and meaning.coarse_stop:
            coarse = (fields[meaning.coarse_stop] - fields[meaning.coarse_start]) % (1 << 32)
            expected = coarse * info.hz / info.coarse_hz
            wrapped = max(0, round((expected - value) / period))
            # The slower clock is off by up to one tick of its own.
            ambiguous = 2 * info.hz >= period * info.coarse_hz
        else:
            # Without a slower clock one wrap is resolved by the subtraction; more cannot be seen.
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


def _is_bounded(bound: _Found | None, period: int, longest_s: float | None) -> bool:
    """Whether a counter that counts at least as much stayed below this one's period."""
    if bound is None or bound.info.status != CounterStatus.OK:
        return False
    reading = _reading(bound, longest_s)
    return not reading.ambiguous and reading.value < period


def _ran(fields: Any, meaning: Counter) -> bool:
    """Whether a counter counted at all while it was wanted; what never ran is no 0."""
    if meaning.enabled is None or meaning.running is None:
        return True
    return bool(fields[meaning.running]) or not fields[meaning.enabled]


def _scale(fields: Any, meaning: Counter) -> Fraction | None:
    """Return by how much a count of a part of the window is multiplied; None of a whole one."""
    if meaning.enabled is None or meaning.running is None:
        return None
    enabled, running = fields[meaning.enabled], fields[meaning.running]
    return None if enabled == running else Fraction(enabled, running)


def _counted_wraps(fields: Any, meaning: Counter, info: CounterInfo) -> int:
    """Return how often a counter wrapped beyond what the subtraction sees, as the board counted."""
    seen = fields[meaning.stop] < fields[meaning.start]
    wrapped: int = fields[meaning.wraps] - seen
    if wrapped < 0:
        raise DecodeError(
            f"{info.source} ran from {fields[meaning.start]} to {fields[meaning.stop]} without a "
            "wrap, by the board's own count of them.",
            path=f"{info.name}.{meaning.wraps}",
        )
    return wrapped


def _interrupts(fields: Any, meaning: Counter) -> int:
    """Return what the agent's own interrupts added to a counter within the window."""
    if meaning.interrupts is None or meaning.interrupt_cost is None:
        return 0
    return int(fields[meaning.interrupts] * fields[meaning.interrupt_cost])
