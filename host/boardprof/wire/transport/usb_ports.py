# SPDX-License-Identifier: Apache-2.0
"""USB serial ports by their serial numbers, which stay when a port gets another path."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from boardprof.base.errors import BoardError, UsageError

if TYPE_CHECKING:
    from serial.tools.list_ports_common import ListPortInfo


@dataclass(frozen=True)
class _UsbPort:
    """What identifies a port of a USB device."""

    vendor: int
    product: int
    number: str
    interface: str  # a device may have several ports


_known: dict[str, _UsbPort] = {}
"""Of the ports that this process has opened, by the path that they had then."""


def listed_ports() -> list[ListPortInfo]:
    """Return this machine's serial ports, as pyserial finds them, by path."""
    from serial.tools import list_ports  # later: only a search for ports needs it

    return sorted(list_ports.comports(), key=lambda port: port.device)


def remember(path: str, now: str) -> None:
    """Keep the identity of a port that was opened, if it is a USB device with a serial number.

    Args:
        path: as the caller named it.
        now: where it was opened.
    """
    for port in listed_ports():
        identity = _identity(port)
        if identity is not None and os.path.realpath(port.device) == os.path.realpath(now):
            _known[path] = _known[now] = identity


def is_usb(path: str) -> bool:
    """Return whether a port that was opened can be found again by its serial number."""
    return path in _known


def current_path(path: str) -> str:
    """Return where a port is now: at another path if it was opened before and has moved.

    A port that never was open, and one that is nowhere, keep their path.
    """
    identity = _known.get(path)
    if identity is None:
        return path
    now = [port.device for port in listed_ports() if _identity(port) == identity]
    real = os.path.realpath(path)
    if not now or any(os.path.realpath(each) == real for each in now):
        return path
    return now[0]


def path_like(url: str) -> str:
    """Return the path of the port that ``hwgrep://REGEX[&n=N]`` finds, as pyserial defines it.

    Raises:
        UsageError: the expression is wrong.
        BoardError: no port, or none with that number, matches.
    """
    import re

    from serial.tools import list_ports

    expression, *options = url.removeprefix("hwgrep://").split("&")
    number = 1
    for option in options:
        name, _, text = option.partition("=")
        if name != "n" or not text.isdecimal() or int(text) < 1:
            raise UsageError(f"{url}: {option} is not an option.", hint="n=2 takes the second port")
        number = int(text)
    try:
        found = sorted(port.device for port in list_ports.grep(expression))
    except re.error as error:
        raise UsageError(f"{url}: {error}.", hint="give a regular expression") from error
    if len(found) < number:
        there = ", ".join(port.device for port in listed_ports()) or "none"
        raise BoardError(
            f"No board at {url}: {len(found)} of this machine's serial ports match ({there}).",
            hint="`boardprof devices` shows them",
        )
    return found[number - 1]


def _identity(port: ListPortInfo) -> _UsbPort | None:
    if port.vid is None or port.pid is None or not port.serial_number:
        return None
    return _UsbPort(port.vid, port.pid, port.serial_number, port.interface or "")
