# SPDX-License-Identifier: Apache-2.0
"""Calls in machine code, and the stack that a prologue takes, without a disassembler.

Wherever bytes look like a call or jump, the target counts if it is the beginning of a function.
Calls through pointers are not seen.

Call-frame rules omit what a function takes below its frame pointer (``-O0``, variable arrays, every
array on AVR). It is taken by further instructions, in the forms that GCC and clang give them.

Section numbers of RISC-V refer to the unprivileged manual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


def signed(value: int, bits: int) -> int:
    """Return the lowest ``bits`` of ``value`` as a two's complement number."""
    return value - ((value & 1 << (bits - 1)) << 1)


def targets(machine: str, code: bytes, address: int, bits: int = 32) -> Iterator[int]:
    """Yield the targets of calls and jumps in code, and some addresses that are not targets."""
    if (machine, bits) == ("EM_RISCV", 64):  # C.J; where rv32 has C.JAL, rv64 has C.ADDIW
        yield from _riscv(code, address, jumps=(0b101,))
    elif machine in _READERS:
        yield from _READERS[machine](code, address)


def masks_interrupts(machine: str, code: bytes) -> bool:
    """Tell whether a function's own instructions mask interrupts, for AVR and ARM's M profile.

    A prologue of AVR that moves the stack pointer masks them for two instructions; it does not
    count.
    """
    halves = [int.from_bytes(code[at : at + 2], "little") for at in range(0, len(code) - 1, 2)]
    for at, half in enumerate(halves):
        after = halves[at + 1 : at + 3]
        # CLI; OUT SREG, Rr (AVR Instruction Set Manual)
        is_cli = half == 0x94F8 and not any(each & 0xFE0F == 0xBE0F for each in after)
        # CPSID i; MSR PRIMASK, BASEPRI or BASEPRI_MAX (DDI 0403, B5.2.1 and B5.2.3)
        is_msr = half & 0xFFF0 == 0xF380 and after[:1] in ([0x8810], [0x8811], [0x8812])
        if (machine == "EM_AVR" and is_cli) or (machine == "EM_ARM" and (half == 0xB672 or is_msr)):
            return True
    return False


