# SPDX-License-Identifier: Apache-2.0
"""Which counts an emulator's command line makes worthless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.boards.clock import ClockSpec

if TYPE_CHECKING:
    from boardprof.boards.board_file import BoardSpec

__all__ = ["emulator_name", "played_by", "without_meaning"]

_QEMU = "qemu-system-"
_EMULATORS = re.compile(r"qemu-[\w-]+|renode(-\w+)?|spike|FVP_[\w-]+", re.IGNORECASE)
_ICOUNT = re.compile(r"--?icount")
_FIXED = re.compile(r"(?:\d+|(?:.*,)?shift=\d+)(?:,.*)?")
_COUNTED = ("instructions", "cycles", "ticks")
_TIME_SCALE = 30.0
"""Of an emulator of which nothing else is known."""


def emulator_name(command: Sequence[str]) -> str | None:
    """Return the emulator that a command line is of; None: of none that models no pipeline."""
    words = [Path(word).name.removesuffix(".exe") for word in command]
    if words[:1] == ["mono"]:  # as Renode is run
        words = words[1:]
    return words[0] if words and _EMULATORS.fullmatch(words[0]) else None


def played_by(spec: BoardSpec, commands: Iterable[Sequence[str]]) -> BoardSpec:
    """Return what a board is behind whose line an emulator is found; else the board itself.

    Args:
        spec: the board as it would be on a desk.
        commands: the command lines of the programs at the other end of its line.
    """
    found = next(((name, each) for each in commands if (name := emulator_name(each))), None)
    if found is None or spec.clock.is_emulated:
        return spec
    emulator, command = found
    cycles = {"cycles": f"{emulator} has no cycle model"}
    return replace(
        spec,
        clock=ClockSpec("simulated", _TIME_SCALE, reason=f"{emulator} is behind its port"),
        unsupported={**spec.unsupported, **cycles, **without_meaning(command)},
    )


def without_meaning(command: Sequence[str]) -> dict[str, str]:
    """Return counter name -> why a board that is started so does not have it.

    QEMU counts instructions only while its virtual clock goes by them (``-icount shift=N``). Else
    every such counter reads the host's time (QEMU's documentation, "TCG Instruction Counting").

    Args:
        command: the emulator's; not QEMU's: nothing is known.
    """
    if not command or not Path(command[0]).name.startswith(_QEMU):
        return {}
    given = [
        value
        for option, value in zip(command, [*command[1:], ""], strict=True)
        if _ICOUNT.fullmatch(option)
    ]
    if given and _FIXED.fullmatch(given[-1]):
        return {}
    found = f"with -icount {given[-1]}" if given else "without -icount"
    why = f"{found}, QEMU's counters show the host's time; it needs -icount shift=N"
    return dict.fromkeys(_COUNTED, why)
