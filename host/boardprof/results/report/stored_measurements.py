# SPDX-License-Identifier: Apache-2.0
"""Read a Report's stored measurements: collectors, windows, blobs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from boardprof.base.errors import DecodeError, UsageError
from boardprof.base.formula import Formula
from boardprof.results.record import Device, SourcePlace, Stack
from boardprof.results.report.interrupts import Interrupts, without_costs
from boardprof.results.report.measurement import Cold, Measurement, Windows
from boardprof.wire.decode.clock import ClockFit
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading, Sample, decode_samples
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.layout import Counter, Layout

Formulas = Mapping[str, Mapping[str, tuple[str, Formula]] | None]
"""Device -> how its computed metrics are computed. None if unknown."""


def stored_collectors(device: str, facts: Mapping[str, Any]) -> list[CollectorInfo]:
    """Read the collectors of a device.

    Raises:
        DecodeError: there are none, or an index is not unique.
    """
    at = f"boardprof.devices.{device}.collectors"
    collectors = facts.get("collectors")
    if not isinstance(collectors, list) or not collectors:
        raise _no_report("the collectors are missing", at)
    seen: set[int] = set()
    for place, stored in enumerate(collectors):
        index = stored["index"]
        if type(index) is not int or index < 0 or index in seen:
            shown = json.dumps(index)
            raise _no_report(f"{shown} is not a unique index", f"{at}[{place}].index")
        seen.add(index)
    return [
        CollectorInfo(
            index=stored["index"],
            name=stored["name"],
            schema_id=stored["schema_id"],
            version=stored["version"],
            layout_crc=stored["layout_crc"],
            counters=tuple(
                CounterInfo(**{**counter, "status": CounterStatus(counter["status"])})
                for counter in stored["counters"]
            ),
        )
        for stored in collectors
    ]


def _no_report(what: str, path: str) -> DecodeError:
    return DecodeError(
        f"The stored measurements of the Report cannot be read: {what}.",
        path=path,
        hint="give an unchanged Report that this or an older boardprof wrote",
    )


@dataclass(frozen=True)
class Meaning:
    """How a device's blobs are read.

    Attributes:
        collectors: as the Report has them.
        layouts: by schema id.
    """

    collectors: Sequence[CollectorInfo]
    layouts: Mapping[int, Layout]

    @cached_property
    def _pairs(self) -> dict[int, list[tuple[CounterInfo, Counter]]]:
        return {c.index: _paired(c, self.layouts[c.schema_id]) for c in self.collectors}

    def renamed_collectors(self) -> list[CollectorInfo]:
        """Return the collectors with their counters' names of now."""
        return [
            replace(c, counters=tuple(_renamed(c, *pair) for pair in self._pairs[c.index]))
            for c in self.collectors
        ]

    def new_names(self) -> dict[str, str]:
        """Return the counters' names in the Report, and their names now."""
        return {
            info.name: _renamed(collector, info, meaning).name
            for collector in self.collectors
            for info, meaning in self._pairs[collector.index]
        }

    def run(self, stored: Mapping[str, Any], at: str) -> StoredPass:
        """Return the decoding of one pass's blobs.

        Args:
            stored: the pass; ``collectors`` are those that ran, ``events`` what slots counted.
            at: its path in the Report.

        Raises:
            DecodeError: no collector ran, or the device does not have it.
        """
        ran = stored["collectors"]
        if not isinstance(ran, list) or not ran:
            raise _no_report("no collector ran", f"{at}.collectors")
        for place, index in enumerate(ran):
            if all(index != collector.index for collector in self.collectors):
                what = f"the device has no collector with index {index!r}"
                raise _no_report(what, f"{at}.collectors[{place}]")
        collectors: list[CollectorInfo] = []
        layouts: dict[int, Layout] = {}
        names: dict[str, str] = {}
        for collector in self.collectors:
            if collector.index not in ran:
                continue
            pairs = self._pairs[collector.index]
            old = [info.name for info, _ in pairs]
            new = [_renamed(collector, *pair).name for pair in pairs]
            layout = self.layouts[collector.schema_id]
            counters = [replace(m, name=name) for (_, m), name in zip(pairs, new, strict=True)]
            infos = [replace(info, name=n) for (info, _), n in zip(pairs, new, strict=True)]
            collectors.append(replace(collector, counters=tuple(infos)))
            layouts[collector.schema_id] = replace(
                layout, version=collector.version, counters=tuple(counters), programmable=False
            )
            names |= dict(zip(old, new, strict=True))
        events = stored.get("events", {}).values()
        return StoredPass(
            collectors, layouts, names, frozenset(itertools.chain.from_iterable(events))
        )


@dataclass(frozen=True)
class StoredPass:
    """One pass over the rounds of a stored measurement.

    Attributes:
        collectors: those that ran, with their counters' names of now.
        layouts: of their blobs, by schema id, with these names.
        names: the counters' names in the Report -> those of now.
        events: what slots counted that were programmed.
    """

    collectors: Sequence[CollectorInfo]
    layouts: Mapping[int, Layout]
    names: Mapping[str, str]
    events: frozenset[str]

    @property
    def parts(self) -> dict[str, str]:
        """Counters of a part of the board other than its CPU -> that part."""
        return {
            counter.name: device
            for collector in self.collectors
            if (device := self.layouts[collector.schema_id].device) is not None
            for counter in collector.counters
        }


