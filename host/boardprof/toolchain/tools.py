# SPDX-License-Identifier: Apache-2.0
"""Programs of a toolchain, run to their end with a deadline, and shown to who wants to see them."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from boardprof.errors import BuildError, StorageError
from boardprof.writing import no_room

__all__ = ["ToolFailure", "Tools", "check_room", "end_with_children", "ended"]

_TIMEOUT_S = 300.0
_SHOW = "--verbose shows the command"
_END_S = 2.0  # for a program that is told to end


class ToolFailure(BuildError):
    """A program that did not end well, with what it printed.

    ``command`` is its command line, for a shell: often of many kB, and so not in the message.
    """

    def __init__(self, failure: str, stdout: str, stderr: str, command: str) -> None:
        """Compose the message from what failed and the program's words."""
        super().__init__(f"{failure}:\n{stderr.rstrip()}")
        self.stdout = stdout
        self.stderr = stderr
        self.command = command


class Tools:
    """Runs programs; may be used from many threads.

    Attributes:
        commands: those that were run, in the order in which they began.
    """

    def __init__(self, report: Callable[[str], None] | None) -> None:
        """Report each command before it runs, and warnings of those that succeed."""
        self._report = report
        self._lock = threading.Lock()
        self.commands: list[tuple[str, ...]] = []

    def run(
        self,
        program: str,
        arguments: Sequence[str],
        folder: Path,
        failure: str,
        **variables: str,
    ) -> str:
        """Run a program in ``folder``; return what it prints on stdout.

        Args:
            program: its path or name.
            arguments: as they are.
            folder: where it runs.
            failure: what to say if it fails, without a stop at the end.
            variables: of the environment, added.

        Raises:
            ToolFailure: it ends with an error.
            BuildError: it does not end, or cannot be run.
            StorageError: what it writes has no room.
        """
        command = (program, *arguments)
        shown = f"cd {shlex.quote(str(folder))} && {shlex.join(command)}"
        with self._lock:
            self.commands.append(command)
        self._tell(shown)
        # GCC takes its folder's name from PWD; __DATE__ would make each day's image another.
        environment = {"PWD": str(folder), "SOURCE_DATE_EPOCH": "0", **variables}
        try:
            done = ended(command, folder, {**os.environ, **environment}, _TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"{failure}: no end after {_TIMEOUT_S:.0f} s.", hint=_SHOW) from error
        except OSError as error:
            raise BuildError(f"{failure}: {error.strerror}.", hint=_SHOW) from error
        if done.returncode != 0:
            check_room(failure, done.stderr)
            raise ToolFailure(failure, done.stdout, done.stderr, shown)
        if done.stderr:
            self._tell(done.stderr.rstrip())
        return done.stdout

    def _tell(self, text: str) -> None:
        if self._report is not None:
            with self._lock:
                self._report(text)


def check_room(failure: str, words: str) -> None:
    """See that a program has failed for another reason than a full disk.

    Args:
        failure: what to say, without a stop at the end.
        words: that it wrote.

    Raises:
        StorageError: what it writes has no room.
    """
    told = no_room(words)
    if told is not None:
        raise StorageError(
            f"{failure}: {told}.", hint="make room there, or set XDG_CACHE_HOME and TMPDIR"
        )


def ended(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, which ends what it has started, too, if it takes too long.

    Raises:
        subprocess.TimeoutExpired: it took longer than ``timeout_s``.
        OSError: it cannot be run.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        finally:
            if process.poll() is None:  # also when we are interrupted
                end_with_children(process)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def end_with_children(process: subprocess.Popen[Any]) -> None:
    """End a program that leads a session, and whatever it has started: cc1 goes on without gcc."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # One that is stuck in the kernel, at a USB device say, ends when that lets it go.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
