# SPDX-License-Identifier: Apache-2.0
"""Decode a Report's stored blobs again, with today's layouts or with others.

The file is decoded twice: with the layouts that it was made with, if this boardprof has them, and
with the requested ones. Where both agree, the Report stays as it is, to the bit. Only where they
differ, the new value replaces the old one. So values that do not come from blobs, such as those of
a collector on the host, never change.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from boardprof.base.errors import BoardprofError, DecodeError, LayoutMismatchError, UsageError
from boardprof.base.formula import Formula, parse_formula
from boardprof.base.metrics import Metric
from boardprof.results.report.assemble import assemble
from boardprof.results.report.calls import STACK, Row
from boardprof.results.report.report import Report
from boardprof.results.report.stored_measurements import (
    Meaning,
    stored_collectors,
    stored_measurements,
)
from boardprof.target.descriptions.board import board_spec, find_boards
from boardprof.wire.decode.dictionary import CollectorInfo
from boardprof.wire.decode.schemas import layouts_for
from boardprof_protocol.layout import Layout

_AGAIN = "Decoded again"
_OWN_COLUMNS = frozenset({"Name", "Hash", "Argument Shapes", "Flags", "Device", "Count", STACK})


def decode_again(report: Report, schemas: Sequence[Layout] = ()) -> Report:
    """Return the Report that the stored blobs give now.

    Args:
        report: of a measurement on a board, which has blobs.
        schemas: layouts that replace those with the same schema id. They may give fields other
            names and meanings if they are as large as the blobs.

    Raises:
        UsageError: the Report has no blobs, or no collector of it has the id of a schema.
        LayoutMismatchError: this boardprof has another layout for the blobs of a collector.
        DecodeError: a blob does not fit its layout, or the other data is not from a Report.
    """
    extra = report.extra or {}
    if not extra.get("measurements"):
        raise UsageError(
            "The Report has no blobs: there is nothing to decode.",
            hint="give a Report that `boardprof run --json FILE` wrote",
        )
    try:
        return _decoded(report, extra, schemas)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DecodeError(
            f"The stored measurements of the Report cannot be read: {_why(error)}.",
            hint="give an unchanged Report that this or an older boardprof wrote",
        ) from error


def _why(error: Exception) -> str:
    if isinstance(error, KeyError) and error.args:
        return f"{error.args[0]!r} is missing"
    return str(error) or type(error).__name__


def _decoded(report: Report, extra: Mapping[str, Any], schemas: Sequence[Layout]) -> Report:
    collectors = {d: stored_collectors(d, facts) for d, facts in extra["devices"].items()}
    known = {device: _known_layouts(device) for device in collectors}
    _check_ids(schemas, collectors)
    replaced = {schema.schema_id: schema for schema in schemas}
    chosen = {device: {**known[device], **replaced} for device in collectors}
    meanings = {
        device: Meaning(infos, _checked_layouts(device, infos, chosen[device], schemas))
        for device, infos in collectors.items()
    }
    originals = {
        device: Meaning(
            infos,
            {
                info.schema_id: _original_layout(info, known[device], chosen[device])
                for info in infos
            },
        )
        for device, infos in collectors.items()
    }
    formulas = {device: _formulas(device, extra) for device in collectors}
    before = stored_measurements(extra, originals, formulas)
    after = stored_measurements(extra, meanings, formulas)
    swept = "Flags" in report.calls.names
    pieces = [
        _Pieces.of(assemble(measurements, swept=swept), [assemble([m]) for m in measurements])
        for measurements in (before, after)
    ]
    unsure = {m.device.name for m in before if formulas[m.device.name] is None}
    sure = _sure_columns(meanings)
    merged = _merged(report, pieces[0], pieces[1], unsure, sure)
    new_extra = _new_extra(extra, pieces[1].report.extra or {}, meanings)
    configuration = merged.configuration
    if merged.calls != report.calls or new_extra != extra:
        names = ", ".join(f"{s.name} version {s.version}" for s in schemas) or "installed layouts"
        configuration = {**configuration, _AGAIN: f"with {names}"}
    return Report(merged.calls, merged.device_metrics, configuration, new_extra)


def _sure_columns(meanings: Mapping[str, Meaning]) -> set[str]:
    """Return the columns that come from blobs alone.

    Programmed slots are left out, because the Report does not keep the meaning and unit of events.
    """
    names = {
        counter.name
        for meaning in meanings.values()
        for info in meaning.renamed_collectors()
        if not meaning.layouts[info.schema_id].programmable
        for counter in info.counters
    }
    return names | {f"{name} (us)" for name in names}


def _formulas(device: str, extra: Mapping[str, Any]) -> dict[str, tuple[str, Formula]] | None:
    """Return the formulas of a device's computed metrics. None if unknown."""
    for measurement in extra["measurements"]:
        if measurement["device"] == device and "formulas" in measurement:
            stored = measurement["formulas"]
            return {name: (kind, parse_formula(text)) for name, (kind, text) in stored.items()}
    try:
        spec = board_spec(device)
    except BoardprofError:
        return None
    return {name: (each.kind, each.formula) for name, each in spec.derived.items()}


