# SPDX-License-Identifier: Apache-2.0
"""Where a board's clock frequency comes from: ``[clock]`` of board.toml."""

from __future__ import annotations

from dataclasses import dataclass

from boardprof.toml_table import TomlTable

__all__ = ["ClockSpec", "read_clock"]


@dataclass(frozen=True)
class ClockSpec:
    """Where the board's clock frequency comes from: ``[clock]``.

    Attributes:
        kind: "measured", "declared" or "simulated".
        time_scale: wall seconds that a second of the board's clock may take; the host is patient
            by so much.
        emulated: a simulator plays the board, cycle by cycle: its clock is as good as the real one.
        reason: why it is taken for that, where neither board.toml nor the user says so.
    """

    kind: str
    time_scale: float = 1.0
    emulated: bool = False
    reason: str = ""

    @property
    def is_emulated(self) -> bool:
        """Whether no board is there at all."""
        return self.emulated or self.kind == "simulated"


def read_clock(table: TomlTable) -> ClockSpec:
    """Read ``[clock]``.

    Raises:
        UsageError: an unknown key, a missing one or a wrong value.
    """
    spec = ClockSpec(
        kind=table.choice("kind", ("measured", "declared", "simulated")),
        time_scale=table.positive("time_scale", 1.0),
        emulated=table.take("emulated", bool, False),
    )
    if spec.emulated and spec.kind != "declared":
        raise table.error(
            "emulated", f'it tells simulators of kind = "declared" apart, not of "{spec.kind}"'
        )
    table.end()
    return spec
