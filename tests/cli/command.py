# SPDX-License-Identifier: Apache-2.0
"""Runs the command as a user does: a process with its output and exit code, and a deadline.

Most of them are forked from a server that has loaded what the command imports, which is half of
what a short command costs. Whoever tests start-up, signals or pipes starts `BOARDPROF` itself.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.forked import LOADED, run_forked

__all__ = ["BOARDPROF", "FIXTURES", "FORKS", "Outcome", "agent", "boardprof", "cpu_seconds"]
__all__ += ["ended", "forked", "offspring", "rows", "started", "wait_until", "without_progress"]

BOARDPROF = (sys.executable, "-m", "boardprof")
FIXTURES = Path(__file__).parent / "fixtures"


_TABLE = {"BOARDPROF_TABLE": "1"}
"""All numbers are in the table, so tests read that; `test_answer` has what a user sees first."""


@dataclass(frozen=True)
class Outcome:
    """What a finished command left.

    Attributes:
        code: its exit code.
        out: standard output.
        err: standard error, without ``progress``.
        progress: the lines of standard error that come or not as the machine is busy, or as its
            caches are cold: how far a long run is, and that a simulator is built.
    """

    code: int
    out: str
    err: str
    progress: str = ""


_PROGRESS = re.compile(
    r"^(?:.+: [\d,]+ of [\d,]+, about .+ left|.+: .+ so far"
    r"|note: building the simulator of .+|note: waiting for another process that builds .+)\n",
    re.MULTILINE,
)


def without_progress(err: str) -> str:
    """Return standard error without what comes only where the machine is slow; see `Outcome`."""
    return _PROGRESS.sub("", err)


def boardprof(
    *arguments: str | Path,
    timeout_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    before: tuple[str, ...] = (),
) -> Outcome:
    """Run ``boardprof ARGUMENTS`` to its end; a traceback is never right.

    Args:
        arguments: of the command.
        timeout_s: a command that takes longer fails the test.
        environment: variables to set. Python reads its own at its start: with one of them the
            command is started and not forked.
        folder: to run it in; None: this process's.
        before: a program that starts the command, with its options.
    """
    words = [str(argument) for argument in arguments]
    variables = {**os.environ, **_TABLE, **(environment or {})}
    place = Path.cwd() if folder is None else folder
    if before or any(name.startswith("PYTHON") for name in environment or {}):
        code, out, err = started([*before, *BOARDPROF, *words], variables, place, timeout_s)
    else:
        code, out, err = forked(["boardprof", *words], variables, place, timeout_s)
    assert "Traceback" not in err, err
    return Outcome(code, out, without_progress(err), "".join(_PROGRESS.findall(err)))


def started(
    command: list[str], environment: dict[str, str], folder: Path, timeout_s: float
) -> tuple[int, str, str]:
    """Run any command in a new process; else as `forked`."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=folder,
        env=environment,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


FORKS = multiprocessing.get_context("forkserver")
"""Starts processes in which Python's modules are loaded."""

FORKS.set_forkserver_preload(LOADED)


def forked(
    words: list[str], environment: dict[str, str], folder: Path, timeout_s: float
) -> tuple[int, str, str]:
    """Run ``boardprof`` or ``pytest``; returns its exit code and what it printed.

    Args:
        words: the program's name and its arguments.
        environment: all of its variables.
        folder: to run it in.
        timeout_s: for all of it.

    Raises:
        AssertionError: it took longer, and was killed. The text has what it printed, and where it
            was a little earlier.
    """
    with tempfile.TemporaryDirectory(prefix="boardprof-") as made:
        out, err = Path(made, "out"), Path(made, "err")
        given = (words, environment, folder, out, err, 0.95 * timeout_s)
        process = FORKS.Process(target=run_forked, args=given)
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            printed = "\n".join(file.read_text() for file in (out, err) if file.exists())
            raise AssertionError(f"{' '.join(words)} took over {timeout_s:g} s:\n{printed}")
        code = process.exitcode
        process.close()
        assert code is not None
        return code, out.read_text(), err.read_text()


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
