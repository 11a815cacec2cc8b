# SPDX-License-Identifier: Apache-2.0
"""Runs the command with a terminal as its output."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cli.command import BOARDPROF

__all__ = ["WIDTH", "on_terminal"]

WIDTH = 60


def on_terminal(
    *arguments: str | Path,
    environment: Mapping[str, str],
    both: bool = False,
    program: Sequence[str] = BOARDPROF,
) -> tuple[int, str]:
    """Run the command with its output on a terminal of 60 columns; ``both``: with stderr, too."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "TERM"}}
    with subprocess.Popen(
        [*program, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs if both else subprocess.DEVNULL,
        env={**kept, **environment},
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while piece := _read(ours):
                written += piece
            return process.wait(30), written.decode().replace("\r\n", "\n")
        finally:
            process.kill()
            os.close(ours)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # EIO: nobody has the other end any more
        return b""
