# SPDX-License-Identifier: Apache-2.0
"""The configuration of a Report: how it was measured, in the lines below its table."""

from __future__ import annotations

import itertools
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
    results = (
        (m.function, m.arguments, m.label, m.device.name, m.flags or "", _result_text(m))
        for m in measurements
        if m.result is not None
    )
    if differ := differing_results(results):
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


def differing_results(results: Iterable[tuple[str, str, str, str, str, str]]) -> list[str]:
    """List functions whose results differ between boards or flags, and do not vary in one place."""
    by_place: dict[tuple[str, str, str], dict[str, set[str]]] = {}
    for function, arguments, label, board, flags, result in results:
        place = board if not flags else f"{board} with {flags}"
        places = by_place.setdefault((function, arguments, label), {})
        places.setdefault(place, set()).add(result)
    found: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for call, places in by_place.items():
        by_result = found.setdefault(call, {})
        for place, of_place in places.items():
            if len(of_place) == 1:
                by_result.setdefault(min(of_place), []).append(place)
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


_MOST_LISTED = 4


def _same(values: Iterable[int]) -> Metric:
    found = sorted(set(values))
    is_row = len(found) > 2 and found == [*range(found[0], found[-1] + 1)]
    if is_row or len(found) > _MOST_LISTED:  # of sessions
        return f"{found[0]} to {found[-1]}"
    return Count(found[0]) if len(found) == 1 else ", ".join(map(str, found))


def _device_lines(device: Device, measurements: Sequence[Measurement]) -> Row:
    fits = [m.clock_fit for m in measurements if m.clock_fit is not None]
    shares = [share for m in measurements for share in m.perturbations if share is not None]
    builds = ", ".join(dict.fromkeys(m.device.build_id for m in measurements))
    build = f"build {builds}" if builds else "without a build id"
    settings = list(dict.fromkeys(m.flags for m in measurements if m.flags is not None))
    libcs = (m.libc for m in measurements if m.libc is not None)
    unsupported = (f"{what} ({why})" for what, why in device.unsupported.items())
    lines = {
        "clock": _clock_line(device, measurements),
        "CPU": device.cpu or None,
        **{
            each.name: "from the emulator's virtual time, " + each.source.rpartition(", ")[2]
            for each in device.counters
            if each.instruction_ns and any(each.name in m.counters for m in measurements)
        },
        CORE_CYCLES: _core_cycles_line(measurements),
        "clock by the host's": _fit_line(fits) if fits else None,
        "unsupported": _each_once("; ", unsupported),
        "stack unknown": _each_once("; ", (m.stack for m in measurements if type(m.stack) is str)),
        "energy": _each_once("; ", _energy_texts(measurements)),
        **_argument_lines(measurements),
        "interrupts": _interrupts_line(measurements),
        "perturbation": perturbation_text(shares),
        **_pass_lines(measurements),
        "warning": _each_once("; ", sorted(text for m in measurements for text in _warnings(m))),
        "unresolved": _each_once(", ", (text for m in measurements for text in _unresolved(m))),
        "agent": f"{device.agent_version}, {build}",
        "flags": _flags_line(device.cflags, settings) if settings else None,
        "libc": _each_once(" | ", (_NO_LIBC if each == "none" else each for each in libcs)),
        "build": _each_once("; ", (text for m in measurements for text in m.added)),
    }
    return {f"{device.name} {what}": text for what, text in lines.items() if text is not None}


def _each_once(separator: str, texts: Iterable[str]) -> str | None:
    """Return texts in one line, each once; None if there are none."""
    found = dict.fromkeys(texts)
    return separator.join(found) if found else None


def _core_cycles_line(measurements: Sequence[Measurement]) -> str | None:
    """Say what modelled cycles are, and why a function has none."""
    profiles = [(m.function, m.profile) for m in measurements if m.profile is not None]
    how = [f"modelled {each.modelled}" for _, each in profiles if each.modelled]
    why = [f"unknown for {name}: {each.unmodelled}" for name, each in profiles if each.unmodelled]
    return _each_once("; ", [*how, *why])


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


def _argument_lines(measurements: Sequence[Measurement]) -> dict[str, str | None]:
    """Describe in/out arrays that did not hold the host's data in each call, and a lone result."""
    is_alone = len({m.function for m in measurements}) == 1
    results = (_result_text(m) for m in measurements if m.result is not None and is_alone)
    kept = _each_once(", ", (f"{name} of {m.function}" for m in measurements for name in m.kept))
    again = {m.function: m.sent_again for m in measurements if m.sent_again}
    return {
        "returned": _each_once(", ", results),
        "kept": f"{kept}: not restored between calls" if kept else None,
        "sent again": _each_once(
            "; ",
            (
                f"The arrays of {name} are sent before each round of samples: {why}. The first "
                "call of a round is cold."
                for name, why in again.items()
            ),
        ),
    }


def _interrupts_line(measurements: Sequence[Measurement]) -> str | None:
    """Describe the number of interrupts in a sample, if they are counted or masked."""
    if any(m.interrupts.masked for m in measurements):
        return "masked in each sample"
    counts = [interrupts_in(s) for m in measurements if HOOKED in m.counters for s in m.samples]
    if not any(counts):
        return None
    ends = " to ".join(f"{n:,}" for n in dict.fromkeys((min(counts), max(counts))))
    return f"{ends} in a sample, left out of its counts"


def perturbation_text(shares: Sequence[float]) -> str:
    """Describe which part of raw windows was overhead, in percent."""
    if not shares:
        return "unknown: every raw window reads 0"
    ends = dict.fromkeys(f"{share:.3g}" for share in (min(shares), max(shares)))
    return f"{' to '.join(ends)} % of the raw windows was measurement overhead, which is subtracted"


def _pass_lines(measurements: Sequence[Measurement]) -> dict[str, str | None]:
    """List the counters that come from separate runs, and those that are estimates."""
    split = [m for m in measurements if len(m.passes) > 1]
    counters = _each_once(
        "; ", (" | ".join(", ".join(w.counters) for w in m.passes) for m in split)
    )
    runs = f"{max((len(m.passes) for m in split), default=0)} runs"
    mixed = (
        name
        for m in split
        for name, (_, formula) in m.formulas.items()
        if {*formula.names} <= {*m.counters}
        and not any({*formula.names} <= {*w.counters} for w in m.passes)
    )
    shared: dict[str, list[Reading]] = {}
    for m in measurements:
        for sample, name in itertools.product(m.samples, m.counters):
            if sample.readings[name].estimated:
                shared.setdefault(name, []).append(sample.readings[name])
    in_user_mode = (
        name for m in measurements for w in m.passes for name in w.user_only if name in m.counters
    )
    inexact = {
        "of several runs": (mixed, "computed from counters of different runs"),
        "estimated": (
            (_shared_text(*each) for each in shared.items()),
            "counted for part of the time, scaled to the whole",
        ),
        "user mode only": (
            in_user_mode,
            "what the kernel does for the function is not counted "
            "(kernel.perf_event_paranoid is above 1)",
        ),
    }
    parts = dict.fromkeys(part for m in measurements for part in m.parts.values())
    busy = {part for m in measurements for part in busy_parts(m)}
    return {
        "passes": counters and f"{runs}, since the counters do not fit into one: {counters}",
        **{
            what: f"{names}: {meaning}"
            for what, (texts, meaning) in inexact.items()
            if (names := _each_once(", ", texts))
        },
        "idle": _each_once(", ", (part for part in parts if part not in busy)),
    }


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
