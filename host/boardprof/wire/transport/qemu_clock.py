# SPDX-License-Identifier: Apache-2.0
"""The time and the place of a QEMU that is started here, through its machine protocol."""

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

_PC = r"\b(?:pc +|PC=|R15=)([0-9a-f]{8,16})\b"  # as RISC-V, AArch64 and Arm print it


class QemuClock:
    """Our end of a QEMU's machine protocol; the other one is a descriptor that it inherits."""

    def __init__(self, shift: int) -> None:
        """Prepare a QEMU whose instructions take 2^shift ns each."""
        self._tick_s = (1 << shift) * 1e-9
        self._ours, self._theirs = socket.socketpair()
        self._ours.settimeout(_ANSWER_S)
        self.inherited = self._theirs.fileno()  # `started` closes ours of it
        self.arguments = (  # for QEMU's command line
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

        Waits a second at most. A QEMU that has not answered by then had no processor: while its
        answer is due, the last one is returned at once.
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
        """Return the board's instruction address within two seconds, or None; the board goes on."""
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
