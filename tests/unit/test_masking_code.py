# SPDX-License-Identifier: Apache-2.0
"""Functions that mask interrupts, told by their machine code; bytes as objdump prints them."""

from __future__ import annotations

import pytest

from boardprof.target.elf.machine_code import masks_interrupts


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("EM_AVR", "f8 94 80 e0 78 94 08 95"),  # cli; ldi r24, 0; sei; ret
        ("EM_ARM", "72 b6 62 b6 70 47"),  # cpsid i; cpsie i; bx lr
        ("EM_ARM", "01 20 80 f3 10 88 70 47"),  # movs r0, #1; msr PRIMASK, r0; bx lr
        ("EM_ARM", "83 f3 11 88 70 47"),  # msr BASEPRI, r3; bx lr
    ],
)
def test_code_that_masks_interrupts_is_found(machine: str, code: str) -> None:
    assert masks_interrupts(machine, bytes.fromhex(code))


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        # in r0, SREG; cli; out SPH, r29; out SREG, r0; out SPL, r28; ret
        ("EM_AVR", "0f b6 f8 94 de bf 0f be cd bf 08 95"),
        ("EM_AVR", "78 94 08 95"),  # sei; ret
        ("EM_ARM", "62 b6 70 47"),  # cpsie i; bx lr
        ("EM_ARM", "ef f3 10 80 70 47"),  # mrs r0, PRIMASK; bx lr
        ("EM_RISCV", "72 b6"),  # another machine's bytes
        ("EM_AVR", ""),
    ],
)
def test_a_prologue_and_other_code_does_not_mask_them(machine: str, code: str) -> None:
    assert not masks_interrupts(machine, bytes.fromhex(code))
