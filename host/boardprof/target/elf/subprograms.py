# SPDX-License-Identifier: Apache-2.0
"""The functions in DWARF, from C, C++, Rust and Zig, and their prototypes."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo

from boardprof.target.cfunction import CType, Parameter, Scalar, Struct, wrapper_name
from boardprof.target.elf.debug_info import (
    declaration,
    dimensions,
    element_of,
    has,
    number,
    parameters,
    resolved,
    text,
    type_chain,
)
from boardprof.target.elf.dwarf_types import ARENA_ALIGNMENT, Types, scalar, target_alignment

# GCC's flags for the debug level: -g, -g1, -ggdb3, -gdwarf-4; the last one counts.
_DEBUG_LEVEL = re.compile(r" -g(\d|gdb\d?|dwarf-\d|)(?= |$)")
# Entries below a unit that contain functions.
_SCOPES = {"DW_TAG_module", "DW_TAG_namespace"}
_CLASSES = {"DW_TAG_class_type", "DW_TAG_structure_type", "DW_TAG_union_type"}
# DWARF 5, 7.12, and the list of later codes: C89, C, C99, Objective-C, C11, C17, C23. Only these
# languages have functions without a prototype.
_C = {0x01, 0x02, 0x0C, 0x10, 0x1D, 0x2C, 0x3E}
_RUST = {0x1C, 0x9000}  # DWARF 5, 7.12; an older code of its own
_C_PLUS_PLUS = {0x04, 0x1A, 0x21, 0x2A, 0x2B, 0x3A}
# LLVM's codes, which it leaves out for the usual convention of the target (BinaryFormat/Dwarf.def).
# GCC has none of these.
_OWN_CONVENTIONS = 0xB0
_SAVE_MORE = {0xC9, 0xCA}  # preserve_most and preserve_all take arguments as usual
_CONVENTIONS = {0xC0: "vectorcall", 0xC1: "ms_abi", 0xC3: 'pcs("aapcs")', 0xCB: "regcall"}
_OWN_TYPES_SINCE = 6  # GCC's version
_ASSEMBLERS = {0x8001, 0x0031}  # DW_LANG_Mips_Assembler, DW_LANG_Assembly


@dataclass(frozen=True)
class Subprogram:
    """A function that a unit defines."""

    name: str
    symbol: str
    source: str
    external: bool
    language: str  # "C", "C++", "Rust" or ""
    die: DIE
    line: int = 0  # 0 if not known, or in a file that is included

    @property
    def full_name(self) -> str:
        """The name with its namespaces and classes: ``k::dot``."""
        names = [self.name]
        around = declaration(self.die).get_parent()
        while around is not None and around.tag in (*_SCOPES, *_CLASSES):
            names.insert(0, text(around, "DW_AT_name") or "(anonymous)")
            around = around.get_parent()
        return "::".join(names)


@dataclass(frozen=True)
class Prototype:
    """The types that a call needs; the result None is ``void``."""

    parameters: tuple[Parameter, ...]
    result: CType | None
    structs: tuple[Struct, ...] = ()


@dataclass(frozen=True)
class NotCallable:
    """Why a function cannot be called over the wire, and C code of a function that calls it."""

    reason: str
    wrapper: str = ""


def subprograms(info: DWARFInfo, languages: Container[str] | None = None) -> Iterator[Subprogram]:
    """Yield the functions that are defined here, each once and under its name."""
    for unit in info.iter_CUs():
        top = unit.get_top_DIE()
        if top.tag != "DW_TAG_compile_unit" or number(top, "DW_AT_language") in _ASSEMBLERS:
            continue  # an assembler knows names, not types
        spoken = _language(top)
        if languages is not None and spoken not in languages:
            continue
        source = text(top, "DW_AT_name").partition("/@/")[0]  # Rust adds its own unit after it
        for die in _definitions(top):
            name = text(die, "DW_AT_name")
            linkage = text(die, "DW_AT_linkage_name") or text(die, "DW_AT_MIPS_linkage_name")
            external = has(die, "DW_AT_external")
            # The unit's own file is 1; some compilers of DWARF 5 call it 0.
            is_own = number(die, "DW_AT_decl_file") in (0, 1)
            line = number(die, "DW_AT_decl_line") or 0 if is_own else 0
            yield Subprogram(name, linkage or name, source, external, spoken, die, line)


def is_elsewhere(info: DWARFInfo) -> bool:
    """Tell whether the information is in another file, whose name alone is here."""
    attributes = {name for unit in info.iter_CUs() for name in unit.get_top_DIE().attributes}
    return bool(attributes & {"DW_AT_dwo_name", "DW_AT_GNU_dwo_name"})


def _language(top: DIE) -> str:
    code = number(top, "DW_AT_language")
    if text(top, "DW_AT_producer").startswith("zig"):  # claims to be C99
        return ""
    return "C" if code in _C else "Rust" if code in _RUST else "C++" if code in _C_PLUS_PLUS else ""


def _definitions(scope: DIE) -> Iterator[DIE]:
    """Yield the entries of functions that have a name and are defined here.

    A function that is also inlined has two entries: an abstract one with name and types, which is
    taken, and one with the code, which refers to it.
    """
    for die in scope.iter_children():
        if die.tag in _SCOPES:
            yield from _definitions(die)
        elif (
            die.tag == "DW_TAG_subprogram"
            and "DW_AT_declaration" not in die.attributes
            and "DW_AT_abstract_origin" not in die.attributes
            and not has(die, "DW_AT_artificial")
            and has(die, "DW_AT_name")
        ):
            yield die


def prototype(of: Subprogram) -> Prototype | NotCallable:
    """Return the prototype of a function, or why it cannot be called.

    Only in optimised Zig may the signature be shorter than the source's: parameters that the code
    discards (``_ = x``) are missing.
    """
    die, given = of.die, parameters(of.die)
    prototyped = has(die, "DW_AT_prototyped") or of.language != "C"
    # Its entry is like that of a ``void f(void)``, or its types were left out.
    is_bare = not (given or has(die, "DW_AT_prototyped") or has(die, "DW_AT_type"))
    if is_bare and _has_no_types(of):
        return NotCallable("its debug information has no types")
    convention = number(die, "DW_AT_calling_convention") or 0
    if convention >= _OWN_CONVENTIONS and convention not in _SAVE_MORE:
        name = _CONVENTIONS.get(convention, f"number {convention:#x} of DWARF")
        return NotCallable(f"its calling convention is {name}, which the agent does not use")
    types = Types(has_abi_of_c=of.language in ("C", "C++"))
    known: list[Parameter] = []
    reasons: dict[int, str] = {}
    for number_of, child in enumerate(given):
        name = _free_name(text(child, "DW_AT_name"), known)
        kind = types.parameter(child)
        if isinstance(kind, str):
            reasons[number_of] = f"its parameter {name!r} is {kind}"
        else:
            known.append(Parameter(name, kind))
    result = types.result(die)
    reason = next(iter(reasons.values()), None)
    if prototyped and _is_variadic(die):
        reason = "it takes a variable number of arguments"
    elif given and not prototyped:
        reason = "it has no prototype: it is defined in the style used before C89"
    elif reason is None and isinstance(result, str):
        reason = f"its result is {result}"
    if reason is None:
        assert not isinstance(result, str)
        return Prototype(tuple(known), result, tuple(types.structs.values()))
    if of.language != "C":
        return NotCallable(reason)
    by_pointer = frozenset(reasons)
    return NotCallable(
        reason, wrapper(of.name, die, by_pointer, result_by_pointer=isinstance(result, str))
    )


def _is_variadic(die: DIE) -> bool:
    return any(child.tag == "DW_TAG_unspecified_parameters" for child in die.iter_children())


def _has_no_types(of: Subprogram) -> bool:
    """Tell whether a unit has line numbers only: ``-g1``, ``-C debuginfo=1``."""
    top = of.die.cu.get_top_DIE()
    if any(str(child.tag).endswith("_type") for child in top.iter_children()):
        return False
    producer = text(top, "DW_AT_producer")
    if producer.startswith("GNU"):
        levels = _DEBUG_LEVEL.findall(producer)
        return not levels or levels[-1] in ("1", "gdb1")
    return of.language == "Rust"


def drops_equal_functions(of: Subprogram) -> bool:
    """Tell whether its compiler makes equal functions aliases without their own types: GCC 5."""
    producer = text(of.die.cu.get_top_DIE(), "DW_AT_producer")
    version = re.match(r"GNU \S+ (\d+)\.", producer)
    return version is not None and int(version[1]) < _OWN_TYPES_SINCE


def returned_function(die: DIE) -> DIE | None:
    """Return the type of the function that a function returns a pointer to; None: another."""
    pointer = resolved(die).die
    if pointer is None or pointer.tag != "DW_TAG_pointer_type":
        return None
    target = resolved(pointer).die
    return target if target is not None and target.tag == "DW_TAG_subroutine_type" else None


def _free_name(name: str, others: list[Parameter]) -> str:
    """Return a parameter's name, changed if it is missing or taken by another parameter."""
    free = name if name.isidentifier() else f"arg{len(others)}"
    while any(other.name == free for other in others):
        free += "_"
    return free


