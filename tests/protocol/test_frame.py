# SPDX-License-Identifier: Apache-2.0
"""Frames in both languages: whatever goes in comes out, and nothing damaged does."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from cffi import FFI
from hypothesis import given, settings
from hypothesis import strategies as st

from boardprof_protocol.frame import (
    BadFrame,
    Frame,
    FrameDecoder,
    body_capacity,
    cobs_decode,
    cobs_encode,
    decode_frame,
    encode_frame,
)

# Zeros often, and long runs without one: what COBS has to deal with.
BODIES = st.binary(max_size=600) | st.lists(
    st.sampled_from([b"\0", b"\0\0", b"\x55", b"\xff" * 253, b"\xaa" * 254, b"\x01" * 255]),
    max_size=4,
).map(b"".join)
FRAMES = st.builds(
    Frame,
    kind=st.integers(0, 15),
    session=st.integers(0, 0xFFFF),
    sequence=st.integers(0, 0xFFFFFFFF),
    body=BODIES,
    version=st.integers(0, 15),
)
CALL = Frame(3, 0x1234, 1, bytes.fromhex("93000003"))
Codec = tuple[FFI, Any]


def c_encode(codec: Codec, frame: Frame) -> bytes:
    ffi, lib = codec
    out = ffi.new("uint8_t[]", len(frame.body) + 64)
    length = lib.test_frame_encode(
        out, frame.kind, frame.session, frame.sequence, frame.body, len(frame.body)
    )
    return bytes(ffi.buffer(out, length))


def c_decode(codec: Codec, wire: bytes) -> bytes | None:
    """Return header and body of a frame, or None of what is none."""
    ffi, lib = codec
    raw = ffi.new("uint8_t[]", 2048)
    length = lib.test_frame_decode(raw, wire, len(wire))
    if length < 11:
        return None
    crc = lib.bp_crc32(0, raw, length - 4)
    found = int.from_bytes(bytes(ffi.buffer(raw, length))[-4:], "little")
    return bytes(ffi.buffer(raw, length - 4)) if crc == found else None


def test_the_crc_of_the_nine_digits_is_the_published_one(codec: Codec) -> None:
    _, lib = codec
    assert lib.bp_crc32(0, b"123456789", 9) == 0xCBF43926


@pytest.mark.parametrize("table", [0, 1, 8])
def test_a_crc_can_be_taken_in_pieces(libraries: Any, table: int) -> None:
    _, lib = libraries({"BP_CFG_CRC_TABLE": table})
    for cut in range(10):
        head, tail = b"123456789"[:cut], b"123456789"[cut:]
        first = lib.bp_crc32(0, head, len(head))
        assert lib.bp_crc32(first, tail, len(tail)) == 0xCBF43926


@pytest.mark.parametrize("table", [0, 1, 8])
def test_every_byte_at_every_place_changes_a_crc_as_zlib_says(libraries: Any, table: int) -> None:
    _, lib = libraries({"BP_CFG_CRC_TABLE": table})
    for length in (8, 9, 23):
        for place in range(length):
            for byte in range(0, 256, 5):
                data = bytearray(length)
                data[place] = byte
                assert lib.bp_crc32(0, bytes(data), length) == zlib.crc32(data)


@given(data=BODIES)
def test_cobs_undone_gives_the_data_and_holds_no_zero(data: bytes) -> None:
    encoded = cobs_encode(data)
    assert 0 not in encoded
    assert len(encoded) <= len(data) + 1 + len(data) // 254
    assert cobs_decode(encoded) == data


@given(frame=FRAMES)
def test_a_decoded_frame_is_the_one_that_was_encoded(frame: Frame) -> None:
    wire = encode_frame(frame)
    assert (wire[0], wire[-1]) == (0, 0)
    assert decode_frame(wire[1:-1]) == frame


@given(frame=FRAMES.map(lambda f: Frame(f.kind, f.session, f.sequence, f.body)))
@settings(max_examples=200)
def test_both_languages_write_the_same_frame_and_read_the_others(
    codec: Codec, frame: Frame
) -> None:
    wire = encode_frame(frame)
    assert c_encode(codec, frame) == wire
    decoded = c_decode(codec, wire[1:])
    assert decoded is not None
    assert decoded[7:] == frame.body


@given(mtu=st.integers(64, 2000))
def test_the_longest_body_fits_the_mtu_and_one_byte_more_does_not(mtu: int) -> None:
    longest = body_capacity(mtu)
    frame = Frame(4, 0x0101, 0x01010101, b"\x55" * longest)
    assert len(encode_frame(frame)) <= mtu
    longer = Frame(4, 0x0101, 0x01010101, b"\x55" * (longest + 1))
    assert len(encode_frame(longer)) > mtu


@pytest.mark.parametrize(("mtu", "longest"), [(64, 50), (256, 242), (257, 243), (258, 243)])
def test_the_longest_body_is_what_the_specification_says(mtu: int, longest: int) -> None:
    assert body_capacity(mtu) == longest


@given(
    frames=st.lists(FRAMES, max_size=4),
    texts=st.lists(st.text("boot:\n log", max_size=20), min_size=5, max_size=5),
    cut=st.integers(1, 50),
)
def test_console_text_around_frames_is_kept_and_no_frame_is_lost(
    frames: list[Frame], texts: list[str], cut: int
) -> None:
    stream = texts[0].encode()
    for frame, text in zip(frames, texts[1:], strict=False):
        stream += encode_frame(frame) + text.encode()
    decoder = FrameDecoder()
    got = [f for at in range(0, len(stream), cut) for f in decoder.feed(stream[at : at + cut])]
    assert got == frames
    expected = "".join(texts[: len(frames) + 1])
    assert decoder.take_console(everything=True) == expected.encode()


def test_text_after_the_last_delimiter_waits_until_it_is_asked_for() -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(b"boot\0" + encode_frame(CALL)[1:] + b"half a li")) == [CALL]
    assert decoder.take_console() == b"boot"
    assert decoder.take_console() == b""
    assert decoder.take_console(everything=True) == b"half a li"


def test_a_frame_right_behind_the_cut_half_of_another_arrives() -> None:
    wire = encode_frame(CALL)
    decoder = FrameDecoder()
    assert list(decoder.feed(wire[:7] + wire)) == [CALL]
    assert decoder.take_console() == wire[1:7]


@pytest.mark.parametrize(
    "frame",
    [CALL, Frame(4, 1, 2, b"\x55" * 260), Frame(2, 0, 0, bytes(32))],
    ids=["call", "two groups", "zeros"],
)
def test_each_single_flipped_bit_makes_a_frame_none_in_both_languages(
    codec: Codec, frame: Frame
) -> None:
    wire = encode_frame(frame)
    for bit in range(8 * len(wire)):
        damaged = bytearray(wire)
        damaged[bit // 8] ^= 1 << bit % 8
        # A whole frame's delimiters stand around the damaged one, as on the line.
        assert list(FrameDecoder().feed(b"\0" + bytes(damaged) + b"\0")) == []
        pieces = [piece for piece in bytes(damaged).split(b"\0") if piece]
        for piece in pieces:
            assert c_decode(codec, piece + b"\0") is None
            with pytest.raises(BadFrame):
                decode_frame(piece)
