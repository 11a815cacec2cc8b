# SPDX-License-Identifier: Apache-2.0
"""How fast the command starts, against mpremote's in the same run; as ratios.

Each command runs in turn, so that a busy phase of the machine meets all of them. Usage::

    python benchmarks/startup.py [--json]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main"]

ROUNDS = 15
SCRIPTS = Path(sys.executable).parent
COMMANDS = {
    "mpremote --version": (str(SCRIPTS / "mpremote"), "--version"),
    "boardprof --version": (str(SCRIPTS / "boardprof"), "--version"),
    "boardprof boards": (str(SCRIPTS / "boardprof"), "boards"),
}
LIMITS = {"boardprof --version": 1.0, "boardprof boards": 2.0}
"""Of mpremote's time, and of twice that."""


def main(arguments: list[str]) -> int:
    """Print the medians and their ratios to mpremote's; 1 where one is over its limit."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)
            times[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(values) for name, values in times.items()}
    base = medians["mpremote --version"]
    ratios = {name: median / base for name, median in medians.items()}
    missed = [name for name, limit in LIMITS.items() if ratios[name] > limit]
    if "--json" in arguments:
        facts = {"median_s": medians, "ratio": ratios, "limit": LIMITS, "missed": missed}
        print(json.dumps(facts))
        return bool(missed)
    for name, median in medians.items():
        limit = LIMITS.get(name)
        verdict = "" if limit is None else f"<= {limit:g}  {'MISSED' if name in missed else 'met'}"
        print(f"{name:22} {1000 * median:8.1f} ms  {ratios[name]:5.2f}  {verdict}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
