# SPDX-License-Identifier: Apache-2.0
"""What collectors cost: instructions of ``start`` and ``stop``, each from entry to return, on rv32.

And what the hooks of interrupt handlers cost, within a window and without one.

A firmware of its own, linked from the very objects of the board ``qemu-rv32``, calls each pair a
few times in QEMU, and the plugin of ``tests/tools`` counts what the emulator executes: nothing of
the agent takes part in the counting. Run from the repository: ``python benchmarks/collectors.py``.
Ends with 1 when a pair is over its budget, and with 7 when something cannot be built or run.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from boardprof.boards.board_file import BoardSpec
from boardprof.boards.board_lookup import board_spec
from boardprof.errors import BoardprofError, MissingToolError
from boardprof.firmware.builder import build
from boardprof.resources import runtime_dir
from tests.tools.insn_count import (
    InsnCountError,
    build_plugin,
    plugin_argument,
    read_counts,
    symbol_range,
)

__all__ = ["BUDGETS", "Pair", "count_hooks", "count_pairs", "main"]

BUDGETS = {"cycles32": 12, "cycles_instret": 35}
"""Most instructions of a pair: one 32-bit counter, two 64-bit ones."""

_BOARD = "qemu-rv32"
_COLLECTORS = (*BUDGETS, "ticks")
_LEVELS = ("-Os", "-O2")  # the first is how the board compiles the agent
_ROUNDS = 3
_DEADLINE_S = 60.0

# Writing this word to QEMU's test device ends the emulator.
_MAIN = """\
#include "boardprof/bp.h"

{externs}
static const bp_collector_t *const collectors[] = {{{addresses}}};

int main(void) {{
    static uint64_t state[BP_CFG_STATE_BYTES / 8];
    for (unsigned i = 0; i < sizeof collectors / sizeof collectors[0]; i++) {{
        collectors[i]->init();
        for (int round = 0; round < {rounds}; round++) {{
            collectors[i]->start(state);
            collectors[i]->stop(state);
        }}
    }}
    *(volatile uint32_t *)0x00100000u = 0x5555;
    for (;;) {{
    }}
}}
"""


# The same hooks without a window, and in one of `ticks`.
_HOOKS_MAIN = """\
#include "{internal}"

extern const bp_collector_t bp_collector_ticks;

int main(void) {{
    static bp_state_t state;
    static bp_active_t active;
    active.member[0] = (bp_member_t){{&bp_collector_ticks, 0}};
    active.member[1] = (bp_member_t){{&bp_collector_interrupts, 64}};
    active.end = active.member + 2;
    for (int round = 0; round < {rounds}; round++) {{
        bp_isr_enter();
        bp_isr_exit();
        uintptr_t before = bp_watch_begin(&active, &state);
        bp_start_all(&active, &state);
        bp_watch_run(before);
        bp_isr_enter();
        bp_isr_exit();
        bp_watch_hold();
        bp_stop_all(&active, &state);
        bp_watch_end(before);
    }}
    *(volatile uint32_t *)0x00100000u = 0x5555;
    for (;;) {{
    }}
}}
"""


class BenchmarkError(Exception):
    """The emulator did not do what was asked of it."""


@dataclass(frozen=True)
class Pair:
    """Instructions of a collector's ``start`` and ``stop``, the most of all rounds.

    Attributes:
        collector: its name.
        level: the optimization it was compiled with.
    """

    collector: str
    level: str
    start: int
    stop: int

    @property
    def instructions(self) -> int:
        """Of both together."""
        return self.start + self.stop

    @property
    def is_over(self) -> bool:
        """Whether it takes more than its budget; without a budget it never does."""
        return self.instructions > BUDGETS.get(self.collector, self.instructions)


def count_pairs(level: str) -> list[Pair]:
    """Count every collector's pair, compiled with ``level``.

    Raises:
        MissingToolError: the board's compiler or emulator is not installed.
        BuildError: the firmware does not compile or link.
        InsnCountError: the plugin cannot be built, or its output makes no sense.
        BenchmarkError: the emulator failed, or did not come to the end.
    """
    halves = [f"bp_{name}_{half}" for name in _COLLECTORS for half in ("start", "stop")]
    text = _MAIN.format(
        externs="".join(f"extern const bp_collector_t bp_collector_{n};\n" for n in _COLLECTORS),
        addresses=", ".join(f"&bp_collector_{name}" for name in _COLLECTORS),
        rounds=_ROUNDS,
    )
    # An init may try its own start and stop; what it does between is not theirs.
    callers = ["main", *(f"bp_{name}_init" for name in _COLLECTORS)]
    counts = _counted(text, level, _COLLECTORS, 0, halves, callers)
    return [
        Pair(name, level, max(counts[f"bp_{name}_start"]), max(counts[f"bp_{name}_stop"]))
        for name in _COLLECTORS
    ]


def count_hooks(level: str) -> list[Pair]:
    """Count the hooks of an interrupt's handler likewise, as if they were ``start`` and ``stop``.

    Raises:
        As `count_pairs`.
    """
    internal = runtime_dir() / "src" / "bp_internal.h"
    text = _HOOKS_MAIN.format(internal=internal, rounds=_ROUNDS)
    hooks = ["bp_isr_enter", "bp_isr_exit"]
    counts = _counted(text, level, ("ticks", "interrupts"), 2, hooks, ["main"])
    return [
        Pair(name, level, *(which(counts[hook]) for hook in hooks))
        for name, which in (("hooks, no window", min), ("hooks, in ticks'", max))
    ]


def _counted(
    text: str,
    level: str,
    collectors: tuple[str, ...],
    interrupts: int,
    symbols: Sequence[str],
    callers: Sequence[str],
) -> dict[str, Sequence[int]]:
    """Run a ``main`` and return how many instructions each call of some functions took.

    Args:
        text: its source.
        level: of optimization.
        collectors: that are linked.
        interrupts: the agent's option.
        symbols: of the functions.
        callers: functions that they return to.
    """
    with TemporaryDirectory(prefix="boardprof-bench-") as name:
        scratch = Path(name).resolve()
        image = _build(level, scratch, text, collectors, interrupts)
        entries = {symbol: symbol_range(image, symbol)[0] for symbol in symbols}
        stops = [symbol_range(image, caller) for caller in callers]
        out = scratch / "counts"
        arguments = plugin_argument(build_plugin(), list(entries.values()), stops, out)
        _emulate(image, arguments)
        counts = read_counts(out)
    return {symbol: _all(symbol, counts.get(entry, [])) for symbol, entry in entries.items()}


def _build(
    level: str, scratch: Path, text: str, collectors: tuple[str, ...], interrupts: int
) -> Path:
    """Build the firmware, its own ``main`` in place of the agent's."""
    spec = board_spec(_BOARD)
    shutil.copytree(spec.folder, scratch / "board")
    (scratch / "board" / "bench_main.c").write_text(text, encoding="utf-8")
    changed = replace(
        spec.build,
        collectors=collectors,
        sources=(*spec.build.sources, "bench_main.c"),
        own_main=True,
        cflags=(*spec.build.cflags, level),
        config={**spec.build.config, "interrupts": interrupts},
    )
    return build(replace(spec, folder=scratch / "board", build=changed)).image


