# SPDX-License-Identifier: Apache-2.0
"""Diagnose a board that does not answer: an unknown peer, silence, or a call that does not end."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import compress, product

from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    DeviceTimeoutError,
    LinkError,
    Location,
    longer,
    option,
)
from boardprof.wire.link.replies import Locate, place_text
from boardprof.wire.link.requests import KEPT_BYTES
from boardprof.wire.transport.base import Emulator
from boardprof_protocol.codes import ErrorCode
from boardprof_protocol.frame import FrameDecoder

_LOOKS = 30
"""Samples of the pc; a printing function is in the agent's output nine times out of ten."""

_CLOCK_LOOK_S = 0.5
"""Seconds between two reads of the board's clock. Most calls end before the first."""

_TIMES = 3  # how often the clock must be over, since a loaded machine may bring data late
_LATER_S = 2.0
"""Some boards end a call with the first tick of a coarse timer after the limit, 0.7 s at most; and
what the agent does itself, around a call and between the rounds of a measurement, takes less."""

_NEVER = float("inf")


class Overdue:
    """Watches one wait for a board, beside the wall clock's deadline, which is a guess.

    A living board ends a call at its limit, and says so. However slow its emulator is, one whose
    own clock is well past that will never answer.
    """

    def __init__(
        self, limit_s: float | None, board_s: Callable[[], float | None], now_s: float
    ) -> None:
        """Begin to wait; the board ends a call ``limit_s`` after its start, by its clock."""
        self._limit_s = limit_s
        self._board_s = board_s
        self.renew(now_s)

    def renew(self, now_s: float) -> None:
        """Begin anew: the board has said something."""
        self.look_at_s = _NEVER if self._limit_s is None else now_s + _CLOCK_LOOK_S
        self.passed_s: float | None = None  # on the board's clock when last read
        self._begin_s: float | None = None
        self._overs = 0

    def is_certain(self, now_s: float) -> bool:
        """Tell whether the limit has passed, each of the last times that the clock was read."""
        if now_s < self.look_at_s or self._limit_s is None:
            return False
        board_s = self._board_s()
        if board_s is None:
            self.look_at_s = _NEVER
            return False
        self.look_at_s = now_s + _CLOCK_LOOK_S
        if self._begin_s is None:
            self._begin_s = board_s
        self.passed_s = board_s - self._begin_s
        is_over = self.passed_s > self._limit_s + _LATER_S
        self._overs = self._overs + 1 if is_over else 0
        return self._overs >= _TIMES


@dataclass(frozen=True)
class Hang:
    """Where a function that does not end is."""

    pc: int | None = None  # None if the emulator does not report it
    location: Location | None = None  # None in agent code that the function called

    @property
    def is_seen(self) -> bool:
        """Whether the place is known."""
        return self.pc is not None

    def error(
        self, name: str, limit_s: float | None, passed_s: float | None, wall_s: float | None
    ) -> DeviceTimeoutError:
        """Return the error that names the limit that has ended the call, in board or wall time."""
        place = place_text(name, self.pc or 0, self.location)
        if wall_s is None:
            assert limit_s is not None
            text = (
                f"{name} did not end within {limit_s:g} s of the board's clock "
                f"({option('--timeout')}). The board could not stop it, so the host ended the "
                "emulator"
            )
            text += f" when {name} was{place}" if place else ""
            hint = f"check whether {name} disables interrupts or overwrites the agent's data"
        else:
            limit = option("--wall-timeout")
            text = f"{name} did not end within {wall_s:g} s of wall time ({limit})"
            if limit_s is not None and passed_s is not None:
                text += (
                    f"; by then {passed_s:.2g} s of the {limit_s:g} s on the board's clock "
                    f"({option('--timeout')}) had passed"
                )
            text += f"; it hung{place}" if place else ""
            hint = f"if {name} is only slow, give {longer('--wall-timeout', wall_s)}"
        return DeviceTimeoutError(
            text,
            code=ErrorCode.TIMEOUT,
            limit_s=wall_s or limit_s or 0.0,
            pc=self.pc,
            location=self.location,
            hint=hint,
        )


