# SPDX-License-Identifier: Apache-2.0
"""The board's printed bytes as lines, under a clock that the test sets."""

from __future__ import annotations

import pytest

from boardprof.wire.link.requests import Console, Requests
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame

REPLY = encode_frame(Frame(FrameKind.RESULT, 7, 1, b"\xc0"))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_are_given_out_whole_in_whatever_pieces_they_come(size: int) -> None:
    lines: list[str] = []
    console = Console(FrameDecoder(), lines.append)
    text = "boot: 48 MHz\r\n\nheat 21 °C\nprompt> ".encode()
    for at in range(0, len(text), size):
        console.feed(text[at : at + size], 0.0)
    assert lines == ["boot: 48 MHz", "", "heat 21 °C"]
    console.flush()
    assert lines[3:] == ["prompt> "]
    console.flush()
    assert len(lines) == 4
    assert console.text == "boot: 48 MHz\r\n\nheat 21 °C\nprompt> "


def test_a_line_that_was_begun_waits_a_tenth_of_a_second() -> None:
    console = Console(FrameDecoder(), lambda line: None)
    assert console.quiet_at_s == float("inf")
    console.feed(b"so far", 5.0)
    assert console.quiet_at_s == 5.1
    console.feed(b"\n", 5.05)
    assert console.quiet_at_s == float("inf")


def test_bytes_that_are_no_text_are_replaced_and_endless_lines_cut() -> None:
    lines: list[str] = []
    console = Console(FrameDecoder(), lines.append)
    console.feed(b"a\xff\xfeb\n", 0.0)
    assert lines == ["a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"]
    console.feed(b"x" * 10_000, 0.0)
    assert [len(line) for line in lines[1:]] == [4096, 4096]


def test_the_end_of_the_text_is_kept() -> None:
    console = Console(FrameDecoder())
    for _ in range(3):
        console.feed(b"0123456789abcdef" * 2048, 0.0)
    assert len(console.text) == 65536


# -- text that no delimiter has ended yet -----------------------------------------------------


def test_a_line_is_there_before_any_frame_follows_it() -> None:
    requests = Requests(7)
    requests.receive(b"boot: 48 MHz\r\nwaiting", 0.0)
    assert requests.decoder.take_console(lines=True) == b"boot: 48 MHz\r\n"
    requests.receive(b" for the host\n" + REPLY, 0.0)
    assert requests.decoder.take_console(lines=True) == b"waiting for the host\n"


@pytest.mark.parametrize("length", range(1, len(REPLY)))
def test_the_beginning_of_a_frame_is_never_text(length: int) -> None:
    body = b"\n\n\n"
    frame = encode_frame(Frame(FrameKind.RESULT, 0x0A0A, 0x0A0A0A0A, body))
    requests = Requests(0x0A0A)
    encoded = requests.encode(FrameKind.CALL, 0x0A0A0A0A, b"\x91\x05")
    requests.request(FrameKind.CALL, 0x0A0A0A0A, encoded, 0.0)
    assert requests.receive(frame[:length], 0.0) == []
    assert requests.decoder.take_console(lines=True) == b""
    (reply,) = requests.receive(frame[length:], 0.0)
    assert reply.body == body


def test_damaged_frames_are_counted_and_not_shown_as_text() -> None:
    console = Console(FrameDecoder())
    console.feed(b"boot\n\x02\x01\x06@\x01\n\x1b[1mhot\x1b[0m\ttoo\r\n", 0.0)
    assert console.text == (
        "(1 line of binary data: damaged frames, or output)\nboot\n\x1b[1mhot\x1b[0m\ttoo\r\n"
    )
    assert b"\x06@" in console.data
