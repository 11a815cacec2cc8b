# SPDX-License-Identifier: Apache-2.0
"""Programs of tests/c under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.memory_board import CHANNELS, FULL
from tests.support import (
    AGENT,
    C_TESTS,
    WARNINGS,
    agent_sources,
    built_once,
    defines,
    requires_tool,
    run,
)

CONFIGS = {
    "smallest": {},
    "full": FULL,
    "guarded": {**FULL, "BP_CFG_GUARD": 1, "BP_CFG_INTERRUPTS": 2},
    "pointers": {**FULL, "TEST_POINTERS": 1, "BP_CFG_STACK": 65536},
    "pointers of shortest frames": {
        "BP_CFG_MTU": 64,
        **FULL,
        "TEST_POINTERS": 1,
        "BP_CFG_GUARD": 1,
        "BP_CFG_STACK": 64,
    },
    "shortest frames": {"BP_CFG_MTU": 64, **FULL},
    "channels": CHANNELS,
    "channels of the shortest frames": {**CHANNELS, "BP_CFG_MTU": 64, "BP_CFG_BULK": 64},
    "channels of long frames": {
        **CHANNELS,
        "BP_CFG_MTU": 5000,
        "BP_CFG_BULK": 4097,
        "BP_CFG_ARENA": 20000,
        "BP_CFG_CRC_TABLE": 8,
    },
    "a byte of the MTU unused": {"BP_CFG_MTU": 258},
    "two groups": {"BP_CFG_MTU": 513, **FULL, "BP_CFG_STATE_BYTES": 256},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_agent_reads_and_writes_its_own_memory_only(name: str) -> None:
    program = sanitized(CONFIGS[name], "test_agent.c")
    for seed in ("1", "2"):
        assert re.fullmatch(r"\d+ calls, MTU \d+\n", run([program, seed]))


def test_a_recording_that_begins_among_interrupts_has_no_event_of_an_earlier_one() -> None:
    """The ring is large, so that interrupts come while it is cleared."""
    program = sanitized({**CHANNELS, "BP_CFG_TRACE": 1 << 20}, "probes.c", "test_probes.c")
    assert run([program]) == "90 recordings\n"


@pytest.mark.parametrize("seed", ["1", "2"])
def test_rtt_keeps_to_its_rings_and_repairs_a_control_block_that_was_overwritten(seed: str) -> None:
    clock = {"TEST_TICKS_HZ": 1000000, "TEST_TICKS_BITS": 16}  # wraps within the deadline
    program = sanitized({"BP_CFG_RTT": 256, **clock}, "test_rtt.c")
    assert run([program, seed]) == "50000 rounds\n"


def sanitized(config: dict[str, int], *files: str) -> Path:
    """Compile the agent and a test's program with both sanitizers."""
    cc = requires_tool("gcc", "gcc")
    sources = [*agent_sources(), AGENT / "collectors" / "bp_cycles_instret.c"]
    sources += [AGENT / "collectors" / "bp_ticks.c"]
    if config.get("BP_CFG_INTERRUPTS", 0) > 1:
        sources.append(AGENT / "collectors" / "bp_interrupts.c")
    sources += [C_TESTS / file for file in ("port_memory.c", "firmware.c", *files)]
    includes = [f"-I{AGENT / 'include'}", f"-I{AGENT / 'src'}", f"-I{C_TESTS / 'arch'}"]
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
    command = [cc, *WARNINGS, *sanitize, *defines(config), *includes, *sources]
    return built_once(command, files[-1].removesuffix(".c"))
