# SPDX-License-Identifier: Apache-2.0
"""Time spans by the board's own clock, and their place on the host's clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from boardprof.results.record import Device
from boardprof.results.report.measurement import Measurement, clock_of
from boardprof.wire.decode.clock import ClockFit
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading
from boardprof_protocol.blob import split_blobs
from boardprof_protocol.layout import Layout

What = Literal["sample", "window"]


@dataclass(frozen=True)
class DeviceSpan:
    """A time span by the board's clock, and its place on the host's clock.

    Attributes:
        name: of the function that ran.
        what: ``sample``: measured on the board, around the calls alone; ``window``: opened and
            closed by the host, so that it includes the link's exchange and the agent's work.
        board: its name.
        begin: the board's counter at its start, not unwrapped.
        ticks: length by that counter.
        hz: the counter's rate, 1/s.
        bits: its width.
        duration_us: the function's own time, us, without the measurement overhead. None for a
            window, which contains more, and for a simulated clock, whose ticks are not time.
        start_ns: the host's clock at its start; None before `placed`, and if it has no place there.
        error_ns: largest error of ``start_ns``; None likewise.
        why_not: why it cannot be placed there; "" if it can.
        fit: the board's clock relative to the host's; None if not known yet.
    """

    name: str
    what: What
    board: str
    begin: int
    ticks: int
    hz: int
    bits: int
    duration_us: float | None
    start_ns: int | None = None
    error_ns: int | None = None
    why_not: str = ""
    fit: ClockFit | None = None

    def ticks_since(self, other: DeviceSpan) -> int:
        """Return how many ticks it began after another span of its board; negative if before.

        The counter may have wrapped between them, but must not have advanced half its range.
        """
        half = 1 << self.bits - 1
        return (self.begin - other.begin + half) % (2 * half) - half

    @property
    def length_us(self) -> float:
        """Length including the overhead, in us of the board's clock, simulated or not."""
        return self.ticks * 1e6 / self.hz


def tick_counter(readings: Mapping[str, Reading], device: Device) -> str | None:
    """Return the name of the board's clock, real or simulated."""
    clock = clock_of(readings, device.clock_kind)
    if clock is not None:
        return clock
    return next((name for name, r in readings.items() if r.unit == "ticks" and r.hz), None)


def window_span(
    name: str,
    reading: Reading,
    blob: bytes,
    collector: CollectorInfo,
    counter: str,
    layouts: Mapping[int, Layout],
    device: Device,
) -> DeviceSpan | None:
    """Return the span of a window of the host; None if the blob does not have it."""
    found = _begin(blob, [collector], counter, layouts)
    if found is None:
        return None
    begin, info = found
    ticks, why_not = reading.value, _why_not(device)
    return DeviceSpan(
        name, "window", device.name, begin, ticks, info.hz, info.bits, None, why_not=why_not
    )


def sample_spans(measurement: Measurement, layouts: Mapping[int, Layout]) -> Iterator[DeviceSpan]:
    """Yield the span of each sample of a measurement, if a clock was read."""
    device = measurement.device
    counter = tick_counter(measurement.samples[0].readings, device)
    windows = next((w for w in measurement.windows if counter in w.counters), None)
    if counter is None or windows is None:
        return
    collectors = [c for c in device.collectors if windows.mask >> c.index & 1]
    for sample in windows.samples:
        found = _begin(sample.raw, collectors, counter, layouts)
        if found is None:
            return
        begin, info = found
        net_us = measurement.net(sample, counter) * 1e6 / info.hz
        yield DeviceSpan(
            measurement.function,
            "sample",
            device.name,
            begin,
            sample.readings[counter].value,
            info.hz,
            info.bits,
            None if device.clock_kind == "simulated" else net_us,
            why_not=_why_not(device),
            fit=measurement.clock_fit,
        )


def _begin(
    raw: bytes,
    collectors: Sequence[CollectorInfo],
    counter: str,
    layouts: Mapping[int, Layout],
) -> tuple[int, CounterInfo] | None:
    """Return a counter's reading when its window opened, and the counter."""
    for blob, collector in zip(split_blobs(raw), collectors, strict=True):
        layout = layouts[collector.schema_id]
        for meaning, info in zip(layout.counters, collector.counters, strict=True):
            if info.name == counter and info.hz:
                return layout.struct.parse(blob.body)[meaning.start], info
    return None


def _why_not(device: Device) -> str:
    """Return why a board's clock does not follow the same time as the host's; "" if it does."""
    if device.clock_kind == "simulated":
        return "its clock is simulated, and runs by the emulator's own time"
    return "it is emulated, and runs by the emulator's own time" if device.emulated else ""


def placed(span: DeviceSpan, begin_ns: int, end_ns: int, fit: ClockFit | None) -> DeviceSpan:
    """Place a span of the board's clock on the host's clock.

    Args:
        span: by the board's clock.
        begin_ns: the host's clock before it began.
        end_ns: likewise after its end.
        fit: the board's clock relative to the host's, if the span has none itself.
    """
    if span.why_not:
        return span
    fit = span.fit or fit
    if fit is None:
        return replace(span, why_not="its clock could not be followed to the end of the trace")
    # Readings after the fit's first one are less than one wrap later, or there would be no fit.
    ticks = fit.reference + (span.begin - fit.reference) % (1 << span.bits)
    start_ns = round(fit.to_host_s(ticks) * 1e9)
    error_ns = max(1, round(fit.error_s * 1e9))
    length_ns = round(span.ticks * fit.tick_s * 1e9)
    if start_ns < begin_ns - error_ns or start_ns + length_ns > end_ns + error_ns:
        return replace(span, why_not="its counter is not the clock that the agent reports")
    return replace(span, start_ns=start_ns, error_ns=error_ns)
