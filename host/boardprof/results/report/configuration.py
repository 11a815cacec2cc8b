# SPDX-License-Identifier: Apache-2.0
"""The configuration of a Report: how it was measured, in the lines below its table."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence

from boardprof import __version__
from boardprof.base.metrics import Count, Metric, float32_text
from boardprof.results.record import Device
from boardprof.results.report.calls import Row, one_of
from boardprof.results.report.measurement import (
    HOOKED,
    Measurement,
    busy_parts,
    clock_of,
    devices_of,
    interrupt_doubts,
    interrupts_in,
    metrics_of,
    missed_interrupts,
)
from boardprof.results.report.profile import CORE_CYCLES
from boardprof.wire.decode.clock import ClockFit
from boardprof.wire.decode.samples import Reading

_NO_LIBC = (
    "none; memcpy and similar functions come from the agent and copy byte by byte, unless the "
    "code has its own"
)


def configuration_of(measurements: Sequence[Measurement]) -> Row:
    """Return the lines by their names; names of a device's lines begin with the device."""
    configuration: Row = {
        "boardprof": __version__,
        "Host": f"{platform.system()} {platform.machine()}",
    }
    is_called = one_of(m.label for m in measurements) == "call"
    if is_called:
        configuration |= {
            "Warm-up": _same(m.warmup for m in measurements),
            "Repeat": _same(sum(len(m.samples) for m in each) for each in _by_call(measurements)),
            "Number": _same(m.number for m in measurements),
        }
        if (sessions := _same(len(each) for each in _by_call(measurements))) != Count(1):
            configuration["Sessions"] = sessions
    if is_called and any(m.number > 1 and (m.changed or m.kept) for m in measurements):
        configuration["Note"] = (
            "Number > 1: later calls of a sample see the data that earlier ones left"
        )
    if differ := _other_results(measurements):
        configuration["Results differ"] = "; ".join(differ)
    for device in devices_of(measurements):
        ours = [m for m in measurements if m.device.name == device.name]
        configuration |= _device_lines(device, ours)
    return configuration


def _by_call(measurements: Sequence[Measurement]) -> list[list[Measurement]]:
    """Return the measurements of each function on a board, one for each session."""
    found: dict[tuple[object, ...], list[Measurement]] = {}
    for m in measurements:
        key = (m.function, m.arguments, m.label, m.device.name, m.flags, m.inputs_crc32)
        found.setdefault(key, []).append(m)
    return [*found.values()]


def _other_results(measurements: Sequence[Measurement]) -> list[str]:
    """List functions whose results differ between boards or flags."""
    return differing_results(
        (m.function, m.arguments, m.label, m.device.name, m.flags or "", _result_text(m))
        for m in measurements
        if m.result is not None
    )


def differing_results(results: Iterable[tuple[str, str, str, str, str, str]]) -> list[str]:
    """List functions whose results differ between boards or flags."""
    found: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for function, arguments, label, board, flags, result in results:
        place = board if not flags else f"{board} with {flags}"
        by_result = found.setdefault((function, arguments, label), {})
        by_result.setdefault(result, []).append(place)
    return [
        f"{function} returned {_by_place(by_result)}"
        for (function, _, _), by_result in found.items()
        if len(by_result) > 1
    ]


def _by_place(by_result: Mapping[str, Sequence[str]]) -> str:
    """Return results with their places; a result that most places have is that ``elsewhere``."""
    most = max(by_result, key=lambda each: len(by_result[each]))
    usual = most if 2 * len(by_result[most]) > sum(map(len, by_result.values())) else None
    parts = [f"{value} on {' and '.join(at)}" for value, at in by_result.items() if value != usual]
    return ", ".join(parts if usual is None else [*parts, f"{usual} elsewhere"])


def _result_text(measurement: Measurement) -> str:
    """Return a result; a float32 with the fewest digits that are this float32."""
    result = measurement.result
    if measurement.result_type == "f32" and isinstance(result, float):
        return float32_text(result)
    return f"{result}"


