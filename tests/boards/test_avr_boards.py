# SPDX-License-Identifier: Apache-2.0
"""The boards with an AVR: cycles against simavr's own count, and what so small a core has room for.

simavr tells its cycle counter whenever the core is about to execute one of the instructions that
the test names; no register of the core, and no code of the agent, has a part in that.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boardprof.base.errors import BuildError, DeviceFaultError, DeviceTimeoutError, UsageError
from boardprof.base.metrics import Count, Duration
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect, guard_calls
from boardprof.results.report.report import Report
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import BoardSpec
from boardprof_protocol.codes import ResetCause
from boardprof_protocol.collectors.timer16 import LAYOUT
from tests.boards.conftest import SMALL, available
from tests.cli.command import boardprof, cpu_seconds, offspring, rows
from tests.firmware import build
from tests.support import run
from tests.tools.insn_count import symbol_range

SOURCE = Path(__file__).parent / "fixtures" / "avr.c"
BOARDS = ["arduino-uno", "arduino-mega"]
TIMER_INTERRUPT = {"arduino-uno": 13 * 4, "arduino-mega": 20 * 4}
"""Address of TIMER1 OVF's vector, of four bytes each."""

CALLERS = ("bp_window", "bp_thunk_void", "bp_call_target", "bp_single", "bp_call_painted")
"""Code of the agent that a measured function returns to, beside its own thunk."""

HEADER = 6
"""Bytes of a blob before its body."""


@dataclass(frozen=True)
class Marks:
    """Cycles at which the simulator came by marked instructions.

    Attributes:
        file: (address, cycle) in each line.
        entries: function -> address.
        callers: addresses of the code around them.
        reads: addresses at which a collector's start, and its stop, read the timer.
        interrupt: address of the timer's vector.
    """

    file: Path
    entries: dict[str, int]
    callers: frozenset[int]
    reads: tuple[int, int]
    interrupt: int

    def all(self) -> list[tuple[int, int]]:
        """Return all of them that are written by now, the last one as a whole."""
        pairs = (line.split() for line in self.file.read_text().split("\n")[:-1])
        return [(int(address, 16), int(cycle)) for address, cycle in pairs]

    def calls(self, function: str) -> list[tuple[int, int]]:
        """Return each call's cycles, from the first instruction to behind the return; and how many
        interrupts were among them.
        """
        found, entered, interrupts = [], None, 0
        for address, cycle in self.all():
            if address == self.entries[function]:
                entered, interrupts = cycle, 0
            elif address == self.interrupt:
                interrupts += 1
            elif address in self.callers and entered is not None:
                found.append((cycle - entered, interrupts))
                entered = None
        return found

    def windows(self) -> list[int]:
        """Return the cycles between the two reads of each window that does not hold another."""
        start, stop = self.reads
        found, opened = [], 0
        for address, cycle in self.all():
            if address == start:
                opened = cycle
            elif address == stop and opened:
                found.append(cycle - opened)
                opened = 0
        return found


def timer_read(image: Path, function: str) -> int:
    """Return the address of the instruction that reads TCNT1L in a function."""
    begin, end = symbol_range(image, function)
    limits = [f"--start-address={begin}", f"--stop-address={end}"]
    text = run(["avr-objdump", "-d", *limits, image])
    (address,) = re.findall(r"^ *([0-9a-f]+):.*\blds\t.*0x0084", text, re.MULTILINE)
    return int(address, 16)


def marked(spec: BoardSpec, folder: Path, sources: Path, optimize: str) -> tuple[Board, Marks]:
    firmware = build(spec, [sources], BuildOptions(optimize))
    image, file = firmware.image, folder / "marks.txt"
    functions = [f for f in firmware.functions if f.reason is None]
    thunks = [f"bp_thunk_of_{f.name}" for f in functions if f.parameters or f.result]
    around = [symbol_range(image, name) for name in (*CALLERS, *thunks)]
    marks = Marks(
        file,
        {f.name: symbol_range(image, f.name)[0] for f in functions},
        frozenset(a for begin, end in around for a in range(begin, end, 2)),
        (timer_read(image, "bp_timer16_start"), timer_read(image, "bp_timer16_stop")),
        TIMER_INTERRUPT[spec.name],
    )
    addresses = {*marks.entries.values(), *marks.callers, *marks.reads, marks.interrupt}
    command = (*spec.launch.command, str(file), *(f"{a:x}" for a in sorted(addresses)))
    watched = dataclasses.replace(spec, launch=dataclasses.replace(spec.launch, command=command))
    return connect(watched, image=image), marks


