# SPDX-License-Identifier: Apache-2.0
"""What probes cost, on rv32 and Cortex-M4, beside a tracer that barectf generates.

A probe is counted as its user pays it, in instructions: a function with the probe, minus the same
function without it. Flash and RAM are those of the code that records, without what talks with the
host. The emulator also counts how many instructions run with interrupts off, with a ring of 1 MiB
where the board has room. Run from the repository: ``python benchmarks/probes.py``. Ends with 1 when
a probe is over its budget, and with 7 when something cannot be built or run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.executed import END, BenchmarkError, counted, masked
from boardprof.base.errors import BoardprofError
from boardprof.base.files import runtime_dir
from boardprof.target.elf.object_file import images, read_image, symbols
from tests.tools.insn_count import InsnCountError

__all__ = ["BUDGETS", "MASKED_BOARDS", "count_barectf", "count_masked", "count_probes", "main"]

BOARDS = {"rv32": "qemu-rv32", "m4": "qemu-cortex-m4"}

_OF_CYCLES = {"trace": 1 << 20, "trace_clock": 0}

MASKED_BOARDS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "rv32": ("qemu-rv32", {"trace": 1 << 20, "trace_clock": 2}),
    "rv64": ("qemu-rv64", {"trace": 1 << 20, "trace_clock": 2}),
    "a53": ("qemu-cortex-a53", {"trace": 1 << 20, "trace_clock": 2}),
    "m0": ("microbit", {"trace": 2048, "arena": 1024}),
    **{f"m{n}": (f"qemu-cortex-m{n}", _OF_CYCLES) for n in (3, 4, 7, 33, 55)},
    "m4_basepri": ("qemu-cortex-m4", {**_OF_CYCLES, "basepri": 0x40}),
    "m4_systick": ("netduinoplus2", {}),
}
"""Board of each core, and the options of its agent. microbit has 16 KiB of RAM. netduinoplus2
records SysTick, which takes longer to read than a counter."""

BUDGETS = {
    "event_u32_rv32": 36,
    "event_u32_m4": 32,
    "event_u32_worst_rv32": 73,  # late, with the whole clock, as the ring begins again
    "event_u32_worst_m4": 82,
    "disabled_rv32": 5,
    "disabled_m4": 5,
    "range_statistics_rv32": 46,
    "events_flash_rv32": 1228,
    "events_flash_m4": 1228,
    "tracer_ram_rv32": 64,
    "tracer_ram_m4": 64,
    **{f"masked_{what}_{core}": 80 for what in ("event", "agent") for core in BOARDS},
}
"""Most instructions of a probe; of both probes of a range with statistics; with interrupts off.
Most bytes."""

_CLOCKS = {"rv32": 2, "m4": 0}
"""minstret; DWT CYCCNT, which QEMU reads as 0: that is as many instructions."""

_INSTALL_S = 300.0

# The functions call `anchor`, so that each of them saves its return address.
_MAIN = """\
#include "{internal}"

__attribute__((noipa)) static void anchor(void) {{
    __asm__ volatile("");
}}

#define PROBED(name, ...)                                              \\
    __attribute__((noipa)) static void name(uint32_t value) {{          \\
        __VA_ARGS__;                                                   \\
        anchor();                                                      \\
        __asm__ volatile("" : : "r"(0));                               \\
        (void)value;                                                   \\
    }}

PROBED(nothing, (void)0)
PROBED(off_value, BP_VALUE(bench_value, value))
PROBED(off_mark, BP_MARK(bench_mark))
PROBED(off_begin, BP_RANGE_BEGIN(bench_range))
PROBED(value_usual, BP_VALUE(bench_value, value))
PROBED(value_late, BP_VALUE(bench_value, value))
PROBED(value_lap, BP_VALUE(bench_value, value))
PROBED(value_behind, BP_VALUE(bench_value, value))
PROBED(value_full, BP_VALUE(bench_value, value))
PROBED(value_all, BP_VALUE(bench_value, value))
PROBED(value_over, BP_VALUE(bench_value, value))
PROBED(mark_usual, BP_MARK(bench_mark))
PROBED(begin_events, BP_RANGE_BEGIN(bench_range))
PROBED(end_events, BP_RANGE_END(bench_range))
PROBED(begin_statistics, BP_RANGE_BEGIN(bench_range))
PROBED(end_statistics, BP_RANGE_END(bench_range))
PROBED(alloc, BP_ALLOC(&bp_trace_ring, value))