def _same(values: Iterable[int]) -> Metric:
    found = sorted(set(values))
    return Count(found[0]) if len(found) == 1 else ", ".join(map(str, found))


def _device_lines(device: Device, measurements: Sequence[Measurement]) -> Row:
    lines: Row = {f"{device.name} clock": _clock_line(device, measurements)}
    if device.cpu:
        lines[f"{device.name} CPU"] = device.cpu
    for counter in device.counters:
        if counter.instruction_ns and any(counter.name in m.counters for m in measurements):
            how = "from the emulator's virtual time, " + counter.source.rpartition(", ")[2]
            lines[f"{device.name} {counter.name}"] = how
    if how := _core_cycles_line(measurements):
        lines[f"{device.name} {CORE_CYCLES}"] = how
    fits = [m.clock_fit for m in measurements if m.clock_fit is not None]
    if fits:
        lines[f"{device.name} clock by the host's"] = _fit_line(fits)
    if device.unsupported:
        lines[f"{device.name} unsupported"] = "; ".join(
            f"{what} ({why})" for what, why in device.unsupported.items()
        )
    if why := dict.fromkeys(m.stack for m in measurements if isinstance(m.stack, str)):
        lines[f"{device.name} stack unknown"] = "; ".join(why)
    if energy := dict.fromkeys(_energy_texts(measurements)):
        lines[f"{device.name} energy"] = "; ".join(energy)
    lines |= _argument_lines(device, measurements)
    if interrupts := _interrupts_line(measurements):
        lines[f"{device.name} interrupts"] = interrupts
    lines[f"{device.name} perturbation"] = perturbation_text(
        [share for m in measurements for share in m.perturbations if share is not None]
    )
    lines |= _pass_lines(device, measurements)
    flags = sorted({f for m in measurements for f in _warnings(m)})
    if flags:
        lines[f"{device.name} warning"] = "; ".join(flags)
    if unresolved := dict.fromkeys(text for m in measurements for text in _unresolved(m)):
        lines[f"{device.name} unresolved"] = ", ".join(unresolved)
    builds = ", ".join(dict.fromkeys(m.device.build_id for m in measurements))
    build = f"build {builds}" if builds else "without a build id"
    lines[f"{device.name} agent"] = f"{device.agent_version}, {build}"
    settings = list(dict.fromkeys(m.flags for m in measurements if m.flags is not None))
    if settings:
        lines[f"{device.name} flags"] = _flags_line(device.cflags, settings)
    libc = dict.fromkeys(m.libc for m in measurements if m.libc is not None)
    if libc:
        shown = (_NO_LIBC if each == "none" else each for each in libc)
        lines[f"{device.name} libc"] = " | ".join(shown)
    if added := dict.fromkeys(text for m in measurements for text in m.added):
        lines[f"{device.name} build"] = "; ".join(added)
    return lines


def _core_cycles_line(measurements: Sequence[Measurement]) -> str:
    """Say what modelled cycles are, and why a function has none."""
    profiles = [(m.function, m.profile) for m in measurements if m.profile is not None]
    how = dict.fromkeys(f"modelled {each.modelled}" for _, each in profiles if each.modelled)
    why = (f"unknown for {name}: {each.unmodelled}" for name, each in profiles if each.unmodelled)
    return "; ".join([*how, *why])


def _clock_line(device: Device, measurements: Sequence[Measurement]) -> str:
    readings = [(name, m.samples[0].readings[name]) for m in measurements for name in m.counters]
    rates = {
        (r.hz, "ticks" if r.unit == "ticks" else name)
        for name, r in readings
        if r.hz and r.unit != "ns"
    }
    ticks = "".join(f", {hz:,} {what} a second" for hz, what in sorted(rates))
    if device.clock_kind == "simulated":
        own = f"{ticks} of" if ticks else ", by"
        why = f": {device.clock_reason}" if device.clock_reason else ""
        return f"simulated{own} the emulator's own time; there is no Duration{why}"
    return f"{device.clock_kind}{ticks}" + (", of a simulated board" if device.emulated else "")


