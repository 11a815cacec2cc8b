# SPDX-License-Identifier: Apache-2.0
"""An image for a board: what it offers, its file, its sizes, and how it is flashed."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from boardprof.base.errors import (
    BoardError,
    BoardTimeoutError,
    BuildError,
    BuildMismatchError,
    BusyError,
    MissingToolError,
    UsageError,
)
from boardprof.base.files import check_is_file, write_bytes
from boardprof.base.progress import activity
from boardprof.target.cfunction import CFunction, signature
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.descriptions.tables import CHOOSE, DEFAULT_BAUD, FlashSpec, filled
from boardprof.target.elf.object_file import check_image_machine
from boardprof.target.toolchain.cache import Cache, digest
from boardprof.target.toolchain.compiler import Compiler
from boardprof.target.toolchain.tools import Tools, ended
from boardprof.wire.transport.keyed import KEY_VARIABLE
from boardprof.wire.transport.serial import connect_serial


@dataclass(frozen=True)
class BuiltFirmware:
    """What a build gives: an image, and the functions that it offers. `Firmware` documents it."""

    image: Path
    build_id: bytes
    functions: tuple[CFunction, ...]
    board: BoardSpec
    commands: tuple[tuple[str, ...], ...]
    hidden: dict[str, str] = field(default_factory=dict, hash=False)
    libc: str | None = None
    compilers: tuple[str, ...] = ()
    flags: str | None = None
    missing: dict[str, str] = field(default_factory=dict, hash=False)
    sources: tuple[Path, ...] = ()
    libc_lacks: str = ""
    unconnected: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def offer(self) -> str:
        """What identifies the board and the functions that it offers, whatever their code is."""
        return digest(self.board.name, [(fn.name, signature(fn)) for fn in self.functions])

    @property
    def notes(self) -> list[str]:
        """What users should know of the image."""
        notes = [*self.added, *([self.libc_lacks] if self.libc_lacks else [])]
        for name in self.unconnected:
            notes.append(
                f"no interrupt calls {name}, because the agent uses this interrupt. It can be "
                "measured like any function"
            )
        return notes


def write_image(firmware: BuiltFirmware, output: str | Path | None = None) -> Path:
    """Copy an image to ``output`` or the current folder, whole or not at all."""
    target = firmware.image.name if output is None else os.fspath(output)
    check_is_file(target)
    write_bytes(firmware.image.read_bytes(), target)
    if os.path.isfile(target):
        shutil.copymode(firmware.image, target)  # some are programs
    return Path(target)


def image_sizes(firmware: BuiltFirmware) -> dict[str, int] | None:
    """Return bytes of text, data and bss of an image; see `sizes_of`."""
    sizes = sizes_of(firmware.board, [firmware.image])
    return None if sizes is None else sizes[0]


def sizes_of(spec: BoardSpec, files: Sequence[Path]) -> list[dict[str, int]] | None:
    """Return bytes of text, data and bss of each file; None if the board's ``size`` is missing."""
    program = shutil.which(spec.build.size or "")
    if program is None:
        return None
    said = Tools(None).run(program, [*map(str, files)], Path("/"), f"{program} fails")
    names, *rows = [line.split() for line in said.splitlines()] or [[]]
    if len(rows) != len(files):
        raise BuildError(f"{program} does not print sizes in the Berkeley format.")
    found = [dict(zip(names, values, strict=False)) for values in rows]
    kinds = ("text", "data", "bss")
    return [{name: int(sizes[name]) for name in kinds if name in sizes} for sizes in found]


# -- flashing ----------------------------------------------------------------------------------


_FORMATS = {"bin": "binary", "hex": "ihex"}  # placeholder -> what objcopy calls it
# How long a port may be missing after a reset: a board's own USB device is found anew.
_PORT_S = 10.0
_POLL_S = 0.05


def check_flashable(spec: BoardSpec, port: str | None = None) -> FlashSpec:
    """Return how the board is flashed."""
    if spec.at_port().launch.kind != "serial":
        raise UsageError(
            f"{spec.name} needs no flashing: boardprof starts it with its firmware.",
            hint=f"boardprof run -b {spec.name} PATH:FUNCTION",
        )
    if spec.flash is None:
        raise UsageError(
            f"{spec.folder / 'board.toml'} does not say how to flash {spec.name}.",
            hint="add [flash] command = [...] (boards/README.md), or flash the output of "
            "`boardprof build` with your own tool",
        )
    named = "".join([*spec.flash.command, *spec.flash.reset])
    if port is None and "{port}" in named:
        raise UsageError(f"{spec.name} is flashed through its port.", hint="give -p PORT")
    return spec.flash


def check_port(how: FlashSpec, port: str | None) -> None:
    """Check that a device of a port exists, before a tool is started."""
    # A board with a USB device of its own may have its port only once it is flashed.
    is_needed = "{port}" in "".join([*how.command, *how.reset])
    if port is None or not port.startswith("/dev/") or os.path.exists(port):
        return
    if is_needed or how.settle_s <= FlashSpec.settle_s:
        raise BoardError(
            f"Port {port} does not exist.",
            hint="plug in the board, and look under /dev/serial/by-id",
        )


