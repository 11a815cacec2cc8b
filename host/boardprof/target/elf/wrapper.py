# SPDX-License-Identifier: Apache-2.0
"""C source of a function that calls another one whose arguments cannot come over the wire.

The wrapper belongs into the source of the function: it uses the names of types there. Values that
have no form on the wire, such as ``long double``, are passed by pointer.
"""

from __future__ import annotations

import re

from elftools.dwarf.die import DIE

from boardprof.target.elf.debug_info import number, resolved, text, type_chain

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
_EXTRA = "int value"
"""An example of an argument in place of ``...``."""


def wrapper(name: str, die: DIE, by_pointer: frozenset[int], *, result_by_pointer: bool) -> str:
    """Return the source of ``NAME_wrapper``; "" if a type has no name in C.

    Args:
        name: of the function, as in C.
        die: its entry.
        by_pointer: numbers of the parameters that cannot be passed as they are.
        result_by_pointer: whether the result cannot be returned as it is.
    """
    parameters: list[str] = []
    values: list[str] = []
    is_variadic = False
    for child in die.iter_children():
        if child.tag == "DW_TAG_unspecified_parameters":
            is_variadic = True
        if child.tag != "DW_TAG_formal_parameter":
            continue
        own = text(child, "DW_AT_name")
        own = own if own.isidentifier() else f"arg{len(values)}"
        if len(values) in by_pointer:
            kind = declared(child, "")
            parameters.append(f"const {_numbers(child)} *{own}")
            values.append(f"*(const {kind} *){own}" if kind else "")
        else:
            parameters.append(declared(child, own) or "")
            values.append(own)
    if is_variadic and parameters and _is_prototyped(die):
        parameters.append(_EXTRA)
        values.append(_EXTRA.split()[-1])
    result = declared(die, "")
    call = f"{name}({', '.join(values)})"
    if result_by_pointer:
        parameters.append(f"{_numbers(die)} *result")
        head, body = f"void {name}_wrapper", f"*({result} *)result = {call};"
    else:
        head = declared(die, f"{name}_wrapper") or ""
        body = f"{call};" if result == "void" else f"return {call};"
    if not head or result is None or not all(parameters) or not all(values):
        return ""
    return f"{head}({', '.join(parameters) or 'void'}) {{ {body} }}"


def _is_prototyped(die: DIE) -> bool:
    return "DW_AT_prototyped" in die.attributes


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
        return f"{_spelled(own)}{gap}{name}"
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
        children = [c for c in kind.iter_children() if c.tag == "DW_TAG_formal_parameter"]
        types = [declared(child, "") for child in children]
        if None in types:
            return None
        return _declared(inner, f"{name}({', '.join(map(str, types)) or 'void'})")
    if tag == "DW_TAG_array_type":
        from boardprof.target.elf.dwarf_types import dimensions

        sizes = dimensions(kind)
        return None if sizes is None else _declared(inner, name + "".join(f"[{n}]" for n in sizes))
    return None


def _spelled(name: str) -> str:
    """Return a number type as C spells it; GCC calls ``float _Complex`` ``complex float``."""
    return re.sub(r"\bcomplex (.*)", r"\1 _Complex", name)