def _fit_line(fits: Sequence[ClockFit]) -> str:
    """Describe the fit over the longest time: only that one bounds the drift well."""
    fit = max(fits, key=lambda each: each.span_s)
    return (
        f"within {_short(max(each.error_s for each in fits) * 1e6)} us, drift "
        f"{_short(fit.drift_ppm, '+')} ppm (within {_short(fit.drift_error_ppm)}) over "
        f"{fit.span_s:.3g} s"
    )


def _short(value: float, sign: str = "-") -> str:
    """Return three digits, or all digits of a larger number, without an exponent."""
    return f"{value:{sign},.0f}" if abs(value) >= 100 else f"{value:{sign}.3g}"


def _energy_texts(measurements: Sequence[Measurement]) -> Iterable[str]:
    """Yield how the energy of each function was measured, and what is left out of it."""
    for each in measurements:
        if (energy := each.energy) is None:
            continue
        errors = [error / each.number for error in energy.error_nanojoules if error is not None]
        known = f"± {_short(max(errors))} nJ per call at most" if errors else "unknown"
        of = f"in {len(errors):,} of {len(energy.nanojoules):,} windows"
        out = "".join(f", {count:,} left out: {why}" for why, count in energy.left_out.items())
        yield f"by {energy.meter}, nothing subtracted; {each.function} {known}, {of}{out}"


def _argument_lines(device: Device, measurements: Sequence[Measurement]) -> Row:
    """Describe in/out arrays that did not hold the host's data in each call, and a lone result."""
    lines: Row = {}
    results = dict.fromkeys(_result_text(m) for m in measurements if m.result is not None)
    if results and len({m.function for m in measurements}) == 1:
        lines[f"{device.name} returned"] = ", ".join(results)
    kept = [f"{name} of {m.function}" for m in measurements for name in m.kept]
    if kept:
        lines[f"{device.name} kept"] = f"{', '.join(kept)}: not restored between calls"
    again = {m.function: m.sent_again for m in measurements if m.sent_again}
    if again:
        lines[f"{device.name} sent again"] = "; ".join(
            f"The arrays of {name} are sent before each round of samples: {why}. The first call of "
            "a round is cold."
            for name, why in again.items()
        )
    return lines


def _interrupts_line(measurements: Sequence[Measurement]) -> str:
    """Describe the number of interrupts in a sample, if they are counted or masked."""
    if any(m.interrupts.masked for m in measurements):
        return "masked in each sample"
    counts = [interrupts_in(s) for m in measurements if HOOKED in m.counters for s in m.samples]
    if not any(counts):
        return ""
    ends = " to ".join(f"{n:,}" for n in dict.fromkeys((min(counts), max(counts))))
    return f"{ends} in a sample, left out of its counts"


def perturbation_text(shares: Sequence[float]) -> str:
    """Describe which part of raw windows was overhead, in percent."""
    if not shares:
        return "unknown: every raw window reads 0"
    ends = dict.fromkeys(f"{share:.3g}" for share in (min(shares), max(shares)))
    return f"{' to '.join(ends)} % of the raw windows was measurement overhead, which is subtracted"


def _pass_lines(device: Device, measurements: Sequence[Measurement]) -> Row:
    """List the counters that come from separate runs, and those that are estimates."""
    lines: Row = {}
    split = [m for m in measurements if len(m.passes) > 1]
    if split:
        texts = dict.fromkeys(" | ".join(", ".join(w.counters) for w in m.passes) for m in split)
        lines[f"{device.name} passes"] = (
            f"{max(len(m.passes) for m in split)} runs, since the counters do not fit into one: "
            + "; ".join(texts)
        )
    mixed = dict.fromkeys(
        name
        for m in split
        for name, (_, formula) in m.formulas.items()
        if {*formula.names} <= {*m.counters}
        and not any({*formula.names} <= {*w.counters} for w in m.passes)
    )
    if mixed:
        lines[f"{device.name} of several runs"] = (
            f"{', '.join(mixed)}: computed from counters of different runs"
        )
    shared = [
        (counter, sample.readings[counter])
        for m in measurements
        for sample in m.samples
        for counter in m.counters
        if sample.readings[counter].estimated
    ]
    if shared:
        names = ", ".join(
            _shared_text(name, [reading for other, reading in shared if other == name])
            for name in dict.fromkeys(name for name, _ in shared)
        )
        lines[f"{device.name} estimated"] = (
            f"{names}: counted for part of the time, scaled to the whole"
        )
    if user := dict.fromkeys(
        name for m in measurements for w in m.passes for name in w.user_only if name in m.counters
    ):
        lines[f"{device.name} user mode only"] = (
            f"{', '.join(user)}: what the kernel does for the function is not counted "
            "(kernel.perf_event_paranoid is above 1)"
        )
    parts = dict.fromkeys(part for m in measurements for part in m.parts.values())
    idle = [part for part in parts if not any(part in busy_parts(m) for m in measurements)]
    if idle:
        lines[f"{device.name} idle"] = ", ".join(idle)
    return lines


