# SPDX-License-Identifier: Apache-2.0
"""What an agent may answer, and what no agent should: each has an error of its own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgpack
import pytest

from boardprof.base.errors import (
    BoardprofError,
    BoardTimeoutError,
    BusyError,
    CheckFailedError,
    FrameError,
    ProtocolMismatchError,
    RpcError,
    UsageError,
)
from boardprof.wire.link.session import Session
from boardprof.wire.transport.sockets import connect_tcp
from boardprof_protocol.codes import FrameKind, ResetCause
from tests.link.fake_agent import Answer, fake_agent, welcome


@contextmanager
def session(*answers: Answer, greeting: bytes | None = None) -> Iterator[Session]:
    """A session with an agent that answers each call in the same way."""
    with fake_agent(lambda body: list(answers), greeting) as port:
        opened = Session(connect_tcp(port, 1.0), timeout_s=20.0)
        try:
            yield opened
        finally:
            opened.close()


def called(*answers: Answer) -> object:
    with session(*answers) as opened:
        opened.open()
        return opened.call(5, name="fir").value


def test_a_welcome_is_read_field_by_field() -> None:
    greeting = welcome(
        flags=1, pointer_size=2, mtu_rx=300, reset_cause=4, boot_id=9, build_id=[*range(1, 9)]
    )
    with session(greeting=greeting) as opened:
        read = opened.open()
    assert (read.big_endian, read.pointer_size, read.mtu_rx, read.mtu_tx) == (True, 2, 300, 256)
    assert (read.reset_cause, read.boot_id) == (ResetCause.WATCHDOG, 9)
    assert read.build_id == b"\1\2\3\4\5\6\7\10"


def test_a_welcome_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    greeting = welcome(version_max=3, reset_cause=99) + b"more"
    with session(greeting=greeting) as opened:
        assert opened.open().reset_cause is ResetCause.UNKNOWN


@pytest.mark.parametrize(
    ("greeting", "kind", "message"),
    [
        (b"hello", FrameError, "has 5 bytes instead of 32"),
        (welcome(mtu_rx=63), FrameError, "of 63 and 256 bytes; an agent has at least 64"),
        (welcome(mtu_tx=0), FrameError, "of 256 and 0 bytes; an agent has at least 64"),
        (welcome(version_min=2, version_max=2), ProtocolMismatchError, "speaks protocol 2;"),
        (welcome(version_min=2, version_max=4), ProtocolMismatchError, "speaks protocol 2 to 4;"),
        (welcome(version_min=0, version_max=0), ProtocolMismatchError, "speaks protocol 0;"),
    ],
)
def test_a_welcome_that_cannot_be_used_is_told(
    greeting: bytes, kind: type[BoardprofError], message: str
) -> None:
    with session(greeting=greeting) as opened, pytest.raises(kind, match=message):
        opened.open()


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"\xc0", None),
        (b"\xd3\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
        (b"\xcb\x3f\xf8\0\0\0\0\0\0", 1.5),
        (b"\xd9\x02ok", "ok"),
        (b"\xc5\0\x02\0\xff", b"\0\xff"),
        (b"\x92\x01\xc3", [1, True]),
    ],
)
def test_a_result_is_a_python_value(body: bytes, value: object) -> None:
    assert called((FrameKind.RESULT, body)) == value


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x01\x02", b"\xd9\x05ab", b"\xd9\x01\xff"])
def test_a_result_that_is_not_one_value_is_told(body: bytes) -> None:
    with pytest.raises(FrameError, match="The reply to fir is not one msgpack value"):
        called((FrameKind.RESULT, body))


def test_progress_comes_before_the_result() -> None:
    seen: list[tuple[int, int]] = []
    progress = (FrameKind.PROGRESS, b"\x92\x03\x0a")
    with session(progress, progress, (FrameKind.RESULT, b"\x07")) as opened:
        opened.open()
        result = opened.call(5, on_progress=lambda done, total: seen.append((done, total)))
    assert (result.value, seen) == (7, [(3, 10), (3, 10)])


@pytest.mark.parametrize(
    "done_and_total",
    [lambda turn: (3, 10), lambda turn: (turn % 3, 10), lambda turn: (turn, 5)],
    ids=["the-same", "up-and-down", "beyond-the-total"],
)
def test_progress_for_ever_that_does_not_advance_ends_with_the_time_out(
    done_and_total: Callable[[int], tuple[int, int]],
) -> None:
    def for_ever(_: bytes) -> Iterator[Answer]:
        for turn in itertools.count():
            yield FrameKind.PROGRESS, msgpack.packb(done_and_total(turn))
            time.sleep(0.02)

    with fake_agent(for_ever) as port:
        opened = Session(connect_tcp(port, 1.0), timeout_s=0.5)
        opened.open()
        with pytest.raises(BoardTimeoutError, match=r"did not answer fir for 0\.5 s"):
            opened.call(5, name="fir")
        opened.close()


def test_progress_that_advances_renews_the_time_out() -> None:
    def slow(_: bytes) -> Iterator[Answer]:
        for done in range(8):  # 1.6 s in all
            yield FrameKind.PROGRESS, msgpack.packb((done, 8))
            time.sleep(0.2)
        yield FrameKind.RESULT, b"\x07"

    with fake_agent(slow) as port:
        opened = Session(connect_tcp(port, 1.0), timeout_s=1.2)
        opened.open()
        assert opened.call(5, name="fir").value == 7
        opened.close()


@pytest.mark.parametrize("body", [b"", b"\xc0", b"\x91\x01", b"\x92\xa1a\xa1b"])
def test_progress_that_is_none_is_told(body: bytes) -> None:
    with pytest.raises(FrameError, match=r"progress"):
        called((FrameKind.PROGRESS, body))


@pytest.mark.parametrize(
    ("fields", "kind", "exit_code", "message"),
    [
        ([2, 5], RpcError, 4, "refused fir: it has no packed function with that id (detail 5)."),
        ([5, 1], RpcError, 4, "refused fir: an argument is out of range (detail 1)."),
        ([6, 70, "more"], RpcError, 4, "the reply does not fit the board's buffer (detail 70)."),
        ([99, 1], RpcError, 4, "refused fir: error 99 (detail 1)."),
        (
            [13, 7],
            CheckFailedError,
            6,
            "its check function says that the result is wrong (it returned 7)",
        ),
        ([13, 2**32 - 3], CheckFailedError, 6, "(it returned -3)"),
        ([13, 2**31 - 1], CheckFailedError, 6, "(it returned 2147483647)"),
        ([13, 2**31], CheckFailedError, 6, "(it returned -2147483648)"),
        ([13], RpcError, 4, "with an unreadable error"),
        ("no", RpcError, 4, "with an unreadable error"),
        (["a", "b"], RpcError, 4, "with an unreadable error"),
    ],
)
def test_an_error_is_told_by_its_code(
    fields: object, kind: type[BoardprofError], exit_code: int, message: str
) -> None:
    with pytest.raises(kind) as caught:
        called((FrameKind.ERROR, msgpack.packb(fields)))
    assert message in str(caught.value)
    assert caught.value.exit_code == exit_code


def test_a_board_that_has_lost_the_session_without_a_reset_was_taken_over() -> None:
    with pytest.raises(BusyError, match=r"Another host took over the board at socket://.*\.\nTry"):
        called((FrameKind.NO_SESSION, b""))


def test_arguments_that_no_frame_holds_are_refused_before_they_are_sent() -> None:
    with session((FrameKind.RESULT, b"\xc0")) as opened:
        opened.open()
        # 256 less 2 delimiters, 1 byte of COBS and 11 of frame are 242; array and id take 2 more.
        opened.call(5, b"\1" * 240, 1)
        with pytest.raises(UsageError, match=r"take 243 bytes; the board's frames hold 242"):
            opened.call(5, b"\1" * 241, 1)
        with pytest.raises(UsageError):
            opened.call(5, b"\1" * 15, 15)