static void start(uint8_t what, uint8_t mode) {{
    uint8_t in[] = {{what, mode}}, out[8];
    bp_call_t call = {{.in = in, .in_end = in + 2, .out = out, .out_end = out + 8, .argc = 2}};
    (void)bp_trace_start(&call);
}}

int main(void) {{
    bp_trace_ring_t *ring = &bp_trace_ring[0];
    for (uint32_t i = 0; i < 4; i++) {{
        nothing(i);
        off_value(i);
        off_mark(i);
        off_begin(i);
        alloc(i);
    }}
    start(BP_TRACE_EVENTS, BP_TRACE_DROP);
    for (uint32_t i = 0; i < 20; i++) {{
        value_usual(i);
        mark_usual(i);
        begin_events(i);
        end_events(i);
    }}
    ring->last -= 0x1000000u;
    value_late(0);
    ring->at = ring->begin + BP_TRACE_WORDS - 1;
    ring->read = ring->at;
    value_lap(0);
    ring->end = ring->begin;
    value_behind(0);
    ring->read = ring->at + 2;
    ring->end = ring->begin;
    value_full(0);
    ring->at = ring->begin + BP_TRACE_WORDS - 1;
    ring->read = ring->at;
    ring->last -= 0x1000000u;
    value_all(0);
    start(BP_TRACE_EVENTS, BP_TRACE_OVERWRITE);
    for (uint32_t i = 0; i < BP_TRACE_WORDS; i++) {{
        value_over(i);
    }}
    bp_tracing = 0;
    start(BP_TRACE_STATISTICS, 0);
    for (uint32_t i = 0; i < 20; i++) {{
        begin_statistics(i);
        end_statistics(i);
    }}
    {end}
    for (;;) {{
    }}
}}
"""

_SYMBOLS = (
    *("nothing", "off_value", "off_mark", "off_begin", "value_usual", "value_late", "value_lap"),
    *("value_behind", "value_full", "value_all", "value_over", "mark_usual", "begin_events"),
    "end_events",
    *("begin_statistics", "end_statistics"),
)

_MASKED_MAIN = Path(__file__).with_name("probes_masked.c")
_MASKED = {
    "event": re.compile(r"bp_trace_(mark|value|task)|bp_(range|slot)_\w+"),
    "memory": re.compile(r"bp_trace_alloc|bp_heap_\w+|bp_trace_switch"),
    "calibration": re.compile(r"bp_trace_calibrate"),
    "task_table": re.compile(r"bp_task_\w+"),
}
"""Functions that turn interrupts off, by what they do it for. All others are the agent's own work,
such as to start, to send and to read statistics."""

_OF_RANGES = ("bp_range_", "bp_slot_", "bp_slots_")
_OF_EVENTS = (
    *("bp_trace_mark", "bp_trace_value", "bp_trace_unusual", "bp_trace_rare", "bp_trace_alloc"),
    *("bp_trace_overwrite", "bp_trace_switch", "bp_trace_time", "bp_trace_mix", "bp_trace_place"),
)
_VARIABLES = ("bp_trace_ring", "bp_tracing", "bp_slots")
"""Symbols of src/bp_trace.c. The functions of a range record its events, too."""

_WORST = ("value_late", "value_lap", "value_behind", "value_full", "value_all", "value_over")
"""Long after the last event; the ring begins again; the reader has gone on; dropped; long after the
last one, dropped events, and the ring begins again; the oldest event is replaced."""

# Each packet takes what the benchmark writes.
_BARECTF_MAIN = """\
#include <stdint.h>
#include "barectf.h"

static struct barectf_default_ctx context;
static uint8_t packet[1024];

__attribute__((noipa)) static void anchor(void) {{
    __asm__ volatile("");
}}

static uint32_t now(void *data) {{
    (void)data;
    {clock}
}}
static int is_full(void *data) {{
    (void)data;
    return 0;
}}
static void open_packet(void *data) {{
    (void)data;
    barectf_default_open_packet(&context);
}}
static void close_packet(void *data) {{
    (void)data;
    barectf_default_close_packet(&context);
}}

