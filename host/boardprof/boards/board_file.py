# SPDX-License-Identifier: Apache-2.0
"""What a board is: the content of its folder's ``board.toml``, read strictly."""

from __future__ import annotations

import functools
import re
import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from boardprof.boards.guard import GuardSpec, read_guard
from boardprof.errors import UsageError
from boardprof.resources import runtime_dir
from boardprof.toml_table import TomlTable

__all__ = [
    "BOARD_FILE",
    "BoardSpec",
    "BuildSpec",
    "ClockSpec",
    "FlashSpec",
    "LaunchSpec",
    "agent_options",
    "load_board",
]

BOARD_FILE = "board.toml"

_IMAGES = {"image", "bin", "hex"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class BuildSpec:
    """How firmware for a board is compiled and linked: ``[build]``.

    Attributes:
        cc: the compiler, found on PATH.
        package: the Debian package that has ``cc``.
        size: the program that tells sections' sizes, None if there is none.
        cflags: for every compilation and for the link, without paths.
        ldflags: for the link, after the objects; relative paths begin at the
            board's folder.
        arch: folder below the agent's ``arch/``, compiled and on the include
            path; None for a board that brings everything itself.
        sources: the board's own C and assembler files, relative to its folder.
        link_script: relative to the board's folder.
        collectors: names as in ``bp_<name>.c``.
        config: option of ``bp_config.h`` in lower case, without ``BP_CFG_``.
        shared: link a shared library and no program.
        freestanding: without a libc: the agent brings what a compiler needs.
        own_main: the board's sources have the ``main``, not the agent.
        cxx: the C++ compiler; found beside ``cc`` by its name if None.
        cxx_package: the Debian package that has it; ``package`` if None.
        libc: of a freestanding board, for functions that need it: folder below the agent's
            ``libc/`` that ties it to the agent. None: there is none.
        libc_package: the Debian package that has it.
        libc_cflags: with which its headers and the library itself are found.
        libc_ldflags: for a link with it, in front of the objects.
        libc_heap: bytes for ``malloc``; 0: what calls it does not link.
    """

    cc: str
    package: str
    size: str | None = None
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    arch: str | None = None
    sources: tuple[str, ...] = ("port.c",)
    link_script: str | None = None
    collectors: tuple[str, ...] = ()
    config: Mapping[str, int] = field(default_factory=dict, hash=False)
    shared: bool = False
    freestanding: bool = False
    own_main: bool = False
    cxx: str | None = None
    cxx_package: str | None = None
    libc: str | None = None
    libc_package: str | None = None
    libc_cflags: tuple[str, ...] = ()
    libc_ldflags: tuple[str, ...] = ()
    libc_heap: int = 0


@dataclass(frozen=True)
class LaunchSpec:
    """How the host gets at a running board: ``[launch]``.

    Attributes:
        kind: "library" (loaded into the host's process), "process" (a child
            process: a program or an emulator) or "serial" (a line to a board
            that runs already).
        command: the child's command line; ``{image}`` is the firmware's path,
            ``{port}`` a TCP port. Empty unless the kind is "process".
        package: the Debian package that has the command's program.
        listen: who listens: "host" (the child connects to ``{port}``) or
            "board" (the child prints ``listening on HOST:PORT``); None unless
            the kind is "process".
        baud: bits per second; None unless the kind is "serial".
    """

    kind: str
    command: tuple[str, ...] = ()
    package: str | None = None
    listen: str | None = None
    baud: int | None = None


@dataclass(frozen=True)
class FlashSpec:
    """How firmware gets onto a board on a wire: ``[flash]``.

    Attributes:
        command: writes it; ``{image}`` is the ELF file's path, ``{bin}`` and ``{hex}`` those of
            what the board's toolchain makes of it, ``{port}`` the board's. Runs in the board's
            folder.
        package: the Debian package that has the command's program.
        reset: starts the board anew, where the command does not; likewise.
        settle_s: seconds from then until the board may be asked.
        timeout_s: the longest that either command may take, seconds.
    """

    command: tuple[str, ...]
    package: str | None = None
    reset: tuple[str, ...] = ()
    settle_s: float = 0.5
    timeout_s: float = 120.0


@dataclass(frozen=True)
class ClockSpec:
    """Where the board's clock frequency comes from: ``[clock]``.

    Attributes:
        kind: "measured", "declared" or "simulated".
        time_scale: wall seconds that a second of the board's clock may take; the host is patient
            by so much.
    """

    kind: str
    time_scale: float = 1.0


@dataclass(frozen=True)
class BoardSpec:
    """One board: the content of its ``board.toml``.

    Attributes:
        name: the folder's name.
        folder: absolute.
        summary: one line.
        build: how its firmware is built.
        launch: how it is reached.
        clock: where its clock frequency comes from.
        guard: which faults of a called function it survives.
        flash: how firmware gets onto it; None where the host starts it, or nobody said.
        family: what boards are grouped by, None if by nothing.
        default: this is the board to take when none is named.
        unsupported: counter name -> why this board does not have it.
    """

    name: str
    folder: Path
    summary: str
    build: BuildSpec
    launch: LaunchSpec
    clock: ClockSpec
    guard: GuardSpec = field(default_factory=GuardSpec)
    flash: FlashSpec | None = None
    family: str | None = None
    default: bool = False
    unsupported: Mapping[str, str] = field(default_factory=dict, hash=False)


def load_board(folder: Path) -> BoardSpec:
    """Read ``folder``/board.toml.

    Raises:
        UsageError: the file is missing or wrong; the message names the file, the
            key and what is allowed there.
    """
    folder = Path(folder).resolve()
    top = TomlTable(_parsed(folder), folder / BOARD_FILE, "")
    if not _NAME.fullmatch(folder.name):
        raise UsageError(
            f"{folder}: a board's name is its folder's, of letters, digits, '.', '_' and '-'.",
            hint="rename the folder",
        )
    summary = top.take("summary", str)
    family = top.take("family", str, None)
    default = top.take("default", bool, False)
    build_table = top.table("build")
    build = _build(build_table)
    launch = _launch(top.table("launch"))
    spec = BoardSpec(
        name=folder.name,
        folder=folder,
        summary=summary,
        family=family,
        default=default,
        build=build,
        launch=launch,
        clock=_clock(top.table("clock")),
        guard=read_guard(
            top.table("guard") if top.has("guard") else None, build.config, build_table
        ),
        flash=_flash(top.table("flash"), launch.kind) if top.has("flash") else None,
        unsupported=top.table("unsupported", required=False).mapping(str),
    )
    top.end()
    return spec


@functools.cache
def agent_options() -> Mapping[str, int]:
    """Return the options of ``bp_config.h``: name in lower case -> default."""
    header = runtime_dir() / "include" / "boardprof" / "bp_config.h"
    found = re.findall(r"^#define BP_CFG_([A-Z0-9_]+) (\d+)$", header.read_text(), re.MULTILINE)
    return {name.lower(): int(value) for name, value in found}


def _parsed(folder: Path) -> dict[str, Any]:
    path = folder / BOARD_FILE
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", hint=f"a board's folder has a {BOARD_FILE}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from error


def _build(table: TomlTable) -> BuildSpec:
    spec = BuildSpec(
        cc=table.take("cc", str),
        package=table.take("package", str),
        size=table.take("size", str, None),
        cflags=table.texts("cflags"),
        ldflags=table.texts("ldflags"),
        arch=table.take("arch", str, None),
        sources=table.texts("sources", ("port.c",)),
        link_script=table.take("link_script", str, None),
        collectors=table.texts("collectors"),
        config=table.table("config", required=False).mapping(int, agent_options()),
        shared=table.choice("output", ("elf", "shared"), "elf") == "shared",
        freestanding=table.take("freestanding", bool, False),
        own_main=table.choice("main", ("src/bp_main.c", "port"), "src/bp_main.c") == "port",
        cxx=table.take("cxx", str, None),
        cxx_package=table.take("cxx_package", str, None),
        libc=table.take("libc", str, None),
        libc_package=table.take("libc_package", str, None),
        libc_cflags=table.texts("libc_cflags"),
        libc_ldflags=table.texts("libc_ldflags"),
        libc_heap=table.take("libc_heap", int, 0),
    )
    table.end()
    _check_libc(table, spec)
    for key, paths in (("sources", spec.sources), ("link_script", (spec.link_script,))):
        for path in paths:
            if path is not None and not (table.file.parent / path).is_file():
                raise table.error(key, f"there is no file {path!r} in the board's folder")
    return spec


def _check_libc(table: TomlTable, spec: BuildSpec) -> None:
    known = sorted(path.name for path in (runtime_dir() / "libc").iterdir() if path.is_dir())
    if spec.libc is not None and spec.libc not in known:
        raise table.error("libc", f"there is {' and '.join(known)}, not {spec.libc!r}")
    if (spec.libc is None) != (spec.libc_package is None):
        raise table.error("libc", "libc and libc_package go together")
    if spec.libc == "picolibc" and spec.own_main:
        raise table.error("libc", 'picolibc is set up before main, which is not with main = "port"')
    if spec.libc_heap < 0:
        raise table.error("libc_heap", f"bytes, 0 or more, are needed, not {spec.libc_heap}")


def _launch(table: TomlTable) -> LaunchSpec:
    kind = table.choice("kind", ("library", "process", "serial"))
    if kind == "process":
        spec = LaunchSpec(
            kind,
            command=table.texts("command", None),
            package=table.take("package", str, None),
            listen=table.choice("listen", ("host", "board")),
        )
        _check_command(table, spec)
    elif kind == "serial":
        spec = LaunchSpec(kind, baud=table.take("baud", int, 115200))
    else:
        spec = LaunchSpec(kind)
    table.end(f' when kind = "{kind}"')
    return spec


def _placeholders(table: TomlTable, key: str, command: tuple[str, ...]) -> set[str]:
    """Return the names in braces."""
    try:
        pieces = [piece for text in command for piece in string.Formatter().parse(text)]
    except ValueError as error:
        raise table.error(key, f"{error}; write a plain brace twice") from error
    # With a format or a conversion a name is none that is known.
    return {
        f"{name}:{form}" if form else f"{name}!{conversion}" if conversion else name
        for _, name, form, conversion in pieces
        if name is not None
    }


def _flash(table: TomlTable, kind: str) -> FlashSpec:
    spec = FlashSpec(
        command=table.texts("command", None),
        package=table.take("package", str, None),
        reset=table.texts("reset"),
        settle_s=table.positive("settle_s", FlashSpec.settle_s),
        timeout_s=table.positive("timeout_s", FlashSpec.timeout_s),
    )
    table.end()
    if kind != "serial":
        raise table.error("command", f'a board of launch.kind = "{kind}" is not flashed')
    known = {*_IMAGES, "port"}
    for key, command in (("command", spec.command), ("reset", spec.reset)):
        if unknown := _placeholders(table, key, command) - known:
            braces = ", ".join(f"{{{name}}}" for name in sorted(known))
            raise table.error(key, f'"{{{min(unknown)}}}" is not known; {braces} are')
    if not _placeholders(table, "command", spec.command) & _IMAGES:
        raise table.error("command", '"{image}", "{bin}" or "{hex}" is needed')
    return spec


def _check_command(table: TomlTable, spec: LaunchSpec) -> None:
    """See that every part of the command can be filled in, and that nothing is left out."""
    named = _placeholders(table, "command", spec.command)
    needed = {"image", "port"} if spec.listen == "host" else {"image"}
    if not needed <= named <= {"image", "port"}:
        raise table.error(
            "command", '"{image}" is needed, "{port}" if listen = "host", and no others are known'
        )


def _clock(table: TomlTable) -> ClockSpec:
    kind = table.choice("kind", ("measured", "declared", "simulated"))
    spec = ClockSpec(kind, table.positive("time_scale", 1.0))
    table.end()
    return spec