# -- wrappers ------------------------------------------------------------------------------------


_QUALIFIERS = {
    "DW_TAG_const_type": "const",
    "DW_TAG_volatile_type": "volatile",
    "DW_TAG_restrict_type": "restrict",
    "DW_TAG_atomic_type": "_Atomic",
}
_TAGS = {
    "DW_TAG_structure_type": "struct",
    "DW_TAG_union_type": "union",
    "DW_TAG_enumeration_type": "enum",
}
_COMPLEX = 3  # DWARF 4, 7.8: DW_ATE_complex_float
_EXTRA = "int value"  # instead of ``...``, as an example


def wrapper(name: str, die: DIE, by_pointer: frozenset[int], *, result_by_pointer: bool) -> str:
    """Return the source of ``NAME_wrapper``; "" if a type has no name in C."""
    children = parameters(die)
    if any(number(each, "DW_AT_address_class") for child in children for each in type_chain(child)):
        return ""  # C has no name for a separate memory, such as flash
    declarations: list[str] = []
    values: list[str] = []
    before, after = "", ""
    for child in children:
        own = text(child, "DW_AT_name")
        own = own if own.isidentifier() else f"arg{len(values)}"
        if len(values) not in by_pointer:
            declarations.append(declared(child, own) or "")
            values.append(own)
        elif not _is_pointer(child):
            kind = re.sub(r"^const ", "", declared(child, "") or "")
            declarations.append(f"const {_numbers(child)} *{own}")
            values.append(f"*(const {kind} *){own}" if kind else "")
        else:  # it takes the same array, as bytes
            target = resolved(child).die
            assert target is not None
            is_const = element_of(resolved(target))[0].const
            declarations.append(f"{'const ' if is_const else ''}void *{own}")
            values.append(own)
            if target_alignment(target) > ARENA_ALIGNMENT:
                copy, size = f"{own}_copy", ""
                values[-1] = f"&{copy}"
                if any(_is_integer(each) for each in children):  # which may be the length
                    declarations.append(f"unsigned {own}_count")
                    values[-1], size = copy, f"[{own}_count]"
                kind = re.sub(r"^const ", "", declared(target, f"{copy}{size}") or "")
                declarations += [] if kind else [""]
                before += f"{kind}; __builtin_memcpy({values[-1]}, {own}, sizeof {copy}); "
                if not is_const:
                    after += f" __builtin_memcpy({own}, {values[-1]}, sizeof {copy});"
    if _is_variadic(die) and declarations and "DW_AT_prototyped" in die.attributes:
        declarations.append(_EXTRA)
        values.append(_EXTRA.split()[-1])
    result = declared(die, "")
    call = f"{name}({', '.join(values)})"
    if result_by_pointer:
        declarations.append(f"{_numbers(die)} *result")
        head, body = f"void {wrapper_name(name)}", f"*({result} *)result = {call};{after}"
    else:
        head = declared(die, wrapper_name(name)) or ""
        body = f"{call};{after}" if result == "void" else f"return {call};"
        if after and result != "void":
            body = f"{declared(die, 'returned')} = {call};{after} return returned;"
    if not head or result is None or not all(declarations) or not all(values):
        return ""
    return f"{head}({', '.join(declarations) or 'void'}) {{ {before}{body} }}"


