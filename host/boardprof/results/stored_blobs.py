# SPDX-License-Identifier: Apache-2.0
"""Decoding of the blobs in a record: the measurements that they give with other layouts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from boardprof.base.errors import DecodeError, UsageError
from boardprof.base.formula import parse_formula
from boardprof.results.record import ColdRecord, Device, MeasurementRecord, PassRecord, SampleRecord
from boardprof.results.report.interrupts import without_costs
from boardprof.results.report.measurement import Cold, Measurement, PassResult
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading, Sample, decode_samples
from boardprof_protocol.layout import Counter, Layout


def unreadable(what: str, path: str) -> DecodeError:
    """Return the error for a record that does not fit its blobs."""
    return DecodeError(
        f"The stored measurements of the Report cannot be read: {what}.",
        path=path,
        hint="give an unchanged Report that this or an older boardprof wrote",
    )


def check_collectors(device: Device) -> None:
    """Check that a device has collectors, each with an index of its own."""
    at = f"boardprof.devices.{device.name}.collectors"
    if not device.collectors:
        raise unreadable("the collectors are missing", at)
    seen: set[int] = set()
    for place, collector in enumerate(device.collectors):
        if collector.index < 0 or collector.index in seen:
            what = f"{collector.index} is not a unique index"
            raise unreadable(what, f"{at}[{place}].index")
        seen.add(collector.index)


@dataclass(frozen=True)
class DeviceBlobs:
    """How a device's blobs are read, with layouts by schema id."""

    device: Device
    layouts: Mapping[int, Layout]

    @cached_property
    def renamed(self) -> Device:
        """The device with the layouts' names of its counters."""
        collectors = tuple(
            replace(c, counters=tuple(_renamed(c, *pair) for pair in self._pairs[c.index]))
            for c in self.device.collectors
        )
        reasons = self.device.unsupported.items()
        unsupported = {self.names.get(name, name): why for name, why in reasons}
        return replace(self.device, collectors=collectors, unsupported=unsupported)

    @cached_property
    def names(self) -> dict[str, str]:
        """The counters' names in the record, and their names now."""
        return {
            info.name: _renamed(collector, info, meaning).name
            for collector in self.device.collectors
            for info, meaning in self._pairs[collector.index]
        }

    @cached_property
    def _pairs(self) -> dict[int, list[tuple[CounterInfo, Counter]]]:
        return {c.index: _paired(c, self.layouts[c.schema_id]) for c in self.device.collectors}

    def measurement(self, stored: MeasurementRecord, at: str) -> Measurement:
        """Return the measurement that the blobs give; ``at`` is its path in the Report."""
        places = (at, *(f"{at}.further_passes[{n}]" for n in range(len(stored.passes) - 1)))
        runs = [self._pass(each, place) for each, place in zip(stored.passes, places, strict=True)]
        windows = tuple(run.windows(each) for run, each in zip(runs, stored.passes, strict=True))
        for each, place in zip(windows, places, strict=True):
            for key, samples in (
                ("samples", each.samples),
                ("calibration_samples", each.calibration_samples),
                ("totals", each.totals),
            ):
                if not samples:
                    raise unreadable(f"there are no {key}", f"{place}.{key}")
        return Measurement(
            function=stored.name,
            device=replace(self.renamed, build_id=stored.build_id),
            number=stored.number or 1,
            warmup=stored.warmup or 0,
            calls_before=stored.calls_before,
            passes=windows,
            arguments=stored.arguments,
            inputs_crc32=stored.inputs_crc32,
            clock_fit=stored.clock_fit,
            flags=stored.flags,
            stack=stored.stack or stored.stack_unknown or None,
            result=stored.result,
            parts={name: part for run in runs for name, part in run.parts.items()},
            formulas={
                name: (kind, parse_formula(text)) for name, (kind, text) in stored.formulas.items()
            },
            cold=None if stored.cold is None else runs[0].cold(stored.cold),
            compilers=stored.compilers,
            label=stored.label,
            source=stored.source,
            interrupts=stored.interrupts,
        )

    def _pass(self, stored: PassRecord, at: str) -> _PassBlobs:
        """Return how one pass's blobs are read: those of the collectors that ran."""
        if not stored.collectors:
            raise unreadable("no collector ran", f"{at}.collectors")
        for place, index in enumerate(stored.collectors):
            if index not in self._pairs:
                what = f"the device has no collector with index {index!r}"
                raise unreadable(what, f"{at}.collectors[{place}]")
        collectors: list[CollectorInfo] = []
        layouts: dict[int, Layout] = {}
        for before, collector in zip(self.device.collectors, self.renamed.collectors, strict=True):
            if collector.index not in stored.collectors:
                continue
            meanings = (meaning for _, meaning in self._pairs[before.index])
            counters = zip(meanings, collector.counters, strict=True)
            collectors.append(collector)
            layouts[collector.schema_id] = replace(
                self.layouts[collector.schema_id],
                version=collector.version,
                counters=tuple(replace(meaning, name=info.name) for meaning, info in counters),
                programmable=False,
            )
        events = frozenset(itertools.chain.from_iterable(stored.events.values()))
        return _PassBlobs(collectors, layouts, self.names, events)


