# SPDX-License-Identifier: Apache-2.0
"""The commands about boards: ``boards``, ``devices``, ``info`` and ``metrics``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from boardprof.ui.cli.options import (
    Whole,
    board_option,
    image_option,
    json_option,
    parse_connection,
    port_options,
    width_option,
)
from boardprof.ui.cli.output import echo_console, echo_json, echo_lines, echo_note, echo_page

if TYPE_CHECKING:
    from boardprof.measure.session.board import Board
    from boardprof.target.descriptions.board_file import BoardSpec


_MARKS = {"run": "", "built": " (built, not run)", "none": ""}


@click.command()
@json_option
@width_option
def boards(as_json: bool) -> None:
    """List the boards and what each one lacks on this machine."""
    from boardprof.target.descriptions.board_file import load_board
    from boardprof.target.descriptions.board_lookup import find_boards
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
@click.option("--baud", type=Whole(min=1), metavar="N", help="Bits per second. [default: 115200]")
@json_option
@width_option
def devices(ports: tuple[str, ...], baud: int | None, as_json: bool) -> None:
    """List the serial ports and the boards that answer on them.

    With PORT, a device path or socket://HOST:PORT, only that port is asked. Ports that another
    program has open are left alone. Opening a serial port resets some boards.
    """
    from boardprof.ui.devices import devices_facts, devices_page, find_devices, serial_ports

    found = find_devices(ports or serial_ports(), baud)
    if as_json:
        echo_json(devices_facts(found))
    else:
        echo_page(devices_page(found))


@click.command()
@board_option
@port_options
@image_option
@click.option("--console", is_flag=True, help="Show what the board prints.")
@json_option
@width_option
def info(board: str | None, as_json: bool, **options: Any) -> None:
    """Connect to a board and show what it is and what it offers."""
    from boardprof.measure.session.info import board_info, info_text

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
    from boardprof.measure.session.info import metrics_json, metrics_text

    with _connected(board, options) as connected:
        found = connected.metrics()
        if as_json:
            echo_json(metrics_json(connected, found))
        else:
            echo_lines(metrics_text(connected, found))


def _connected(board: str | None, options: Mapping[str, Any]) -> Board:
    """Connect to a board with the given options."""
    from boardprof.measure.connect import connect_by

    on_console = echo_console if options.get("console") else None
    connection = replace(parse_connection(options), on_console=on_console, on_note=echo_note)
    return connect_by(connection, board, options["image"])
