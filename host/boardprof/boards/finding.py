# SPDX-License-Identifier: Apache-2.0
"""The boards there are, by name: a board's name is its folder's.

They come with boardprof (``boards/``) or from other packages, through entry
points of the group ``boardprof.boards``: each names the folder of one board, as
a path or as a function that returns one.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from boardprof.boards.board_file import (
    BOARD_FILE,
    BoardSpec,
    BuildSpec,
    ClockSpec,
    LaunchSpec,
    load_board,
)
from boardprof.boards.launch import DEFAULT_BAUD
from boardprof.errors import UnknownNameError, UsageError
from boardprof.packages import brought
from boardprof.resources import boards_dir

__all__ = [
    "BoardSpec",
    "BuildSpec",
    "ClockSpec",
    "LaunchSpec",
    "board_spec",
    "default_board",
    "find_boards",
    "load_board",
    "unnamed_board",
    "what_it_says",
]


def find_boards() -> dict[str, Path]:
    """Return the folder of every board, by name: boardprof's own, then other packages'.

    A package whose entry point cannot be used, or brings a name that is taken,
    is left out with a warning.
    """
    boards = _own_boards()
    for folder, place in brought("boards", "The board", _folder):
        if folder.name in boards:
            warnings.warn(
                f"The board {folder.name!r} of {place} is left out: "
                f"{boards[folder.name]} has the name.",
                stacklevel=2,
            )
            continue
        boards[folder.name] = folder
    return boards


def board_spec(name: str) -> BoardSpec:
    """Read the board called ``name``; with a ``/`` it is the path of a board's folder.

    Raises:
        UnknownNameError: there is no such board.
        UsageError: its ``board.toml`` is wrong.
    """
    if os.sep in name:
        return load_board(Path(name).expanduser())
    try:
        return _board_called(name)
    except UnknownNameError as error:
        if (Path(name) / BOARD_FILE).is_file():
            error.hint = f"-b .{os.sep}{name}: a folder is a path, with a {os.sep}"
        elif "," in name:
            error.hint = "one board: only `boardprof run` takes several"
        raise


def _board_called(name: str) -> BoardSpec:
    own = _own_boards()
    if name in own:  # so that other packages are not even imported
        return load_board(own[name])
    boards = find_boards()
    if name not in boards:
        raise UnknownNameError("board", name, boards)
    return load_board(boards[name])


def default_board() -> BoardSpec:
    """Read the board to take when none is named; it is always one of boardprof's own.

    Raises:
        UsageError: not exactly one board has ``default = true``.
    """
    specs = [load_board(folder, with_counts=False) for folder in _own_boards().values()]
    defaults = [spec for spec in specs if spec.default]
    if len(defaults) != 1:
        names = ", ".join(spec.name for spec in defaults) or "none"
        raise UsageError(
            f"Exactly one board must have default = true; in {boards_dir()} it is: {names}.",
            hint="name the board",
        )
    return defaults[0]


def unnamed_board() -> BoardSpec:
    """Return what stands for a board at a port until it has said what it is; its name is ""."""
    return BoardSpec(
        name="",
        folder=boards_dir(),  # which has no counters of its own
        summary="a board that boardprof has no description of",
        build=BuildSpec(cc="", package=""),
        launch=LaunchSpec("serial", baud=DEFAULT_BAUD),
        clock=ClockSpec("declared"),
    )


def what_it_says(spec: BoardSpec, name: str) -> BoardSpec:
    """Return the description of the board that says it is ``name``.

    Args:
        spec: what was expected; of `unnamed_board`, the answer is another one: the board's of that
            name, or, if there is none, what every agent tells by itself.
        name: from the board's dictionary.

    Raises:
        UsageError: its ``board.toml`` is wrong.
    """
    if spec.name:
        return spec
    try:
        return _board_called(name).at_port()  # never a path: the name comes over the wire
    except UnknownNameError:
        return replace(spec, name=name)


def _own_boards() -> dict[str, Path]:
    return {path.parent.name: path.parent for path in sorted(boards_dir().glob(f"*/{BOARD_FILE}"))}


def _folder(found: Any) -> Path:
    """Return the folder that an entry point names.

    Raises:
        UsageError: there is no board in it.
    """
    folder = Path(found() if callable(found) else found).resolve()
    if not (folder / BOARD_FILE).is_file():
        raise UsageError(f"{folder} has no {BOARD_FILE}.")
    return folder