@pytest.fixture(scope="module", params=BOARDS)
def avr_spec(request: pytest.FixtureRequest) -> BoardSpec:
    return available(request.param)


@pytest.fixture(scope="module")
def board(avr_spec: BoardSpec) -> Iterator[Board]:
    with connect(avr_spec, image=build(avr_spec, [SOURCE]).image) as connected:
        yield connected


@pytest.fixture(scope="module")
def watched(
    avr_spec: BoardSpec, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Board, Marks]]:
    connected, marks = marked(avr_spec, tmp_path_factory.mktemp("marks"), SOURCE, "-O2")
    with connected:
        yield connected, marks


def cycles(report: Report) -> list[int]:
    return [v.value for row in report.calls if isinstance(v := row["cycles"], Count)]


def bodies(report: Report) -> list[Any]:
    """Return the samples' blobs, parsed."""
    assert report.extra is not None
    samples = report.extra["measurements"][0]["samples"]
    size = LAYOUT.size
    return [LAYOUT.struct.parse(bytes.fromhex(s["blobs"])[HEADER:][:size]) for s in samples]


# -- cycles -----------------------------------------------------------------------------------

CALLS: list[tuple[str, list[Any]]] = [
    ("nothing", []),
    ("add", [-3, 5]),
    ("half", [2.5]),
    ("sum", [np.arange(20, dtype=np.int16), 20]),
    ("reverse", [np.arange(40, dtype=np.uint8), 40]),
]


@pytest.mark.parametrize(("function", "arguments"), CALLS)
@pytest.mark.parametrize("number", [1, 7])
def test_net_cycles_equal_those_that_the_simulator_counted(
    watched: tuple[Board, Marks], function: str, arguments: list[Any], number: int
) -> None:
    """From the first instruction to the return; two calls come behind those of the samples."""
    board, marks = watched
    before = len(marks.calls(function))
    report = board.profile(function, *arguments, warmup=1, repeat=20, number=number)
    calls = marks.calls(function)[before + 1 :][: 20 * number]
    (cost,) = {body.interrupt_cycles for body in bodies(report)}
    own = [taken - interrupts * cost for taken, interrupts in calls]
    assert cycles(report) == [sum(own[i * number : (i + 1) * number]) for i in range(20)]
    assert len(set(own)) == 1


@pytest.mark.parametrize("optimize", ["-O0", "-Os"])
def test_net_cycles_are_exact_at_other_optimisations(
    avr_spec: BoardSpec, tmp_path: Path, optimize: str
) -> None:
    connected, marks = marked(avr_spec, tmp_path, SOURCE, optimize)
    with connected:
        report = connected.profile("half", 2.5, warmup=0, repeat=3)
        (cost,) = {body.interrupt_cycles for body in bodies(report)}
        calls = marks.calls("half")[:3]
        assert cycles(report) == [taken - interrupts * cost for taken, interrupts in calls]


def test_interrupts_within_a_window_are_counted_and_subtracted(
    watched: tuple[Board, Marks],
) -> None:
    board, marks = watched
    for _ in range(20):  # where windows fall between overflows is as it comes
        report = board.profile("long_loop", warmup=0, repeat=30)
        calls = marks.calls("long_loop")[-32:-2]
        taken = {interrupts: total for total, interrupts in calls}
        if len(taken) > 1:
            break
    fewest, most = min(taken), max(taken)
    assert most == fewest + 1, "no window had one interrupt more than another"
    cost = taken[most] - taken[fewest]
    assert {body.interrupt_cycles for body in bodies(report)} == {cost}
    assert set(cycles(report)) == {taken[fewest] - fewest * cost}


