# SPDX-License-Identifier: Apache-2.0
"""The real C agent: sessions, at most once, and what it says to damage and to wrong calls."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgpack
import pytest

from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, body_capacity, encode_frame
from tests.memory_board import SMALLEST, BoardError, MemoryBoard, read_frames

Boards = Callable[[dict[str, int]], MemoryBoard]

# Ids in the smallest configuration, which has two built-in functions; see tests/c/firmware.c.
COUNT, ECHO, FILL, REFUSE = range(2, 6)

# The boot id is 0x000b0075 ^ 0x12345678 = 0x123f560d, the board's number and the nonce of hello().
FIRST, SECOND, THIRD = 0x560D0000, 0xAC1A0000, 0x02270000
"""Where sessions begin: boot id << 16, and twice and three times that, modulo 2**32."""


@pytest.fixture
def small(boards: Boards) -> MemoryBoard:
    """The smallest agent, with a session."""
    board = boards(SMALLEST)
    board.hello()
    return board


def nak(session: int, sequence: int) -> Frame:
    return Frame(FrameKind.NAK, session, sequence)


### HELLO and WELCOME ###


def test_hello_is_answered_by_what_the_board_is(boards: Boards) -> None:
    welcome = boards(SMALLEST).hello(session=0xBEEF).fields
    assert (welcome.version_min, welcome.version_max) == (1, 1)
    assert (welcome.flags, welcome.pointer_size) == (0, 8)
    assert (welcome.mtu_rx, welcome.mtu_tx, welcome.window) == (256, 256, 1)
    assert (welcome.reset_cause, welcome.reserved) == (2, 0)
    assert (welcome.boot_id, welcome.last_sequence) == (0x123F560D, FIRST)
    assert list(welcome.build_id) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_boot_id_is_the_boards_number_mixed_with_the_nonce_and_never_0(boards: Boards) -> None:
    board = boards(SMALLEST)
    board.lib.test_boots = 0x0000F000
    assert board.hello(nonce=0x00000F0E).fields.boot_id == 0x0000FF0F
    assert board.hello(session=2, nonce=0x33333333).fields.boot_id == 0x0000FF0F
    again = MemoryBoard(board.ffi, board.lib)
    again.lib.test_boots = 0x0000F000
    assert again.hello(nonce=0x0000F000).fields.boot_id == 1


def test_hello_of_any_version_and_with_a_longer_body_is_understood(boards: Boards) -> None:
    board = boards(SMALLEST)
    welcome = board.hello(session=5, versions=(1, 9), header_version=9, tail=b"later fields")
    assert welcome.frame.version == 1
    assert board.call(COUNT) == 1


@pytest.mark.parametrize(
    ("session", "body"),
    [
        (5, b"BPRG" + bytes((1, 1, 255, 255, 0, 0, 0, 0))),
        (5, b"BPRF" + bytes((1, 1, 255, 255))),
        (0, b"BPRF" + bytes((1, 1, 255, 255, 0, 0, 0, 0))),
    ],
    ids=["another magic", "too short", "no session"],
)
def test_what_is_not_a_whole_hello_gets_no_answer(
    boards: Boards, session: int, body: bytes
) -> None:
    board = boards(SMALLEST)
    assert board.exchange(Frame(FrameKind.HELLO, session, 7, body)) == []


@pytest.mark.parametrize("versions", [(2, 9), (0, 0)])
def test_a_host_of_other_versions_is_told_so_and_gets_no_session(
    boards: Boards, versions: tuple[int, int]
) -> None:
    board = boards(SMALLEST)
    board.hello(session=5)
    board.call(COUNT)
    welcome = board.hello(session=6, versions=versions).fields
    assert (welcome.version_min, welcome.version_max) == (1, 1)
    call = Frame(FrameKind.CALL, 6, 1, b"\x91\x02")
    assert board.exchange(call) == [Frame(FrameKind.NO_SESSION, 6, 1)]
    board.session, board.sequence = 5, FIRST + 1
    assert board.call(COUNT) == 2


def test_hello_again_in_the_same_session_keeps_what_the_session_has_done(
    board: MemoryBoard,
) -> None:
    board.hello(session=9)
    call = board.frame(board.names().index("count"))
    (first,) = board.exchange(call)
    welcome = board.hello(session=9)
    assert welcome.fields.last_sequence == call.sequence
    assert board.exchange(call) == [first]
    assert board.lib.test_counted == 1


def test_hello_with_the_present_id_and_another_nonce_begins_a_session_of_its_own(
    board: MemoryBoard,
) -> None:
    """Two hosts draw the same id in one of 65,535 cases."""
    first = board.hello(session=9, nonce=0x11111111).fields
    call = board.frame(board.names().index("count"))
    assert len(board.exchange(call)) == 1
    second = board.hello(session=9, nonce=0x22222222).fields
    assert second.boot_id == first.boot_id
    # SPEC.md 3.1: boot_id * 2^16 more than the last number.
    assert second.last_sequence == (call.sequence + (first.boot_id << 16)) & 0xFFFFFFFF
    assert [each.kind for each in board.exchange(call)] == [FrameKind.NO_SESSION]
    assert board.lib.test_counted == 1
    again = board.hello(session=9, nonce=0x22222222).fields
    assert again.last_sequence == second.last_sequence


def test_a_new_session_begins_at_other_numbers_and_forgets_the_kept_reply(
    small: MemoryBoard,
) -> None:
    call = small.frame(COUNT)
    assert call.sequence == FIRST + 1
    assert len(small.exchange(call)) == 1
    assert small.hello(session=0x4321).fields.last_sequence == SECOND + 1
    assert small.exchange(Frame(FrameKind.CALL, 0x4321, SECOND + 1, call.body)) == []
    (answer,) = small.exchange(Frame(FrameKind.CALL, 0x4321, SECOND + 2, call.body))
    assert msgpack.unpackb(answer.body) == 2
    assert small.exchange(call) == [Frame(FrameKind.NO_SESSION, 0x1234, call.sequence)]


### At most once ###


def test_a_duplicate_gets_the_same_bytes_again_and_runs_nothing(small: MemoryBoard) -> None:
    wire = encode_frame(small.frame(COUNT))
    first = small.send(wire)
    assert [small.send(wire) for _ in range(3)] == [first] * 3
    assert small.send(wire + wire) == first + first
    assert small.lib.test_counted == 1


def test_a_duplicate_of_a_refused_call_gets_the_same_error_again(small: MemoryBoard) -> None:
    wire = encode_frame(small.frame(REFUSE, 77))
    first = small.send(wire)
    assert read_frames(first)[0].kind == FrameKind.ERROR
    assert small.send(wire) == first


def test_an_older_sequence_number_gets_no_session_and_runs_nothing(small: MemoryBoard) -> None:
    first, second = small.frame(COUNT), small.frame(COUNT)
    assert len(small.exchange(first, second)) == 2
    assert small.exchange(first) == [Frame(FrameKind.NO_SESSION, 0x1234, FIRST + 1)]
    assert small.lib.test_counted == 2


@pytest.mark.parametrize("ahead", [1, 2, 0xFFFF])
def test_sequence_numbers_may_leave_some_out(small: MemoryBoard, ahead: int) -> None:
    (answer,) = small.exchange(Frame(FrameKind.CALL, 0x1234, FIRST + ahead, b"\x91\x02"))
    assert (answer.kind, answer.sequence) == (FrameKind.RESULT, FIRST + ahead)
    assert small.lib.test_counted == 1


@pytest.mark.parametrize("number", [FIRST + 0x10000, FIRST + 0x80000000, FIRST - 1, 1, 0])
def test_a_number_from_far_ahead_or_behind_gets_no_session_and_runs_nothing(
    small: MemoryBoard, number: int
) -> None:
    call = Frame(FrameKind.CALL, 0x1234, number, b"\x91\x02")
    assert small.exchange(call) == [Frame(FrameKind.NO_SESSION, 0x1234, number)]
    assert small.lib.test_counted == 0
    assert small.call(COUNT) == 1


def test_before_its_first_call_a_session_has_no_reply_to_send_again(small: MemoryBoard) -> None:
    assert small.exchange(Frame(FrameKind.CALL, 0x1234, FIRST, b"\x91\x02")) == []
    assert small.lib.test_counted == 0


def test_0_follows_the_greatest_number(boards: Boards) -> None:
    board = boards(SMALLEST)
    board.lib.test_boots = 0
    assert board.hello(nonce=0x0000FFFF).fields.last_sequence == 0xFFFF0000
    for number in (0xFFFFFFFF, 0, 1):
        (answer,) = board.exchange(Frame(FrameKind.CALL, 0x1234, number, b"\x91\x02"))
        assert (answer.kind, answer.sequence) == (FrameKind.RESULT, number)
    assert board.lib.test_counted == 3


def test_a_late_hello_that_begins_its_session_again_makes_no_call_run_again(
    small: MemoryBoard,
) -> None:
    calls = [small.frame(COUNT) for _ in range(3)]
    small.exchange(*calls)
    assert small.hello(session=0x4321).fields.last_sequence == SECOND + 3
    assert small.hello(session=0x1234).fields.last_sequence == THIRD + 3
    refused = [Frame(FrameKind.NO_SESSION, 0x1234, FIRST + n) for n in (1, 2, 3)]
    assert small.exchange(*calls) == refused
    assert small.lib.test_counted == 3


def test_nor_does_a_late_hello_behind_a_reset(small: MemoryBoard) -> None:
    call = small.frame(COUNT)
    small.exchange(call)
    small.lib.test_boot()
    small.lib.test_boots = 0x000B0076  # another start of the board
    # The same HELLO: 0x000b0076 ^ 0x12345678 | 1 = 0x123f560f.
    assert small.hello().fields.last_sequence == 0x560F0000
    assert small.exchange(call) == [Frame(FrameKind.NO_SESSION, 0x1234, FIRST + 1)]
    assert small.lib.test_counted == 0


@pytest.mark.parametrize("session", [0, 0x1235, 0xFFFF])
def test_a_call_of_another_session_gets_no_session_and_runs_nothing(
    small: MemoryBoard, session: int
) -> None:
    call = Frame(FrameKind.CALL, session, 7, b"\x91\x02")
    assert small.exchange(call) == [Frame(FrameKind.NO_SESSION, session, 7)]
    assert small.lib.test_counted == 0


def test_a_board_that_no_host_has_said_hello_to_runs_nothing(boards: Boards) -> None:
    board = boards(SMALLEST)
    for session in (0, 0x1234):
        call = Frame(FrameKind.CALL, session, 1, b"\x91\x02")
        assert board.exchange(call) == [Frame(FrameKind.NO_SESSION, session, 1)]
    assert board.lib.test_counted == 0


def test_a_board_that_was_reset_says_no_session(small: MemoryBoard) -> None:
    call = small.frame(COUNT)
    small.exchange(call)
    small.lib.test_boot()
    assert small.exchange(call) == [Frame(FrameKind.NO_SESSION, 0x1234, call.sequence)]
    assert small.lib.test_counted == 0


@pytest.mark.parametrize(
    "kind", [k for k in FrameKind if k not in (FrameKind.HELLO, FrameKind.CALL)]
)
def test_a_kind_that_is_not_for_the_board_is_ignored(small: MemoryBoard, kind: FrameKind) -> None:
    assert small.exchange(Frame(kind, 0x1234, FIRST + 1, b"\x91\x02")) == []


def test_a_call_of_another_version_is_ignored(small: MemoryBoard) -> None:
    call = Frame(FrameKind.CALL, 0x1234, FIRST + 1, b"\x91\x02", version=2)
    assert small.exchange(call) == []
    assert small.lib.test_counted == 0


### Damage ###


def test_garbage_gets_nak_with_session_and_last_sequence(small: MemoryBoard) -> None:
    small.call(COUNT)
    assert read_frames(small.send(b"\0garbage\0")) == [nak(0x1234, FIRST + 1)]
    assert read_frames(small.send(b"more\0\0\0of it\0")) == [nak(0x1234, FIRST + 1)] * 2


def test_a_board_without_a_session_says_so_in_nak(boards: Boards) -> None:
    assert read_frames(boards(SMALLEST).send(b"\0garbage\0")) == [nak(0, 0)]


def test_garbage_right_before_a_frame_costs_nothing(small: MemoryBoard) -> None:
    answers = read_frames(small.send(b"AT+RST\r\n" + encode_frame(small.frame(COUNT))))
    assert [answer.kind for answer in answers] == [FrameKind.NAK, FrameKind.RESULT]


@pytest.mark.parametrize("size", [254, 255, 300, 100_000])
def test_an_over_long_frame_gets_one_nak_and_the_next_is_taken(
    small: MemoryBoard, size: int
) -> None:
    long = encode_frame(Frame(FrameKind.CALL, 0x1234, FIRST + 1, b"\x92\x03\xc5" + b"\x55" * size))
    assert read_frames(small.send(long)) == [nak(0x1234, FIRST)]
    assert small.call(COUNT) == 1


MTUS = pytest.mark.parametrize("mtu", [64, 255, 256, 257, 258, 259, 512, 513, 514, 768])


@MTUS
def test_the_longest_frame_that_the_mtu_allows_is_taken(boards: Boards, mtu: int) -> None:
    board = boards({"BP_CFG_MTU": mtu})
    board.hello()
    for surplus in (0, 1):
        data = b"\x55" * (body_capacity(mtu) - 5 + surplus)
        body = b"\x92\x03\xc5" + len(data).to_bytes(2, "big") + data
        (answer,) = board.exchange(Frame(FrameKind.CALL, 0x1234, FIRST + 1 + surplus, body))
        if surplus == 0:
            assert (answer.kind, answer.body[3:]) == (FrameKind.RESULT, data)
        else:
            assert answer == nak(0x1234, FIRST + 1)


@MTUS
def test_the_longest_reply_that_the_mtu_allows_is_sent(boards: Boards, mtu: int) -> None:
    board = boards({"BP_CFG_MTU": mtu})
    board.hello()
    longest = body_capacity(mtu) - 3
    assert board.call(FILL, longest) == b"\x55" * longest
    with pytest.raises(BoardError, match=f"REPLY_TOO_BIG, detail {longest + 1}"):
        board.call(FILL, longest + 1)
    assert board.call(COUNT) == 1


def test_a_frame_that_comes_byte_by_byte_is_taken_once_it_is_whole(small: MemoryBoard) -> None:
    wire = encode_frame(small.frame(COUNT))
    answers = [small.send(bytes([byte])) for byte in wire]
    assert answers[:-1] == [b""] * (len(wire) - 1)
    assert read_frames(answers[-1])[0].kind == FrameKind.RESULT


def test_no_flipped_bit_in_a_call_makes_the_board_run_anything(small: MemoryBoard) -> None:
    call = Frame(FrameKind.CALL, 0x1234, FIRST + 1, b"\x91\x02")
    wire = encode_frame(call)
    for bit in range(8 * len(wire)):
        damaged = bytearray(wire)
        damaged[bit // 8] ^= 1 << bit % 8
        small.send(b"\0" + bytes(damaged) + b"\0")
        assert small.lib.test_counted == 0, f"bit {bit}"
    assert len(small.exchange(call)) == 1
    assert small.lib.test_counted == 1


def test_no_lost_byte_in_a_call_makes_the_board_run_anything(small: MemoryBoard) -> None:
    call = Frame(FrameKind.CALL, 0x1234, FIRST + 1, b"\x91\x02")
    wire = encode_frame(call)
    for lost in range(1, len(wire) - 1):
        small.send(b"\0" + wire[:lost] + wire[lost + 1 :] + b"\0")
        assert small.lib.test_counted == 0, f"byte {lost}"


def test_a_board_survives_noise_and_answers_after_it(small: MemoryBoard) -> None:
    noise = random.Random(1)
    for _ in range(200):
        small.send(noise.randbytes(noise.randrange(600)))
    assert list(FrameDecoder().feed(small.send(b"\0"))) in ([], [nak(0x1234, FIRST)])
    assert small.call(COUNT) == 1
