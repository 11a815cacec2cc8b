# SPDX-License-Identifier: Apache-2.0
"""Compute the stack that the functions of an image need, from its call-frame information.

The compiler's own ``-fstack-usage`` would not do: it knows nothing of library functions such as
``__divdi3``, of objects that were compiled elsewhere, or of assembly.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.target.elf.machine_code import (
    FRAME_POINTERS,
    below_frame_pointer,
    calls_through_pointer,
    hazards,
    jumps,
    moves_stack_by_variable,
    targets,
)
from boardprof.target.elf.object_file import (
    GLOBAL,
    Symbol,
    code_address,
    functions_in,
    read_if_possible,
    sources_of_locals,
    symbols,
)

if TYPE_CHECKING:  # pyelftools takes a while to import
    from elftools.elf.elffile import ELFFile

_AGENT = ("bp_", "__vector")  # names of the agent's functions begin like this
_ABORT = "abort"  # its hazards spoil no number: a call that aborts has none
ASKS_FOR_MEMORY = "asks-for-memory"
"""A hazard: it calls avr-libc's malloc, which does not tell when it has no memory left."""

SMALL = 64
"""Bytes of a frame that may stay unwritten without a word."""

PADDING = 16
"""Bytes at a frame's lower end that only align it, at most."""

_UNTYPED, _ALLOCATED, _EXECUTABLE = 0, 2, 4  # STT_NOTYPE, SHF_ALLOC, SHF_EXECINSTR
_INNER = ("", "$", ".")  # begins of names of labels within functions
# Functions of libgcc, such as __divsf3: they jump by tables, which looks like calls.
_ARITHMETIC = r"__[a-z]+(?:[hsdtx]f|[sdt]i)+\d?|__tablejump2?__"
_NO_RETURN = r"abort|_?exit|__assert(_fail|_func)?|__stack_chk_fail(_local)?"
_AVR6 = 6  # e_flags of an AVR with return addresses of three bytes

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
    begin: int = 0  # its address