def _shared_text(name: str, readings: Sequence[Reading]) -> str:
    """Return a counter with the time for which it counted, if that is known."""
    enabled_ns = sum(each.enabled_ns for each in readings)
    running_ns = sum(each.running_ns for each in readings)
    return f"{name} ({running_ns:,} of {enabled_ns:,} ns)" if enabled_ns else name


def _warnings(measurement: Measurement) -> Iterable[str]:
    interrupts = measurement.interrupts
    yield from (finding.text for finding in measurement.findings)
    if missed := min(missed_interrupts(interrupts, each) for each in measurement.samples):
        yield (
            f"each sample of {measurement.function} is longer than the {interrupts.timer_us:,} us "
            f"between two timer interrupts and contains at least {missed:,} of them: "
            "--mask-interrupts leaves them out"
        )
    costs = {
        name: cost for each in measurement.passes for name, cost in each.interrupt_costs.items()
    }
    for doubt in interrupt_doubts(interrupts, measurement.samples, costs):
        yield f"{measurement.function} is inexact: {doubt}"
    for counter in measurement.counters:
        told = f"{_column(measurement, counter)} of {measurement.function}"
        if any(s.readings[counter].ambiguous for s in measurement.samples):
            yield f"{told} may have wrapped unseen"
        if min(measurement.nets[counter]) < 0 and not _is_beside(measurement, counter):
            yield f"{told} is too small to be resolved (net < 0)"
        elif told.startswith("Duration") and not any(measurement.nets[counter]):
            yield f"{told} is too small to be resolved (net = 0)"


def _unresolved(measurement: Measurement) -> Iterable[str]:
    """Yield the clocks beside an exact count in which a function takes less than nothing."""
    for counter in measurement.counters:
        if _is_beside(measurement, counter) and min(measurement.nets[counter]) < 0:
            yield f"{counter} of {measurement.function} (net < 0)"


def _is_beside(measurement: Measurement, counter: str) -> bool:
    """Tell whether a counter is an emulator's clock, and instructions are counted more exactly."""
    is_clock = measurement.samples[0].readings[counter].unit == "ticks"
    is_simulated = measurement.device.clock_kind == "simulated"
    return is_clock and is_simulated and "instructions" in measurement.counters


def _column(measurement: Measurement, counter: str) -> str:
    """Return the column of a counter."""
    readings = measurement.samples[0].readings
    clock = clock_of(readings, measurement.device.clock_kind)
    return next(iter(metrics_of(counter, 0, readings[counter], clock)))


def _flags_line(board: Sequence[str], settings: Sequence[str]) -> str:
    """Return the flags of the board and of each setting, with the effective optimisation level."""
    level = [flag for flag in board if flag.startswith("-O")][-1:]
    brings = [any(word.startswith("-O") for word in setting.split()) for setting in settings]
    own = [flag for flag in board if not flag.startswith("-O")]
    shown = [
        setting if brings_one else " ".join(filter(None, [*level, setting]))
        for setting, brings_one in zip(settings, brings, strict=True)
    ]
    return " ".join(filter(None, [*own, " | ".join(shown)]))