__attribute__((noipa)) static void nothing(uint32_t value) {{
    anchor();
    __asm__ volatile("" : : "r"(0));
    (void)value;
}}
__attribute__((noipa)) static void event(uint32_t value) {{
    barectf_default_trace_sample(&context, value);
    anchor();
    __asm__ volatile("" : : "r"(0));
}}

int main(void) {{
    const struct barectf_platform_callbacks callbacks = {{
        .ticks_clock_get_value = now,
        .is_backend_full = is_full,
        .open_packet = open_packet,
        .close_packet = close_packet,
    }};
    barectf_init(&context, packet, sizeof packet, callbacks, 0);
    open_packet(0);
    barectf_enable_tracing(&context, 1);
    nothing(0);
    for (uint32_t i = 0; i < 20; i++) {{
        event(i);
    }}
    {end}
    for (;;) {{
    }}
}}
"""

_BARECTF_CLOCK = {
    "rv32": 'uint32_t value; __asm__ volatile("csrr %0, mcycle" : "=r"(value)); return value;',
    "m4": "return *(volatile uint32_t *)0xe0001004u;",
}

_BARECTF_CONFIG = """\
--- !<tag:barectf.org,2020/3/config>
trace:
  type:
    native-byte-order: little-endian
    clock-types:
      ticks: {frequency: 1000000, $c-type: uint32_t}
    data-stream-types:
      default:
        $is-default: true
        $default-clock-type-name: ticks
        $features:
          event-record:
            type-id-field-type: {class: unsigned-integer, size: 8}
            timestamp-field-type: {class: unsigned-integer, size: 32}
        event-record-types:
          sample:
            payload-field-type:
              class: structure
              members:
                - level: {field-type: {class: unsigned-integer, size: 32}}
"""

_BARECTF = ("barectf==3.1.2",)
_BARECTF_NEEDS = ("pyyaml", "jsonschema<4", "jinja2", "termcolor", "setuptools<81")
"""Its own bounds ask for a PyYAML that does not build any more."""


def count_probes(core: str) -> dict[str, int]:
    """Count our probes on a core, ``rv32`` or ``m4``.

    Raises:
        As `benchmarks.executed.counted`.
    """
    board = BOARDS[core]
    text = _MAIN.format(internal=runtime_dir() / "src" / "bp_internal.h", end=END[board])
    config = {"trace": 8192, "trace_clock": _CLOCKS[core]}
    bytes_of: dict[str, int] = {}
    counts = counted(
        *(board, text, "-O2", _SYMBOLS, ["main"]),
        config=config,
        inspect=lambda image: bytes_of.update(_bytes_of(image)),
    )
    [nothing] = set(counts["nothing"])
    usual = {name: max(each[1:] or each) - nothing for name, each in counts.items()}
    return {
        f"event_u32_{core}": usual["value_usual"],
        f"event_u32_worst_{core}": max(usual[name] for name in _WORST),
        **{f"event_u32_{name.removeprefix('value_')}_{core}": usual[name] for name in _WORST},
        f"range_mark_{core}": max(usual["begin_events"], usual["end_events"]),
        f"mark_{core}": usual["mark_usual"],
        f"disabled_{core}": max(usual[name] for name in ("off_value", "off_mark", "off_begin")),
        f"range_statistics_{core}": usual["begin_statistics"] + usual["end_statistics"],
        **{f"{name}_{core}": count for name, count in bytes_of.items()},
    }


def count_masked(core: str) -> dict[str, int]:
    """Count the instructions with interrupts off on a core of `MASKED_BOARDS`, at most.

    ``masked_event`` is of events that say nothing unusual: their numbers are below 256, and the
    ring is not overwritten. All others are of all cases.

    Raises:
        As `benchmarks.executed.masked`.
    """
    board, config = MASKED_BOARDS[core]
    code = _MASKED_MAIN.read_text(encoding="ascii")
    head = f'#include "{runtime_dir() / "src" / "bp_internal.h"}"\n#define END {END[board]}\n'
    options = {**config, "trace_heap": 1, "tasks": 8}
    usual, worst = (
        _by_purpose(masked(board, f"{head}#define WORST {each}\n{code}", "-O2", options))
        for each in (0, 1)
    )
    found = {"event": usual["event"], "event_worst": max(usual["event"], worst["event"])}
    found |= {each: max(usual[each], worst[each]) for each in worst if each != "event"}
    return {f"masked_{name}_{core}": count for name, count in found.items()}


def _by_purpose(found: Mapping[str, int]) -> dict[str, int]:
    most = dict.fromkeys((*_MASKED, "agent"), 0)
    for function, count in found.items():
        purposes = (name for name, each in _MASKED.items() if each.fullmatch(function))
        purpose = next(purposes, "agent")
        most[purpose] = max(most[purpose], count)
    return most


def _bytes_of(image: Path) -> dict[str, int]:
    """Return what the functions and variables of bp_trace.c take, but for the ring's words."""
    [read] = images(image)
    found = read_image(read, symbols)
    ranges = {s for s in found if s.is_function and s.name.startswith(_OF_RANGES)}
    events = {s for s in found if s.is_function and s.name.startswith(_OF_EVENTS)}
    return {
        "events_flash": sum(symbol.size for symbol in events),
        "statistics_flash": sum(symbol.size for symbol in ranges),
        "tracer_ram": sum(s.size for s in found if s.name in _VARIABLES),
    }


