# SPDX-License-Identifier: Apache-2.0
"""The commands about boards: ``boards``, ``devices``, ``info``, ``metrics`` and ``doctor``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boardprof import __version__
from boardprof.base.connection import Connection
from boardprof.base.errors import BuildError, DeviceError, UsageError
from boardprof.base.files import unwritable
from boardprof.base.progress import activity, show_progress
from boardprof.ui.cli.options import (
    LONGEST_S,
    Real,
    agent_key_option,
    board_option,
    console_option,
    flash_option,
    image_option,
    json_option,
    limit_options,
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
    echo_written,
    progress_bar,
)

if TYPE_CHECKING:
    from serial.tools.list_ports_common import ListPortInfo

    from boardprof.measure.board.board import Board
    from boardprof.measure.doctor.counters import Finding


_MARKS = {"run": "", "built": " (built, not run)", "none": ""}


@click.command()
@json_option
@width_option
def boards(as_json: bool) -> None:
    """List the boards and what each one lacks on this machine."""
    from boardprof.target.toolchain.tools import missing_text

    rows = _known_boards()
    if as_json:
        echo_json({"schema_version": 1, "boards": rows})
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        mark = " (default)" if row["default"] else _MARKS[row["status"]]
        echo_lines(f"{row['name']:{width}}  {row['summary']}{mark}")
        for tool in row["missing"]:
            echo_lines(f"{'':{width}}  missing: {missing_text(tool)}")


def _known_boards() -> list[dict[str, Any]]:
    """Return the facts about all boards that are known without starting them, as plain data."""
    from boardprof.target.descriptions.board import find_boards, load_board
    from boardprof.target.toolchain.tools import missing_tools

    return [
        {
            "name": spec.name,
            "summary": spec.summary,
            "default": spec.default,
            "status": spec.status,
            "launch": spec.launch.kind,
            "clock": spec.clock.kind,
            "emulated": spec.clock.is_emulated,
            "port": None
            if (port := spec.port) is None
            else {"baud": port.baud, "clock": port.clock},
            "time_scale": spec.clock.time_scale,
            "faults": spec.guard.facts(),
            "missing": missing_tools(spec),
        }
        for spec in (load_board(each, with_counts=False) for each in find_boards().values())
    ]


@click.command()
@click.argument("ports", nargs=-1, metavar="[PORT]...")
@number_option("--baud", "Bits per second. [default: 115200]")
@json_option
@width_option
def devices(ports: tuple[str, ...], baud: int | None, as_json: bool) -> None:
    """List the serial ports and the boards that answer on them.

    Only USB ports with the vendor of a board or of a serial bridge are opened and asked, since
    opening a serial port resets some devices. With PORT, a device path or socket://HOST:PORT, that
    port is asked, whatever it is. Ports that another program has open are left alone.
    """
    found = _find_ports(ports, baud)
    if as_json:
        echo_json({"schema_version": 1, "devices": found})
        return
    if not found:
        how = "To ask an agent on TCP, give its address: socket://HOST:PORT"
        echo_page([f"no serial port found. {how}"])
        return
    from boardprof.show.layout import text_table

    headers = ("Port", "USB ID", "Serial", "Board", "Agent", "State")
    keys = ("port", "usb", "serial", "board", "agent", "state")
    echo_page([text_table(headers, [tuple(map(each.__getitem__, keys)) for each in found])])


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


_ANSWER_S = 2.0  # how long to wait for an agent, which answers at once unless a call is in progress
_SHOWN = 40  # characters shown of a line that other firmware prints


def _find_ports(ports: Sequence[str], baud: int | None) -> list[dict[str, str]]:
    """Ask at all ports at once which board is there, so that silent ones share one timeout."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    from boardprof.wire.transport.serial import listed_ports, may_be_board

    known = {port.device: port for port in listed_ports()}
    named = bool(ports)
    ports = ports or [*known]
    if not ports:
        return []
    workers = min(32, len(ports))
    with activity("asking ports", len(ports)) as step, ThreadPoolExecutor(workers) as pool:
        asked = [
            pool.submit(
                _found, port, known.get(port), baud, is_asked=named or may_be_board(known[port])
            )
            for port in ports
        ]
        for done, _ in enumerate(as_completed(asked), 1):
            step(done)
        return [each.result() for each in asked]


_PORT_FACTS = ("port", "usb", "serial", "description", "board", "agent", "build_id", "state")
_NOT_ASKED = "not asked: no known board has this USB vendor; to ask it, give its path"


