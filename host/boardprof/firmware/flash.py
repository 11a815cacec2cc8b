# SPDX-License-Identifier: Apache-2.0
"""Writing firmware to a board by the board's own tool: the command of ``[flash]`` in board.toml."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from boardprof.boards.board_file import BoardSpec, FlashSpec
from boardprof.boards.launch import DEFAULT_BAUD
from boardprof.boards.placeholders import filled
from boardprof.errors import (
    BoardError,
    BoardTimeoutError,
    BuildError,
    BusyError,
    MissingToolError,
    UsageError,
)
from boardprof.progress import activity
from boardprof.toolchain.cache import Cache
from boardprof.toolchain.toolchain import Compiler
from boardprof.toolchain.tools import end_with_children
from boardprof.transport.sealed import KEY_VARIABLE
from boardprof.transport.serial import connect_serial

__all__ = ["check_flashable", "flash"]

_FORMATS = {"bin": "binary", "hex": "ihex"}  # placeholder -> what objcopy calls it
_OBJCOPY_S = 60.0
_PORT_S = 10.0
"""How long a port may be away after a reset: a board with USB of its own comes back as new."""

_POLL_S = 0.05


def check_flashable(spec: BoardSpec, port: str | None = None) -> FlashSpec:
    """Return how the board is flashed.

    Raises:
        UsageError: it needs no flashing; its board.toml does not say how; or the tool needs a port
            and there is none.
    """
    if spec.at_port().launch.kind != "serial":
        raise UsageError(
            f"{spec.name} needs no flashing: boardprof starts it with its firmware.",
            hint=f"boardprof run -b {spec.name} PATH:FUNCTION",
        )
    if spec.flash is None:
        raise UsageError(
            f"{spec.folder / 'board.toml'} does not say how {spec.name} is flashed.",
            hint="add [flash] command = [...] (boards/README.md), or write what "
            "`boardprof build` gives with a tool of your own",
        )
    named = "".join([*spec.flash.command, *spec.flash.reset])
    if port is None and "{port}" in named:
        raise UsageError(f"{spec.name} is flashed through its port.", hint="give -p PORT")
    return spec.flash


def flash(
    spec: BoardSpec,
    image: Path,
    port: str | None = None,
    *,
    output: int | None = None,
    on_command: Callable[[str], None] | None = None,
) -> None:
    """Write ``image`` to a board, reset it, and wait until its port is there again.

    Args:
        spec: the board.
        image: an ELF file.
        port: where the board will be reached, for tools that use it, too.
        output: the file descriptor that the tool writes to, so that its progress is seen as it
            means it; None keeps what it writes for the error.
        on_command: gets each command before it runs.

    Raises:
        UsageError: the board is not one to be flashed, or there is no such image.
        MissingToolError: the tool, or the board's toolchain where it must convert, is missing.
        BuildError: the image cannot be converted.
        BoardError: the tool fails; most often it does not find the board.
        BusyError: another program has the port; nothing was flashed.
        BoardTimeoutError: it does not end in time.
    """
    how = check_flashable(spec, port)
    if not image.is_file():
        raise UsageError(f"There is no image {image}.")
    _check_free(spec, port)
    with tempfile.TemporaryDirectory(prefix="boardprof-flash-") as folder:
        values = _values(spec, how, image.resolve(), port, Path(folder))
        for command in filter(None, (how.command, how.reset)):
            whole = filled(command, values)
            if on_command is not None:
                on_command(shlex.join(whole))
            _run(spec, how, whole, output)
    with activity(f"waiting for {spec.name} to start"):
        _settle(how, port)


def _check_free(spec: BoardSpec, port: str | None) -> None:
    """See that nobody is at work with the board: his session would end with a reset."""
    if port is None or "://" in port or not os.path.exists(port):
        return
    try:
        connect_serial(port, spec.at_port().launch.baud or DEFAULT_BAUD).close()
    except BusyError:
        raise
    except BoardError:
        return  # who connects afterwards says it; the tool may not need the port


def _values(
    spec: BoardSpec, how: FlashSpec, image: Path, port: str | None, folder: Path
) -> dict[str, str]:
    """Return what the placeholders stand for; an image is converted only where one asks for it."""
    values = {"image": os.fspath(image), "port": port or ""}
    text = "".join([*how.command, *how.reset])
    for name, output_format in _FORMATS.items():
        if f"{{{name}}}" in text:
            converted = folder / f"{image.stem}.{name}"
            _convert(spec, image, converted, output_format)
            values[name] = os.fspath(converted)
    return values


def _convert(spec: BoardSpec, image: Path, converted: Path, output_format: str) -> None:
    objcopy = Compiler(spec.build.cc, spec.build.package, Cache()).program("objcopy")
    command = [objcopy, "-O", output_format, os.fspath(image), os.fspath(converted)]
    hint = f"see that {image.name} is a whole ELF file for {spec.name}, or take a tool that writes "
    hint += "ELF files: {image} in place of the other placeholders of [flash] in board.toml"
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_OBJCOPY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{objcopy} cannot convert {image}: {error}.", hint=hint) from error
    if done.returncode != 0:
        raise BuildError(f"{objcopy} cannot convert {image}:\n{done.stderr.rstrip()}", hint=hint)


def _run(spec: BoardSpec, how: FlashSpec, command: list[str], output: int | None) -> None:
    """Run a tool in the board's folder, with a deadline."""
    tool = command[0]
    place = os.fspath(spec.folder / tool) if os.sep in tool else tool
    if shutil.which(place) is None:
        raise MissingToolError(tool, how.package or tool)
    # The key is for agents; a tool that flashes has no use for it.
    environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    with tempfile.TemporaryFile() as kept:
        try:
            # In a session of its own, so that whatever the tool has started can be ended with it.
            # Not by `with`, which would wait for its end without a deadline.
            process = subprocess.Popen(
                [place, *command[1:]],
                cwd=spec.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=kept if output is None else output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code = _wait(process, how.timeout_s)
        except OSError as error:
            raise BoardError(f"{tool} cannot be started: {error.strerror}.") from error
        kept.seek(0)
        written = kept.read().decode(errors="replace").rstrip()
    shown = f"\n{written}" if written else ""
    hint = f"the command was, in {spec.folder}: {shlex.join(command)}"
    if code is None:
        raise BoardTimeoutError(
            f"{tool} was ended: it had not flashed {spec.name} after {how.timeout_s:g} s.{shown}",
            hint=hint,
        )
    if code != 0:
        how_ended = f"with exit code {code}" if code > 0 else f"by {signal.Signals(-code).name}"
        raise BoardError(f"{spec.name} is not flashed: {tool} ended {how_ended}.{shown}", hint=hint)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """Return the exit code, None of a process that had to be ended; none is left behind."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:  # also when we are interrupted
            end_with_children(process)


def _settle(how: FlashSpec, port: str | None) -> None:
    """Wait as long as the board asks for, and until the device of its port is there."""
    time.sleep(how.settle_s)
    deadline = time.monotonic() + _PORT_S
    while port is not None and "://" not in port and not os.path.exists(port):
        if time.monotonic() >= deadline:
            return  # who connects says that there is no such port
        time.sleep(_POLL_S)
