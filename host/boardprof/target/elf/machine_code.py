# SPDX-License-Identifier: Apache-2.0
"""What machine code shows without a disassembler: calls, stack use, hazards for a clock.

Wherever bytes look like a call or jump, the target counts if it is the beginning of a function.
Calls through pointers are not seen.

Call-frame rules omit what a function takes below its frame pointer (``-O0``, variable arrays, every
array on AVR). It is taken by further instructions, in the forms that GCC and clang give them.

Section numbers of RISC-V refer to the unprivileged manual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final


def signed(value: int, bits: int) -> int:
    """Return the lowest ``bits`` of ``value`` as a two's complement number."""
    return value - ((value & 1 << (bits - 1)) << 1)


def targets(machine: str, code: bytes, address: int, bits: int = 32) -> Iterator[int]:
    """Yield the targets of calls and jumps in code, and some addresses that are not targets."""
    if (machine, bits) == ("EM_RISCV", 64):  # C.J; where rv32 has C.JAL, rv64 has C.ADDIW
        yield from _riscv_targets(code, address, jumps=(0b101,))
    elif machine in _READERS:
        yield from _READERS[machine](code, address)


def jumps(machine: str, code: bytes, address: int) -> Iterator[int]:
    """Yield likewise the targets of jumps, on machines whose calls push a return address."""
    if machine in ("EM_X86_64", "EM_386"):
        yield from _x86_targets(code, address, rb"\xe9")
    elif machine == "EM_AVR":
        yield from _avr_targets(code, address, with_calls=False)


def halves_of(code: bytes) -> Iterator[int]:
    """Yield the numbers of 16 bits in code."""
    for at in range(0, len(code) - 1, 2):
        yield int.from_bytes(code[at : at + 2], "little")


def _words(code: bytes) -> list[int]:
    return [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code) - 3, 4)]


def _instructions(code: bytes, is_long: Callable[[int], bool]) -> Iterator[tuple[int, int, int]]:
    """Yield the offset of each instruction, and its halves; the second is 0 if it has only one.

    The second half of an instruction may look like a jump.
    """
    halves = enumerate(halves_of(code))
    for at, low in halves:
        yield 2 * at, low, next(halves, (0, 0))[1] if is_long(low) else 0


def _x86_targets(code: bytes, address: int, opcodes: bytes = rb"[\xe8\xe9]") -> Iterator[int]:
    """Yield those of CALL, JMP and Jcc rel32 (Intel SDM, volume 2); Jcc may lead to a cold part."""
    for match in re.finditer(rb"(?s)(?=(?:%b|\x0f[\x80-\x8f])(....))" % opcodes, code):
        yield address + match.end(1) + int.from_bytes(match[1], "little", signed=True)


def _thumb_targets(code: bytes, address: int) -> Iterator[int]:
    for at, low, high in _instructions(code, _is_long_thumb):
        if low >> 11 == 0b11110 and high & 0x9000 == 0x9000:  # BL T1, B T4 (DDI 0403, A7.7)
            sign = low >> 10 & 1
            i1, i2 = (~(high >> bit ^ sign) & 1 for bit in (13, 11))
            far = sign << 24 | i1 << 23 | i2 << 22 | (low & 0x3FF) << 12 | (high & 0x7FF) << 1
            yield address + at + 4 + signed(far, 25)
        elif low >> 11 == 0b11100:  # B T2: a tail call within one section
            yield address + at + 4 + 2 * signed(low & 0x7FF, 11)


def _riscv_targets(
    code: bytes, address: int, jumps: tuple[int, ...] = (0b001, 0b101)
) -> Iterator[int]:
    for at, low, high in _instructions(code, _is_long_riscv):
        word = low | high << 16
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


def _is_long_riscv(low: int) -> bool:
    return low & 3 == 3  # 1.5


def _riscv(code: bytes) -> Iterator[int]:
    """Yield each instruction, of 32 or of 16 bits."""
    return (low | high << 16 for _, low, high in _instructions(code, _is_long_riscv))


def _is_long_thumb(low: int) -> bool:
    return low >> 11 in (0b11101, 0b11110, 0b11111)


def _is_long_avr(low: int) -> bool:
    return low & 0xFC0F == 0x9000 or low & 0xFE0C == 0x940C  # LDS, STS; JMP, CALL


_C_J = (5, 1, 2, 3, 7, 6, 10, 8, 9, 4, 11)
"""The place in the distance of each bit of a C.J or C.JAL, from bit 2 on."""


def _aarch64_targets(code: bytes, address: int) -> Iterator[int]:
    for at, word in enumerate(_words(code)):
        if word >> 26 & 0x1F == 0b00101:  # B, and BL with bit 31
            yield address + 4 * (at + signed(word & 0x3FFFFFF, 26))


def _avr_targets(code: bytes, address: int, with_calls: bool = True) -> Iterator[int]:
    for at, low, high in _instructions(code, _is_long_avr):
        # JMP, CALL (AVR Instruction Set Manual, DS40002198)
        if low & 0xFE0C == 0x940C and (with_calls or not low & 2):
            yield ((low >> 4 & 0x1F) << 17 | (low & 1) << 16 | high) * 2
        elif low >> 13 == 0b110 and (with_calls or not low & 0x1000):  # RJMP, RCALL
            yield address + at + 2 + 2 * signed(low & 0xFFF, 12)


