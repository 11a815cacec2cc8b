# SPDX-License-Identifier: Apache-2.0
"""Reports joined, such as those of a batch's jobs, and the part of a Report about some calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration, Metric, Ratio
from boardprof.results.record import NO_RECORD, Device, MeasurementRecord, Record, devices_by_name
from boardprof.results.report.assemble import added
from boardprof.results.report.calls import LABEL, PERTURBATION, SHARE, Row
from boardprof.results.report.configuration import differing_results, perturbation_text
from boardprof.results.report.report import Report

_FLAGS = "Flags"
_KEYS = ("Name", "Hash", "Argument Shapes", "Device", LABEL, _FLAGS)
_SAME_DEVICE = ("clock_kind", "emulated", "cflags", "collectors")
"""What must be the same for a device, because its rows and blobs are read by it."""

_CALL = ("Name", "Argument Shapes")

_OF_ONE_CALL = (" returned", " clock by the host's")
"""Lines of the configuration that say nothing without their function; the raw data has them."""

Key = tuple[Metric, ...]


@dataclass(frozen=True)
class Part:
    """A Report to be joined with others."""

    report: Report  # with its raw data
    origin: Mapping[str, str]  # entries that differ become a label of rows that would be alike


def joined(
    parts: Sequence[Part], missing: Sequence[str] = (), *, names_flags: bool = True
) -> Report:
    """Return one Report with the rows of all parts, in their order.

    Flags are a column if they differ and ``names_flags``. Shares are left out, because they are of
    a part's total. Raises a UsageError if boards of one name differ, or if nothing tells rows
    apart.
    """
    records = [part.report.record or NO_RECORD for part in parts]
    flags = [_flags(record) for record in records]
    swept = names_flags and len({each for each in flags if each is not None}) > 1
    settings = [each if swept else None for each in flags]
    labels = _labels(parts, settings)
    rows: list[Row] = []
    measurements: list[MeasurementRecord] = []
    for part, record, setting, own in zip(parts, records, settings, labels, strict=True):
        rows += (_row(row, setting, own) for row in part.report.calls)
        for each in record.measurements:
            label = _label(each.label, own.get((each.name, each.arguments), ""))
            measurements.append(replace(each, label=label))
    lost = [*(text for record in records for text in record.missing), *missing]
    return Report(
        rows,
        _totals(parts),
        _configuration(parts, rows, measurements, lost),
        record=Record(_devices(records), tuple(measurements), tuple(lost)),
    )


def _flags(record: Record) -> str | None:
    """Return the compiler flags of a part; None if there are none or they differ."""
    found = {each.flags for each in record.measurements}
    return found.pop() if len(found) == 1 else None


# -- rows ------------------------------------------------------------------------------------------


def _key(row: Row, flags: str | None) -> Key:
    named = row if flags is None else {_FLAGS: flags, **row}
    return tuple(named.get(name, "") for name in _KEYS)


def _labels(
    parts: Sequence[Part], settings: Sequence[str | None]
) -> list[dict[tuple[str, str], str]]:
    """Return for each part the label of functions with arguments that other parts have, too."""
    owners: dict[Key, dict[int, None]] = {}
    for number, (part, flags) in enumerate(zip(parts, settings, strict=True)):
        for row in part.report.calls:
            owners.setdefault(_key(row, flags), {})[number] = None
    labels: list[dict[tuple[str, str], str]] = [{} for _ in parts]
    for key, numbers in owners.items():
        if len(numbers) > 1:
            for number, label in _telling(parts, [*numbers], str(key[0])):
                labels[number][str(key[0]), str(key[2])] = label
    return labels


def _telling(
    parts: Sequence[Part], numbers: Sequence[int], function: str
) -> Iterator[tuple[int, str]]:
    """Yield the entries of each part's origin that differ between some parts."""
    origins = [parts[number].origin for number in numbers]
    names = dict.fromkeys(name for origin in origins for name in origin)
    differ = [name for name in names if len({origin.get(name) for origin in origins}) > 1]
    texts = [", ".join(o[name] for name in differ if o.get(name)) for o in origins]
    if len(set(texts)) < len(texts):
        raise UsageError(f"Two Reports cannot be joined: both have {function}, measured alike.")
    return zip(numbers, texts, strict=True)


