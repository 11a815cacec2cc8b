# SPDX-License-Identifier: Apache-2.0
"""Compute the stack that the functions of an image need, from its call-frame information.

The compiler's own ``-fstack-usage`` would not do: it knows nothing of library functions such as
``__divdi3``, of objects that were compiled elsewhere, or of assembly.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.target.elf.hazards import hazards
from boardprof.target.elf.machine_code import (
    FRAME_POINTERS,
    below_frame_pointer,
    calls_through_pointer,
    moves_stack_by_variable,
    targets,
)
from boardprof.target.elf.object_file import (
    GLOBAL,
    Symbol,
    code_address,
    functions_in,
    read_if_possible,
    symbols,
)

if TYPE_CHECKING:  # pyelftools takes a while to import
    from elftools.elf.elffile import ELFFile

_AGENT = ("bp_", "__vector")  # names of the agent's functions begin like this
_ABORT = "abort"
"""Its hazards spoil no number: a call that aborts has none."""
SMALL = 64
"""Bytes of a frame that may stay unwritten without a word."""

_FRAMES = 200
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
    """The stack that a function needs, bytes, without ``alloca`` and variable-length arrays."""

    own: int
    largest: int  # frame of it and all its known callees
    largest_of: str
    total: int  # along the deepest chain of calls; each recursion counts once
    hazards: tuple[str, ...] = ()  # of it or a callee; see the module `hazards`
    variable_of: str | None = None  # it or a callee, with a frame of variable size
    calls_unknown: bool = False  # through a pointer, or into a shared library
    is_recursive: bool = False
    # Frames over `SMALL` bytes of it and its callees: where each begins below the function's own
    # stack, its size, and its function. At most `_FRAMES`, the first ones.
    frames: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True)
class ImageStack:
    """The stack that functions need, and the stack that there is, in bytes."""

    needs: dict[str, StackNeed]  # of functions with call-frame information, by name
    room: int | None = None  # None if the image does not contain the stack
    guard: int = 0  # below the stack; nothing may touch it
    largest: int = 0
    largest_of: str = ""
    variable_of: str | None = None
    hazards: tuple[str, ...] = ()  # of all functions but the agent's


def image_stack(image: Path, names: Iterable[str]) -> ImageStack:
    """Read an image; the result is empty if it cannot be read."""
    found = read_if_possible(image, lambda elf: _Reader(elf).stack(names))
    return found or ImageStack({})  # the functions can be measured all the same


class _Reader:
    def __init__(self, elf: ELFFile) -> None:
        self._machine = elf["e_machine"]
        self._bits = elf.elfclass
        self._addresses: dict[str, int] = {}
        self._functions: dict[int, Symbol] = {}
        self._by_name: dict[str, int] = {}
        self._read_symbols(elf)
        sections = (s for s in elf.iter_sections() if s["sh_flags"] & 4 and s["sh_size"])
        self._code = sorted((s["sh_addr"], s.data()) for s in sections)
        self._linkage = [
            range(s["sh_addr"], s["sh_addr"] + s["sh_size"])
            for s in elf.iter_sections()
            if s.name.startswith(".plt")
        ]
        self._variable: set[int] = set()  # functions whose frame is of variable size
        self._frames = self._read_frames(elf)
        self._known: dict[int, StackNeed] = {}
        self._recursions: dict[int, int] = {}  # function -> the first one of its recursion
        # Functions that are not done, or whose recursion is not, in the order of the visit: their
        # place, and their need as far as it is known.
        self._open: dict[int, tuple[int, StackNeed | None]] = {}

    def stack(self, names: Iterable[str]) -> ImageStack:
        needs = {}
        for name in names:
            begin = self._by_name.get(name)
            if begin is not None and begin in self._frames:
                needs[name] = self._known.get(begin) or self._need(begin)[0]
        known = [(size, at) for at, size in self._frames.items() if at in self._functions]
        largest, largest_at = max(known, default=(0, None))
        variable = min(map(self._name, self._variable), default=None)
        others = [
            at
            for at in self._functions
            if not self._name(at).startswith(_AGENT) and self._name(at) != _ABORT
        ]
        hazardous = {each for at in others for each in hazards(self._machine, self._code_of(at))}
        return ImageStack(
            needs,
            self._between(_ROOM),
            self._between(_GUARD) or 0,
            largest,
            "" if largest_at is None else self._name(largest_at),
            variable,
            tuple(sorted(hazardous)),
        )

    def _name(self, begin: int) -> str:
        return self._functions[begin].name.partition(".")[0]

    def _between(self, names: tuple[str, str]) -> int | None:
        begin, end = (self._addresses.get(name) for name in names)
        return None if begin is None or end is None else end - begin

    def _read_symbols(self, elf: ELFFile) -> None:
        for symbol in symbols(elf):
            if symbol.is_defined and symbol.name in (*_ROOM, *_GUARD):
                self._addresses[symbol.name] = symbol.value
        for symbol in functions_in(elf):
            name, begin = symbol.name, code_address(elf, symbol)
            self._functions[begin] = symbol
            # If several functions share a name, the global one is meant and not a static one.
            if name not in self._by_name or symbol.bind == GLOBAL:
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
        self._find_variable(entry, pointer)
        ((_, first),) = list(_rules(entry.cie.instructions, pointer))[-1:] or [(pointer, 0)]
        deepest, above = first, None
        for register, offset in _rules(entry.instructions, pointer, first):
            if register == pointer:
                deepest = max(deepest, offset)
            elif above is None and register == FRAME_POINTERS.get(self._machine):
                above = deepest
        if above is not None:  # the epilogue's rules may give the whole frame, or only this part
            code = self._code_of(entry["initial_location"])
            deepest = max(deepest, above + below_frame_pointer(self._machine, code))
        return int(deepest - first)

    def _find_variable(self, entry: Any, pointer: int) -> None:
        """Keep the function if its frame is of variable size: only a frame pointer allows that."""
        begin = entry["initial_location"]
        has_frame_pointer = _uses_frame_pointer(entry.instructions, pointer)
        if has_frame_pointer and moves_stack_by_variable(self._machine, self._code_of(begin)):
            self._variable.add(begin)

    def _code_of(self, begin: int) -> bytes:
        """Return the code of the function that begins there; empty if there is none."""
        size = self._functions[begin].size if begin in self._functions else 0
        index = bisect.bisect_right(self._code, begin, key=lambda each: each[0]) - 1
        if index < 0:
            return b""
        start, content = self._code[index]
        return content[begin - start : begin - start + size]

    def _need(self, begin: int) -> tuple[StackNeed, int]:
        """Return a function's need, and the place of the first function of its recursion.

        Within a recursion only the need of the first function is complete, and only that is kept.
        Otherwise the result would depend on the order of the questions. (These are Tarjan's
        strongly connected components, with ``_open`` as the stack.)
        """
        place = first = len(self._open)
        self._open[begin] = place, None
        own = self._frames.get(begin, 0)
        largest, largest_of, deepest = own, self._name(begin), 0
        variable_of = largest_of if begin in self._variable else None
        code = self._code_of(begin)
        found = set(hazards(self._machine, code))
        called = set(targets(self._machine, code, begin, self._bits))
        calls_unknown = calls_through_pointer(self._machine, code) or any(
            target in linkage for target in called for linkage in self._linkage
        )
        is_recursive = False
        frames = {(0, own, largest_of)} if own > SMALL else set()
        for target in sorted(called & self._functions.keys()):
            is_recursive = is_recursive or target in self._open
            callee = self._known.get(target)
            if callee is None or self._recursions[target] == self._recursions.get(begin):
                at, callee = self._open.get(target, (place, None))
                if target not in self._open:
                    callee, at = self._need(target)
                first = min(first, at)
            if callee is not None:  # else it is a caller, and counted there
                deepest = max(deepest, callee.total)
                found.update(callee.hazards)
                variable_of = variable_of or callee.variable_of
                calls_unknown = calls_unknown or callee.calls_unknown
                is_recursive = is_recursive or callee.is_recursive
                frames.update((own + at, size, name) for at, size, name in callee.frames)
                if callee.largest > largest:
                    largest, largest_of = callee.largest, callee.largest_of
        if self._name(begin) == _ABORT:
            found.clear()
        need = StackNeed(
            own,
            largest,
            largest_of,
            own + deepest,
            tuple(sorted(found)),
            variable_of,
            calls_unknown,
            is_recursive,
            tuple(sorted(frames)[:_FRAMES]),
        )
        self._open[begin] = place, need
        if first == place:
            self._known[begin] = need
            while len(self._open) > place:
                member, _ = self._open.popitem()
                self._recursions.setdefault(member, begin)
        return need, first


def _uses_frame_pointer(instructions: Any, pointer: int) -> bool:
    """Tell whether a rule defines where the frame begins without the stack pointer."""
    by_expression = any(each.opcode == 0x0F for each in instructions)  # DW_CFA_def_cfa_expression
    return by_expression or any(
        register != pointer for register, _ in _rules(instructions, pointer)
    )


def _rules(instructions: Any, register: int, offset: int = 0) -> Iterator[tuple[int, int]]:
    """Yield (register, offset) after each instruction that defines where the frame begins."""
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