def find_hang(
    emulator: Emulator, locate: Locate | None, go_on: Callable[[], object], *, prints: bool
) -> Hang | None:
    """Sample several times which instruction the board executes; return where it hangs.

    None if the board was only seen in its agent, which is lost, or outside of all that was linked.
    If the board still ``prints``, its agent's output is not lost.
    """
    for _ in range(_LOOKS):
        pc = emulator.pc()
        if pc is None:
            return Hang()
        location = None if locate is None else locate(pc)
        if location is not None and (not location.is_agents or location.is_between_calls):
            return Hang(pc, location)
        go_on()
    return Hang() if prints else None


def lost_board(
    port: str,
    name: str,
    limit_s: float | None,
    wall_s: float | None,
    console: str,
    *,
    called: str | None,
) -> BoardTimeoutError:
    """Return the error for a board that does not even end a call that lasts too long.

    ``called``: the last function that is not the agent's own; None if none was called yet.
    """
    limit = option("--wall-timeout")
    over = (
        f"{name} exceeded {limit_s:g} s of the board's clock"
        if wall_s is None
        else f"{name} exceeded {wall_s:g} s of wall time ({limit})"
    )
    hint = (
        f"give {longer('--wall-timeout', wall_s or limit_s or 1)} if this machine is busy; "
        "otherwise the emulator or the firmware hangs"
        if called is None
        else f"check whether {called} writes beyond its arrays, overwrites the agent's "
        "stack or data, or loops forever with interrupts disabled; then connect again"
    )
    return BoardTimeoutError(
        f"The board at {port} is lost: {over}, and the board neither answered nor stopped it.",
        console=console,
        hint=hint,
    )


DEFAULT_LIMIT_S = 10.0
"""Longest time that a guarded call may take, or a round of a measurement, on the board's clock."""

_LIMIT_INSTRUCTIONS = 156_250_000


def default_limit_s(instruction_ns: int) -> float:
    """Return that time where each instruction takes ``instruction_ns``; 0 if that is not known.

    On a clock that is fast beside the instructions, it is longer: QEMU runs as many of them then as
    on a board whose instruction takes 64 ns.
    """
    return max(DEFAULT_LIMIT_S, _LIMIT_INSTRUCTIONS * instruction_ns / 1e9)


_GREETINGS: tuple[tuple[bytes, str, str], ...] = (
    (rb"^SSH-\d", "an SSH server", "forward the agent's own port with ssh -L"),
    (rb"^HTTP/\d|^<!DOCTYPE html|^<html", "a web server", "give the agent's own port"),
    # RFC 854: IAC, then WILL, WONT, DO or DONT.
    (
        rb"^\xff[\xfb-\xfe]",
        "a Telnet server",
        "have the terminal server pass bytes unchanged (raw TCP)",
    ),
    (
        rb"MicroPython v|(^|\n)>>> ?$",
        "a MicroPython prompt",
        "flash the boardprof agent, or give the port that it uses",
    ),
    (
        rb"^[+-]*\$[^#$]*#[0-9a-fA-F]{2}",
        "a GDB server",
        "give the board's UART; the debug probe has a port of its own",
    ),
    (
        rb"(^|\n)[\w.-]*( |\b)login: ?$",
        "a login prompt",
        "the console has this port; give the agent one of its own",
    ),
    (
        rb"(^|\n)(\S*[@:~/]\S* ?)?[$#] ?$",
        "a shell",
        "the console has this port; give the agent one of its own",
    ),
)

MANY_NAKS = 10
"""Per session; a few occur on any line."""

_LEAST = 4  # fewer bytes than this are a glitch from opening the port
_ENOUGH_BITS = 24
"""Bytes of frames after which a missing bit 7 is not chance: a CRC has four of any value."""

