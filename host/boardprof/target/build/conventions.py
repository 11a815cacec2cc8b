# SPDX-License-Identifier: Apache-2.0
"""Attributes in C and C++ that change how a function is called.

GCC's debug information does not have them. So a source that names one is given to the compiler once
more, with a question for each function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from boardprof.target.build.sources import language
from boardprof.target.cfunction import CFunction, Pointer, Scalar, wrapper_name
from boardprof.target.toolchain.cache import FileHashes, digest
from boardprof.target.toolchain.compiler import Compiler, Object, Unit


class _Convention(NamedTuple):
    attribute: str
    where: str  # condition of the preprocessor: the attribute differs from what the agent does
    says: str
    is_of_floats: bool = False  # it changes nothing for integers and pointers
    has_wrapper: bool = True  # C code can call it


_PLACES = "it takes its arguments in other places than the agent puts them"
_CONVENTIONS = (
    _Convention("ms_abi", "defined __x86_64__", _PLACES),
    _Convention("preserve_none", "1", _PLACES),
    *(
        _Convention(name, "defined __i386__", _PLACES)
        for name in ("regparm", "fastcall", "stdcall", "thiscall", "sseregparm")
    ),
    _Convention('pcs("aapcs")', "defined __ARM_PCS_VFP", _PLACES, is_of_floats=True),
    _Convention("no_callee_saved_registers", "1", "it destroys registers of its caller"),
    _Convention(
        *("interrupt", "defined __riscv || defined __x86_64__", "it is an interrupt handler"),
        has_wrapper=False,
    ),
)
_WORDS = re.compile(
    rb"\b_{0,2}(%s)_{0,2}\b"
    % b"|".join(re.match(r"\w+", each.attribute)[0].encode() for each in _CONVENTIONS)  # type: ignore[index]
)
_ANSWER = re.compile(r'assertion failed: "?boardprof: (\d+) (\d+)\b')


def with_conventions(
    compiler: Compiler, unit: Unit, compiled: Object, functions: Sequence[CFunction]
) -> list[CFunction]:
    """Return functions, with a reason for those that ``unit`` gives another calling convention."""
    if language(Path(unit.source)) not in ("c", "c++") or not _names_one(unit, compiled):
        return list(functions)
    asked = [fn.name.partition("(")[0] for fn in functions if fn.reason is None]
    questions = "\n".join(_questions(asked))
    hashes = FileHashes()
    read = [hashes.of(path) for path in compiled.sources]
    told = compiler.errors(unit, questions, digest(unit.flags, read, questions))
    found = {asked[int(fn)]: int(at) for fn, at in _ANSWER.findall(told)}
    return [_refused(fn, found) for fn in functions]


def _names_one(unit: Unit, compiled: Object) -> bool:
    """Tell whether a unit mentions such an attribute, even in a comment."""
    flags = " ".join(unit.flags).encode("utf-8", "surrogateescape")
    return any(_WORDS.search(text) for text in (flags, *(p.read_bytes() for p in compiled.sources)))


def _questions(names: Sequence[str]) -> Iterator[str]:
    yield "#ifdef __cplusplus\n#define _Static_assert static_assert\n#endif"
    for at, each in enumerate(_CONVENTIONS):
        yield f"#if {each.where}"
        for number, name in enumerate(names):
            has = f"__builtin_has_attribute({name}, {each.attribute})"
            yield f'_Static_assert(!{has}, "boardprof: {number} {at}");'
        yield "#endif"


def _refused(fn: CFunction, found: Mapping[str, int]) -> CFunction:
    at = found.get(fn.name.partition("(")[0])
    if at is None or fn.reason is not None:
        return fn
    convention = _CONVENTIONS[at]
    kinds = [*(parameter.type for parameter in fn.parameters), fn.result]
    if convention.is_of_floats and not any(map(_may_have_floats, kinds)):
        return fn
    return replace(
        fn,
        parameters=(),
        result=None,
        structs=(),
        reason=f"its calling convention is {convention.attribute}: {convention.says}",
        wrapper=_wrapper(fn) if convention.has_wrapper else "",
    )


def _may_have_floats(kind: object) -> bool:
    return (isinstance(kind, Scalar) and kind.text in ("f32", "f64")) or (
        isinstance(kind, Pointer) and kind.by_value
    )


def _wrapper(fn: CFunction) -> str:
    """Return the source of ``NAME_wrapper``; "" if a type has no name that is known here."""
    kinds = [*(parameter.type for parameter in fn.parameters), fn.result]
    if fn.linkage or any(isinstance(kind, Pointer) and kind.by_value for kind in kinds):
        return ""
    taken = ", ".join(f"{each.type.c_type} {each.name}" for each in fn.parameters) or "void"
    given = ", ".join(each.name for each in fn.parameters)
    result = "void" if fn.result is None else fn.result.c_type
    call = f"{'return ' if fn.result else ''}{fn.name}({given});"
    made = f"{result} {wrapper_name(fn.name)}({taken}) {{ {call} }}"
    return f"#include <stdint.h>\n{made}" if "int" in f"{result} {taken}" else made