def _label(label: object, more: str) -> str:
    return ", ".join(filter(None, [str(label), more]))


def _row(row: Row, flags: str | None, labels: Mapping[tuple[str, str], str]) -> Row:
    found = {name: value for name, value in row.items() if name != SHARE}
    if flags is not None:
        found.setdefault(_FLAGS, flags)
    more = labels.get((str(row.get("Name", "")), str(row.get("Argument Shapes", ""))), "")
    if label := _label(row.get(LABEL, ""), more):
        found[LABEL] = label
    return found


# -- facts -----------------------------------------------------------------------------------------


def _totals(parts: Sequence[Part]) -> dict[str, Row]:
    """Return the sums by device. Ratios are left out: they cannot be added."""
    totals: dict[str, Row] = {}
    for part in parts:
        for device, row in part.report.device_metrics.items():
            total = totals.setdefault(device, {})
            for name, metric in row.items():
                if isinstance(metric, Count | Duration):
                    total[name] = added(total.get(name), metric)
    return totals


def _devices(records: Sequence[Record]) -> dict[str, Device]:
    found = [each for record in records for each in record.devices.values()]
    first: dict[str, Device] = {}
    for facts in found:
        before = first.setdefault(facts.name, facts)
        for what in _SAME_DEVICE:
            old, new = getattr(before, what), getattr(facts, what)
            if old != new:
                raise UsageError(
                    f"Two Reports cannot be joined: {facts.name} has other {what} in one of them: "
                    f"{old!r:.200} and {new!r:.200}."
                )
    return devices_by_name(found)


def _configuration(
    parts: Sequence[Part],
    rows: Sequence[Row],
    measurements: Sequence[MeasurementRecord],
    missing: Sequence[str],
) -> Row:
    """Return the lines of all parts; where they differ, one after the other."""
    values: dict[str, dict[Metric, None]] = {}
    for part in parts:
        for name, value in part.report.configuration.items():
            values.setdefault(name, {})[value] = None
    found: Row = {}
    for name, each in values.items():
        if len(each) > 1 and name.endswith(_OF_ONE_CALL):
            continue
        texts = dict.fromkeys(f"{v.value}" if isinstance(v, Count) else f"{v}" for v in each)
        found[name] = next(iter(each)) if len(each) == 1 else "; ".join(texts)
    for device in dict.fromkeys(row.get("Device") for row in rows):
        if f"{device} perturbation" in found:
            mine = [row.get(PERTURBATION) for row in rows if row.get("Device") == device]
            shares = [each.ratio for each in mine if isinstance(each, Ratio)]
            found[f"{device} perturbation"] = perturbation_text(shares)
    found.pop("Results differ", None)
    results = (
        (m.name, m.arguments, m.label, m.device, m.flags or "", str(m.result or ""))
        for m in measurements
    )
    if differ := differing_results(results):
        found["Results differ"] = "; ".join(differ)
    found.pop("Missing", None)
    if missing:
        found["Missing"] = "; ".join(missing)
    return found


# -- a part of a Report -------------------------------------------------------------------------


def part_of_calls(report: Report, measured: Report) -> Report | None:
    """Return rows of the calls of ``measured``, preferably with its labels and on its boards."""
    wanted = {tuple(row.get(name, "") for name in _CALL) for row in measured.calls}
    rows = [row for row in report.calls if tuple(row.get(name, "") for name in _CALL) in wanted]
    if not rows:
        return None
    devices = {row.get("Device") for row in measured.calls}
    labels = {row.get(LABEL, "") for row in measured.calls} & {row.get(LABEL, "") for row in rows}
    kept = [
        each
        for each in (report.record or NO_RECORD).measurements
        if (each.name, each.arguments) in wanted and (not labels or each.label in labels)
    ]
    rows = [row for row in rows if not labels or row.get(LABEL, "") in labels]
    record = report.record and replace(report.record, measurements=tuple(kept))
    own = [row for row in rows if row.get("Device") in devices] or rows
    return Report(own, report.device_metrics, report.configuration, record=record)
