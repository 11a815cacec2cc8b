# SPDX-License-Identifier: Apache-2.0
"""Channels against a peer that is written out here, under a clock that the test sets."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator

import pytest

from boardprof.wire.link.requests import Requests
from boardprof.wire.link.transfer import Receiver, Upload
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame
from boardprof_protocol.messages import ACK, DATA

SESSION, CHANNEL = 7, 3
CONTENT = bytes((7 * i + i // 251) % 256 for i in range(1000))


def data(offset: int, content: bytes) -> Frame:
    return Frame(FrameKind.DATA, SESSION, CHANNEL, struct.pack("<I", offset % 2**32) + content)


def ack(offset: int, credit: int, flags: int = 0) -> Frame:
    return Frame(FrameKind.ACK, SESSION, CHANNEL, struct.pack("<IIB", offset, credit, flags))


NAK = Frame(FrameKind.NAK, SESSION, 0)


def acks(wire: bytes) -> list[tuple[int, int, int]]:
    """Return (offset, credit, flags) of each ACK."""
    return [struct.unpack("<IIB", frame.body) for frame in FrameDecoder().feed(wire)]  # type: ignore[misc]


def pieces(wire: bytes) -> list[tuple[int, int]]:
    """Return (offset, bytes) of each DATA frame."""
    frames = FrameDecoder().feed(wire)
    return [(int.from_bytes(f.body[:4], "little"), len(f.body) - 4) for f in frames]


def receiver(credit: int = 1000, length: int | None = 1000) -> tuple[Requests, Receiver]:
    client = Requests(SESSION)
    channel = Receiver(client, CHANNEL, credit, length)
    client.channel = channel
    return client, channel


def upload(frame: int = 200, window: int = 1000) -> tuple[Requests, Upload]:
    client = Requests(SESSION)
    channel = Upload(client, CHANNEL, CONTENT, frame_bytes=frame, window=window)
    client.channel = channel
    channel.begin(0.0)
    return client, channel


def feed(client: Requests, *frames: Frame, now: float = 0.0) -> bytes:
    """Let the frames arrive and return what is sent in answer."""
    client.receive(b"".join(map(encode_frame, frames)), now)
    return client.outgoing(now)


def test_the_layouts_are_those_that_the_channels_pack() -> None:
    assert ACK.struct.parse(struct.pack("<IIB", 1, 2, 1)) == {"offset": 1, "credit": 2, "flags": 1}
    assert (ACK.size, DATA.size) == (9, 4)


# -- taking -----------------------------------------------------------------------------------


def test_nothing_is_asked_for_before_the_channel_is_open() -> None:
    client, channel = receiver()
    assert client.outgoing(99.0) == b""
    channel.begin(100.0)
    assert acks(client.outgoing(100.0)) == [(0, 1000, 0)]
    assert client.outgoing(100.0) == b""


def test_bytes_in_order_are_acknowledged_when_half_of_the_credit_is_used() -> None:
    client, channel = receiver(credit=600)
    channel.begin(0.0)
    client.outgoing(0.0)
    assert feed(client, data(0, CONTENT[:200])) == b""
    assert acks(feed(client, data(200, CONTENT[200:400]))) == [(400, 600, 0)]
    assert feed(client, data(400, CONTENT[400:600])) == b""
    assert acks(feed(client, data(600, CONTENT[600:]))) == [(1000, 600, 0)]
    assert channel.done
    assert channel.take() == CONTENT
    assert channel.crc == zlib.crc32(CONTENT)
    assert channel.crc_at(1000) == zlib.crc32(CONTENT)
    assert channel.crc_at(400) == zlib.crc32(CONTENT[:400])
    assert channel.crc_at(401) is None


@pytest.mark.parametrize(("credit", "expected"), [(464, [(200, 464, 0)]), (466, [])])
def test_a_frame_uses_its_content_and_32_bytes_of_the_credit(
    credit: int, expected: list[tuple[int, int, int]]
) -> None:
    client, channel = receiver(credit=credit)
    channel.begin(0.0)
    client.outgoing(0.0)
    assert acks(feed(client, data(0, CONTENT[:200]))) == expected


def test_a_gap_is_asked_for_once_and_what_is_behind_it_discarded() -> None:
    client, channel = receiver()
    channel.begin(0.0)
    client.outgoing(0.0)
    feed(client, data(0, CONTENT[:100]))
    assert acks(feed(client, data(200, CONTENT[200:300]))) == [(100, 1000, 1)]
    assert feed(client, data(300, CONTENT[300:400])) == b""
    feed(client, data(100, CONTENT[100:200]))
    assert channel.position == 200
    assert acks(feed(client, data(300, CONTENT[300:400]))) == [(200, 1000, 1)], "another gap"


def test_what_is_here_already_is_acknowledged_again_and_not_taken_twice() -> None:
    client, channel = receiver()
    channel.begin(0.0)
    client.outgoing(0.0)
    feed(client, data(0, CONTENT[:100]))
    assert acks(feed(client, data(0, CONTENT[:100]))) == [(100, 1000, 0)]
    feed(client, data(50, CONTENT[50:150]))
    assert channel.take() == CONTENT[:150]


@pytest.mark.parametrize(
    "frame",
    [
        data(901, CONTENT[900:]),
        data(2**32 - 1, b"ab")._replace(sequence=CHANNEL + 1),
        data(0, b""),
        data(1001, b"a"),
        data(2**31, b"a"),
        Frame(FrameKind.DATA, SESSION, CHANNEL, b"\0\0\0"),
        data(0, CONTENT)._replace(session=SESSION + 1),
        data(0, CONTENT)._replace(version=2),
        ack(0, 10),
    ],
)
def test_data_beyond_the_block_or_of_another_channel_is_ignored(frame: Frame) -> None:
    client, channel = receiver()
    channel.begin(0.0)
    client.outgoing(0.0)
    assert feed(client, frame) == b""
    assert channel.position == 0


def test_silence_sends_the_last_ack_again_and_doubles() -> None:
    client, channel = receiver()
    channel.begin(0.0)
    client.outgoing(0.0)
    sent = []
    for _ in range(4):
        now = client.next_at_s
        sent.append(now)
        assert acks(client.outgoing(now)) == [(0, 1000, 1)]
    # 250 ms, then twice that each time, but no more than a second.
    assert sent == [0.25, 0.75, 1.75, 2.75]
    assert channel.timer.count == 4
    feed(client, data(0, CONTENT[:10]), now=3.0)
    assert channel.timer.count == 0
    assert client.next_at_s == 3.25


def test_nak_sends_the_ack_again_at_once() -> None:
    client, channel = receiver()
    channel.begin(0.0)
    client.outgoing(0.0)
    assert acks(feed(client, NAK)) == [(0, 1000, 0)]


def test_a_silent_board_at_work_on_a_call_is_not_asked() -> None:
    client, channel = receiver()
    channel.begin(0.0)
    client.outgoing(0.0)
    client.request(FrameKind.CALL, 9, client.encode(FrameKind.CALL, 9, b"\x91\x05"), 0.1)
    assert client.next_at_s == pytest.approx(0.35), "the call's own time-out"
    wire = client.outgoing(0.34)
    assert wire == b""


def test_a_stream_takes_no_more_than_it_has_room_for_until_it_is_read() -> None:
    client, channel = receiver(credit=300, length=None)
    channel.begin(0.0)
    client.outgoing(0.0)
    feed(client, data(0, CONTENT[:200]))
    assert feed(client, data(200, CONTENT[200:310])) == b"", "beyond the credit"
    assert channel.waiting == 200
    assert channel.take() == CONTENT[:200]
    assert acks(client.outgoing(0.1)) == [(200, 300, 0)]


def test_a_streams_offsets_wrap() -> None:
    client, channel = receiver(credit=1000, length=None)
    channel.begin(0.0)
    channel.position = 2**32 - 5
    client.outgoing(0.0)
    feed(client, data(2**32 - 5, b"0123456789"))
    assert channel.take() == b"0123456789"
    feed(client, data(5, b"abc"))
    assert channel.take() == b"abc"


# -- giving -----------------------------------------------------------------------------------


def test_beginning_again_does_not_put_off_the_timeout_and_an_empty_block_has_none() -> None:
    client, channel = upload()
    channel.begin(0.1)
    assert client.next_at_s == 0.25
    empty = Upload(client, CHANNEL, b"", frame_bytes=200, window=1000)
    empty.begin(0.0)
    assert empty.next_at_s == float("inf")


def test_nothing_is_sent_before_there_is_credit() -> None:
    client, _ = upload()
    assert client.outgoing(0.0) == b""
    wire = feed(client, ack(0, 400))
    # 200 bytes of a frame: 2 delimiters, 1 of COBS, 11 of frame, 4 of offset: 182 of content.
    assert pieces(wire) == [(0, 182), (182, 182)]
    assert client.outgoing(0.0) == b"", "the credit is used up"


def test_each_ack_makes_room_for_more() -> None:
    client, channel = upload()
    feed(client, ack(0, 400))
    assert pieces(feed(client, ack(182, 400))) == [(364, 182)]
    assert channel.position == 182


def test_the_end_is_a_shorter_frame_and_its_ack_is_all() -> None:
    client, channel = upload(frame=1100, window=5000)
    assert pieces(feed(client, ack(0, 5000))) == [(0, 1000)]
    assert feed(client, ack(1000, 5000)) == b""
    assert channel.done
    assert client.next_at_s == float("inf")


def test_resend_goes_back_once_for_each_gap() -> None:
    client, _ = upload()
    feed(client, ack(0, 600))
    # The first of three was lost: the other two may still fill the board's buffer.
    assert pieces(feed(client, ack(0, 600, 1))) == [(0, 182)]
    assert feed(client, ack(0, 600, 1)) == b"", "the same gap"
    assert pieces(feed(client, ack(182, 600))) == [(182, 182), (364, 182), (546, 182)]
    assert pieces(feed(client, ack(182, 600, 1))) == [(182, 182)], "another gap"


def test_nak_sends_again_at_once() -> None:
    client, _ = upload()
    feed(client, ack(0, 400))
    assert pieces(feed(client, NAK)) == [(0, 182)]


def test_what_is_damaged_a_second_time_is_sent_in_smaller_frames() -> None:
    client, _ = upload()
    feed(client, ack(0, 1000))
    assert pieces(feed(client, NAK)) == [(0, 182)]
    # 200 bytes on the way have brought nothing: half of that, and frames of the least size.
    assert pieces(feed(client, NAK)) == [(0, 46)]
    assert pieces(feed(client, NAK)) == [(0, 46)]


def test_an_ack_of_what_was_never_sent_or_came_late_means_nothing() -> None:
    client, channel = upload()
    feed(client, ack(0, 400))
    feed(client, ack(365, 400))
    assert channel.position == 0
    feed(client, ack(364, 400))
    assert feed(client, ack(182, 9000, 1)) == b""
    assert channel.position == 364


def test_a_lost_first_ack_is_fetched_by_one_byte() -> None:
    client, _ = upload()
    assert client.next_at_s == 0.25
    assert pieces(client.outgoing(0.25)) == [(0, 1)]
    assert client.outgoing(0.3) == b""
    assert pieces(feed(client, ack(1, 400), now=0.3)) == [(1, 182), (183, 182)]


def test_a_small_credit_makes_small_frames() -> None:
    client, _ = upload(frame=4096)
    assert pieces(feed(client, ack(0, 64))) == [(0, 46)]


# -- both, with a peer ------------------------------------------------------------------------


class Sender:
    """A board that sends CONTENT in frames of 100 bytes, as SPEC.md 4.5 has it."""

    def __init__(self) -> None:
        self.acked = self.next = self.credit = 0

    def take(self, frame: Frame) -> Iterator[Frame]:
        offset, credit, flags = struct.unpack("<IIB", frame.body)
        if self.acked <= offset <= len(CONTENT):
            self.acked, self.credit = offset, credit
            self.next = offset if flags else max(self.next, offset)
        while self.next < len(CONTENT) and self.next + 100 - self.acked <= self.credit:
            yield data(self.next, CONTENT[self.next : self.next + 100])
            self.next += 100


class Taker:
    """A board that takes in order, as SPEC.md 4.5 has it."""

    def __init__(self) -> None:
        self.content = b""
        self.asked = False

    def take(self, frame: Frame) -> Iterator[Frame]:
        offset = int.from_bytes(frame.body[:4], "little")
        if offset == len(self.content):
            self.content += frame.body[4:]
            self.asked = False
            yield ack(len(self.content), 500)
        elif offset < len(self.content):
            yield ack(len(self.content), 500)
        elif not self.asked:
            self.asked = True
            yield ack(len(self.content), 500, 1)


class NarrowTaker(Taker):
    """A board that tells of 500 bytes of room and has 64."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged = 0

    def take(self, frame: Frame) -> Iterator[Frame]:
        if len(encode_frame(frame)) <= 64:
            yield from super().take(frame)
        else:
            self.damaged += 1
            assert self.damaged < 100, "it never ends"
            yield NAK