def count_barectf(core: str, python: Path) -> int:
    """Count an event with a u32 of the tracer that barectf generates.

    Raises:
        BenchmarkError: it cannot generate one.
        As `benchmarks.executed.counted`.
    """
    board = BOARDS[core]
    with TemporaryDirectory(prefix="boardprof-bench-") as name:
        folder = Path(name)
        (folder / "config.yaml").write_text(_BARECTF_CONFIG, encoding="ascii")
        _run([str(python.with_name("barectf")), "generate", "config.yaml"], folder)
        files = {
            file.name: file.read_text(encoding="utf-8")
            for file in folder.iterdir()
            if file.suffix in (".c", ".h")
        }
    # The board's flags make warnings errors, but not in a system's header.
    files["barectf_code.h"] = "#pragma GCC system_header\n" + files["barectf.c"]
    files["barectf.c"] = '#include "barectf_code.h"\n'
    # The benchmark links no C library; the agent brings these functions.
    files["assert.h"] = "#define assert(condition) ((void)0)\n"  # as with NDEBUG
    files["string.h"] = (
        "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\n"
        "void *memset(void *, int, size_t);\nsize_t strlen(const char *);\n"
    )
    text = _BARECTF_MAIN.format(clock=_BARECTF_CLOCK[core], end=END[board])
    counts = counted(board, text, "-O2", ("nothing", "event"), ["main"], files=files)
    # The first event opens nothing, but its time has the most bits that change.
    return max(counts["event"][1:]) - counts["nothing"][0]


def _run(command: Sequence[str], folder: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_S, check=False
    )
    if done.returncode != 0:
        raise BenchmarkError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def barectf_python() -> Path:
    """Return the Python that has barectf; makes its environment first, once."""
    folder = Path(__file__).resolve().parents[1] / "build" / "barectf-venv"
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.is_file():
        print(f"Installing {_BARECTF[0]} into {folder.name} ...", file=sys.stderr)
        _run([sys.executable, "-m", "venv", str(folder)])
        pip = [str(python), "-m", "pip", "install", "-q"]
        _run([*pip, "--no-deps", *_BARECTF])
        _run([*pip, *_BARECTF_NEEDS])
        done.touch()
    return python


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description="Instructions of probes.")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    options = parser.parse_args(arguments)
    found: dict[str, int] = {}
    try:
        for core in BOARDS:
            found |= count_probes(core)
            found[f"barectf_{core}"] = count_barectf(core, barectf_python())
        for core in MASKED_BOARDS:
            found |= count_masked(core)
    except BoardprofError as error:
        print(f"probes: {error}", file=sys.stderr)
        return error.exit_code
    except (BenchmarkError, InsnCountError) as error:
        print(f"probes: {error}", file=sys.stderr)
        return 7
    _print_table(found)
    if options.json:
        print(json.dumps(found))
    return 1 if any(found[name] > most for name, most in BUDGETS.items()) else 0


def _print_table(found: Mapping[str, int]) -> None:
    print(f"{'instructions, bytes':<28}{'found':>7}{'budget':>8}")
    for name, count in found.items():
        most = BUDGETS.get(name)
        verdict = "" if most is None else "  over" if count > most else "  met"
        print(f"{name:<28}{count:>7}{most if most is not None else '-':>8}{verdict}")


if __name__ == "__main__":
    sys.exit(main())
