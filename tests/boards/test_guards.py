# SPDX-License-Identifier: Apache-2.0
"""Guarded calls on every board: a fault or a hang ends the call, is told with its line, and the
board goes on.

board.toml says which causes a board catches; this test takes it at its word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceError, DeviceFaultError, DeviceTimeoutError
from boardprof.base.metrics import Count
from boardprof.measure.board.board import Board
from boardprof.measure.connect import Firmware, connect, guard_calls
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import board_spec
from boardprof.target.descriptions.tables import CAUSES
from tests.boards.conftest import NAMES, available, hang_limit_s, spec_of
from tests.cli.command import boardprof, rows
from tests.firmware import build

FIXTURES = Path(__file__).parent / "fixtures"
FAULTS, ABORTS = FIXTURES / "faults.c", FIXTURES / "aborts.c"

FUNCTIONS = {
    "bad-address": ["write_null", "read_null"],
    "misaligned": ["misaligned"],
    "illegal-instruction": ["illegal"],
    "divide": ["divide"],
    "stack-overflow": ["overflow"],
    "breakpoint": ["stop_here"],
    "abort": ["aborts", "exits", "exits_at_once"],
    "time-out": ["endless"],
}
"""The functions of the fixtures, by the cause that each ends with."""

NOWHERE = {"microbit": 0x6000_0000, "stm32vldiscovery": 0x6000_0000}
"""An address that nothing answers at, where NULL is the board's flash and no unit denies it."""

CASES = [
    (board, cause, function)
    for board in NAMES
    for cause in spec_of(board).guard.catches
    for function in FUNCTIONS[cause]
]
GUARDED = [name for name in NAMES if "bad-address" in spec_of(name).guard.catches]
ABORTING = [name for name in GUARDED if "abort" in spec_of(name).guard.catches]
TIMED = [name for name in NAMES if "time-out" in spec_of(name).guard.catches]


def sources(board: str) -> list[Path]:
    return [FAULTS, ABORTS] if "abort" in spec_of(board).guard.catches else [FAULTS]


@cache
def marked(function: str) -> set[tuple[str, int]]:
    """Return the lines of the fixtures at which ``function`` is to be found out."""
    return {
        (path.name, number)
        for path in (FAULTS, ABORTS)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if f"FAULT: {function} " in line
    }


@pytest.fixture(scope="module")
def firmware() -> Callable[[str], Firmware]:
    def built(board: str) -> Firmware:
        flags = f"-O2 -DNOWHERE={NOWHERE[board]:#x}" if board in NOWHERE else "-O2"
        return build(available(board), sources(board), BuildOptions(flags))

    return cache(built)


@pytest.fixture(scope="module")
def board(request: pytest.FixtureRequest, firmware: Callable[[str], Firmware]) -> Iterator[Board]:
    """One start of a board, which survives all that is done to it."""
    image = firmware(request.param).image
    with connect(board_spec(request.param), image=image) as connected:
        limit(connected)
        yield connected


def limit(board: Board) -> None:
    """Have the board end a call that hangs, soon."""
    guard_calls(board.session, board.dictionary, board.spec, hang_limit_s(board.spec))


