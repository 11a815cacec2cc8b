# SPDX-License-Identifier: Apache-2.0
"""``boardprof boards``: which there are, and what each needs."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from boardprof.boards.board_file import BoardSpec

__all__ = ["board_facts", "boards"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def boards(as_json: bool) -> None:
    """List the boards, and what is missing for each on this machine."""
    from boardprof.boards.finding import find_boards, load_board

    specs = [load_board(folder) for folder in find_boards().values()]
    rows = [{"name": spec.name, **board_facts(spec)} for spec in specs]
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "boards": rows}, indent=2))
        return
    width = max(len(spec.name) for spec in specs)
    for row in rows:
        mark = " (default)" if row["default"] else ""
        click.echo(f"{row['name']:{width}}  {row['summary']}{mark}")
        for tool in row["missing"]:
            click.echo(f"{'':{width}}  missing: {tool['tool']} (Debian package {tool['package']})")


def board_facts(spec: BoardSpec) -> dict[str, Any]:
    """Return what is known of a board without starting it, as plain data."""
    needed = {spec.build.cc: spec.build.package}
    if spec.launch.command and "{" not in spec.launch.command[0]:
        needed[spec.launch.command[0]] = spec.launch.package or spec.launch.command[0]
    return {
        "summary": spec.summary,
        "default": spec.default,
        "launch": spec.launch.kind,
        "clock": spec.clock.kind,
        "time_scale": spec.clock.time_scale,
        "faults": spec.guard.facts(),
        "missing": [
            {"tool": tool, "package": package}
            for tool, package in needed.items()
            if shutil.which(tool) is None
        ],
    }
