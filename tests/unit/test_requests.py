# SPDX-License-Identifier: Apache-2.0
"""The host's state machine under a clock that the test sets. Times are worked out by hand."""

from __future__ import annotations

import pytest

from boardprof.wire.link.requests import Requests, RttEstimate
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame

SESSION = 7


def answer(
    sequence: int, kind: FrameKind = FrameKind.RESULT, session: int = SESSION, version: int = 1
) -> bytes:
    return encode_frame(Frame(kind, session, sequence, b"\xc0", version))


def send(
    requests: Requests,
    kind: FrameKind,
    sequence: int,
    at_s: float,
    body: bytes = b"",
    silence_s: float = float("inf"),
) -> bytes:
    """Send a request; return its bytes."""
    encoded = requests.encode(kind, sequence, body)
    requests.request(kind, sequence, encoded, at_s, silence_s)
    return encoded


@pytest.fixture
def requests() -> Requests:
    """A requests with call 1 under way, sent at 10 s; its time-out is the first one, 250 ms."""
    requests = Requests(SESSION)
    send(requests, FrameKind.CALL, 1, 10.0, b"\x91\x05")
    return requests


# -- the time-out of RFC 6298 -----------------------------------------------------------------


def test_the_first_round_trip_sets_mean_and_variation() -> None:
    rtt = RttEstimate(floor_s=0.0)
    assert rtt.timeout_s == 0.25
    rtt.measured(0.08)
    assert rtt.timeout_s == pytest.approx(0.08 + 4 * 0.04)


def test_later_round_trips_move_mean_and_variation() -> None:
    rtt = RttEstimate(floor_s=0.0)
    rtt.measured(0.08)
    rtt.measured(0.16)
    # Variation: 3/4 * 0.04 + 1/4 * |0.08 - 0.16| = 0.05; then mean: 7/8 * 0.08 + 1/8 * 0.16 = 0.09.
    assert rtt.timeout_s == pytest.approx(0.09 + 4 * 0.05)
    rtt.measured(0.09)
    # Variation: 3/4 * 0.05 + 0 = 0.0375; mean: 0.09.
    assert rtt.timeout_s == pytest.approx(0.09 + 4 * 0.0375)


def test_the_time_out_is_never_below_the_floor() -> None:
    rtt = RttEstimate(floor_s=0.02)
    rtt.measured(0.001)
    assert rtt.timeout_s == 0.02


def test_the_floor_is_two_frame_times_and_20_ms() -> None:
    byte_time_s = 10 / 115200
    requests = Requests(SESSION, byte_time_s)
    assert requests.rtt.floor_s == pytest.approx(0.06444, abs=1e-5)  # frames of 256 bytes
    send(requests, FrameKind.HELLO, 0, 0.0)
    requests.receive(answer(0, FrameKind.WELCOME), 0.001)
    requests.expect_frames(1024)
    sent = len(send(requests, FrameKind.CALL, 1, 1.0))
    requests.receive(answer(1), 1.001)
    send(requests, FrameKind.CALL, 2, 2.0)
    # A reply of 1024 bytes is 89 ms on the wire: no reason to ask again while it comes.
    assert requests.next_at_s == pytest.approx(2.0 + 0.1778 + 0.02 + sent * byte_time_s, abs=1e-4)


def test_each_time_out_doubles_the_next_up_to_a_second() -> None:
    rtt = RttEstimate(floor_s=0.02)
    waits = []
    for _ in range(5):
        rtt.expired()
        waits.append(rtt.timeout_s)
    assert waits == [0.5, 1.0, 1.0, 1.0, 1.0]


def test_backing_off_never_shortens_a_longer_time_out() -> None:
    rtt = RttEstimate(floor_s=0.02)
    rtt.measured(2.0)
    assert rtt.timeout_s == 6.0
    rtt.expired()
    assert rtt.timeout_s == 6.0


# -- sending ----------------------------------------------------------------------------------


def test_a_request_is_sent_again_when_its_time_is_over_and_not_before(requests: Requests) -> None:
    assert requests.next_at_s == 10.25
    assert requests.outgoing(10.249) == b""
    again = requests.outgoing(10.25)
    assert again == encode_frame(Frame(FrameKind.CALL, SESSION, 1, b"\x91\x05"))
    assert requests.next_at_s == 10.75


def test_a_reply_ends_the_request(requests: Requests) -> None:
    (reply,) = requests.receive(answer(1), 10.1)
    assert (reply.kind, reply.body, requests.sent) == (FrameKind.RESULT, b"\xc0", 1)
    assert not requests.waits
    assert requests.outgoing(99.0) == b""
    assert requests.next_at_s == float("inf")


