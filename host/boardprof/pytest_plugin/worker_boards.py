# SPDX-License-Identifier: Apache-2.0
"""The boards of one worker: built, started and connected when a test needs them."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from boardprof.board.board import Board
from boardprof.boards.board_file import BoardSpec
from boardprof.boards.board_lookup import board_spec, default_board
from boardprof.connection import connect
from boardprof.errors import BusyError
from boardprof.firmware.build_options import BuildOptions
from boardprof.processes import lock_within
from boardprof.pytest_plugin.options import Options
from boardprof.toolchain.cache import cache_root


@dataclass(frozen=True)
class Wanted:
    """A board that a test needs, and what runs on it.

    Attributes:
        name: of the board; None takes the default one, or the board at the port.
        sources: files and folders to build; empty to use the firmware at the port.
        options: how they are built.
    """

    name: str | None = None
    sources: tuple[Path, ...] = ()
    options: BuildOptions = field(default_factory=BuildOptions)


class Boards:
    """Lends connected boards; boards that it has started run until `close`.

    Attributes:
        compiled: for each build, the files that it was compiled from, including headers.
    """

    def __init__(self, options: Options) -> None:
        """Start nothing yet."""
        self._options = options
        self._open: dict[Wanted, Board] = {}
        self.compiled: dict[Wanted, tuple[Path, ...]] = {}

    @contextlib.contextmanager
    def board(self, wanted: Wanted) -> Iterator[Board]:
        """Lend a board to one test.

        A board at a port and this machine are leased for that time, so that no other worker
        measures there. An emulator with its own clock belongs to this worker and keeps running.

        Raises:
            BoardprofError: it cannot be built, started or reached.
        """
        port = self._options.port
        spec = self._spec(wanted)
        folder = cache_root() / "leases"
        if port is not None:
            with leased(folder, port, self._options.wait_s), self._connected(wanted, spec) as board:
                yield board
            return
        assert spec is not None
        if wanted not in self._open:
            self._open[wanted] = self._connected(wanted, spec)
        if spec.clock.kind == "simulated":
            yield self._open[wanted]
            return
        with leased(folder, spec.name, self._options.wait_s):
            yield self._open[wanted]

    def forget(self, wanted: Wanted) -> None:
        """Close a board that a test left in a bad state; the next test starts it again."""
        board = self._open.pop(wanted, None)
        if board is not None:
            board.close()

    def close(self) -> None:
        """Close what is open."""
        for wanted in [*self._open]:
            self.forget(wanted)

    def _spec(self, wanted: Wanted) -> BoardSpec | None:
        if wanted.name is not None:
            return board_spec(wanted.name)
        return default_board() if self._options.port is None else None

    def _connected(self, wanted: Wanted, spec: BoardSpec | None) -> Board:
        port = self._options.port
        how: dict[str, Any] = {
            "baud": self._options.baud,
            "timeout_s": self._options.timeout_s,
            "wall_timeout_s": self._options.wall_timeout_s,
        }
        if not wanted.sources:
            return connect(spec, port, **how)
        from boardprof.firmware.builder import build  # later: it knows all compilers

        firmware = build(spec or default_board(), wanted.sources, wanted.options)
        self.compiled[wanted] = firmware.sources
        return firmware.open(port, **how)


@contextlib.contextmanager
def leased(folder: Path, what: str, timeout_s: float) -> Iterator[None]:
    """Hold the lease of ``what``; the kernel releases it if this process dies.

    Args:
        folder: for the leases of all workers of this user; created if missing.
        what: a port or a board's name.
        timeout_s: how long to wait for another worker.

    Raises:
        BusyError: another process has it for longer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / hashlib.sha256(what.encode()).hexdigest()[:16]
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not lock_within(handle, timeout_s):
            holder = os.pread(handle, 64, 0).decode(errors="replace") or "another process"
            raise BusyError(
                f"{what} has been in use by {holder} for more than {timeout_s:g} s.",
                owner=holder,
                hint="wait longer with --bp-wait SECONDS",
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}".encode(), 0)
        yield
    finally:
        os.close(handle)  # gives the lock back
