# SPDX-License-Identifier: Apache-2.0
"""Modelled core cycles of whole calls: worked out by hand, and added up from another trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count
from boardprof.measure.board.board import Board
from boardprof.measure.hotspots.core_cycles import NO_CYCLES, CycleModel, Cycles
from boardprof.results.report.profile import CORE_CYCLES, MODELLED
from boardprof.target.elf.addresses import disassembly, objdump_of
from tests.boards.conftest import WORKLOADS, available
from tests.boards.test_masked import ticking
from tests.boards.witness import NAMES
from tests.firmware import build
from tests.tools.insn_count import build_plugin, plugin_argument, read_trace, symbol_range


def added_up(trace: Iterable[int], texts: dict[int, str], core: str) -> Cycles:
    """Add up the cost of instructions that ran one after the other, and what the jumps cost."""
    model = CycleModel(core, texts)
    following = dict(zip(sorted(texts), sorted(texts)[1:], strict=False))
    runs: list[list[int]] = []
    for address in trace:
        if not runs or following.get(runs[-1][-1]) != address:
            runs.append([])
        runs[-1].append(address)
    total = NO_CYCLES
    for run, then in zip(runs, [*runs[1:], [None]], strict=True):
        total += sum(model.straight(run, None), model.leaving(run[-1], then[0]))
    return total


@pytest.mark.parametrize(
    "name", ["qemu-cortex-m4", pytest.param("qemu-cortex-m3", marks=pytest.mark.nightly)]
)
def test_the_core_cycles_of_each_workload_are_those_of_a_trace(name: str, tmp_path: Path) -> None:
    """QEMU's other plugin is of the tests, and shares no code with the recorder."""
    spec = available(name)
    firmware = build(spec, [WORKLOADS])
    entries = {each: symbol_range(firmware.image, each)[0] for each in NAMES}
    stops = [symbol_range(firmware.image, stop) for stop in ("bp_window", "bp_thunk_void")]
    out, traces = tmp_path / "counts", tmp_path / "trace"
    plugin = plugin_argument(build_plugin(), list(entries.values()), stops, out, trace=traces)
    launch = dataclasses.replace(spec.launch, command=(*spec.launch.command, *plugin))
    watched = dataclasses.replace(firmware, board=dataclasses.replace(spec, launch=launch))
    with watched.open() as board:
        found = {function: board.hotspots(function, warmup=0).core_cycles for function in NAMES}
    texts = disassembly(firmware.image, objdump_of(spec.build.cc))
    core = name.removeprefix("qemu-")
    for function, trace in ((each, read_trace(traces)[entries[each]]) for each in NAMES):
        total = added_up(trace, texts, core)
        assert found[function] == (total.point, total.low, total.high), function


# -- by hand --------------------------------------------------------------------------------------

