# SPDX-License-Identifier: Apache-2.0
"""What the model of core cycles needs to know of a Thumb instruction, from objdump's text of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

PC = "pc"

_CONDITIONS = ("eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le")
_COMMENT = re.compile(r"\s*(?:[@;]|<).*$")
_OUTSIDE_BRACKETS = re.compile(r",\s*(?![^\[{]*[\]}])")
_REGISTER = re.compile(r"\b(?:[rsd]\d+|sb|sl|fp|ip|sp|lr|pc)\b")
_RANGE = re.compile(r"\b([sdr])(\d+)-[sdr](\d+)")

_KINDS = {
    "operation": "movs mov movw movt mvns mvn adds add addw adcs adc adr subs sub subw sbcs sbc "
    "rsbs rsb cmp cmn ands and eors eor orrs orr orns orn bics bic tst teq lsls lsl lsrs lsr asrs "
    "asr rors ror rrxs rrx neg negs clz sxth sxtb uxth uxtb ubfx sbfx bfc bfi rev rev16 revsh rbit "
    "ssat usat clrex pld pldw pli",
    "hint": "nop yield sev",
    "multiply": "muls mul",
    "multiply_add": "mla mls",
    "multiply_long": "umull smull",
    "multiply_add_long": "umlal smlal",
    "divide": "sdiv udiv",
    "dsp": "umaal smlabb smlabt smlatb smlatt smulbb smulbt smultb smultt smlawb smlawt smulwb "
    "smulwt smlalbb smlalbt smlaltb smlaltt smuad smuadx smusd smusdx smlad smladx smlsd smlsdx "
    "smlald smlaldx smlsld smlsldx smmul smmulr smmla smmlar smmls smmlsr pkhbt pkhtb sxtab sxtah "
    "sxtb16 sxtab16 uxtab uxtah uxtb16 uxtab16 ssat16 usat16 qadd qdadd qsub qdsub usad8 usada8 "
    "sel "
    + " ".join(
        prefix + rest
        for prefix in ("s", "q", "sh", "u", "uq", "uh")
        for rest in ("add16", "asx", "sax", "sub16", "add8", "sub8")
    ),
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
    "it": " ".join("it" + x + y + z for x in " te" for y in " te" for z in " te"),
    "status": "mrs msr",
    "change_state": "cpsid cpsie cps",
    "barrier": "dmb dsb isb ssbb pssbb",
    "float": "vabs vadd vcmp vcmpe vcvt vcvtr vcvtb vcvtt vmul vneg vnmul vsub",
    "float_move": "vmov vmrs vmsr",
    "float_multiply_add": "vmla vmls vnmla vnmls vfma vfms vfnma vfnms",
    "float_divide": "vdiv vsqrt",
    "float_load": "vldr",
    "float_store": "vstr",
    "float_load_multiple": "vldm vldmia vldmdb vpop",
    "float_store_multiple": "vstm vstmia vstmdb vpush",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_WRITES_NOTHING = frozenset(
    ["cmp", "cmn", "tst", "teq", "pld", "pldw", "pli", "vcmp", "vcmpe", "msr", "vmsr", "clrex"]
)
_TWO_RESULTS = frozenset(
    ["umull", "smull", "umlal", "smlal", "umaal", "smlald", "smlaldx", "smlsld", "smlsldx"]
    + ["smlalbb", "smlalbt", "smlaltb", "smlaltt", "ldrd"]
)
_LOADS = frozenset({"load", "load_double", "load_exclusive"})
_STORES = frozenset({"store", "store_double", "store_exclusive"})
_FLOAT_TRANSFERS = frozenset({"float_load", "float_store"})
_MULTIPLE = frozenset(
    {"load_multiple", "store_multiple", "float_load_multiple", "float_store_multiple"}
)
_TO_PC = {
    "operation": "branch_register",
    "load": "load_pc",
    "load_multiple": "load_multiple_pc",
}
"""What an instruction is when it writes pc."""

BRANCHES = frozenset(
    {"branch", "branch_link", "branch_register", "compare_branch", "table_branch"}
    | {"load_pc", "load_multiple_pc"}
)


@dataclass(frozen=True)
class ThumbInstruction:
    """One instruction."""

    address: int
    size: int  # bytes: 2 or 4
    text: str

    @cached_property
    def _split(self) -> tuple[str, str, list[str]]:
        """Return the mnemonic without suffixes, its suffixes, and the operands."""
        mnemonic, _, rest = self.text.partition("\t")
        name, _, suffixes = mnemonic.strip().partition(".")
        operands = _COMMENT.sub("", rest)
        return name, suffixes, [each.strip() for each in _OUTSIDE_BRACKETS.split(operands)]

    @cached_property
    def is_conditional(self) -> bool:
        """Whether it runs only under a condition: a branch, or within an IT block."""
        name = self._split[0]
        return name not in _KIND_OF and name[:-2] in _KIND_OF and name[-2:] in _CONDITIONS

    @cached_property
    def name(self) -> str:
        """The mnemonic without condition and width."""
        name = self._split[0]
        return name[:-2] if self.is_conditional else name

    @cached_property
    def kind(self) -> str:
        """The row of the table of costs; "" if no such instruction is known."""
        kind = _KIND_OF.get(self.name, "")
        if kind.startswith("float") and ("f64" in self._split[1] or "f16" in self._split[1]):
            return ""  # no core of the model has double precision
        return _TO_PC.get(kind, kind) if PC in self.writes else kind

    @property
    def _operands(self) -> list[str]:
        return self._split[2]

    @cached_property
    def registers(self) -> frozenset[str]:
        """All registers that it names."""
        return _registers(" ".join(self._operands))

    @cached_property
    def _memory(self) -> str:
        """The operand with the address: ``[r0, #4]!``, or the base of several registers."""
        kind = _KIND_OF.get(self.name, "")
        if kind in _MULTIPLE:
            if self.name in ("push", "pop", "vpush", "vpop"):
                return "sp!"
            return self._operands[0]
        return next((each for each in self._operands if each.startswith("[")), "")

    @cached_property
    def address_registers(self) -> frozenset[str]:
        """The registers that an access to memory computes its address with."""
        return _registers(self._memory)

    @cached_property
    def is_indexed(self) -> bool:
        """Whether it changes its base register: pre-indexed or post-indexed."""
        return self._memory.endswith("!") or (
            self._memory != ""
            and self._memory.endswith("]")
            and self._operands[-1].startswith("#")
            and self._operands[-1] != self._memory
        )

    @cached_property
    def base(self) -> str:
        """The base register of an access to memory; "" if there is none."""
        found = _REGISTER.search(self._memory)
        return found[0] if found else ""

    @cached_property
    def has_offset_register(self) -> bool:
        """Whether the address is a sum of registers."""
        return len(self.address_registers) > 1 or "lsl" in self._memory

    @property
    def is_literal(self) -> bool:
        """Whether it reads a constant that lies between the code."""
        return self.base == PC

    @cached_property
    def count(self) -> int:
        """Number of words of an access to several."""
        if _KIND_OF.get(self.name) in _MULTIPLE:
            registers = _registers(self._operands[-1])
            return sum(
                2 if each.startswith("d") else 1 for each in _listed(self._operands[-1])
            ) or (len(registers))
        return 1

    @cached_property
    def is_double(self) -> bool:
        """Whether its first register has 64 bits."""
        return re.match(r"d\d", self._operands[0]) is not None

    @cached_property
    def writes(self) -> frozenset[str]:
        """The registers that it changes, without flags."""
        kind, operands = _KIND_OF.get(self.name, ""), self._operands
        changed = {self.base} if self.is_indexed else set()
        if kind in ("load_multiple", "float_load_multiple"):
            return frozenset(changed) | _registers(operands[-1])
        if kind in ("store_multiple", "float_store_multiple", "store", "store_double"):
            return frozenset(changed)
        if kind in (
            "float_store",
            "",
            "branch",
            "it",
            "hint",
            "barrier",
            "compare_branch",
            "change_state",
        ):
            return frozenset(changed)
        if kind in ("branch_register", "table_branch", "branch_link"):
            return frozenset({"lr"} if self.name in ("bl", "blx") else ())
        if self.name in _WRITES_NOTHING:
            return frozenset()
        number = 2 if self.name in _TWO_RESULTS or self._is_pair_move else 1
        return frozenset(changed).union(*(_registers(each) for each in operands[:number]))

    @property
    def _is_pair_move(self) -> bool:
        """Whether it moves two core registers to or from the FPU."""
        return self.name == "vmov" and len(self._operands) > 2

    @cached_property
    def is_pair_move(self) -> bool:
        """Whether it moves two words between the core and the FPU."""
        return self._is_pair_move

    @cached_property
    def reads(self) -> frozenset[str]:
        """The registers that it takes; those of its result too, if it adds to it."""
        kind = _KIND_OF.get(self.name, "")
        if kind in ("float_store", "float_store_multiple") or self.name in _WRITES_NOTHING:
            return self.registers
        taken = _registers(" ".join(self._operands[1:]))
        return taken | self.writes if kind == "float_multiply_add" else taken

    @property
    def can_go_on(self) -> bool:
        """Whether the next instruction in memory may be the next one to run."""
        return self.kind not in BRANCHES or self.is_conditional or self.kind == "compare_branch"

    @property
    def is_odd(self) -> bool:
        """Whether it has 32 bits that two aligned words share."""
        return self.size == 4 and self.address % 4 == 2


def _listed(text: str) -> list[str]:
    """Return the registers of a list such as ``{r0, r4, s0-s3}``."""
    ranges = _RANGE.findall(text)
    found = [f"{bank}{n}" for bank, low, high in ranges for n in range(int(low), int(high) + 1)]
    return found + _REGISTER.findall(_RANGE.sub("", text))


def _registers(text: str) -> frozenset[str]:
    """Return the registers in a text; a ``d`` is its two ``s``."""
    found: set[str] = set()
    for each in _listed(text):
        if each.startswith("d"):
            number = int(each[1:])
            found |= {f"s{2 * number}", f"s{2 * number + 1}"}
        else:
            found.add(each)
    return frozenset(found)


def instructions(texts: Mapping[int, str]) -> dict[int, ThumbInstruction]:
    """Return the instructions of a disassembly by address."""
    addresses = sorted(texts)
    following = dict(pairwise(addresses))
    return {
        address: ThumbInstruction(address, _size(text, following.get(address, 0) - address), text)
        for address, text in texts.items()
    }


def _size(text: str, distance: int) -> int:
    """Return the size of an instruction; objdump leaves out zeros, so the next may be far away."""
    if distance in (2, 4):
        return distance
    name = text.partition("\t")[0]
    return 4 if name.endswith(".w") or name in ("bl", "tbb", "tbh") else 2
