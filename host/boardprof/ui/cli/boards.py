# SPDX-License-Identifier: Apache-2.0
"""The commands about boards: ``boards``, ``devices``, ``info`` and ``metrics``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boardprof.ui.cli.options import (
    board_option,
    console_option,
    image_option,
    json_option,
    number_option,
    parse_connection,
    port_options,
    width_option,
)
from boardprof.ui.cli.output import (
    echo_console,
    echo_json,
    echo_lines,
    echo_note,
    echo_page,
)

if TYPE_CHECKING:
    from serial.tools.list_ports_common import ListPortInfo

    from boardprof.measure.board.board import Board
    from boardprof.target.descriptions.board import BoardSpec


_MARKS = {"run": "", "built": " (built, not run)", "none": ""}


@click.command()
@json_option
@width_option
def boards(as_json: bool) -> None:
    """List the boards and what each one lacks on this machine."""
    from boardprof.target.descriptions.board import find_boards, load_board
    from boardprof.target.toolchain.tools import missing_text

    specs = [load_board(folder, with_counts=False) for folder in find_boards().values()]
    rows = [{"name": spec.name, **board_facts(spec)} for spec in specs]
    if as_json:
        echo_json({"schema_version": 1, "boards": rows})
        return
    width = max(len(spec.name) for spec in specs)
    for row in rows:
        mark = " (default)" if row["default"] else _MARKS[row["status"]]
        echo_lines(f"{row['name']:{width}}  {row['summary']}{mark}")
        for tool in row["missing"]:
            echo_lines(f"{'':{width}}  missing: {missing_text(tool)}")


def board_facts(spec: BoardSpec) -> dict[str, Any]:
    """Return the facts about a board that are known without starting it, as plain data."""
    from boardprof.target.toolchain.tools import missing_tools

    return {
        "summary": spec.summary,
        "default": spec.default,
        "status": spec.status,
        "launch": spec.launch.kind,
        "clock": spec.clock.kind,
        "emulated": spec.clock.is_emulated,
        "port": None if spec.port is None else {"baud": spec.port.baud, "clock": spec.port.clock},
        "time_scale": spec.clock.time_scale,
        "faults": spec.guard.facts(),
        "missing": missing_tools(spec),
    }


@click.command()
@click.argument("ports", nargs=-1, metavar="[PORT]...")
@number_option("--baud", "Bits per second. [default: 115200]")
@json_option
@width_option
def devices(ports: tuple[str, ...], baud: int | None, as_json: bool) -> None:
    """List the serial ports and the boards that answer on them.

    With PORT, a device path or socket://HOST:PORT, only that port is asked. Ports that another
    program has open are left alone. Opening a serial port resets some boards.
    """
    found = _find_ports(ports, baud)
    if as_json:
        echo_json({"schema_version": 1, "devices": [asdict(each) for each in found]})
        return
    if not found:
        echo_page(
            ["no serial port found. To ask an agent on TCP, give its address: socket://HOST:PORT"]
        )
        return
    from boardprof.show.layout import text_table

    headers = ("Port", "USB ID", "Serial", "Board", "Agent", "State")
    rows = [
        (each.port, each.usb, each.serial, each.board, each.agent, each.state) for each in found
    ]
    echo_page([text_table(headers, rows)])


@click.command()
@board_option
@port_options
@image_option
@console_option
@json_option
@width_option
def info(board: str | None, as_json: bool, **options: Any) -> None:
    """Connect to a board and show what it is and what it offers."""
    from boardprof.show.board_facts import info_text

    with _connected(board, options) as connected:
        facts = board_info(connected)
    if as_json:
        echo_json(facts)
    else:
        echo_lines(info_text(facts))


@click.command()
@board_option
@port_options
@image_option
@json_option
@width_option
def metrics(board: str | None, as_json: bool, **options: Any) -> None:
    """List what a board can count. Each event is tried on the board."""
    from boardprof.show.board_facts import metrics_text

    with _connected(board, options) as connected:
        found = metrics_info(connected)
    if as_json:
        echo_json(found)
    else:
        echo_lines(metrics_text(found))


def _connected(board: str | None, options: Mapping[str, Any]) -> Board:
    """Connect to a board with the given options."""
    from boardprof.measure.connect import connect_by

    on_console = echo_console if options.get("console") else None
    connection = replace(parse_connection(options), on_console=on_console, on_note=echo_note)
    return connect_by(connection, board, options["image"])


def board_info(board: Board) -> dict[str, Any]:
    """Return facts about a connected board; keys with a unit in their name are numbers."""
    # Slots are programmed with their default events, to know which ones count.
    from boardprof.measure.probe_recorder import probe_facts
    from boardprof.target.descriptions.tables import GuardSpec

    welcome, dictionary, device = board.welcome, board.dictionary, board.device
    # An agent can be built without a guard.
    guarded = any(function.name == "bp.guard" for function in dictionary.functions)
    refused = {
        each.collector.name: each.select_default().refused for each in board.link.programmable
    }
    return {
        "schema_version": 1,
        "board": board.spec.name,
        "summary": board.spec.summary,
        "port": device.port,
        "agent_version": dictionary.agent_version,
        "protocol": welcome.version,
        "build_id": device.build_id,
        "boot_id": welcome.boot_id,
        "reset_cause": welcome.reset_cause.name.lower().replace("_", " "),
        "mtu_rx_bytes": welcome.mtu_rx,
        "mtu_tx_bytes": welcome.mtu_tx,
        "pointer_bytes": welcome.pointer_size,
        "byte_order": "big" if welcome.big_endian else "little",
        "arena_bytes": dictionary.arena_bytes,
        "clock_kind": device.clock_kind,
        "emulated": device.emulated,
        "time_scale": board.spec.clock.time_scale,
        "faults": (board.spec.guard if guarded else GuardSpec()).facts(),
        "interrupts": None if board.interrupts is None else asdict(board.interrupts),
        "probes": probe_facts(board.session, dictionary),
        "collectors": [
            {
                "name": collector.name,
                "schema": board.link.layouts[collector.schema_id].name,
                "version": collector.version,
                "counters": [
                    {
                        "name": counter.name,
                        "source": counter.source,
                        "bits": counter.bits,
                        "hz": counter.hz or None,
                        "counts_in_sleep": counter.counts_in_sleep,
                        "unsupported": device.unsupported.get(counter.name)
                        or refused.get(collector.name, {}).get(counter.source),
                    }
                    for counter in collector.counters
                ],
            }
            for collector in dictionary.collectors
        ],
        "functions": [
            {"name": f.name, "signature": f.signature, "measurable": f.measurable}
            for f in dictionary.user_functions
        ],
    }


def metrics_info(board: Board) -> dict[str, Any]:
    """Return what a board can count; ``slots`` has the events per pass of each collector."""
    return {
        "schema_version": 1,
        "board": board.spec.name,
        "slots": {p.collector.name: p.slots for p in board.offer.programmable},
        "metrics": [{**asdict(m), "available": m.reason is None} for m in board.metrics()],
    }


_ANSWER_S = 2.0
"""How long to wait for an agent, which answers at once unless a call is in progress."""

_SHOWN = 40
"""Characters shown of a line that other firmware prints."""


@dataclass(frozen=True)
class _Port:
    """A port and what answers there; a text is empty if it is not known."""

    port: str
    usb: str  # vendor and product id, such as 0483:374b
    serial: str
    description: str
    board: str  # whose agent has answered
    agent: str  # version of that agent
    build_id: str
    state: str  # one line: free, busy: ..., silent: ... or another problem


def _find_ports(ports: Sequence[str], baud: int | None) -> list[_Port]:
    """Ask at all ports at once which board is there, so that silent ones share one timeout."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    from boardprof.base.progress import activity
    from boardprof.wire.transport.serial import listed_ports

    known = {port.device: port for port in listed_ports()}
    ports = ports or [*known]
    if not ports:
        return []
    workers = min(32, len(ports))
    with activity("asking ports", len(ports)) as step, ThreadPoolExecutor(workers) as pool:
        asked = [pool.submit(_found, port, known.get(port), baud) for port in ports]
        for done, _ in enumerate(as_completed(asked), 1):
            step(done)
        return [each.result() for each in asked]


def _found(port: str, known: ListPortInfo | None, baud: int | None) -> _Port:
    usb = serial = description = ""
    if known is not None:
        usb = "" if known.vid is None else f"{known.vid:04x}:{known.pid:04x}"
        serial = known.serial_number or ""
        description = "" if known.description == "n/a" else known.description
    return _Port(port, usb, serial, description, *_answer(port, baud))


def _answer(port: str, baud: int | None) -> tuple[str, str, str, str]:
    """Return the board that answers, its agent's version, its build id, and the port's state."""
    from boardprof.base.errors import BoardprofError, BoardTimeoutError, BusyError
    from boardprof.base.processes import described, port_holders
    from boardprof.measure.connect import connect

    # Opening a port that another program has open could reset the board.
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
