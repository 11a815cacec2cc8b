# SPDX-License-Identifier: Apache-2.0
"""``boardprof metrics``: list what a board can count, and why it cannot count the rest."""

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
from boardprof.cli.output import echo_data, echo_lines, echo_note


@click.command()
@board_option
@port_options
@image_option
@json_option
@width_option
def metrics(board: str | None, as_json: bool, **options: Any) -> None:
    """List what a board can count. Each event is tried on the board."""
    from boardprof.board.metric_list import board_metrics, metrics_json, metrics_text
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
        on_note=echo_note,
    ) as connected:
        found = board_metrics(connected)
        if as_json:
            echo_data(json.dumps(metrics_json(connected, found), indent=2))
        else:
            echo_lines(metrics_text(connected, found))
