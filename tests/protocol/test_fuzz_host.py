# SPDX-License-Identifier: Apache-2.0
"""The host's receive path on whatever comes: a documented error or an answer, and soon.

A short run with fixed examples; ``make fuzz`` sets BOARDPROF_FUZZ=long for many more, other ones
each time.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from boardprof.base.errors import BoardprofError
from boardprof.wire.decode.dictionary import CollectorInfo, parse_dictionary
from boardprof.wire.decode.samples import decode_samples
from boardprof.wire.decode.schemas import check_layouts, layouts_for
from boardprof.wire.link.requests import Requests
from boardprof.wire.link.session import Session
from boardprof.wire.link.transfer import Receiver
from boardprof_protocol.blob import encode_blob
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import (
    BadFrame,
    Frame,
    FrameDecoder,
    cobs_decode,
    cobs_encode,
    decode_frame,
    encode_frame,
)
from tests.support import ROOT

LONG = os.environ.get("BOARDPROF_FUZZ") == "long"
SETTINGS = settings(
    max_examples=400 if LONG else 60,
    derandomize=not LONG,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    deadline=None,  # see FUZZ
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LONGEST_S = 5.0
"""Of the processor's time for one example: a machine that is stopped or busy is no finding."""


def FUZZ(test: Any) -> Any:
    """Run a test of hypothesis with these settings, and see that each example is soon done."""
    inner = test.hypothesis.inner_test

    @functools.wraps(inner)
    def soon(*arguments: Any, **named: Any) -> None:
        begin_s = time.process_time()
        inner(*arguments, **named)
        assert time.process_time() - begin_s < LONGEST_S

    test.hypothesis.inner_test = soon
    return SETTINGS(test)


LAYOUTS = layouts_for(ROOT / "boards" / "linux")
SESSION = 0x1234
SEQUENCE = 1

# -- what comes -------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(width=32)
    | st.text(max_size=12)
    | st.binary(max_size=12)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(scalars, inner, max_size=2),
    max_leaves=4,
)
packed = values.map(lambda value: bytes(msgpack.packb(value)))
bombs = st.sampled_from(
    [
        b"\x91" * 2000,  # depth
        b"\xdd\xff\xff\xff\xff",  # an array of 2^32 - 1 items
        b"\xdf\xff\xff\xff\xff\xc0",  # a map of as many
        b"\xc6\xff\xff\xff\xff\0",  # a bin
        b"\xdb\x7f\xff\xff\xffa",  # a text
        b"\x81\x90\xc0",  # a list as a key
        b"\xd6\xff\xff\xff\xff\xff",  # a time stamp
        b"\xc7\x0c\xff" + b"\xff" * 12,  # one beyond all calendars
        b"\xa1\xff",  # no UTF-8
        b"",
    ]
)
bodies = st.binary(max_size=600) | packed | bombs
kinds = st.integers(0, 15)
frames = st.builds(
    Frame,
    kinds,
    st.just(SESSION) | st.integers(0, 0xFFFF),
    st.just(SEQUENCE) | st.just(0) | st.integers(0, 0xFFFFFFFF),
    bodies,
    st.just(1) | st.integers(0, 15),
)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Draw valid bytes, most often with something turned over, cut out or put in."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        how = draw(st.integers(0, 3))
        if how == 0 and place < len(data):
            data[place] ^= 1 << draw(st.integers(0, 7))
        elif how == 1:
            del data[place : place + draw(st.integers(1, 8))]
        elif how == 2:
            data[place:place] = draw(st.binary(max_size=8))
    return bytes(data)


lines = st.lists(st.binary(max_size=300) | damaged(frames.map(encode_frame)), max_size=8).map(
    b"".join
)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Cut ``data`` at these places, modulo its length."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)] or [b""]


cuts = st.lists(st.integers(0, 1 << 16), max_size=12)

# -- frames -----------------------------------------------------------------------------------


