# SPDX-License-Identifier: Apache-2.0
"""``boardprof info``: describe a connected board."""

from __future__ import annotations

import json
from typing import Any

import click

from boardprof.cli.options import (
    board_option,
    image_option,
    json_option,
    port_options,
    width_option,
)
from boardprof.cli.output import echo_console, echo_data, echo_lines, echo_note


@click.command()
@board_option
@port_options
@image_option
@click.option("--console", is_flag=True, help="Show what the board prints.")
@json_option
@width_option
def info(board: str | None, as_json: bool, **options: Any) -> None:
    """Connect to a board and show what it is and what it offers."""
    from boardprof.board.info import board_info, info_text
    from boardprof.connection import connect

    with connect(
        board,
        options["port"],
        image=options["image"],
        baud=options["baud"],
        timeout_s=options["timeout"],
        wall_timeout_s=options["wall_timeout"],
        takeover=options["takeover"],
        clock=options["clock"],
        key_file=options["key_file"],
        on_console=echo_console if options["console"] else None,
        on_note=echo_note,
    ) as connected:
        facts = board_info(connected)
    if as_json:
        echo_data(json.dumps(facts, indent=2))
    else:
        echo_lines(info_text(facts))
