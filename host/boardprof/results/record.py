# SPDX-License-Identifier: Apache-2.0
"""The record of a Report: all that a board sent, and what is known about how it was measured.

Rows, totals and configuration are computed from it. A Report has none if it was not measured by
boardprof, such as TVM's. The record of a committed baseline has only what comparing needs.

Texts that are not known are "", numbers None or 0, and everything else is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

from boardprof.base.metrics import Metric
from boardprof.results.report.profile import Profile
from boardprof.wire.decode.clock import ClockFit
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo

_NONE: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True)
class Device:
    """A board that was measured.

    Attributes:
        name: the board's name; the Report's Device column.
        clock_kind: ``measured``, ``declared`` or ``simulated``. A simulated clock gives no
            Duration.
        emulated: the host started it as an emulator, or the board is always one.
        port: through which it was reached; ``A; B`` if boards of this name were at several ports.
        agent_version: of the firmware.
        build_id: 16 hexadecimal digits.
        boot_id: differs between boots.
        unsupported: why a counter is not available, by name. Such a counter is in no row.
        collectors: from its dictionary, to decode the blobs again.
        cflags: flags of all code for the board.
        cpu: of the machine that boardprof has started it on, if it runs there by itself:
            ``x86_64, Intel(R) Xeon(R) Processor (6-207-2)``; "" if not known.
        clock_reason: why the clock has this kind, if its description does not say so.
        clock_given: the user or a Report states the kind of clock, so it is not checked by its
            counts.
    """

    name: str = ""
    clock_kind: str = ""
    emulated: bool = False
    port: str = ""
    agent_version: str = ""
    build_id: str = ""
    boot_id: int = 0
    unsupported: Mapping[str, str] = field(default_factory=dict)
    collectors: tuple[CollectorInfo, ...] = ()
    cflags: tuple[str, ...] = ()
    cpu: str = ""
    clock_reason: str = field(default="", compare=False)
    clock_given: bool = field(default=False, compare=False)

    @property
    def counters(self) -> Iterator[CounterInfo]:
        """The counters of all collectors."""
        return (counter for collector in self.collectors for counter in collector.counters)

    @property
    def is_emulator(self) -> bool | None:
        """Whether it is an emulator or a simulator; None if not known."""
        return self.clock_kind == "simulated" or self.emulated if self.clock_kind else None


_PORTS: Final = 8
"""Ports of one board's name that are listed: a board that is started has another one each time."""


def devices_by_name(devices: Iterable[Device]) -> dict[str, Device]:
    """Return devices by name; those of one name are one, at the ports and with the CPUs of all."""
    found: dict[str, Device] = {}
    for each in devices:
        before = found.get(each.name, each)
        port, cpu = _both(before.port, each.port), _both(before.cpu, each.cpu)
        unsupported = {**before.unsupported, **each.unsupported}
        found[each.name] = replace(each, port=port, cpu=cpu, unsupported=unsupported)
    return found


def _both(before: str, now: str) -> str:
    """Return ``A; B; ...``, each text once."""
    known = before.split("; ")
    if now in known or known[-1] == "...":
        return before
    return f"{before}; {'...' if len(known) == _PORTS else now}"


@dataclass(frozen=True)
class Stack:
    """The stack need of a call, as found by painting.

    Attributes:
        used: bytes taken by the function and its callees.
        painted: bytes that were checked. If all of them were used, the need may be larger.
    """

    used: int
    painted: int


@dataclass(frozen=True)
class SourcePlace:
    """The definition of a function.

    Attributes:
        file: relative to its repository, with ``/``; only its name if it is in none.
        line: of its name, from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        """Return ``src/fir.c:12``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Output:
    """An array that came back from a call.

    Attributes:
        dtype: as numpy names it.
        shape: its lengths.
        crc32: of its bytes without the padding of structs, 8 hexadecimal digits.
        values: its numbers, little-endian, compressed by zlib, in base64; "" if they are not kept.
    """

    dtype: str
    shape: tuple[int, ...]
    crc32: str
    values: str = ""


RETURN: Final = "return"  # name of the return value among the outputs; no parameter can have it


LIMIT: Final = "limit"
"""How the kind of a finding begins that says that a metric is above its limit."""


@dataclass(frozen=True)
class Finding:
    """Something about a measurement that its numbers do not show.

    Attributes:
        kind: ``heap-kept``, ``heap-grown``, ``heap-refused``, ``heap-outputs``, ``memory``,
            ``masked``, ``counter``, ``sleep`` or ``limit METRIC``.
        text: a sentence that begins with the name of the function or benchmark, without a full
            stop.
        spoils: the numbers may be wrong, so they are not compared.
    """

    kind: str
    text: str
    spoils: bool = False