def _paired(collector: CollectorInfo, layout: Layout) -> list[tuple[CounterInfo, Counter]]:
    """Return pairs of the board's and the layout's description of each counter.

    Pairs go by name; a counter with a new name goes by place, if the numbers of both are equal.

    Raises:
        UsageError: a counter of the layout cannot be assigned.
    """
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


def stored_measurements(
    extra: Mapping[str, Any], meanings: Mapping[str, Meaning], formulas: Formulas
) -> list[Measurement]:
    """Decode the blobs of a Report's measurements.

    Args:
        extra: of the Report.
        meanings: device -> how its blobs are read.
        formulas: see `Formulas`.

    Raises:
        DecodeError: a blob does not fit its layout, or its source is unknown.
        UsageError: a layout does not fit the Report's blobs.
    """
    return [
        _measurement(stored, place, extra["devices"], meanings[stored["device"]], formulas)
        for place, stored in enumerate(extra["measurements"])
    ]


def _measurement(
    stored: Mapping[str, Any],
    place: int,
    devices: Mapping[str, Mapping[str, Any]],
    meaning: Meaning,
    formulas: Formulas,
) -> Measurement:
    name = stored["device"]
    facts = devices[name]
    stack, fit = stored.get("stack"), stored.get("clock_fit")
    further = stored.get("further_passes", ())
    passes = (stored, *further)
    at = f"boardprof.measurements[{place}]"
    places = (at, *(f"{at}.further_passes[{n}]" for n in range(len(further))))
    runs = [meaning.run(*each) for each in zip(passes, places, strict=True)]
    return Measurement(
        function=stored["name"],
        device=Device(
            name=name,
            clock_kind=facts["clock_kind"],
            emulated=facts["emulated"],
            port=facts["port"],
            agent_version=facts["agent_version"],
            build_id=stored["build_id"],
            boot_id=facts["boot_id"],
            unsupported=dict(facts["unsupported"]),
            collectors=tuple(meaning.collectors),
            cflags=tuple(facts["cflags"]),
            clock_given=True,
        ),
        number=stored["number"],
        warmup=stored["warmup"],
        calls_before=stored.get("calls_before"),
        windows=tuple(_windows(*each) for each in zip(passes, runs, strict=True)),
        arguments=stored.get("arguments", ""),
        inputs_crc32=stored.get("inputs_crc32", ""),
        clock_fit=None if fit is None else ClockFit(**fit),
        flags=stored.get("flags"),
        stack=stored.get("stack_unknown") if stack is None else Stack(**stack),
        result=stored.get("result"),
        parts={name: part for run in runs for name, part in run.parts.items()},
        formulas=formulas[name] or {},
        cold=_cold(stored["cold"], runs[0]) if "cold" in stored else None,
        compilers=tuple(stored.get("compilers", ())),
        label=stored.get("label", ""),
        source=SourcePlace(**stored["source"]) if "source" in stored else None,
        interrupts=_interrupts(stored.get("interrupts", {})),
    )


def _interrupts(stored: Mapping[str, Any]) -> Interrupts:
    return Interrupts(
        masked=stored.get("masked", False),
        timer_us=stored.get("timer_us", 0),
        bound_ns=stored.get("bound_ns", 0),
        kept_by=tuple(stored.get("kept_by", ())),
    )


def _cold(stored: Mapping[str, Any], run: StoredPass) -> Cold:
    """Decode the very first call.

    The calibration has no blobs, so it is only valid for counters whose reading has not changed.
    """
    sample = _sample(stored, run)
    overhead = {run.names.get(name, name): value for name, value in stored["calibration"].items()}
    raw = {run.names.get(name, name): value for name, value in stored["raw"].items()}
    read = {name: reading.value for name, reading in sample.readings.items()}
    return Cold(sample, {n: v for n, v in overhead.items() if n in read and read[n] == raw.get(n)})


def _windows(stored: Mapping[str, Any], run: StoredPass) -> Windows:
    decoded = {
        key: tuple(_sample(each, run) for each in stored[key])
        for key in ("samples", "calibration_samples", "totals")
    }
    costs = {name: Fraction(cost) for name, cost in stored.get("interrupt_costs", {}).items()}
    return Windows(
        tuple(without_costs(each, costs) for each in decoded["samples"]),
        tuple(without_costs(each, costs) for each in decoded["calibration_samples"]),
        decoded["totals"],
        mask=sum(1 << index for index in stored["collectors"]),
        events={name: tuple(each) for name, each in stored.get("events", {}).items()},
        interrupt_costs=costs,
    )


def _sample(stored: Mapping[str, Any], run: StoredPass) -> Sample:
    """Decode a window, and return those of its readings that the Report has.

    Whether a reading is ambiguous is taken from the Report, because a blob does not say how long
    the window took on the host. Counts of programmed slots are taken as well, because a blob does
    not say which event a slot counted.
    """
    (sample,) = decode_samples(bytes.fromhex(stored["blobs"]), run.collectors, run.layouts)
    doubtful = frozenset(stored.get("ambiguous", ()))
    readings: dict[str, Reading] = {}
    for name, value in stored["raw"].items():
        new = run.names.get(name)
        if name in run.events:
            readings[name] = Reading(
                value,
                "count",
                wrapped=stored.get("wraps", {}).get(name, 0),
                ambiguous=name in doubtful,
                estimated=name in stored.get("estimated", ()),
            )
        elif new in sample.readings:
            readings[new] = replace(sample.readings[new], ambiguous=name in doubtful)
    return Sample(readings, sample.raw)
