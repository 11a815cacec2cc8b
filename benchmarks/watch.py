# SPDX-License-Identifier: Apache-2.0
"""From a save to its number: ``boardprof run --watch`` of one function on qemu-rv32.

Each save changes the code, so it is compiled, linked, started and measured. Usage::

    python benchmarks/watch.py [--json]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["main"]

SAVES = 7
LIMIT_S = 0.5
"""From a save to its number, on two free cores."""
SOURCE = "int f(int n) {{ int s = 0; while (n--) s += {} * n; return s; }}\n"
COMMAND = ("run", "--watch", "-b", "qemu-rv32", "f.c:f", "n=100")
DEADLINE_S = 60.0


def main(arguments: list[str]) -> int:
    """Print the medians of the saves; 1 if the limit is missed."""
    seed = time.time_ns() % 10**9  # code that is in no cache
    names = ("wall_s", "own_cpu_s", "tools_cpu_s")
    with tempfile.TemporaryDirectory() as place:
        columns = zip(*_saves(Path(place), seed), strict=True)
    facts = {name: statistics.median(each) for name, each in zip(names, columns, strict=True)}
    is_met = facts["wall_s"] <= LIMIT_S
    if "--json" in arguments:
        print(json.dumps({**facts, "limit_s": LIMIT_S, "is_met": is_met}))
        return not is_met
    print(f"from a save to its number: {facts['wall_s']:.2f} s, at most {LIMIT_S:g} s: ", end="")
    print("met" if is_met else "MISSED")
    print(f"CPU: {facts['own_cpu_s']:.2f} s own, {facts['tools_cpu_s']:.2f} s compiler and QEMU")
    return not is_met


def _saves(folder: Path, seed: int) -> list[tuple[float, float, float]]:
    """Return for each save the wall time, and the CPU time of the command and of its tools."""
    source, new = folder / "f.c", folder / "f.new"
    source.write_text(SOURCE.format(seed))
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "boardprof"), *COMMAND],
        cwd=folder,
        env={**os.environ, "BOARDPROF_HISTORY": "off"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _await_number(process)
        found = []
        for number in range(1, SAVES + 1):
            began, before = time.monotonic(), _cpu_s(process.pid)
            new.write_text(SOURCE.format(seed + number))
            new.rename(source)
            _await_number(process)
            own, tools = (b - a for a, b in zip(before, _cpu_s(process.pid), strict=True))
            found.append((time.monotonic() - began, own, tools))
        return found
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def _await_number(process: subprocess.Popen[str]) -> None:
    """Read what the command prints until it waits for a save."""
    assert process.stdout is not None
    text = ""
    while "; Ctrl-C ends\n" not in text:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"boardprof ended: {text}")
        text += line
    if "instructions per call" not in text:
        raise SystemExit(f"there is no number: {text}")


def _cpu_s(pid: int) -> tuple[float, float]:
    """Return the CPU time of a process, and of its children that have ended (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    own, own_system, tools, tools_system = (int(each) / os.sysconf("SC_CLK_TCK") for each in fields)
    return own + own_system, tools + tools_system


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
