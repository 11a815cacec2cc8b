# SPDX-License-Identifier: Apache-2.0
"""On which boards calls can be recorded."""

from __future__ import annotations

from boardprof.boards.board_file import BoardSpec
from boardprof.boards.board_lookup import board_spec, find_boards
from boardprof.errors import UsageError


def check_recordable(spec: BoardSpec) -> None:
    """See that calls on a board can be recorded.

    Raises:
        UsageError: they cannot.
    """
    if spec.launch.record or spec.launch.recorder:
        return
    if spec.launch.kind == "serial":
        raise UsageError(
            f"Every instruction of a call can be seen on an emulated board, and {spec.name} is a "
            "real one.",
            hint="take an emulated board of the same core: boardprof boards",
        )
    others = [name for name in find_boards() if board_spec(name).launch.recorder]
    raise UsageError(
        f"{spec.name} runs in this process, where nothing can record a call.",
        hint=f"take {' or '.join(f'-b {name}' for name in others)}, or an emulated board: "
        "boardprof boards",
    )
