# SPDX-License-Identifier: Apache-2.0
"""What a function may do to the clock, told by its machine code; bytes as objdump prints them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.target.elf.hazards import MASKS, SETS_CLOCK, SLEEPS, hazards
from boardprof.target.elf.stack_need import image_stack
from tests.support import requires_tool


def found(machine: str, code: str) -> frozenset[str]:
    return hazards(machine, bytes.fromhex(code))


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("EM_AVR", "f8 94 01 97 f1 f7 78 94 08 95"),  # cli; sbiw r24, 1; brne .-4; sei; ret
        ("EM_AVR", "f8 94 0e 94 10 00 78 94 08 95"),  # cli; call 0x20; sei; ret
        ("EM_AVR", "f8 94 08 95"),  # cli; ret
        # in r18, SREG; mov r19, r18; andi r19, 0x7f; out SREG, r19; sbiw; brne; out SREG, r18; ret
        ("EM_AVR", "2f b7 32 2f 3f 77 3f bf 01 97 f1 f7 2f bf 08 95"),
        ("EM_ARM", "72 b6 01 38 fd d1 62 b6 70 47"),  # cpsid i; subs r0, #1; bne; cpsie i; bx lr
        ("EM_ARM", "71 b6 01 38 fd d1 61 b6 70 47"),  # cpsid f; ...; cpsie f
        ("EM_ARM", "01 20 80 f3 10 88 70 47"),  # movs r0, #1; msr PRIMASK, r0; bx lr
        ("EM_ARM", "83 f3 11 88 70 47"),  # msr BASEPRI, r3; bx lr
        ("EM_ARM", "80 f3 13 88 70 47"),  # msr FAULTMASK, r0; bx lr
        ("EM_ARM", "72 b6 ff f7 fe ff 62 b6 70 47"),  # cpsid i; bl; cpsie i; bx lr
    ],
)
def test_code_that_may_mask_interrupts_for_long_is_found(machine: str, code: str) -> None:
    assert MASKS in found(machine, code)


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        # in r0, SREG; cli; out SPH, r29; out SREG, r0; out SPL, r28; ret
        ("EM_AVR", "0f b6 f8 94 de bf 0f be cd bf 08 95"),
        ("EM_AVR", "f8 94 80 e0 78 94 08 95"),  # cli; ldi r24, 0; sei; ret
        ("EM_AVR", "78 94 08 95"),  # sei; ret
        ("EM_ARM", "72 b6 62 b6 70 47"),  # cpsid i; cpsie i; bx lr
        ("EM_ARM", "62 b6 70 47"),  # cpsie i; bx lr
        ("EM_ARM", "ef f3 10 80 70 47"),  # mrs r0, PRIMASK; bx lr
        # mrs r3, PRIMASK; cpsid i; ldr r2, [r0]; cbz r2, .+4; str r1, [r0]; msr PRIMASK, r3; bx lr
        ("EM_ARM", "ef f3 10 83 72 b6 02 68 02 b1 01 60 83 f3 10 88 70 47"),
        ("EM_RISCV", "72 b6"),  # another machine's bytes
        ("EM_AVR", ""),
    ],
)
def test_a_section_without_calls_and_loops_is_too_short_to_matter(machine: str, code: str) -> None:
    assert MASKS not in found(machine, code)


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("EM_ARM", "30 bf 70 47"),  # wfi; bx lr
        ("EM_ARM", "20 bf 70 47"),  # wfe; bx lr
        ("EM_RISCV", "01 00 73 00 50 10 82 80"),  # c.nop; wfi; ret
        ("EM_AARCH64", "7f 20 03 d5 c0 03 5f d6"),  # wfi; ret
    ],
)
def test_code_that_sleeps_is_found(machine: str, code: str) -> None:
    assert found(machine, code) == {SLEEPS}


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("EM_ARM", "4f f0 e0 23 00 22 1a 61 70 47"),  # mov r3, #0xe000e000; movs; str r2, [r3, #16]
        ("EM_ARM", "01 4b 00 22 1a 60 70 47 10 e0 00 e0"),  # ldr r3, =0xe000e010; movs; str; bx lr
        ("EM_AVR", "10 92 81 00 08 95"),  # sts 0x81, r1 (TCCR1B); ret
    ],
)
def test_code_that_sets_the_clocks_timer_is_found(machine: str, code: str) -> None:
    assert SETS_CLOCK in found(machine, code)


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("EM_ARM", "4f f0 e0 23 1a 68 70 47"),  # mov r3, #0xe000e000; ldr r2, [r3]; bx lr
        ("EM_AVR", "10 92 00 01 08 95"),  # sts 0x100, r1: a variable; ret
    ],
)
def test_other_registers_and_variables_are_not_the_clock(machine: str, code: str) -> None:
    assert found(machine, code) == frozenset()


def test_masking_interrupts_in_abort_spoils_no_number(tmp_path: Path) -> None:
    """A call that aborts ends there, so what abort does is in no number."""
    (tmp_path / "f.c").write_text(
        """\
static void spin(void) { __asm__ volatile("cli"); for (;;) __asm__ volatile(""); }
void abort(void) { spin(); }
int checks(int n) { if (n < 0) abort(); return n; }
void stop(void) { spin(); }
int stops(int n) { if (n < 0) stop(); return n; }
"""
    )
    command = [requires_tool("avr-gcc", "gcc-avr"), "-mmcu=atmega328p", "-O1", "-gdwarf-2"]
    command += ["-fno-inline", "-fno-ipa-icf", "-nostdlib", "-Wl,-e,0", "-o", "f.elf", "f.c"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    needs = image_stack(tmp_path / "f.elf", ["checks", "stops"]).needs
    assert {name: need.hazards for name, need in needs.items()} == {
        "checks": (),
        "stops": (MASKS,),
    }
