# SPDX-License-Identifier: Apache-2.0
"""The counters of the RISC-V boards, against counts that this project's code did not make."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from boardprof.base.errors import DeviceTimeoutError, RpcError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof_protocol.codes import BuiltIn
from tests.boards.conftest import SMALL, WORKLOADS, available
from tests.boards.witness import (
    NAMES,
    SIGNATURES,
    Witness,
    check_every_signature,
    check_net,
    counts_of,
    select,
    watch_windows,
    witness,
)
from tests.firmware import build

SMALL_NAMES = sorted(path.stem for path in SMALL.glob("*.c"))


@pytest.fixture(scope="module")
def rv64(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    found = witness(available("qemu-rv64"), tmp_path_factory.mktemp("rv64"), WORKLOADS)
    with found.board:
        yield found


@pytest.fixture(scope="module")
def hifive1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    found = witness(available("hifive1"), tmp_path_factory.mktemp("hifive1"), SMALL)
    with found.board:
        yield found


@pytest.mark.parametrize("function", NAMES)
def test_net_instructions_of_rv64_equal_those_that_the_emulator_executed(
    rv64: Witness, function: str
) -> None:
    check_net(rv64, function)


@pytest.mark.parametrize("function", SMALL_NAMES)
def test_net_instructions_of_hifive1_equal_those_that_the_emulator_executed(
    hifive1: Witness, function: str
) -> None:
    report = check_net(hifive1, function)
    # Its ticks are mcycle, which counts the same here; they know nothing of the empty one's return.
    sums = counts_of(report, "instructions")
    assert counts_of(report, "ticks") == [each - 3 for each in sums]


@pytest.mark.parametrize("optimize", ["-O0", "-O3"])
def test_net_instructions_of_rv64_are_exact_for_every_kind_of_signature(
    tmp_path: Path, optimize: str
) -> None:
    found = witness(available("qemu-rv64"), tmp_path, SIGNATURES, optimize)
    with found.board:
        check_every_signature(found)


@pytest.mark.parametrize("name", ["qemu-rv64", "hifive1"])
def test_a_window_of_the_host_counts_what_the_emulator_executed(tmp_path: Path, name: str) -> None:
    """The agent's polling between two calls is in it; time in which nothing ran is not."""
    sources = SMALL if name == "hifive1" else WORKLOADS / "crc32.c"
    found = watch_windows(available(name), tmp_path, "cycles_instret", sources)
    with found.board:
        for _ in range(3):
            with found.board.collectors["cycles"] as window:
                found.board.functions["sort" if name == "hifive1" else "crc32"]()
            (executed,) = found.last("cycles_instret", 1)
            # Between start's first instruction and its read of minstret, and before stop's.
            assert 0 <= executed - window.readings["instructions"].value <= 20


### Programmable counters: mhpmcounter3 and on ###


EVENTS = {"instructions": 0x2, "dTLB-load-misses": 0x10019, "iTLB-load-misses": 0x10021}


@pytest.fixture(scope="module", params=["qemu-rv32", "qemu-rv64"])
def virt(request: pytest.FixtureRequest) -> Iterator[Board]:
    spec = available(request.param)
    with connect(spec, image=build(spec, [WORKLOADS / "crc32.c"]).image) as board:
        yield board


def test_a_slot_takes_an_event_and_its_register_reads_back(virt: Board) -> None:
    assert select(virt, "riscv_hpm", *EVENTS.values()) == [[0, 0], [0, 0], [0, 0]]
    assert select(virt, "riscv_hpm") == []


def test_an_event_in_two_slots_is_counted_in_the_first(virt: Board) -> None:
    """QEMU leaves the second counter at 0, which would be no count of anything."""
    assert select(virt, "riscv_hpm", 0x2, 0x10019, 0x2) == [[0, 0], [0, 0], [1, 0]]


def test_no_event_is_an_empty_slot(virt: Board) -> None:
    assert select(virt, "riscv_hpm", 0x2, 0) == [[0, 0], [1, 0]]


def widths(board: Board) -> list[int]:
    """What the board says now, which the session's dictionary keeps from when it began."""
    entries: list[Any] = []
    while (entry := describe(board, 3, len(entries))) is not None:
        entries.append(entry)
    return [bits for name, _, bits, *_ in entries if name.startswith("slot")]


def describe(board: Board, section: int, index: int) -> Any:
    return board.session.invoke(BuiltIn.DESCRIBE, "bp.describe", section, index)


def test_a_counter_that_counts_has_its_width_when_it_is_brought_up_again(virt: Board) -> None:
    before = widths(virt)
    assert before == [64, 64, 64, 64]
    for event in EVENTS.values():
        assert select(virt, "riscv_hpm", event) == [[0, 0]]
        virt.collectors["riscv_hpm"].init()
        assert widths(virt) == before


