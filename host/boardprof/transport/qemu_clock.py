# SPDX-License-Identifier: Apache-2.0
"""The clock of a QEMU that counts instructions, asked of QEMU itself while the board runs on.

Its machine protocol tells how many instructions were executed; ``-icount shift=N`` says that each
takes 2^N ns of the board's time. What the board slept is not in the count.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Sequence
from pathlib import Path

__all__ = ["QemuClock"]

_SHIFT = re.compile(r"(?:shift=)?(\d{1,2})(?:,.*)?")
_ANSWER_S = 1.0
_READ_SIZE = 4096
_BEGIN = b'{"execute": "qmp_capabilities"}\n'
_ASK = b'{"execute": "query-replay", "id": 1}\n'


class QemuClock:
    """Our end of a QEMU's machine protocol; the other one is a descriptor that it inherits.

    Attributes:
        arguments: for QEMU's command line, behind the others.
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
        counting = _SHIFT.fullmatch(command[command.index("-icount") + 1])
        return None if counting is None else cls(int(counting[1]))

    def started(self) -> None:
        """Take note that QEMU has the descriptor, or never will."""
        self._theirs.close()

    def now_s(self) -> float | None:
        """Return the seconds of the board's time that its instructions took; None: nobody knows.

        Waits a second at most. A QEMU that has not answered by then has had no processor: as long
        as its answer is due, what it told last is returned at once, and it is not asked again.
        """
        try:
            self._ours.sendall(self._due)
            self._due = b""
            self._now_s = self._count() * self._tick_s
        except (BlockingIOError, TimeoutError):
            self._ours.settimeout(0.0)
            return self._now_s
        except (OSError, ValueError, TypeError, LookupError):
            self.close()
            return None
        self._ours.settimeout(_ANSWER_S)
        self._due = _ASK
        return self._now_s

    def _count(self) -> int:
        """Return the number in the answer, behind what else QEMU has to tell."""
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
            if isinstance(told, dict) and told.get("id") == 1:
                return int(told["return"]["icount"])

    def close(self) -> None:
        """Ask no more. May be called twice."""
        self._theirs.close()
        self._ours.close()
