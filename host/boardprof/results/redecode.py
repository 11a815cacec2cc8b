# SPDX-License-Identifier: Apache-2.0
"""Decode a Report's stored blobs again, with today's layouts or with others.

Each sample's readings are replaced by the decoding of its blobs, and so are the columns of rows and
totals that hold a counter. Where the numbers are the same, the Report stays as it is, to the bit.
Values that do not come from blobs, such as those of a collector on the host, never change.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from boardprof.base.errors import DecodeError, LayoutMismatchError, UsageError
from boardprof.results.record import Device, MeasurementRecord, Record
from boardprof.results.report.assemble import assemble, record_of, rows_of, totals_of
from boardprof.results.report.calls import DURATION, PERTURBATION, SHARE, Row
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.report import Report
from boardprof.results.stored_blobs import DeviceBlobs, check_collectors
from boardprof.wire.decode.schemas import layouts_for
from boardprof_protocol.layout import Layout

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
    report: Report,
    schemas: Sequence[Layout] = (),
    folders: Mapping[str, Path] | None = None,
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
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise DecodeError(
            f"The stored measurements of the Report cannot be read: {_why(error)}.",
            hint="give an unchanged Report that this or an older boardprof wrote",
        ) from error


def _why(error: Exception) -> str:
    if isinstance(error, KeyError) and error.args:
        return f"{error.args[0]!r} is missing"
    return str(error) or type(error).__name__


def _decoded(
    report: Report, record: Record, schemas: Sequence[Layout], folders: Mapping[str, Path]
) -> Report:
    devices = record.devices
    _check_ids(schemas, devices.values())
    blobs = {
        name: DeviceBlobs(
            device, _checked_layouts(device, layouts_for(folders.get(name, Path(name))), schemas)
        )
        for name, device in devices.items()
    }
    decoded = [
        _Decoded(each, blobs[each.device].measurement(each, f"boardprof.measurements[{place}]"))
        for place, each in enumerate(record.measurements)
    ]
    rows, changed = _rows(report, decoded)
    totals = _totals(report, decoded, changed)
    again = Record(
        {name: each.renamed for name, each in blobs.items()},
        tuple(each.record for each in decoded),
        record.missing,
        record.others,
    )
    configuration = report.configuration
    if rows != report.calls or again != record:
        names = ", ".join(f"{s.name} version {s.version}" for s in schemas) or "installed layouts"
        lines = _configuration(report.configuration, decoded, {*changed})
        configuration = {**lines, _AGAIN: f"with {names}"}
    return Report(rows, totals, configuration, record=again)


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
    def counters(self) -> set[str]:
        """The names of all counters before and now, without those of programmed slots."""
        before = {name for each in self.stored.passes for name in each.samples[0].raw}
        events = {
            event
            for each in self.stored.passes
            for slots in each.events.values()
            for event in slots
        }
        return (before | {*self.now.counters}) - events

    def derived(self, has_shares: bool) -> set[str]:
        """Return the columns that are computed from counters; joined Reports have no shares."""
        return {PERTURBATION, *self.now.formulas} | ({SHARE} if has_shares else set())

    @cached_property
    def has_other_readings(self) -> bool:
        """Whether a reading differs from the stored one."""
        return any(
            [each.raw for each in old.samples] != [each.raw for each in new.samples]
            for old, new in zip(self.stored.passes, self.record.passes, strict=True)
        )


def _rows(report: Report, decoded: Sequence[_Decoded]) -> tuple[list[Row], list[str]]:
    """Return the rows, and the devices with other readings or columns than before."""
    totals = totals_of([each.now for each in decoded])
    swept = "Flags" in report.calls.names
    news = [
        (each, row)
        for each in decoded
        for row in rows_of(each.now, totals.get(each.now.device.name, {}), swept)
    ]
    if len(report.calls) != len(news) or any(
        row.get("Name") != new.get("Name") or row.get("Device") != new.get("Device")
        for row, (_, new) in zip(report.calls, news, strict=True)
    ):
        raise UsageError(
            f"The Report cannot be decoded again: it has {len(report.calls)} rows, but its blobs "
            f"give {len(news)}.",
            hint="decode the Report of the board's own run",
        )
    changed: dict[int, bool] = {}
    for row, (each, new) in zip(report.calls, news, strict=True):
        if id(each) not in changed:
            columns = _columns(each.counters)
            is_other = {*row} & columns != {*new} & columns
            changed[id(each)] = is_other or each.has_other_readings
    has_shares = SHARE in report.calls.names
    rows = [
        _with_new(row, new, each, each.derived(has_shares) if changed[id(each)] else set())
        for row, (each, new) in zip(report.calls, news, strict=True)
    ]
    return rows, [each.now.device.name for each in decoded if changed[id(each)]]


def _columns(counters: Iterable[str]) -> set[str]:
    return {column for name in counters for column in (name, f"{name} (us)")}


def _with_new(row: Row, new: Row, decoded: _Decoded, derived: set[str]) -> Row:
    """Return a row with the new values of its counters, and of some derived columns."""
    replaced = _columns(decoded.counters) | derived | ({DURATION} & {*new})
    changed = {name for name in replaced if row.get(name) != new.get(name)}
    if not changed:
        return row
    kept = {name: value for name, value in row.items() if name not in changed}
    return {**kept, **{name: value for name, value in new.items() if name in changed}}


def _totals(report: Report, decoded: Sequence[_Decoded], changed: Sequence[str]) -> dict[str, Row]:
    """Return the totals, with new ones of devices with other readings."""
    news = totals_of([each.now for each in decoded])
    totals = dict(report.device_metrics)
    for each in decoded:
        name = each.now.device.name
        if name in changed:
            parts = {name, *(f"{name} {part}" for part in each.now.parts.values())}
            for part in parts & (totals.keys() | news.keys()):
                row, new = totals.get(part, {}), news.get(part, {})
                totals[part] = _with_new(row, new, each, each.derived(has_shares=False))
    return totals


def _configuration(before: Row, decoded: Sequence[_Decoded], changed: set[str]) -> Row:
    """Return the configuration with the new lines of devices with other readings."""
    now = assemble([each.now for each in decoded]).configuration
    names = {f"{device} {line}" for device in changed for line in _LINES}
    differing = {name for name in names if before.get(name) != now.get(name)}
    kept = {name: value for name, value in before.items() if name not in differing}
    return {**kept, **{name: value for name, value in now.items() if name in differing}}


def load_schemas(file: str) -> tuple[Layout, ...]:
    """Execute a Python file and return its ``LAYOUT`` (one) or ``LAYOUTS`` (several)."""
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{file} cannot be read: the file does not exist.")
    spec = importlib.util.spec_from_file_location("boardprof_schema_again", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a Python file.", hint="give a file such as schema.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        one = getattr(module, "LAYOUT", None)
        found = (*([] if one is None else [one]), *getattr(module, "LAYOUTS", ()))
        if not found or not all(isinstance(layout, Layout) for layout in found):
            raise TypeError("it defines no Layouts")
    except Exception as error:  # whatever the user's file raises
        raise UsageError(
            f"{file} cannot be used: {error!r}.",
            hint="it must define LAYOUT (a boardprof_protocol.layout.Layout) or LAYOUTS (several "
            "of them)",
        ) from error
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
    for info in device.collectors:
        layout = chosen.get(info.schema_id)
        hint = "give the layout that the firmware was built with: --schema FILE"
        if info.schema_id in given and layout is not None and layout.programmable:
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
        if info.schema_id not in given and (layout.version, layout.crc) != (
            info.version,
            info.layout_crc,
        ):
            raise LayoutMismatchError(
                f"Collector {info.name!r} of {device.name} wrote its blob as {layout.name} version "
                f"{info.version}, CRC {info.layout_crc:#010x}; this boardprof has version "
                f"{layout.version}, CRC {layout.crc:#010x}.",
                hint=hint,
            )
    return {info.schema_id: chosen[info.schema_id] for info in device.collectors}
