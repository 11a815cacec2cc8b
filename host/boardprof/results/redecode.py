# SPDX-License-Identifier: Apache-2.0
"""Decode a Report's stored blobs again, with today's layouts or with others.

Each sample's readings are replaced by the decoding of its blobs, and so are the columns of rows and
totals that hold a counter. Where the numbers are the same, the Report stays as it is, to the bit.
Values that do not come from blobs, such as those of a collector on the host, never change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from boardprof.base.errors import DecodeError, LayoutMismatchError, UsageError
from boardprof.base.formula import parse_formula
from boardprof.base.metrics import Metric
from boardprof.results.record import (
    ColdRecord,
    Device,
    MeasurementRecord,
    PassRecord,
    Record,
    SampleRecord,
)
from boardprof.results.report.assemble import assemble, record_of, rows_of, totals_of
from boardprof.results.report.calls import DURATION, PERTURBATION, SHARE, Row
from boardprof.results.report.measurement import Cold, Measurement, PassResult, without_costs
from boardprof.results.report.report import Report
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading, Sample, decode_samples
from boardprof.wire.decode.schemas import counting_layouts, layouts_for, layouts_in
from boardprof_protocol.layout import Counter, Layout

_AGAIN = "Decoded again"
_LINES = (
    "unsupported",
    "perturbation",
    "passes",
    "of several runs",
    "estimated",
    "idle",
    "warning",
    "unresolved",
)
"""Lines of a device's configuration that follow from its readings."""


def decode_again(
    report: Report, schemas: Sequence[Layout] = (), folders: Mapping[str, Path] | None = None
) -> Report:
    """Return the Report that the stored blobs give now.

    ``schemas`` replace layouts with the same schema id. They may give fields other names and
    meanings if they are as large as the blobs. ``folders`` have the descriptions of boards, by
    name: a board may have layouts of its own.
    """
    record = report.record
    if record is None or not record.measurements:
        raise UsageError(
            "The Report has no blobs: there is nothing to decode.",
            hint="give a Report that `boardprof run --json FILE` wrote",
        )
    for device in record.devices.values():
        check_collectors(device)
    try:
        return _decoded(report, record, schemas, folders or {})
    except KeyError as error:
        raise unreadable(f"{error} is missing") from error
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise unreadable(str(error) or type(error).__name__) from error


def _decoded(
    report: Report, record: Record, schemas: Sequence[Layout], folders: Mapping[str, Path]
) -> Report:
    devices = record.devices
    _check_ids(schemas, devices.values())
    blobs = {
        name: DeviceBlobs(
            device,
            counting_layouts(
                device.collectors,
                _checked_layouts(device, layouts_for(folders.get(name, Path(name))), schemas),
            ),
        )
        for name, device in devices.items()
    }
    decoded = [
        _Decoded(each, blobs[each.device].measurement(each, f"boardprof.measurements[{place}]"))
        for place, each in enumerate(record.measurements)
    ]
    rows = _rows(report, decoded)
    again = replace(
        record,
        devices={name: each.renamed for name, each in blobs.items()},
        measurements=tuple(each.record for each in decoded),
    )
    configuration = report.configuration
    if rows != report.calls or again != record:
        names = ", ".join(f"{s.name} version {s.version}" for s in schemas) or "installed layouts"
        lines = _configuration(report.configuration, decoded)
        configuration = {**lines, _AGAIN: f"with {names}"}
    return Report(rows, _totals(report, decoded), configuration, record=again)


@dataclass(frozen=True)
class _Decoded:
    """A stored measurement, and what its blobs give."""

    stored: MeasurementRecord
    now: Measurement

    @cached_property
    def record(self) -> MeasurementRecord:
        """The stored measurement with the new readings."""
        [fresh] = record_of([self.now]).measurements
        passes = tuple(
            replace(
                old,
                samples=new.samples,
                calibration_samples=new.calibration_samples,
                totals=new.totals,
            )
            for old, new in zip(self.stored.passes, fresh.passes, strict=True)
        )
        return replace(self.stored, calibration=fresh.calibration, cold=fresh.cold, passes=passes)

    @cached_property
    def is_changed(self) -> bool:
        """Whether it is no longer what was stored."""
        return self.record != self.stored

    def updated(self, row: Row, new: Row, has_share: bool) -> Row:
        """Return a row with the new values of counters, and of what is computed from others."""
        passes = self.stored.passes
        before = {name for each in passes for name in each.samples[0].raw}
        events = {name for each in passes for slots in each.events.values() for name in slots}
        counters = {*before, *self.now.counters} - events
        columns = counters | {f"{name} (us)" for name in counters} | ({DURATION} & new.keys())
        if self.is_changed:
            columns |= {PERTURBATION, *self.now.formulas, *([SHARE] if has_share else [])}
        return _replaced(row, new, columns)


def _rows(report: Report, decoded: Sequence[_Decoded]) -> list[Row]:
    totals = totals_of([each.now for each in decoded])
    swept, has_share = ("Flags" in report.calls.names), (SHARE in report.calls.names)
    news = [
        (each, row)
        for each in decoded
        for row in rows_of(each.now, totals.get(each.now.device.name, {}), swept)
    ]
    if _names(report.calls) != _names(row for _, row in news):
        raise UsageError(
            f"The Report cannot be decoded again: it has {len(report.calls)} rows, but its blobs "
            f"give {len(news)}.",
            hint="decode the Report of the board's own run",
        )
    pairs = zip(report.calls, news, strict=True)
    return [each.updated(row, new, has_share) for row, (each, new) in pairs]


def _names(rows: Iterable[Row]) -> list[tuple[Metric | None, Metric | None]]:
    return [(row.get("Name"), row.get("Device")) for row in rows]


