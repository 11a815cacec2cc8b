# SPDX-License-Identifier: Apache-2.0
"""What a function takes of the stack behind its frame pointer, which call-frame rules leave out.

With a frame pointer (``-O0``, or variable arrays) they tell where that points and no more. The
array behind it is taken by one more instruction, of the forms that GCC and clang give it.
"""

from __future__ import annotations

__all__ = ["FRAME_POINTERS", "below_frame_pointer"]

FRAME_POINTERS = {"EM_X86_64": 6, "EM_RISCV": 8}
"""By machine: its number in DWARF. Those that are not here have their frames whole in the rules."""

_LENGTH = 48
"""Bytes from a function's beginning in which its frame is made."""


def below_frame_pointer(machine: str, code: bytes) -> int:
    """Return the bytes that a function with a frame pointer takes by a constant; 0: none are seen.

    Args:
        machine: ``e_machine`` as pyelftools names it.
        code: the function's instructions.
    """
    prologue = code[:_LENGTH]
    if machine == "EM_X86_64":
        at = prologue.find(b"\x48\x81\xec")  # SUB RSP, imm32
        return int.from_bytes(prologue[at + 3 : at + 7], "little") if at >= 0 else 0
    return _riscv(prologue) if machine == "EM_RISCV" else 0


def _riscv(prologue: bytes) -> int:
    """Return what LUI, and perhaps ADDI, and ADD SP take by way of t0."""
    added = min(at if at >= 0 else len(prologue) for at in map(prologue.find, _ADD_SP_T0))
    for at in range(0, added - 3, 2):
        word = int.from_bytes(prologue[at : at + 4], "little")
        if word & 0xFFF == 0x2B7:  # LUI t0
            next_ = int.from_bytes(prologue[at + 4 : min(at + 8, added)], "little")
            return -_signed((word & 0xFFFFF000) + _addend(next_) & 0xFFFFFFFF, 32)
    return 0


_ADD_SP_T0 = (b"\x16\x91", b"\x33\x01\x51\x00")


def _addend(word: int) -> int:
    if word & 0xFFFFF == 0x28293:  # ADDI t0, t0
        return _signed(word >> 20, 12)
    if word & 0xEF83 == 0x281:  # C.ADDI t0
        return _signed((word >> 12 & 1) << 5 | word >> 2 & 31, 6)
    return 0


def _signed(value: int, bits: int) -> int:
    return value - ((value & 1 << (bits - 1)) << 1)