def _emulate(image: Path, plugin: Sequence[str]) -> None:
    spec = board_spec(_BOARD)
    command = [*_without_line(spec, image), *plugin]
    if shutil.which(command[0]) is None:
        raise MissingToolError(command[0], spec.launch.package or command[0])
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{command[0]} did not end within {_DEADLINE_S:.0f} s") from error
    if done.returncode != 0:
        raise BenchmarkError(f"{command[0]} ended with {done.returncode}:\n{done.stderr.rstrip()}")


def _without_line(spec: BoardSpec, image: Path) -> Iterator[str]:
    """Yield the command that launches the board, with nothing at its serial line."""
    arguments = iter(spec.launch.command)
    for argument in arguments:
        yield argument.replace("{image}", str(image))
        if argument == "-serial":
            next(arguments)
            yield "null"


def _all(symbol: str, counts: Sequence[int]) -> Sequence[int]:
    if len(counts) < _ROUNDS:
        raise BenchmarkError(f"{symbol} ran {len(counts)} times and not {_ROUNDS} or more")
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description="Instructions of collectors' start and stop.")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    options = parser.parse_args(arguments)
    try:
        pairs = [pair for level in _LEVELS for pair in count_pairs(level)]
        pairs += [pair for level in _LEVELS for pair in count_hooks(level)]
    except BoardprofError as error:
        print(f"collectors: {error}", file=sys.stderr)
        return error.exit_code
    except (BenchmarkError, InsnCountError) as error:
        print(f"collectors: {error}", file=sys.stderr)
        return 7
    _print_table(pairs)
    if options.json:
        print(json.dumps({_key(pair): pair.instructions for pair in pairs}))
    return 1 if any(pair.is_over for pair in pairs) else 0


def _print_table(pairs: Sequence[Pair]) -> None:
    print(f"Instructions executed on {_BOARD}, entry to return")
    print(f"{'collector':<18}{'':<5}{'start':>7}{'stop':>7}{'pair':>7}{'budget':>8}")
    for pair in pairs:
        budget = BUDGETS.get(pair.collector, "none")
        cells = f"{pair.start:>7}{pair.stop:>7}{pair.instructions:>7}{budget:>8}"
        verdict = "  over" if pair.is_over else ""
        print(f"{pair.collector:<18}{pair.level:<5}{cells}{verdict}")


def _key(pair: Pair) -> str:
    """Return the name in the JSON: plain for how the board compiles, with the level otherwise."""
    level = "" if pair.level == _LEVELS[0] else "_" + pair.level.removeprefix("-")
    return f"{re.sub(r'[^a-z0-9_]+', '_', pair.collector).strip('_')}_pair{level}"


if __name__ == "__main__":
    sys.exit(main())