@dataclass(frozen=True)
class Frame:
    """The frame of a function that has, or may reach, one of over `SMALL` bytes."""

    function: str
    size: int
    calls: bool  # so it writes a return address at its upper end
    callees: tuple[int, ...]  # their addresses, without those that reach no such frame
    tails: tuple[int, ...] = ()  # those of them that it jumps to: they may take its frame's place


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
    frames: dict[int, Frame] = field(default_factory=dict)  # by address
    pushed: int = 0  # bytes that a call writes

    def unwritten(self, begin: int, used: int) -> Frame | None:
        """Return the first large frame that may go on below what a call has overwritten."""
        # Each function's depths are the bits of a number, so all those of a recursion are known.
        unit = 1 if self.pushed in (2, 3) else 4
        within = (1 << (used + PADDING) // unit + 1) - 1
        depths, changed = {begin: 1}, [begin]
        while changed:
            caller = changed.pop(0)
            if (frame := self.frames.get(caller)) is None:
                continue
            step = (frame.size + self.pushed) // unit
            for at in frame.callees:
                before = depths.get(at, 0)
                depths[at] = before | depths[caller] << step & within
                if at in frame.tails:
                    depths[at] |= depths[caller]
                if depths[at] != before and at not in changed:
                    changed.append(at)
        for at, bits in depths.items():
            frame = self.frames.get(at)
            if frame is None or frame.size <= SMALL:
                continue
            # A callee that ran has overwritten a return address, its caller's or its own.
            last = used if self.pushed else used - 1 if frame.calls else used + PADDING
            last = 0 if at == begin and used == 0 else last // unit
            first = max(0, (used - frame.size + SMALL) // unit + 1)
            if bits >> first & (1 << max(0, last - first + 1)) - 1:
                return frame
        return None


def image_stack(image: Path, names: Iterable[str]) -> ImageStack:
    """Read an image; the result is empty if it cannot be read."""
    found = read_if_possible(image, lambda elf: _Reader(elf).stack(names))
    return found or ImageStack({})  # the functions can be measured all the same


class _Reader:
    def __init__(self, elf: ELFFile) -> None:
        self._machine = elf["e_machine"]
        self._bits = elf.elfclass
        self._begins: list[int] = []  # where code without a size ends at the latest
        self._addresses: dict[str, int] = {}
        self._constants: list[tuple[int, int]] = []  # in Thumb code: begin, end
        self._functions: dict[int, Symbol] = {}  # and labels of code
        self._by_name: dict[str, int] = {}
        self._read_symbols(elf)
        sections = [*elf.iter_sections()]
        code = (s for s in sections if s["sh_flags"] & _EXECUTABLE and s["sh_size"])
        self._code = sorted((s["sh_addr"], s.data()) for s in code)
        linkage = (s for s in sections if s.name.startswith(".plt"))
        self._linkage = [range(s["sh_addr"], s["sh_addr"] + s["sh_size"]) for s in linkage]
        loaded = (s for s in sections if s["sh_flags"] & _ALLOCATED)
        self._data = [s.data() for s in loaded if s["sh_type"] == "SHT_PROGBITS"]
        self._variable: set[int] = set()  # functions whose frame is of variable size
        self._frames = self._read_frames(elf)
        self._known: dict[int, StackNeed] = {}
        self._recursions: dict[int, int] = {}  # function -> the first one of its recursion
        # Functions that are not done, or whose recursion is not, in the order of the visit: their
        # place, and their need as far as it is known.
        self._open: dict[int, tuple[int, StackNeed | None]] = {}
        self._callees: dict[int, tuple[set[int], bool]] = {}  # and whether there may be others
        self._tails: dict[int, set[int]] = {}  # callees that are jumped to
        self._pushed = {"EM_X86_64": 8, "EM_386": 4, "EM_AVR": 2}.get(self._machine, 0)
        if self._machine == "EM_AVR" and elf["e_flags"] & 0x7F == _AVR6:
            self._pushed = 3

    def stack(self, names: Iterable[str]) -> ImageStack:
        needs = {}
        measured = [*names]
        for name in measured:
            begin = self._by_name.get(name)
            if begin is not None and begin in self._frames:
                needs[name] = self._known.get(begin) or self._need(begin)[0]
        known = [(size, at) for at, size in self._frames.items() if at in self._functions]
        largest, largest_at = max(known, default=(0, None))
        variable = min(map(self._name, self._variable), default=None)
        hazardous: set[str] = set()
        for at, symbol in self._functions.items():
            # Code or an address of the tools, which no pointer leads to.
            is_start_up = symbol.kind == _UNTYPED and self._name(at).startswith("_")
            if not (is_start_up or self._is_agents(at) or self._name(at) == _ABORT):
                hazardous |= self._hazards(at)
        largest_of = "" if largest_at is None else self._name(largest_at)
        room, guard = self._between(_ROOM), self._between(_GUARD) or 0
        found, frames = tuple(sorted(hazardous)), self._large_frames({*measured})
        return ImageStack(
            needs, room, guard, largest, largest_of, variable, found, frames, self._pushed
        )

    def _large_frames(self, measured: set[str]) -> dict[int, Frame]:
        """Return the functions that were looked at and may reach a large frame."""
        is_unknown = any(others for _, others in self._callees.values())
        pointed = self._pointed(measured) if is_unknown and not self._variable else set()
        callees = {
            at: called | pointed if others else called
            for at, (called, others) in self._callees.items()
        }
        kept = {at for at in {*callees, *pointed} if self._frames.get(at, 0) > SMALL}
        while more := {at for at, called in callees.items() if at not in kept and called & kept}:
            kept |= more
        frames = {}
        for at in sorted(kept):
            called, jumped_to = (each.get(at, set()) & kept for each in (callees, self._tails))
            size, calls = self._frames.get(at, 0), bool(callees.get(at))
            ends = tuple(sorted(called)), tuple(sorted(jumped_to))
            frames[at] = Frame(self._name(at), size, calls, *ends)
        return frames

    def _pointed(self, measured: set[str]) -> set[int]:
        """Return the functions with a pointer in the image, or that no code calls directly.

        The agent has one to each measured function. Data may be in sections of code.
        """
        large = [at for at in self._functions if self._frames.get(at, 0) > SMALL]
        large = [at for at in large if not (self._is_agents(at) or self._name(at) == "main")]
        large = [at for at in large if not self._name(at).startswith("_")]
        if not large:
            return set()
        called = {
            target
            for at in self._functions
            for target in targets(self._machine, self._code_of(at), at, self._bits)
        }
        width = 2 if self._machine == "EM_AVR" else self._bits // 8
        pointers = Counter(
            int.from_bytes(data[at : at + width], "little")
            for data in self._data
            for at in range(0, len(data), width)
        )
        found = set()
        for at in large:
            of_agent = 1 if self._functions[at].name in measured else 0
            is_called = at in called or of_agent
            # On AVR, pointers count words of code.
            pointer = {"EM_AVR": at // 2, "EM_ARM": at | 1}.get(self._machine, at)
            if not is_called or pointers[pointer] > of_agent:
                found.add(at)
        return found

    def _is_agents(self, begin: int) -> bool:
        """Tell by its name whether it is the agent's; a user's may have such a name, if static."""
        source = self._sources.get(begin, "bp_")
        return self._name(begin).startswith(_AGENT) and source.startswith("bp_")

    def _name(self, begin: int) -> str:
        return self._functions[begin].name.partition(".")[0]

    def _between(self, names: tuple[str, str]) -> int | None:
        begin, end = (self._addresses.get(name) for name in names)
        return None if begin is None or end is None else end - begin

    def _read_symbols(self, elf: ELFFile) -> None:
        marks = []  # where Arm's code ends, and where it goes on (Arm IHI 0044, 5.5.5)
        for symbol in symbols(elf):
            if symbol.is_defined and symbol.name in (*_ROOM, *_GUARD):
                self._addresses[symbol.name] = symbol.value
            if self._machine == "EM_ARM" and symbol.name[:2] in ("$a", "$d", "$t"):
                marks.append((symbol.value, symbol.name[1]))
        marks.sort()
        self._constants = [
            (at, end) for (at, kind), (end, _) in pairwise([*marks, (1 << 32, "")]) if kind == "d"
        ]
        labels = _labels(elf)
        self._sources = sources_of_locals(elf)
        self._functions = {code_address(elf, symbol): symbol for symbol in labels}
        for symbol in functions_in(elf):
            name, begin = symbol.name, code_address(elf, symbol)
            self._functions[begin] = symbol
            # If several functions share a name, the global one is meant and not a static one.
            if name not in self._by_name or symbol.bind == GLOBAL:
                self._by_name[name] = begin
        known = [*functions_in(elf), *(each for each in labels if each.bind == GLOBAL)]
        self._begins = sorted({code_address(elf, each) for each in known})

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
        begin = entry["initial_location"]
        code = self._code_of(begin)
        # Only a frame pointer allows a frame of variable size.
        has_frame_pointer = _uses_frame_pointer(entry.instructions, pointer)
        if has_frame_pointer and moves_stack_by_variable(self._machine, code):
            self._variable.add(begin)
        ((_, first),) = list(_rules(entry.cie.instructions, pointer))[-1:] or [(pointer, 0)]
        deepest, above = first, None
        for register, offset in _rules(entry.instructions, pointer, first):
            if register == pointer:
                deepest = max(deepest, offset)
            elif above is None and register == FRAME_POINTERS.get(self._machine):
                above = deepest
        if above is not None:  # the epilogue's rules may give the whole frame, or only this part
            deepest = max(deepest, above + below_frame_pointer(self._machine, code))
        return int(deepest - first)

    def _bytes_of(self, begin: int) -> bytes:
        """Return the code of the function that begins there; empty if there is none."""
        content, start = self._section_of(begin)
        return content[begin - start : self._end_of(begin) - start]

    def _section_of(self, address: int) -> tuple[bytes, int]:
        """Return the content and the address of the code that an address is in."""
        index = bisect.bisect_right(self._code, address, key=lambda each: each[0]) - 1
        start, content = self._code[index] if index >= 0 else (address, b"")
        return (content, start) if address < start + len(content) else (b"", address)

    def _end_of(self, begin: int) -> int:
        """Return where a function ends; assembly without sizes ends where something else begins."""
        symbol = self._functions.get(begin)
        if symbol is None or symbol.size:
            return begin + (symbol.size if symbol is not None else 0)
        content, start = self._section_of(begin)
        after = bisect.bisect_right(self._begins, begin)
        return min([start + len(content), *self._begins[after : after + 1]])

    def _find_nameless(self, targets: Iterable[int]) -> None:
        """Add code that is called and belongs to no symbol."""
        for target in targets:
            place = bisect.bisect_right(self._begins, target)
            is_known = place > 0 and target < self._end_of(self._begins[place - 1])
            if not is_known and self._section_of(target)[0]:
                self._functions[target] = Symbol(f"{target:#x}", target, 0, 0, _UNTYPED, 0)
                self._begins.insert(place, target)

    def _code_of(self, begin: int) -> bytes:
        """Return the same with zeros for constants, which may look like instructions."""
        code = bytearray(self._bytes_of(begin))
        first = bisect.bisect_left(self._constants, (begin, 0))
        for at, end in self._constants[first:]:
            if at >= begin + len(code):
                break
            last = min(end - begin, len(code))
            code[at - begin : last] = bytes(last - (at - begin))
        return bytes(code)

    def _hazards(self, begin: int) -> frozenset[str]:
        found = hazards(self._machine, self._code_of(begin), self._bytes_of(begin))
        asks = self._machine == "EM_AVR" and self._name(begin) == "malloc"
        return found | {ASKS_FOR_MEMORY} if asks else found

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
        found = set(self._hazards(begin))
        called = set(targets(self._machine, code, begin, self._bits))
        self._find_nameless(called - self._functions.keys())
        is_arithmetic = re.fullmatch(_ARITHMETIC, self._name(begin)) is not None
        calls_unknown = (not is_arithmetic and calls_through_pointer(self._machine, code)) or any(
            target in linkage for target in called for linkage in self._linkage
        )
        is_recursive = False
        # A call that aborts has no number.
        known = called & self._functions.keys()
        callees = {target for target in known if not re.fullmatch(_NO_RETURN, self._name(target))}
        self._callees[begin] = callees, calls_unknown
        self._tails[begin] = callees.intersection(jumps(self._machine, code, begin))
        for target in sorted(known):
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
                if callee.largest > largest:
                    largest, largest_of = callee.largest, callee.largest_of
        told = () if self._name(begin) == _ABORT else tuple(sorted(found))
        unsure = (variable_of, calls_unknown, is_recursive)
        need = StackNeed(own, largest, largest_of, own + deepest, told, *unsure, begin)
        self._open[begin] = place, need
        if first == place:
            self._known[begin] = need
            while len(self._open) > place:
                member, _ = self._open.popitem()
                self._recursions.setdefault(member, begin)
        return need, first


def _labels(elf: ELFFile) -> list[Symbol]:
    """Return the labels of code that are not known to be functions."""
    is_code = [bool(section["sh_flags"] & _EXECUTABLE) for section in elf.iter_sections()]
    untyped = (each for each in symbols(elf) if each.kind == _UNTYPED and each.is_in_section)
    return [each for each in untyped if is_code[each.section] and each.name[:1] not in _INNER]


def _uses_frame_pointer(instructions: Any, pointer: int) -> bool:
    """Tell whether a rule defines where the frame begins without the stack pointer."""
    by_expression = any(each.opcode == 0x0F for each in instructions)  # DW_CFA_def_cfa_expression
    registers = {register for register, _ in _rules(instructions, pointer)}
    return by_expression or not registers <= {pointer}


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