@FUZZ
@given(st.binary(max_size=1000) | st.lists(st.sampled_from([0, 1, 255]), max_size=900).map(bytes))
def test_cobs_gives_back_what_it_was_given(data: bytes) -> None:
    encoded = cobs_encode(data)
    assert 0 not in encoded
    assert cobs_decode(encoded) == data


@FUZZ
@given(st.binary(max_size=600) | damaged(frames.map(encode_frame)))
def test_bytes_are_a_frame_or_a_bad_frame(data: bytes) -> None:
    with contextlib.suppress(BadFrame):
        decode_frame(data)


@FUZZ
@given(lines, cuts)
def test_each_piece_of_a_line_is_a_frame_or_console_text_however_it_is_cut(
    line: bytes, cut: list[int]
) -> None:
    expected: list[Frame] = []
    text = b""
    *whole, rest = line.split(b"\0")
    for piece in filter(None, whole):
        try:
            expected.append(decode_frame(piece))
        except BadFrame:
            text += piece
    decoder = FrameDecoder()
    assert [frame for part in pieces(line, cut) for frame in decoder.feed(part)] == expected
    assert decoder.take_console() == text
    assert decoder.take_console(everything=True) == rest
    assert decoder.take_console(everything=True) == b""


def test_what_never_ends_is_not_kept() -> None:
    decoder = FrameDecoder()
    for _ in range(100):
        assert list(decoder.feed(b"\1" * 65536)) == []
        decoder.take_console()
    assert len(decoder.take_console(everything=True)) <= 1 << 17


# -- a request --------------------------------------------------------------------------------


def waiting_client() -> Requests:
    client = Requests(SESSION)
    encoded = client.encode(FrameKind.CALL, SEQUENCE, b"\x91\x02")
    client.request(FrameKind.CALL, SEQUENCE, encoded, 0.0)
    return client


def heard(client: Requests, parts: Sequence[bytes]) -> list[Frame]:
    events: list[Frame] = []
    for part in parts:
        events += client.receive(part, 0.01)
    return events


def is_reply(frame: Frame) -> bool:
    return frame.kind != FrameKind.PROGRESS


@FUZZ
@given(lines, cuts)
def test_what_a_line_means_does_not_depend_on_where_reads_cut_it(
    line: bytes, cut: list[int]
) -> None:
    one, other = waiting_client(), waiting_client()
    together = heard(one, [line])
    assert heard(other, pieces(line, cut)) == together
    assert one.decoder.take_console(everything=True) == other.decoder.take_console(everything=True)
    assert (one.naks, one.waits) == (other.naks, other.waits)
    assert sum(map(is_reply, together)) <= 1


@FUZZ
@given(st.lists(frames, max_size=6))
def test_only_a_reply_with_the_requests_own_number_ends_it(answers: list[Frame]) -> None:
    client = waiting_client()
    replies = filter(is_reply, heard(client, [encode_frame(answer) for answer in answers]))
    enders = [
        (answer.kind, answer.body)
        for answer in answers
        if (answer.session, answer.sequence, answer.version) == (SESSION, SEQUENCE, 1)
        and answer.kind in (FrameKind.RESULT, FrameKind.ERROR, FrameKind.NO_SESSION)
    ]
    assert [(reply.kind, reply.body) for reply in replies] == enders[:1]


CONTENT = bytes(range(200))
blocks = st.tuples(st.integers(-9, 9) | st.integers(200, (1 << 32) - 1), st.integers(0, 40))


@FUZZ
@given(st.lists(blocks, max_size=20))
def test_a_channel_takes_the_content_in_order_and_nothing_else(
    sent: list[tuple[int, int]],
) -> None:
    client = Requests(SESSION)
    receiver = Receiver(client, SEQUENCE, 1 << 16, len(CONTENT))
    client.channel = receiver
    receiver.begin(0.0)
    for offset, length in sent:
        before = receiver.position
        place = max(0, before + offset) if offset < 10 else offset
        data = CONTENT[place : place + length] if place < len(CONTENT) else b"\xff" * length
        body = place.to_bytes(4, "little") + data
        client.receive(encode_frame(Frame(FrameKind.DATA, SESSION, SEQUENCE, body)), 0.1)
        client.outgoing(0.1)
        if place == before:
            assert receiver.position == before + len(data)
        elif place > before:
            assert receiver.position == before
    assert receiver.take() == CONTENT[: receiver.position]
    assert receiver.crc == zlib.crc32(CONTENT[: receiver.position])


