# SPDX-License-Identifier: Apache-2.0
"""How the host reaches a board: ``[launch]`` and ``[port]``; how it is flashed: ``[flash]``."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from boardprof.base.files import runtime_dir
from boardprof.base.toml_table import TomlTable

_RUNTIME = "runtime"
DEFAULT_BAUD = 115200


def placeholders(table: TomlTable, key: str, command: Sequence[str]) -> set[str]:
    """Return the names in braces: placeholders for values known only when the command runs."""
    try:
        pieces = [piece for text in command for piece in string.Formatter().parse(text)]
    except ValueError as error:
        raise table.error(key, f"{error}; write a literal brace twice") from error
    # A name with a format or a conversion is not a known name.
    return {
        f"{name}:{form}" if form else f"{name}!{conversion}" if conversion else name
        for _, name, form, conversion in pieces
        if name is not None
    }


def check_placeholders(
    table: TomlTable, key: str, command: Sequence[str], known: set[str]
) -> set[str]:
    """Return the names in braces."""
    named = placeholders(table, key, command)
    if unknown := named - known:
        braces = ", ".join(f"{{{name}}}" for name in sorted(known))
        raise table.error(key, f'"{{{min(unknown)}}}" is not known; {braces} are')
    return named


def filled(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return a command with values in place of the names; it was checked by the readers."""
    return [part.format_map(values) for part in command]


@dataclass(frozen=True)
class SimulatorSpec:
    """How a program that simulates a board is built on the user's machine: ``[launch.simulator]``.

    In ``command``, ``{output}`` is the program to be written, ``{scratch}`` an empty folder,
    ``{runtime}`` the agent's folder, ``{python_package}`` the folder of that package.
    """

    sources: tuple[str, ...]  # every input, relative to the board's folder; may have ``*``
    command: tuple[str, ...]  # builds it in the board's folder
    program: str  # the build's tool; another version causes a new build
    package: str
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)  # header -> Debian package
    python_package: str | None = None


def _read_simulator(table: TomlTable) -> SimulatorSpec:
    """Read ``[launch.simulator]``; each source must exist."""
    spec = SimulatorSpec(
        sources=table.texts("sources", None),
        command=table.texts("command", None),
        program=table.take("program", str),
        package=table.take("package", str),
        headers=table.table("headers", required=False).mapping(str),
        python_package=table.take("python_package", str, None),
    )
    table.end()
    check_placeholders(table, "sources", spec.sources, {_RUNTIME})
    known = {"output", "scratch", _RUNTIME} | ({"python_package"} if spec.python_package else set())
    if "output" not in check_placeholders(table, "command", spec.command, known):
        raise table.error("command", 'must contain "{output}", the path of the program')
    for source in spec.sources:
        if not _files(table.file.parent, source):
            raise table.error("sources", f"there is no file {source!r} in the board's folder")
    return spec


def simulator_sources(folder: Path, spec: SimulatorSpec) -> dict[str, Path]:
    """Return the sources of a simulator, by names without the machine's paths."""
    return {name: path for source in spec.sources for name, path in _files(folder, source).items()}


def _files(folder: Path, source: str) -> dict[str, Path]:
    is_agents = f"{{{_RUNTIME}}}" in source
    root = runtime_dir() if is_agents else folder
    (pattern,) = filled([source], {_RUNTIME: "."})
    found = sorted(path for path in root.glob(pattern) if path.is_file())
    return {f"{_RUNTIME * is_agents}/{path.relative_to(root)}": path for path in found}


@dataclass(frozen=True)
class LaunchSpec:
    """How the host reaches a running board: ``[launch]``.

    ``kind`` is "library" (loaded into the host's process), "process" (a child process: a program or
    an emulator) or "serial" (a line to a board that runs already). In ``command``, ``{image}`` is
    the firmware's path, ``{port}`` a TCP port, ``{simulator}`` the program that was built for it;
    in ``record``, ``{plan}`` is the file that says what to record, ``{recorder}`` boardprof's
    plugin for QEMU. With ``listen`` "host" the child connects to ``{port}``; with "board" it prints
    ``listening on HOST:PORT``.
    """

    kind: str
    command: tuple[str, ...] = ()  # empty unless the kind is "process"
    package: str | None = None
    listen: str | None = None
    baud: int | None = None
    simulator: SimulatorSpec | None = None
    record: tuple[str, ...] = ()  # options that record a call; empty if it cannot
    recorder: str | None = None  # "callgrind" for a child that is not an emulator


