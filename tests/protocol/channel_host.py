# SPDX-License-Identifier: Apache-2.0
"""The host's side of a channel, written from SPEC.md 4.5 alone, for the tests of the agent.

Frames go over a line that loses, doubles or swaps those that a test names.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from boardprof_protocol.codes import AckFlag, FrameKind
from boardprof_protocol.frame import Frame, encode_frame
from tests.memory_board import AgentBoard

__all__ = ["ALL", "Line", "ack", "acks", "data", "download", "noise", "open_channel", "upload"]

ALL = 0xFFFFFFFF
"""More credit than any test uses."""


def data(board: AgentBoard, channel: int, offset: int, content: bytes) -> Frame:
    """Return a DATA frame of the board's session."""
    return Frame(FrameKind.DATA, board.session, channel, struct.pack("<I", offset) + content)


def ack(board: AgentBoard, channel: int, offset: int, credit: int, flags: int = 0) -> Frame:
    """Return an ACK frame of the board's session."""
    return Frame(FrameKind.ACK, board.session, channel, struct.pack("<IIB", offset, credit, flags))


def acks(frames: Iterable[Frame]) -> list[tuple[int, int, int]]:
    """Return offset, credit and flags of frames that are all ACKs."""
    found = list(frames)
    assert all(frame.kind == FrameKind.ACK for frame in found)
    return [struct.unpack("<IIB", frame.body) for frame in found]


def noise(length: int, seed: int = 1) -> bytes:
    """Return the same random bytes each time."""
    return random.Random(seed).randbytes(length)


def open_channel(board: AgentBoard, function: int, *arguments: int) -> tuple[int, list[Frame]]:
    """Open a channel; return it and the frames behind the RESULT."""
    call = board.frame(function, *arguments)
    result, *more = board.exchange(call)
    assert (result.kind, result.body) == (FrameKind.RESULT, b"\xc0")
    return call.sequence, more


@dataclass
class Line:
    """What happens to DATA and ACK frames; they are numbered from 0, each way apart.

    Attributes:
        lost: (to the board, number) of frames that never come.
        doubled: of frames that come twice.
        late: of frames that come after the next one.
        frames: how many have been sent, each way.
    """

    lost: set[tuple[bool, int]] = field(default_factory=set)
    doubled: set[tuple[bool, int]] = field(default_factory=set)
    late: set[tuple[bool, int]] = field(default_factory=set)
    frames: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    _held: dict[bool, list[Frame]] = field(default_factory=lambda: {True: [], False: []})

    @classmethod
    def with_fault(cls, fault: str, to_board: bool, number: int) -> Line:
        """Return a line that does one thing wrong: ``lost``, ``doubled`` or ``late``."""
        line = cls()
        getattr(line, fault).add((to_board, number))
        return line

    def carry(self, to_board: bool, frames: Iterable[Frame]) -> list[Frame]:
        """Return what arrives of these frames, and what was held back before."""
        arrived: list[Frame] = []
        for frame in frames:
            key = (to_board, self.frames[to_board])
            self.frames[to_board] += 1
            before, self._held[to_board] = self._held[to_board], []
            if key in self.late:
                self._held[to_board] = [*before, frame]
                continue
            if key not in self.lost:
                arrived += [frame, frame] if key in self.doubled else [frame]
            arrived += before
        return arrived

    def exchange(self, board: AgentBoard, frames: Iterable[Frame]) -> list[Frame]:
        """Send frames; return what arrives of the board's answers."""
        arrived = self.carry(True, frames)
        return self.carry(False, board.exchange(*arrived)) if arrived else []


def upload(
    board: AgentBoard, channel: int, first: list[Frame], content: bytes, mtu: int, line: Line
) -> None:
    """Send all bytes of a block, as a host that has nothing but SPEC.md."""
    passed = credit = following = 0
    on_way: list[tuple[int, int]] = []  # where a frame begins, its bytes on the line
    answers = line.carry(False, first)
    for _ in range(10_000):
        moved = bool(answers)
        for offset, allowed, flags in acks(answers):
            if not passed <= offset <= len(content):
                continue
            passed, credit = offset, allowed
            following = passed if flags & AckFlag.RESEND else max(following, passed)
            on_way = [] if flags & AckFlag.RESEND else [f for f in on_way if f[0] >= passed]
        if passed == len(content):
            return
        if not moved:  # the time-out: all of it again, and at first one byte alone
            following, on_way, credit = passed, [], credit or 19
        frames = []
        while following < len(content):
            room = credit - sum(size for _, size in on_way)
            frame = _fill(board, channel, following, content, min(room, mtu))
            if frame is None:
                break
            frames.append(frame)
            on_way.append((following, len(encode_frame(frame))))
            following += len(frame.body) - 4
        answers = line.exchange(board, frames)
    raise AssertionError(f"no end after {passed} bytes")


def _fill(board: AgentBoard, channel: int, offset: int, content: bytes, room: int) -> Frame | None:
    """Return the longest DATA frame that fits `room` whatever its bytes; None: not one byte."""
    longest = room - 2 - (room - 2 + 254) // 255 - 11 - 4
    if longest < 1:
        return None
    return data(board, channel, offset, content[offset : offset + longest])


def download(
    board: AgentBoard, channel: int, length: int, credit: int, line: Line, *, first: int = 0
) -> bytes:
    """Take so many bytes, from number `first` on, acknowledging each frame."""
    content = b""
    gap = False
    answers: list[Frame] = []
    asked = [ack(board, channel, first, credit)]
    for _ in range(10_000):
        answers = line.exchange(board, asked)
        asked = []
        for frame in answers:
            assert (frame.kind, frame.sequence) == (FrameKind.DATA, channel)
            (offset,) = struct.unpack("<I", frame.body[:4])
            ahead = (offset - first - len(content)) & 0xFFFFFFFF
            flags = 0
            if ahead == 0:
                content += frame.body[4:]
                gap = False
            elif ahead < 1 << 31:
                if gap:
                    continue
                gap, flags = True, AckFlag.RESEND
            at = (first + len(content)) & 0xFFFFFFFF
            asked.append(ack(board, channel, at, credit, flags))
        if not answers and len(content) == length:
            return content
        if not answers:
            at = (first + len(content)) & 0xFFFFFFFF
            asked = [ack(board, channel, at, credit, AckFlag.RESEND)]
    raise AssertionError(f"no end after {len(content)} bytes")
