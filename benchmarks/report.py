# SPDX-License-Identifier: Apache-2.0
"""What a Report of many calls costs: its table, its JSON there and back, its memory.

The Report has eight columns: three of text, three Counts, a Duration and a Percent; a hundred
functions in random order. The table's time is the least of three. JSON is held against
``json.loads`` and ``json.dumps`` of the same text in the same run. Memory is the most that a
process of its own takes, beyond what it took before, while it is handed row after row.
Run from the repository: ``python benchmarks/report.py [--json] [--calls N ...]``. Ends with 1 when
a figure at the largest size is over its target.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from boardprof.base.metrics import Count, Duration, Metric, Percent
from boardprof.results.report.report import Report

SIZES = (1_000, 10_000, 100_000, 1_000_000)
FUNCTIONS = 100
TARGETS = {"aggregate_s": 2.0, "json_ratio": 2.0, "bytes_per_call": 1024.0}
"""What each figure may be at most, with a million calls."""

_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Figures:
    """What one size costs.

    Attributes:
        calls: how many rows the Report has.
        build_s: seconds to make the Report, a dict a row.
        aggregate_s: seconds to merge, sum and sort the rows and to write the table.
        json_s: seconds of ``Report.json`` and ``Report.from_json``.
        json_ratio: that, by ``json.loads`` and ``json.dumps`` of the same text.
        bytes_per_call: memory while the Report is made, and of it.
    """

    calls: int
    build_s: float
    aggregate_s: float
    json_s: float
    json_ratio: float
    bytes_per_call: float


def rows(calls: int) -> Iterator[dict[str, Metric | int]]:
    """Yield rows as a board would give them; the same ones each time."""
    chance = random.Random(6)
    for _ in range(calls):
        function = chance.randrange(FUNCTIONS)
        cycles = 1000 * function + chance.randrange(1000)
        yield {
            "Name": f"conv2d_{function}",
            "Device": "board",
            "Argument Shapes": f"x=int8[{function}, 64], n={function}",
            "Count": 10,
            "Duration (us)": Duration(cycles / 64),
            "cycles": Count(cycles),
            "instructions": Count(cycles * 2 // 3),
            "Percent": Percent(chance.random() / calls),
        }


def figures(calls: int) -> Figures:
    """Measure one size."""
    build_s, report = _timed(lambda: Report(rows(calls), {}, {}))
    aggregate_s = min(_timed(report.table)[0] for _ in range(3))
    write_s, text = _timed(report.json)
    read_s, again = _timed(lambda: Report.from_json(text))
    if again != report:
        raise AssertionError("the Report that was read is not the one that was written")
    del report, again
    loads_s, document = _timed(lambda: json.loads(text))
    dumps_s, _ = _timed(lambda: json.dumps(document))
    json_s = write_s + read_s
    ratio = json_s / (loads_s + dumps_s)
    return Figures(calls, build_s, aggregate_s, json_s, ratio, _bytes_per_call(calls))


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began_s = time.perf_counter()
    result = work()
    return time.perf_counter() - began_s, result


def _bytes_per_call(calls: int) -> float:
    command = [sys.executable, __file__, "--memory", str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    return float(done.stdout)


def _own_bytes_per_call(calls: int) -> float:
    """Return by how much this process grew for a Report, at the most."""
    Report(rows(10), {}, {}).table()
    before = _most_bytes()
    report = Report(rows(calls), {}, {})
    return (_most_bytes() - before) / len(report.calls)


def _most_bytes() -> int:
    """Return the most memory that this process has had so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    [kib] = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return 1024 * int(kib)


def _line(found: Figures) -> str:
    return (
        f"{found.calls:>9,}  {found.build_s:>8.3f}  {found.aggregate_s:>8.3f}  "
        f"{found.json_s:>8.3f}  {found.json_ratio:>10.2f}  {found.bytes_per_call:>10.0f}"
    )


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--calls", type=int, nargs="+", default=SIZES, help="sizes, ascending")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory is not None:
        print(_own_bytes_per_call(options.memory))
        return 0
    print("    calls   build, s  table, s   JSON, s  JSON ratio  bytes/call")
    for calls in options.calls:
        found = figures(calls)
        print(_line(found), flush=True)
    over = [name for name, most in TARGETS.items() if getattr(found, name) > most]
    for name in over:
        print(f"{name} is {getattr(found, name):.4g}; the target is {TARGETS[name]:g}")
    if options.json:
        print(json.dumps({name: round(value, 4) for name, value in asdict(found).items()}))
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
