# SPDX-License-Identifier: Apache-2.0
"""What a function may do to the clock, told by its machine code; bytes as objdump prints them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.target.elf.machine_code import (
    MASKS,
    SETS_CLOCK,
    SETS_COUNTER,
    SETS_TIMER,
    SLEEPS,
    hazards,
)
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
        ("EM_AVR", "ef e5 f0 e0 10 82 01 97 f1 f7 08 95"),  # ldi r30, 0x5f; ldi r31, 0; st Z, r1
        ("EM_ARM", "72 b6 01 38 fd d1 62 b6 70 47"),  # cpsid i; subs r0, #1; bne; cpsie i; bx lr
        ("EM_ARM", "71 b6 01 38 fd d1 61 b6 70 47"),  # cpsid f; ...; cpsie f
        ("EM_ARM", "01 20 80 f3 10 88 70 47"),  # movs r0, #1; msr PRIMASK, r0; bx lr
        ("EM_ARM", "83 f3 11 88 70 47"),  # msr BASEPRI, r3; bx lr
        ("EM_ARM", "80 f3 13 88 70 47"),  # msr FAULTMASK, r0; bx lr
        ("EM_ARM", "72 b6 ff f7 fe ff 62 b6 70 47"),  # cpsid i; bl; cpsie i; bx lr
        # cpsid i; b 2f; 1: cpsie i; bx lr; 2: subs r0, #1; beq 1b; b 2b
        ("EM_ARM", "72 b6 01 e0 62 b6 70 47 01 38 fb d0 fc e7"),
        # cpsid i; cbz r2, 1f; adds r0, #1; cpsie i; 1: adds r0, #2; bx lr
        ("EM_ARM", "72 b6 0a b1 01 30 62 b6 02 30 70 47"),
        ("EM_ARM", "72 b6 df e8 00 f0 02 03 04 05 62 b6 70 47"),  # cpsid i; tbb
        # cli; rjmp 2f; 1: sei; ret; 2: sbiw r24, 1; breq 1b; rjmp 2b
        ("EM_AVR", "f8 94 02 c0 78 94 08 95 01 97 e1 f3 fd cf"),
        # cpsid i; mrs r3, PRIMASK; cpsid i; msr PRIMASK, r3; subs r0, #1; bne; cpsie i; bx lr
        ("EM_ARM", "72 b6 ef f3 10 83 72 b6 83 f3 10 88 01 38 fd d1 62 b6 70 47"),
        # cpsid i; cbz r0, 1f; bl; bx lr; 1: cpsie i; bx lr
        ("EM_ARM", "72 b6 10 b1 ff f7 fe ff 70 47 62 b6 70 47"),
        ("EM_RISCV", "73 70 04 30"),  # csrci mstatus, 8
        ("EM_AARCH64", "df 42 03 d5"),  # msr daifset, #2
        # cli; in r24, SREG; cli; out SREG, r24; sbiw r30, 1; brne; sei; ret
        ("EM_AVR", "f8 94 8f b7 f8 94 8f bf 31 97 f1 f7 78 94 08 95"),
        # in r24, SREG; andi r24, 0x7f; out SREG, r24; sbiw; brne; in; ori r24, 0x80; out; ret
        ("EM_AVR", "8f b7 8f 77 8f bf 31 97 f1 f7 8f b7 80 68 8f bf 08 95"),
        # in r0, SREG; clt; bld r0, 7; out SREG, r0; sbiw r30, 1; brne; sei; ret
        ("EM_AVR", "0f b6 e8 94 07 f8 0f be 31 97 f1 f7 78 94 08 95"),
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
        # mrs r3, PRIMASK; cpsid i; ldr; cbnz r3, 1f; cpsie i; 1: subs r0, #1; bne 1b; bx lr
        ("EM_ARM", "ef f3 10 83 72 b6 02 68 03 b9 62 b6 01 38 fd d1 70 47"),
        # mrs; cpsid i; ldr; cbz r2, 1f; msr PRIMASK, r3; bx lr; 1: adds; msr PRIMASK, r3; bx lr
        (
            "EM_ARM",
            "ef f3 10 83 72 b6 02 68 12 b1 83 f3 10 88 70 47 01 30 83 f3 10 88 70 47",
        ),
        ("EM_ARM", "72 b6 d0 e8 4f 1f 62 b6 70 47"),  # cpsid i; ldrexb r1, [r0]; cpsie i; bx lr
        ("EM_AVR", "2f b7 f8 94 1c 92 27 fd 78 94 08 95"),  # in r18, SREG; cli; st; sbrc; sei; ret
        # in r24, SREG; andi r24, 0x7f; out SREG, r24; in r24, SREG; ori r24, 0x80; out; ret
        ("EM_AVR", "8f b7 8f 77 8f bf 8f b7 80 68 8f bf 08 95"),
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
        ("EM_ARM", "af f3 03 80 70 47"),  # wfi.w; bx lr
        ("EM_ARM", "af f3 02 80 70 47"),  # wfe.w; bx lr
        ("EM_AVR", "88 95 08 95"),  # sleep; ret
        ("EM_RISCV", "73 00 d0 00 82 80"),  # wrs.nto; ret
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
        # mov ip, #0xe000e000; mov r1, #0x2000000; str.w r1, [ip, #0xd04]; bx lr
        ("EM_ARM", "4f f0 e0 2c 4f f0 00 71 cc f8 04 1d 70 47"),
        ("EM_ARM", "4f f0 e0 2c cc f8 10 10 70 47"),  # mov ip, #0xe000e000; str.w r1, [ip, #16]
        # ldr r3, =0xe000ed00; mov r2, #0x2000000; str r2, [r3, #4]; bx lr
        ("EM_ARM", "02 4b 4f f0 00 72 5a 60 70 47 00 bf 00 ed 00 e0"),
        ("EM_ARM", "01 4b 5a 60 70 47 00 bf 08 ed 00 e0"),  # ldr r3, =0xe000ed08 (VTOR); str; bx lr
        ("EM_ARM", "01 4b 9a 60 70 47 00 bf 00 ed 00 e0"),  # ldr r3, =0xe000ed00; str r2, [r3, #8]
        ("EM_ARM", "4f f0 e0 23 c3 f8 08 2d 70 47"),  # mov r3, #0xe000e000; str.w r2, [r3, #0xd08]
        ("EM_AVR", "81 e0 86 bb 08 95"),  # ldi r24, 1; out 0x16, r24 (TIFR1); ret
        ("EM_AVR", "b0 9a 08 95"),  # sbi 0x16, 0; ret
        ("EM_AVR", "81 e8 90 e0 fc 01 10 82 08 95"),  # ldi r24:25, 0x81; movw r30, r24; st Z, r1
        ("EM_AVR", "e0 e6 f0 e0 11 a2 08 95"),  # ldi r30:31, 0x60; std Z+0x21, r1; ret
        ("EM_AVR", "10 92 81 00 08 95"),  # sts 0x81, r1 (TCCR1B); ret
        ("EM_AVR", "e4 e8 f0 e0 11 82 10 82 08 95"),  # ldi r30, 0x84; ldi r31, 0; std Z+1, r1; st Z
    ],
)
def test_code_that_sets_the_clocks_timer_is_found(machine: str, code: str) -> None:
    assert SETS_CLOCK in found(machine, code)


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("EM_RISCV", "73 90 27 b0"),  # csrw minstret, a5
        ("EM_RISCV", "01 00 73 90 27 b8"),  # c.nop; csrw minstreth, a5
        ("EM_RISCV", "73 e0 02 32"),  # csrsi mcountinhibit, 5
        ("EM_AARCH64", "00 e8 1b d5"),  # msr pmevcntr0_el0, x0
        ("EM_AARCH64", "40 9c 1b d5"),  # msr pmcntenclr_el0, x0
    ],
)
def test_code_that_writes_to_the_cores_counters_is_found(machine: str, code: str) -> None:
    assert found(machine, code) == {SETS_COUNTER}


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("EM_RISCV", "f3 27 20 b0"),  # csrr a5, minstret
        ("EM_RISCV", "73 90 07 34"),  # csrw mscratch, a5
        ("EM_AARCH64", "00 e8 3b d5"),  # mrs x0, pmevcntr0_el0
        ("EM_AARCH64", "00 44 1b d5"),  # msr fpcr, x0
        ("EM_ARM", "4f f0 e0 23 1a 68 70 47"),  # mov r3, #0xe000e000; ldr r2, [r3]; bx lr
        ("EM_ARM", "ff f7 20 bf"),  # b.w: its second half alone would be wfe
        ("EM_ARM", "01 4b 5a 60 70 47 00 bf 00 ed 00 e0"),  # ldr r3, =0xe000ed00; str r2, [r3, #4]
        ("EM_AVR", "87 bb 08 95"),  # out 0x17, r24 (TIFR2); ret
        ("EM_AVR", "e0 e6 f0 e0 11 82 08 95"),  # ldi r30:31, 0x60; std Z+1, r1; ret
        ("EM_AVR", "10 92 00 01 08 95"),  # sts 0x100, r1: a variable; ret
    ],
)
def test_other_registers_variables_and_branches_are_not_the_clock(machine: str, code: str) -> None:
    assert found(machine, code) == frozenset()


@pytest.mark.parametrize(
    ("code", "sets"),
    [
        ("b7 47 00 02 23 a0 07 00 82 80", True),  # lui a5, 0x2004; sw zero, (a5); ret
        # lui a4, 0x200c; c.addi a4, -8; c.lw a5, (a4); c.sw a5, 4(a4); ret
        ("37 c7 00 02 61 17 1c 43 5c c3 82 80", True),
        # lui a5, 0x200c; sw a5, -24(s0); li a5, 0; lw a4, -24(s0); sw a5, 0(a4); ret
        ("b7 c7 00 02 23 24 f4 fe 81 47 03 27 84 fe 1c c3 82 80", True),
        # lui a5, 0x200c; sw a5, -24(s0); lw a4, -28(s0); sw a5, 0(a4): another place; ret
        ("b7 c7 00 02 23 24 f4 fe 03 27 44 fe 1c c3 82 80", False),
        # lui a4, 0x200c; lw a5, -8(a4); c.sw a5, (a0); ret
        ("37 c7 00 02 83 27 87 ff 1c c1 82 80", False),
        # lui a5, 0x2004; lui a5, 0x80000; sw zero, (a5); ret
        ("b7 47 00 02 b7 07 00 80 23 a0 07 00 82 80", False),
    ],
)
def test_a_store_to_the_timer_of_riscv_is_found(code: str, sets: bool) -> None:
    assert found("EM_RISCV", code) == ({SETS_TIMER} if sets else set())


def test_a_constant_that_looks_like_wfi_is_no_instruction(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(
        "unsigned constant(void) { return 0xbf3072b6; }\n"
        'void sleeps(void) { __asm__ volatile("wfi"); }\n'
    )
    command = [requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi"), "-mcpu=cortex-m0", "-O2"]
    command += ["-mthumb", "-g", "-nostdlib", "-Wl,-e,0", "-o", "f.elf", "f.c"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    needs = image_stack(tmp_path / "f.elf", ["constant", "sleeps"]).needs
    assert (needs["constant"].hazards, needs["sleeps"].hazards) == ((), (SLEEPS,))


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


def test_a_branch_or_a_float_whose_bytes_are_those_of_a_sleep_is_no_sleep(tmp_path: Path) -> None:
    assert found("EM_ARM", "fe f7 20 bf") == frozenset()  # b.w, whose second half is that of WFE
    # -0.625F is 0xbf200000, 0xbf20 is WFE: DDI 0403, A7.7.160
    (tmp_path / "f.c").write_text(
        "float scaled(float x) { return x * -0.625f; }\n"
        'float slow(float x) { __asm__ volatile("wfe"); return x * -0.625f; }\n'
    )
    gcc = requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    command = [gcc, "-mcpu=cortex-m4", "-mfloat-abi=hard", "-O1", "-g", "-nostdlib", "-Wl,-e,0"]
    subprocess.run([*command, "-o", "f.elf", "f.c"], cwd=tmp_path, check=True, timeout=60)
    assert b"\x20\xbf" in (tmp_path / "f.elf").read_bytes()
    needs = image_stack(tmp_path / "f.elf", ["scaled", "slow"]).needs
    assert {name: need.hazards for name, need in needs.items()} == {
        "scaled": (),
        "slow": (SLEEPS,),
    }


ASSEMBLY = r"""
#if defined(__arm__)
#define RETURN "bx lr"
#define JUMP "b"
__asm__(".thumb");
#else
#define RETURN "ret"
#define JUMP "j"
#endif
/* Many people write assembly without .type and .size. Some of its labels are inside a function. */
__asm__(".balign 4\nplain: nop\nagain: wfi\n" JUMP " again\n" RETURN);
__asm__(".globl other\n.type other, %function\nother: " RETURN); /* linkers want its type */
void plain(void);
void other(void);
void calls_label(void) { plain(); __asm__ volatile(""); }
void calls_next(void) { other(); __asm__ volatile(""); }
void calls_nameless(void) {
    __asm__ volatile(JUMP " 7f\n.pushsection .text.aside,\"ax\"\n.balign 4\n7: wfi\n" RETURN
                     "\n.popsection");
}
static __attribute__((noinline)) void near(void) { __asm__ volatile("wfi"); }
void ends_with_near(void) { near(); }
"""


@pytest.mark.parametrize(
    ("tool", "package", "flags"),
    [
        ("arm-none-eabi-gcc", "gcc-arm-none-eabi", ["-mcpu=cortex-m4"]),
        ("arm-none-eabi-gcc", "gcc-arm-none-eabi", ["-mcpu=cortex-m0"]),
        ("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf", ["-march=rv32imac", "-mabi=ilp32"]),
    ],
)
def test_a_sleep_in_assembly_without_types_sizes_or_names_is_found(
    tmp_path: Path, tool: str, package: str, flags: list[str]
) -> None:
    (tmp_path / "f.c").write_text(ASSEMBLY)
    command = [requires_tool(tool, package), *flags, "-O2", "-g", "-nostdlib", "-Wl,-e,0"]
    subprocess.run([*command, "-o", "f.elf", "f.c"], cwd=tmp_path, check=True, timeout=60)
    names = ["calls_label", "calls_next", "calls_nameless", "ends_with_near"]
    needs = image_stack(tmp_path / "f.elf", names).needs
    assert {name: need.hazards for name, need in needs.items()} == {
        "calls_label": (SLEEPS,),
        "calls_next": (),
        "calls_nameless": (SLEEPS,),
        "ends_with_near": (SLEEPS,),
    }
