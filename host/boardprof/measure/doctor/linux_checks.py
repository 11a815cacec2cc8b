# SPDX-License-Identifier: Apache-2.0
"""What Linux on a board does to numbers: frequency, other programs, interrupts, permissions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from boardprof.measure.board.board import Board
from boardprof.measure.doctor.counters import OK, SKIPPED, Finding

READER = "proof_file"
"""The function on the board that reads a file (``device_runtime_c/proof/posix``)."""

_FEW, _MOST = 2048, 131072
"""Bytes of a file that are read at first, and at most."""

_WATCHED_S = 0.5
_QUIET_HZ = 20
"""Interrupts a second of a core without a periodic tick (Linux's NO_HZ_FULL leaves one)."""

_CPUFREQ = "/sys/devices/system/cpu/cpu{}/cpufreq/"


def linux_findings(board: Board) -> Iterator[Finding]:
    """Yield what speaks for and against quiet numbers; nothing here makes a number wrong."""
    cores = _cores(_line(board, "/proc/self/status", r"Cpus_allowed_list:\s*(\S+)"))
    yield _frequency(board, min(cores, default=0))
    yield _core(board, cores)
    yield _interrupts(board, cores)
    yield _permission(board)


def _frequency(board: Board, core: int) -> Finding:
    folder = _CPUFREQ.format(core)
    governor = _read(board, folder + "scaling_governor")
    if governor is None:
        return Finding("frequency", SKIPPED, "Linux does not scale it, or does not tell how")
    low, high = (_read(board, f"{folder}scaling_{end}_freq") or "?" for end in ("min", "max"))
    if governor == "performance" or low == high:
        return Finding("frequency", OK, f"governor {governor}, {_mhz(high)}")
    return Finding(
        "frequency",
        SKIPPED,
        f"governor {governor}: it varies from {_mhz(low)} to {_mhz(high)}. Try: echo performance | "
        f"sudo tee {folder}scaling_governor",
    )


def _mhz(khz: str) -> str:
    return f"{int(khz) // 1000:,} MHz" if khz.isdigit() else "an unknown rate"


def _core(board: Board, cores: set[int]) -> Finding:
    isolated = _cores(_read(board, "/sys/devices/system/cpu/isolated") or "")
    if len(cores) == 1 and cores <= isolated:
        return Finding("core", OK, f"{min(cores)}, which no other program uses")
    if len(cores) == 1:
        return Finding(
            "core",
            SKIPPED,
            f"always {min(cores)}, but other programs may run on it. Try: isolcpus={min(cores)} in "
            "the kernel's command line",
        )
    last = max(cores, default=0)
    return Finding(
        "core",
        SKIPPED,
        f"one of {len(cores)}: Linux may move the agent. Try: -p 'ssh://USER@HOST?run=taskset -c "
        f"{last}'",
    )


def _interrupts(board: Board, cores: set[int]) -> Finding:
    begin_s = time.monotonic()
    before = _interrupts_so_far(board)
    time.sleep(_WATCHED_S)
    after = _interrupts_so_far(board)
    took_s = time.monotonic() - begin_s
    rates = [(after[core] - before[core]) / took_s for core in cores & before.keys() & after.keys()]
    if not rates:
        return Finding("interrupts", SKIPPED, "/proc/interrupts does not tell")
    text = f"{max(rates):,.0f} a second on the agent's busiest core"
    if max(rates) <= _QUIET_HZ:
        return Finding("interrupts", OK, text)
    return Finding(
        "interrupts",
        SKIPPED,
        f"{text}: each adds to the time of a sample, not to instructions in user mode",
    )


def _interrupts_so_far(board: Board) -> dict[int, int]:
    head, *lines = (_read(board, "/proc/interrupts") or "").splitlines() or [""]
    counts = dict.fromkeys(map(int, re.findall(r"CPU(\d+)", head)), 0)
    for line in lines:
        columns = line.split()[1 : len(counts) + 1]
        for core, column in zip(counts, columns, strict=False):
            counts[core] += int(column) if column.isdigit() else 0
    return counts


def _permission(board: Board) -> Finding:
    level = _read(board, "/proc/sys/kernel/perf_event_paranoid")
    user = _line(board, "/proc/self/status", r"Uid:\s*\d+\s+(\d+)")
    if level is None:
        return Finding("perf", SKIPPED, "this kernel has no perf_event_open")
    if user == "0" or int(level) <= 1:
        return Finding("perf", OK, "may count in user mode and in the kernel")
    if int(level) == 2:
        return Finding("perf", OK, "may count in user mode (perf_event_paranoid is 2)")
    return Finding(
        "perf",
        SKIPPED,
        f"may count nothing: perf_event_paranoid is {level}. Try: sudo sysctl "
        "kernel.perf_event_paranoid=2",
    )


def _cores(text: str) -> set[int]:
    """Return the cores of a list such as ``0-2,5`` (cpuset(7), "List format")."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _line(board: Board, file: str, pattern: str) -> str:
    found = re.search(pattern, _read(board, file) or "")
    return found[1] if found else ""


def _read(board: Board, file: str) -> str | None:
    size = _FEW
    while True:
        text = np.zeros(size, np.uint8)
        length: Any = board.functions[READER](file, text, size)
        if length < size or size >= _MOST:
            return None if length < 0 else bytes(text[:length]).decode(errors="replace").strip()
        size *= 8  # the whole array goes over the line