_READERS: dict[str, Callable[[bytes, int], Iterator[int]]] = {
    "EM_X86_64": _x86_targets,
    "EM_386": _x86_targets,
    "EM_ARM": _thumb_targets,
    "EM_RISCV": _riscv_targets,
    "EM_AARCH64": _aarch64_targets,
    "EM_AVR": _avr_targets,
}

FRAME_POINTERS = {"EM_X86_64": 6, "EM_RISCV": 8, "EM_AVR": 28}
"""By machine, its number in DWARF. The rules of other machines have the whole frame."""

_SMALL_X86_64 = (
    rb"(?s)\x55\x48\x89\xe5"  # PUSH RBP; MOV RBP, RSP
    rb"(?:\x41[\x54-\x57]|\x53)*"  # PUSH R12 to R15, RBX
    rb"\x48\x83(?:\xec(?P<bytes>[\x00-\x7f])|\xc4\x80)"
)

_LENGTH = 48  # bytes at the beginning of a function in which its frame is made


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
    """Return what is subtracted from Y, r29 and r28, after the reads of SPL and SPH.

    Opcodes: AVR Instruction Set Manual, DS40002198.
    """
    read = prologue.find(b"\xcd\xb7\xde\xb7")
    low, high = (int.from_bytes(prologue[read + at : read + at + 2], "little") for at in (4, 6))
    if read < 0:
        return 0
    if low & 0xFF30 == 0x9720:  # SBIW r28
        return low >> 2 & 0x30 | low & 15
    if low == 0x95DA:  # DEC r29
        return 256
    if low & 0xF0F0 == 0x50D0:  # SUBI r29
        return _byte(low) << 8
    if low & 0xF0F0 == 0x50C0 and high == 0x09D1:  # SUBI r28; SBC r29, r1, which is 0
        return _byte(low)
    if low & 0xF0F0 == 0x50C0 and high & 0xF0F0 == 0x40D0:  # SUBI r28; SBCI r29
        return _byte(high) << 8 | _byte(low)
    return 0


def _byte(word: int) -> int:
    return word >> 4 & 0xF0 | word & 15


# Bytes at the beginning of a function in which its frame is made and 24 registers are saved.
_RISCV_LENGTH = 160
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
        _follow(values, what, target, source, operand)
    return taken


def _follow(values: dict[int, int], what: int, target: int, source: int, operand: int) -> None:
    """Note the constant that a step leaves in a register, or that it is none any more."""
    if what == LUI:
        values[target] = operand
    elif what == ADDI and source in values:
        values[target] = values[source] + operand
    elif target:
        values.pop(target, None)


def riscv_steps(code: bytes) -> Iterator[_Step]:
    """Yield what each instruction of RISC-V does to registers, as far as frames need it."""
    for word in _riscv(code):
        if _is_long_riscv(word):
            yield _long(word)
        elif (step := _short(word)) is not None:
            yield step
        else:
            for register in (word >> 7 & 31, S0 + (word >> 7 & 7), S0 + (word >> 2 & 7)):
                yield OTHER, register, 0, 0


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


# -- what makes a stack unknown ----------------------------------------------------------------
#
# These are steps of the stack pointer by a variable (arrays of variable length, ``alloca``), and
# calls through pointers. When in doubt, code counts as such: then there is a reason instead of a
# number.

_X86_VARIABLE = (
    rb"(?s)"
    rb"[\x48\x4c]\x29[\xc4\xcc\xd4\xdc\xe4\xec\xf4\xfc]"  # SUB RSP, reg (29 /r)
    rb"|[\x48\x49]\x2b[\x20-\x27\x60-\x67\xa0-\xa7\xe0-\xe7]"  # SUB RSP, r/m (2B /r)
    rb"|\x48\x89[\xc4\xcc\xd4\xdc\xf4\xfc]"  # MOV RSP, reg (89 /r), except from RBP
    rb"|\x4c\x89[\xc4\xcc\xd4\xdc\xe4\xec\xf4\xfc]"
    rb"|\x49\x8b[\xe0-\xe7]|\x48\x8b[\xe0-\xe4\xe6\xe7]"  # the same as 8B /r
    rb"|[\x48-\x4b]\x8d(?:\x24|\x64|\xa4)"  # LEA RSP, [base + index]
    rb"|\x48\x8d(?:[\x20-\x23\x26\x27]|[\x60-\x63\x66\x67]|[\xa0-\xa3\xa6\xa7])"  # [base]
)
_X86_CONSTANT = (  # SUB RSP, imm, and ADD RSP of a negative one
    rb"(?s)\x48\x83(?:\xec.|\xc4[\x80-\xff])|\x48\x81(?:\xec....|\xc4...[\x80-\xff])"
)
_X86_FILLER = (  # PUSH; MOV and XOR of registers; MOV of an imm32; AND RSP, imm8
    rb"(?:\x41?[\x50-\x57]|[\x40-\x4f]?[\x31\x89\x8b][\xc0-\xff]|\x41?[\xb8-\xbf]....|\x48\x83\xe4.)*"
)
# What a prologue has before it moves RSP: MOV RBP, RSP and fillers.
_X86_FRAME = rb"(?s)\x48\x89\xe5" + _X86_FILLER + rb"$"
# The 8 bytes that align the stack before an argument is pushed, from the number on.
_X86_ALIGNED = rb"(?s)\x08" + _X86_FILLER + rb"(?:\x68|\x6a|\x41?[\x50-\x57]|\x41?\xff[\x30-\xb7])"
_X86_PROLOGUE = 48  # bytes between MOV RBP, RSP and the step that makes the frame, at most
_X86_INDIRECT = (
    rb"(?s)\xff[\x10-\x17\x20-\x27\x50-\x57\x60-\x67\x90-\x97\xa0-\xa7\xd0-\xd7\xe0-\xe7]"
)
"""CALL and JMP of a register or of memory (FF /2, FF /4)."""


