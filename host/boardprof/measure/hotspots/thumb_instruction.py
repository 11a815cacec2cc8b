# SPDX-License-Identifier: Apache-2.0
"""What the model of core cycles needs to know of a Thumb instruction, from objdump's text of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
_TO_PC = {
    "operation": "branch_register",
    "load": "load_pc",
    "load_multiple": "load_multiple_pc",
}
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
