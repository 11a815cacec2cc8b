# SPDX-License-Identifier: Apache-2.0
"""Which counts an emulator's command line makes worthless."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["without_meaning"]

_QEMU = "qemu-system-"
_ICOUNT = re.compile(r"--?icount")
_FIXED = re.compile(r"(?:\d+|(?:.*,)?shift=\d+)(?:,.*)?")
_COUNTED = ("instructions", "cycles")


def without_meaning(command: Sequence[str]) -> dict[str, str]:
    """Return counter name -> why a board that is started so does not have it.

    QEMU counts instructions only while its virtual clock goes by them (``-icount shift=N``). Else
    every such counter reads the host's time (QEMU's documentation, "TCG Instruction Counting").

    Args:
        command: ``launch.command`` of board.toml; not QEMU's: nothing is known.
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
    why = f"{found}, QEMU's counters show the host's time; launch.command needs -icount shift=N"
    return dict.fromkeys(_COUNTED, why)
