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
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.executed import BenchmarkError, counted
from boardprof.base.errors import BoardprofError
from boardprof.base.files import runtime_dir
from tests.tools.insn_count import InsnCountError

__all__ = ["BUDGETS", "Pair", "count_hooks", "count_pairs", "main"]

BUDGETS = {"cycles32": 12, "cycles_instret": 35}
"""Most instructions of a pair: one 32-bit counter, two 64-bit ones."""

_BOARD = "qemu-rv32"
_COLLECTORS = (*BUDGETS, "ticks")
_LEVELS = ("-Os", "-O2")  # the first is how the board compiles the agent
_ROUNDS = 3

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
    counts = counted(_BOARD, text, level, halves, callers, _COLLECTORS, {"interrupts": 0})
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
    counts = counted(
        _BOARD, text, level, hooks, ["main"], ("ticks", "interrupts"), {"interrupts": 2}
    )
    return [
        Pair(name, level, *(which(counts[hook]) for hook in hooks))
        for name, which in (("hooks, no window", min), ("hooks, in ticks'", max))
    ]


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
