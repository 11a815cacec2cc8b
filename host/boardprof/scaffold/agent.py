# SPDX-License-Identifier: Apache-2.0
"""The agent of a board that is a program of this machine, without a profiler."""

from __future__ import annotations

import os
from collections.abc import Sequence

from boardprof.boards.board_lookup import board_spec
from boardprof.errors import UsageError
from boardprof.firmware.build_options import BuildOptions
from boardprof.firmware.builder import build
from boardprof.transport.keyed import read_key


def serve_agent(
    board: str,
    paths: Sequence[str],
    code: BuildOptions,
    *,
    listen: str | None,
    key_file: str | None = None,
) -> None:
    """Build such a board and become it. Does not return.

    Args:
        board: its name.
        paths: the user's files and folders.
        code: how they are built.
        listen: ``HOST:PORT`` to serve. None for a pseudo-terminal.
        key_file: see `boardprof.connect`.

    Raises:
        UsageError: the board is not such a program, or the key is not valid.
    """
    spec = board_spec(board)
    if spec.launch.listen != "board":
        raise UsageError(
            f"{board} cannot serve a port, because it is not a program on this machine.",
            hint="`boardprof run -b " + board + " PATH:FUNCTION` starts it by itself",
        )
    line = ["--pty"] if listen is None else ["--listen", listen]
    line += ["--key-file", key_file] if key_file else []
    if listen is not None:
        read_key(key_file)  # or it would be the agent that refuses it, after it was built
    image = os.fspath(build(spec, paths, code).image)
    os.execv(image, [image, *line])