def moves_stack_by_variable(machine: str, code: bytes) -> bool:
    """Tell whether a function with a frame pointer moves its stack pointer by a variable.

    A constant step after the frame was made counts, too: it may be in a loop (``alloca``).
    """
    match machine:
        case "EM_X86_64":
            return _x86_64_moves(code)
        case "EM_ARM":
            return _thumb_moves(list(thumb_instructions(code)))
        case "EM_AARCH64":
            return _aarch64_moves(_words(code))
        case "EM_RISCV":
            return _riscv_moves(code)
        case "EM_AVR":
            # OUT SPL, Rr (AVR Instruction Set Manual); a frame's end is in Y, r28.
            return any(half & 0xFE0F == 0xBE0D and half >> 4 & 31 != 28 for half in halves_of(code))
    return False


def calls_through_pointer(machine: str, code: bytes) -> bool:
    """Tell whether a function may call through a pointer; a switch may count as such."""
    match machine:
        case "EM_X86_64" | "EM_386":
            return re.search(_X86_INDIRECT, code) is not None
        case "EM_ARM":
            return any(map(_is_thumb_indirect, thumb_instructions(code)))
        case "EM_AARCH64":  # BLR, BR
            return any(word & 0xFFDFFC1F == 0xD61F0000 for word in _words(code))
        case "EM_RISCV":
            return _riscv_calls(code)
        case "EM_AVR":  # IJMP, EIJMP, ICALL, EICALL
            return any(half in (0x9409, 0x9419, 0x9509, 0x9519) for half in halves_of(code))
    return False


def _x86_64_moves(code: bytes) -> bool:
    if re.search(_X86_VARIABLE, code):
        return True
    for step in re.finditer(_X86_CONSTANT, code):
        begin = max(step.start() - _X86_PROLOGUE, 0)
        frame = re.search(_X86_FRAME, code[begin : step.start()])
        if frame is not None:
            if _x86_branches_to(code, range(begin + frame.start() + 3, step.start() + 1)):
                return True
        elif not re.match(_X86_ALIGNED, code[step.start() + 3 :]):
            return True
    return False


def _x86_branches_to(code: bytes, targets: range) -> bool:
    """Tell whether code after the targets branches to one of them: Jcc, JMP of rel8 and rel32."""
    for at in range(targets.stop, len(code) - 1):
        if code[at] & 0xF0 == 0x70 or code[at] == 0xEB:
            # After the opcode of a MOV or LEA it is an operand.
            is_operand = code[at - 1] in b"\x88\x89\x8b\x8d\xc7"
            if not is_operand and at + 2 + signed(code[at + 1], 8) in targets:
                return True
        elif code[at] == 0xE9 or (code[at - 1] == 0x0F and code[at] & 0xF0 == 0x80):
            distance = int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
            if at + 5 + distance in targets:
                return True
    return False


