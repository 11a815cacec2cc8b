# SPDX-License-Identifier: Apache-2.0
"""``boardprof doctor``: this machine, and the line to a board."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from boardprof import __version__
from boardprof.base.connection import Connection
from boardprof.base.errors import BuildError, DeviceError, UsageError
from boardprof.base.progress import show_progress
from boardprof.ui.cli.boards import board_facts
from boardprof.ui.cli.options import (
    LONGEST_S,
    Real,
    agent_key_option,
    board_option,
    json_option,
    width_option,
)
from boardprof.ui.cli.output import echo_json, echo_lines, echo_note, progress_bar


@click.command(short_help="Check this machine, a board (-b, -p) or its cable (--link).")
@click.option("--link", is_flag=True, help="Test the line to a board.")
@board_option
@click.option(
    "-p",
    "--port",
    metavar="PORT",
    help="Port, as for `run`. [default: start the board]",
)
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
@agent_key_option
@json_option
@width_option
def doctor(link: bool, as_json: bool, **options: Any) -> int:
    """Check this machine; with -b or -p, check a board; with --link, check its cable.

    The check of a board runs functions whose cost is known and checks the counters. The clocks must
    agree, and the arena and the stack must be as large as the board says.

    Exit codes: 7 if tools for the default board are missing; 6 if a check of a board fails; 4 with
    --link if the link damages or loses frames.
    """
    if link:
        return _doctor_link(as_json, **options)
    if any(options[name] for name in ("bauds", "faults")):
        raise UsageError(
            "--baud and --faults only apply to the test of a line (--link).", hint="--link"
        )
    if any(options[name] for name in ("port", "board")):
        return _doctor_board(as_json, **options)
    if options["key_file"]:
        raise UsageError(
            "--key-file needs a port: only an agent at a port has a key.",
            hint="add -p socket://HOST:PORT",
        )
    from boardprof.target.descriptions.board import find_boards, load_board

    specs = [load_board(folder, with_counts=False) for folder in find_boards().values()]
    facts = _environment([{"name": spec.name, **board_facts(spec)} for spec in specs])
    if as_json:
        echo_json(facts)
    else:
        echo_lines(_environment_text(facts))
    lacking = any(board["default"] and board["missing"] for board in facts["boards"])
    return BuildError.exit_code if lacking else 0


_PORTS = ("ttyACM*", "ttyUSB*", "ttyAMA*")


def _environment(boards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the relevant facts about this machine, as plain data for JSON."""
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
    from boardprof.target.toolchain.tools import missing_text

    width = max(len(board["name"]) for board in facts["boards"])
    cache, ports = facts["cache"], facts["ports"]
    lines = [
        f"boardprof {facts['boardprof']}, Python {facts['python']}, {facts['system']}",
        f"Cache: {cache['path']}" + ("" if cache["writable"] else " (cannot be written)"),
        "Serial ports: " + (", ".join(map(_port_text, ports)) or "none found"),
        "Boards:",
    ]
    for board in facts["boards"]:
        missing = [f"missing {missing_text(tool)}" for tool in board["missing"]]
        default = " (default)" if board["default"] else ""
        lines.append(f"  {board['name']:{width}}  {', '.join(missing) or 'ok'}{default}")
    tools = [tool for board in facts["boards"] for tool in board["missing"]]
    for key, how in (("package", "apt"), ("python_package", "pip")):
        if packages := sorted({tool[key] for tool in tools if key in tool}):
            lines += ["", f"For all boards: {how} install {' '.join(packages)}"]
    if any(not port["allowed"] for port in ports):
        lines += ["", "For the serial ports: sudo usermod -aG dialout $USER, then log in again"]
    return "\n".join(lines)


def _port_text(port: Mapping[str, Any]) -> str:
    return str(port["path"]) + ("" if port["allowed"] else " (no permission)")


def _doctor_board(as_json: bool, **options: Any) -> int:
    from boardprof.measure.doctor.check_board import connect_and_check, finding_text, proof_facts
    from boardprof.measure.doctor.counters import FAILED, Finding

    began_s = time.monotonic()
    key_file = options["key_file"] if options["port"] else None
    with progress_bar():

        def told(found: Finding) -> None:
            if as_json:
                show_progress(f"proving, {found.subject}", int(time.monotonic() - began_s), None)
            else:
                echo_lines(finding_text(found))

        findings = connect_and_check(
            options["board"],
            Connection(options["port"], key_file=key_file, on_note=echo_note),
            on_finding=told,
        )
    if as_json:
        echo_json(proof_facts(findings))
    failed = any(found.verdict == FAILED for found in findings)
    return DeviceError.exit_code if failed else 0


def _doctor_link(as_json: bool, **options: Any) -> int:
    from boardprof.measure.doctor.link_test import diagnose, exit_code, links_facts, links_text
    from boardprof.target.descriptions.board import board_spec, default_board, unnamed_board

    if options["board"]:
        spec = board_spec(options["board"])
    else:  # at a port, the board says what it is
        spec = default_board() if options["port"] is None else unnamed_board()
    tests = diagnose(
        spec,
        Connection(options["port"], key_file=options["key_file"], on_note=echo_note),
        bauds=_bauds(options["bauds"]),
        seconds=options["seconds"],
        rate=options["faults"],
        seed=options["seed"],
    )
    if as_json:
        echo_json(links_facts(tests))
    else:
        echo_lines(links_text(tests))
    return exit_code(tests)


def _bauds(text: str | None) -> list[int]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--baud {text}: these are not baud rates.", hint="--baud 115200,921600")
    return [int(part) for part in parts]