@dataclass(frozen=True)
class _Pieces:
    """An assembled Report, and the measurement that each row belongs to."""

    report: Report
    keys: list[tuple[int, int, Metric]]

    @classmethod
    def of(cls, report: Report, parts: Sequence[Report]) -> _Pieces:
        """Number each measurement's samples; a sample has a row for each part of the board."""
        return cls(
            report, [(i, *key) for i, part in enumerate(parts) for key in _sample_keys(part)]
        )

    @property
    def rows(self) -> dict[tuple[int, int, Metric], Row]:
        """The rows by measurement, sample and device."""
        return dict(zip(self.keys, self.report.calls, strict=True))


def _sample_keys(report: Report) -> Iterator[tuple[int, Metric]]:
    seen: dict[Metric, int] = {}
    for row in report.calls:
        device = row.get("Device", "")
        seen[device] = seen.get(device, -1) + 1
        yield seen[device], device


def _merged(report: Report, old: _Pieces, new: _Pieces, unsure: set[str], sure: set[str]) -> Report:
    """Replace the old values by the new ones."""
    olds, news = old.rows, new.rows
    if len(report.calls) != len(olds) or any(
        row.get("Name") != known.get("Name") or row.get("Device") != known.get("Device")
        for row, known in zip(report.calls, olds.values(), strict=True)
    ):
        raise UsageError(
            f"The Report cannot be decoded again: it has {len(report.calls)} rows, but its blobs "
            f"give {len(olds)}.",
            hint="decode the Report of the board's own run",
        )
    placed = dict(zip(olds, report.calls, strict=True))
    rows = [
        _merged_row(placed[key], olds[key], news[key], unsure, sure) if key in placed else news[key]
        for key in news
    ]
    totals = {
        device: _merged_row(
            report.device_metrics.get(device, {}),
            old.report.device_metrics.get(device, {}),
            new.report.device_metrics.get(device, {}),
            unsure,
            sure,
        )
        for device in dict.fromkeys([*report.device_metrics, *new.report.device_metrics])
    }
    configuration = _merged_row(
        report.configuration, old.report.configuration, new.report.configuration, set(), set()
    )
    return Report(rows, totals, configuration)


def _merged_row(row: Row, old: Row, new: Row, unsure: set[str], sure: set[str]) -> Row:
    """Return the row with the new value of each column that differs between old and new.

    ``sure`` columns are also replaced if the row differs from the new one. If anything changed and
    the formulas of the row's device are not known, values that may have been computed from the old
    ones are left out.
    """
    changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    changed |= {key for key in sure & row.keys() & new.keys() if row[key] != new[key]}
    if not changed:
        return dict(row)
    kept = {key: value for key, value in row.items() if key not in changed}
    if row.get("Device") in unsure:
        kept = {
            key: value
            for key, value in kept.items()
            if key in old or key in _OWN_COLUMNS or isinstance(value, str)
        }
    return {**kept, **{key: new[key] for key in new if key in changed}}


