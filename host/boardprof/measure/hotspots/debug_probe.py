# SPDX-License-Identifier: Apache-2.0
"""Read the program counter of a running Arm Cortex-M core with a debug probe, through OpenOCD.

OpenOCD drives ST-Link, J-Link and CMSIS-DAP. Its Tcl server takes a script that ends with the byte
0x1a, and sends the result back in the same form (OpenOCD User's Guide, "Tcl RPC server").

A read of DWT_PCSR returns the address of an instruction that the core has just executed. The core
goes on. 0xFFFFFFFF means that there is none: the core is halted, or nobody may debug what it
executes. (Arm v7-M ARM, DDI 0403, C1.8; Armv8-M ARM, DDI 0553, DWT_PCSR. Optional in Armv6-M, DDI
0419C, C1.7.2: Cortex-M0 and M0+ have it if they have a watchpoint unit, DDI 0432C, 6.1.3 and DDI
0484C, 7.1.3.)
"""

from __future__ import annotations

import contextlib
import random
import socket
import time

from boardprof.base.errors import BoardError, UsageError

NO_PC = 0xFFFFFFFF
"""What DWT_PCSR reads as when there is no program counter."""

_DWT_PCSR = 0xE000101C
_DEMCR, _TRCENA = 0xE000EDFC, 1 << 24
"""Without TRCENA the DWT is off (Arm v7-M ARM, C1.6.5)."""

_END = b"\x1a"
_MOST_BYTES = 1 << 16
_CONNECT_S = 5.0
_ANSWER_S = 5.0

_REQUEST_S = 0.02
"""Wall time of one request for samples, seconds; OpenOCD serves nobody else meanwhile."""

_LEAST_MEAN_S = 1e-3
"""Shortest mean of the waits between reads, seconds."""

_READ = """apply {{waits} {
    set found {}
    set spent 0
    foreach wait $waits {
        set until [expr {[clock microseconds] + $wait}]
        while {[set now [clock microseconds]] < $until} {}
        lappend found [read_memory %#x 32 1]
        incr spent [expr {[clock microseconds] - $now}]
    }
    return "$spent $found"
}} {%s}"""


class DebugProbe:
    """A connection to OpenOCD's Tcl server; `close` it.

    Attributes:
        address: of the server, ``HOST:PORT``.
    """

    def __init__(self, address: str, seed: int = 1) -> None:
        """Connect.

        Args:
            address: of the server, ``HOST:PORT``.
            seed: of the random times between two reads.

        Raises:
            UsageError: the address has another form.
            BoardError: nothing listens there.
        """
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 0xFFFF:
            raise UsageError(
                f"{address!r} is not the address of a debug probe.",
                hint="HOST:PORT of OpenOCD's Tcl server, such as localhost:6666",
            )
        self.address = address
        self._random = random.Random(seed)
        self._read_s = 0.0
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise BoardError(
                f"No OpenOCD at {address}: {reason}.",
                hint="start it: openocd -f interface/stlink.cfg -f target/YOURS.cfg",
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self, script: str, extra_s: float = 0.0) -> str:
        """Run a Tcl script in OpenOCD and return its result.

        Args:
            script: the commands; its braces match.
            extra_s: time that it takes on purpose, seconds.

        Raises:
            BoardError: the script failed, or there was no answer in time.
        """
        request = f"list [catch {{{script}}} boardprof_result] $boardprof_result"
        deadline_s = time.monotonic() + _ANSWER_S + extra_s
        answer = b""
        try:
            self._socket.settimeout(_ANSWER_S)
            self._socket.sendall(request.encode() + _END)
            while not answer.endswith(_END):
                self._socket.settimeout(max(deadline_s - time.monotonic(), 1e-3))
                part = self._socket.recv(_MOST_BYTES)
                answer += part
                if not part or len(answer) > _MOST_BYTES:
                    raise BoardError(
                        f"{self.address} closed the connection, or is not OpenOCD's Tcl server.",
                        hint="look at what OpenOCD prints; its Tcl port is 6666 unless set",
                    )
        except OSError as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else error.strerror
            raise BoardError(
                f"OpenOCD at {self.address} does not answer: {reason}.",
                hint="look at what OpenOCD prints; the port is that of its Tcl server, 6666 "
                "unless set, not of telnet or gdb",
            ) from error
        text = answer[:-1].decode(errors="replace")
        failed, _, result = text.partition(" ")
        if result.startswith("{") and result.endswith("}"):
            result = result[1:-1]
        if failed != "0":
            raise BoardError(
                f"OpenOCD at {self.address} reports: {result.strip() or text[:80]}.",
                hint="OpenOCD 0.12 or later, `init` in its configuration, and the board's power",
            )
        return result

    def words(self, address: int, count: int) -> list[int]:
        """Read words of 32 bits from the core's memory.

        Raises:
            BoardError: they cannot be read.
        """
        return self._numbers(self.run(f"read_memory {address:#x} 32 {count}"), count)

    def enable(self) -> None:
        """Switch the core's DWT on; it stays on.

        Raises:
            BoardError: it cannot be reached.
        """
        self.run(
            f"write_memory {_DEMCR:#x} 32 [expr {{[read_memory {_DEMCR:#x} 32 1] | {_TRCENA:#x}}}]"
        )

    def program_counters(self) -> list[int]:
        """Read DWT_PCSR for about 0.02 s, at random times.

        Before each read is a random wait, exponentially distributed: on average twice as long as a
        read, at least 1 ms. So no loop of the core keeps pace with the reads (docs/decisions.md).

        Raises:
            BoardError: it cannot be read.
        """
        mean_s = max(2 * self._read_s, _LEAST_MEAN_S)
        count = max(1, int(_REQUEST_S / (mean_s + self._read_s)))
        waits = [round(self._random.expovariate(1e-6 / mean_s)) for _ in range(count)]
        script = _READ % (_DWT_PCSR, " ".join(map(str, waits)))
        spent_us, *found = self._numbers(self.run(script, sum(waits) * 1e-6), 1 + count)
        self._read_s = max(spent_us, 0) * 1e-6 / count
        return [word if word == NO_PC else word & ~1 for word in found]

    def _numbers(self, text: str, count: int) -> list[int]:
        with contextlib.suppress(ValueError):
            found = [int(word, 0) for word in text.split()]
            if len(found) == count:
                return found
        raise BoardError(
            f"OpenOCD at {self.address} answered {text[:60]!r}, not {count} numbers.",
            hint="OpenOCD 0.12 or later",
        )

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
