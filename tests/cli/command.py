# SPDX-License-Identifier: Apache-2.0
"""Runs the command as a user does: a process with its output and exit code, and a deadline."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BOARDPROF", "FIXTURES", "Outcome", "agent", "boardprof", "cpu_seconds", "ended"]
__all__ += ["offspring", "rows", "wait_until"]

BOARDPROF = (sys.executable, "-m", "boardprof")
FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Outcome:
    """What a finished command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def boardprof(
    *arguments: str | Path,
    timeout_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
    before: tuple[str, ...] = (),
) -> Outcome:
    """Run ``boardprof ARGUMENTS`` to its end; a traceback is never right.

    Args:
        arguments: of the command.
        timeout_s: a command that takes longer fails the test.
        environment: variables to set.
        before: a program that starts the command, with its options.
    """
    done = subprocess.run(
        [*before, *BOARDPROF, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Outcome(done.returncode, done.stdout, done.stderr)


def rows(table: str) -> list[str]:
    """Return the names of a table's rows, above the line that parts them from the sum."""
    lines = table.splitlines()
    assert lines[0].startswith("Name "), table
    return [line.split()[0] for line in lines[1 : lines.index("----------")]]


@contextmanager
def agent(*arguments: str | Path) -> Iterator[str]:
    """Run ``boardprof agent serve ARGUMENTS``; yields the port that it prints, as -p takes it."""
    command = [*BOARDPROF, "agent", "serve", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], 60.0)
            line = process.stdout.readline() if ready else ""
            assert line.startswith("listening on "), line
            address = line.removeprefix("listening on ").strip()
            yield address if address.startswith("/dev/") else f"socket://{address}"
        finally:
            process.kill()


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Wait until ``holds()``, which is ``what`` in the message when it never does."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"after {timeout_s:g} s still not: {what}"
        time.sleep(0.01)


def offspring(pid: int) -> list[int]:
    """Return the processes that ``pid`` has started and that have not ended, theirs included."""
    children = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    own = [child for child in children if _stat(child)[1:2] == [str(pid)] and not ended(child)]
    return own + [below for child in own for below in offspring(child)]


def ended(pid: int) -> bool:
    """Tell whether a process has ended; one that nobody has waited for has."""
    return _stat(pid)[:1] in ([], ["Z"])


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used, 0 when it has ended."""
    fields = _stat(pid)
    ticks = int(fields[11]) + int(fields[12]) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on: state, parent, ... (proc(5))."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()
