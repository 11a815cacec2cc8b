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
    """A board that was measured."""

    name: str = ""  #: the board's name; the Report's Device column
    #: ``measured``, ``declared`` or ``simulated``. A simulated clock gives no Duration.
    clock_kind: str = ""
    emulated: bool = False  #: the host started it as an emulator, or the board is always one
    #: through which it was reached; ``A; B`` if boards of this name were at several ports
    port: str = ""
    agent_version: str = ""  #: of the firmware
    build_id: str = ""  #: 16 hexadecimal digits
    boot_id: int = 0  #: differs between boots
    #: why a counter is not available, by name. Such a counter is in no row.
    unsupported: Mapping[str, str] = field(default_factory=dict)
    collectors: tuple[CollectorInfo, ...] = ()  #: from its dictionary, to decode the blobs again
    cflags: tuple[str, ...] = ()  #: flags of all code for the board
    #: of the machine that boardprof has started it on, if it runs there by itself: ``x86_64,
    #: Intel(R) Xeon(R) Processor (6-207-2)``; "" if not known
    cpu: str = ""
    #: why the clock has this kind, if its description does not say so
    clock_reason: str = field(default="", compare=False)
    #: the user or a Report states the kind of clock, so it is not checked by its counts
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
    """The stack need of a call, as found by painting."""

    used: int  # bytes taken by the function and its callees
    painted: int  # bytes that were checked. If all of them were used, the need may be larger.


@dataclass(frozen=True)
class SourcePlace:
    """The definition of a function."""

    file: str  # relative to its repository, with ``/``; only its name if it is in none
    line: int  # of its name, from 1

    def __str__(self) -> str:
        """Return ``src/fir.c:12``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Output:
    """An array that came back from a call."""

    dtype: str  # as numpy names it
    shape: tuple[int, ...]  # its lengths
    crc32: str  # of its bytes without the padding of structs, 8 hexadecimal digits
    # its numbers, little-endian, compressed by zlib, in base64; "" if they are not kept
    values: str = ""


RETURN: Final = "return"  # name of the return value among the outputs; no parameter can have it


LIMIT: Final = "limit"  # how the kind of a finding begins if a metric is above its limit


@dataclass(frozen=True)
class Finding:
    """Something about a measurement that its numbers do not show."""

    # ``heap-kept``, ``heap-grown``, ``heap-refused``, ``heap-outputs``, ``memory``, ``masked``,
    # ``counter``, ``sleep`` or ``limit METRIC``
    kind: str
    # a sentence that begins with the name of the function or benchmark, without a full stop
    text: str
    spoils: bool = False  # the numbers may be wrong, so they are not compared


@dataclass(frozen=True)
class Energy:
    """What a power analyser measured in the windows of samples."""

    meter: str  # its name and settings; begins with ``simulated`` if it is
    # of each sample's window, in run order; nothing is subtracted. null if the window is left out.
    nanojoules: tuple[float | None, ...] = ()
    # bound of the meter's own error in each, edges of the window included
    error_nanojoules: tuple[float | None, ...] = ()
    # number of windows that are left out, by the reason
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Interrupts:
    """Whether interrupts ran within a measurement's windows."""

    masked: bool = False  # each sample's window ran with interrupts masked
    # time between two interrupts of the board's timer, microseconds; 0 if no timer is known
    timer_us: int = 0
    # upper bound of what an interrupt takes outside of its hooks, from the board's port; 0 if not
    # known
    bound_ns: int = 0
    kept_by: tuple[str, ...] = ()  # counters that cannot leave out interrupts with hooks


NOT_MASKED: Final = Interrupts()  # interrupts were not masked, and no timer is known


class SampleRecord(NamedTuple):
    """One measured window."""

    raw: Mapping[str, int]  # what each counter counted, with wraps resolved and nothing subtracted
    blobs: bytes = b""  # what the collectors sent, in the order of their indices
    wraps: Mapping[str, int] = _NONE  # how often counters wrapped within the window, if they did
    # counters that counted for a part of the window and were scaled to the whole
    estimated: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()  # counters that may have wrapped more often than can be told


NO_SAMPLE: Final = SampleRecord(_NONE)