def _found(
    port: str, known: ListPortInfo | None, baud: int | None, *, is_asked: bool
) -> dict[str, str]:
    """Return the facts about a port and what answers there; "" for those that are not known."""
    found = dict.fromkeys(_PORT_FACTS, "") | {"port": port}
    if known is not None:
        found["usb"] = "" if known.vid is None else f"{known.vid:04x}:{known.pid:04x}"
        found["serial"] = known.serial_number or ""
        found["description"] = "" if known.description == "n/a" else known.description
    return found | (_answer(port, baud) if is_asked else {"state": _NOT_ASKED})


def _answer(port: str, baud: int | None) -> dict[str, str]:
    """Return the port's state, and what is known of the board that answers."""
    from boardprof.base.errors import BoardprofError, BoardTimeoutError, BusyError
    from boardprof.base.processes import described, port_holders
    from boardprof.measure.connect import connect

    # Opening a port that another program has open could reset the board.
    holders = port_holders(port) if Path(port).exists() else []
    if holders:
        return {"state": f"busy: held by {described(holders)}"}
    try:
        with connect(None, port, baud=baud, timeout_s=_ANSWER_S) as board:
            device = board.device
            facts = {"agent": device.agent_version, "build_id": device.build_id, "state": "free"}
            return {"board": board.spec.name, **facts}
    except BusyError as error:
        return {"state": f"busy: {error.message}"}
    except BoardTimeoutError as error:
        texts = [line.strip() for line in error.console.splitlines() if line.strip()]
        silence = f"no agent answered within {_ANSWER_S:g} s"
        if not texts:
            return {"state": f"silent: {silence}"}
        return {"state": f"{silence}, but the port sends text: {texts[-1][:_SHOWN]}"}
    except BoardprofError as error:
        return {"state": error.message.partition("\n")[0]}


@click.command(short_help="Check this machine, a board (-b, -p) or its cable (--link).")
@click.option("--link", is_flag=True, help="Test the line to a board.")
@board_option
@click.option("-p", "--port", metavar="PORT", help="Port, as for `run`. [default: start the board]")
@image_option
@click.option("--baud", "bauds", metavar="N[,N...]", help="Baud rates to try on a serial port.")
@click.option(
    "--seconds",
    default=5.0,
    show_default=True,
    type=Real(min=0.1, max=LONGEST_S),
    metavar="SECONDS",
    help="Test for this long at each baud rate.",
)
@click.option(
    "--faults",
    type=Real(min=0, max=1),
    metavar="RATE",
    help="Damage this fraction of the frames on purpose.",
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    metavar="N",
    help="Random seed for faults and test data.",
)
@flash_option
@limit_options
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also check what ends a call, and write all that was proved to DIR, to send in.",
)
@agent_key_option
@json_option
@width_option
def doctor(link: bool, as_json: bool, **options: Any) -> int:
    """Check this machine; with -b, -p or --image, check a board; with --link, check its cable.

    The check of a board runs functions whose cost is known and checks the counters. The clocks must
    agree, and the arena and the stack must be as large as the board says.

    Exit codes: 7 if tools for the default board are missing; 6 if a check of a board fails; 4 with
    --link if the link damages or loses frames.
    """
    if link and options["report"]:
        raise UsageError("A report is of a board, not of a line alone.", hint="leave out --link")
    if options["report"] and not any(options[name] for name in ("port", "board", "image")):
        raise UsageError("Which board should be checked?", hint="add -b BOARD, or -p PORT")
    if options["flash"] and (link or not (options["port"] and options["board"])):
        raise UsageError(
            "--flash writes functions of known work to a board at a port.",
            hint="-b BOARD -p PORT --flash",
        )
    if options["flash"] and options["image"]:
        raise UsageError("--flash builds the firmware itself.", hint="leave out --image")
    if link and options["image"]:
        raise UsageError(
            "--image has no effect on the test of a line.", hint="leave out --image, or --link"
        )
    if link:
        return _doctor_link(as_json, **options)
    if any(options[name] for name in ("bauds", "faults")):
        raise UsageError(
            "--baud and --faults only apply to the test of a line (--link).", hint="--link"
        )
    if any(options[name] for name in ("port", "board", "image")):
        return _doctor_board(as_json, **options)
    if options["key_file"]:
        raise UsageError(
            "--key-file needs a port: only an agent at a port has a key.",
            hint="add -p socket://HOST:PORT",
        )
    facts = _environment(_known_boards())
    if as_json:
        echo_json(facts)
    else:
        echo_lines(_environment_text(facts))
    lacking = any(board["default"] and board["missing"] for board in facts["boards"])
    return BuildError.exit_code if lacking else 0


_PORTS = ("ttyACM*", "ttyUSB*", "ttyAMA*")


