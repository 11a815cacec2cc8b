# SPDX-License-Identifier: Apache-2.0
"""``boardprof new``: create a board or collector, with marks where to change its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from boardprof.ui.cli.group import Commands
from boardprof.ui.cli.options import complete_board, json_option
from boardprof.ui.cli.output import echo, echo_json

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group(cls=Commands)
def new() -> None:
    """Create the files of a new board or collector."""


@new.command(short_help="Copy the folder of a board as a new board.")
@click.argument("name")
@click.option(
    "--like",
    required=True,
    metavar="BOARD",
    shell_complete=complete_board,
    help="Board to copy from.",
)
@click.argument("folder", metavar="[DIR]", default=".", type=_FOLDER)
@json_option
def board(name: str, like: str, folder: Path, as_json: bool) -> None:
    """Create DIR/NAME, the folder of a board, as a copy of another board. It builds at once.

    A comment with CHANGE marks each place that still describes the other board.
    """
    from boardprof.target.scaffold import MARK, new_board

    target = new_board(name, like, folder)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    if as_json:
        echo_json(_facts(files, [f"boardprof build -b {_as_folder(target)}"]))
        return
    for path in files:
        marks = path.read_text(errors="replace").count(MARK)
        echo(f"{path}: {marks} to change" if marks else path)
    echo(f"See them: grep -rn {MARK} {target}")
    echo(f"Build it: boardprof build -b {_as_folder(target)}")


@new.command(short_help="Create the files of a collector.")
@click.argument("name")
@click.argument("folder", metavar="[DIR]", default=".", type=_FOLDER)
@json_option
def collector(name: str, folder: Path, as_json: bool) -> None:
    """Create the files of a collector: bp_NAME.c, its layout and its vectors.

    DIR is the folder of a board, a checkout of boardprof, or the folder of your own Python package.
    A comment with CHANGE marks each place to fill in. Until then the collector counts ticks.
    """
    from boardprof.target.scaffold import new_collector

    made = new_collector(name, folder)
    if as_json:
        echo_json(_facts(made.files, made.steps))
        return
    for path in made.files:
        echo(path)
    echo("Then:")
    for step in made.steps:
        echo(f"  {step}")


def _facts(files: Sequence[Path], steps: Sequence[str]) -> dict[str, Any]:
    return {"schema_version": 1, "files": [str(file) for file in files], "steps": list(steps)}


def _as_folder(path: Path) -> str:
    """Return a path that cannot be taken for a board's name."""
    return str(path) if path.is_absolute() or len(path.parts) > 1 else f"./{path}"
