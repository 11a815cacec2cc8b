# SPDX-License-Identifier: Apache-2.0
"""``boardprof doctor``: this machine, and the line to a board."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from boardprof.cli.boards import board_facts
from boardprof.cli.options import (
    LONGEST_S,
    Real,
    board_option,
    json_option,
    key_option,
    width_option,
)
from boardprof.cli.output import echo_data, echo_lines, echo_note, progress_bar
from boardprof.errors import BuildError, DeviceError, UsageError


@click.command(short_help="Check this machine, a board (-b, -p) or its cable (--link).")
@click.option("--link", is_flag=True, help="Test the line to a board.")
@board_option
@click.option(
    "-p",
    "--port",
    metavar="PORT",
    help="Device path or socket://HOST:PORT. [default: start the board]",
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
@key_option("Key that the agent at a TCP port asks for. [BOARDPROF_KEY, if it is set]")
@json_option
@width_option
def doctor(link: bool, as_json: bool, **options: Any) -> int:
    """Check this machine; with -b or -p, check a board; with --link, check its cable.

    A board runs functions of known work. Do its counters grow with that work, do its clocks agree,
    and are its arena and its stack as large as it says?

    Exit codes: 7 if tools for the default board are missing; 6 if something about a board is not as
    it says; 4 with --link if the link damages or loses frames. If no board answers, the code is
    that of any other command.
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
    from boardprof.boards.board_file import load_board
    from boardprof.boards.board_lookup import find_boards
    from boardprof.doctor.environment import environment, environment_text

    specs = [load_board(folder, with_counts=False) for folder in find_boards().values()]
    facts = environment([{"name": spec.name, **board_facts(spec)} for spec in specs])
    if as_json:
        echo_data(json.dumps(facts, indent=2))
    else:
        echo_lines(environment_text(facts))
    lacking = any(board["default"] and board["missing"] for board in facts["boards"])
    return BuildError.exit_code if lacking else 0


def _doctor_board(as_json: bool, **options: Any) -> int:
    from boardprof.doctor.check_board import proved
    from boardprof.doctor.finding import FAILED, Finding, finding_text, proof_facts

    began_s = time.monotonic()
    with progress_bar() as show:

        def told(found: Finding) -> None:
            if as_json:
                show(f"proving, {found.subject}", int(time.monotonic() - began_s), None)
            else:
                echo_lines(finding_text(found))

        findings = proved(
            options["board"],
            options["port"],
            key_file=options["key_file"],
            on_finding=told,
            on_note=echo_note,
        )
    if as_json:
        echo_data(json.dumps(proof_facts(findings), indent=2))
    failed = any(found.verdict == FAILED for found in findings)
    return DeviceError.exit_code if failed else 0


def _doctor_link(as_json: bool, **options: Any) -> int:
    from boardprof.boards.board_lookup import board_spec, default_board
    from boardprof.doctor.link_report import exit_code, links_facts, links_text
    from boardprof.doctor.link_test import diagnose

    spec = board_spec(options["board"]) if options["board"] else default_board()
    tests = diagnose(
        spec,
        options["port"],
        bauds=_bauds(options["bauds"]),
        seconds=options["seconds"],
        rate=options["faults"],
        seed=options["seed"],
        key_file=options["key_file"],
        on_note=echo_note,
    )
    if as_json:
        echo_data(json.dumps(links_facts(tests), indent=2))
    else:
        echo_lines(links_text(spec.name, tests))
    return exit_code(tests)


def _bauds(text: str | None) -> list[int]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--baud {text}: these are not baud rates.", hint="--baud 115200,921600")
    return [int(part) for part in parts]
