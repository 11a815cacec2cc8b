# SPDX-License-Identifier: Apache-2.0
"""The real one of a board that is emulated elsewise: ``[port]`` of board.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from boardprof.boards.launch import DEFAULT_BAUD, read_baud
from boardprof.toml_table import TomlTable

__all__ = ["PortSpec", "read_port"]


@dataclass(frozen=True)
class PortSpec:
    """What holds of the board at a port, of which the host can start an emulator: ``[port]``.

    Attributes:
        clock: where its clock frequency comes from: "measured" or "declared".
        baud: bits per second of a serial line.
        unsupported: counter name -> why the real board does not have it.
    """

    clock: str
    baud: int = DEFAULT_BAUD
    unsupported: Mapping[str, str] = field(default_factory=dict, hash=False)


def read_port(table: TomlTable, kind: str) -> PortSpec:
    """Read ``[port]``.

    Args:
        table: it.
        kind: the board's ``launch.kind``.

    Raises:
        UsageError: an unknown key, a missing one or a wrong value, or the board is never started.
    """
    spec = PortSpec(
        clock=table.choice("clock", ("measured", "declared")),
        baud=read_baud(table),
        unsupported=table.table("unsupported", required=False).mapping(str),
    )
    if kind != "process":
        raise table.error(
            "clock", f'[port] is for boards of launch.kind = "process", not of "{kind}"'
        )
    table.end()
    return spec
