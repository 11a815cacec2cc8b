# SPDX-License-Identifier: Apache-2.0
"""How firmware is written to a board: ``[flash]`` of board.toml."""

from __future__ import annotations

from dataclasses import dataclass

from boardprof.boards.launch import check_placeholders
from boardprof.toml_table import TomlTable

_IMAGES = {"image", "bin", "hex"}


@dataclass(frozen=True)
class FlashSpec:
    """How firmware is written to a board: ``[flash]``.

    Attributes:
        command: writes the firmware; ``{image}`` is the path of the ELF file, ``{bin}`` and
            ``{hex}`` of its converted forms, ``{port}`` the board's port. Runs in the board's
            folder.
        package: the Debian package that has the command's program.
        reset: restarts the board if the command does not; with the same placeholders.
        settle_s: seconds from then until the board answers.
        timeout_s: timeout of each command, seconds.
    """

    command: tuple[str, ...]
    package: str | None = None
    reset: tuple[str, ...] = ()
    settle_s: float = 0.5
    timeout_s: float = 120.0


def read_flash(table: TomlTable, kind: str, *, has_port: bool) -> FlashSpec:
    """Read ``[flash]``.

    Args:
        table: the table.
        kind: the board's ``launch.kind``.
        has_port: whether there is also a real board: ``[port]``.

    Raises:
        UsageError: as `TomlTable`, or the host only ever starts the board.
    """
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
