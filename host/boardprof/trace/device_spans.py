# SPDX-License-Identifier: Apache-2.0
"""Time spans by the board's own clock, and their place on the host's clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from boardprof.decode.clock import ClockFit
from boardprof.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.decode.samples import Reading
from boardprof.report.measurement import Device, Measurement, clock_of
from boardprof_protocol.blob import split_blobs
from boardprof_protocol.layout import Layout

What = Literal["sample", "window"]


@dataclass(frozen=True)
class RawSpan:
    """A time span by the board's clock.

    Attributes:
        name: of the function that ran.
        what: ``sample``: measured on the board, around the calls alone; ``window``: opened and
            closed by the host, so that it includes the link's exchange and the agent's work.
        begin: the counter's raw reading, not unwrapped.
        ticks: length.
        net_ticks: length without the measurement overhead; None for a window.
        hz: the counter's rate.
        bits: its width.
        device: the board.
        fit: its clock relative to the host's; None if not known yet.
    """

    name: str
    what: What
    begin: int
    ticks: int
    net_ticks: int | None
    hz: int
    bits: int
    device: Device
    fit: ClockFit | None = None

    @property
    def is_on_host_time(self) -> bool:
        """Whether the board's clock follows the same time as the host's."""
        return self.device.clock_kind != "simulated" and not self.device.emulated


@dataclass(frozen=True)
class DeviceSpan:
    """A time span by the board's clock, and its place on the host's clock.

    Attributes:
        name: of the function that ran.
        what: see `RawSpan`.
        board: its name.
        begin: the board's counter at its start.
        ticks: length by that counter.
        hz: the counter's rate, 1/s.
        bits: its width.
        duration_us: the function's own time, us. None for a window, which contains more, and for a
            simulated clock, whose ticks are not time.
        start_ns: the host's clock at its start; None if it cannot be placed there.
        error_ns: largest error of ``start_ns``; None likewise.
        why_not: why it cannot be placed there; "" if it can.
    """

    name: str
    what: What
    board: str
    begin: int
    ticks: int
    hz: int
    bits: int
    duration_us: float | None
    start_ns: int | None
    error_ns: int | None
    why_not: str

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
) -> RawSpan | None:
    """Return the span of a window of the host; None if the blob does not have it."""
    found = _begin(blob, [collector], counter, layouts)
    if found is None:
        return None
    begin, info = found
    return RawSpan(name, "window", begin, reading.value, None, info.hz, info.bits, device)


def sample_spans(measurement: Measurement, layouts: Mapping[int, Layout]) -> Iterator[RawSpan]:
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
        yield RawSpan(
            measurement.function,
            "sample",
            begin,
            sample.readings[counter].value,
            measurement.net(sample, counter),
            info.hz,
            info.bits,
            device,
            measurement.clock_fit,
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


def place(span: RawSpan, begin_ns: int, end_ns: int, fit: ClockFit | None = None) -> DeviceSpan:
    """Place a span of the board's clock on the host's clock.

    Args:
        span: by the board's clock.
        begin_ns: the host's clock before it began.
        end_ns: likewise after its end.
        fit: the board's clock relative to the host's, if the span has none itself.
    """
    fit = span.fit or fit
    is_time = span.device.clock_kind != "simulated"
    start_ns, error_ns, why_not = _start(span, begin_ns, end_ns, fit)
    return DeviceSpan(
        span.name,
        span.what,
        span.device.name,
        span.begin,
        span.ticks,
        span.hz,
        span.bits,
        span.net_ticks * 1e6 / span.hz if is_time and span.net_ticks is not None else None,
        start_ns,
        error_ns,
        why_not,
    )


def _start(
    span: RawSpan, begin_ns: int, end_ns: int, fit: ClockFit | None
) -> tuple[int | None, int | None, str]:
    if not span.is_on_host_time:
        what = (
            "its clock is simulated" if span.device.clock_kind == "simulated" else "it is emulated"
        )
        return None, None, f"{what}, and runs by the emulator's own time"
    if fit is None:
        return None, None, "its clock could not be followed to the end of the trace"
    # Readings after the fit's first one are less than one wrap later, or there would be no fit.
    ticks = fit.reference + (span.begin - fit.reference) % (1 << span.bits)
    start_ns = round(fit.to_host_s(ticks) * 1e9)
    error_ns = max(1, round(fit.error_s * 1e9))
    length_ns = round(span.ticks * fit.tick_s * 1e9)
    if start_ns < begin_ns - error_ns or start_ns + length_ns > end_ns + error_ns:
        return None, None, "its counter is not the clock that the agent reports"
    return start_ns, error_ns, ""