def read_launch(table: TomlTable) -> LaunchSpec:
    """Read ``[launch]``."""
    kind = table.choice("kind", ("library", "process", "serial"))
    if kind == "process":
        spec = LaunchSpec(
            kind,
            command=table.texts("command", None),
            package=table.take("package", str, None),
            listen=table.choice("listen", ("host", "board")),
            simulator=_read_simulator(table.table("simulator")) if table.has("simulator") else None,
            record=table.texts("record", ()),
            recorder=table.choice("recorder", ("callgrind",)) if table.has("recorder") else None,
        )
        check_placeholders(table, "record", spec.record, {"plan", "recorder"})
        _check_command(table, spec)
    elif kind == "serial":
        spec = LaunchSpec(kind, baud=_read_baud(table))
    else:
        spec = LaunchSpec(kind)
    table.end(f' when kind = "{kind}"')
    return spec


def _read_baud(table: TomlTable) -> int:
    """Read the key ``baud``, bits per second."""
    baud: int = table.take("baud", int, DEFAULT_BAUD)
    if baud <= 0:
        raise table.error("baud", f"must be a baud rate above 0, not {baud}")
    return baud


def _check_command(table: TomlTable, spec: LaunchSpec) -> None:
    """Check that every name in the command is known, and that none is missing."""
    named = placeholders(table, "command", spec.command)
    built = {"simulator"} if spec.simulator is not None else set()
    needed = {"image", "port"} if spec.listen == "host" else {"image"}
    if not needed | built <= named <= {"image", "port"} | built:
        simulator = '"{simulator}" with [launch.simulator], '
        raise table.error(
            "command",
            f'must contain "{{image}}", and "{{port}}" if listen = "host"; {simulator}'
            "no other placeholder is known",
        )


@dataclass(frozen=True)
class PortSpec:
    """The real board, if the host otherwise starts an emulator of it: ``[port]``."""

    clock: str
    baud: int = DEFAULT_BAUD
    unsupported: Mapping[str, str] = field(default_factory=dict, hash=False)  # counter -> why


def read_port(table: TomlTable, kind: str) -> PortSpec:
    """Read ``[port]``."""
    spec = PortSpec(
        clock=table.choice("clock", ("measured", "declared")),
        baud=_read_baud(table),
        unsupported=table.table("unsupported", required=False).mapping(str),
    )
    if kind != "process":
        raise table.error(
            "clock", f'[port] is for boards with launch.kind = "process", not "{kind}"'
        )
    table.end()
    return spec


_IMAGES = {"image", "bin", "hex"}


@dataclass(frozen=True)
class FlashSpec:
    """How firmware is written to a board: ``[flash]``.

    Commands run in the board's folder. ``{image}`` is the path of the ELF file, ``{bin}`` and
    ``{hex}`` of its converted forms, ``{port}`` the board's port.
    """

    command: tuple[str, ...]
    package: str | None = None
    reset: tuple[str, ...] = ()  # restarts the board if the command does not
    settle_s: float = 0.5  # from then until the board answers
    timeout_s: float = 120.0


def read_flash(table: TomlTable, kind: str, *, has_port: bool) -> FlashSpec:
    """Read ``[flash]``."""
    spec = FlashSpec(
        command=table.texts("command", None),
        package=table.take("package", str, None),
        reset=table.texts("reset"),
        settle_s=table.positive("settle_s", FlashSpec.settle_s),
        timeout_s=table.positive("timeout_s", FlashSpec.timeout_s),
    )
    table.end()
    if kind != "serial" and not has_port:
        raise table.error(
            "command",
            f'a board with launch.kind = "{kind}" can only be flashed if it has [port]',
        )
    known = {*_IMAGES, "port"}
    named = check_placeholders(table, "command", spec.command, known)
    check_placeholders(table, "reset", spec.reset, known)
    if not named & _IMAGES:
        raise table.error("command", 'must contain "{image}", "{bin}" or "{hex}"')
    return spec
