# SPDX-License-Identifier: Apache-2.0
"""Where calls lead: encodings written down from the machines' manuals."""

from __future__ import annotations

import pytest

from boardprof.target.elf.machine_code import targets


@pytest.mark.parametrize(
    ("machine", "code", "target"),
    [
        ("EM_X86_64", "e8 05000000", 0x100A),  # call
        ("EM_X86_64", "e9 fbffffff", 0x1000),  # jmp, to itself
        ("EM_X86_64", "90 e8 00010000", 0x1106),  # behind a nop
        ("EM_ARM", "00f0 00f8", 0x1004),  # bl
        ("EM_ARM", "fff7 feff", 0x1000),  # bl, to itself
        ("EM_ARM", "00f0 02b8", 0x1008),  # b.w
        ("EM_RISCV", "ef008000", 0x1008),  # jal ra
        ("EM_RISCV", "6ff0dfff", 0x0FFC),  # j, back
        ("EM_RISCV", "97100000 e7800001", 0x2010),  # auipc ra, jalr ra
        ("EM_RISCV", "97100000 e78000ff", 0x1FF0),  # the same, of which jalr goes back
        ("EM_RISCV", "11a0 0100", 0x1004),  # c.j
        ("EM_RISCV", "1120 0100", 0x1004),  # c.jal
        ("EM_AARCH64", "02000094", 0x1008),  # bl
        ("EM_AARCH64", "ffffff17", 0x0FFC),  # b, back
        ("EM_AVR", "0e94 0408", 0x1008),  # call
        ("EM_AVR", "0d94 0408", 0x21008),  # jmp, beyond 128 KiB
        ("EM_AVR", "03d0", 0x1008),  # rcall, the last instruction
        ("EM_AVR", "ffcf", 0x1000),  # rjmp, to itself
    ],
)
def test_a_call_leads_to_its_target(machine: str, code: str, target: int) -> None:
    assert target in set(targets(machine, bytes.fromhex(code), 0x1000))


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("EM_RISCV", "032525b1"),  # lw a0, -1262(a0); its second half is that of a c.j
        ("EM_ARM", "01fb02f0 d0f80000"),  # mul r0, r1, r2; ldr.w r0, [r0]; a bl in the middle
        ("EM_AVR", "809105c0"),  # lds r24, 0xc005; an rjmp
    ],
)
def test_the_second_half_of_an_instruction_is_not_a_jump(machine: str, code: str) -> None:
    assert list(targets(machine, bytes.fromhex(code), 0x1000)) == []


def test_of_an_unknown_machine_no_call_is_seen() -> None:
    assert list(targets("EM_XTENSA", b"\xe8\0\0\0\0", 0)) == []


def test_what_is_a_call_on_rv32_is_an_addition_on_rv64() -> None:
    assert 0x1004 not in set(targets("EM_RISCV", bytes.fromhex("11200100"), 0x1000, 64))
    assert 0x1004 in set(targets("EM_RISCV", bytes.fromhex("11a00100"), 0x1000, 64))
