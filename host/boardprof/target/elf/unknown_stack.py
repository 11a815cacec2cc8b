# SPDX-License-Identifier: Apache-2.0
"""Find what makes a function's stack unknown in its machine code.

These are steps of the stack pointer by a variable (arrays of variable length, ``alloca``), and
calls through pointers. When in doubt, code counts as such: then there is a reason instead of a
number. The cited sections are those of the manuals that `instructions` names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from boardprof.target.elf.instructions import ADDI, LUI, OTHER, S0, SP, SUB, riscv_steps, signed

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
_X86_FRAME = rb"(?s)\x48\x89\xe5" + _X86_FILLER + rb"$"
"""What a prologue has before it moves RSP: MOV RBP, RSP and fillers."""

_X86_ALIGNED = rb"(?s)\x08" + _X86_FILLER + rb"(?:\x68|\x6a|\x41?[\x50-\x57]|\x41?\xff[\x30-\xb7])"
"""The 8 bytes that align the stack before an argument is pushed, from the number on."""

_X86_PROLOGUE = 48
"""Bytes between MOV RBP, RSP and the step that makes the frame, at most."""

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
            return _thumb_moves(list(_thumb(code)))
        case "EM_AARCH64":
            return _aarch64_moves(_words(code))
        case "EM_RISCV":
            return _riscv_moves(code)
        case "EM_AVR":
            # OUT SPL, Rr (AVR Instruction Set Manual); a frame's end is in Y, r28.
            return any(half & 0xFE0F == 0xBE0D and half >> 4 & 31 != 28 for half in _halves(code))
    return False


def calls_through_pointer(machine: str, code: bytes) -> bool:
    """Tell whether a function may call through a pointer; a switch may count as such."""
    match machine:
        case "EM_X86_64" | "EM_386":
            return re.search(_X86_INDIRECT, code) is not None
        case "EM_ARM":
            return any(map(_is_thumb_indirect, _thumb(code)))
        case "EM_AARCH64":  # BLR, BR
            return any(word & 0xFFDFFC1F == 0xD61F0000 for word in _words(code))
        case "EM_RISCV":
            return _riscv_calls(code)
        case "EM_AVR":  # IJMP, EIJMP, ICALL, EICALL
            return any(half in (0x9409, 0x9419, 0x9509, 0x9519) for half in _halves(code))
    return False


def _halves(code: bytes) -> Iterator[int]:
    for at in range(0, len(code) - 1, 2):
        yield int.from_bytes(code[at : at + 2], "little")


def _words(code: bytes) -> list[int]:
    return [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code) - 3, 4)]


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
            if (
                code[at - 1] not in b"\x88\x89\x8b\x8d\xc7"
                and at + 2 + signed(code[at + 1], 8) in targets
            ):
                return True
        elif code[at] == 0xE9 or (code[at - 1] == 0x0F and code[at] & 0xF0 == 0x80):
            distance = int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
            if at + 5 + distance in targets:
                return True
    return False


def _thumb(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield the two halves of each instruction; the second is 0 if it has only one."""
    halves = _halves(code)
    for low in halves:
        yield low, next(halves, 0) if low >> 11 in (0b11101, 0b11110, 0b11111) else 0


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
        elif (
            (  # SUB, ADD SP, SP, Rm
                low & 0xFFEF in (0xEBAD, 0xEB0D) and high & 0xF00 == 0xD00
            )
            or (
                has_frame_pointer
                and _is_thumb_step((low, high))
                and not _is_in_prologue(instructions[:at])
            )
        ):
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
        if what == LUI:
            values[target] = operand
        elif what == ADDI and source in values:
            values[target] = values[source] + operand
        elif target:
            values.pop(target, None)
    return False


def _riscv_calls(code: bytes) -> bool:
    at, before = 0, 0
    while at + 2 <= len(code):
        word = int.from_bytes(code[at : at + 4], "little")
        if word & 3 != 3:
            half = word & 0xFFFF
            # C.JR, C.JALR (16.4); JR of ra and t0 are returns
            register = half >> 7 & 31
            if half & 0xE07F == 0x8002 and register and (half & 0x1000 or register not in (1, 5)):
                return True
        elif word & 0x707F == 0x67:  # JALR (2.5), except after AUIPC of its register
            source = word >> 15 & 31
            is_direct = before & 0x7F == 0x17 and before >> 7 & 31 == source
            is_return = not word >> 7 & 31 and source in (1, 5)
            if not is_direct and not is_return:
                return True
        before = word
        at += 4 if word & 3 == 3 else 2
    return False