@dataclass(frozen=True)
class _PassBlobs:
    """How the blobs of one pass are read."""

    collectors: Sequence[CollectorInfo]  # those that ran, with their counters' names of now
    layouts: Mapping[int, Layout]  # by schema id, with these names
    names: Mapping[str, str]  # the counters' names in the Report -> those of now
    events: frozenset[str]  # what slots counted that were programmed

    @property
    def parts(self) -> dict[str, str]:
        """Counters of a part of the board other than its CPU -> that part."""
        return {
            counter.name: device
            for collector in self.collectors
            if (device := self.layouts[collector.schema_id].device) is not None
            for counter in collector.counters
        }

    def windows(self, stored: PassRecord) -> PassResult:
        costs = {name: Fraction(cost) for name, cost in stored.interrupt_costs.items()}
        samples, calibration, totals = (
            tuple(map(self._sample, each))
            for each in (stored.samples, stored.calibration_samples, stored.totals)
        )
        return PassResult(
            tuple(without_costs(each, costs) for each in samples),
            tuple(without_costs(each, costs) for each in calibration),
            totals,
            mask=sum(1 << index for index in stored.collectors),
            events=stored.events,
            interrupt_costs=costs,
        )

    def cold(self, stored: ColdRecord) -> Cold:
        """Return the first call, with the calibration of counters whose reading is the same."""
        sample = self._sample(stored.sample)
        read = {name: reading.value for name, reading in sample.readings.items()}
        same = {
            new: stored.calibration[name]
            for name, value in stored.sample.raw.items()
            if read.get(new := self.names.get(name, name)) == value and name in stored.calibration
        }
        return Cold(sample, same)

    def _sample(self, stored: SampleRecord) -> Sample:
        """Decode a window, and return those of its readings that the Report has.

        Whether a reading is ambiguous is taken from the Report, because a blob does not say how
        long the window took on the host. Counts of programmed slots are taken as well, because a
        blob does not say which event a slot counted.
        """
        (sample,) = decode_samples(stored.blobs, self.collectors, self.layouts)
        readings: dict[str, Reading] = {}
        for name, value in stored.raw.items():
            new = self.names.get(name)
            if name in self.events:
                readings[name] = Reading(
                    value,
                    "count",
                    wrapped=stored.wraps.get(name, 0),
                    ambiguous=name in stored.ambiguous,
                    estimated=name in stored.estimated,
                )
            elif new in sample.readings:
                reading = sample.readings[new]
                readings[new] = replace(reading, ambiguous=name in stored.ambiguous)
        return Sample(readings, sample.raw)


def _paired(collector: CollectorInfo, layout: Layout) -> list[tuple[CounterInfo, Counter]]:
    """Pair the board's and the layout's description of each counter, by name, else by position."""
    by_name = {info.name.removeprefix(f"{collector.name}."): info for info in collector.counters}
    if len(layout.counters) == len(collector.counters):
        pairs = zip(layout.counters, collector.counters, strict=True)
        return [(by_name.get(meaning.name, info), meaning) for meaning, info in pairs]
    unknown = [meaning.name for meaning in layout.counters if meaning.name not in by_name]
    if unknown:
        raise UsageError(
            f"{layout.name} has {len(layout.counters)} counters, but the Report's collector "
            f"{collector.name} has {len(collector.counters)}. The width of {', '.join(unknown)} is "
            "unknown.",
            hint=f"give a counter for each of {', '.join(by_name)}, or only for some of them",
        )
    return [(by_name[meaning.name], meaning) for meaning in layout.counters]


def _renamed(collector: CollectorInfo, info: CounterInfo, meaning: Counter) -> CounterInfo:
    """Return a counter with the layout's name; a prefix with its collector's name stays."""
    prefix = f"{collector.name}."
    is_prefixed = info.name.startswith(prefix) and not meaning.name.startswith(prefix)
    return replace(info, name=f"{prefix}{meaning.name}" if is_prefixed else meaning.name)