def thumb_instructions(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield the two halves of each instruction."""
    return ((low, high) for _, low, high in _instructions(code, _is_long_thumb))


def _thumb_moves(instructions: list[tuple[int, int]]) -> bool:
    has_frame_pointer = False
    for at, (low, high) in enumerate(instructions):
        before = instructions[max(at - 3, 0) : at]
        register = low >> 3 & 15
        if low & 0xFF00 == 0xAF00 or low == 0x466F:  # ADD r7, SP, #imm; MOV r7, SP (A7.7)
            has_frame_pointer = True
        elif low & 0xFF87 == 0x4685 and register != 7:  # MOV SP, Rm
            if not any(_is_thumb_way_back(each, register) for each in before):
                return True
        elif low & 0xFF87 == 0x4485:  # ADD SP, Rm
            # LDR Rm, [PC, #imm]; MOVS Rm, #imm
            if not any(each >> 8 in (0x48 | register, 0x20 | register) for each, _ in before):
                return True
        else:  # SUB, ADD SP, SP, Rm; or SUB SP, SP, #imm
            by_register = low & 0xFFEF in (0xEBAD, 0xEB0D) and high & 0xF00 == 0xD00
            by_constant = has_frame_pointer and _is_thumb_step((low, high))
            if by_register or (by_constant and not _is_in_prologue(instructions[:at])):
                return True
    return False


def _is_thumb_step(instruction: tuple[int, int]) -> bool:
    """Tell whether it is SUB SP, SP, #imm."""
    low, high = instruction
    return low & 0xFF80 == 0xB080 or (low & 0xFBFF in (0xF1AD, 0xF2AD) and high & 0xF00 == 0xD00)


def _is_thumb_way_back(instruction: tuple[int, int], register: int) -> bool:
    """Tell whether it is SUB of a constant from r7, the frame pointer, to a register."""
    low, high = instruction
    is_wide = low & 0xFBFF in (0xF1A7, 0xF2A7) and high >> 8 & 15 == register
    return is_wide or low & 0xFE3F == 0x1E38 | register


def _is_in_prologue(before: list[tuple[int, int]]) -> bool:
    """Tell whether all that came before saves registers, moves SP, or makes the frame pointer."""
    return all(
        low & 0xFE00 == 0xB400  # PUSH
        or low & 0xFF80 == 0xB080
        or low & 0xFBEF in (0xF1AD, 0xF2AD, 0xE92D)  # SUB.W, PUSH.W
        or low & 0xFFBF == 0xED2D  # VPUSH
        or low == 0x466F
        or (low & 0xFF00 == 0xAF00 and low != 0xAF00)  # clang's; GCC's comes after the frame
        for low, _ in before
    )


def _is_thumb_indirect(instruction: tuple[int, int]) -> bool:
    low, high = instruction
    if low & 0xFF00 == 0x4700:  # BX, BLX; BX LR is a return
        return low != 0x4770
    # MOV PC, Rm; LDR PC, [Rn, ...], except POP {PC}
    return low & 0xFF87 == 0x4687 or (
        low & 0xFF70 == 0xF850 and high >> 12 == 15 and (low, high) != (0xF85D, 0xFB04)
    )


def _aarch64_moves(words: list[int]) -> bool:
    has_frame_pointer = False
    constants: set[int] = set()
    for at, word in enumerate(words):
        target, source, other = word & 31, word >> 5 & 31, word >> 16 & 31
        kind = word >> 23 & 0x3F
        if kind == 0b100101:  # MOVN, MOVZ, MOVK (DDI 0487, C4.1)
            constants.add(target)
        elif kind >> 1 == 0b10001:  # ADD, SUB (immediate)
            if (target, source) == (29, 31):
                has_frame_pointer = True
            elif target == 31 and word >> 29 & 1 == 0:
                is_down = word >> 30 & 1 == 1 and has_frame_pointer
                is_frame = not is_down or (
                    _is_aarch64_frame(words[:at]) and not _is_aarch64_loop(words[at:])
                )
                if source not in (29, 31) or (source == 31 and not is_frame):
                    return True
            constants.discard(target)
        elif word & 0x3FE00000 == 0x0B200000 and target == 31:  # ADD, SUB (extended register)
            if other not in constants:
                return True
        else:
            constants.discard(target)
    return False


def _is_aarch64_frame(before: list[int]) -> bool:
    """Tell whether the instructions since the frame pointer was set only move SP down."""
    since = max(at for at, word in enumerate(before) if word & 0xFF8003FF == 0x910003FD)
    return all(word & 0xFF8003FF == 0xD10003FF for word in before[since + 1 :])


def _is_aarch64_loop(words: list[int]) -> bool:
    """Tell whether an instruction branches back to the first one, or to one before it."""
    return any(
        (word & 0xFE000000 in (0x54000000, 0x34000000, 0xB4000000) and at <= -_far(word, 19))
        or (word & 0x7E000000 == 0x36000000 and at <= -_far(word, 14))
        or (word & 0xFC000000 == 0x14000000 and at <= -signed(word & 0x3FFFFFF, 26))
        for at, word in enumerate(words)
    )


def _far(word: int, bits: int) -> int:
    return signed(word >> 5 & (1 << bits) - 1, bits)


def _riscv_moves(code: bytes) -> bool:
    values: dict[int, int] = {0: 0}
    is_made = has_frame_pointer = False
    for what, target, source, operand in riscv_steps(code):
        if target == SP and what != OTHER:
            if source == SP:
                moved = operand if what == ADDI else values.get(operand)
                if moved is None:
                    return True
                if has_frame_pointer and is_made and (moved > 0) == (what == SUB) and moved:
                    return True
            elif source != S0:
                return True
            continue
        if (what, target, source) == (ADDI, S0, SP):
            has_frame_pointer = True
        elif has_frame_pointer and not (what in (LUI, ADDI) and source in values):
            is_made = True
        _follow(values, what, target, source, operand)
    return False


def _riscv_calls(code: bytes) -> bool:
    before = 0
    for word in _riscv(code):
        if not _is_long_riscv(word):
            # C.JR, C.JALR (16.4); JR of ra and t0 are returns
            register = word >> 7 & 31
            if word & 0xE07F == 0x8002 and register and (word & 0x1000 or register not in (1, 5)):
                return True
        elif word & 0x707F == 0x67:  # JALR (2.5), except after AUIPC of its register
            source = word >> 15 & 31
            is_direct = before & 0x7F == 0x17 and before >> 7 & 31 == source
            is_return = not word >> 7 & 31 and source in (1, 5)
            if not is_direct and not is_return:
                return True
        before = word
    return False


# -- hazards for a clock -------------------------------------------------------------------------

MASKS: Final = "masks"
"""It masks interrupts for longer than a few instructions."""

SLEEPS: Final = "sleeps"
"""It waits for an interrupt or an event: WFI, WFE."""

SETS_CLOCK: Final = "sets-clock"
"""It stores to registers of SysTick, its priority or VTOR (Arm), or of TIMER1 (AVR)."""

_SREG: Final = 0x5F

SETS_TIMER: Final = "sets-timer"
"""It stores to the CLINT (RISC-V), which has mtime and mtimecmp."""

SETS_COUNTER: Final = "sets-counter"
"""It writes to the core's counters: mcycle, minstret, mcountinhibit (RISC-V), the PMU (AArch64)."""


def hazards(machine: str, code: bytes, literals: bytes = b"") -> frozenset[str]:
    """Return which of the hazards above a function's own instructions do.

    ``literals`` is the code with the constants in it, if ``code`` has none.
    """
    found = set()
    if machine == "EM_ARM":
        thumb = list(thumb_instructions(code))
        # WFI, WFE: T1, T2 (DDI 0403, A7.7)
        if {(0xBF30, 0), (0xBF20, 0), (0xF3AF, 0x8003), (0xF3AF, 0x8002)} & set(thumb):
            found.add(SLEEPS)
        if _stays_masked(_thumb_flow(thumb)):
            found.add(MASKS)
        if _sets_systick(literals or code, thumb):
            found.add(SETS_CLOCK)
    elif machine == "EM_AVR":
        avr = [(low, high) for _, low, high in _instructions(code, _is_long_avr)]
        if (0x9588, 0) in avr:  # SLEEP
            found.add(SLEEPS)
        if _stays_masked(_avr_flow(avr)):
            found.add(MASKS)
        stored = {high for low, high in avr if low & 0xFE0F == 0x9200}  # STS k, Rr
        pointers = set(_pointers(avr))
        # OUT A, Rr; SBI A, b: TIFR1 has an address for them
        clears = any(low & 0xFE0F == 0xBA06 or low & 0xFFF8 == 0x9AB0 for low, _ in avr)
        if clears or any(map(_is_timer1, stored | pointers)):
            found.add(SETS_CLOCK)
        if _SREG in pointers:
            found.add(MASKS)
    elif machine in ("EM_RISCV", "EM_AARCH64"):
        words = set(_riscv(code) if machine == "EM_RISCV" else _words(code))
        # WFI (privileged manual, 3.3.3); WFI, WFE (DDI 0487, "Hints")
        # WRS.NTO, WRS.STO (unprivileged manual, Zawrs)
        if words & {0x10500073, 0x00D00073, 0x01D00073, 0xD503207F, 0xD503205F}:
            found.add(SLEEPS)
        if any(map(_sets_csr if machine == "EM_RISCV" else _sets_pmu, words)):
            found.add(SETS_COUNTER)
        # However short: no clock there counts its wraps in an interrupt, but samples come by one.
        if any(map(_masks_riscv if machine == "EM_RISCV" else _masks_aarch64, words)):
            found.add(MASKS)
        if machine == "EM_RISCV" and _sets_clint(code):
            found.add(SETS_TIMER)
    return frozenset(found)


_CLINT: Final = range(0x2000, 0x2010)
"""Its pages of 4 KiB on QEMU's virt machine and the FE310 (SiFive FE310-G002 manual, chapter 5)."""


def _sets_clint(code: bytes) -> bool:
    """Tell whether a store's base comes from LUI of a page of the CLINT (2.4, 2.6, 16.3)."""
    bases: set[int] = set()
    places: set[tuple[int, int]] = set()  # in the frame, where code without optimisation keeps them
    for word in _riscv(code):
        source, target = word >> 15 & 31, word >> 7 & 31
        if word & 3 == 3:
            if word & 0x7F == 0x23:  # SB, SH, SW, SD
                if source in bases:
                    return True
                place = source, word >> 25 << 5 | target
                (places.add if word >> 20 & 31 in bases else places.discard)(place)
                continue
            if word & 0x7F == 0x03 and (source, word >> 20) in places:  # LW, LD
                bases.add(target)
                continue
            is_sum = word & 0x707F == 0x13 and source in bases
            is_base = is_sum or (word & 0x7F == 0x37 and word >> 12 in _CLINT)
            has_target = word & 0x7F not in (0x63, 0x73, 0x0F)
        else:
            if word & 3 == 0 and word >> 13 & 7 in (6, 7) and 8 + (word >> 7 & 7) in bases:
                return True  # C.SW, C.SD
            is_load = word & 3 == 0 and word >> 13 & 7 in (2, 3)
            target = 8 + (word >> 2 & 7) if is_load else target
            is_base = word & 0xE003 == 0x0001 and target in bases  # C.ADDI
            has_target = word & 3 == 2 or is_load or word >> 13 & 7 < 4
        if is_base:
            bases.add(target)
        elif has_target:
            bases.discard(target)
    return False


def _sets_csr(word: int) -> bool:
    """Tell whether it is CSRRW .. CSRRCI with a counter (unprivileged 9.1, privileged 3.1)."""
    csr, is_read = word >> 20, word >> 12 & 3 != 1 and word >> 15 & 31 == 0
    is_counter = csr & ~0x9F == 0xB00 or 0x320 <= csr <= 0x33F or 0x7E0 <= csr <= 0x7E2  # ESP32-C3
    return word & 0x7F == 0x73 and word >> 12 & 3 != 0 and is_counter and not is_read


def _masks_riscv(word: int) -> bool:
    """Tell whether it is CSRRW(I) or CSRRC(I) with mstatus or mie (privileged 3.1)."""
    return word & 0x7F == 0x73 and word >> 12 & 3 in (1, 3) and word >> 20 in (0x300, 0x304)


def _masks_aarch64(word: int) -> bool:
    """Tell whether it is MSR DAIFSet, #imm; or MSR DAIF, Xt (DDI 0487, C5.2.3)."""
    return word & 0xFFFFF0FF == 0xD50340DF or word & ~0x1F == 0xD51B4220


def _sets_pmu(word: int) -> bool:
    """Tell whether it is MSR PM..., Xt (DDI 0487, D19.5): CRn is 9 or 14."""
    crm = word >> 8 & 15
    return (word >> 12 == 0xD51B9 and crm in (12, 13, 14)) or (word >> 12 == 0xD51BE and crm >= 8)


# -- masks ---------------------------------------------------------------------------------------

_OPENS, _CLOSES, _SAVES, _TOGGLES = "opens", "closes", "saves", "toggles"
_TAKES_LONG = "takes long"
_DEEPEST = 4  # masks that are saved and not yet restored
_Branch = tuple[str, int | None, bool]
"""What an instruction does, how far it jumps from its own address, if that is known, and whether
the next one may follow."""

# An address, whether interrupts are masked there, and whether they were where each was saved.
_State = tuple[int, bool, tuple[bool, ...]]
_Flow = dict[int, tuple[str, list[int]]]
"""By address of each instruction, what it does, and where those are that may follow."""


def _stays_masked(flow: _Flow) -> bool:
    """Tell whether something that may take long comes before interrupts are on again.

    A section without a call and without a loop takes at most as long as its instructions, a
    few microseconds. The prologue of AVR that moves the stack pointer is one.
    """
    if all(does not in (_OPENS, _TOGGLES) for does, _ in flow.values()):
        return False
    seen: set[_State] = set()
    begun: set[int] = set()
    way: set[_State] = set()
    for begin in flow:  # also what only a table of addresses leads to
        left: list[_State] = [] if begin in begun else [(begin, False, ())]
        while left:
            state = at, is_masked, saved = left[-1]
            if state in seen:
                left.pop()
                way.discard(state)
                continue
            seen.add(state)
            begun.add(at)
            way.add(state)
            does, following = flow[at]
            if is_masked:
                if does == _TAKES_LONG:
                    return True
                following = _without_unmasked(flow, at) if saved else following
            if does in (_OPENS, _CLOSES):
                is_masked = does == _OPENS
            elif does == _SAVES:
                saved = (*saved, is_masked)[-_DEEPEST:]
            elif does == _TOGGLES:  # it restores what was there, or writes a mask
                is_masked = saved[-1] if saved else not is_masked
                saved = saved[:-1]
            if is_masked and any(to not in flow or (to, True, saved) in way for to in following):
                return True  # it leaves the function, or it is a loop
            left += [(to, is_masked, saved) for to in following if to in flow]
    return False


def _without_unmasked(flow: _Flow, at: int) -> list[int]:
    """Return what may follow with interrupts masked.

    The mask was saved. A branch around the instruction that unmasks is then taken if a caller had
    masked them.
    """
    following = flow[at][1]
    if not any(_unmasks(flow, to) for to in following):
        return following
    return [to for to in following if _leads_to_unmasking(flow, to)]


def _unmasks(flow: _Flow, at: int) -> bool:
    return at in flow and flow[at][0] in (_CLOSES, _TOGGLES)


def _leads_to_unmasking(flow: _Flow, begin: int) -> bool:
    """Tell whether a way leads to an instruction that unmasks, without one that masks before."""
    seen: set[int] = set()
    left = [begin]
    while left:
        at = left.pop()
        if _unmasks(flow, at):
            return True
        if at in flow and at not in seen and flow[at][0] != _OPENS:
            seen.add(at)
            left += flow[at][1]
    return False


def _thumb_flow(thumb: list[tuple[int, int]]) -> _Flow:
    flow: _Flow = {}
    at = conditional = 0
    for low, high in thumb:
        does, jump, goes_on = _thumb_step(low, high)
        after = at + (4 if _is_long_thumb(low) else 2)
        flow[at] = does, [after] if goes_on or conditional else []
        if jump is not None:
            flow[at][1].append(at + 4 + jump)
        conditional = max(conditional - 1, 0)
        if low & 0xFF00 == 0xBF00 and low & 15:  # IT: the lowest bit that is set ends the block
            conditional = 5 - (low & -low).bit_length()
        at = after
    return flow


def _thumb_step(low: int, high: int) -> _Branch:
    """Classify by DDI 0403, A7.7."""
    if low & 0xFFEC == 0xB660:  # CPSIE, CPSID of i, f or both (B5.2.1)
        return (_OPENS if low & 0x10 else _CLOSES), None, True
    # MSR PRIMASK, BASEPRI, BASEPRI_MAX, FAULTMASK (B5.2.3)
    if low & 0xFFF0 == 0xF380 and high in (0x8810, 0x8811, 0x8812, 0x8813):
        return _TOGGLES, None, True
    if low == 0xF3EF and high & 0xF0FC == 0x8010:  # MRS of the same (B5.2.2)
        return _SAVES, None, True
    if low >> 12 == 0b1101 and low >> 9 & 7 != 0b111:  # B T1
        return "", 2 * signed(low & 0xFF, 8), True
    if low >> 11 == 0b11100:  # B T2
        return "", 2 * signed(low & 0x7FF, 11), False
    if low & 0xF500 == 0xB100:  # CBZ, CBNZ
        return "", (low >> 9 & 1) << 6 | (low >> 3 & 31) << 1, True
    if low >> 11 == 0b11110 and high & 0xD000 == 0x8000 and low >> 7 & 7 != 7:  # B T3
        far = (low >> 10 & 1) << 20 | (high >> 11 & 1) << 19 | (high >> 13 & 1) << 18
        return "", signed(far | (low & 0x3F) << 12 | (high & 0x7FF) << 1, 21), True
    if low >> 11 == 0b11110 and high & 0xD000 == 0x9000:  # B T4
        (to,) = _thumb_targets(low.to_bytes(2, "little") + high.to_bytes(2, "little"), -4)
        return "", to, False
    if (low >> 11 == 0b11110 and high & 0xD000 == 0xD000) or low & 0xFF80 == 0x4780:  # BL, BLX
        return _TAKES_LONG, None, True
    if low & 0xFFCF == 0xF00F and high & 0xF001 == 0xC001:  # LE, the end of a loop (DDI 0553)
        return _TAKES_LONG, None, True
    is_way_out = (
        low & 0xFF00 in (0x4700, 0xBD00)  # BX, POP {.., pc}
        or low & 0xFF87 in (0x4487, 0x4687)  # ADD PC, Rm; MOV PC, Rm
        or (low & 0xFFF0 == 0xE8D0 and high & 0xFFE0 == 0xF000)  # TBB, TBH
        or (low & 0xFE50 == 0xE810 and high & 0x8000)  # LDM with PC
        or (low & 0xFF70 == 0xF850 and high >> 12 == 15)  # LDR PC
    )
    return (_TAKES_LONG, None, False) if is_way_out else ("", None, True)


def _is_timer1(address: int) -> bool:
    """Tell whether it is one of TCCR1A .. OCR1BH, TIMSK1 and TIFR1 (DS40002061, 30)."""
    return 0x80 <= address <= 0x8B or address in (0x6F, 0x36)


def _pointers(avr: list[tuple[int, int]]) -> Iterator[int]:
    """Yield the addresses below 256 in X, Y or Z, and those of stores with a displacement.

    LDI Rd, low; LDI Rd+1, 0; without optimisation MOVW follows. STD Y+q, Rr; STD Z+q, Rr.
    """
    for at, ((low, _), (high, _)) in enumerate(pairwise(avr)):
        register = low >> 4 & 15
        if (low >> 12, high) != (14, 0xE000 | (register + 1) << 4) or register & 1:
            continue
        after = avr[at + 2 : at + 2 + _NEAR_STORE]
        moved = after[0][0] if after else 0
        if register not in (10, 12, 14):
            if moved & 0xFF0F != 0x0100 | 8 + register // 2 or moved >> 4 & 15 < 13:
                continue
            register = 2 * (moved >> 4 & 15) - 16
        base = low >> 4 & 0xF0 | low & 15
        yield base
        for store, _ in after:
            if store & 0xD200 == 0x8200 and register == (12 if store & 8 else 14):
                yield base + (store >> 8 & 0x20 | store >> 7 & 0x18 | store & 7)


# Instructions after an address is in Y or Z, among which a store with a displacement is found.
_NEAR_STORE = 16
_NEAR = 6  # instructions before SREG is written, among which is the one that changes what was read


def _avr_masks(avr: list[tuple[int, int]]) -> dict[int, str]:
    """Return what writes of SREG do whose bit I is set or cleared before, by place in the list.

    The read before such a write saves nothing, so it is there, too.
    """
    found: dict[int, str] = {}
    for place, (low, high) in enumerate(avr):
        if _avr_step(low, high)[0] != _TOGGLES:
            continue
        register = low >> 4 & 31
        for before in range(place - 1, max(place - _NEAR, 0) - 1, -1):
            word, more = avr[before]
            if _avr_step(word, more)[0] == _SAVES and word >> 4 & 31 == register:
                if place in found:
                    found[before] = ""
                break
            does = _avr_bit_i(avr, before, register)
            if does and place not in found:
                found[place] = does
    return found


def _avr_bit_i(avr: list[tuple[int, int]], place: int, register: int) -> str:
    """Return what an instruction does to bit 7 of a register: opens, closes or "" (DS40002198)."""
    low = avr[place][0]
    if low >> 12 in (0b0111, 0b0110, 0b1110) and low >> 4 & 15 == register - 16:
        has_bit = bool(low & 0x0800)
        if low >> 12 == 0b0110:  # ORI
            return _CLOSES if has_bit else ""
        if low >> 12 == 0b0111:  # ANDI
            return "" if has_bit else _OPENS
        return _CLOSES if has_bit else _OPENS  # LDI
    if low & 0xFE0F == 0xF807 and low >> 4 & 31 == register:  # BLD Rd, 7
        before = avr[place - 1][0] if place else 0
        return _CLOSES if before == 0x9468 else _OPENS  # SET; CLT
    return ""


def _avr_flow(avr: list[tuple[int, int]]) -> _Flow:
    flow: _Flow = {}
    at = 0
    masks = _avr_masks(avr)
    for place, (low, high) in enumerate(avr):
        does, jump, goes_on = _avr_step(low, high)
        does = masks.get(place, does)
        after = at + (4 if _is_long_avr(low) else 2)
        flow[at] = does, [after] if goes_on else []
        if jump is not None:
            flow[at][1].append(at + 2 + jump)
        # CPSE; SBRC, SBRS; SBIC, SBIS
        if low >> 10 == 0b000100 or low & 0xFC08 == 0xFC00 or low & 0xFD00 == 0x9900:
            is_long = place + 1 < len(avr) and _is_long_avr(avr[place + 1][0])
            flow[at][1].append(after + (4 if is_long else 2))
        at = after
    return flow


def _avr_step(low: int, high: int) -> _Branch:
    """Classify by the AVR Instruction Set Manual (DS40002198)."""
    if low == 0x94F8:  # CLI
        return _OPENS, None, True
    if low == 0x9478:  # SEI
        return _CLOSES, None, True
    if low & 0xFE0F == 0xBE0F or (low & 0xFE0F == 0x9200 and high == _SREG):  # OUT, STS SREG
        return _TOGGLES, None, True
    if low & 0xFE0F == 0xB60F or (low & 0xFE0F == 0x9000 and high == _SREG):  # IN, LDS SREG
        return _SAVES, None, True
    if low >> 11 == 0b11110:  # BRBS, BRBC
        return "", 2 * signed(low >> 3 & 0x7F, 7), True
    if low >> 12 == 0b1100:  # RJMP
        return "", 2 * signed(low & 0xFFF, 12), False
    if low >> 12 == 0b1101 or low & 0xFE0E == 0x940E or low in (0x9509, 0x9519):
        return _TAKES_LONG, None, True  # RCALL, CALL, ICALL, EICALL
    # JMP, IJMP, EIJMP, RET, RETI
    if low & 0xFE0E == 0x940C or low in (0x9409, 0x9419, 0x9508, 0x9518):
        return _TAKES_LONG, None, False
    return "", None, True


# -- the clock ------------------------------------------------------------------------------------


_SYSTICK_HANDLER: Final = (0xE000ED08, 0xE000ED20, 0xE000ED23)


def _sets_systick(code: bytes, thumb: list[tuple[int, int]]) -> bool:
    """Tell whether a function has the address of SysTick's registers, and stores to memory.

    Also of its priority, SHPR3, or of VTOR, the table in which its handler is (B3.2.5, B3.2.12).
    """
    literals = {int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code) - 3, 2)}
    if any(0xE000E010 <= word <= 0xE000E018 or word in _SYSTICK_HANDLER for word in literals):
        return True
    # STR Rt, [Rn, #8]: VTOR from SCB on
    if 0xE000ED00 in literals and any(low >> 6 == 0b01100_00010 for low, _ in thumb):
        return True
    # MOV Rd, #PENDSTCLR (B3.2.4); ICSR by itself, or from SCB on
    clears = any(low == 0xF04F and high & 0xF0FF == 0x7000 for low, high in thumb)
    if clears and not literals.isdisjoint((0xE000ED00, 0xE000ED04)):
        return True
    for at, (low, high) in enumerate(thumb):
        if low == 0xF04F and high & 0xF0FF == 0x20E0:  # MOV Rd, #0xe000e000
            base = high >> 8 & 15
            for store, more in thumb[at + 1 : at + 32]:  # STR Rt, [Rd, #0x10 .. #0x18]; #0xd04
                if store >> 11 == 0b01100 and store >> 3 & 7 == base and 4 <= store >> 6 & 31 <= 6:
                    return True
                offset = more & 0xFFF if store == 0xF8C0 | base else 0
                if 0x10 <= offset <= 0x18 or 0xE000E000 + offset in _SYSTICK_HANDLER:
                    return True
                if clears and offset == 0xD04:
                    return True
    return False