@FUZZ
@given(lines)
def test_a_channel_survives_any_line(line: bytes) -> None:
    client = Requests(SESSION)
    receiver = Receiver(client, SEQUENCE, 1 << 16, 1 << 12)
    client.channel = receiver
    receiver.begin(0.0)
    client.receive(line, 0.1)
    client.outgoing(0.2)
    assert receiver.position <= 1 << 12


# -- a session --------------------------------------------------------------------------------


class ScriptedLine:
    """A transport whose far end answers by a function, in time that only waiting makes pass."""

    name = "scripted"
    byte_time_s = 0.0
    MOST_READS = 2000

    def __init__(self, answer: Callable[[Frame], list[bytes]]) -> None:
        self.now_s = 0.0
        self._answer = answer
        self._decoder = FrameDecoder()
        self._coming: list[bytes] = []
        self._reads = 0

    def clock(self) -> float:
        return self.now_s

    def write(self, data: bytes, timeout_s: float) -> None:
        for frame in self._decoder.feed(data):
            self._coming += self._answer(frame)

    def read(self, timeout_s: float) -> bytes:
        self._reads += 1
        assert self._reads < self.MOST_READS, "the session does not come to an end"
        if self._coming:
            self.now_s += 0.01
            return self._coming.pop(0)
        self.now_s += timeout_s
        return b""

    def printed(self) -> str:
        return ""

    def close(self) -> None:
        pass


def session_over(answer: Callable[[Frame], list[bytes]]) -> Session:
    line = ScriptedLine(answer)
    return Session(line, timeout_s=3.0, clock=line.clock, random_bits=lambda bits: 1 << bits - 1)


WELCOME = bytes.fromhex(
    "01 01 00 04 0001 0001 0100 01 00 efbeadde 00000000 0102030405060708 ddccbbaa"
)


@FUZZ
@given(kinds, damaged(st.just(WELCOME)) | bodies, st.lists(st.binary(max_size=80), max_size=3))
def test_a_handshake_ends_in_a_welcome_or_a_documented_error(
    kind: int, body: bytes, noise: list[bytes]
) -> None:
    def answer(frame: Frame) -> list[bytes]:
        return [*noise, encode_frame(Frame(kind, frame.session, frame.sequence, body))]

    session = session_over(answer)
    with contextlib.suppress(BoardprofError):
        welcome = session.open()
        assert kind == FrameKind.WELCOME
        assert welcome.boot_id == int.from_bytes(body[12:16], "little")


@FUZZ
@given(st.lists(st.tuples(kinds, bodies), min_size=1, max_size=4), lines)
def test_a_call_ends_in_its_value_or_a_documented_error(
    replies: list[tuple[int, bytes]], noise: bytes
) -> None:
    def answer(frame: Frame) -> list[bytes]:
        if frame.kind == FrameKind.HELLO:
            return [encode_frame(Frame(FrameKind.WELCOME, frame.session, frame.sequence, WELCOME))]
        answers = [Frame(kind, frame.session, frame.sequence, body) for kind, body in replies]
        return [noise, *map(encode_frame, answers)]

    session = session_over(answer)
    session.open()
    with contextlib.suppress(BoardprofError):
        session.call(2, b"\x01", 1, name="f", on_progress=lambda done, total: None)


# -- what replies contain ---------------------------------------------------------------------

