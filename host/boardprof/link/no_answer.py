# SPDX-License-Identifier: Apache-2.0
"""Diagnose a missing answer, from a known board or to a handshake with an unknown peer."""

from __future__ import annotations

import re

from boardprof.errors import BoardprofError, BoardTimeoutError, LinkError

DEFAULT_LIMIT_S = 10.0
"""Longest time that a guarded call may take, or a round of a measurement, on the board's clock."""

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

_MANY_NAKS = 10
"""Per session; a few occur on any line."""

_LEAST = 4
"""Fewer bytes than this are a glitch from opening the port."""

_SHOWN = 16


def no_reply(
    port: str, name: str, silence_s: float, where: str, *, is_wall: bool, naks: int, console: str
) -> BoardTimeoutError:
    """Return the error for a board that answered before and is silent now.

    Args:
        port: the line's name.
        name: of the call.
        silence_s: how long was waited.
        where: the call stopped, for the message; "" if that is not known.
        is_wall: whether ``silence_s`` was given as a limit in wall time.
        naks: how often the board said that it could not read something.
        console: what it has printed.
    """
    option, limit = (
        ("--wall-timeout", " of wall time (--wall-timeout)") if is_wall else ("--timeout", "")
    )
    text = f"The board at {port} did not answer {name} for {silence_s:g} s{limit}{where}."
    hint = (
        f"check whether {name} crashes or never ends; if it is only slow, give {option} more "
        "seconds"
    )
    if naks >= _MANY_NAKS:
        text += f" It received {naks:,} damaged frames."
        hint = (
            "check the wire to the board's receiver and the baud rate, and that the receive "
            "buffer is as large as rx_bytes and mtu in board.toml say"
        )
    return BoardTimeoutError(text, console=console, hint=hint)


def other_program(heard: bytes) -> tuple[str, str] | None:
    """Return who sends this greeting and what to try, or None if unknown."""
    text = heard.strip(b"\0").replace(b"\r", b"")
    for pattern, who, hint in _GREETINGS:
        if re.search(pattern, text):
            return who, hint
    return None


def no_welcome(
    port: str,
    silence_s: float,
    heard: bytes,
    *,
    naks: int,
    echoes: bool,
    printed: str,
) -> BoardprofError:
    """Return the error for a HELLO that nobody answered.

    Args:
        port: the line's name.
        silence_s: how long was waited.
        heard: the bytes that came and were no frames.
        naks: how often the board said that it could not read something.
        echoes: whether what was sent came back.
        printed: what the program at the other end printed elsewhere.
    """
    found = other_program(heard)
    if found is not None:
        who, hint = found
        return LinkError(
            f"{port} is not a boardprof agent but {who}: it said {_quoted(heard)}.",
            hint=hint,
        )
    if naks:
        return LinkError(
            f"The board at {port} answers, but every frame sent to it in {silence_s:g} s arrived "
            f"damaged (it reported {naks}).",
            hint="check the wire to the board's receiver, its ground, and the baud rate",
        )
    if echoes:
        return LinkError(
            f"{port} echoes what is sent to it, and sent nothing else in {silence_s:g} s.",
            hint="look for a loop-back plug, wires that touch, or a terminal that echoes",
        )
    text = heard.decode(errors="replace")
    strange = sum(not (char.isprintable() or char in "\t\n\r\x1b") for char in text)
    strange += text.count("\ufffd")  # printable, but it replaces bytes that are not text
    if len(heard) >= _LEAST and strange * 3 > len(text):
        return LinkError(
            f"{port} sent {len(heard)} bytes in {silence_s:g} s, but no frame and hardly any "
            f"text: {_hex(heard)}.",
            hint="set the board's baud rate with --baud (doctor --link tries several), or check "
            "whether this port speaks another protocol",
        )
    return BoardTimeoutError(
        f"The board at {port} did not answer HELLO for {silence_s:g} s.",
        console=text + printed,
        hint="check the port and the baud rate, check that no other host uses the board, or reset "
        "it. If a host died during a call, the board may still be running it: a board with a guard "
        f"ends it after that host's --timeout ({DEFAULT_LIMIT_S:g} s by default)",
    )


def _hex(data: bytes) -> str:
    return data[:_SHOWN].hex(" ") + (" ..." if len(data) > _SHOWN else "")


def _quoted(data: bytes) -> str:
    """Return the first line of a greeting, or its bytes if it is not text."""
    lines = data.strip(b"\0\r\n").splitlines()
    line = lines[0][:60] if lines else b""
    if line.isascii() and line.decode("ascii").isprintable():
        return repr(line.decode("ascii"))
    return _hex(data)
