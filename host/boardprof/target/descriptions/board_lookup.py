# SPDX-License-Identifier: Apache-2.0
"""Finds boards by their names; a board's name is its folder's.

Boards come with boardprof (``boards/``) or from other packages, through entry points of the group
``boardprof.boards``. Each entry point is the path of a board's folder, or a function that returns
it.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.packages import brought
from boardprof.base.resources import boards_dir
from boardprof.target.descriptions.board_file import BOARD_FILE, BoardSpec, ClockSpec, load_board
from boardprof.target.descriptions.build_and_guard import BuildSpec
from boardprof.target.descriptions.launch import DEFAULT_BAUD, LaunchSpec


def find_boards() -> dict[str, Path]:
    """Return the folder of every board, by name: boardprof's own, then other packages'.

    An entry point that cannot be used, or whose name is taken, is ignored with a warning.
    """
    boards = _own_boards()
    for folder, place in brought("boards", "The board", _folder):
        if folder.name in boards:
            warnings.warn(
                f"The board {folder.name!r} in {place} is ignored: "
                f"{boards[folder.name]} already has this name.",
                stacklevel=2,
            )
            continue
        boards[folder.name] = folder
    return boards


def board_spec(name: str) -> BoardSpec:
    """Read the board called ``name``; a name with a ``/`` is the path of a board's folder.

    Raises:
        UnknownNameError: the board does not exist.
        UsageError: its ``board.toml`` is wrong.
    """
    if os.sep in name:
        return load_board(Path(name).expanduser())
    try:
        return _board_called(name)
    except UnknownNameError as error:
        if (Path(name) / BOARD_FILE).is_file():
            error.hint = f"give -b .{os.sep}{name}: the path of a folder needs a {os.sep}"
        elif "," in name:
            error.hint = "give one board: only `boardprof run` takes several"
        raise


def _board_called(name: str) -> BoardSpec:
    own = _own_boards()
    if name in own:  # before other packages are imported
        return load_board(own[name])
    boards = find_boards()
    if name not in boards:
        raise UnknownNameError("board", name, boards)
    return load_board(boards[name])


def default_board() -> BoardSpec:
    """Read the default board, which is one of boardprof's own.

    Raises:
        UsageError: not exactly one board has ``default = true``.
    """
    specs = [load_board(folder, with_counts=False) for folder in _own_boards().values()]
    defaults = [spec for spec in specs if spec.default]
    if len(defaults) != 1:
        names = ", ".join(spec.name for spec in defaults) or "none"
        raise UsageError(
            f"Exactly one board must have default = true; in {boards_dir()} these have it: "
            f"{names}.",
            hint="name the board",
        )
    return defaults[0]


def unnamed_board() -> BoardSpec:
    """Return the description of a board at a port before its name is known; its name is ""."""
    return BoardSpec(
        name="",
        folder=boards_dir(),  # without counters of its own
        summary="a board without a description",
        build=BuildSpec(cc="", package=""),
        launch=LaunchSpec("serial", baud=DEFAULT_BAUD),
        clock=ClockSpec("declared"),
    )


def what_it_says(spec: BoardSpec, name: str) -> BoardSpec:
    """Return the description of a board that has reported its name.

    Args:
        spec: the expected board, which is returned. For `unnamed_board` it is the known board of
            that name; if there is none, only the name is added.
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


def check_recordable(spec: BoardSpec) -> None:
    """Check that calls on a board can be recorded.

    Raises:
        UsageError: they cannot.
    """
    if spec.launch.record or spec.launch.recorder:
        return
    if spec.launch.kind == "serial":
        raise UsageError(
            f"Every instruction of a call can be seen on an emulated board, and {spec.name} is a "
            "real one.",
            hint="sample it instead (--sampled, or sampled=True), or take an emulated board of the "
            "same core: boardprof boards",
        )
    others = [name for name in find_boards() if board_spec(name).launch.recorder]
    raise UsageError(
        f"{spec.name} runs in this process, where nothing can record a call.",
        hint=f"take {' or '.join(f'-b {name}' for name in others)}, or an emulated board: "
        "boardprof boards",
    )


def _own_boards() -> dict[str, Path]:
    return {path.parent.name: path.parent for path in sorted(boards_dir().glob(f"*/{BOARD_FILE}"))}


def _folder(found: Any) -> Path:
    """Return the folder that an entry point names.

    Raises:
        UsageError: it is not a board's.
    """
    folder = Path(found() if callable(found) else found).resolve()
    if not (folder / BOARD_FILE).is_file():
        raise UsageError(f"{folder} has no {BOARD_FILE}.")
    return folder
