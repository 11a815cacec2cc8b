# SPDX-License-Identifier: Apache-2.0
"""A session over a line that the test plays, by a clock that only waiting moves."""

from __future__ import annotations

import pytest

from boardprof.base.errors import BoardTimeoutError
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame
from boardprof_protocol.messages import WELCOME

FIELDS = {name: 0 for name in ("flags", "reserved", "reset_cause", "dictionary_hash")}
WELCOME_BODY = bytes(
    WELCOME.struct.build(
        FIELDS
        | {"version_min": 1, "version_max": 1, "pointer_size": 8, "window": 1, "boot_id": 9}
        | {"mtu_rx": 256, "mtu_tx": 256, "build_id": bytes(8), "last_sequence": 70}
    )
)
ANSWERS = {
    FrameKind.HELLO: (FrameKind.WELCOME, WELCOME_BODY),
    FrameKind.CALL: (FrameKind.RESULT, b"\x05"),
}


class PlayedLine:
    """Answers what it is asked, but not the first ``deaf`` frames of a kind: NAK to some calls."""

    name = "played"
    byte_time_s = 0.0

    def __init__(self, deaf: dict[FrameKind, int], naks: int = 0) -> None:
        self.now_s = 0.0
        self.naks = naks
        self.asked: list[int] = []
        self.deaf = dict(deaf)
        self._decoder = FrameDecoder()
        self.waiting = b""

    def write(self, data: bytes, timeout_s: float) -> None:
        for frame in self._decoder.feed(data):
            kind = FrameKind(frame.kind)
            self.asked.append(kind)
            self.deaf[kind] = self.deaf.get(kind, 0) - 1
            if kind is FrameKind.CALL and self.naks > 0:
                self.naks -= 1
                self.waiting += encode_frame(Frame(FrameKind.NAK, frame.session, 0, b""))
            elif self.deaf[kind] < 0:
                reply, body = ANSWERS[kind]
                self.waiting += encode_frame(Frame(reply, frame.session, frame.sequence, body))

    def read(self, timeout_s: float) -> bytes:
        data, self.waiting = self.waiting, b""
        self.now_s += 0.001 if data else timeout_s
        return data

    def printed(self) -> str:
        return ""

    def close(self) -> None:
        pass


def session_over(line: PlayedLine, timeout_s: float = 2.0) -> Session:
    return Session(line, timeout_s=timeout_s, clock=lambda: line.now_s)


NEVER = 1 << 30


def test_a_hello_is_not_answered_by_silence() -> None:
    line = PlayedLine({FrameKind.HELLO: NEVER})
    with pytest.raises(BoardTimeoutError, match=r"did not answer HELLO for 2 s"):
        session_over(line).open()
    assert line.now_s == pytest.approx(2.0)
    assert len(line.asked) >= 3, "it was sent again"


@pytest.mark.parametrize("arguments", [b"", b"\xc5\x00\x80" + bytes(128)])
def test_a_call_is_not_answered_by_silence(arguments: bytes) -> None:
    line = PlayedLine({FrameKind.CALL: NEVER})
    session = session_over(line)
    session.open()
    begin_s = line.now_s
    with pytest.raises(BoardTimeoutError, match=r"did not answer f for 2 s"):
        session.call(5, arguments, 1 if arguments else 0, name="f")
    assert line.now_s - begin_s == pytest.approx(2.0)


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_the_answer_counts_however_many_reads_came_back_empty_before(lost: int) -> None:
    line = PlayedLine({FrameKind.HELLO: lost, FrameKind.CALL: lost})
    session = session_over(line, timeout_s=20.0)
    assert session.open().last_sequence == 70
    result = session.call(5)
    assert (result.value, result.sent) == (5, 1 + lost)
    assert line.asked == [FrameKind.HELLO] * (1 + lost) + [FrameKind.CALL] * (1 + lost)
    assert session.call(5).sent == 1


def test_a_reply_that_comes_after_its_call_was_given_up_answers_no_other() -> None:
    line = PlayedLine({FrameKind.CALL: NEVER})
    session = session_over(line)
    session.open()
    with pytest.raises(BoardTimeoutError):
        session.call(5)
    late = encode_frame(Frame(FrameKind.RESULT, session.requests.session, 71, b"\x07"))
    line.deaf.clear()
    line.waiting = late
    assert session.call(5).value == 5


@pytest.mark.parametrize(
    ("naks", "hint"),
    [(9, "check whether f crashes or never ends"), (10, "check the wire to the board's receiver")],
)
def test_ten_frames_that_the_board_could_not_read_say_to_check_the_wire(
    naks: int, hint: str
) -> None:
    line = PlayedLine({FrameKind.CALL: NEVER}, naks)
    session = session_over(line)
    session.open()
    with pytest.raises(BoardTimeoutError, match="did not answer f for 2 s") as caught:
        session.value(1, b"", 0, "f")
    assert (caught.value.hint or "").startswith(hint)
    assert ("It received 10 damaged frames." in str(caught.value)) is (naks == 10)
