# SPDX-License-Identifier: Apache-2.0
"""Ranges as rows of a Report: measured in place, where the firmware runs them.

A row is like that of a called function: a pass is a sample. Its window is the pass from begin to
end; other tasks, interrupts and inner probes are left out of it, and the calibration is a range
with nothing in it. Ranges that only have statistics have one sample, of all passes together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import UsageError
from boardprof.results.probes.run import ProbeRun, Slot, doubts_of, read_run
from boardprof.results.probes.timeline import Passes, Timeline
from boardprof.results.record import Device
from boardprof.results.report.assemble import assemble
from boardprof.results.report.calls import IN_PLACE, IN_PLACE_MEAN, IN_PLACE_SUMS
from boardprof.results.report.measurement import Measurement, PassResult
from boardprof.results.report.report import Report
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading, Sample
from boardprof_protocol.blob import encode_blob
from boardprof_protocol.codes import CounterStatus, ProbeKind
from boardprof_protocol.trace import PASSES

_BITS = 64

_PASS = struct.Struct("<QQQB")
"""A layout of `PASSES`; struct is twenty times as fast as construct."""


def report_of(run: ProbeRun, file: str = "") -> Report:
    """Return the Report of a run's ranges; errors name the file that it was read from."""
    timelines = [*run.timelines().values()]
    found = list(_measurements(run, timelines))
    if not found:
        hint = "put BP_RANGE_BEGIN and BP_RANGE_END around code that runs while you record"
        if any(slot.lost for slot in run.slots):
            hint = "record events: statistics do not count passes that overlap"
        what = file or f"The recording of {run.facts.board}"
        raise UsageError(f"{what} has no complete pass of a range.", hint=hint)
    report = assemble(found)
    doubts = " ".join(doubts_of(run, timelines))
    if doubts:
        report.configuration[f"{run.facts.board} probes"] = doubts.removesuffix(".")
    return report


def report_of_file(file: str) -> Report:
    """Return the Report of a file with a recording."""
    return report_of(read_run(file), file)


def _measurements(run: ProbeRun, timelines: Sequence[Timeline]) -> Iterator[Measurement]:
    """Yield the ranges with a complete pass; those of several cores are put together."""
    by_name: dict[int, list[Sample]] = {}
    for timeline in timelines:
        passes = timeline.ranges
        for name in run.names.of_kind(ProbeKind.RANGE):
            mine = np.flatnonzero(passes.of(name.number))
            by_name.setdefault(name.number, []).extend(_samples(run, passes, mine))
    slots = {slot.number: slot for slot in run.slots if slot.count}
    for name in run.names.of_kind(ProbeKind.RANGE):
        if samples := by_name.get(name.number):
            empty = _sample(run, 0, round(run.costs.empty), 0)
            yield _measurement(run, name.text, 1, tuple(samples), empty)
        elif name.number in slots:
            yield _of_slot(run, name.text, slots[name.number])


def _of_slot(run: ProbeRun, name: str, slot: Slot) -> Measurement:
    empty = _sample(run, 0, run.costs.slot * slot.count, 0)
    sums = (_sample(run, 0, slot.sum, 0),)
    label = IN_PLACE_SUMS if slot.least == slot.most else IN_PLACE_MEAN
    return _measurement(run, name, slot.count, sums, empty, label)


def _samples(run: ProbeRun, passes: Passes, which: npt.NDArray[np.intp]) -> Iterator[Sample]:
    empty = round(run.costs.empty)
    begins, ends = passes.begin[which].tolist(), passes.end[which].tolist()
    for begin, end, net in zip(begins, ends, passes.net[which].tolist(), strict=True):
        yield _sample(run, begin, end, end - begin - empty - net)


def _sample(run: ProbeRun, begin: int, end: int, away: int) -> Sample:
    layout = PASSES[run.clock.unit]
    counter = layout.counters[0]
    reading = Reading(end - begin - away, counter.unit, run.clock.hz)
    body = _PASS.pack(begin, end, away, 1)
    return Sample({counter.name: reading}, encode_blob(layout.schema_id, layout.version, body))


def _measurement(
    run: ProbeRun,
    name: str,
    number: int,
    samples: tuple[Sample, ...],
    empty: Sample,
    label: str = IN_PLACE,
) -> Measurement:
    facts, layout = run.facts, PASSES[run.clock.unit]
    counter = layout.counters[0]
    info = CounterInfo(
        counter.name,
        run.clock.source,
        _BITS,
        run.clock.hz,
        0,
        False,
        CounterStatus.OK,
        0,
    )
    collector = CollectorInfo(0, layout.name, layout.schema_id, layout.version, layout.crc, (info,))
    device = Device(
        name=facts.board,
        clock_kind=facts.clock_kind,
        emulated=facts.emulated,
        port=facts.port,
        agent_version=facts.agent_version,
        build_id=facts.build_id,
        boot_id=facts.boot_id,
        unsupported={},
        collectors=(collector,),
        clock_given=True,
    )
    windows = PassResult(samples, (empty,), samples, mask=1)
    return Measurement(name, device, number, 0, (windows,), flags=facts.flags, label=label)
