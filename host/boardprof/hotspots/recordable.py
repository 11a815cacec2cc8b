# SPDX-License-Identifier: Apache-2.0
"""On which boards calls can be recorded."""

from __future__ import annotations

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import UsageError


def check_recordable(spec: BoardSpec) -> None:
    """See that calls on a board can be recorded.

    Raises:
        UsageError: they cannot.
    """
    if spec.launch.record:
        return
    if spec.launch.kind == "serial":
        raise UsageError(
            f"Every instruction of a call can be seen on an emulated board, and {spec.name} is a "
            "real one.",
            hint="take an emulated board of the same core: boardprof boards",
        )
    raise UsageError(
        f"{spec.name} runs on this machine's own CPU, whose instructions nothing here records.",
        hint="take an emulated board: boardprof boards",
    )
