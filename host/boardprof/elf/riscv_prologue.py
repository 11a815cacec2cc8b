# SPDX-License-Identifier: Apache-2.0
"""What a RISC-V function takes of the stack once it has set its frame pointer.

Section numbers are those of the unprivileged manual.
"""

from __future__ import annotations

from collections.abc import Iterator

from boardprof.elf.bits import signed

__all__ = ["below_s0"]

_LENGTH = 160
"""Bytes from a function's beginning in which its frame is made: it may save 24 registers there."""

_SP, _S0 = 2, 8
_ADDI, _ADD, _SUB, _LUI, _OTHER = range(5)
_Step = tuple[int, int, int, int]
"""One of these, the registers that it writes and reads, and a number or the other register. Of
_OTHER, a register that it may write."""


def below_s0(code: bytes) -> int:
    """Return the bytes that constants take from SP behind the instruction that sets S0 from it.

    By ADDI, or by ADD or SUB of a register that LUI and ADDI have given its value; what a variable
    takes is not in it.
    """
    taken, has_frame_pointer = 0, False
    values: dict[int, int] = {0: 0}
    for what, target, source, operand in _steps(code[:_LENGTH]):
        if (target, source) == (_SP, _SP):
            moved = operand if what == _ADDI else values.get(operand, 0)
            if has_frame_pointer:  # what comes before, the call-frame rules tell
                taken += max(moved if what == _SUB else -moved, 0)  # upwards it is given back
            continue
        has_frame_pointer |= (what, target, source) == (_ADDI, _S0, _SP)
        if what == _LUI:
            values[target] = operand
        elif what == _ADDI and source in values:
            values[target] = values[source] + operand
        elif target:
            values.pop(target, None)
    return taken


def _steps(code: bytes) -> Iterator[_Step]:
    at = 0
    while at + 2 <= len(code):
        word = int.from_bytes(code[at : at + 4], "little")
        is_long = word & 3 == 3  # 1.5
        if is_long:
            yield _long(word)
        elif (step := _short(word & 0xFFFF)) is not None:
            yield step
        else:
            for register in (word >> 7 & 31, _S0 + (word >> 7 & 7), _S0 + (word >> 2 & 7)):
                yield _OTHER, register, 0, 0
        at += 4 if is_long else 2


def _long(word: int) -> _Step:
    target, source, other = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31
    if word & 0x7F == 0x37:  # LUI (2.4)
        return _LUI, target, 0, signed(word & 0xFFFFF000, 32)
    if word & 0x707F in (0x13, 0x1B):  # ADDI (2.4), ADDIW (4.2)
        return _ADDI, target, source, signed(word >> 20, 12)
    if word & 0x707F == 0x33 and word >> 25 in (0, 0x20):  # ADD, SUB (2.4)
        return (_SUB if word >> 25 else _ADD), target, source, other
    return _OTHER, target, 0, 0


def _short(half: int) -> _Step | None:
    """Read a compressed instruction (16.3 to 16.5)."""
    register, low = half >> 7 & 31, half >> 2 & 31
    small = signed((half >> 12 & 1) << 5 | low, 6)
    match half & 3, half >> 13:
        case 0, 0:  # C.ADDI4SPN, upwards
            return _ADDI, _S0 + (low & 7), _SP, 0
        case 1, 0:  # C.ADDI
            return _ADDI, register, register, small
        case 1, 2:  # C.LI
            return _ADDI, register, 0, small
        case 1, 3 if register == _SP:  # C.ADDI16SP
            fields = (half >> 12 & 1) << 9 | (half >> 6 & 1) << 4
            fields |= (half >> 5 & 1) << 6 | (half >> 3 & 3) << 7 | (half >> 2 & 1) << 5
            return _ADDI, _SP, _SP, signed(fields, 10)
        case 1, 3:  # C.LUI
            return _LUI, register, 0, small << 12
        case 2, 4 if half >> 12 & 1 and low:  # C.ADD
            return _ADD, register, register, low
    return None
