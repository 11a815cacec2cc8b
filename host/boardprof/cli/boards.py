# SPDX-License-Identifier: Apache-2.0
"""``boardprof boards``: list the boards and what each needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from boardprof.cli.options import json_option, width_option
from boardprof.cli.output import echo_data, echo_lines

if TYPE_CHECKING:
    from boardprof.boards.board_file import BoardSpec


_MARKS = {"run": "", "built": " (built, not run)", "none": ""}


@click.command()
@json_option
@width_option
def boards(as_json: bool) -> None:
    """List the boards and what each one lacks on this machine."""
    from boardprof.boards.board_file import load_board
    from boardprof.boards.board_lookup import find_boards
    from boardprof.doctor.environment import missing_text

    specs = [load_board(folder, with_counts=False) for folder in find_boards().values()]
    rows = [{"name": spec.name, **board_facts(spec)} for spec in specs]
    if as_json:
        echo_data(json.dumps({"schema_version": 1, "boards": rows}, indent=2))
        return
    width = max(len(spec.name) for spec in specs)
    for row in rows:
        mark = " (default)" if row["default"] else _MARKS[row["status"]]
        echo_lines(f"{row['name']:{width}}  {row['summary']}{mark}")
        for tool in row["missing"]:
            echo_lines(f"{'':{width}}  missing: {missing_text(tool)}")


def board_facts(spec: BoardSpec) -> dict[str, Any]:
    """Return the facts about a board that are known without starting it, as plain data."""
    from boardprof.doctor.environment import missing_tools

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
