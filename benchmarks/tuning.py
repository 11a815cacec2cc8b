# SPDX-License-Identifier: Apache-2.0
"""How many candidates a second a tuner can measure, and what the runner itself takes of that.

64 kernels of one function, each with code of its own, are compiled, linked, measured and checked.
A small batch runs first, so that the agent, the simulator and Python's modules are there.

The runner's own time is what the host's process takes of the processors: it starts compilers,
reads objects, talks to the board and checks outputs. Compilers, linker and emulator are other
processes.
Run from the repository: ``python benchmarks/tuning.py [--json] [--candidates N] [--board NAME]``.
Ends with 0, targets met or not: the rate depends on the machine and its load.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence

import numpy as np

from boardprof.jobs.tune import MeasureResult, Runner

SIZE = 16
TARGETS = {"qemu-rv32": 4.0, "ibex-rtl": 1.5}
"""Candidates a second, at least."""

MOST_MS = 20.0
"""The runner's own time for a candidate, at most."""

_METRICS = {"qemu-rv32": "instructions", "ibex-rtl": "cycles"}

_SOURCE = """\
#include <stdint.h>
static int32_t dot(const int8_t *a, const int8_t *b, int n) {{
    int32_t sum = 0;
    for (int k = 0; k < n; k += {unroll}) {{
{steps}
    }}
    return sum;
}}
void matmul(const int8_t a[{size}][{size}], const int8_t b[{size}][{size}],
            int32_t c[{size}][{size}]) {{
    if (!a) c[0][0] = {number}; /* other code for each candidate */
    for (int i0 = 0; i0 < {size}; i0 += {tile})
        for (int j = 0; j < {size}; j++)
            for (int i = i0; i < i0 + {tile}; i++) c[i][j] = dot(a[i], b[j], {size});
}}
"""


def kernels(count: int) -> list[str]:
    """Return C sources that no run before has seen."""
    first = time.time_ns() // 1000 % 1_000_000_000
    found = []
    for index in range(count):
        tile, unroll = (1, 2, 4, 8, 16)[index % 5], (1, 2, 4, 8)[index % 4]
        steps = "\n".join(f"        sum += a[k + {n}] * b[k + {n}];" for n in range(unroll))
        found.append(
            _SOURCE.format(size=SIZE, tile=tile, unroll=unroll, steps=steps, number=first + index)
        )
    return found


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measure(board: str, count: int) -> tuple[dict[str, float], Sequence[MeasureResult]]:
    """Return a board's figures, and the results."""
    a = np.arange(SIZE * SIZE, dtype=np.int8).reshape(SIZE, SIZE)
    b = a * np.int8(3)
    expected = (a.astype(np.int32) @ b.T.astype(np.int32)).astype(np.int32)
    arguments = {"a": a, "b": b, "c": np.zeros((SIZE, SIZE), np.int32)}
    runner = Runner(
        board,
        arguments,
        _METRICS.get(board, "time"),
        function="matmul",
        expect={"c": expected},
        remember=False,
    )
    runner.measure(kernels(2))
    sources = kernels(count)
    began_s, own_s = time.perf_counter(), _cpu_s(resource.RUSAGE_SELF)
    tools_s = _cpu_s(resource.RUSAGE_CHILDREN)
    results = runner.measure(sources)
    took_s = time.perf_counter() - began_s
    figures = {
        "candidates_per_s": count / took_s,
        "own_ms": 1e3 * (_cpu_s(resource.RUSAGE_SELF) - own_s) / count,
        "tools_ms": 1e3 * (_cpu_s(resource.RUSAGE_CHILDREN) - tools_s) / count,
    }
    return figures, results


def main() -> int:
    """Print a table, and JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--candidates", type=int, default=64, metavar="N")
    parser.add_argument("--board", action="append", metavar="NAME", help="default: both")
    options = parser.parse_args()
    every: dict[str, dict[str, float]] = {}
    for board in options.board or TARGETS:
        figures, results = measure(board, options.candidates)
        wrong = [result.error for result in results if not result.ok]
        if wrong:
            raise SystemExit(f"{board}: {len(wrong)} candidates failed. The first: {wrong[0]}")
        every[board] = figures
        target = TARGETS.get(board, 0.0)
        print(
            f"{board:12} {figures['candidates_per_s']:6.2f} candidates/s (target {target:g})   "
            f"own {figures['own_ms']:5.1f} ms (at most {MOST_MS:g})   compilers, linker, "
            f"emulator {figures['tools_ms']:6.1f} ms of processors each"
        )
    if options.json:
        print(json.dumps({board: every[board] for board in every}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
