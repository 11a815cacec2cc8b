# SPDX-License-Identifier: Apache-2.0
"""What a function's machine code may do to the clock that measures it.

Like `machine_code`, this reads the opcodes that matter, without a disassembler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from boardprof.target.elf.machine_code import halves_of, thumb_instructions

MASKS: Final = "masks"
"""It masks interrupts for longer than a few instructions."""

SLEEPS: Final = "sleeps"
"""It waits for an interrupt or an event: WFI, WFE."""

SETS_CLOCK: Final = "sets-clock"
"""It stores to registers of SysTick (Arm) or TIMER1 (AVR)."""

_SLEEP: Final = {
    "EM_ARM": (2, {0xBF30, 0xBF20}),  # WFI, WFE (DDI 0403, A7.7)
    "EM_AARCH64": (4, {0xD503207F, 0xD503205F}),  # DDI 0487, "Hints"
    "EM_RISCV": (4, {0x10500073}),  # privileged manual, 3.3.3
}


def hazards(machine: str, code: bytes) -> frozenset[str]:
    """Return which of `MASKS`, `SLEEPS` and `SETS_CLOCK` a function's own instructions do."""
    found = set()
    size, codes = _SLEEP.get(machine, (2, set()))
    step = 2 if machine == "EM_RISCV" else size  # with compressed instructions before it
    words = (int.from_bytes(code[at : at + size], "little") for at in range(0, len(code), step))
    if any(word in codes for word in words):
        found.add(SLEEPS)
    if machine == "EM_ARM":
        thumb = list(thumb_instructions(code))
        if _stays_masked(map(_thumb_step, thumb)):
            found.add(MASKS)
        if _sets_systick(code, thumb):
            found.add(SETS_CLOCK)
    elif machine == "EM_AVR":
        avr = list(_avr(code))
        if _stays_masked(map(_avr_step, avr)):
            found.add(MASKS)
        # STS k, Rr: TCCR1A .. OCR1BH and TIMSK1 (DS40002061, 30)
        if any(
            low & 0xFE0F == 0x9200 and (0x80 <= high <= 0x8B or high == 0x6F) for low, high in avr
        ):
            found.add(SETS_CLOCK)
    return frozenset(found)


# -- masks ---------------------------------------------------------------------------------------

_OPENS, _CLOSES, _TOGGLES, _TAKES_LONG = "opens", "closes", "toggles", "takes long"


def _stays_masked(steps: Iterator[str]) -> bool:
    """Tell whether something that may take long comes before interrupts are on again.

    A section without a call and without a way back takes at most as long as its instructions, a
    few microseconds. The prologue of AVR that moves the stack pointer is one.
    """
    is_open = False
    for step in steps:
        if step == _TAKES_LONG and is_open:
            return True
        if step in (_OPENS, _CLOSES):
            is_open = step == _OPENS
        elif step == _TOGGLES:  # it writes a mask, and the next one restores what was there
            is_open = not is_open
    return is_open


def _thumb_step(instruction: tuple[int, int]) -> str:
    low, high = instruction
    if low & 0xFFEC == 0xB660:  # CPSIE, CPSID of i, f or both (DDI 0403, B5.2.1)
        return _OPENS if low & 0x10 else _CLOSES
    # MSR PRIMASK, BASEPRI, BASEPRI_MAX, FAULTMASK (B5.2.3)
    if low & 0xFFF0 == 0xF380 and high in (0x8810, 0x8811, 0x8812, 0x8813):
        return _TOGGLES
    is_back = (
        (low >> 12 == 0b1101 and low >> 9 & 7 != 0b111 and low & 0x80)  # B T1
        or (low >> 11 == 0b11100 and low & 0x400)  # B T2
        or (low & 0xFC00 == 0xF400 and high & 0xD000 == 0x9000)  # B T4
        or (low & 0xFC00 == 0xF400 and high & 0xD000 == 0x8000 and low >> 7 & 7 != 7)  # B T3
        or (low >> 11 == 0b11110 and high & 0xD000 == 0xD000)  # BL
        or low & 0xFF00 in (0x4700, 0xBD00)  # BX, BLX, POP {.., pc}
        or low & 0xFFF0 == 0xE8D0  # TBB, TBH
        or (low == 0xE8BD and high & 0x8000)  # POP.W {.., pc}
    )
    return _TAKES_LONG if is_back else ""


def _avr(code: bytes) -> Iterator[tuple[int, int]]:
    halves = halves_of(code)
    for low in halves:
        is_long = low & 0xFC0F == 0x9000 or low & 0xFE0C == 0x940C  # LDS, STS; JMP, CALL
        yield low, next(halves, 0) if is_long else 0


def _avr_step(instruction: tuple[int, int]) -> str:
    """Classify by the AVR Instruction Set Manual (DS40002198)."""
    low, high = instruction
    if low == 0x94F8:  # CLI
        return _OPENS
    if low == 0x9478:  # SEI
        return _CLOSES
    if low & 0xFE0F == 0xBE0F or (low & 0xFE0F == 0x9200 and high == 0x5F):  # OUT, STS SREG
        return _TOGGLES
    is_back = (
        (low >> 11 == 0b11110 and low & 0x200)  # BRBS, BRBC
        or (low >> 12 == 0b1100 and low & 0x800)  # RJMP
        or low >> 12 == 0b1101  # RCALL
        or low & 0xFE0C == 0x940C  # JMP, CALL
        or low in (0x9409, 0x9419, 0x9509, 0x9519, 0x9508, 0x9518)  # IJMP .. EICALL, RET, RETI
    )
    return _TAKES_LONG if is_back else ""


# -- the clock ------------------------------------------------------------------------------------


def _sets_systick(code: bytes, thumb: list[tuple[int, int]]) -> bool:
    """Tell whether a function has the address of SysTick's registers, and stores to memory."""
    literals = (int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code) - 3, 2))
    if any(0xE000E010 <= word <= 0xE000E018 for word in literals):
        return True
    for at, (low, high) in enumerate(thumb):
        if low == 0xF04F and high & 0xF0FF == 0x20E0:  # MOV Rd, #0xe000e000
            base = high >> 8 & 15
            for store, _ in thumb[at + 1 : at + 32]:  # STR Rt, [Rd, #0x10 .. #0x18]
                if store >> 11 == 0b01100 and store >> 3 & 7 == base and 4 <= store >> 6 & 31 <= 6:
                    return True
    return False
