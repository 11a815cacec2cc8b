# SPDX-License-Identifier: Apache-2.0
"""What a function takes of the stack behind its frame pointer, which call-frame rules leave out.

With a frame pointer (``-O0``, variable arrays, on AVR each array) they tell where that points and
no more. The array behind it is taken by further instructions, of the forms that GCC and clang give
it.
"""

from __future__ import annotations

import re

from boardprof.elf.riscv_prologue import below_s0

__all__ = ["FRAME_POINTERS", "below_frame_pointer"]

FRAME_POINTERS = {"EM_X86_64": 6, "EM_RISCV": 8, "EM_AVR": 28}
"""By machine: its number in DWARF. Those that are not here have their frames whole in the rules."""

_SMALL_X86_64 = re.compile(
    rb"\x55\x48\x89\xe5"  # PUSH RBP; MOV RBP, RSP
    rb"(?:\x41[\x54-\x57]|\x53)*"  # PUSH R12 to R15, RBX
    rb"\x48\x83(?:\xec(?P<bytes>[\x00-\x7f])|\xc4\x80)",  # SUB RSP, imm8; ADD RSP, -128
    re.DOTALL,
)

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
        return _x86_64(prologue)
    if machine == "EM_AVR":
        return _avr(prologue)
    return below_s0(code) if machine == "EM_RISCV" else 0


def _x86_64(prologue: bytes) -> int:
    """Return what SUB takes from RSP, an imm32, or an imm8 right behind PUSH RBP; MOV RBP, RSP.

    Registers may be pushed in between. Three bytes alone are found too easily where they are none.
    """
    at = prologue.find(b"\x48\x81\xec")
    if at >= 0:
        return int.from_bytes(prologue[at + 3 : at + 7], "little")
    small = _SMALL_X86_64.search(prologue)
    return 0 if small is None else small["bytes"][0] if small["bytes"] else 128


def _avr(prologue: bytes) -> int:
    """Return what SBIW, or SUBI and SBCI, take from Y behind the reads of SPL and SPH."""
    read = prologue.find(b"\xcd\xb7\xde\xb7")
    low, high = (int.from_bytes(prologue[read + at : read + at + 2], "little") for at in (4, 6))
    if read < 0:
        return 0
    if low & 0xFF30 == 0x9720:  # SBIW r28 (AVR Instruction Set Manual, DS40002198)
        return low >> 2 & 0x30 | low & 15
    if low & 0xF0F0 == 0x50C0 and high & 0xF0F0 == 0x40D0:  # SUBI r28, SBCI r29
        return _byte(high) << 8 | _byte(low)
    return 0


def _byte(word: int) -> int:
    return word >> 4 & 0xF0 | word & 15
