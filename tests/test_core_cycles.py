# SPDX-License-Identifier: Apache-2.0
"""Core cycles of small pieces of code, worked out by hand from Arm's manuals."""

from __future__ import annotations

import pytest

from boardprof.measure.hotspots.core_cycles import CycleModel, Cycles, UnknownCostError

LOOP = {
    0x100: "ldr\tr3, [r1, #0]",
    0x102: "adds\tr1, #4",
    0x104: "subs\tr2, #1",
    0x106: "bne.n\t100 <loop>",
    0x108: "bx\tlr",
}


@pytest.mark.parametrize(
    ("core", "pass_cycles", "taken"),
    # M0: DDI 0432C, table 3-1: LDR 2, ADDS 1, SUBS 1, B<cc> 1 or 3; M0+: DDI 0484C: 1 or 2.
    # M3, M4: LDR 2, B<cc> 1 or 1 + P, where P is 1 to 3 (DDI 0337I, 100166, table 3-1).
    [
        ("cortex-m0", [2, 1, 1, 1], Cycles(2, 2, 2)),
        ("cortex-m0plus", [2, 1, 1, 1], Cycles(1, 1, 1)),
        ("cortex-m3", [2, 1, 1, 1], Cycles(1, 1, 3)),
        ("cortex-m4", [2, 1, 1, 1], Cycles(1, 1, 3)),
    ],
)
def test_a_loop_costs_its_instructions_and_the_refill_of_each_branch(
    core: str, pass_cycles: list[int], taken: Cycles
) -> None:
    model = CycleModel(core, LOOP)
    costs = model.straight([0x100, 0x102, 0x104, 0x106], came_from=0x106)
    assert [each.point for each in costs] == pass_cycles
    assert model.leaving(0x106, 0x100) == taken
    assert model.leaving(0x106, 0x108) == Cycles(0, 0, 0)


def test_an_instruction_without_a_cost_is_named_with_its_address() -> None:
    model = CycleModel("cortex-m0", {0x20: "udiv\tr0, r1, r2"})
    with pytest.raises(
        UnknownCostError, match=r"'udiv r0, r1, r2' at 0x20 has no cost on cortex-m0"
    ):
        model.straight([0x20], None)
