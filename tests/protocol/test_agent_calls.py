# SPDX-License-Identifier: Apache-2.0
"""The real C agent: calls, right and wrong ones, and the dictionary that it gives."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgpack
import pytest

from boardprof_protocol.codes import ErrorCode, FrameKind
from boardprof_protocol.frame import Frame
from tests.memory_board import FULL, SMALLEST, BoardError, MemoryBoard

Boards = Callable[[dict[str, int]], MemoryBoard]

# Ids in the smallest configuration, which has two built-in functions; see tests/c/firmware.c.
ECHO, WORK, ADD, HALF = 3, 6, 7, 8


@pytest.fixture
def small(boards: Boards) -> MemoryBoard:
    """The smallest agent, with a session."""
    board = boards(SMALLEST)
    board.hello()
    return board


### Wrong calls ###


def refused(board: MemoryBoard, body: bytes) -> tuple[int, int]:
    """Return code and detail of the ERROR that a CALL with this body gets."""
    board.sequence += 1
    call = Frame(FrameKind.CALL, board.session, board.sequence, body)
    answer = board.answer(call)
    assert answer.kind == FrameKind.ERROR
    code, detail = msgpack.unpackb(answer.body)
    return code, detail


@pytest.mark.parametrize(
    ("body", "code", "detail"),
    [
        ("", ErrorCode.MALFORMED, 0),
        ("02", ErrorCode.MALFORMED, 0x02),
        ("c0", ErrorCode.MALFORMED, 0xC0),
        ("dc0001 02", ErrorCode.MALFORMED, 0xDC),
        ("8102", ErrorCode.MALFORMED, 0x81),
        ("91", ErrorCode.MALFORMED, 0),
        ("91 cd00", ErrorCode.MALFORMED, 0),
        ("90", ErrorCode.ARG_COUNT, 0),
        ("91 c0", ErrorCode.ARG_TYPE, 0),
        ("92 a161 05", ErrorCode.ARG_TYPE, 1),
        ("91 09", ErrorCode.NO_FUNCTION, 9),
        ("91 ceffffffff", ErrorCode.NO_FUNCTION, 0xFFFFFFFF),
        ("92 02 05", ErrorCode.ARG_COUNT, 1),
        ("93 02 05 06", ErrorCode.ARG_COUNT, 2),
        ("91 02 05", ErrorCode.ARG_COUNT, 0),
        ("91 03", ErrorCode.ARG_COUNT, 0),
        ("92 03 05", ErrorCode.ARG_TYPE, 0),
        ("92 03 c403 0102", ErrorCode.MALFORMED, 0),
        ("93 07 05 c3", ErrorCode.ARG_TYPE, 0),
        ("93 07 c3 05", ErrorCode.ARG_TYPE, 1),
        ("93 07 05 ce80000000", ErrorCode.ARG_RANGE, 0),
        ("93 07 d3ffffffff7fffffff 05", ErrorCode.ARG_RANGE, 1),
        ("92 07 05", ErrorCode.ARG_COUNT, 0),
        ("94 07 05 06 07", ErrorCode.ARG_COUNT, 1),
        ("92 05 4d", 77, 0),
    ],
)
def test_a_wrong_call_is_refused_with_its_code_and_runs_nothing(
    small: MemoryBoard, body: str, code: int, detail: int
) -> None:
    assert refused(small, bytes.fromhex(body)) == (code, detail)
    assert small.lib.test_counted == 0
    assert "f" not in small.log


def test_a_function_with_arguments_is_called_with_them(small: MemoryBoard) -> None:
    assert small.call(ADD, 3, -5) == -2
    assert small.call(ADD, -(2**31), 0) == -(2**31)
    assert small.call(ECHO, b"\0\x01\0") == b"\0\x01\0"
    assert small.call(HALF, 2.5) == 1.25


def test_a_called_target_is_set_up_and_checked_once(small: MemoryBoard) -> None:
    assert small.call(WORK) is None
    assert small.log == "ufc"


def test_a_called_target_whose_check_fails_says_what_the_check_returned(small: MemoryBoard) -> None:
    small.lib.test_check_after = 1
    with pytest.raises(BoardError, match="CHECK_FAILED, detail 42"):
        small.call(WORK)


### The dictionary ###


@pytest.mark.parametrize("config", [SMALLEST, FULL], ids=["smallest", "full"])
def test_the_dictionary_hash_is_the_crc_of_all_replies(
    boards: Boards, config: dict[str, int]
) -> None:
    board = boards(config)
    welcome = board.hello().fields
    bodies = b"".join(body for section in range(4) for body in board.section(section))
    assert zlib.crc32(bodies) == welcome.dictionary_hash


def test_the_dictionary_says_what_the_firmware_has(small: MemoryBoard) -> None:
    sections = [[msgpack.unpackb(body) for body in small.section(n)] for n in range(4)]
    assert sections[0] == [["memory", "0.2.0", 0], None]
    assert sections[1] == [
        ["bp.describe", "", False],
        ["bp.measure", "", False],
        ["count", "", False],
        ["echo", "", False],
        ["fill", "", False],
        ["refuse", "", False],
        ["work", "() -> void", True],
        ["add", "(a: i32, b: i32) -> i32", True],
        ["half", "", False],
        None,
    ]
    assert sections[2] == [
        ["probe_a", 60000, 1, 0x11223344, 1],
        ["probe_b", 60000, 1, 0x11223344, 1],
        ["cycles", 1, 1, 0xC9EBC5D6, 2],
        ["ticks", 3, 1, 0xCB2AD80A, 1],
        None,
    ]
    assert [counter and counter[0] for counter in sections[3]] == [
        "calls",
        "calls",
        "cycles",
        "instructions",
        "ticks",
        None,
    ]
    assert sections[3][4] == ["ticks", "test_ticks", 64, 8000, 100, False, 0, 0]


def test_the_full_agent_lists_its_own_functions_before_the_boards(board: MemoryBoard) -> None:
    board.hello()
    assert msgpack.unpackb(next(board.section(0))) == ["memory", "0.2.0", 4096]
    assert board.names() == [
        *("bp.describe", "bp.measure", "bp.alloc", "bp.free", "bp.read", "bp.write"),
        *("probe_a.init", "probe_a.start", "probe_a.stop"),
        *("probe_b.init", "probe_b.start", "probe_b.stop"),
        *("cycles.init", "cycles.start", "cycles.stop"),
        *("ticks.init", "ticks.start", "ticks.stop"),
        *("count", "echo", "fill", "refuse", "work", "add", "half"),
    ]


def test_behind_the_end_of_a_section_there_is_nil(small: MemoryBoard) -> None:
    for section in range(4):
        assert small.call(0, section, 1000) is None
        assert small.call(0, section, 0xFFFFFFFF) is None


def test_a_counter_that_stops_moving_is_stuck_at_the_next_init(board: MemoryBoard) -> None:
    board.hello()

    def statuses() -> dict[str, int]:
        return {c[0]: c[6] for body in board.section(3) if (c := msgpack.unpackb(body))}

    assert statuses() == {"calls": 0, "cycles": 0, "instructions": 0, "ticks": 0}
    board.lib.test_instructions_step = board.lib.test_ticks_step = 0
    board.call("cycles.init")
    board.call("ticks.init")
    assert statuses() == {"calls": 0, "cycles": 0, "instructions": 2, "ticks": 2}