def test_a_reply_counts_in_whatever_pieces_it_comes(requests: Requests) -> None:
    encoded = b"boot\r\n" + answer(1)
    events = [event for byte in encoded for event in requests.receive(bytes([byte]), 10.1)]
    assert [event.kind for event in events] == [FrameKind.RESULT]
    assert requests.decoder.take_console() == b"boot\r\n"


def test_a_request_that_was_sent_twice_is_no_measurement(requests: Requests) -> None:
    """Karn's rule: nobody knows which of the two was answered."""
    requests.outgoing(10.25)
    assert len(requests.receive(answer(1), 10.26)) == 1
    send(requests, FrameKind.CALL, 2, 11.0)
    # Still backed off, twice 250 ms; 10 ms or 260 ms measured would give another figure.
    assert requests.next_at_s == 11.5


def test_a_request_that_was_sent_once_is_one(requests: Requests) -> None:
    requests.receive(answer(1), 10.1)
    send(requests, FrameKind.CALL, 2, 11.0)
    assert requests.next_at_s == pytest.approx(11.0 + 0.1 + 4 * 0.05)


def test_the_time_that_a_request_needs_on_the_wire_is_no_waiting() -> None:
    requests = Requests(SESSION, byte_time_s=0.001)
    length = len(send(requests, FrameKind.CALL, 1, 0.0, bytes(100)))
    assert requests.next_at_s == pytest.approx(0.25 + length * 0.001)


# -- what comes back --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        answer(2),
        answer(0),
        answer(1, session=SESSION + 1),
        answer(1, session=0),
        answer(1, FrameKind.WELCOME),
        answer(1, FrameKind.CALL),
        answer(1, FrameKind.BUSY),
        answer(1, version=2),
    ],
    ids=["later", "earlier", "other", "none", "welcome", "call", "busy", "version"],
)
def test_what_is_no_reply_to_the_request_changes_nothing(requests: Requests, frame: bytes) -> None:
    assert requests.receive(frame, 10.1) == []
    assert requests.next_at_s == 10.25


def test_a_late_duplicate_of_a_reply_is_no_answer_to_the_next_request(requests: Requests) -> None:
    assert len(requests.receive(answer(1), 10.1)) == 1
    assert requests.receive(answer(1), 10.2) == []
    send(requests, FrameKind.CALL, 2, 10.3)
    assert requests.receive(answer(1), 10.4) == []
    assert len(requests.receive(answer(2), 10.5)) == 1


def test_a_result_is_no_answer_to_hello() -> None:
    requests = Requests(SESSION)
    send(requests, FrameKind.HELLO, 0, 0.0)
    assert requests.receive(answer(0), 0.1) == []
    assert len(requests.receive(answer(0, FrameKind.WELCOME, version=3), 0.1)) == 1


@pytest.mark.parametrize("session", [SESSION, 0])
def test_nak_sends_the_request_again_without_backing_off(requests: Requests, session: int) -> None:
    assert requests.receive(answer(0, FrameKind.NAK, session), 10.01) == []
    assert requests.next_at_s == 10.01
    assert requests.outgoing(10.01) != b""
    assert requests.next_at_s == 10.26
    assert requests.naks == 1


def test_nak_of_another_session_is_not_heeded(requests: Requests) -> None:
    requests.receive(answer(0, FrameKind.NAK, SESSION + 1), 10.01)
    assert requests.next_at_s == 10.25


def test_nak_after_the_reply_sends_nothing(requests: Requests) -> None:
    requests.receive(answer(1) + answer(0, FrameKind.NAK), 10.01)
    assert requests.outgoing(99.0) == b""


def test_progress_puts_the_next_sending_off(requests: Requests) -> None:
    (event,) = requests.receive(answer(1, FrameKind.PROGRESS), 10.2)
    assert event.kind == FrameKind.PROGRESS
    assert requests.next_at_s == 15.2
    assert requests.outgoing(15.1) == b""
    assert requests.outgoing(15.2) != b""
    assert requests.next_at_s == 20.2


def test_after_progress_a_call_is_sent_again_before_its_deadline() -> None:
    requests = Requests(SESSION)
    send(requests, FrameKind.CALL, 1, 10.0, b"\x91\x05", 1.5)
    requests.receive(answer(1, FrameKind.PROGRESS), 10.2)
    assert requests.next_at_s == 10.95
    assert requests.outgoing(10.9) == b""
    assert requests.outgoing(10.95) != b""
    assert requests.next_at_s == 11.7


def test_a_call_with_progress_is_no_measurement(requests: Requests) -> None:
    requests.receive(answer(1, FrameKind.PROGRESS), 10.2)
    requests.receive(answer(1), 14.0)
    send(requests, FrameKind.CALL, 2, 20.0)
    assert requests.next_at_s == 20.25


