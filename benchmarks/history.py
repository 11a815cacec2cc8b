# SPDX-License-Identifier: Apache-2.0
"""How fast a team's history on PostgreSQL is: eight writers at once, and commands among many runs.

Eight processes save runs one by one, as `boardprof run` does. Then they fill the database as
`boardprof history push` does. Then the commands are timed as a user waits for them, their start
included. The server is Debian's, on this machine, and waits for no disk. The
shortest of ten times counts, because other programs may have the processors.

Run from the repository: ``python benchmarks/history.py [--json] [--runs N]``.
Ends with 0, targets met or not: the figures depend on the machine and its load.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from boardprof.results.history.run import GitState, StoredRun
from boardprof.results.history.store import History
from boardprof.results.report.report import Report
from tests.postgres.server import running_server
from tests.unit.reports import report_of

WRITERS = 8
SAVES = 50
"""Runs that each writer saves one by one."""

TARGET_S = 1.0
"""Longest time of a command."""

_BATCH = 500
_REPEAT = 10


_LONGEST_S = 3600.0


def _report(number: int) -> Report:
    """Return a Report of a run: one of 40 functions, on one of five boards."""
    cycles = [1000 + number * 7919 % 100 + i for i in range(5)]
    device, name = f"board-{number % 5}", f"function-{number % 40}"
    return report_of({"cycles": cycles}, device=device, name=name)


def _git(number: int) -> GitState:
    branch = "main" if number % 10 == 0 else f"topic/{number % 300}"
    return GitState(f"{number * 2654435761 % 2**64:016x}" * 2 + "0" * 8, branch, is_dirty=False)


def _save(url: str, writer: int, times: list[float]) -> None:
    history = History(url, timeout_s=60.0)
    for i in range(SAVES):
        began_s = time.perf_counter()
        number = writer * SAVES + i
        history.save(_report(number), git=GitState("a" * 40, f"dev/{writer}", is_dirty=False))
        times.append(time.perf_counter() - began_s)


def _fill(url: str, writer: int, runs: int) -> None:
    history = History(url, timeout_s=600.0)
    left = _records(range(writer, runs, WRITERS))
    while batch := [*itertools.islice(left, _BATCH)]:
        history.add(batch)


def _records(numbers: range) -> Iterator[StoredRun]:
    for number in numbers:
        git = _git(number)
        minutes = number % (60 * 24 * 365)
        day, minute = divmod(minutes, 60 * 24)
        when = time.gmtime(1735689600 + day * 86400 + minute * 60)
        yield StoredRun(
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ", when),
            name=f"release-{number}" if number % 7000 == 0 else None,
            command=f"boardprof run -b board-{number % 5} f.c:function-{number % 40}",
            project=f"git.lab/project-{number % 7}",
            commit=git.commit,
            branch=git.branch,
            dirty=False,
            version="0",
            failed=False,
            report=_report(number).json(),
        )


def _saver(url: str, writer: int, pipe: multiprocessing.connection.Connection) -> None:
    times: list[float] = []
    _save(url, writer, times)
    pipe.send(times)


def _at_once(target: Callable[..., None], arguments: list[tuple[object, ...]]) -> float:
    """Run a function in one process for each tuple of arguments; return the seconds it took."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=target, args=each) for each in arguments]
    began_s = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(_LONGEST_S)
        if worker.exitcode != 0:
            worker.kill()
            raise RuntimeError(f"a writer failed, or took more than {_LONGEST_S:g} s")
    assert all(worker.exitcode == 0 for worker in workers), "a writer has failed"
    return time.perf_counter() - began_s


def _command_s(url: str, folder: Path, *words: str) -> tuple[float, float]:
    """Return the shortest time of a command, and the processor time of its process."""
    times = []
    for _ in range(_REPEAT):
        began_s, used_s = time.perf_counter(), _cpu_s()
        subprocess.run(
            [sys.executable, "-m", "boardprof", *words],
            env={**os.environ, "BOARDPROF_HISTORY": url},
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )
        times.append((time.perf_counter() - began_s, _cpu_s() - used_s))
    return min(took_s for took_s, _ in times), min(used_s for _, used_s in times)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


COMMANDS = {
    "history": ("history",),
    "history_function": ("history", "--function", "function-7"),
    "compare": ("compare", "release-7000", "release-14000"),
    "compare_branch": ("compare", "branch:main~4", "branch:main"),
}


def measure(runs: int) -> dict[str, float]:
    """Return the figures."""
    found: dict[str, float] = {"runs": runs}
    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        url = server.database("bench")
        pipes = [multiprocessing.Pipe(duplex=False) for _ in range(WRITERS)]
        took_s = _at_once(_saver, [(url, i, pipe[1]) for i, pipe in enumerate(pipes)])
        times = [each for receive, _ in pipes for each in receive.recv()]
        found["saves_per_s"] = WRITERS * SAVES / took_s
        found["save_median_ms"] = 1000 * statistics.median(times)
        found["save_longest_ms"] = 1000 * max(times)
        rest = runs - WRITERS * SAVES
        found["filled_per_s"] = rest / _at_once(_fill, [(url, i, rest) for i in range(WRITERS)])
        server.execute("bench", "ANALYZE")
        history = History(url)
        assert history.count() == runs, "runs were lost"
        Path(folder, "boardprof.toml").write_text('project = "git.lab/project-0"\n')
        for name, words in COMMANDS.items():
            took_s, used_s = _command_s(url, Path(folder), *words)
            found |= {f"{name}_s": took_s, f"{name}_cpu_s": used_s}
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="A history on PostgreSQL.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--runs", type=int, default=100_000, help="in the database")
    options = parser.parse_args()
    found = measure(options.runs)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{WRITERS} writers at once, {SAVES} runs each, one by one:")
    print(f"  {found['saves_per_s']:.0f} runs/s, median {found['save_median_ms']:.0f} ms, ", end="")
    print(f"longest {found['save_longest_ms']:.0f} ms")
    print(f"filled by push: {found['filled_per_s']:.0f} runs/s, {found['runs']:,} runs in all")
    for name, words in COMMANDS.items():
        took_s, used_s = found[f"{name}_s"], found[f"{name}_cpu_s"]
        verdict = "met" if took_s < TARGET_S else "MISSED"
        print(f"boardprof {' '.join(words):44} {took_s:5.2f} s ({used_s:.2f} s of CPU)  ", end="")
        print(f"under {TARGET_S:g} s: {verdict}")


if __name__ == "__main__":
    main()
