# SPDX-License-Identifier: Apache-2.0
"""The dictionary: asked for once, kept, and never believed when its hash is another."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import msgpack
import pytest

from boardprof.base.errors import BoardTimeoutError, FrameError, LinkError, UnknownNameError
from boardprof.measure.board.line import fetch_dictionary
from boardprof.wire.decode.dictionary import (
    CollectorInfo,
    CounterInfo,
    FunctionInfo,
    parse_dictionary,
)
from boardprof.wire.link.replies import Welcome
from boardprof.wire.link.session import Session
from boardprof.wire.transport.sockets import connect_tcp
from boardprof_protocol.codes import CounterStatus, FrameKind
from tests.cli.command import FIXTURES
from tests.link.fake_agent import Answer, fake_agent, welcome
from tests.link.peers import FaultyLine, running_agent

FIRMWARE = ["m0", "0.1.0", 512]
FUNCTIONS = [["bp.describe", "", False], ["fir", "(n: u32) -> i32", True]]
COLLECTORS = [["core", 1, 1, 0xC9EBC5D6, 2], ["clock", 3, 1, 7, 1]]
COUNTERS = [
    ["cycles", "mcycle", 64, 0, 0, False, 2, 0],
    ["instructions", "minstret", 64, 0, 0, False, 0, 0],
    ["ticks", "mtime", 32, 1000, 10, True, 0, 0],
]


def stored(*sections: list[list[object]]) -> bytes:
    return b"".join(
        b"".join(msgpack.packb(entry) for entry in section) + b"\xc0" for section in sections
    )


WHOLE = stored([FIRMWARE], FUNCTIONS, COLLECTORS, COUNTERS)


# -- what it says -----------------------------------------------------------------------------


def test_a_dictionary_is_read_section_by_section() -> None:
    read = parse_dictionary(WHOLE)
    assert (read.board, read.agent_version, read.arena_bytes) == ("m0", "0.1.0", 512)
    assert read.function("fir") == FunctionInfo(1, "fir", "(n: u32) -> i32", True)
    ticks = CounterInfo("ticks", "mtime", 32, 1000, 10, True, CounterStatus.OK, 0)
    assert read.collector("clock") == CollectorInfo(1, "clock", 3, 1, 7, (ticks,))
    assert [counter.name for counter in read.collector("core").counters] == [
        "cycles",
        "instructions",
    ]
    assert read.collector("core").counters[0].unsupported == "mcycle does not advance"


def test_the_agents_own_functions_are_not_the_users() -> None:
    functions = [*FUNCTIONS, ["core.start", "", False], ["core.stopwatch", "", True]]
    read = parse_dictionary(stored([FIRMWARE], functions, COLLECTORS, COUNTERS))
    assert [function.name for function in read.user_functions] == ["fir", "core.stopwatch"]


def test_a_counter_whose_name_is_taken_is_called_by_its_collectors_name_too() -> None:
    collectors = [["a", 1, 1, 0, 1], ["b", 2, 1, 0, 1]]
    counters = [COUNTERS[0], COUNTERS[0]]
    read = parse_dictionary(stored([FIRMWARE], [], collectors, counters))
    names = [[counter.name for counter in c.counters] for c in read.collectors]
    assert names == [["cycles"], ["b.cycles"]]


def test_an_unknown_function_or_collector_is_refused_with_the_list() -> None:
    read = parse_dictionary(WHOLE)
    with pytest.raises(UnknownNameError, match=r"no function 'fur'; did you mean 'fir'\? Known: f"):
        read.function("fur")
    with pytest.raises(UnknownNameError, match=r"no collector 'clok'; did you mean 'clock'\?"):
        read.collector("clok")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        stored([FIRMWARE], FUNCTIONS, COLLECTORS),
        stored([], FUNCTIONS, COLLECTORS, COUNTERS),
        stored([FIRMWARE], FUNCTIONS, COLLECTORS, COUNTERS, []),
        stored([FIRMWARE[:2]], FUNCTIONS, COLLECTORS, COUNTERS),
        stored([["m0", "0.1.0", "many"]], FUNCTIONS, COLLECTORS, COUNTERS),
        stored([FIRMWARE], [[5, "", True]], COLLECTORS, COUNTERS),
        stored([FIRMWARE], FUNCTIONS, COLLECTORS, COUNTERS[:2]),
        stored([FIRMWARE], FUNCTIONS, COLLECTORS, [[*COUNTERS[0][:6], 77, 0]] * 3),
        b"\x05" + WHOLE,
        b"\xc1" + WHOLE,
        b"\xc0" * ((1 << 20) + 1),
        b"\xdd\x00\x0f\xff\xff" * 1000,
        b"\x91" * 5000,
    ],
)
def test_what_is_no_dictionary_is_told(content: bytes) -> None:
    with pytest.raises(LinkError, match="The board's dictionary cannot be read: "):
        parse_dictionary(content)


@pytest.mark.parametrize(("bits", "is_read"), [(0, False), (1, True), (64, True), (65, False)])
def test_a_counter_has_1_to_64_bits(bits: int, is_read: bool) -> None:
    content = stored([FIRMWARE], [], [COLLECTORS[1]], [["ticks", "mtime", bits, 0, 0, False, 0, 0]])
    with contextlib.nullcontext() if is_read else pytest.raises(LinkError, match=f"{bits} is not"):
        assert parse_dictionary(content).collector("clock").counters[0].bits == bits


# -- how it is fetched ------------------------------------------------------------------------


@pytest.fixture
def line() -> Iterator[FaultyLine]:
    """A real agent, behind a line that notes what the host asks."""
    with running_agent(FIXTURES / "scalars.c") as (_, port), FaultyLine(port) as line:
        yield line


@pytest.fixture
def session(line: FaultyLine) -> Iterator[tuple[Session, Welcome]]:
    opened = Session(connect_tcp(line.port, 1.0), timeout_s=20.0)
    welcome = opened.open()
    opened.requests.rtt.floor_s = 20.0  # what is asked is counted: nothing is asked a second time
    yield opened, welcome
    opened.close()


def calls(line: FaultyLine) -> int:
    """How many calls the board was asked for; a request that is sent again is the same call."""
    return len({frame.sequence for frame in line.requests if frame.kind == FrameKind.CALL})


def test_the_same_build_is_asked_once(
    session: tuple[Session, Welcome], line: FaultyLine, tmp_path: Path
) -> None:
    cache = tmp_path / "dictionaries"
    first = fetch_dictionary(session[0], cache)
    asked = calls(line)
    # An answer each for the firmware, the functions, collectors and counters, and four ends.
    counters = sum(len(collector.counters) for collector in first.collectors)
    assert asked == 1 + len(first.functions) + len(first.collectors) + counters + 4
    assert fetch_dictionary(session[0], cache) == first
    assert calls(line) == asked
    assert [path.suffix for path in cache.iterdir()] == [".msgpack"]


def test_other_code_of_the_same_functions_is_not_asked(
    session: tuple[Session, Welcome], line: FaultyLine, tmp_path: Path
) -> None:
    opened, read = session
    first = fetch_dictionary(opened, tmp_path, "f(n: u32)")
    asked = calls(line)
    opened.welcome = dataclasses.replace(read, build_id=bytes(8))
    assert fetch_dictionary(opened, tmp_path, "f(n: u32)") == first
    assert calls(line) == asked
    assert fetch_dictionary(opened, tmp_path, "g(n: u32)") == first
    assert calls(line) == 2 * asked


def test_another_hash_is_asked_again(
    session: tuple[Session, Welcome], line: FaultyLine, tmp_path: Path
) -> None:
    opened, read = session
    fetch_dictionary(opened, tmp_path)
    (kept,) = tmp_path.iterdir()
    # A board of the same build whose counters turned out otherwise at this boot.
    old, new = read.dictionary_hash, read.dictionary_hash ^ 1
    opened.welcome = dataclasses.replace(read, dictionary_hash=new)
    kept.rename(kept.with_name(kept.name.replace(f"{old:08x}", f"{new:08x}")))
    asked = calls(line)
    with pytest.raises(
        FrameError, match=r"does not match its hash: it is 0x[0-9a-f]{8}, WELCOME said 0x"
    ):
        fetch_dictionary(opened, tmp_path)
    assert calls(line) == 2 * asked


@pytest.mark.parametrize("damage", [b"", b"\xc0\xc0\xc0\xc0", b"\xff" * 100])
def test_a_damaged_cache_is_ignored_and_mended(
    session: tuple[Session, Welcome], line: FaultyLine, tmp_path: Path, damage: bytes
) -> None:
    first = fetch_dictionary(session[0], tmp_path)
    (kept,) = tmp_path.iterdir()
    right = kept.read_bytes()
    kept.write_bytes(damage)
    asked = calls(line)
    assert fetch_dictionary(session[0], tmp_path) == first
    assert calls(line) == 2 * asked
    assert kept.read_bytes() == right


def test_a_cache_that_cannot_be_used_costs_time_and_nothing_else(
    session: tuple[Session, Welcome], line: FaultyLine, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    first = fetch_dictionary(session[0], blocked / "dictionaries")
    assert fetch_dictionary(session[0], None) == first


def answers_from(content: bytes) -> Iterator[bytes]:
    unpacker = msgpack.Unpacker()
    unpacker.feed(content)
    for entry in unpacker:
        yield msgpack.packb(entry)


def test_a_board_that_contradicts_its_own_hash_is_told(tmp_path: Path) -> None:
    replies = answers_from(WHOLE)

    def answer(body: bytes) -> list[Answer]:
        return [(FrameKind.RESULT, next(replies))]

    with fake_agent(answer, welcome(dictionary_hash=zlib.crc32(WHOLE) ^ 1)) as port:
        opened = Session(connect_tcp(port, 1.0), timeout_s=20.0)
        opened.open()
        with pytest.raises(FrameError, match="does not match its hash"):
            fetch_dictionary(opened, tmp_path)
        opened.close()
    assert list(tmp_path.iterdir()) == []


@contextlib.contextmanager
def session_with(
    answer: Callable[[bytes], Iterable[Answer]], dictionary_hash: int = 0
) -> Iterator[Session]:
    with fake_agent(answer, welcome(dictionary_hash=dictionary_hash)) as port:
        opened = Session(connect_tcp(port, 1.0), timeout_s=0.5)
        try:
            opened.open()
            yield opened
        finally:
            opened.close()


def test_a_dictionary_without_an_end_is_given_up_after_1_mib() -> None:
    asked = []
    large = msgpack.packb(["x" * 9_994, "", True])
    assert len(large) == 10_000

    def answer(body: bytes) -> list[Answer]:
        asked.append(body)
        return [(FrameKind.RESULT, large)]

    message = r"is too long: more than 1,048,576 bytes\."
    with session_with(answer) as opened, pytest.raises(FrameError, match=message):
        fetch_dictionary(opened, None)
    assert len(asked) == 105


def entries_slowly(body: bytes) -> Iterator[Answer]:
    time.sleep(0.05)
    yield FrameKind.RESULT, msgpack.packb(FIRMWARE)


def progress_for_ever(body: bytes) -> Iterator[Answer]:
    while True:
        time.sleep(0.05)
        yield FrameKind.PROGRESS, msgpack.packb([1, 100])


@pytest.mark.parametrize("answer", [entries_slowly, progress_for_ever])
def test_a_dictionary_that_comes_slowly_for_ever_is_given_up(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[bytes], Iterable[Answer]]
) -> None:
    monkeypatch.setattr("boardprof.measure.board.line._WHOLE_S", 0.5)
    began_s = time.monotonic()
    # Both limits are 0.5 s: of the whole, and of a request that does not advance.
    message = r"did not (send its dictionary within|answer bp\.describe for) 0\.5 s"
    with session_with(answer) as opened, pytest.raises(BoardTimeoutError, match=message):
        fetch_dictionary(opened, None)
    assert time.monotonic() - began_s < 10


def test_a_kept_dictionary_of_any_length_is_not_read_whole(tmp_path: Path) -> None:
    long = b"\xc0" * (4 << 20)
    kept = tmp_path / f"{'00' * 8}-{zlib.crc32(long):08x}.msgpack"
    kept.write_bytes(long)
    replies = answers_from(WHOLE)

    def answer(body: bytes) -> list[Answer]:
        return [(FrameKind.RESULT, next(replies))]

    other = pytest.raises(FrameError, match="does not match its hash")
    with session_with(answer, zlib.crc32(long)) as opened, other:
        fetch_dictionary(opened, tmp_path)


def test_twice_as_many_collectors_take_twice_as_many_steps() -> None:
    few, many = (steps_of(partial(parse_dictionary, many_collectors(n))) for n in (1_000, 2_000))
    assert 1.8 * few < many < 2.2 * few
    read = parse_dictionary(many_collectors(10_000))
    assert len(read.collectors) == 10_000
    assert read.collectors[-1].counters[0].name == "c9999.cycles"


def many_collectors(number: int) -> bytes:
    collectors = [[f"c{i}", 1, 1, 0, 1] for i in range(number)]
    return stored([FIRMWARE], [], collectors, [COUNTERS[0]] * number)


def steps_of(action: Callable[[], object]) -> int:
    """Return how many lines of Python, and turns of their loops, an action takes."""
    steps = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(before)
    return steps
