# SPDX-License-Identifier: Apache-2.0
"""How to reach a board, and the forms of a port: ``/dev/ttyUSB0``, ``socket://HOST:PORT`` ...

A serial port may have a query with its control lines: ``/dev/ttyUSB0?dtr=off&reset=rts``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from boardprof.base.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path  # `boardprof --version` needs no files

LONGEST_S = 1e6
"""Largest time limit of a call, seconds."""

AUTO = "auto"
"""The port of the only board that is found."""

FORMS = (
    "a device path, HOST:PORT, a URL (socket://, ssh://, rtt://, rfc2217://, hwgrep:// or spy://), "
    "or auto"
)
"""What a port may be, for hints."""

BRACKETS = "an IPv6 address has brackets: [::1]:5000"
"""For hints."""

_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([\w.-]+)):([0-9]{1,5})")
_SERIAL_SCHEMES = ("hwgrep", "rfc2217", "spy")
_KEYS = ("dtr", "rts", "reset")
_ON_OFF = {"on": True, "off": False}


@dataclass(frozen=True)
class Connection:
    """How to reach a board and how long a call may take; `boardprof.connect` explains each."""

    port: str | None = None
    baud: int | None = None
    timeout_s: float | None = None
    wall_timeout_s: float | None = None
    takeover: bool = False
    key_file: str | Path | None = None
    clock: str | None = None
    on_console: Callable[[str], None] | None = None
    on_note: Callable[[str], None] | None = None


@dataclass(frozen=True)
class ControlLines:
    """What to do with a serial port's control lines when it is opened."""

    dtr: bool | None = None  # set or clear DTR (Data Terminal Ready); None leaves it alone
    rts: bool | None = None  # the same for RTS (Request To Send)
    reset: str = ""  # ``dtr`` or ``rts``: pulse it before the session; "" for no pulse


def host_and_port(text: str) -> tuple[str, int] | None:
    """Split ``HOST:PORT`` or ``[IPV6]:PORT``, to connect to it; None if it is something else."""
    found = _PLACE.fullmatch(text)
    if found is None or not 0 < int(found[3]) < 65536:
        return None
    return found[1] or found[2], int(found[3])


def port_url(port: str) -> str:
    """Return a port as other modules know it: ``HOST:PORT`` becomes ``socket://HOST:PORT``."""
    if _PLACE.fullmatch(port) and not os.path.exists(port):
        return f"socket://{port}"
    return port


def with_lines(port: str, **lines: str | None) -> str:
    """Return a port with control lines in its query; None leaves a line alone."""
    given = {name: text for name, text in lines.items() if text is not None}
    if not given:
        return port
    port = port_url(port)
    return f"{port}{'&' if '?' in port else '?'}{urlencode(given)}"


def split_lines(port: str) -> tuple[str, ControlLines]:
    """Return a port without its control lines, and the lines; pyserial's own options stay."""
    path, question, query = port.partition("?")
    if not question or os.path.exists(port):
        return port, ControlLines()
    pairs = parse_qsl(query, keep_blank_values=True)
    ours = {key: text for key, text in pairs if key in _KEYS}
    scheme = path.partition("://")[0] if "://" in path else ""
    if ours and scheme and scheme not in _SERIAL_SCHEMES:
        raise UsageError(
            f"{path} is not a serial port: it has no {', '.join(ours).upper()}.",
            hint="leave out --dtr, --rts and --reset-pulse",
        )
    rest = [(key, text) for key, text in pairs if key not in _KEYS]
    plain = f"{path}?{urlencode(rest, safe='/:')}" if rest else path
    return plain, ControlLines(
        _on_off(port, "dtr", ours.get("dtr")),
        _on_off(port, "rts", ours.get("rts")),
        _reset(port, ours.get("reset", "")),
    )


def _on_off(port: str, name: str, text: str | None) -> bool | None:
    if text is not None and text not in _ON_OFF:
        raise UsageError(f"{port}: {name}={text} is neither on nor off.", hint=f"{name}=off")
    return None if text is None else _ON_OFF[text]


def _reset(port: str, text: str) -> str:
    if text not in ("", "dtr", "rts"):
        raise UsageError(f"{port}: reset={text} is neither dtr nor rts.", hint="reset=dtr")
    return text