def boards(names: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("board", names, indirect=True)


def check_place(error: DeviceError, function: str) -> None:
    """See that the error names a line that is marked with ``function``."""
    assert isinstance(error, DeviceFaultError | DeviceTimeoutError)
    assert error.location is not None, error
    assert (Path(error.location.path).name, error.location.line) in marked(function), error
    assert f" at {Path(error.location.path).name}:{error.location.line} (in " in error.message


# -- what a board says of itself --------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_board_tells_of_every_cause_whether_it_is_caught_or_why_not(name: str) -> None:
    guard = board_spec(name).guard
    assert sorted([*guard.catches, *guard.missing]) == sorted(CAUSES)
    assert all(reason.strip() for reason in guard.missing.values())


def test_the_boards_of_the_tree_catch_hangs_and_what_their_cores_have_traps_for() -> None:
    traps = {"bad-address", "illegal-instruction"}
    for name in NAMES:
        guard = board_spec(name).guard
        assert "time-out" in guard.catches, name
        lacking = [guard.missing[cause] for cause in traps if cause in guard.missing]
        assert all("no traps" in why or "no error" in why for why in lacking), (name, lacking)


# -- calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("board", "cause", "function"), CASES, indirect=["board"])
def test_a_fault_ends_the_call_with_its_cause_and_line_and_the_next_call_works(
    board: Board, cause: str, function: str
) -> None:
    with pytest.raises(DeviceError) as caught:
        board.functions[function]()
    error = caught.value
    assert error.exit_code == 6
    if cause == "time-out":
        assert isinstance(error, DeviceTimeoutError)
        assert error.limit_s == hang_limit_s(board.spec)
    else:
        assert isinstance(error, DeviceFaultError)
    assert error.cause == cause
    check_place(error, function)
    assert board.functions.answer(41) == 42


@boards(GUARDED)
@pytest.mark.parametrize("function", ["write_null", "read_null"])
def test_a_bad_address_is_told(board: Board, function: str) -> None:
    where = NOWHERE.get(board.spec.name, 0)
    with pytest.raises(
        DeviceFaultError, match=f"trapped on the board: bad address {where:#x} at"
    ) as caught:
        board.functions[function]()
    assert caught.value.address == where


@boards([n for n in ABORTING if spec_of(n).build.freestanding and n not in NOWHERE])
def test_a_fault_within_memset_names_it_and_who_called_it(board: Board) -> None:
    with pytest.raises(DeviceFaultError) as caught:
        board.functions.clears_null()
    assert caught.value.cause == "bad-address"
    assert (
        "(in memset), called by clears_null or by a function that it calls" in caught.value.message
    )


@boards([name for name in ABORTING if not spec_of(name).build.freestanding])
def test_a_fault_within_libc_is_told_at_the_line_that_called_it(board: Board) -> None:
    with pytest.raises(DeviceFaultError) as caught:
        board.functions.clears_null()
    assert caught.value.cause == "bad-address"
    check_place(caught.value, "clears_null")


@boards(TIMED)
def test_many_faults_and_hangs_in_a_row_leave_the_board_as_it_was(board: Board) -> None:
    block = board.memory.alloc(64)
    board.memory.write(block, bytes(range(64)))
    (name, *_) = (
        collector.name
        for collector in board.offer.fixed  # slots count nothing by themselves
        if any(c.name not in board.device.unsupported for c in collector.counters)
    )
    catches = board.spec.guard.catches
    bad = [
        f
        for c in ("time-out", "bad-address", "illegal-instruction", "abort")
        if c in catches
        for f in FUNCTIONS[c]
    ]
    with board.collectors[name] as window:
        for _ in range(5):
            for function in bad:
                with pytest.raises(DeviceError):
                    board.functions[function]()
                assert board.functions.answer(-1) == 0
    assert window.readings
    assert board.memory.read(block) == bytes(range(64))
    board.memory.free(block)


# -- measurements -----------------------------------------------------------------------------


@boards(GUARDED)
@pytest.mark.parametrize("function", ["in_call", "in_setup", "in_check"])
def test_a_fault_in_a_measured_call_its_set_up_or_its_check_ends_the_measurement(
    board: Board, function: str
) -> None:
    with pytest.raises(DeviceFaultError) as caught:
        board.profile(function, warmup=0, repeat=2)
    assert caught.value.cause == "bad-address"
    check_place(caught.value, function)
    assert len(board.profile("answer", 1, warmup=1, repeat=3).calls) == 3


@pytest.mark.parametrize(
    ("name", "function"),
    [(name, "at_fifth") for name in GUARDED] + [(name, "hangs_at_fifth") for name in TIMED],
)
def test_a_fault_in_a_later_sample_ends_the_measurement_and_the_next_one_is_whole(
    name: str, function: str, firmware: Callable[[str], Firmware]
) -> None:
    with connect(board_spec(name), image=firmware(name).image) as board:
        limit(board)
        with pytest.raises(DeviceError) as caught:
            board.profile(function, warmup=1, repeat=10)
        check_place(caught.value, function)
        report = board.profile(function, warmup=1, repeat=10, number=3)
        assert [row["Count"] for row in report.calls] == [Count(3)] * 10


@boards(TIMED)
def test_the_limit_is_for_each_round_and_not_for_the_whole_measurement(board: Board) -> None:
    """All rounds together take one and a half times the limit."""
    extra = board.profile("answer", 1, warmup=1, repeat=5, number=2_000).extra
    assert extra is not None
    samples = extra["measurements"][0]["samples"]
    counters = [c for col in board.dictionary.collectors for c in col.counters]
    clocks = {c.name: c.hz for c in counters if c.hz}
    clocks["instructions"] = 10**9 // max(board.spec.instruction_ns, 1)  # of a board without one
    clock = next(name for name in clocks if name in samples[0]["raw"])
    call_s = min(sample["raw"][clock] for sample in samples) / clocks[clock] / 2_000
    limit_s, rounds = hang_limit_s(board.spec), 30
    if board.spec.clock.kind == "measured":  # a busy machine may make one round much longer
        limit_s, rounds = 3.0, 150
    guard_calls(board.session, board.dictionary, board.spec, limit_s)
    number = round(1.5 * limit_s / rounds / call_s)
    try:
        report = board.profile("answer", 1, warmup=0, repeat=rounds, number=number)
        assert len(report.calls) == rounds
    finally:
        limit(board)


# -- the command ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GUARDED)
def test_the_command_measures_the_others_and_ends_with_6(name: str, tmp_path: Path) -> None:
    available(name)
    where = NOWHERE.get(name, 0)
    (tmp_path / "three.c").write_text(
        f"static volatile int *volatile nowhere = (volatile int *){where:#x};\n"
        "void a_right(void) {}\n"
        "void b_traps(void) { *nowhere = 1; }\n"
        "void c_right(void) {}\n"
    )
    done = boardprof("run", "-b", name, tmp_path / "three.c:all", "--repeat", "3")
    assert (done.code, sorted(rows(done.out))) == (6, ["a_right", "c_right"])
    place = f"bad address {where:#x} at three.c:3 (in b_traps)"
    message = f"error: b_traps trapped on the board: {place}\n"
    assert message in done.err


@pytest.mark.parametrize("name", TIMED)
def test_a_hang_is_6_and_never_5(name: str) -> None:
    limit_s = str(hang_limit_s(available(name)))
    done = boardprof("run", "-b", name, f"{FAULTS}:endless", "--timeout", limit_s, timeout_s=200)
    assert (done.code, done.out) == (6, "")
    assert re.match(
        rf"error: endless did not end within {re.escape(limit_s)} s of the board's clock; "
        r"the board stopped it at faults\.c:\d+ \(in endless\)\n",
        done.err,
    )
