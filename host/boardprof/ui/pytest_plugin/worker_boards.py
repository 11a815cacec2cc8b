# SPDX-License-Identifier: Apache-2.0
"""The boards of one worker: built, started and connected when a test needs them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from boardprof.base.processes import leased
from boardprof.measure.connect import connect_by
from boardprof.measure.session.board import Board
from boardprof.measure.session.open_board import open_firmware
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board_file import BoardSpec
from boardprof.target.descriptions.board_lookup import board_spec, default_board
from boardprof.target.toolchain.cache import cache_root
from boardprof.ui.pytest_plugin.options import Options


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
        port = self._options.connection.port
        spec = self._spec(wanted)
        if port is not None:
            with self._leased(port), self._connected(wanted, spec) as board:
                yield board
            return
        assert spec is not None
        if wanted not in self._open:
            self._open[wanted] = self._connected(wanted, spec)
        if spec.clock.kind == "simulated":
            yield self._open[wanted]
            return
        with self._leased(spec.name):
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

    def _leased(self, what: str) -> AbstractContextManager[None]:
        hint = "wait longer with --bp-wait SECONDS"
        return leased(cache_root() / "leases", what, self._options.wait_s, hint=hint)

    def _spec(self, wanted: Wanted) -> BoardSpec | None:
        if wanted.name is not None:
            return board_spec(wanted.name)
        return default_board() if self._options.connection.port is None else None

    def _connected(self, wanted: Wanted, spec: BoardSpec | None) -> Board:
        if not wanted.sources:
            return connect_by(self._options.connection, spec)
        from boardprof.target.build.builder import build  # later: it knows all compilers

        firmware = build(spec or default_board(), wanted.sources, wanted.options)
        self.compiled[wanted] = firmware.sources
        return open_firmware(firmware, self._options.connection)