def test_more_events_than_slots_are_refused_and_nothing_has_changed(virt: Board) -> None:
    with pytest.raises(RpcError, match="range"):
        select(virt, "riscv_hpm", 1, 2, 0x10019, 0x1001B, 0x10021)


def test_a_code_that_does_not_fit_the_event_register_is_refused(virt: Board) -> None:
    if virt.spec.name == "qemu-rv64":
        assert select(virt, "riscv_hpm", 1 << 40 | 2)[0][0] == 0  # there it fits
    else:
        with pytest.raises(RpcError, match="range"):
            select(virt, "riscv_hpm", 1 << 32)


def test_a_machine_with_two_counters_has_two_slots() -> None:
    """Reading one of those that it lacks would trap, and nothing does."""
    spec = available("qemu-rv32")
    command = [*spec.launch.command, "-cpu", "rv32,pmu-num=2"]
    launch = dataclasses.replace(spec.launch, command=command)
    image = build(spec, [WORKLOADS / "crc32.c"]).image
    with connect(dataclasses.replace(spec, launch=launch), image=image) as board:
        assert select(board, "riscv_hpm", 0x2, 0x10019, 0x10021) == [[0, 0], [0, 0], [1, 0]]
        with board.collectors["riscv_hpm"] as window:
            board.functions.crc32()
        assert window.blob


def test_an_instruction_counter_that_is_programmed_is_minstret(virt: Board) -> None:
    report = virt.profile("crc32", metrics=["instructions", "riscv_hpm.instructions"], repeat=3)
    assert counts_of(report, "riscv_hpm.instructions") == counts_of(report, "instructions")


TOUCHES = """\
static volatile unsigned char pages[96 * 4096] __attribute__((aligned(4096)));
static void forget(void) { __asm__ volatile("sfence.vma" ::: "memory"); }
void reads_setup(void) { forget(); }
void reads(void) { for (unsigned i = 0; i < 64; i++) { (void)pages[i * 4096]; } }
void writes_setup(void) { forget(); }
void writes(void) { for (unsigned i = 64; i < 96; i++) { pages[i * 4096] = 1; } }
"""


@pytest.mark.parametrize("name", ["qemu-rv32", "qemu-rv64"])
def test_tlb_misses_are_one_for_each_page_that_is_touched_first(tmp_path: Path, name: str) -> None:
    """The emulator's own TLB: emptied before each sample, filled page by page."""
    (tmp_path / "touches.c").write_text(TOUCHES)
    spec = available(name)
    with connect(spec, image=build(spec, [tmp_path / "touches.c"]).image) as board:
        for function, event, pages in (
            ("reads", "dTLB-load-misses", 64),
            ("writes", "dTLB-store-misses", 32),
        ):
            report = board.profile(function, metrics=[event], warmup=1, repeat=2)
            for count in counts_of(report, event):
                assert pages <= count <= pages + 4  # and what the agent touches in the window


### Time-outs ###


HANGS = """\
static volatile unsigned long first, last;
static unsigned long mcycle(void) {
    unsigned long now;
    __asm__ volatile("csrr %0, mcycle" : "=r"(now));
    return now;
}
void hangs(void) {
    first = mcycle();
    for (;;) {
        last = mcycle();
    }
}
unsigned took(void) { return (unsigned)(last - first); }
static volatile unsigned *const mtime = (volatile unsigned *)0x0200bff8;
static unsigned long edge(void) {
    unsigned before = *mtime;
    while (*mtime == before) {}
    return mcycle();
}
unsigned tick(void) {
    unsigned long begin = edge();
    return (unsigned)(edge() - begin);
}
"""


@pytest.mark.parametrize("limit_ms", [1, 20, 300])
def test_a_limit_of_hifive1_is_in_time_of_its_16_mhz_crystal(tmp_path: Path, limit_ms: int) -> None:
    """It ends calls by mtime, whose rate it measures: some models' is not that of the real one."""
    (tmp_path / "hangs.c").write_text(HANGS)
    spec = available("hifive1")
    with connect(spec, image=build(spec, [tmp_path / "hangs.c"]).image) as board:
        guard = board.dictionary.function("bp.guard")
        board.session.call(guard.id, msgpack.packb(limit_ms), 1)
        with pytest.raises(DeviceTimeoutError):
            board.functions.hangs()
        late = board.functions.took() - limit_ms * 16_000
        assert -0.02 * limit_ms * 16_000 <= late
        assert late <= 0.02 * limit_ms * 16_000 + 2 * board.functions.tick() + 500