def test_raw_cycles_equal_the_simulators_wherever_the_wrap_falls(
    watched: tuple[Board, Marks],
) -> None:
    """Before the window, at each cycle of its opening, within, and at each of its closing."""
    board, marks = watched
    report = board.profile("at_the_wrap", warmup=0, repeat=1300)
    found = bodies(report)
    # The windows of whole runs hold others, and those of the calibration come first.
    assert [b.stop - b.start + 65536 * b.wraps for b in found] == marks.windows()[-1300:]
    assert {(b.wraps, b.interrupts) for b in found} == {(0, 0), (1, 1), (1, 0), (0, 1)}
    # From then on the interrupt comes first, and the window opens behind it.
    assert {b.start for b in found} >= {*range(65536 - 250, 65536), 0}
    assert len(set(cycles(report))) == 1


def test_a_window_of_the_host_counts_what_the_simulator_counted(
    watched: tuple[Board, Marks],
) -> None:
    board, marks = watched
    for _ in range(2):
        with board.collectors["cycles"] as window:
            board.functions.long_loop()
        body = LAYOUT.struct.parse(window.blob[HEADER:][: LAYOUT.size])
        net = window.readings["cycles"].value
        assert net + body.interrupts * body.interrupt_cycles == marks.windows()[-1]
        assert net > 100_000


def test_cycles_of_a_declared_clock_are_a_duration(board: Board) -> None:
    (row,) = board.profile("add", 1, 2, warmup=0, repeat=1).calls
    assert isinstance(row["cycles"], Count)
    assert row["Duration (us)"] == Duration(row["cycles"].value / 16)


# -- time limit -------------------------------------------------------------------------------


@contextmanager
def limited(board: Board, limit_s: float) -> Iterator[None]:
    """Limit the calls of a board that other tests use, too."""
    guard_calls(board.session, board.dictionary, board.spec, limit_s)
    try:
        yield
    finally:
        guard_calls(board.session, board.dictionary, board.spec, None)


def test_a_hang_is_stopped_at_its_line_and_the_core_is_as_it_was(board: Board) -> None:
    """What hangs has changed the registers that its caller relies on, and C's zero."""
    lines = SOURCE.read_text().splitlines()
    for _ in range(20):
        with limited(board, 0.05), pytest.raises(DeviceTimeoutError) as caught:
            board.functions.hangs()
        assert caught.value.location is not None
        assert "hangs here" in lines[caught.value.location.line - 1]
        assert board.functions.add(40_000, 2) == 40_002
    assert len(set(cycles(board.profile("add", 1, 2, repeat=5)))) == 1


@pytest.mark.parametrize("limit_ms", [1, 20, 333])
def test_a_hang_ends_at_most_two_wraps_after_its_limit(board: Board, limit_ms: int) -> None:
    """By the board's own clock, within the function: while it waits for the host, which may be
    slow, it goes on by the wall's.
    """
    with limited(board, limit_ms / 1000), pytest.raises(DeviceTimeoutError):
        board.functions.hangs_counting()
    taken_ms = board.functions.counted() / 16_000
    # The way into the function is before its first reading, within the limit.
    assert limit_ms - 0.1 < taken_ms <= limit_ms + 2 * 4.096


# -- what there is room for -------------------------------------------------------------------


def test_a_double_has_four_bytes_and_the_signature_says_so(board: Board) -> None:
    assert str(board.functions.half.signature.text) == "(y: f32) -> f32"
    assert board.functions.half(2.5) == 1.25
    assert board.functions.half(1e-3) == float(np.float32(1e-3) / 2)


def test_arrays_are_arguments_and_come_back(board: Board) -> None:
    values = np.arange(100, dtype=np.uint8)
    board.functions.reverse(values, 100)
    assert list(values) == list(range(99, -1, -1))
    assert board.functions.sum(np.full(50, -300, np.int16), 50) == -15_000


def test_an_array_that_is_larger_than_the_arena_is_refused_with_both_sizes(board: Board) -> None:
    with pytest.raises(UsageError, match=r"arena"):
        board.functions.sum(np.zeros(5000, np.int16), 5000)


