# SPDX-License-Identifier: Apache-2.0
"""What commands take for a trace of 200 MB, and for Reports of a million rows.

The trace has 25 million passes of a range, of different lengths. One Report has a million samples
of a function, the other one sample each of a million functions; `compare` takes two of the first
kind. Each command is a process of its own: CPU seconds, user and system, and its peak memory.
Run from the repository: ``python benchmarks/large.py [--json] [--share N]``. Ends with 1 when a
figure is over its target.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from boardprof.base.metrics import Count, Duration, Metric
from boardprof.results.probes.events import read_names
from boardprof.results.probes.run import ProbeRun, RunFacts, TraceClock, write_run
from boardprof.results.probes.timeline import ProbeCosts
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import write_report
from boardprof_protocol.codes import TraceBlockFlag
from boardprof_protocol.trace import TRACE_BLOCK

MOST_S, MOST_MB = 30.0, 2000.0
"""Targets for each command."""

PASSES, ROWS = 25_000_000, 1_000_000

_TIMEOUT_S = 600.0
_BLOCK = 15_000
"""Passes of a block."""


def trace(passes: int) -> ProbeRun:
    """Return a recording of as many passes, at least."""
    chance = np.random.default_rng(1)
    blocks, now = [], 0
    for first in range(0, passes, _BLOCK):
        deltas = chance.integers(20, 400, 2 * _BLOCK, dtype=np.uint32)
        now += int(deltas.sum())
        head = {
            "core": 0,
            "flags": TraceBlockFlag.WHOLE,
            "words": len(deltas),
            "sequence": 2 * first % 2**32,
            "dropped": 0,
            "last": now % 2**32,
            "now": now % 2**32,
            "ticks": now,
        }
        words = deltas << 8 | np.tile([16, 17], _BLOCK).astype(np.uint32)
        blocks.append(TRACE_BLOCK.struct.build(head) + words.astype("<u4").tobytes())
    return ProbeRun(
        RunFacts("bench", time="2026-11-25T10:00:00.000+00:00"),
        TraceClock("cycles", "DWT_CYCCNT", 168_000_000),
        read_names(b"\x01filter\0"),
        ProbeCosts(empty=30),
        b"".join(blocks),
    )


def rows(count: int, seed: int, functions: int) -> Iterator[dict[str, Metric | int]]:
    """Yield samples of some functions."""
    chance = random.Random(seed)
    for number in range(count):
        cycles = 1000 + chance.randrange(1000)
        yield {
            "Name": f"filter_{number % functions}",
            "Duration (us)": Duration(cycles / 64),
            "cycles": Count(cycles),
            "instructions": Count(cycles * 2 // 3),
            "Device": "board",
            "Count": 1,
        }


FILES = ("passes.trace", "first.json", "second.json", "functions.json")


def make(folder: str, share: float) -> None:
    """Write the files, for a share of the passes and rows."""
    recording, *reports = (str(Path(folder) / name) for name in FILES)
    write_run(trace(round(PASSES * share)), recording)
    count = round(ROWS * share)
    for file, seed, functions in zip(reports, (1, 2, 3), (1, 1, count), strict=True):
        write_report(Report(rows(count, seed, functions), {}, {}), file)


def figures(share: float) -> dict[str, float]:
    """Return CPU seconds and MB of each command, for a share of the passes and rows."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: what this one takes would count as what each command takes.
        maker = [sys.executable, __file__, "--make", folder, "--share", str(share)]
        subprocess.run(maker, check=True, timeout=_TIMEOUT_S)
        recording, first, second, many, out = (str(Path(folder) / name) for name in (*FILES, "out"))
        for name, words in {
            "show_trace": ["show", recording],
            "show": ["show", first],
            "compare": ["compare", first, second],
            "export_html": ["export", "html", first, "-o", out],
            "export_json": ["export", "json", first, "-o", out],
            "show_functions": ["show", many],
            "export_html_functions": ["export", "html", many, "-o", out],
            "export_json_functions": ["export", "json", many, "-o", out],
        }.items():
            found[f"{name}_s"], found[f"{name}_mb"] = _costs(words)
            print(f"{name:22}  {found[f'{name}_s']:>6.1f} s  {found[f'{name}_mb']:>6.0f} MB")
    return found


def _costs(words: list[str]) -> tuple[float, float]:
    command = [sys.executable, "-m", "boardprof", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise AssertionError(f"boardprof {words} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--share", type=float, default=1.0, help="of the passes and rows")
    parser.add_argument("--make", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.make, options.share)
        return 0
    os.environ["BOARDPROF_HISTORY"] = "off"
    found = figures(options.share)
    limits = {"_s": MOST_S, "_mb": MOST_MB}
    missed = [name for name in found if found[name] > limits[name[name.rindex("_") :]]]
    for name in missed:
        print(f"{name} is {found[name]:.4g}; the target is {limits[name[name.rindex('_') :]]:g}")
    if options.json:
        print(json.dumps({name: round(value, 2) for name, value in found.items()}))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