ASSEMBLY = """\
#include <stdint.h>
#define CODE(text) __asm__(".syntax unified\\n" text)
__attribute__((naked)) void spin(uint32_t n) {
    CODE("1: subs r0, #1\\n bne 1b\\n bx lr");
}
__attribute__((naked)) void ten_rounds(void) {
    CODE("movs r0, #10\\n 1: subs r0, #1\\n bne 1b\\n bx lr");
}
__attribute__((naked)) void twice(void) {
    CODE("push {r4, lr}\\n movs r0, #2\\n bl spin\\n movs r0, #5\\n bl spin\\n pop {r4, pc}");
}
__attribute__((naked)) void breaks(void) {
    CODE("movs r0, #1\\n wfe\\n bx lr");
}
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    source = tmp_path / "code.c"
    source.write_text(ASSEMBLY)
    return source


def owns(board: Board, function: str, metric: str) -> dict[str, tuple[int, int | None]]:
    """What each function costs by itself, and with what it calls."""
    found = board.hotspots(function).functions(metric)
    return {each.name: (each.self, each.total) for each in found}


def test_the_core_cycles_of_a_cortex_m0_are_those_of_its_manual(code: Path) -> None:
    """DDI 0432C, table 3-1: B 3 taken, 1 not; BL 4; BX 3; PUSH 1 + N; POP with PC 4 + N."""
    with build(available("microbit"), [code]).open() as board:
        # 1 + 10 * 1 + 9 * 3 + 1 + 3
        assert board.hotspots("ten_rounds").core_cycles == (42, 42, 42)
        # Own: 3 + 1 + 4 + 1 + 4 + 6. spin takes 4 * n + 1: 9 and 21.
        assert owns(board, "twice", CORE_CYCLES) == {"spin": (30, 30), "twice": (19, 49)}
        profile = board.hotspots("twice")
        column = profile.column(CORE_CYCLES)
        assert sorted(site.cost[column] for site in profile.sites) == [9, 21]
        report = board.profile("twice", metrics=CORE_CYCLES, repeat=2, number=3)
        assert [row[CORE_CYCLES] for row in report.calls] == [Count(3 * 49)] * 2
        assert {"instructions"} <= {*report.calls.names}
        told = board.profile("breaks", metrics=CORE_CYCLES, repeat=1)
        assert board.hotspots("twice").core_cycles == (49, 49, 49)
    assert not {*MODELLED} & {*told.calls.names}
    line = told.configuration["microbit core-cycles"]
    assert isinstance(line, str)
    assert line.startswith("unknown for breaks: 'wfe' at 0x")


def test_what_a_cortex_m4_does_not_tell_is_in_the_interval(code: Path) -> None:
    """DDI 0439, table 3-1: a taken branch takes 1 + P, P is 1 to 3."""
    with build(available("qemu-cortex-m4"), [code]).open() as board:
        # 1 + 10 * 1 + 9 * (1 + 1) + 1 + (1 + 2); with P = 1; with 3, and 2 if it is not taken
        assert board.hotspots("ten_rounds").core_cycles == (33, 32, 53)


PAGE_END = """\
__asm__(".syntax unified\\n.thumb\\n"
        ".section .text.at_page_end, \\"ax\\"\\n .balign 1024\\n .space 1018\\n"
        ".thumb_func\\n at_page_end: add.w r0, r0, #1\\n b 1f\\n nop\\n 1: bx lr\\n"
        ".size at_page_end, . - at_page_end\\n .text");
__attribute__((naked)) void calls(void) {
    __asm__("push {r4, lr}\\n bl at_page_end\\n pop {r4, pc}");
}
"""


def test_the_last_instruction_of_a_page_is_counted_at_its_address(tmp_path: Path) -> None:
    """QEMU 7.2 adds its size to that of the instruction before it; its pages have 1 KiB."""
    source = tmp_path / "page_end.c"
    source.write_text(PAGE_END)
    with build(available("qemu-cortex-m4"), [source]).open() as board:
        profile = board.hotspots("calls")
    ran = [profile.instructions[place] for _, place, _ in profile.counts]
    assert [each.address % 1024 for each in ran if each.text.startswith("b.n")] == [1022]
    names = sorted(each.text.partition("\t")[0] for each in ran)
    assert names == ["add.w", "b.n", "bl", "bx", "pop", "push"]


def test_interrupts_within_a_call_are_not_in_its_core_cycles(code: Path, tmp_path: Path) -> None:
    changes = {'["cycles32", "ticks"]': '["ticks", "interrupts"]'}
    spec = ticking("qemu-cortex-m4", tmp_path / "ticking", "ticking_port.c", changes)
    with build(spec, [code]).open() as board:
        profile = board.hotspots("spin", 100_000)
    assert profile.is_complete
    assert profile.interrupts() > 0
    assert profile.sum(CORE_CYCLES) == 3 * 100_000 + 2  # n + (n - 1) * 2 + 1 + 3


def test_a_core_without_a_table_has_no_core_cycles(code: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.c"
    plain.write_text("int one(void) { return 1; }")
    with build(available("qemu-cortex-m33"), [plain]).open() as board:
        assert board.hotspots("one").core_cycles is None
        with pytest.raises(UsageError, match="does not support core-cycles: its core has no"):
            board.profile("one", metrics=CORE_CYCLES)
