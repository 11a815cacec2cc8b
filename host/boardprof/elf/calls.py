# SPDX-License-Identifier: Apache-2.0
"""Which functions a function calls directly, from its instructions.

Nothing is disassembled: each place that reads as a call or jump counts if it leads to the first
instruction of a function. Calls through pointers are not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from boardprof.elf.bits import signed

__all__ = ["targets"]


def targets(machine: str, code: bytes, address: int, bits: int = 32) -> Iterator[int]:
    """Yield where the calls and jumps in some code lead, and places where none is meant.

    Args:
        machine: ``e_machine`` as pyelftools names it; of one that is not known nothing is yielded.
        code: a function's instructions.
        address: of the first.
        bits: of a pointer.
    """
    reader = _riscv64 if (machine, bits) == ("EM_RISCV", 64) else _READERS.get(machine)
    if reader is not None:
        yield from reader(code, address)


def _halves(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield each 32 bits that begin at a multiple of two, the first half low, and their offset."""
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


def _riscv64(code: bytes, address: int) -> Iterator[int]:
    return _riscv(code, address, jumps=(0b101,))  # C.J; where rv32 has C.JAL, rv64 has C.ADDIW


def _riscv(code: bytes, address: int, jumps: tuple[int, ...] = (0b001, 0b101)) -> Iterator[int]:
    for at, word in _halves(code):
        if word & 0x7F == 0x6F:  # JAL (unprivileged manual, 2.5)
            far = (word >> 31) << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11
            yield address + at + signed(far | (word >> 21 & 0x3FF) << 1, 21)
        elif word & 0x7F == 0x17:  # AUIPC, and the JALR by its register behind it
            next_ = int.from_bytes(code[at + 4 : at + 8], "little")
            if next_ & 0x707F == 0x67 and next_ >> 15 & 31 == word >> 7 & 31:
                yield address + at + signed(word & 0xFFFFF000, 32) + signed(next_ >> 20, 12)
        elif word & 3 == 1 and word >> 13 & 7 in jumps:  # C.JAL, C.J (manual, 16.4)
            far = sum((word >> 2 + bit & 1) << place for bit, place in enumerate(_C_J))
            yield address + at + signed(far, 12)


_C_J = (5, 1, 2, 3, 7, 6, 10, 8, 9, 4, 11)
"""Of each bit of a C.J or C.JAL, from bit 2 on, its place in the distance."""


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