def _environment(boards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import platform

    from boardprof.target.toolchain.cache import cache_root

    root = cache_root()
    nearest = next(path for path in (root, *root.parents) if path.exists())
    return {
        "schema_version": 1,
        "boardprof": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cache": {"path": str(root), "writable": os.access(nearest, os.W_OK)},
        "ports": [
            {"path": str(path), "allowed": os.access(path, os.R_OK | os.W_OK)}
            for pattern in _PORTS
            for path in sorted(Path("/dev").glob(pattern))
        ],
        "boards": [{key: row[key] for key in ("name", "default", "missing")} for row in boards],
    }


def _environment_text(facts: Mapping[str, Any]) -> str:
    """Return `_environment` as text, with advice on what is missing."""
    from boardprof.target.toolchain.tools import install_command, missing_text

    width = max(len(board["name"]) for board in facts["boards"])
    cache, ports = facts["cache"], facts["ports"]
    paths = [f"{each['path']}{'' if each['allowed'] else ' (no permission)'}" for each in ports]
    lines = [
        f"boardprof {facts['boardprof']}, Python {facts['python']}, {facts['system']}",
        f"Cache: {cache['path']}" + ("" if cache["writable"] else " (cannot be written)"),
        "Serial ports: " + (", ".join(paths) or "none found"),
        "Boards:",
    ]
    for board in facts["boards"]:
        missing = [f"missing {missing_text(tool)}" for tool in board["missing"]]
        default = " (default)" if board["default"] else ""
        lines.append(f"  {board['name']:{width}}  {', '.join(missing) or 'ok'}{default}")
    tools = [tool for board in facts["boards"] for tool in board["missing"]]
    installers = (
        ("package", "apt install"),
        ("python_package", "pip install"),
        ("node_package", install_command()),
    )
    for key, command in installers:
        if packages := sorted({tool[key] for tool in tools if key in tool}):
            lines += ["", f"For all boards: {command} {' '.join(packages)}"]
    if any(not port["allowed"] for port in ports):
        lines += ["", "For the serial ports: sudo usermod -aG dialout $USER, then log in again"]
    return "\n".join(lines)


def _doctor_connection(options: Mapping[str, Any]) -> Connection:
    names = ("port", "key_file", "timeout_s", "wall_timeout_s", "takeover")
    return Connection(**{name: options[name] for name in names}, on_note=echo_note)


def _doctor_board(as_json: bool, **options: Any) -> int:
    from boardprof.measure.doctor.check_board import connect_and_check, finding_text, proof_facts
    from boardprof.measure.doctor.counters import FAILED

    began_s = time.monotonic()
    key_file = options["key_file"] if options["port"] else None
    connection = _doctor_connection({**options, "key_file": key_file})
    report: Path | None = options["report"]
    with progress_bar():

        def told(found: Finding) -> None:
            if as_json:
                show_progress(f"proving, {found.subject}", int(time.monotonic() - began_s), None)
            else:
                echo_lines(finding_text(found))

        board, findings = connect_and_check(
            options["board"],
            connection,
            image=options["image"],
            on_finding=told,
            with_guards=report is not None,
            flashes=options["flash"],
        )
        if report is not None:
            _write_proof(report, board, findings, connection, as_json=as_json)
    if as_json:
        echo_json(proof_facts(findings))
    failed = any(found.verdict == FAILED for found in findings)
    return DeviceError.exit_code if failed else 0


def _write_proof(
    folder: Path,
    board: Board,
    findings: Sequence[Finding],
    connection: Connection,
    *,
    as_json: bool,
) -> None:
    """Write what a board has proved, as data and as a page; a port's line is tested before."""
    from boardprof.measure.doctor.check_board import proof_of
    from boardprof.measure.doctor.link_test import link_text, try_link
    from boardprof.show.html import render_proof

    link = None if connection.port is None else try_link(board.spec, connection)
    if link is not None and not as_json:
        echo_lines(link_text(link))
    facts = proof_of(board.spec, board.device, findings, link)
    texts = {"proof.json": json.dumps(facts, indent=2) + "\n", "index.html": render_proof(facts)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from error
    echo_written("Proof", folder)


def _doctor_link(as_json: bool, **options: Any) -> int:
    from boardprof.measure.doctor.link_test import diagnose, exit_code, links_facts, links_text
    from boardprof.target.descriptions.board import board_spec, default_board, unnamed_board

    if options["board"]:
        spec = board_spec(options["board"])
    else:  # at a port, the board says what it is
        spec = default_board() if options["port"] is None else unnamed_board()
    bauds = [part.strip() for part in (options["bauds"] or "").split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) > 0 for part in bauds):
        raise UsageError(
            f"--baud {options['bauds']}: these are not baud rates.", hint="--baud 115200,921600"
        )
    tests = diagnose(
        spec,
        _doctor_connection(options),
        bauds=[*map(int, bauds)],
        seconds=options["seconds"],
        rate=options["faults"],
        seed=options["seed"],
    )
    if as_json:
        echo_json(links_facts(tests))
    else:
        echo_lines(links_text(tests))
    return exit_code(tests)