_SHOWN = 16


def no_reply(
    port: str, name: str, silence_s: float, where: str, *, is_wall: bool, naks: int, console: str
) -> BoardTimeoutError:
    """Return the error for a board that answered before and is silent now."""
    limit = f" of wall time ({option('--wall-timeout')})" if is_wall else ""
    text = f"The board at {port} did not answer {name} for {silence_s:g} s{limit}{where}."
    hint = (
        f"check whether {name} crashes or never ends; if it is only slow, give "
        f"{longer('--wall-timeout' if is_wall else '--timeout', silence_s)}"
    )
    if naks >= MANY_NAKS:
        text += f" It received {naks:,} damaged frames."
        hint = (
            "check the wire to the board's receiver and the baud rate, and that the receive "
            "buffer is as large as BP_CFG_RX_BYTES and BP_CFG_MTU say"
        )
    return BoardTimeoutError(text, console=console, hint=hint)


def no_welcome(
    port: str, silence_s: float, heard: bytes, *, naks: int, echoes: bool, printed: str
) -> BoardprofError:
    """Return the error for a HELLO that nobody answered; ``heard`` are bytes outside of frames."""
    greeting = heard.strip(b"\0").replace(b"\r", b"")
    for pattern, who, hint in _GREETINGS:
        if re.search(pattern, greeting):
            return LinkError(
                f"{port} is not a boardprof agent but {who}: it said {_quoted(heard)}.", hint=hint
            )
    if naks:
        return LinkError(
            f"The board at {port} answers, but every frame sent to it in {silence_s:g} s arrived "
            f"damaged (it reported {naks}).",
            hint=f"check the wire to the board's receiver, its ground, and {_speed_of(port)}",
        )
    if echoes:
        return LinkError(
            f"{port} echoes what is sent to it, and sent nothing else in {silence_s:g} s.",
            hint="look for a loop-back plug, wires that touch, or a terminal that echoes",
        )
    text = heard.decode(errors="replace")
    strange = sum(not (char.isprintable() or char in "\t\n\r\x1b") for char in text)
    strange += text.count("\ufffd")  # printable, but it replaces bytes that are not text
    changed = _changed(heard) if len(heard) >= _ENOUGH_BITS and strange else None
    if changed is not None:
        return LinkError(
            f"{port} sent {len(heard):,} bytes in {silence_s:g} s that are not text, but no frame, "
            f"and {changed[0]}. They begin with {_hex(heard)}.",
            hint=changed[1],
        )
    if len(heard) >= _LEAST and strange * 3 > len(text):
        how = f"set the board's baud rate with {option('--baud')} (doctor --link tries several)"
        if "://" in port:  # any rate is at its other end
            how = f"check {_speed_of(port)}"
        count = f"{len(heard):,}" if len(heard) < KEPT_BYTES else f"at least {KEPT_BYTES:,}"
        return LinkError(
            f"{port} sent {count} bytes in {silence_s:g} s, but no frame and hardly any text: "
            f"{_hex(heard)}.",
            hint=f"{how}, or check whether this port speaks another protocol",
        )
    hint = (
        f"check the port and {_speed_of(port)}, check that no other host uses the board, or "
        "reset it. If a host died during a call, the board may still be running it: a board with "
        f"a guard ends it after that host's {option('--timeout')} ({DEFAULT_LIMIT_S:g} s by "
        "default)"
    )
    if port.startswith("rtt://"):
        hint = (
            "let the RTT server find the control block (in OpenOCD and pyOCD: rtt setup ADDRESS "
            'SIZE "SEGGER RTT", then rtt start). Check that the firmware has BP_CFG_RTT, that the '
            "core runs, and that no other host uses the board"
        )
    return BoardTimeoutError(
        f"The board at {port} did not answer HELLO for {silence_s:g} s.",
        console=text + printed,
        hint=hint,
    )