@dataclass(frozen=True)
class PassRecord:
    """One run of all rounds with one set of counters."""

    collectors: tuple[int, ...] = ()  # indices of those that ran
    # what the slots of a programmable collector counted, by collector
    events: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    samples: tuple[SampleRecord, ...] = ()  # in run order
    calibration_samples: tuple[SampleRecord, ...] = ()  # the same windows around the empty function
    # from before the first to after the last sample, one for each reply of the board
    totals: tuple[SampleRecord, ...] = ()
    # what one interrupt takes outside of the hooks of its handler, by counter, by calibration. It
    # is subtracted for each interrupt. Empty if not known.
    interrupt_costs: Mapping[str, float] = field(default_factory=dict)


NO_PASS: Final = PassRecord()


@dataclass(frozen=True)
class ColdRecord:
    """The first call, before the warm-up."""

    metrics: Mapping[str, Metric]  # of the function itself, by column
    # what the empty function's window of one call counted, by counter
    calibration: Mapping[str, int] = field(default_factory=dict)
    sample: SampleRecord = NO_SAMPLE  # the window


@dataclass(frozen=True, kw_only=True)
class CallFacts:
    """What a measurement and its record have alike."""

    arguments: str = ""  # such as ``n=256, gain=0.5``; "" if it takes none
    inputs_crc32: str = ""  # of what the call found in its arrays; "" if not known
    # tells its rows from others of the same function and arguments. In pytest, it is the test.
    label: str = ""
    # the compiler's, for the function's code; null if it was not built here
    flags: str | None = None
    # the board's clock relative to the host's; null if it has no clock
    clock_fit: ClockFit | None = None
    # how often the board had run functions before; null if not known
    calls_before: int | None = None
    compilers: tuple[str, ...] = ()  # that the image names
    source: SourcePlace | None = None  # where the function is defined; null if not known
    tolerance: float = 0.0  # the relative difference of floats in the outputs that does not count
    interrupts: Interrupts = NOT_MASKED  # whether interrupts ran within the samples
    # what else was noticed, and whether it makes the numbers doubtful
    findings: tuple[Finding, ...] = ()
    energy: Energy | None = None  # what a power analyser measured; null if there was none
    # of all that the first call of the measurement returned and wrote, and likewise of the call for
    # the outputs; empty if not known. They are equal unless the function keeps state between calls.
    output_crc32s: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """These facts by their names."""
        return {each.name: getattr(self, each.name) for each in fields(CallFacts)}


@dataclass(frozen=True)
class MeasurementRecord(CallFacts):
    """One function on one board."""

    name: str = ""  #: of the function
    device: str = ""  #: name of the board
    stack: Stack | None = None  #: the stack need of a call; null if not known
    #: why the stack need is not known; "" if it is known or was not measured
    stack_unknown: str = ""
    result: object = None  #: what one extra call returned; a float that is not finite as text
    #: the arrays that came back from that call, by parameter
    outputs: Mapping[str, Output] = field(default_factory=dict)
    #: number of calls before that one since the start of the measurement; null if not known
    output_call: int | None = None
    build_id: str = ""  #: of the image
    number: int | None = None  #: calls in each sample
    warmup: int | None = None  #: calls before the first sample
    #: kind and formula of each metric that is computed from others, by name
    formulas: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: the C library in the image, or ``none``; "" if every image has one, or if not known
    libc: str = ""
    cold: ColdRecord | None = None  #: the first call of all; null if not measured
    #: what the empty function's window counted, by counter. It is subtracted from each sample. null
    #: if not known.
    calibration: Mapping[str, int] | None = None
    hotspots: Profile | None = None  #: where one call spends what it costs; null if not recorded
    passes: tuple[PassRecord, ...] = (NO_PASS,)  #: at least one


@dataclass(frozen=True)
class Record:
    """What a Report keeps beside its rows."""

    devices: Mapping[str, Device] = field(default_factory=dict)  #: the boards, by name
    measurements: tuple[MeasurementRecord, ...] = ()  #: in the order of the rows
    missing: tuple[str, ...] = ()  #: what could not be measured, and why
    #: whether the functions do the same, and it is asked which one is best
    alternatives: bool = False
    #: keys that this version does not know; they are kept
    others: Mapping[str, Any] = field(default_factory=dict)


NO_RECORD: Final = Record()  # the record of a Report that has none
