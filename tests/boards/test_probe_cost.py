# SPDX-License-Identifier: Apache-2.0
"""What probes take: instructions, counted by the emulator with the code of their user, and with
interrupts off; bytes."""

from __future__ import annotations

import re

import pytest

from benchmarks.probes import MASKED_BOARDS, count_masked, count_probes
from tests.boards.conftest import available
from tests.support import ROOT

MOST = {
    "rv32": {"event_u32_rv32": 36, "range_mark_rv32": 36, "disabled_rv32": 5}
    | {"range_statistics_rv32": 46, "event_u32_worst_rv32": 76}
    | {"events_flash_rv32": 1228, "tracer_ram_rv32": 64},
    "m4": {"event_u32_m4": 32, "range_mark_m4": 36, "disabled_m4": 5}
    | {"range_statistics_m4": 64, "event_u32_worst_m4": 82}
    | {"events_flash_m4": 1228, "tracer_ram_m4": 64},
}
"""Instructions of a probe, and of both of a range; bytes of flash and of RAM."""

BOARDS = {"rv32": "qemu-rv32", "m4": "qemu-cortex-m4"}


@pytest.mark.parametrize("core", MOST)
def test_a_probe_takes_few_instructions_and_the_tracer_little_memory(core: str) -> None:
    available(BOARDS[core])
    found = count_probes(core)
    over = {name: found[name] for name, most in MOST[core].items() if found[name] > most}
    assert over == {}
    assert min(found[name] for name in MOST[core]) >= 2  # a load and a branch


MASKED = ("event", "event_worst", "memory", "calibration", "task_table", "agent")
MOST_MASKED = {
    "rv32": (68, 169, 336, 344, 194, 36),
    "rv64": (73, 184, 508, 373, 195, 95),
    "a53": (66, 145, 425, 326, 202, 80),
    "m0": (133, 223, 633, 584, 374, 76),
    "m3": (71, 148, 324, 322, 304, 37),
    "m4": (71, 154, 324, 321, 304, 37),
    "m7": (70, 151, 324, 321, 321, 37),
    "m33": (71, 148, 324, 321, 304, 37),
    "m55": (71, 148, 324, 317, 269, 37),
    "m4_basepri": (71, 154, 329, 327, 304, 37),
    "m4_systick": (144, 201, 536, 554, 304, 102),
}
"""Instructions with interrupts off, with GCC 12.2 or 14.2, whichever has more."""
LIKE_M4 = ("m3", "m7", "m33", "m55")


def test_the_page_on_probes_says_how_long_interrupts_are_off_on_each_board() -> None:
    page = (ROOT / "docs" / "probes.md").read_text(encoding="utf-8")
    table = page.partition("### How long interrupts are off")[2].partition("None of them")[0]
    rows = re.findall(r"^\| `([\w-]+)`.*?" + r"\| (\d+) " * len(MASKED) + r"\|$", table, re.M)
    told = [(board, tuple(map(int, counts))) for board, *counts in rows]
    assert told == [(MASKED_BOARDS[core][0], most) for core, most in MOST_MASKED.items()]


@pytest.mark.parametrize(
    "core",
    [pytest.param(c, marks=[pytest.mark.nightly] * (c in LIKE_M4)) for c in MOST_MASKED],
)
def test_interrupts_are_never_off_for_longer_than_documented_however_large_the_ring(
    core: str,
) -> None:
    available(MASKED_BOARDS[core][0])
    found = count_masked(core)
    most = {f"masked_{name}_{core}": n for name, n in zip(MASKED, MOST_MASKED[core], strict=True)}
    assert found.keys() == most.keys()
    assert {name: count for name, count in found.items() if count > most[name]} == {}
    assert {name: count for name, count in found.items() if count < most[name] // 2} == {}