@dataclass(frozen=True)
class Energy:
    """What a power analyser measured in the windows of samples.

    Attributes:
        meter: its name and settings; begins with ``simulated`` if it is.
        nanojoules: of each sample's window, in run order; nothing is subtracted. null if the
            window is left out.
        error_nanojoules: bound of the meter's own error in each, edges of the window included.
        left_out: number of windows that are left out, by the reason.
    """

    meter: str
    nanojoules: tuple[float | None, ...] = ()
    error_nanojoules: tuple[float | None, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Interrupts:
    """Whether interrupts ran within a measurement's windows.

    Attributes:
        masked: each sample's window ran with interrupts masked.
        timer_us: time between two interrupts of the board's timer, microseconds; 0 if no timer is
            known.
        bound_ns: upper bound of what an interrupt takes outside of its hooks, from the board's
            port; 0 if not known.
        kept_by: counters that cannot leave out interrupts with hooks.
    """

    masked: bool = False
    timer_us: int = 0
    bound_ns: int = 0
    kept_by: tuple[str, ...] = ()


NOT_MASKED: Final = Interrupts()  # interrupts were not masked, and no timer is known


class SampleRecord(NamedTuple):
    """One measured window.

    Attributes:
        raw: what each counter counted, with wraps resolved and nothing subtracted.
        blobs: what the collectors sent, in the order of their indices.
        wraps: how often counters wrapped within the window, if they did.
        estimated: counters that counted for a part of the window and were scaled to the whole.
        ambiguous: counters that may have wrapped more often than can be told.
    """

    raw: Mapping[str, int]
    blobs: bytes = b""
    wraps: Mapping[str, int] = _NONE
    estimated: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()


NO_SAMPLE: Final = SampleRecord(_NONE)


@dataclass(frozen=True)
class PassRecord:
    """One run of all rounds with one set of counters.

    Attributes:
        collectors: indices of those that ran.
        events: what the slots of a programmable collector counted, by collector.
        samples: in run order.
        calibration_samples: the same windows around the empty function.
        totals: from before the first to after the last sample, one for each reply of the board.
        interrupt_costs: what one interrupt takes outside of the hooks of its handler, by counter,
            by calibration. It is subtracted for each interrupt. Empty if not known.
    """

    collectors: tuple[int, ...] = ()
    events: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    samples: tuple[SampleRecord, ...] = ()
    calibration_samples: tuple[SampleRecord, ...] = ()
    totals: tuple[SampleRecord, ...] = ()
    interrupt_costs: Mapping[str, float] = field(default_factory=dict)


NO_PASS: Final = PassRecord()


@dataclass(frozen=True)
class ColdRecord:
    """The first call, before the warm-up.

    Attributes:
        metrics: of the function itself, by column.
        calibration: what the empty function's window of one call counted, by counter.
        sample: the window.
    """

    metrics: Mapping[str, Metric]
    calibration: Mapping[str, int] = field(default_factory=dict)
    sample: SampleRecord = NO_SAMPLE


@dataclass(frozen=True, kw_only=True)
class CallFacts:
    """What a measurement and its record have alike; `MeasurementRecord` explains it."""

    arguments: str = ""
    inputs_crc32: str = ""
    label: str = ""
    flags: str | None = None
    clock_fit: ClockFit | None = None
    calls_before: int | None = None
    compilers: tuple[str, ...] = ()
    source: SourcePlace | None = None
    tolerance: float = 0.0
    interrupts: Interrupts = NOT_MASKED
    findings: tuple[Finding, ...] = ()
    energy: Energy | None = None
    output_crc32s: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """These facts by their names."""
        return {each.name: getattr(self, each.name) for each in fields(CallFacts)}


@dataclass(frozen=True)
class MeasurementRecord(CallFacts):
    """One function on one board.

    Attributes:
        name: of the function.
        device: name of the board.
        arguments: such as ``n=256, gain=0.5``; "" if it takes none.
        inputs_crc32: of what the call found in its arrays; "" if not known.
        label: tells its rows from others of the same function and arguments. In pytest, it is the
            test.
        stack: the stack need of a call; null if not known.
        stack_unknown: why the stack need is not known; "" if it is known or was not measured.
        result: what one extra call returned; a float that is not finite as text.
        outputs: the arrays that came back from that call, by parameter.
        output_call: number of calls before that one since the start of the measurement; null if not
            known.
        output_crc32s: of all that the first call of the measurement returned and wrote, and
            likewise of the call for the outputs; empty if not known. They are equal unless the
            function keeps state between calls.
        tolerance: the relative difference of floats in the outputs that does not count.
        flags: the compiler's, for the function's code; null if it was not built here.
        build_id: of the image.
        clock_fit: the board's clock relative to the host's; null if it has no clock.
        number: calls in each sample.
        warmup: calls before the first sample.
        calls_before: how often the board had run functions before; null if not known.
        formulas: kind and formula of each metric that is computed from others, by name.
        compilers: that the image names.
        libc: the C library in the image, or ``none``; "" if every image has one, or if not known.
        source: where the function is defined; null if not known.
        interrupts: whether interrupts ran within the samples.
        cold: the first call of all; null if not measured.
        calibration: what the empty function's window counted, by counter. It is subtracted from
            each sample. null if not known.
        hotspots: where one call spends what it costs; null if not recorded.
        findings: what else was noticed, and whether it makes the numbers doubtful.
        energy: what a power analyser measured; null if there was none.
        passes: at least one.
    """

    name: str = ""
    device: str = ""
    stack: Stack | None = None
    stack_unknown: str = ""
    result: object = None
    outputs: Mapping[str, Output] = field(default_factory=dict)
    output_call: int | None = None
    build_id: str = ""
    number: int | None = None
    warmup: int | None = None
    formulas: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    libc: str = ""
    cold: ColdRecord | None = None
    calibration: Mapping[str, int] | None = None
    hotspots: Profile | None = None
    passes: tuple[PassRecord, ...] = (NO_PASS,)


@dataclass(frozen=True)
class Record:
    """What a Report keeps beside its rows.

    Attributes:
        devices: the boards, by name.
        measurements: in the order of the rows.
        missing: what could not be measured, and why.
        alternatives: whether the functions do the same, and it is asked which one is best.
        others: keys that this version does not know; they are kept.
    """

    devices: Mapping[str, Device] = field(default_factory=dict)
    measurements: tuple[MeasurementRecord, ...] = ()
    missing: tuple[str, ...] = ()
    alternatives: bool = False
    others: Mapping[str, Any] = field(default_factory=dict)


NO_RECORD: Final = Record()  # the record of a Report that has none
