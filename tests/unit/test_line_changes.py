# SPDX-License-Identifier: Apache-2.0
"""What a line does to some bytes, such as software flow control, told from damaged frames."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from boardprof.base.errors import BoardTimeoutError
from boardprof.wire.link.no_answer import no_welcome, with_changes
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame

FRAME = encode_frame(Frame(FrameKind.RESULT, 7, 70, b"\x0d\x0a\x11\x55\x13\x0a\x41\x0d")).strip(
    b"\0"
)
HINTS = {
    "icrnl": "the line changes what the board sends: byte 0d arrives as 0a: have the line pass CR "
    "as it is, not as LF (stty -icrnl)",
    "xon": "the line changes what the board sends: byte 11 does not arrive: turn off software flow "
    "control (XON/XOFF; stty -ixon -ixoff)",
    "noise": "as before",
}


def hint_of(naks: int, sent: bytes, arrived: bytes, refused: list[bytes]) -> str | None:
    error = BoardTimeoutError("silent", hint="as before")
    return with_changes(error, naks, sent, set(arrived), refused).hint


@pytest.mark.parametrize("change", ["icrnl", "xon", "noise"])
def test_a_frame_that_is_right_once_a_change_is_undone_names_the_change(change: str) -> None:
    damaged = {
        "icrnl": FRAME.replace(b"\r", b"\n"),
        "xon": FRAME.replace(b"\x11", b""),
        "noise": FRAME.replace(b"\x55", b"\x57"),
    }[change]
    decoder = FrameDecoder()
    assert decoder.feed(damaged + b"\0") == []
    assert hint_of(0, b"", b"", list(decoder.refused)) == HINTS[change]


@pytest.mark.parametrize(
    ("naks", "sent", "arrived", "hint"),
    [
        (
            10,
            b"\x41\x0d\x90",
            b"\x41\x91",
            "as before. It seems that byte 0d does not arrive: have the line ",
        ),
        (
            10,
            b"\x41\x13\x90",
            b"\x41\x91",
            "as before. It seems that bytes 11 and 13 do not arrive",
        ),
        (
            10,
            b"\x41\x90",
            b"\x41\x0d",
            "as before. It seems that no byte from 80 arrives: set eight",
        ),
        (10, b"\x41\x0d\x90", b"\x91\x0d", "as before"),
        (9, b"\x41\x0d\x90", b"\x41\x91", "as before"),
    ],
)
def test_bytes_that_only_frames_have_that_never_arrive_are_named(
    naks: int, sent: bytes, arrived: bytes, hint: str
) -> None:
    assert (hint_of(naks, sent, arrived, []) or "").startswith(hint)


def test_a_line_of_seven_bits_is_known_by_what_comes_from_the_board() -> None:
    heard = bytes(byte & 0x7F for byte in FRAME * 3)
    error = no_welcome("/dev/ttyS0", 10, heard, naks=0, echoes=False, printed="")
    assert "bit 7 of each is 0: the line carries seven bits" in error.message
    assert error.hint == "set eight data bits and no parity on each part of the line"


@pytest.mark.parametrize(
    ("change", "said", "hint"),
    [
        (
            lambda sent: bytes(byte & 0x7F | (byte & 0x7F).bit_count() % 2 << 7 for byte in sent),
            "all have the same parity: bit 7 is a parity bit",
            "set eight data bits and no parity on each part of the line",
        ),
        (
            lambda sent: sent.replace(b"\n", b"\r\n"),
            "0d comes before each 0a: the line inserts it",
            "turn that off (stty -onlcr)",
        ),
    ],
)
def test_parity_and_inserted_returns_are_known_by_what_comes_from_the_board(
    change: Callable[[bytes], bytes], said: str, hint: str
) -> None:
    error = no_welcome("/dev/ttyS0", 10, change(FRAME * 3), naks=0, echoes=False, printed="")
    assert f"that are not text, but no frame, and {said}. They begin with" in error.message
    assert error.hint == hint
    error = no_welcome("/dev/ttyS0", 10, FRAME * 3, naks=0, echoes=False, printed="")
    assert said not in error.message