def _new_extra(
    extra: Mapping[str, Any], assembled: Mapping[str, Any], meanings: Mapping[str, Meaning]
) -> dict[str, Any]:
    """Return the raw data with the new readings; blobs and everything else stay."""
    found = copy.deepcopy(dict(extra))
    for measurement, fresh in zip(found["measurements"], assembled["measurements"], strict=True):
        measurement |= {key: fresh[key] for key in ("calibration", "cold") if key in fresh}
        pairs = zip(
            [measurement, *measurement.get("further_passes", [])],
            [fresh, *fresh["further_passes"]],
            strict=True,
        )
        for windows, new in pairs:
            for key in ("samples", "calibration_samples", "totals"):
                windows[key] = new[key]
    for device, facts in found["devices"].items():
        named = meanings[device].renamed_collectors()
        facts["collectors"] = [
            {**stored, "counters": [asdict(counter) for counter in info.counters]}
            for stored, info in zip(facts["collectors"], named, strict=True)
        ]
        names = meanings[device].new_names()
        unsupported = facts.get("unsupported", {})
        facts["unsupported"] = {names.get(name, name): why for name, why in unsupported.items()}
    return found


def load_schemas(file: str) -> tuple[Layout, ...]:
    """Load the layouts of a Python file: ``LAYOUT`` (one) or ``LAYOUTS`` (several).

    The file is executed.

    Raises:
        UsageError: it cannot be read or executed, or defines neither name.
    """
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


def _known_layouts(device: str) -> dict[int, Layout]:
    """Return this boardprof's layouts for a device, with the board's own if it is known."""
    folder = find_boards().get(device)
    return layouts_for(Path(device) if folder is None else folder)


def _check_ids(
    schemas: Sequence[Layout], collectors: Mapping[str, Sequence[CollectorInfo]]
) -> None:
    """Check that each schema replaces one of a collector in the Report.

    Raises:
        UsageError: one does not.
    """
    used = {info.schema_id: info.name for infos in collectors.values() for info in infos}
    for schema in schemas:
        if schema.schema_id not in used:
            told = ", ".join(f"{name} {schema_id}" for schema_id, name in sorted(used.items()))
            raise UsageError(
                f"No collector of the Report has schema id {schema.schema_id} ({schema.name}).",
                hint=f"its collectors: {told}",
            )


def _checked_layouts(
    device: str,
    infos: Sequence[CollectorInfo],
    chosen: Mapping[int, Layout],
    schemas: Sequence[Layout],
) -> dict[int, Layout]:
    """Return the layouts of a device's collectors; only a schema that was given may differ.

    Raises:
        LayoutMismatchError: any other layout differs from the Report's, or is not known.
        UsageError: the schema is for a collector whose slots are programmed.
    """
    given = {schema.schema_id for schema in schemas}
    for info in infos:
        layout = chosen.get(info.schema_id)
        hint = "give the layout that the firmware was built with: --schema FILE"
        if info.schema_id in given and layout is not None and layout.programmable:
            raise UsageError(
                f"The slots of {info.name} on {device} are programmed: the Report records what "
                "each counted, and a layout cannot replace that."
            )
        if layout is None:
            raise LayoutMismatchError(
                f"Collector {info.name!r} of {device} uses schema {info.schema_id}, which this "
                "boardprof does not know.",
                hint=hint,
            )
        if info.schema_id not in given and (layout.version, layout.crc) != (
            info.version,
            info.layout_crc,
        ):
            raise LayoutMismatchError(
                f"Collector {info.name!r} of {device} wrote its blob as {layout.name} version "
                f"{info.version}, CRC {info.layout_crc:#010x}; this boardprof has version "
                f"{layout.version}, CRC {layout.crc:#010x}.",
                hint=hint,
            )
    return {info.schema_id: chosen[info.schema_id] for info in infos}


def _original_layout(
    info: CollectorInfo, known: Mapping[int, Layout], chosen: Mapping[int, Layout]
) -> Layout:
    """Return the layout that the Report was made with, with the counters' names in the Report.

    If it is not available, return the closest one: the new one.
    """
    layout = known.get(info.schema_id)
    theirs = (info.version, info.layout_crc)
    is_known = layout is not None and (layout.version, layout.crc) == theirs
    nearest = layout if is_known and layout is not None else chosen[info.schema_id]
    names = [counter.name.removeprefix(f"{info.name}.") for counter in info.counters]
    if len(names) != len(nearest.counters):
        return nearest
    renamed = [replace(c, name=n) for c, n in zip(nearest.counters, names, strict=True)]
    return replace(nearest, counters=tuple(renamed), programmable=False)
