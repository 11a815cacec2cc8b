# SPDX-License-Identifier: Apache-2.0
"""ERROR replies as exceptions: faults and time-outs, with and without a known image."""

from __future__ import annotations

import msgpack
import pytest

from boardprof.base.errors import (
    DeviceCounterError,
    DeviceFaultError,
    DeviceTimeoutError,
    FrameError,
    Location,
    RpcError,
)
from boardprof.wire.link.replies import Locate, refusal, unpack_reply
from boardprof_protocol.codes import ErrorCode

PLACE = Location("/src/crash.c", 12, "crash")


def fault(*items: int, locate: Locate | None = None) -> DeviceFaultError:
    error = refusal("crash", msgpack.packb([14, *items]), locate)
    assert isinstance(error, DeviceFaultError)
    assert (error.exit_code, error.code) == (6, 14)
    return error


def time_out(*items: int, locate: Locate | None = None) -> DeviceTimeoutError:
    error = refusal("crash", msgpack.packb([15, *items]), locate)
    assert isinstance(error, DeviceTimeoutError)
    assert (error.exit_code, error.code, error.cause) == (6, 15, "time-out")
    return error


def test_a_fault_is_told_with_its_address_and_its_line() -> None:
    asked = []

    def locate(pc: int) -> Location:
        asked.append(pc)
        return PLACE

    error = fault(2, 0x8000_0010, 0, locate=locate)
    assert asked == [0x8000_0010]
    assert error.message == "crash trapped on the board: bad address 0x0 at crash.c:12 (in crash)"
    assert error.hint == "look for the fault in crash. What crash changed before that is not undone"
    assert (error.cause, error.pc, error.address) == ("bad-address", 0x8000_0010, 0)
    assert error.location == PLACE


def test_without_an_image_the_raw_pc_is_told_and_how_to_find_the_line() -> None:
    error = fault(3, 0x8000_0010, 0x2001)
    assert error.message == (
        "crash trapped on the board: misaligned address 0x2001 at pc 0x80000010"
    )
    assert error.hint is not None
    assert error.hint.endswith("`addr2line -f -e IMAGE 0x80000010` names the line")
    assert (error.address, error.location) == (0x2001, None)


def test_a_pc_that_is_nowhere_in_the_image_is_told_raw() -> None:
    assert "at pc 0x44" in fault(4, 0x44, 0, locate=lambda pc: None).message


def test_a_pc_that_is_not_known_is_not_told_and_not_looked_up() -> None:
    def never(pc: int) -> Location:
        raise AssertionError(pc)

    error = fault(8, 0, 0, locate=never)
    assert error.message == "crash trapped on the board: abort or exit"
    assert (error.pc, error.address) == (None, None)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (
            Location("/agent/bp_mem.c", 14, "memset"),
            "in memset, called by crash or by a function that",
        ),
        (
            Location("/libc/memset.S", 21, "memset"),
            "at memset.S:21 (in memset), called by crash or ",
        ),
        (Location("/src/mine.c", 3, "memsets"), "at mine.c:3 (in memsets)"),
    ],
)
def test_in_a_memory_function_it_is_the_caller_that_counts(place: Location, shown: str) -> None:
    assert shown in fault(6, 0x44, 0, locate=lambda pc: place).message


@pytest.mark.parametrize(
    ("cause", "name", "what"),
    [
        (2, "bad-address", "bad address 0x8"),
        (3, "misaligned", "misaligned address 0x8"),
        (4, "illegal-instruction", "illegal instruction"),
        (5, "divide", "division by zero"),
        (6, "stack-overflow", "stack overflow"),
        (7, "breakpoint", "breakpoint"),
        (8, "abort", "abort or exit"),
        (1, "unknown", "cause 1"),
        (77, "unknown", "cause 77"),
    ],
)
def test_each_cause_has_its_words(cause: int, name: str, what: str) -> None:
    error = fault(cause, 4, 8)
    assert error.message == f"crash trapped on the board: {what} at pc 0x4"
    assert error.cause == name


def test_a_time_out_is_told_with_its_limit_and_its_line() -> None:
    error = time_out(1500, 4, 0, locate=lambda pc: PLACE)
    assert error.message == (
        "crash did not end within 1.5 s of the board's clock; the board stopped it at "
        "crash.c:12 (in crash)"
    )
    assert error.hint == "if crash is only slow, give timeout_s=15"
    assert (error.limit_s, error.pc, error.location) == (1.5, 4, PLACE)


def test_a_function_that_changed_a_counter_is_told_with_the_collectors_schema() -> None:
    error = refusal("fir", msgpack.packb([17, 3]))
    assert isinstance(error, DeviceCounterError)
    assert error.message == "fir stopped, set or reprogrammed a counter that measures it."
    assert (error.exit_code, error.code, error.schema_id) == (6, 17, 3)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code not in (13, 14, 15, 16, 17)])
def test_each_refusal_says_what_to_try(code: ErrorCode) -> None:
    error = refusal("fir", msgpack.packb([int(code), 7]))
    assert type(error) is RpcError
    assert (error.exit_code, error.code) == (4, code)
    assert error.message.startswith("The board refused fir: ")
    assert error.hint


def test_a_void_handle_and_an_offset_past_the_end_are_told_apart() -> None:
    assert str(refusal("bp.read", msgpack.packb([8, 513]))) == (
        "The board refused bp.read: no such handle in this session (detail 513).\n"
        "Try: reserve or open it again: a handle is invalid once it is freed or closed, and "
        "in any other session"
    )
    assert str(refusal("bp.read", msgpack.packb([9, 100]))) == (
        "The board refused bp.read: outside the block (detail 100).\n"
        "Try: stay within the block; the detail is the length of the block in bytes"
    )


def test_a_packed_function_may_send_these_codes_with_two_items() -> None:
    assert (fault(0).message, fault(0).pc) == ("crash trapped on the board: cause 0", None)
    assert time_out(0).pc is None


def test_items_of_a_later_version_are_ignored_and_wrong_ones_refused() -> None:
    assert fault(5, 4, 0, "more").pc == 4  # type: ignore[arg-type]
    error = refusal("crash", msgpack.packb([14, 2, "pc", 0]))
    assert isinstance(error, RpcError)
    assert "unreadable" in error.message


def test_an_arena_that_is_used_up_is_told_with_its_size() -> None:
    error = refusal("bp.alloc", msgpack.packb([7, 8_388_608]))
    assert error.message == (
        "The board refused bp.alloc: no room for one more block (the arena has 8,388,608 bytes)."
    )
    assert "(detail 4)" in refusal("bp.open", msgpack.packb([7, 4])).message


def test_a_reply_with_more_items_than_a_board_writes_is_refused() -> None:
    longest = list(range(15))  # SPEC.md 4.1
    assert unpack_reply("list", msgpack.packb(longest)) == longest
    with pytest.raises(FrameError, match="The reply to list is not one msgpack value"):
        unpack_reply("list", msgpack.packb([*longest, 15]))