def test_a_damaged_reply_is_console_and_the_next_one_counts(requests: Requests) -> None:
    damaged = bytearray(answer(1))
    damaged[5] ^= 0x40
    assert requests.receive(bytes(damaged), 10.1) == []
    assert requests.outgoing(10.25) != b""
    assert len(requests.receive(answer(1), 10.3)) == 1
    assert requests.decoder.take_console() == bytes(damaged).strip(b"\0")


# -- what ends a call -------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"\x91\x05", b"\x92\x05\xc5\x00\x80" + bytes(128)])
def test_silence_is_no_answer(body: bytes) -> None:
    requests = Requests(SESSION)
    for kind, sequence in ((FrameKind.HELLO, 0), (FrameKind.CALL, 1)):
        send(requests, kind, sequence, 0.0, body)
        assert list(requests.receive(b"", 0.1)) == []
        assert requests.waits


# They put zeros into the header at every place and at none.
@pytest.mark.parametrize("sequence", [1, 0x100, 0x1FF, 0x10000, 0x01010101, 0x12345678, 0xFFFFFFFF])
def test_a_result_ends_its_call_whatever_the_sequence_number(sequence: int) -> None:
    requests = Requests(SESSION)
    sent = send(requests, FrameKind.CALL, sequence, 0.0, b"\x91\x05")
    assert sent == encode_frame(Frame(FrameKind.CALL, SESSION, sequence, b"\x91\x05"))
    assert [frame.body for frame in requests.receive(answer(sequence), 0.1)] == [b"\xc0"]
    assert not requests.waits


NO_END = [
    answer(1, FrameKind.PROGRESS),
    answer(2),
    answer(1, session=6),
    answer(1, version=2),
    answer(1)[:-1],
    answer(1).replace(b"\xc0", b"\xc1"),
    b"\0" * 16,
    b"\x01" * 16,
]


@pytest.mark.parametrize("data", NO_END)
def test_a_call_goes_on_until_its_own_whole_answer(requests: Requests, data: bytes) -> None:
    requests.receive(data, 10.1)
    assert requests.waits


def test_a_result_does_not_end_a_hello() -> None:
    requests = Requests(SESSION)
    send(requests, FrameKind.HELLO, 0, 0.0)
    assert list(requests.receive(answer(0), 0.1)) == []
    assert requests.waits


@pytest.mark.parametrize(
    "before", [b"boot\n", answer(9), answer(1, FrameKind.NAK, 3), answer(1, session=6), b"\0\0"]
)
def test_an_answer_behind_something_else_counts_all_the_same(before: bytes) -> None:
    requests = Requests(SESSION)
    send(requests, FrameKind.CALL, 1, 0.0, b"\x91\x05")
    (reply,) = requests.receive(before + answer(1), 0.1)
    assert (reply.kind, reply.body, requests.sent) == (FrameKind.RESULT, b"\xc0", 1)


# -- breaking a call off ----------------------------------------------------------------------


def kinds(wire: bytes) -> list[tuple[int, int]]:
    return [(frame.kind, frame.sequence) for frame in FrameDecoder().feed(wire)]


def test_a_cancel_goes_out_at_once_and_again_with_its_call(requests: Requests) -> None:
    assert requests.cancel(10.1)
    assert kinds(requests.outgoing(10.1)) == [(FrameKind.CANCEL, 1)]
    assert requests.next_at_s == 10.35, "no time-out: it does not back off"
    assert kinds(requests.outgoing(10.35)) == [(FrameKind.CALL, 1), (FrameKind.CANCEL, 1)]
    assert requests.next_at_s == 10.85
    assert requests.cancel(10.4)
    assert requests.outgoing(10.4) == b"", "it has been asked for already"
    (reply,) = requests.receive(answer(1, FrameKind.ERROR), 10.5)
    assert (reply.kind, reply.body, requests.sent) == (FrameKind.ERROR, b"\xc0", 3)


def test_a_cancelled_call_that_shows_progress_is_still_asked_to_end(requests: Requests) -> None:
    requests.receive(answer(1, FrameKind.PROGRESS), 10.1)
    requests.cancel(10.2)
    requests.outgoing(10.2)
    requests.receive(answer(1, FrameKind.PROGRESS), 10.3)
    assert requests.next_at_s == 10.45


def test_there_is_nothing_to_cancel_without_a_call() -> None:
    requests = Requests(SESSION)
    assert not requests.cancel(0.0)
    send(requests, FrameKind.HELLO, 0, 0.0)
    assert not requests.cancel(0.0)
    send(requests, FrameKind.CALL, 1, 0.0)
    assert requests.cancel(0.0)
