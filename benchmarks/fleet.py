# SPDX-License-Identifier: Apache-2.0
"""What the policy of fleets costs: batches of growing size, under a virtual clock.

Run from the repository: ``python benchmarks/fleet.py [PLOT.svg]``. It prints time and memory for
each size, each in a process of its own, and writes a plot to PLOT.svg if it is given.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main", "plot"]

_ROOT = Path(__file__).resolve().parents[1]
_SIZES = ((500, 50_000), (1_000, 100_000), (2_500, 250_000), (5_000, 500_000), (10_000, 1_000_000))
_LIMIT_S = 900.0

_ONE = """
import json, resource, sys, time
from tests.fleet.simulation import simulate
began_s = time.process_time()
seen = simulate(int(sys.argv[1]), int(sys.argv[2]), seed=1)
assert seen.ended + sum(seen.given_up.values()) == int(sys.argv[2])
assert (seen.overlaps, seen.repeated) == (0, 0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([time.process_time() - began_s, peak, seen.attempts]))
"""

Row = tuple[int, float, float]
"""Jobs, seconds of processor time, peak memory in MiB."""


def measured(boards: int, jobs: int) -> Row:
    """Simulate a batch in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _ONE, str(boards), str(jobs)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=True,
    )
    seconds, peak, _ = json.loads(done.stdout)
    return jobs, seconds, peak


def plot(rows: Sequence[Row]) -> str:
    """Return a plot of time and memory over the number of jobs, as SVG."""
    width, height, left, bottom = 640, 300, 60, 40
    most_jobs = max(row[0] for row in rows)
    parts = []
    for place, (name, unit, colour) in enumerate(
        (("processor time", "s", "#1f77b4"), ("peak memory", "MiB", "#d62728")), start=1
    ):
        most = max(row[place] for row in rows)
        points = [
            (
                left + (width - left - 20) * row[0] / most_jobs,
                height - bottom - (height - bottom - 40) * row[place] / most,
            )
            for row in rows
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        label = f"{name}, up to {most:.0f} {unit}"
        parts.append(f'<text x="{left + 10}" y="{20 * place}" fill="{colour}">{label}</text>')
    for jobs, *_ in rows:
        x = left + (width - left - 20) * jobs / most_jobs
        text = f"{jobs // 1000} k"
        parts.append(f'<text x="{x:.1f}" y="{height - 15}" text-anchor="middle">{text}</text>')
    axis = f"M{left} 40V{height - bottom}H{width - 20}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="13"><rect width="{width}" height="{height}" '
        f'fill="white"/><path d="{axis}" fill="none" stroke="#666"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table and write the plot."""
    print(f"{'boards':>8} {'jobs':>10} {'seconds':>8} {'us a job':>9} {'MiB':>6}")
    rows = []
    for boards, jobs in _SIZES:
        row = measured(boards, jobs)
        rows.append(row)
        print(f"{boards:8,} {jobs:10,} {row[1]:8.2f} {row[1] / jobs * 1e6:9.2f} {row[2]:6.0f}")
    if arguments:
        Path(arguments[0]).write_text(plot(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
