# SPDX-License-Identifier: Apache-2.0
"""How the host gets at a running board: ``[launch]`` of board.toml."""

from __future__ import annotations

from dataclasses import dataclass

from boardprof.boards.placeholders import placeholders
from boardprof.boards.simulator import SimulatorSpec, read_simulator
from boardprof.toml_table import TomlTable

__all__ = ["DEFAULT_BAUD", "LaunchSpec", "read_baud", "read_launch"]

DEFAULT_BAUD = 115200


@dataclass(frozen=True)
class LaunchSpec:
    """How the host gets at a running board: ``[launch]``.

    Attributes:
        kind: "library" (loaded into the host's process), "process" (a child
            process: a program or an emulator) or "serial" (a line to a board
            that runs already).
        command: the child's command line; ``{image}`` is the firmware's path,
            ``{port}`` a TCP port, ``{simulator}`` the program that was built
            for it. Empty unless the kind is "process".
        package: the Debian package that has the command's program.
        listen: who listens: "host" (the child connects to ``{port}``) or
            "board" (the child prints ``listening on HOST:PORT``); None unless
            the kind is "process".
        baud: bits per second; None unless the kind is "serial".
        simulator: how the program that plays the board is built first; None
            where it is installed.
    """

    kind: str
    command: tuple[str, ...] = ()
    package: str | None = None
    listen: str | None = None
    baud: int | None = None
    simulator: SimulatorSpec | None = None


def read_launch(table: TomlTable) -> LaunchSpec:
    """Read ``[launch]``.

    Raises:
        UsageError: an unknown key, a missing one or a wrong value.
    """
    kind = table.choice("kind", ("library", "process", "serial"))
    if kind == "process":
        spec = LaunchSpec(
            kind,
            command=table.texts("command", None),
            package=table.take("package", str, None),
            listen=table.choice("listen", ("host", "board")),
            simulator=read_simulator(table.table("simulator")) if table.has("simulator") else None,
        )
        _check_command(table, spec)
    elif kind == "serial":
        spec = LaunchSpec(kind, baud=read_baud(table))
    else:
        spec = LaunchSpec(kind)
    table.end(f' when kind = "{kind}"')
    return spec


def read_baud(table: TomlTable) -> int:
    """Return the bits per second of a line."""
    baud: int = table.take("baud", int, DEFAULT_BAUD)
    if baud <= 0:
        raise table.error("baud", f"bits a second, above 0, are needed, not {baud}")
    return baud


def _check_command(table: TomlTable, spec: LaunchSpec) -> None:
    """See that every part of the command can be filled in, and that nothing is left out."""
    named = placeholders(table, "command", spec.command)
    built = {"simulator"} if spec.simulator is not None else set()
    needed = {"image", "port"} if spec.listen == "host" else {"image"}
    if not needed | built <= named <= {"image", "port"} | built:
        simulator = '"{simulator}" with [launch.simulator], '
        raise table.error(
            "command",
            f'"{{image}}" is needed, "{{port}}" if listen = "host", {simulator}'
            "and no others are known",
        )
