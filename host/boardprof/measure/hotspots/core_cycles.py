# SPDX-License-Identifier: Apache-2.0
"""Model the cycles that a Cortex-M core needs for code, at zero wait states.

How often each block and each edge between blocks ran is counted; their cost is added up from a
table of each core in ``cycle_tables/``, which names the manual's section for every line. What the
model cannot know is in the interval of each cost. docs/cycles.md has the reasons and the errors.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from boardprof.base.errors import BoardprofError

CORES = ("cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m4")
"""The cores that have a table."""

_TABLES = Path(__file__).resolve().parent / "cycle_tables"
_LOOK_BACK = 8
_ODD_RUN = 3
_WAITING = frozenset({"load", "float_load"})
"""Their second cycle is not a step of their own: they wait for the memory."""

_FLOAT_RESULTS = frozenset({"float", "float_multiply_add", "float_divide"})
_LOADS = frozenset(
    {"load", "load_double", "load_exclusive", "load_multiple", "load_multiple_pc", "load_pc"}
    | {"float_load", "float_load_double", "float_load_multiple"}
)


class UnknownCostError(BoardprofError):
    """An instruction has no cost in the table of its core."""


@dataclass(frozen=True)
class Cycles:
    """A number of core cycles, modelled: the estimate, and what it may be."""

    point: int
    low: int
    high: int

    def __add__(self, other: Cycles) -> Cycles:
        """Return the cycles of both."""
        return Cycles(self.point + other.point, self.low + other.low, self.high + other.high)

    def __mul__(self, times: int) -> Cycles:
        """Return the cycles of several times the same."""
        return Cycles(self.point * times, self.low * times, self.high * times)


NO_CYCLES = Cycles(0, 0, 0)


@dataclass(frozen=True)
class _Cost:
    cycles: Cycles
    each: int

    def of(self, count: int) -> Cycles:
        more = self.each * count
        return self.cycles + Cycles(more, more, more)


_Costs = Mapping[str, _Cost]


@cache
def _table(core: str) -> Mapping[str, _Costs]:
    if core not in CORES:
        raise UnknownCostError(f"No table of cycles for {core!r}; there are {', '.join(CORES)}.")
    text = (_TABLES / f"{core}.toml").read_text("utf-8")
    return {
        part: {name: _cost(line) for name, line in lines.items()}
        for part, lines in tomllib.loads(text).items()
    }


def _cost(line: Mapping[str, Any]) -> _Cost:
    point = line["cycles"]
    return _Cost(
        Cycles(point, line.get("low", point), line.get("high", point)), line.get("each", 0)
    )


class CycleModel:
    """The cost of each instruction of an image on a core."""

    def __init__(self, core: str, texts: Mapping[int, str]) -> None:
        """Take one of ``CORES``, and the text of each instruction by address.

        The texts are those of ``boardprof.target.elf.addresses.disassembly``.
        """
        table = _table(core)
        self._core = core
        self._straight = table["straight"]
        self._leaving = table["leaving"]
        self._neighbours = table.get("neighbours", {})
        self._texts = texts
        addresses = sorted(texts)
        self._before = dict(zip(addresses[1:], addresses, strict=False))
        self._after = dict(pairwise(addresses))
        self._decoded: dict[int, ThumbInstruction] = {}

    def straight(self, addresses: Sequence[int], came_from: int | None) -> list[Cycles]:
        """Return the cost of each instruction in one pass through a block.

        A branch costs here what it costs when it is not taken; `leaving` has the rest.
        ``came_from`` is the address of the instruction before them; None if it is not known.
        """
        run = self._run_up_to(addresses[0], came_from) if addresses else []
        costs = []
        for address in addresses:
            instruction = self._at(address)
            costs.append(self._cost(instruction, run))
            run.append(instruction)
        return costs

    def leaving(self, last: int, goes_to: int | None) -> Cycles:
        """Return what the last instruction of a block costs in addition to `straight`.

        ``goes_to`` is the address of the next one that runs; None if it is not known.
        """
        instruction = self._at(last)
        if goes_to == last + instruction.size and instruction.can_go_on:
            return NO_CYCLES
        kind = instruction.kind
        if kind not in BRANCHES:
            if goes_to is None:
                return NO_CYCLES
            raise self._unknown(instruction, f"goes to {goes_to:#x}, so an exception interrupts it")
        cost = self._leaving.get(kind)
        if cost is None:
            raise self._unknown(instruction, "has no cost")
        cycles = cost.cycles
        if goes_to is not None and goes_to in self._texts and self._at(goes_to).is_odd:
            more = cycles + self._beside("odd_target")
            cycles = Cycles(min(more.point, more.high), more.low, more.high)
        if instruction.is_conditional:  # `straight` has it as not taken
            cycles = cycles + self._plain(instruction) + self._not_taken * -1
        return cycles

    @property
    def _not_taken(self) -> Cycles:
        return self._straight["branch_not_taken"].cycles

    def _at(self, address: int) -> ThumbInstruction:
        found = self._decoded.get(address)
        if found is None:
            text = self._texts.get(address)
            if text is None:
                raise UnknownCostError(f"The image has no instruction at {address:#x}.")
            size = self._after.get(address, 0) - address
            if size not in (2, 4):  # objdump leaves out zeros
                name = text.partition("\t")[0]
                size = 4 if name.endswith(".w") or name in ("bl", "tbb", "tbh") else 2
            found = self._decoded[address] = decoded(address, size, text)
        return found

    def _unknown(self, instruction: ThumbInstruction, why: str) -> UnknownCostError:
        text = instruction.text.replace("\t", " ")
        return UnknownCostError(f"{text!r} at {instruction.address:#x} {why} on {self._core}.")

    def _run_up_to(self, address: int, came_from: int | None) -> list[ThumbInstruction]:
        """Return the instructions that ran in a straight line right before an address."""
        run: list[ThumbInstruction] = []
        at = came_from
        while at is not None and at in self._texts and len(run) < _LOOK_BACK:
            instruction = self._at(at)
            if not instruction.can_go_on or at + instruction.size != address:
                break
            run.insert(0, instruction)
            address, at = at, self._before.get(at)
        return run

    def _plain(self, instruction: ThumbInstruction) -> Cycles:
        """Return the cost of an instruction that runs, without its neighbours."""
        kind = instruction.kind
        if kind == "store" and instruction.has_offset_register:
            kind = "store_by_register" if "store_by_register" in self._straight else kind
        cost = self._straight.get(kind)
        if cost is None:
            raise self._unknown(instruction, "has no cost")
        return cost.of(instruction.count)

    def _beside(self, rule: str) -> Cycles:
        cost = self._neighbours.get(rule)
        return NO_CYCLES if cost is None else cost.cycles

    def _cost(self, instruction: ThumbInstruction, run: list[ThumbInstruction]) -> Cycles:
        if instruction.is_conditional and instruction.kind in BRANCHES:
            self._plain(instruction)  # it must have a cost when it is taken
            return self._not_taken
        cycles = self._plain(instruction)
        if self._neighbours:
            cycles += self._place(instruction, run)
            if run:
                cycles += self._after_others(instruction, run)
        if instruction.is_conditional:  # the condition may be false
            cycles = Cycles(cycles.point, min(cycles.low, 1), max(cycles.high, 1))
        return cycles

    def _place(self, instruction: ThumbInstruction, run: list[ThumbInstruction]) -> Cycles:
        """Return what the place of an instruction in memory costs."""
        if instruction.is_literal and instruction.kind not in BRANCHES:
            return self._beside("literal")
        if not instruction.is_odd:
            return NO_CYCLES
        odd = 1
        for each in reversed(run):
            if not each.is_odd:
                break
            odd += 1
        if odd < _ODD_RUN:
            return NO_CYCLES
        if odd % _ODD_RUN == 0 and {each.kind for each in (*run[-2:], instruction)} == {"float"}:
            return self._beside("odd_floats")
        first = run[-_ODD_RUN] if len(run) >= _ODD_RUN else None
        if first is not None and first.kind not in _WAITING and self._plain(first).point > 1:
            return self._beside("odd_run_after_several")
        return self._beside("odd_run") if odd == _ODD_RUN else NO_CYCLES

    def _after_others(self, instruction: ThumbInstruction, run: list[ThumbInstruction]) -> Cycles:
        """Return what the instructions right before one cost it, or save."""
        kind, before = instruction.kind, run[-1]
        if kind == "it":
            return self._beside("it_folded") if before.size == 2 else NO_CYCLES
        if before.kind == "it" and len(run) > 1:
            before = run[-2]
        cycles = self._after_access(instruction, before)
        if before.kind != "load" and before.writes & instruction.address_registers:
            cycles += self._beside("address_just_written")
        if before.kind in _FLOAT_RESULTS:
            if before.writes & instruction.reads:
                cycles += self._beside("float_just_written")
            elif before.writes & instruction.addend:
                cycles += self._beside("addend_just_written")
        return cycles

    def _after_access(self, instruction: ThumbInstruction, before: ThumbInstruction) -> Cycles:
        kind = instruction.kind
        if kind == "hint":
            is_long = before.kind == "load" or (
                before.kind == "store" and before.has_offset_register
            )
            return self._beside("hint_after_access") if is_long else NO_CYCLES
        if before.kind == "load" and kind in ("load", "store"):
            if before.writes & instruction.address_registers:
                return NO_CYCLES
            if before.is_literal != instruction.is_literal and kind == "load":
                return self._beside("load_after_other_memory")
            indexed = "indexed_" if instruction.is_indexed else ""
            return self._beside(f"{indexed}{kind}_after_load")
        if before.kind == "store":
            if kind in _LOADS:
                return self._beside("load_after_store")
            if kind == "store":
                return self._beside("store_after_store")
        return NO_CYCLES


# -- instructions, from objdump's text of them -----------------------------------------------------


PC = "pc"

_CONDITIONS = frozenset(
    {"eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"}
)
_COMMENT = re.compile(r"\s*[@;<].*$")
_COMMA = re.compile(r",\s*(?![^\[{]*[\]}])")  # not within brackets
_REGISTER = re.compile(r"\b(?:[rsd]\d+|sb|sl|fp|ip|sp|lr|pc)\b")
_RANGE = re.compile(r"\b([sd])(\d+)-[sd](\d+)")

_KINDS = {
    "operation": "movs mov movw movt mvns mvn adds add addw adcs adc adr subs sub subw sbcs sbc "
    "rsbs rsb cmp cmn ands and eors eor orrs orr orns orn bics bic tst teq lsls lsl lsrs lsr asrs "
    "asr rors ror rrxs rrx negs neg clz sxth sxtb uxth uxtb ubfx sbfx bfc bfi rev rev16 revsh rbit "
    "ssat usat clrex",
    "hint": "nop yield sev",
    "multiply": "muls mul",
    "multiply_add": "mla mls",
    "multiply_long": "umull smull",
    "multiply_add_long": "umlal smlal",
    "divide": "sdiv udiv",
    "dsp": "umaal smlabb smlabt smlatb smlatt smulbb smulbt smultb smultt smlawb smlawt smulwb "
    "smulwt smlalbb smlalbt smlaltb smlaltt smuad smuadx smusd smusdx smlad smladx smlsd smlsdx "
    "smlald smlaldx smlsld smlsldx smmul smmulr smmla smmlar smmls smmlsr pkhbt pkhtb sxtab sxtah "
    "sxtb16 sxtab16 uxtab uxtah uxtb16 uxtab16 ssat16 usat16 qadd qdadd qsub qdsub usad8 usada8 sel"
    " sadd16 sasx ssax ssub16 sadd8 ssub8 qadd16 qasx qsax qsub16 qadd8 qsub8 shadd16 shasx shsax "
    "shsub16 shadd8 shsub8 uadd16 uasx usax usub16 uadd8 usub8 uqadd16 uqasx uqsax uqsub16 uqadd8 "
    "uqsub8 uhadd16 uhasx uhsax uhsub16 uhadd8 uhsub8",
    "load": "ldr ldrb ldrh ldrsb ldrsh ldrt ldrbt ldrht ldrsbt ldrsht",
    "store": "str strb strh strt strbt strht",
    "load_exclusive": "ldrex ldrexb ldrexh",
    "store_exclusive": "strex strexb strexh",
    "load_double": "ldrd",
    "store_double": "strd",
    "load_multiple": "ldm ldmia ldmdb ldmfd ldmea pop",
    "store_multiple": "stm stmia stmdb stmfd stmea push",
    "branch": "b",
    "branch_link": "bl",
    "branch_register": "bx blx",
    "compare_branch": "cbz cbnz",
    "table_branch": "tbb tbh",
    "it": "it itt ite ittt itte itet itee itttt ittte ittet ittee itett itete iteet iteee",
    "status": "mrs msr",
    "change_state": "cpsid cpsie",
    "barrier": "dmb dsb isb",
    "float": "vabs vadd vcmp vcmpe vcvt vcvtr vmul vneg vnmul vsub",
    "float_move": "vmov vmrs vmsr",
    "float_multiply_add": "vmla vmls vnmla vnmls vfma vfms vfnma vfnms",
    "float_divide": "vdiv vsqrt",
    "float_load": "vldr",
    "float_store": "vstr",
    "float_load_multiple": "vldm vldmia vldmdb vpop",
    "float_store_multiple": "vstm vstmia vstmdb vpush",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_TO_PC = {"operation": "branch_register", "load": "load_pc", "load_multiple": "load_multiple_pc"}
"""What an instruction is if it writes pc."""

BRANCHES = frozenset(
    {"branch", "branch_link", "branch_register", "compare_branch", "table_branch"}
    | {"load_pc", "load_multiple_pc"}
)
_WITHOUT_RESULT = frozenset({"cmp", "cmn", "tst", "teq", "vcmp", "vcmpe", "msr", "vmsr", "clrex"})
_NO_RESULT_KINDS = frozenset(
    {"store", "store_double", "store_multiple", "float_store", "float_store_multiple", "it", "hint"}
    | {"branch", "branch_link", "branch_register", "compare_branch", "table_branch"}
    | {"change_state", "barrier"}
)
_TWO_RESULTS = frozenset(
    {"ldrd", "umull", "smull", "umlal", "smlal", "umaal", "smlald", "smlaldx", "smlsld"}
    | {"smlsldx", "smlalbb", "smlalbt", "smlaltb", "smlaltt"}
)
_ON_STACK = frozenset({"push", "pop", "vpush", "vpop"})


@dataclass(frozen=True)
class ThumbInstruction:
    """One instruction."""

    address: int
    size: int  # bytes: 2 or 4
    text: str
    kind: str  # the line in the table of costs; "" if such an instruction is not known
    is_conditional: bool  # a branch with a condition, or within an IT block
    base: str = ""  # of an access to memory
    address_registers: frozenset[str] = frozenset()
    is_indexed: bool = False  # changes its base: [r0, #4]!, [r0], #4, r0!
    count: int = 1  # words of an access to several
    addend: frozenset[str] = frozenset()  # what a multiplication adds to
    reads: frozenset[str] = frozenset()  # without the addend
    writes: frozenset[str] = frozenset()

    @property
    def has_offset_register(self) -> bool:
        """Whether the address is a sum of registers."""
        return len(self.address_registers) > 1

    @property
    def is_literal(self) -> bool:
        """Whether it reads a constant that lies between the code."""
        return self.base == PC

    @property
    def can_go_on(self) -> bool:
        """Whether the next instruction in memory may be the next one to run."""
        return self.kind != "" and (self.kind not in BRANCHES or self.is_conditional)

    @property
    def is_odd(self) -> bool:
        """Whether two aligned words of memory share its 32 bits."""
        return self.size == 4 and self.address % 4 == 2


def decoded(address: int, size: int, text: str) -> ThumbInstruction:
    """Return an instruction from its text: mnemonic, tabulator, operands."""
    mnemonic, _, rest = text.partition("\t")
    name, _, types = mnemonic.partition(".")
    is_conditional = (  # bls is b under a condition, muls is not
        name not in _KIND_OF and name[-2:] in _CONDITIONS and name[:-2] in _KIND_OF
    )
    if is_conditional:
        name = name[:-2]
    kind = _KIND_OF.get(name, "")
    if "f64" in types or "f16" in types:  # these cores have single precision only
        kind = ""
    if not kind:
        return ThumbInstruction(address, size, text, "", is_conditional)
    operands = _COMMA.split(_COMMENT.sub("", rest))
    several = kind.endswith("_multiple")
    if name in _ON_STACK:
        memory = "sp!"
    elif several:
        memory = operands[0]
    else:
        memory = next((each for each in operands if each.startswith("[")), "")
    base = _REGISTER.search(memory)
    is_indexed = memory.endswith("!") or (memory != "" and operands[-1].startswith("#"))
    results = _results(name, kind, operands)
    writes = _registers(results) | ({base[0]} if is_indexed and base else set())
    is_sum = kind == "float_multiply_add"
    return ThumbInstruction(
        address,
        size,
        text,
        _kind_by_operands(kind, operands, writes),
        is_conditional or kind == "compare_branch",
        base=base[0] if base else "",
        address_registers=_registers(memory),
        is_indexed=is_indexed,
        count=_words(operands[-1]) if several else 1,
        addend=_registers(results) if is_sum else frozenset(),
        reads=_registers(",".join(operands[1:] if results and not several else operands)),
        writes=writes,
    )


def _results(name: str, kind: str, operands: list[str]) -> str:
    """Return the operands that an instruction writes, except for its base register."""
    if name in ("bl", "blx"):
        return "lr"
    if kind in _NO_RESULT_KINDS or name in _WITHOUT_RESULT:
        return ""
    if kind.endswith("load_multiple"):
        return operands[-1]
    if name in _TWO_RESULTS:
        return ",".join(operands[:2])
    if name == "vmov" and len(operands) > 2:  # s0, s1, r0, r1 or d0, r0, r1, or back
        return ",".join(operands[: 1 if operands[0].startswith("d") else 2])
    return operands[0]


def _kind_by_operands(kind: str, operands: list[str], writes: frozenset[str]) -> str:
    if PC in writes:
        return _TO_PC.get(kind, "")
    if kind in ("float_load", "float_store") and operands[0].startswith("d"):
        return f"{kind}_double"
    if kind == "float_move" and len(operands) > 2:
        return "float_move_pair"
    return kind


def _listed(text: str) -> list[str]:
    """Return the registers in a text; those of a range such as ``d8-d15``, too."""
    ranges = _RANGE.findall(text)
    found = [f"{bank}{n}" for bank, low, high in ranges for n in range(int(low), int(high) + 1)]
    return found + _REGISTER.findall(_RANGE.sub("", text))


def _words(text: str) -> int:
    return sum(2 if each.startswith("d") else 1 for each in _listed(text))


def _registers(text: str) -> frozenset[str]:
    """Return the registers in a text; a double one is its two halves."""
    found: set[str] = set()
    for each in _listed(text):
        if each.startswith("d"):
            number = 2 * int(each[1:])
            found |= {f"s{number}", f"s{number + 1}"}
        else:
            found.add(each)
    return frozenset(found)