def flash(
    spec: BoardSpec,
    image: Path,
    port: str | None = None,
    *,
    probe: str | None = None,
    dry_run: bool = False,
    output: int | None = None,
    on_command: Callable[[str], None] | None = None,
) -> None:
    """Write ``image`` to a board, reset it, and wait until its port is there again.

    ``probe``: serial number of the debug probe to use. ``dry_run``: only report the commands.
    ``output``: file descriptor for the tool's output, so that its progress is visible.
    """
    how = _with_probe(spec, check_flashable(spec, port), probe)
    check_image_machine(image, spec)
    if not dry_run:
        check_port(how, port)
        _check_free(spec, port)
    with tempfile.TemporaryDirectory(prefix="boardprof-flash-") as folder:
        values = {"image": os.fspath(image.resolve()), "port": port or ""}
        text = "".join([*how.command, *how.reset])
        for name in (each for each in _FORMATS if f"{{{each}}}" in text):
            # A dry run shows the conversion, too.
            converted = Path("" if dry_run else folder) / f"{image.stem}.{name}"
            values[name] = os.fspath(converted)
            _convert(spec, image.resolve(), converted, name, on_command if dry_run else None)
        for command in filter(None, (how.command, how.reset)):
            whole = filled(command, values)
            if on_command is not None:
                on_command(shlex.join(whole))
            if not dry_run:
                _run(spec, how, whole, output)
    if dry_run:
        return
    with activity(f"waiting for {spec.name} to start"):
        _settle(how, port)


def _with_probe(spec: BoardSpec, how: FlashSpec, probe: str | None) -> FlashSpec:
    """Return how to flash with the words that choose the probe, or without them."""
    if probe is not None and not how.choose:
        raise UsageError(
            f"{how.command[0]} is not told which probe to use for {spec.name}.",
            hint=f'add "{CHOOSE}" and choose = [...] to [flash] in {spec.folder / "board.toml"}',
        )
    words = filled(how.choose, {"probe": probe}) if probe is not None else []
    # A serial number is a word; braces in it stand for themselves.
    words = [word.replace("{", "{{").replace("}", "}}") for word in words]

    def chosen(command: Sequence[str]) -> tuple[str, ...]:
        return tuple(w for each in command for w in (words if each == CHOOSE else [each]))

    return replace(how, command=chosen(how.command), reset=chosen(how.reset))


@contextlib.contextmanager
def after_flash() -> Iterator[None]:
    """Let the error of a board that still runs another image say why flashing may not help."""
    try:
        yield
    except BuildMismatchError as error:
        error.hint = (
            "check that the board boots from what was flashed, that the tool or [flash] reset in "
            "board.toml restarts it, and that the port belongs to this board"
        )
        raise


def _check_free(spec: BoardSpec, port: str | None) -> None:
    """Check that no other host uses the board: a reset would end its session."""
    if port is None or "://" in port or not os.path.exists(port):
        return
    try:
        connect_serial(port, spec.at_port().launch.baud or DEFAULT_BAUD).close()
    except BusyError:
        raise
    except BoardError:
        return  # connecting will report it; the tool may not need the port


def _convert(
    spec: BoardSpec,
    image: Path,
    converted: Path,
    name: str,
    on_command: Callable[[str], None] | None,
) -> None:
    """Write an image in the format of a placeholder, or only report the command."""
    compiler = Compiler(spec.build.cc, spec.build.package, Cache())
    if on_command is not None:
        on_command(shlex.join(compiler.conversion(image, _FORMATS[name], converted)))
        return
    try:
        compiler.convert(image, _FORMATS[name], converted)
    except BuildError as error:
        error.hint = (
            f"check that {image.name} is a complete ELF file for {spec.name}, or use a tool that "
            "flashes ELF files: {image} replaces the other placeholders of [flash] in board.toml"
        )
        raise


def _run(spec: BoardSpec, how: FlashSpec, command: list[str], output: int | None) -> None:
    """Run a tool in the board's folder, with a deadline."""
    tool = command[0]
    place = os.fspath(spec.folder / tool) if os.sep in tool else tool
    if shutil.which(place) is None:
        raise MissingToolError(tool, how.package or tool)
    # The key is for agents, not for the tool.
    environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    with tempfile.TemporaryFile() as kept:
        code: int | None = None
        try:
            whole, to = [place, *command[1:]], kept.fileno() if output is None else output
            code = ended(whole, spec.folder, environment, how.timeout_s, output=to).returncode
        except subprocess.TimeoutExpired:
            pass
        except OSError as error:
            raise BoardError(f"{tool} cannot be started: {error.strerror}.") from error
        kept.seek(0)
        written = kept.read().decode(errors="replace").rstrip()
    shown = f"\n{written}" if written else ""
    hint = (
        "is the board's probe plugged in, is it the only one, and may you open it (udev rules)? "
        f"The command in {spec.folder} was: {shlex.join(command)}"
    )
    if code is None:
        raise BoardTimeoutError(
            f"{tool} did not flash {spec.name} within {how.timeout_s:g} s and was ended.{shown}",
            hint=hint,
        )
    if code != 0:
        how_ended = f"with exit code {code}" if code > 0 else f"by {signal.Signals(-code).name}"
        raise BoardError(
            f"{spec.name} was not flashed: {tool} ended {how_ended}.{shown}", hint=hint
        )


def _settle(how: FlashSpec, port: str | None) -> None:
    """Wait for the board's ``settle_s``, and until the device of its port exists."""
    time.sleep(how.settle_s)
    deadline = time.monotonic() + _PORT_S
    while port is not None and port.startswith(os.sep) and not os.path.exists(port):
        if time.monotonic() >= deadline:
            return  # connecting will report it
        time.sleep(_POLL_S)
