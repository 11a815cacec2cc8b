# SPDX-License-Identifier: Apache-2.0
"""A connected `Board` whose agent is the C one in memory, on a line with a clock of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cffi import FFI
from construct import Int32ul, Struct

from boardprof.measure.board.board import Board
from boardprof.measure.board.line import fetch_dictionary
from boardprof.target.descriptions.board import ClockSpec, board_spec
from boardprof.wire.link.session import Session
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame
from boardprof_protocol.layout import Counter, Layout
from tests.memory_board import FULL, MemoryBoard, build_library

__all__ = ["MemoryLine", "altered", "connected"]

PROBE = Layout(
    "probe",
    60000,
    1,
    Struct("start" / Int32ul * "count", "stop" / Int32ul * "count"),
    (Counter("calls", "start", "stop"),),
)
SLOTS = Layout(
    "slots",
    60001,
    1,
    Struct(*(f"slot{i}_{part}" / Int32ul * "count" for i in (0, 1) for part in ("start", "stop"))),
    tuple(Counter(f"slot{i}", f"slot{i}_start", f"slot{i}_stop") for i in (0, 1)),
    programmable=True,
)
"""Of the collectors in tests/c/firmware.c."""


class MemoryLine:
    """The line to a board in memory; only waiting moves its clock.

    Attributes:
        byte_time_s: seconds that a byte takes.
        now_s: the time.
        answer_s: how long the board takes for each answer.
        sent: frames of the host.
        change: what becomes of what the board sends at a time.
    """

    name = "memory"

    def __init__(self, board: MemoryBoard, byte_time_s: float = 0.0) -> None:
        self.byte_time_s = byte_time_s
        self.now_s = 0.0
        self.answer_s = 0.001
        self.sent: list[Frame] = []
        self.change: Callable[[bytes], bytes] = bytes
        self._board = board
        self._decoder = FrameDecoder()
        self._waiting = b""

    def write(self, data: bytes, timeout_s: float) -> None:
        self.sent += self._decoder.feed(data)
        self._waiting += self.change(self._board.send(data))

    def read(self, timeout_s: float) -> bytes:
        data, self._waiting = self._waiting, b""
        self.now_s += self.answer_s if data else timeout_s
        return data

    def printed(self) -> str:
        return ""

    def close(self) -> None:
        pass


def altered(change: Callable[[Frame], Frame]) -> Callable[[bytes], bytes]:
    """Return what makes ``change`` of each frame that a board sends, for `MemoryLine.change`."""
    return lambda data: b"".join(encode_frame(change(each)) for each in FrameDecoder().feed(data))


@functools.cache
def _library(config: tuple[tuple[str, int], ...]) -> tuple[FFI, Any]:
    return build_library(dict(config))


def connected(
    config: Mapping[str, int] = FULL,
    *,
    events: Mapping[str, Mapping[str, int]] | None = None,
    unsupported: Mapping[str, str] | None = None,
    clock: str = "simulated",
    byte_time_s: float = 0.0,
) -> tuple[Board, MemoryBoard, MemoryLine]:
    """Return a board over an agent in memory that was just reset, the agent, and their line.

    Args:
        config: macros of the agent.
        events: collector -> event -> code, as in ``board.toml``. The agent's own list of events is
            hidden for these collectors.
        unsupported: as in ``board.toml``.
        clock: kind of the board's clock.
        byte_time_s: seconds that a byte takes on the line.
    """
    memory = MemoryBoard(*_library(tuple(sorted(config.items()))))
    line = MemoryLine(memory, byte_time_s)
    session = Session(line, timeout_s=5.0, clock=lambda: line.now_s)
    welcome = session.open()
    layouts = {layout.schema_id: layout for layout in (*collector_layouts(), PROBE, SLOTS)}
    found = fetch_dictionary(session, None)
    hidden = {f"{name}.event" for name in events or ()}
    dictionary = replace(
        found,
        functions=tuple(each for each in found.functions if each.name not in hidden),
        collectors=tuple(  # the CRCs in tests/c/firmware.c are made up
            replace(each, layout_crc=layouts[each.schema_id].crc) for each in found.collectors
        ),
    )
    spec = replace(
        board_spec("native"),
        name="memory",
        clock=ClockSpec(clock),
        events=events or {},
        unsupported=unsupported or {},
    )
    board = Board(spec, session, welcome, dictionary, layouts, is_started=True)
    return board, memory, line
