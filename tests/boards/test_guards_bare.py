# SPDX-License-Identifier: Apache-2.0
"""Guarded calls on the boards without an operating system: the core is as it was after each fault.

What the functions below read of the core they read within a guarded call without a limit, so that
the timer has to be off then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgpack
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from boardprof.base.errors import DeviceFaultError, DeviceTimeoutError
from boardprof.base.metrics import Count
from boardprof.measure.board.board import Board
from boardprof.measure.connect import Firmware, connect
from boardprof.results.report.report import Report
from boardprof.target.descriptions.board import board_spec
from boardprof.target.elf.addresses import locate
from tests.boards.conftest import available
from tests.firmware import build

BARE = ["qemu-cortex-a53", "qemu-cortex-m3", "qemu-rv32", "qemu-rv64"]
FAULTS = Path(__file__).parent / "fixtures" / "bare_faults.c"

LIMIT_MS = {"qemu-cortex-a53": 2, "qemu-cortex-m3": 400, "qemu-rv32": 2, "qemu-rv64": 2}
"""Of the board's clock: short for a hang, long for a stack of 3 MB to fill up."""

EVERYWHERE = {
    "writes_null": "bad-address",
    "reads_nothing": "bad-address",
    "calls_null": "bad-address",
    "calls_data": "bad-address",
    "is_illegal": "illegal-instruction",
    "hangs": "time-out",
    "overflows": "stack-overflow",
    "reads_below_the_stack": "bad-address",
    "breaks": "breakpoint",
    "asks_a_system": "unknown",
}
"""The fixture's functions, and the cause of what ends each."""

CORTEX_M = {
    "divides": "divide",
    "writes_code": "bad-address",
    "is_illegal_and_masked": "illegal-instruction",
    "loads_two_misaligned": "misaligned",
    "hangs_masked": "time-out",
    "hangs_masked_harder": "time-out",
    "loses_its_stack": "stack-overflow",
}
"""The same of what only this core has."""

AARCH64 = {
    "jumps_askew": "misaligned",
    "writes_code": "bad-address",
    "loses_its_stack": "bad-address",
}
"""Likewise."""

OWN = {"qemu-cortex-a53": AARCH64, "qemu-cortex-m3": CORTEX_M}

ADDRESSES = {
    "writes_null": 0,
    "reads_nothing": 0x9000_0000,
    "calls_null": 0,
}

WORDS = {"qemu-cortex-a53": 9, "qemu-cortex-m3": 10, "qemu-rv32": 8, "qemu-rv64": 8}
"""How many the function ``state`` knows."""

PLACELESS = {("qemu-cortex-m3", "loses_its_stack"), ("qemu-cortex-a53", "jumps_askew")}

SOURCE = FAULTS.read_text().splitlines()
TICKS_A_MS = {
    "qemu-cortex-a53": 62_500,
    "qemu-cortex-m3": 25_000,
    "qemu-rv32": 10_000,
    "qemu-rv64": 10_000,
}


def marked(function: str) -> set[int]:
    """Return the lines of the fixture at which ``function`` is to be found out."""
    return {number for number, line in enumerate(SOURCE, 1) if f"FAULT: {function} " in line}


def causes(board: str) -> dict[str, str]:
    return EVERYWHERE | OWN.get(board, {})


CASES = [(board, function) for board in BARE for function in causes(board)]


@pytest.fixture(scope="module")
def firmware() -> Callable[[str], Firmware]:
    return cache(lambda name: build(available(name), [FAULTS]))


@pytest.fixture(scope="module")
def board(request: pytest.FixtureRequest, firmware: Callable[[str], Firmware]) -> Iterator[Board]:
    """One start of a board, which survives all that is done to it."""
    with connect(board_spec(request.param), image=firmware(request.param).image) as connected:
        connected.session.line.locate = None  # to look each time for the line would take minutes
        limit(connected)
        yield connected


def symbol(image: Path, name: str) -> int:
    with image.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        (found,) = table.get_symbol_by_name(name) or ()
        return int(found["st_value"])


def limit(board: Board, ms: int | None = None) -> None:
    ms = LIMIT_MS[board.spec.name] if ms is None else ms
    guard = board.dictionary.function("bp.guard")
    board.session.call(guard.id, msgpack.packb(ms), 1)


def state(board: Board) -> list[object]:
    """Return the core's registers as a function without a limit finds them."""
    limit(board, 0)
    found = [board.functions.state(which) for which in range(WORDS[board.spec.name])]
    limit(board)
    return found