def _totals(report: Report, decoded: Sequence[_Decoded]) -> dict[str, Row]:
    news = totals_of([each.now for each in decoded])
    totals = dict(report.device_metrics)
    for each in decoded:
        name = each.now.device.name
        parts = {name, *(f"{name} {part}" for part in each.now.parts.values())}
        for part in parts & news.keys() if each.is_changed else ():
            totals[part] = each.updated(totals.get(part, {}), news[part], has_share=False)
    return totals


def _configuration(before: Row, decoded: Sequence[_Decoded]) -> Row:
    """Return the configuration with the new lines of devices with other readings."""
    now = assemble([each.now for each in decoded]).configuration
    changed = {each.now.device.name for each in decoded if each.is_changed}
    names = {f"{device} {line}" for device in changed for line in _LINES}
    return _replaced(before, now, names)


def _replaced(before: Row, now: Row, names: Iterable[str]) -> Row:
    """Return a row with the values that some columns have now; those that differ go to the end."""
    differing = {name for name in names if before.get(name) != now.get(name)}
    kept = {name: value for name, value in before.items() if name not in differing}
    return kept | {name: value for name, value in now.items() if name in differing}


def load_schemas(file: str) -> tuple[Layout, ...]:
    """Execute a Python file and return its ``LAYOUT`` (one) or ``LAYOUTS`` (several)."""
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{file} cannot be read: the file does not exist.")
    found = layouts_in(path)
    ids = [layout.schema_id for layout in found]
    for twice in {schema_id for schema_id in ids if ids.count(schema_id) > 1}:
        raise UsageError(f"{file} has two layouts with schema id {twice}.")
    return found


def _check_ids(schemas: Sequence[Layout], devices: Iterable[Device]) -> None:
    """Check that each schema replaces one of a collector in the Report."""
    used = {info.schema_id: info.name for device in devices for info in device.collectors}
    for schema in schemas:
        if schema.schema_id not in used:
            told = ", ".join(f"{name} {schema_id}" for schema_id, name in sorted(used.items()))
            raise UsageError(
                f"No collector of the Report has schema id {schema.schema_id} ({schema.name}).",
                hint=f"its collectors: {told}",
            )


def _checked_layouts(
    device: Device, known: Mapping[int, Layout], schemas: Sequence[Layout]
) -> dict[int, Layout]:
    """Return the layouts of a device's collectors; only a schema that was given may differ."""
    given = {schema.schema_id: schema for schema in schemas}
    chosen = {**known, **given}
    hint = "give the layout that the firmware was built with: --schema FILE"
    for info in device.collectors:
        layout, is_given = chosen.get(info.schema_id), info.schema_id in given
        if is_given and layout is not None and layout.programmable:
            raise UsageError(
                f"The slots of {info.name} on {device.name} are programmed: the Report records "
                "what each counted, and a layout cannot replace that."
            )
        if layout is None:
            raise LayoutMismatchError(
                f"Collector {info.name!r} of {device.name} uses schema {info.schema_id}, which "
                "this boardprof does not know.",
                hint=hint,
            )
        is_same = (layout.version, layout.crc) == (info.version, info.layout_crc)
        if not is_given and not is_same:
            raise LayoutMismatchError(
                f"Collector {info.name!r} of {device.name} wrote its blob as {layout.name} version "
                f"{info.version}, CRC {info.layout_crc:#010x}; this boardprof has version "
                f"{layout.version}, CRC {layout.crc:#010x}.",
                hint=hint,
            )
    return {info.schema_id: chosen[info.schema_id] for info in device.collectors}


def unreadable(what: str, path: str = "") -> DecodeError:
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
        for number, counter in enumerate(collector.counters):
            if not 1 <= counter.bits <= 64:
                where = f"{at}[{place}].counters[{number}].bits"
                raise unreadable(f"{counter.bits} is not the width of a counter", where)


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
            for key in ("samples", "calibration_samples", "totals"):
                if not getattr(each, key):
                    raise unreadable(f"there are no {key}", f"{place}.{key}")
        return Measurement(
            **stored.facts,
            function=stored.name,
            device=replace(self.renamed, build_id=stored.build_id),
            number=stored.number or 1,
            warmup=stored.warmup or 0,
            passes=windows,
            stack=stored.stack or stored.stack_unknown or None,
            result=stored.result,
            parts={name: part for run in runs for name, part in run.parts.items()},
            formulas={
                name: (kind, parse_formula(text)) for name, (kind, text) in stored.formulas.items()
            },
            cold=None if stored.cold is None else runs[0].cold(stored.cold),
        )

    def _pass(self, stored: PassRecord, at: str) -> _PassBlobs:
        """Return how one pass's blobs are read: those of the collectors that ran."""
        if not stored.collectors:
            raise unreadable("no collector ran", f"{at}.collectors")
        for place, index in enumerate(stored.collectors):
            if index not in self._pairs:
                what = f"the device has no collector with index {index!r}"
                raise unreadable(what, f"{at}.collectors[{place}]")
        collectors = [c for c in self.renamed.collectors if c.index in stored.collectors]
        layouts: dict[int, Layout] = {}
        for collector in collectors:
            pairs = zip(self._pairs[collector.index], collector.counters, strict=True)
            layouts[collector.schema_id] = replace(
                self.layouts[collector.schema_id],
                version=collector.version,
                counters=tuple(replace(meaning, name=info.name) for (_, meaning), info in pairs),
                programmable=False,
            )
        events = frozenset(itertools.chain.from_iterable(stored.events.values()))
        return _PassBlobs(collectors, layouts, self.names, events)


@dataclass(frozen=True)
class _PassBlobs:
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
        costs = stored.interrupt_costs
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
