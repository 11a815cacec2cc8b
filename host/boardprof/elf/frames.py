# SPDX-License-Identifier: Apache-2.0
"""How much stack the functions of an image reserve, from its call-frame information."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.elf.calls import targets
from boardprof.elf.prologue import FRAME_POINTERS, below_frame_pointer

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

__all__ = ["ImageStack", "StackNeed", "image_stack"]

_ROOM = ("bp_stack_guard_end", "bp_stack_top")
_GUARD = ("bp_stack_guard_start", "bp_stack_guard_end")

# The stack pointer's number in DWARF, as each machine's ABI has it.
_STACK_POINTERS = {
    "EM_X86_64": 7,
    "EM_386": 4,
    "EM_ARM": 13,
    "EM_RISCV": 2,
    "EM_AARCH64": 31,
    "EM_AVR": 32,
}


@dataclass(frozen=True)
class StackNeed:
    """What a function reserves of the stack, in bytes; ``alloca`` and the like are not in it.

    Attributes:
        own: in its own frame.
        largest: in the largest frame of its own and of all that it calls directly or by way of
            others, as far as that is known.
        largest_of: the function that has that frame.
        total: along the deepest of these chains of calls, where each recursion counts once. Where
            many functions call each other in several ways, one of their deep chains.
    """

    own: int
    largest: int
    largest_of: str
    total: int


@dataclass(frozen=True)
class ImageStack:
    """What functions need, and what there is.

    Attributes:
        needs: by the function's name; those are left out of which nothing is known.
        room: bytes of the stack; None: the image does not tell.
        guard: bytes below it that nothing may touch.
    """

    needs: dict[str, StackNeed]
    room: int | None = None
    guard: int = 0


def image_stack(image: Path, names: Iterable[str]) -> ImageStack:
    """Read an image; one that cannot be read tells nothing.

    Args:
        image: an ELF file, with ``.debug_frame`` or ``.eh_frame``.
        names: of functions.
    """
    from elftools.elf.elffile import ELFFile

    try:
        with image.open("rb") as file:
            return _Reader(ELFFile(file)).stack(names)
    except Exception:
        # pyelftools raises more than its own errors: of a damaged file, asserts and KeyErrors.
        return ImageStack({})  # the functions can be measured all the same


@dataclass(frozen=True)
class _Function:
    name: str
    begin: int
    size: int


class _Reader:
    def __init__(self, elf: ELFFile) -> None:
        self._machine = elf["e_machine"]
        self._bits = elf.elfclass
        self._addresses: dict[str, int] = {}
        self._functions: dict[int, _Function] = {}
        self._by_name: dict[str, int] = {}
        self._read_symbols(elf)
        sections = (s for s in elf.iter_sections() if s["sh_flags"] & 4 and s["sh_size"])
        self._code = sorted((s["sh_addr"], s.data()) for s in sections)
        self._frames = self._read_frames(elf)
        self._known: dict[int, StackNeed] = {}
        self._recursions: dict[int, int] = {}  # of each function, by its first one
        # In the order of the visit, those that are not done or whose recursion is not: their place,
        # and what they need as far as it is known.
        self._open: dict[int, tuple[int, StackNeed | None]] = {}

    def stack(self, names: Iterable[str]) -> ImageStack:
        needs = {}
        for name in names:
            begin = self._by_name.get(name)
            if begin is not None and begin in self._frames:
                needs[name] = self._known.get(begin) or self._need(begin)[0]
        return ImageStack(needs, self._between(_ROOM), self._between(_GUARD) or 0)

    def _between(self, names: tuple[str, str]) -> int | None:
        begin, end = (self._addresses.get(name) for name in names)
        return None if begin is None or end is None else end - begin

    def _read_symbols(self, elf: ELFFile) -> None:
        table: Any = elf.get_section_by_name(".symtab")
        own_bit = 1 if self._machine == "EM_ARM" else 0  # Thumb
        for symbol in table.iter_symbols() if table is not None else ():
            if symbol["st_shndx"] == "SHN_UNDEF":
                continue
            value, name = symbol["st_value"], symbol.name
            if name in _ROOM or name in _GUARD:
                self._addresses[name] = value
            if symbol["st_info"]["type"] != "STT_FUNC":
                continue
            begin = value & ~own_bit
            self._functions[begin] = _Function(name, begin, symbol["st_size"])
            # Of several of one name, static ones among them, the global one is meant.
            if name not in self._by_name or symbol["st_info"]["bind"] == "STB_GLOBAL":
                self._by_name[name] = begin

    def _read_frames(self, elf: ELFFile) -> dict[int, int]:
        """Return the size of each function's frame by the address where the function begins."""
        from elftools.dwarf.callframe import FDE

        pointer = _STACK_POINTERS.get(self._machine)
        if pointer is None:
            return {}
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        entries = dwarf.CFI_entries() if dwarf.has_CFI() else []
        if dwarf.has_EH_CFI():
            entries = [*entries, *dwarf.EH_CFI_entries()]
        frames: dict[int, int] = {}
        for entry in entries:
            if isinstance(entry, FDE):
                begin = entry["initial_location"]
                frames[begin] = max(frames.get(begin, 0), self._frame(entry, pointer))
        return frames

    def _frame(self, entry: Any, pointer: int) -> int:
        """Return how far the stack pointer goes down from the function's first instruction on."""
        ((_, first),) = list(_rules(entry.cie.instructions, pointer))[-1:] or [(pointer, 0)]
        deepest, above = first, None
        for register, offset in _rules(entry.instructions, pointer, first):
            if register == pointer:
                deepest = max(deepest, offset)
            elif above is None and register == FRAME_POINTERS.get(self._machine):
                above = deepest
        if above is not None:  # the way back may tell the whole frame, or no more than this
            function = self._functions.get(entry["initial_location"])
            code = self._code_of(function.begin, function.size) if function is not None else b""
            deepest = max(deepest, above + below_frame_pointer(self._machine, code))
        return int(deepest - first)

    def _code_of(self, begin: int, size: int) -> bytes:
        index = bisect.bisect_right(self._code, begin, key=lambda each: each[0]) - 1
        if index < 0:
            return b""
        start, content = self._code[index]
        return content[begin - start : begin - start + size]

    def _need(self, begin: int) -> tuple[StackNeed, int]:
        """Return what a function needs, and the place of the first one of its recursion.

        In a recursion each need but that of its first function leaves out who has called it: only
        the first one's is kept, and not for the others of the recursion, or what they need would
        depend on which was asked for before (Tarjan's strongly connected components, with ``_open``
        as the stack).
        """
        place = first = len(self._open)
        self._open[begin] = place, None
        function, own = self._functions[begin], self._frames.get(begin, 0)
        largest, largest_of, deepest = own, function.name.partition(".")[0], 0
        code = self._code_of(begin, function.size)
        for target in sorted(
            set(targets(self._machine, code, begin, self._bits)) & self._functions.keys()
        ):
            callee = self._known.get(target)
            if callee is None or self._recursions[target] == self._recursions.get(begin):
                at, callee = self._open.get(target, (place, None))
                if target not in self._open:
                    callee, at = self._need(target)
                first = min(first, at)
            if callee is not None:  # else it is above, and counted there
                deepest = max(deepest, callee.total)
                if callee.largest > largest:
                    largest, largest_of = callee.largest, callee.largest_of
        need = StackNeed(own, largest, largest_of, own + deepest)
        self._open[begin] = place, need
        if first == place:
            self._known[begin] = need
            while len(self._open) > place:
                member, _ = self._open.popitem()
                self._recursions.setdefault(member, begin)
        return need, first


def _rules(instructions: Any, register: int, offset: int = 0) -> Iterator[tuple[int, int]]:
    """Yield (register, offset) behind each instruction that says where the frame begins."""
    for instruction in instructions:
        match instruction.opcode, instruction.args:
            case 0x0C, [register, offset]:  # DW_CFA_def_cfa (DWARF 5, 6.4.2.2)
                pass
            case 0x0D, [register]:  # DW_CFA_def_cfa_register
                pass
            case 0x0E, [offset]:  # DW_CFA_def_cfa_offset
                pass
            case _:
                continue
        yield register, offset