def counts_of(report: Report) -> list[int]:
    """Return each sample's instructions, or the ticks of a board that does not count those."""
    rows = [row.get("instructions", row["ticks"]) for row in report.calls]
    return [count.value for count in rows if isinstance(count, Count)]


def ended(board: Board, function: str) -> DeviceFaultError | DeviceTimeoutError:
    """Call a function that does not return; return what the board says of it."""
    with pytest.raises((DeviceFaultError, DeviceTimeoutError)) as caught:
        board.functions[function]()
    error = caught.value
    assert isinstance(error, DeviceFaultError | DeviceTimeoutError)
    return error


@pytest.mark.parametrize(("board", "function"), CASES, indirect=["board"])
def test_each_end_of_a_call_is_told_with_its_cause_and_line(
    board: Board, function: str, firmware: Callable[[str], Firmware]
) -> None:
    error = ended(board, function)
    assert error.cause == causes(board.spec.name)[function]
    if (board.spec.name, function) not in PLACELESS:
        assert error.pc is not None
        found = locate(firmware(board.spec.name).image, error.pc)
        assert found is not None
        assert found.line in marked(function)
    if isinstance(error, DeviceFaultError) and function in ADDRESSES:
        assert error.address == ADDRESSES[function]


@pytest.mark.parametrize("board", BARE, indirect=True)
def test_a_bad_address_below_the_stack_is_told(
    board: Board, firmware: Callable[[str], Firmware]
) -> None:
    error = ended(board, "reads_below_the_stack")
    assert isinstance(error, DeviceFaultError)
    start = symbol(firmware(board.spec.name).image, "bp_stack_guard_start")
    assert error.address == start + 64


@pytest.mark.parametrize(("board", "function"), CASES, indirect=["board"])
def test_the_core_is_after_each_fault_as_it_was_before(board: Board, function: str) -> None:
    before = state(board)
    ended(board, function)
    assert state(board) == before


@pytest.mark.timeout(120)
@pytest.mark.parametrize("board", BARE, indirect=True)
def test_a_thousand_faults_of_all_kinds_leave_the_core_as_it_was_and_happen_once_each(
    board: Board,
) -> None:
    functions = list(causes(board.spec.name))
    before, begun = state(board), board.functions.begun()
    for i in range(1000):
        ended(board, functions[i % len(functions)])
    assert state(board) == before
    assert board.functions.begun() == begun + 1000


@pytest.mark.parametrize("board", BARE, indirect=True)
def test_the_stack_can_be_used_to_its_end_after_it_has_overflowed(board: Board) -> None:
    limit(board, 0)
    assert board.functions.deep(10_000) == 10_001  # of 64 words and more each: 2.6 MB and more
    ended(board, "overflows")
    assert board.functions.deep(10_000) == 10_001
    limit(board)


@pytest.mark.parametrize("board", BARE, indirect=True)
@pytest.mark.parametrize("limit_ms", [1, 7, 40])
def test_a_hang_ends_when_its_limit_is_over_and_not_before(board: Board, limit_ms: int) -> None:
    limit(board, limit_ms)
    ended(board, "hangs_counting")
    limit(board)
    took = board.functions.counted()
    assert isinstance(took, int)
    due = limit_ms * TICKS_A_MS[board.spec.name]
    # The way into the function is before its first reading, within the limit: 200 instructions.
    way = 2000 if board.spec.name == "qemu-cortex-m3" else 500
    assert due - way < took <= due


@pytest.mark.parametrize("board", BARE, indirect=True)
def test_a_function_that_returns_within_its_limit_is_not_interrupted(board: Board) -> None:
    limit(board, 0)
    free = board.profile("deep", 100, warmup=1, repeat=5)
    limit(board)
    limited = board.profile("deep", 100, warmup=1, repeat=5)
    for with_limit, without in zip(counts_of(limited), counts_of(free), strict=True):
        # Where a tick begins is chance: on this core an instruction is 1.6 ticks, so that a sample
        # and its calibration may have one more or less each. A handler takes more than 10.
        assert abs(with_limit - without) <= (2 if board.spec.name == "qemu-cortex-m3" else 0)


@pytest.mark.parametrize("name", BARE)
def test_the_stack_ends_above_all_data_at_a_region_that_is_denied(
    name: str, firmware: Callable[[str], Firmware]
) -> None:
    image = firmware(name).image
    places = [symbol(image, f"bp_{place}") for place in ("noinit_end", "stack_guard_start")]
    places += [symbol(image, f"bp_{place}") for place in ("stack_guard_end", "stack_top")]
    assert places == sorted(places)
    assert places[1] % 0x10000 == 0
    assert places[2] - places[1] == 0x10000
