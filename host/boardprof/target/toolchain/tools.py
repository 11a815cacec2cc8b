# SPDX-License-Identifier: Apache-2.0
"""Programs of a toolchain: which are missing, running them with a deadline, what they print."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from boardprof.base.errors import BuildError, StorageError
from boardprof.base.writing import no_room
from boardprof.target.descriptions.board_file import BoardSpec

_TIMEOUT_S = 300.0
_SHOW = "--verbose shows the command"
_END_S = 2.0  # seconds for a program to end after SIGTERM

# GCC and Clang: FILE:LINE:COLUMN: KIND: TEXT. Notes belong to the message before them.
_BEGIN = r"^\S.*?: (fatal error|error|warning): "
_INCLUDED = r"^(In file included from|                 from) "
_FUNCTION = r"^\S.*: (In|At) .*:$"


class ToolFailure(BuildError):
    """A program that failed, with what it printed.

    ``command`` is its command line for a shell. It is not in the message: it may have many kB.
    """

    def __init__(self, failure: str, stdout: str, stderr: str, command: str) -> None:
        """Compose the message from the failed step and the program's own text."""
        super().__init__(f"{failure}:\n{stderr.rstrip()}")
        self.stdout = stdout
        self.stderr = stderr
        self.command = command


class Tools:
    """Runs programs; may be used from many threads.

    Attributes:
        commands: all that were run, in the order in which they began.
    """

    def __init__(self, report: Callable[[str], None] | None) -> None:
        """Report each command before it runs, and warnings of commands that succeed."""
        self._report = report
        self._lock = threading.Lock()
        self.commands: list[tuple[str, ...]] = []
        self._started: list[subprocess.Popen[str]] = []
        self._is_stopped = False

    def stop(self) -> None:
        """End the programs that other threads run, and those that they start from now on."""
        with self._lock:
            self._is_stopped = True
            running = [process for process in self._started if process.poll() is None]
        for process in running:
            end_with_children(process)

    def _on_start(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._started.append(process)
            is_stopped = self._is_stopped
        if is_stopped:
            end_with_children(process)

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
            arguments: of the program.
            folder: where it runs.
            failure: message if it fails, without the full stop.
            variables: added to the environment.

        Raises:
            ToolFailure: it ends with an error.
            BuildError: it does not end in time, or cannot be run.
            StorageError: the disk is full.
        """
        command = (program, *arguments)
        shown = f"cd {shlex.quote(str(folder))} && {shlex.join(command)}"
        with self._lock:
            self.commands.append(command)
        self._tell(shown)
        # GCC takes its folder's name from PWD; __DATE__ would change the image every day.
        environment = {"PWD": str(folder), "SOURCE_DATE_EPOCH": "0", **variables}
        try:
            variables = {**os.environ, **environment}
            done = ended(command, folder, variables, _TIMEOUT_S, self._on_start)
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"{failure}: it did not end within {_TIMEOUT_S:.0f} s.", hint=_SHOW
            ) from error
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
    """Raise a better error if a program has failed because of a full disk.

    Args:
        failure: message, without the full stop.
        words: what the program printed.

    Raises:
        StorageError: the disk is full.
    """
    told = no_room(words)
    if told is not None:
        raise StorageError(
            f"{failure}: {told}.", hint="free some space there, or set XDG_CACHE_HOME and TMPDIR"
        )


def ended(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    on_start: Callable[[subprocess.Popen[str]], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; on a timeout end it with all that it has started.

    Args:
        command: its words.
        folder: where it runs.
        environment: all its variables.
        timeout_s: how long it may take.
        on_start: gets the program, which another thread may end.

    Raises:
        subprocess.TimeoutExpired: it took longer than ``timeout_s``.
        OSError: it cannot be run.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with later_interrupts():
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        if on_start is not None:
            on_start(process)
        stdout, stderr = process.communicate(timeout=timeout_s)
    finally:
        if process is not None:  # also when we are interrupted
            if process.poll() is None:
                end_with_children(process)
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


@contextlib.contextmanager
def later_interrupts() -> Iterator[None]:
    """Hold Ctrl-C and the like back until the end of the block, which starts a program.

    Within `subprocess.Popen` it would leave a program running that nobody ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(signal.getsignal(number))  # others raise nothing
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def end_with_children(process: subprocess.Popen[Any]) -> None:
    """End a program that leads a session, and its children: cc1 would outlive gcc."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A program stuck in the kernel, at a USB device for example, ends later.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)


def errors_first(text: str) -> str:
    """Return a compiler's messages with the errors before the warnings.

    Each keeps the lines after it, and the lines before it that name its function and the files that
    include it. Text without an error or a warning stays as it is.
    """
    head: list[str] = []
    errors: list[str] = []
    warnings: list[str] = []
    block, above, function = head, [], ""
    told = {id(errors): "", id(warnings): ""}  # the last function that was named
    for line in text.splitlines():
        begin = re.match(_BEGIN, line)
        if re.match(_INCLUDED, line):
            above.append(line)
        elif re.match(_FUNCTION, line):
            function = line
        elif begin is not None:
            block = warnings if begin[1] == "warning" else errors
            if function != told[id(block)]:
                above.append(function)
                told[id(block)] = function
            block += [*above, line]
            above = []
        else:
            block += [*above, line]
            above = []
    return "\n".join([*head, *errors, *warnings, *above]) if errors or warnings else text


def missing_tools(spec: BoardSpec) -> list[dict[str, str]]:
    """Return each as ``tool`` and the ``package`` or ``python_package`` that has it."""
    needed = {spec.build.cc: spec.build.package}
    launch = spec.launch
    if launch.command and "{" not in launch.command[0]:
        needed[launch.command[0]] = launch.package or launch.command[0]
    if launch.simulator is not None:
        needed.setdefault(launch.simulator.program, launch.simulator.package)
    missing = [
        {"tool": tool, "package": package}
        for tool, package in needed.items()
        if shutil.which(tool) is None
    ]
    sources = launch.simulator.python_package if launch.simulator is not None else None
    if sources is not None and python_package_version(sources) is None:
        missing.append({"tool": sources, "python_package": sources})
    return missing


def missing_text(tool: Mapping[str, str]) -> str:
    """Return one of `missing_tools` for people."""
    if "python_package" in tool:
        return f"{tool['tool']} (Python package)"
    return f"{tool['tool']} (Debian package {tool['package']})"


def python_package_version(name: str) -> str | None:
    """Return the version of an installed Python package, None if it is not installed."""
    from importlib import metadata  # later: its parsers of mail and CSV take long to import

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