def _is_integer(parameter: DIE) -> bool:
    kind = scalar(resolved(parameter).die)
    return isinstance(kind, Scalar) and kind.text[0] in "iu"


def _is_pointer(die: DIE) -> bool:
    of = resolved(die).die
    return of is not None and of.tag == "DW_TAG_pointer_type"


def _numbers(die: DIE) -> str:
    """Return the type of the numbers in a value that is passed by pointer."""
    of = resolved(die).die
    if of is not None and number(of, "DW_AT_encoding") == _COMPLEX:
        part = text(of, "DW_AT_name").replace("complex", "").strip()
        return part if part in ("float", "double") else "void"
    return "void"


def declared(die: DIE, name: str) -> str | None:
    """Return the C declaration of ``name`` with the type of an entry; None if it has no name."""
    return _declared(next(type_chain(die), None), name)


def _declared(kind: DIE | None, name: str) -> str | None:
    gap = " " if name else ""
    if kind is None:
        return f"void{gap}{name}"
    tag, own = str(kind.tag), text(kind, "DW_AT_name")
    inner = next(type_chain(kind), None)
    if tag == "DW_TAG_base_type":
        # GCC calls ``float _Complex`` ``complex float``.
        return re.sub(r"\bcomplex (.*)", r"\1 _Complex", own) + f"{gap}{name}"
    if tag == "DW_TAG_typedef":
        return f"{own}{gap}{name}"
    if tag in _QUALIFIERS:
        word = _QUALIFIERS[tag]
        if inner is not None and inner.tag == "DW_TAG_pointer_type":
            return _declared(inner, f"{word} {name}".strip())
        found = _declared(inner, name)
        return found and f"{word} {found}"
    if tag in _TAGS:
        return f"{_TAGS[tag]} {own}{gap}{name}" if own else None
    if tag == "DW_TAG_pointer_type":
        is_tight = inner is not None and inner.tag in (
            "DW_TAG_array_type",
            "DW_TAG_subroutine_type",
        )
        return _declared(inner, f"(*{name})" if is_tight else f"*{name}")
    if tag == "DW_TAG_subroutine_type":
        types = [declared(child, "") for child in parameters(kind)]
        if None in types:
            return None
        return _declared(inner, f"{name}({', '.join(map(str, types)) or 'void'})")
    if tag == "DW_TAG_array_type":
        sizes = dimensions(kind)
        return None if sizes is None else _declared(inner, name + "".join(f"[{n}]" for n in sizes))
    return None
