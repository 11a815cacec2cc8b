# SPDX-License-Identifier: Apache-2.0
"""The serial ports of this machine, and which board's agent answers on each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import BoardprofError, BoardTimeoutError, BusyError
from boardprof.base.processes import described, port_holders
from boardprof.base.progress import activity
from boardprof.measure.connect import connect
from boardprof.show.layout import Page, text_table
from boardprof.wire.transport.serial import listed_ports

if TYPE_CHECKING:
    from serial.tools.list_ports_common import ListPortInfo

_ANSWER_S = 2.0
"""How long to wait for an agent, which answers at once unless a call is in progress."""

_SHOWN = 40
"""Characters shown of a line that other firmware prints."""


@dataclass(frozen=True)
class Port:
    """A port and what answers there.

    Attributes:
        port: device path or ``socket://HOST:PORT``.
        usb: vendor and product id, ``0483:374b``; "" if it is not a USB device.
        serial: its serial number; "" if absent.
        description: the device's own description.
        board: the board whose agent has answered; "" if no agent has.
        agent: version of that agent.
        build_id: of its firmware, 16 hexadecimal digits.
        state: ``free``, ``busy: ...``, ``silent: ...`` or another problem; one line.
    """

    port: str
    usb: str
    serial: str
    description: str
    board: str
    agent: str
    build_id: str
    state: str


def serial_ports() -> list[str]:
    """Return the device paths of this machine's serial ports, as pyserial finds them."""
    return [port.device for port in listed_ports()]


def find_devices(ports: Sequence[str], baud: int | None = None) -> list[Port]:
    """Ask at all ports at once which board is there, so that silent ones share one timeout.

    A port that another program has open is not touched: opening it could reset the board.

    Args:
        ports: device paths or ``socket://HOST:PORT``.
        baud: of serial ports; None for the usual rate.
    """
    if not ports:
        return []
    workers = min(32, len(ports))
    with activity("asking ports", len(ports)) as step, ThreadPoolExecutor(workers) as pool:
        known = {port.device: port for port in listed_ports()}
        asked = [pool.submit(_found, port, known.get(port), baud) for port in ports]
        for done, _ in enumerate(as_completed(asked), 1):
            step(done)
        return [each.result() for each in asked]


def devices_page(found: Sequence[Port]) -> Page:
    """Return the table for people."""
    if not found:
        return [
            "no serial port found. To ask an agent on TCP, give its address: socket://HOST:PORT"
        ]
    headers = ("Port", "USB ID", "Serial", "Board", "Agent", "State")
    rows = [
        (each.port, each.usb, each.serial, each.board, each.agent, each.state) for each in found
    ]
    return [text_table(headers, rows)]


def devices_facts(found: Sequence[Port]) -> dict[str, Any]:
    """Return them as JSON shows them."""
    return {"schema_version": 1, "devices": [asdict(each) for each in found]}


def _found(port: str, known: ListPortInfo | None, baud: int | None) -> Port:
    usb = serial = description = ""
    if known is not None:
        usb = "" if known.vid is None else f"{known.vid:04x}:{known.pid:04x}"
        serial = known.serial_number or ""
        description = "" if known.description == "n/a" else known.description
    return Port(port, usb, serial, description, *_answer(port, baud))


def _answer(port: str, baud: int | None) -> tuple[str, str, str, str]:
    """Return the board that answers, its agent's version, its build id, and the port's state."""
    holders = port_holders(port) if Path(port).exists() else []
    if holders:
        return "", "", "", f"busy: held by {described(holders)}"
    try:
        with connect(None, port, baud=baud, timeout_s=_ANSWER_S) as board:
            device = board.device
            return board.spec.name, device.agent_version, device.build_id, "free"
    except BusyError as error:
        return "", "", "", f"busy: {error.message}"
    except BoardTimeoutError as error:
        return "", "", "", _silence(error.console)
    except BoardprofError as error:
        return "", "", "", error.message.partition("\n")[0]


def _silence(console: str) -> str:
    """Describe a port at which no agent answers: silent, or with its last line of text."""
    texts = [line.strip() for line in console.splitlines() if line.strip()]
    if not texts:
        return f"silent: no agent answered within {_ANSWER_S:g} s"
    return (
        f"no agent answered within {_ANSWER_S:g} s, but the port sends text: {texts[-1][:_SHOWN]}"
    )
