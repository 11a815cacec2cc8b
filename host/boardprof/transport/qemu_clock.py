# SPDX-License-Identifier: Apache-2.0
"""The clock of a QEMU that counts instructions, asked of QEMU itself while the board runs on.

Its machine protocol tells how many instructions were executed; ``-icount shift=N`` says that each
takes 2^N ns of the board's time. What the board slept is not in the count. It also tells at which
instruction the board is.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SHIFT = r"(?:shift=)?(\d{1,2})(?:,.*)?"
_ANSWER_S = 1.0
_READ_SIZE = 4096
_BEGIN = b'{"execute": "qmp_capabilities"}\n'
_ASK = b'{"execute": "query-replay", "id": 1}\n'
_COUNT, _REGISTERS = 1, 2
"""Which answer is to which question."""

_ASK_REGISTERS = (
    b'{"execute": "stop"}\n'
    b'{"execute": "human-monitor-command", "arguments": {"command-line": "info registers"},'
    b' "id": 2}\n'
    b'{"execute": "cont"}\n'
)
"""While the board stands still: otherwise QEMU tells where it was some time ago."""

_PC = r"\b(?:pc +|PC=|R15=)([0-9a-f]{8,16})\b"
"""As RISC-V, AArch64 and Arm print it."""


class QemuClock:
    """Our end of a QEMU's machine protocol; the other one is a descriptor that it inherits.

    Attributes:
        arguments: for QEMU's command line, after the others.
        inherited: the descriptor; `started` closes ours of it.
    """

    def __init__(self, shift: int) -> None:
        """Prepare a QEMU whose instructions take 2^shift ns each."""
        self._tick_s = (1 << shift) * 1e-9
        self._ours, self._theirs = socket.socketpair()
        self._ours.settimeout(_ANSWER_S)
        self.inherited = self._theirs.fileno()
        self.arguments = (
            *("-chardev", f"socket,id=boardprof-clock,fd={self.inherited}"),
            *("-mon", "chardev=boardprof-clock,mode=control"),
        )
        self._due = _BEGIN + _ASK
        self._text = b""
        self._now_s: float | None = None

    @classmethod
    def of(cls, command: Sequence[str]) -> QemuClock | None:
        """Return the clock of the QEMU that a command starts; None if it has none to ask."""
        if not Path(command[0]).name.startswith("qemu-system-") or "-icount" not in command[:-1]:
            return None
        counting = re.fullmatch(_SHIFT, command[command.index("-icount") + 1])
        return None if counting is None else cls(int(counting[1]))

    def started(self) -> None:
        """Take note that QEMU has the descriptor, or never will."""
        self._theirs.close()

    def now_s(self) -> float | None:
        """Return the seconds of board time that its instructions took. None if unknown.

        Waits a second at most. A QEMU that has not answered by then has had no processor: as long
        as its answer is due, what it told last is returned at once, and it is not asked again.
        """
        try:
            self._ours.sendall(self._due)
            self._due = b""
            self._take_count(self._answer(_COUNT))
        except (BlockingIOError, TimeoutError):
            self._ours.settimeout(0.0)
            return self._now_s
        except (OSError, ValueError, TypeError, LookupError):
            self.close()
            return None
        self._ours.settimeout(_ANSWER_S)
        return self._now_s

    def pc(self) -> int | None:
        """Return the address of the board's current instruction. None if unknown.

        The board goes on afterwards. Waits two seconds at most.
        """
        if self.now_s() is None:
            return None
        try:
            self._ours.settimeout(_ANSWER_S)
            self._ours.sendall(_ASK_REGISTERS)
            found = re.search(_PC, self._answer(_REGISTERS))
        except (OSError, ValueError, TypeError, LookupError):
            return None
        return None if found is None else int(found[1], 16)

    def _take_count(self, told: Any) -> None:
        self._now_s = int(told["icount"]) * self._tick_s
        self._due = _ASK

    def _answer(self, which: int) -> Any:
        """Return QEMU's answer to a command; skip other messages that come first."""
        while True:
            line, end, rest = self._text.partition(b"\n")
            if not end:
                data = self._ours.recv(_READ_SIZE)
                if not data:
                    raise ConnectionError("QEMU has closed its machine protocol")
                self._text += data
                continue
            self._text = rest
            told = json.loads(line)
            if isinstance(told, dict) and told.get("id") == which:
                return told["return"]
            if isinstance(told, dict) and told.get("id") == _COUNT:  # late
                self._take_count(told["return"])

    def close(self) -> None:
        """Ask no more. May be called twice."""
        self._theirs.close()
        self._ours.close()