Fate = Callable[[int], int]
"""How often the frame of this number arrives."""


def drive(client: Requests, board: Sender | Taker, first: list[Frame], fate: Fate) -> float:
    """Carry frames both ways until the channel is done; return how long that took."""
    now, count = 0.0, 0
    to_host, decoder = list(first), FrameDecoder()
    channel = client.channel
    assert isinstance(channel, Receiver | Upload)
    while not channel.done:
        for frame in to_host:
            count += 1
            for _ in range(fate(count)):
                client.receive(encode_frame(frame), now)
        to_host = []
        wire = client.outgoing(now)
        if not wire and not channel.done:
            assert now < 60.0, "it never ends"
            now = max(now, client.next_at_s)
        for frame in decoder.feed(wire):
            count += 1
            for _ in range(fate(count)):
                to_host += board.take(frame)
    return now


@pytest.mark.parametrize("times", [0, 2], ids=["lost", "doubled"])
@pytest.mark.parametrize("position", range(1, 30))
def test_one_frame_at_any_position_costs_time_and_nothing_else(position: int, times: int) -> None:
    def fate(count: int) -> int:
        return times if count == position else 1

    client, channel = receiver(credit=400)
    channel.begin(0.0)
    assert drive(client, Sender(), [], fate) <= 1.0
    assert channel.take() == CONTENT
    client, _ = upload()
    taker = Taker()
    assert drive(client, taker, [ack(0, 500)], fate) <= 1.0
    assert taker.content == CONTENT


@pytest.mark.parametrize("seed", range(20))
def test_a_third_of_the_frames_lost_still_arrives(seed: int) -> None:
    chance = random.Random(seed)

    def fate(count: int) -> int:
        return chance.choice([0, 1, 1])

    client, channel = receiver(credit=400)
    channel.begin(0.0)
    drive(client, Sender(), [], fate)
    assert channel.take() == CONTENT
    client, _ = upload()
    taker = Taker()
    drive(client, taker, [ack(0, 500)], fate)
    assert taker.content == CONTENT


def test_a_board_that_has_less_room_than_it_says_gets_what_it_can_hold() -> None:
    client, _ = upload()
    taker = NarrowTaker()
    assert drive(client, taker, [ack(0, 500)], lambda count: 1) <= 1.0
    assert taker.content == CONTENT
