# SPDX-License-Identifier: Apache-2.0
"""How firmware gets onto a board on a wire: ``[flash]`` of board.toml."""

from __future__ import annotations

from dataclasses import dataclass

from boardprof.boards.placeholders import check_placeholders
from boardprof.toml_table import TomlTable

__all__ = ["FlashSpec", "read_flash"]

_IMAGES = {"image", "bin", "hex"}


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


def read_flash(table: TomlTable, kind: str, *, has_port: bool) -> FlashSpec:
    """Read ``[flash]``.

    Args:
        table: it.
        kind: the board's ``launch.kind``.
        has_port: the board is on a desk as well: it has ``[port]``.

    Raises:
        UsageError: an unknown key, a missing one or a wrong value, or the board is only started.
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
            f'a board of launch.kind = "{kind}" is not flashed, but for one that has [port]',
        )
    known = {*_IMAGES, "port"}
    named = check_placeholders(table, "command", spec.command, known)
    check_placeholders(table, "reset", spec.reset, known)
    if not named & _IMAGES:
        raise table.error("command", '"{image}", "{bin}" or "{hex}" is needed')
    return spec
