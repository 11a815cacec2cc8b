# SPDX-License-Identifier: Apache-2.0
"""Where a board's clock comes from (``[clock]``), and which counts an emulator cannot give."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.toml_table import TomlTable

if TYPE_CHECKING:
    from boardprof.boards.board_file import BoardSpec

_QEMU = "qemu-system-"
_QEMU_RISCV = "qemu-system-riscv"
_EMULATORS = r"(?i)qemu-[\w-]+|renode(-\w+)?|spike|FVP_[\w-]+"
_ICOUNT = r"--?icount"
_FIXED = r"(?:(?:.*,)?shift=)?(\d+)(?:,.*)?"
_COUNTED = ("instructions", "cycles", "ticks")
_TIME_SCALE = 30.0
"""Time scale for an emulator that is found at a port."""


@dataclass(frozen=True)
class ClockSpec:
    """Where the board's clock frequency comes from: ``[clock]``.

    Attributes:
        kind: "measured", "declared" or "simulated".
        time_scale: wall seconds that a second of the board's clock may take; the host's timeouts
            are longer by this factor.
        emulated: a cycle-accurate simulator plays the board: its clock is as good as the real one.
        reason: why ``kind`` was chosen, if neither board.toml nor the user did.
    """

    kind: str
    time_scale: float = 1.0
    emulated: bool = False
    reason: str = ""
    given: bool = False

    @property
    def is_emulated(self) -> bool:
        """Whether the board is emulated by a program."""
        return self.emulated or self.kind == "simulated"


def read_clock(table: TomlTable) -> ClockSpec:
    """Read ``[clock]``."""
    spec = ClockSpec(
        kind=table.choice("kind", ("measured", "declared", "simulated")),
        time_scale=table.positive("time_scale", 1.0),
        emulated=table.take("emulated", bool, False),
    )
    if spec.emulated and spec.kind != "declared":
        raise table.error(
            "emulated", f'it is for simulators with kind = "declared", not "{spec.kind}"'
        )
    table.end()
    return spec


def emulator_name(command: Sequence[str]) -> str | None:
    """Return the emulator that a command line starts; None if it is not one without a pipeline."""
    words = [Path(word).name.removesuffix(".exe") for word in command]
    if words[:1] == ["mono"]:  # runs Renode
        words = words[1:]
    return words[0] if words and re.fullmatch(_EMULATORS, words[0]) else None


def played_by(spec: BoardSpec, commands: Iterable[Sequence[str]]) -> BoardSpec:
    """Return the board as emulated, if an emulator is at the other end of its line.

    An emulated board may run in an emulator with other options than its own.

    Args:
        spec: the board.
        commands: the command lines of the programs at the other end of its line.
    """
    found = next(((name, each) for each in commands if (name := emulator_name(each))), None)
    if found is None:
        return spec
    emulator, command = found
    clock, cycles = spec.clock, {"cycles": f"{emulator} has no cycle model"}
    if clock.kind != "simulated":
        clock = ClockSpec("simulated", _TIME_SCALE, reason=f"{emulator} runs at its port")
    unsupported = {**cycles, **spec.unsupported, **without_meaning(command)}
    return replace(spec, clock=clock, unsupported=unsupported)


def without_meaning(command: Sequence[str]) -> dict[str, str]:
    """Return counter name -> why a board with this command line does not have it.

    QEMU counts instructions only if they drive its virtual clock (``-icount shift=N``). Otherwise
    such counters show the host's time (QEMU's documentation, "TCG Instruction Counting").

    Args:
        command: the emulator's; only QEMU's are understood.
    """
    if not command or not Path(command[0]).name.startswith(_QEMU):
        return {}
    given = [
        value
        for option, value in zip(command, [*command[1:], ""], strict=True)
        if re.fullmatch(_ICOUNT, option)
    ]
    fixed = re.fullmatch(_FIXED, given[-1]) if given else None
    if fixed is not None:
        shift = int(fixed[1]) if Path(command[0]).name.startswith(_QEMU_RISCV) else 0
        why = f"with -icount {given[-1]}, QEMU counts {1 << shift:,} for each; it needs shift=0"
        return {"instructions": why} if shift else {}
    found = f"with -icount {given[-1]}" if given else "without -icount"
    why = f"{found}, QEMU's counters show the host's time; it needs -icount shift=N"
    return dict.fromkeys(_COUNTED, why)
