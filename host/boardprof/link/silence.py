# SPDX-License-Identifier: Apache-2.0
"""Why a handshake got no answer: nothing came, text came, or something that is no board spoke."""

from __future__ import annotations

import re

from boardprof.errors import BoardprofError, BoardTimeoutError, LinkError

__all__ = ["DEFAULT_LIMIT_S", "no_welcome", "other_program"]

DEFAULT_LIMIT_S = 10.0
"""Longest time that a guarded call may take, or a round of a measurement, on the board's clock."""

_GREETINGS: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb"^SSH-\d"), "an SSH server", "forward the agent's own port with ssh -L"),
    (re.compile(rb"^HTTP/\d|^<!DOCTYPE html|^<html"), "a web server", "give the agent's own port"),
    # RFC 854: IAC, then WILL, WONT, DO or DONT.
    (
        re.compile(rb"^\xff[\xfb-\xfe]"),
        "a Telnet server",
        "have the terminal server pass bytes unchanged (raw TCP)",
    ),
    (
        re.compile(rb"MicroPython v|(^|\n)>>> ?$"),
        "a MicroPython prompt",
        "flash the boardprof agent, or give the port that it uses",
    ),
    (
        re.compile(rb"^[+-]*\$[^#$]*#[0-9a-fA-F]{2}"),
        "a GDB server",
        "give the board's UART; the debug probe has a port of its own",
    ),
    (
        re.compile(rb"(^|\n)[\w.-]*( |\b)login: ?$"),
        "a login prompt",
        "the console has this port; give the agent one of its own",
    ),
    (
        re.compile(rb"(^|\n)(\S*[@:~/]\S* ?)?[$#] ?$"),
        "a shell",
        "the console has this port; give the agent one of its own",
    ),
)

_LEAST = 4
"""Bytes that say something of the line; fewer are a glitch when the port was opened."""

_SHOWN = 16


def other_program(heard: bytes) -> tuple[str, str] | None:
    """Return who greets like that and what to try, or None for one that is not known."""
    text = heard.strip(b"\0").replace(b"\r", b"")
    for pattern, who, hint in _GREETINGS:
        if pattern.search(text):
            return who, hint
    return None


def no_welcome(
    port: str,
    silence_s: float,
    heard: bytes,
    *,
    naks: int = 0,
    echoes: bool = False,
    printed: str = "",
) -> BoardprofError:
    """Return the error for a HELLO that nobody answered.

    Args:
        port: the line's name.
        silence_s: how long was waited.
        heard: the bytes that came and were no frames.
        naks: how often the board said that it could not read something.
        echoes: whether what was sent came back.
        printed: what the program behind the line printed elsewhere.
    """
    found = other_program(heard)
    if found is not None:
        who, hint = found
        return LinkError(
            f"What answers at {port} is no boardprof agent but {who}: it said {_quoted(heard)}.",
            hint=hint,
        )
    if naks:
        return LinkError(
            f"The board at {port} answers, but nothing that was sent to it arrived whole in "
            f"{silence_s:g} s ({naks} times it said so).",
            hint="check the wire to the board's receiver, its ground, and the baud rate",
        )
    if echoes:
        return LinkError(
            f"{port} sends back what is sent to it, and nothing else came in {silence_s:g} s.",
            hint="look for a loop-back plug, wires that touch, or a terminal that echoes",
        )
    text = heard.decode(errors="replace")
    strange = sum(not (char.isprintable() or char in "\t\n\r\x1b") for char in text)
    strange += text.count("\ufffd")  # printable, but it stands for what is no text
    if len(heard) >= _LEAST and strange * 3 > len(text):
        return LinkError(
            f"{len(heard)} bytes came from {port} in {silence_s:g} s, but no frame and hardly any "
            f"text: {_hex(heard)}.",
            hint="give the board's baud rate by --baud (doctor --link tries several), or see "
            "whether another program's protocol is on this port",
        )
    return BoardTimeoutError(
        f"The board at {port} did not answer HELLO for {silence_s:g} s.",
        console=text + printed,
        hint="check port and baud rate, see that no other host has the board, or reset it. If a "
        "host was ended within a call, the board may be at it still: a board that guards its calls "
        f"ends it after that host's --timeout, {DEFAULT_LIMIT_S:g} s unless it gave one",
    )


def _hex(data: bytes) -> str:
    return data[:_SHOWN].hex(" ") + (" ..." if len(data) > _SHOWN else "")


def _quoted(data: bytes) -> str:
    """Return the first line of a greeting, or its bytes if it is no text."""
    lines = data.strip(b"\0\r\n").splitlines()
    line = lines[0][:60] if lines else b""
    if line.isascii() and line.decode("ascii").isprintable():
        return repr(line.decode("ascii"))
    return _hex(data)