numbers = st.integers(0, 8) | st.sampled_from([-1, 32, 64, 65, 1 << 31, 1 << 63, (1 << 64) - 1])
texts = st.text(max_size=8)
fields = numbers | texts | st.booleans() | values
sections = st.tuples(
    st.lists(st.tuples(texts | fields, texts | fields, fields), min_size=1, max_size=2),
    st.lists(st.tuples(texts | fields, texts | fields, fields), max_size=3),
    st.lists(st.tuples(texts | fields, fields, fields, fields, numbers), max_size=3),
    st.lists(
        st.tuples(texts | fields, texts | fields, *[numbers] * 3, st.booleans(), numbers, numbers),
        max_size=4,
    ),
)


def stored(parts: Sequence[Sequence[object]]) -> bytes:
    return b"".join(
        b"".join(bytes(msgpack.packb(entry)) for entry in part) + b"\xc0" for part in parts
    )


SOUND = stored(
    [
        [["m0", "0.1.0", 512]],
        [["bp.describe", "", False], ["fir", "(n: u32) -> i32", True]],
        [["ticks", 3, 1, 0xCB2AD80A, 1], ["cycles32", 2, 1, 0x063EF8A1, 1]],
        [
            ["ticks", "mtime", 32, 1000, 10, True, 0, 0],
            ["cycles", "mcycle", 32, 0, 0, False, 3, 13],
        ],
    ]
)


@FUZZ
@given(st.binary(max_size=400) | bombs | damaged(st.just(SOUND)) | sections.map(stored))
def test_a_dictionary_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(BoardprofError):
        dictionary = parse_dictionary(data)
        for collector in dictionary.collectors:
            for counter in collector.counters:
                assert counter.unsupported is None or isinstance(counter.unsupported, str)
        check_layouts("m0", dictionary.collectors, LAYOUTS)


COLLECTORS: tuple[CollectorInfo, ...] = parse_dictionary(SOUND).collectors
SAMPLE = encode_blob(3, 1, bytes(range(24))) + encode_blob(2, 1, bytes(range(8)))
blobs = st.builds(
    encode_blob, st.integers(0, 6), st.integers(0, 2), st.binary(max_size=40), st.integers(0, 255)
)


@FUZZ
@given(
    st.binary(max_size=200)
    | damaged(st.integers(0, 4).map(lambda count: SAMPLE * count))
    | st.lists(blobs | st.just(SAMPLE), max_size=5).map(b"".join),
    st.none() | st.floats(0, 1e6),
)
def test_samples_are_decoded_or_refused(data: bytes, longest_s: float | None) -> None:
    with contextlib.suppress(BoardprofError):
        samples = decode_samples(data, COLLECTORS, LAYOUTS, longest_s=longest_s)
        assert b"".join(sample.raw for sample in samples) == data
        assert all(set(sample.readings) == {"ticks", "cycles"} for sample in samples)


counted = st.tuples(*[numbers] * 3, st.booleans(), st.integers(0, 4), numbers)


@FUZZ
@given(st.tuples(counted, counted), st.binary(min_size=32, max_size=32))
def test_counters_as_a_board_describes_them_decode_or_are_refused(
    described: tuple[tuple[object, ...], tuple[object, ...]], body: bytes
) -> None:
    ticks, cycles = described
    data = stored(
        [
            [["m0", "0.1.0", 512]],
            [],
            [["ticks", 3, 1, 0xCB2AD80A, 1], ["cycles32", 2, 1, 0x063EF8A1, 1]],
            [["ticks", "mtime", *ticks], ["cycles", "mcycle", *cycles]],
        ]
    )
    with contextlib.suppress(BoardprofError):
        collectors = parse_dictionary(data).collectors
        check_layouts("m0", collectors, LAYOUTS)
        counters = [counter for collector in collectors for counter in collector.counters]
        assert all(isinstance(counter.unsupported, str | None) for counter in counters)
        decode_samples(
            encode_blob(3, 1, body[:24]) + encode_blob(2, 1, body[24:]), collectors, LAYOUTS
        )