def _halves(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield the offset and value of the 32 bits at each multiple of two, the first half low."""
    for at in range(0, len(code) - 3, 2):
        yield at, int.from_bytes(code[at : at + 4], "little")


def _x86(code: bytes, address: int) -> Iterator[int]:
    for at in range(len(code) - 4):
        if code[at] in (0xE8, 0xE9):  # CALL and JMP rel32 (Intel SDM, volume 2)
            distance = int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
            yield address + at + 5 + distance


def _thumb(code: bytes, address: int) -> Iterator[int]:
    for at, word in _halves(code):
        low, high = word & 0xFFFF, word >> 16
        if low >> 11 == 0b11110 and high & 0x9000 == 0x9000:  # BL T1, B T4 (DDI 0403, A7.7)
            sign = low >> 10 & 1
            i1, i2 = (~(high >> bit ^ sign) & 1 for bit in (13, 11))
            far = sign << 24 | i1 << 23 | i2 << 22 | (low & 0x3FF) << 12 | (high & 0x7FF) << 1
            yield address + at + 4 + signed(far, 25)


def _riscv(code: bytes, address: int, jumps: tuple[int, ...] = (0b001, 0b101)) -> Iterator[int]:
    for at, word in _halves(code):
        if word & 0x7F == 0x6F:  # JAL (unprivileged manual, 2.5)
            far = (word >> 31) << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11
            yield address + at + signed(far | (word >> 21 & 0x3FF) << 1, 21)
        elif word & 0x7F == 0x17:  # AUIPC, and a JALR by its register after it
            next_ = int.from_bytes(code[at + 4 : at + 8], "little")
            if next_ & 0x707F == 0x67 and next_ >> 15 & 31 == word >> 7 & 31:
                yield address + at + signed(word & 0xFFFFF000, 32) + signed(next_ >> 20, 12)
        elif word & 3 == 1 and word >> 13 & 7 in jumps:  # C.JAL, C.J (manual, 16.4)
            far = sum((word >> 2 + bit & 1) << place for bit, place in enumerate(_C_J))
            yield address + at + signed(far, 12)


_C_J = (5, 1, 2, 3, 7, 6, 10, 8, 9, 4, 11)
"""The place in the distance of each bit of a C.J or C.JAL, from bit 2 on."""


def _aarch64(code: bytes, address: int) -> Iterator[int]:
    for at in range(0, len(code) - 3, 4):
        word = int.from_bytes(code[at : at + 4], "little")
        if word >> 26 & 0x1F == 0b00101:  # B, and BL with bit 31
            yield address + at + 4 * signed(word & 0x3FFFFFF, 26)


def _avr(code: bytes, address: int) -> Iterator[int]:
    for at, word in _halves(code + b"\0\0"):
        low, high = word & 0xFFFF, word >> 16
        if low & 0xFE0C == 0x940C:  # JMP, CALL (AVR Instruction Set Manual, DS40002198)
            yield ((low >> 4 & 0x1F) << 17 | (low & 1) << 16 | high) * 2
        elif low >> 13 == 0b110:  # RJMP, RCALL
            yield address + at + 2 + 2 * signed(low & 0xFFF, 12)


_READERS: dict[str, Callable[[bytes, int], Iterator[int]]] = {
    "EM_X86_64": _x86,
    "EM_386": _x86,
    "EM_ARM": _thumb,
    "EM_RISCV": _riscv,
    "EM_AARCH64": _aarch64,
    "EM_AVR": _avr,
}

FRAME_POINTERS = {"EM_X86_64": 6, "EM_RISCV": 8, "EM_AVR": 28}
"""By machine, its number in DWARF. The rules of other machines have the whole frame."""

_SMALL_X86_64 = (
    rb"(?s)\x55\x48\x89\xe5"  # PUSH RBP; MOV RBP, RSP
    rb"(?:\x41[\x54-\x57]|\x53)*"  # PUSH R12 to R15, RBX
    rb"\x48\x83(?:\xec(?P<bytes>[\x00-\x7f])|\xc4\x80)"
)

_LENGTH = 48
"""Bytes at the beginning of a function in which its frame is made."""


def below_frame_pointer(machine: str, code: bytes) -> int:
    """Return the bytes that a function with a frame pointer takes by a constant; 0 if unknown."""
    prologue = code[:_LENGTH]
    if machine == "EM_X86_64":
        return _x86_64_frame(prologue)
    if machine == "EM_AVR":
        return _avr_frame(prologue)
    return below_s0(code) if machine == "EM_RISCV" else 0


def _x86_64_frame(prologue: bytes) -> int:
    """Return the operand of SUB from RSP: an imm32, or an imm8 right after PUSH RBP; MOV RBP, RSP.

    Registers may be pushed in between. The three bytes alone are too often something else.
    """
    at = prologue.find(b"\x48\x81\xec")
    if at >= 0:
        return int.from_bytes(prologue[at + 3 : at + 7], "little")
    small = re.search(_SMALL_X86_64, prologue)
    return 0 if small is None else small["bytes"][0] if small["bytes"] else 128


def _avr_frame(prologue: bytes) -> int:
    """Return what SBIW, or SUBI and SBCI or SBC, take from Y after the reads of SPL and SPH."""
    read = prologue.find(b"\xcd\xb7\xde\xb7")
    low, high = (int.from_bytes(prologue[read + at : read + at + 2], "little") for at in (4, 6))
    if read < 0:
        return 0
    if low & 0xFF30 == 0x9720:  # SBIW r28 (AVR Instruction Set Manual, DS40002198)
        return low >> 2 & 0x30 | low & 15
    if low & 0xF0F0 == 0x50C0 and high & 0xF0F0 == 0x40D0:  # SUBI r28, SBCI r29
        return _byte(high) << 8 | _byte(low)
    if low & 0xF0F0 == 0x50C0 and high == 0x09D1:  # SBC r29, r1: r1 is 0
        return _byte(low)
    return 0


def _byte(word: int) -> int:
    return word >> 4 & 0xF0 | word & 15


_RISCV_LENGTH = 160
"""Bytes at the beginning of a function in which its frame is made and 24 registers are saved."""

SP, S0 = 2, 8
ADDI, ADD, SUB, LUI, OTHER = range(5)
_Step = tuple[int, int, int, int]
"""One of these, the registers that it writes and reads, and a number or the other register; for
OTHER, a register that it may write."""


def below_s0(code: bytes) -> int:
    """Return the bytes that constants take from SP after the instruction that sets S0 from it."""
    taken, has_frame_pointer = 0, False
    values: dict[int, int] = {0: 0}
    for what, target, source, operand in riscv_steps(code[:_RISCV_LENGTH]):
        if (target, source) == (SP, SP):
            moved = operand if what == ADDI else values.get(operand, 0)
            if has_frame_pointer:  # the call-frame rules have what comes before
                taken += max(moved if what == SUB else -moved, 0)  # upwards is the way back
            continue
        has_frame_pointer |= (what, target, source) == (ADDI, S0, SP)
        if what == LUI:
            values[target] = operand
        elif what == ADDI and source in values:
            values[target] = values[source] + operand
        elif target:
            values.pop(target, None)
    return taken


def riscv_steps(code: bytes) -> Iterator[_Step]:
    """Yield what each instruction of RISC-V does to registers, as far as frames need it."""
    at = 0
    while at + 2 <= len(code):
        word = int.from_bytes(code[at : at + 4], "little")
        is_long = word & 3 == 3  # 1.5
        if is_long:
            yield _long(word)
        elif (step := _short(word & 0xFFFF)) is not None:
            yield step
        else:
            for register in (word >> 7 & 31, S0 + (word >> 7 & 7), S0 + (word >> 2 & 7)):
                yield OTHER, register, 0, 0
        at += 4 if is_long else 2


def _long(word: int) -> _Step:
    target, source, other = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31
    if word & 0x7F == 0x37:  # LUI (2.4)
        return LUI, target, 0, signed(word & 0xFFFFF000, 32)
    if word & 0x707F in (0x13, 0x1B):  # ADDI (2.4), ADDIW (4.2)
        return ADDI, target, source, signed(word >> 20, 12)
    if word & 0x707F == 0x33 and word >> 25 in (0, 0x20):  # ADD, SUB (2.4)
        return (SUB if word >> 25 else ADD), target, source, other
    return OTHER, target, 0, 0


def _short(half: int) -> _Step | None:
    """Read a compressed instruction (16.3 to 16.5)."""
    register, low = half >> 7 & 31, half >> 2 & 31
    small = signed((half >> 12 & 1) << 5 | low, 6)
    match half & 3, half >> 13:
        case 0, 0:  # C.ADDI4SPN, upwards
            return ADDI, S0 + (low & 7), SP, 0
        case 1, 0:  # C.ADDI
            return ADDI, register, register, small
        case 1, 2:  # C.LI
            return ADDI, register, 0, small
        case 1, 3 if register == SP:  # C.ADDI16SP
            fields = (half >> 12 & 1) << 9 | (half >> 6 & 1) << 4
            fields |= (half >> 5 & 1) << 6 | (half >> 3 & 3) << 7 | (half >> 2 & 1) << 5
            return ADDI, SP, SP, signed(fields, 10)
        case 1, 3:  # C.LUI
            return LUI, register, 0, small << 12
        case 2, 4 if half >> 12 & 1 and low:  # C.ADD
            return ADD, register, register, low
        case 2, 4 if low:  # C.MV
            return ADDI, register, low, 0
    return None