def test_a_program_that_needs_more_memory_than_there_is_does_not_link(
    avr_spec: BoardSpec, tmp_path: Path
) -> None:
    ram = tmp_path / "ram.c"
    ram.write_text("static volatile char much[9000];\nchar f(void) { return much[0]; }\n")
    with pytest.raises(BuildError, match="data"):
        build(avr_spec, [ram])


def test_the_stack_of_a_call_is_seen(board: Board) -> None:
    report = board.profile("nothing", warmup=0, repeat=1)
    assert report.calls[0]["Stack (bytes)"] == Count(0)


def test_a_call_that_the_clock_interrupts_has_the_same_stack_each_time(board: Board) -> None:
    """Of more than 65,536 cycles, about half of them at the bottom of its stack."""
    found = [board.profile("deep_now_and_then", 6000, warmup=0, repeat=1) for _ in range(10)]
    assert len({report.calls[0]["Stack (bytes)"].value for report in found}) == 1
    assert all(report.calls[0]["cycles"].value > 65_536 for report in found)


# -- a stack that is too deep ---------------------------------------------------------------------

DEEP = """\
int a_fine(int n) { return n + 1; }
__attribute__((noinline)) int chain(int n) {
    volatile char bytes[32];
    for (int i = 0; i < 32; i++) bytes[i] = (char)n; /* or a frame could lie over the canary */
    return n == 0 ? 0 : chain(n - 1) + bytes[0];
}
int endless(int n) { volatile int m = n; return endless(m + 1) + m; }
int wide(int n) {
    volatile char bytes[5000];
    bytes[4999] = (char)n;
    return bytes[4999];
}
int z_fine(int n) { return n + 2; }
"""
OVER = {"arduino-uno": 19, "arduino-mega": 110}
"""Levels of at least 36 bytes that leave the stack (972 bytes; 4,012) and stay in the arena."""


@pytest.fixture
def deep(avr_spec: BoardSpec, tmp_path: Path) -> Path:
    source = tmp_path / "deep.c"
    source.write_text(DEEP)
    return source


def test_a_stack_that_grows_into_the_arena_is_told_and_the_board_goes_on(
    avr_spec: BoardSpec, deep: Path
) -> None:
    with connect(avr_spec, image=build(avr_spec, [deep]).image) as connected:
        assert connected.functions.chain(5) == 15
        for attempt in (connected.functions.chain, functools.partial(connected.profile, "chain")):
            with pytest.raises(
                DeviceFaultError, match=r"chain trapped .*: stack overflow"
            ) as caught:
                attempt(OVER[avr_spec.name])
            assert caught.value.cause == "stack-overflow"
        assert connected.functions.chain(5) == 15
        assert connected.profile("a_fine", 1, repeat=3).calls[0]["Stack (bytes)"] == Count(0)


def test_a_frame_that_is_larger_than_the_stack_is_not_tried(
    avr_spec: BoardSpec, deep: Path
) -> None:
    with connect(avr_spec, image=build(avr_spec, [deep]).image) as connected:
        with pytest.raises(DeviceFaultError, match="wide was not called: it needs 5,00"):
            connected.functions.wide(1)
        assert connected.functions.z_fine(1) == 3


def test_a_core_that_a_stack_has_ended_does_not_take_the_other_functions_with_it(
    avr_spec: BoardSpec, deep: Path
) -> None:
    done = boardprof("run", "-b", avr_spec.name, f"{deep}:all", "n=3", "--repeat", "2")
    assert (done.code, sorted(rows(done.out))) == (6, ["a_fine", "chain", "z_fine"])
    assert "error: The board ended during endless: simulator ended with code 3.\n" in done.err
    assert "bp_simavr: the core has come to its end at pc 0x" in done.err
    assert "has grown into the variables, which end at 0x" in done.err
    assert "error: wide was not called" in done.err


