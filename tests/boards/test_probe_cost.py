# SPDX-License-Identifier: Apache-2.0
"""What a probe takes, in instructions, counted by the emulator: the code of its user included."""

from __future__ import annotations

import pytest

from benchmarks.probes import count_probes
from tests.boards.conftest import available

MOST = {
    "rv32": {"event_u32_rv32": 36, "range_mark_rv32": 36, "disabled_rv32": 5},
    "m4": {"event_u32_m4": 32, "range_mark_m4": 36, "disabled_m4": 5},
}

BOARDS = {"rv32": "qemu-rv32", "m4": "qemu-cortex-m4"}


@pytest.mark.parametrize("core", MOST)
def test_a_probe_takes_few_instructions(core: str) -> None:
    available(BOARDS[core])
    found = count_probes(core)
    over = {name: found[name] for name, most in MOST[core].items() if found[name] > most}
    assert over == {}
    assert min(found[name] for name in MOST[core]) >= 2  # a load and a branch