def _changed(heard: bytes) -> tuple[str, str] | None:
    """Return what the line does to all bytes, and what to do; None if nothing is seen."""
    eight = "set eight data bits and no parity on each part of the line"
    if max(heard) < 0x80:
        return "bit 7 of each is 0: the line carries seven bits", eight
    if len(set(heard)) > _LEAST and len({byte.bit_count() % 2 for byte in heard}) == 1:
        return "all have the same parity: bit 7 is a parity bit", eight
    ends = heard.count(b"\n")
    if ends >= _LEAST and heard.count(b"\r\n") == ends:
        return "0d comes before each 0a: the line inserts it", "turn that off (stty -onlcr)"
    return None


def _speed_of(port: str) -> str:
    """Return what may be wrong with the bytes of a port, for hints."""
    is_rtt = port.startswith("rtt://")
    return "that only the agent writes to this RTT channel" if is_rtt else "the baud rate"


_NO_FLOW = "turn off software flow control (XON/XOFF; stty -ixon -ixoff)"
_NO_LF = "have the line pass CR as it is, not as LF (stty -icrnl)"
_CHANGED: tuple[tuple[Collection[int], str], ...] = (
    ((0x11, 0x13), f"bytes 11 and 13 do not arrive: {_NO_FLOW}"),
    ((0x0D,), f"byte 0d does not arrive: {_NO_LF}"),
    (range(0x80, 0x100), "no byte from 80 arrives: set eight data bits and no parity"),
)
_MOST_REPLACED = 8
_LONGEST_REPAIRED = 300  # bytes


def with_changes(
    error: BoardprofError,
    naks: int,
    damaged: bytes,
    arrived: Collection[int],
    refused: Iterable[bytes] = (),
) -> BoardprofError:
    """Let the error of a silent board say what the line does to some bytes.

    ``damaged``: the frame that never arrived. ``arrived``: values of bytes in frames that did.
    ``refused``: what came from the board and is not a frame.
    """
    certain = next(filter(None, map(_repaired, refused)), None)
    if certain is not None:
        error.hint = f"the line changes what the board sends: {certain}"
    elif naks >= MANY_NAKS:
        found = [
            text
            for values, text in _CHANGED
            if any(each in values for each in damaged) and not any(v in arrived for v in values)
        ]
        if found:
            error.hint = f"{error.hint}. It seems that {'; or '.join(found)}"
    return error


def _repaired(piece: bytes) -> str | None:
    """Return which change of the line makes a frame of a piece if it is undone; None if none."""
    if len(piece) > _LONGEST_REPAIRED:
        return None
    ends = [at for at, byte in enumerate(piece) if byte == 0x0A]
    for chosen in product((False, True), repeat=min(len(ends), _MOST_REPLACED)):
        tried = bytearray(piece)
        for at in compress(ends, chosen):
            tried[at] = 0x0D
        if any(chosen) and _is_frame(bytes(tried)):
            return f"byte 0d arrives as 0a: {_NO_LF}"
    for at, byte in product(range(len(piece) + 1), b"\x11\x13"):
        if _is_frame(piece[:at] + bytes([byte]) + piece[at:]):
            return f"byte {byte:02x} does not arrive: {_NO_FLOW}"
    return None


def _is_frame(piece: bytes) -> bool:
    return bool(FrameDecoder().feed(piece + b"\0"))


def _hex(data: bytes) -> str:
    return data[:_SHOWN].hex(" ") + (" ..." if len(data) > _SHOWN else "")


def _quoted(data: bytes) -> str:
    """Return the first line of a greeting, or its bytes if it is not text."""
    lines = data.strip(b"\0\r\n").splitlines()
    line = lines[0][:60] if lines else b""
    if line.isascii() and line.decode("ascii").isprintable():
        return repr(line.decode("ascii"))
    return _hex(data)
