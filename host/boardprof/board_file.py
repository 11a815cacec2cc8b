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

from boardprof.errors import UsageError
from boardprof.guard import GuardSpec, read_guard
from boardprof.resources import runtime_dir
from boardprof.toml_table import TomlTable

__all__ = [
    "BOARD_FILE",
    "BoardSpec",
    "BuildSpec",
    "ClockSpec",
    "LaunchSpec",
    "agent_options",
    "load_board",
]

BOARD_FILE = "board.toml"

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
    spec = BoardSpec(
        name=folder.name,
        folder=folder,
        summary=summary,
        family=family,
        default=default,
        build=build,
        launch=_launch(top.table("launch")),
        clock=_clock(top.table("clock")),
        guard=read_guard(
            top.table("guard") if top.has("guard") else None, build.config, build_table
        ),
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
    )
    table.end()
    for key, paths in (("sources", spec.sources), ("link_script", (spec.link_script,))):
        for path in paths:
            if path is not None and not (table.file.parent / path).is_file():
                raise table.error(key, f"there is no file {path!r} in the board's folder")
    return spec


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


def _check_command(table: TomlTable, spec: LaunchSpec) -> None:
    """See that every part of the command can be filled in, and that nothing is left out."""
    try:
        pieces = [piece for text in spec.command for piece in string.Formatter().parse(text)]
    except ValueError as error:
        raise table.error("command", f"{error}; write a plain brace twice") from error
    named = {name for _, name, _, _ in pieces if name is not None}
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