def test_variables_that_leave_too_little_for_the_stack_do_not_link(
    avr_spec: BoardSpec, tmp_path: Path
) -> None:
    """2,048 bytes of SRAM or 8,192, less the agent's and `stack` of [build] config."""
    size = {"arduino-uno": 700, "arduino-mega": 2300}[avr_spec.name]
    ram = tmp_path / "ram.c"
    ram.write_text(f"static volatile char much[{size}];\nchar f(void) {{ return much[0]; }}\n")
    with pytest.raises(BuildError, match=f"too little of the memory of {avr_spec.name} for the st"):
        build(avr_spec, [ram])
    ram.write_text("static volatile char some[100];\nchar f(void) { return some[0]; }\n")
    build(avr_spec, [ram])


# -- a heap ---------------------------------------------------------------------------------------

HEAP = """\
#include <stdlib.h>
#include <string.h>
int once(unsigned n) {
    unsigned char *block = malloc(n);
    if (block == NULL) return -1;
    memset(block, 7, n);
    int last = block[n - 1];
    free(block);
    return last;
}
int kept(unsigned n) { static unsigned char *all; return (all = malloc(n)) != NULL; }
"""


def test_blocks_of_malloc_are_neither_stack_nor_its_overflow(
    avr_spec: BoardSpec, deep: Path
) -> None:
    """`libc_heap` is 256 bytes and 1,536; two bytes of each block are its header."""
    heap = {"arduino-uno": 256, "arduino-mega": 1536}[avr_spec.name]
    (deep.parent / "heap.c").write_text(HEAP)
    with connect(avr_spec, image=build(avr_spec, [deep.parent]).image) as connected:
        assert connected.functions.once(8) == 7
        assert connected.functions.once(heap - 2) == 7
        assert connected.functions.once(heap - 1) == -1
        small, large = (connected.profile("once", n, repeat=2).calls[0] for n in (8, heap - 2))
        assert small["Stack (bytes)"] == large["Stack (bytes)"]
        assert 6 <= small["Stack (bytes)"].value <= 16  # registers and return addresses
        assert connected.functions.kept(100) == 1
        assert connected.functions.once(heap - 104) == 7
        assert connected.functions.once(heap - 103) == -1
        assert connected.functions.chain(5) == 15
        with pytest.raises(DeviceFaultError, match=r"chain trapped .*: stack overflow"):
            connected.functions.chain(OVER[avr_spec.name])


# -- the simulator ----------------------------------------------------------------------------


def test_the_board_says_that_it_was_switched_on(board: Board) -> None:
    assert board.welcome.reset_cause == ResetCause.POWER_ON


def test_the_simulator_sleeps_while_the_core_sleeps(avr_spec: BoardSpec) -> None:
    image = build(avr_spec, [SMALL]).image
    others = set(offspring(os.getpid()))
    with connect(avr_spec, image=image) as connected:
        (simulator,) = set(offspring(os.getpid())) - others
        while not cpu_seconds(simulator):  # it is told in hundredths of a second
            assert connected.functions.sort() is None
        before = cpu_seconds(simulator)
        time.sleep(2.0)
        assert cpu_seconds(simulator) - before < 1.0
        assert connected.functions.sort() is None


HANDLERS = """\
#include <avr/interrupt.h>
volatile unsigned char ring[16], at;
ISR(USART0_RX_vect) { ring[at++ & 15]++; }
ISR(TIMER1_OVF_vect) { at = 0; }
ISR(TIMER3_OVF_vect) { at = 1; }
unsigned char take(unsigned char i) { return ring[i & 15] + 3; }
"""


def test_handlers_of_the_agents_interrupts_are_plain_functions(tmp_path: Path) -> None:
    source = tmp_path / "handlers.c"
    source.write_text(HANDLERS)
    notes: list[str] = []
    made = build(available("arduino-mega"), [source])
    with made.open(on_note=notes.append) as board:
        board.functions["__vector_25"]()
        assert board.functions.take(0) == 4
    assert made.unconnected == ("__vector_20", "__vector_25")
    assert [note.partition(",")[0] for note in notes] == [
        "no interrupt calls __vector_20",
        "no interrupt calls __vector_25",
    ]
