# SPDX-License-Identifier: Apache-2.0
"""The C source that ties the user's functions to the agent: ``bp_table.c``.

Each function gets a struct for arguments and result, a thunk that calls the function with it, and
functions that unpack and pack it. Then come the tables and ``bp_firmware``. The user's functions
are declared under other names (``__asm__`` labels), which cannot clash with a built-in or a header.

A struct that is passed or returned by value is declared again from its members. It is in the arena:
the thunk reads the argument there and stores the result there, also when it calls the empty
function of a calibration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from boardprof.base.errors import agent_option
from boardprof.target.cfunction import (
    CFunction,
    CType,
    Pointer,
    Scalar,
    Struct,
    signature,
    wire_signature,
)

# A call's arguments are an array of up to 15; bp.measure itself takes seven.
_MOST_ITEMS = 8
# Functions with more parameters than that get all of them in one argument, up to this number.
_MOST_PARAMETERS = 32
# Bytes of a CALL of bp.measure around the arguments of its function, rounded up.
_MEASURE_OVERHEAD = 48
_SPAN_BYTES = 18  # of a pointer with a copy, in msgpack; no other argument is longer
# Bytes of a reply of bp.describe besides name and signature, rounded up.
_FRAME_OVERHEAD = 32

_INT_ARGUMENT = "({c})bp_arg_int(call, INT{bits}_MIN, INT{bits}_MAX)"
_UINT_ARGUMENT = "({c})bp_arg_uint(call, UINT{bits}_MAX)"
_ARGUMENTS = {
    "bool": "bp_arg_bool(call)",
    "f32": "bp_arg_f32(call)",
    "f64": "bp_arg_f64(call)",
    "i64": "bp_arg_i64(call)",
    "u32": "bp_arg_u32(call)",
    "u64": "bp_arg_u64(call)",
    **{f"i{b}": _INT_ARGUMENT.format(c=f"int{b}_t", bits=b) for b in (8, 16, 32)},
    **{f"u{b}": _UINT_ARGUMENT.format(c=f"uint{b}_t", bits=b) for b in (8, 16)},
}
_RETURNS = {
    "bool": "bp_ret_bool",
    "f32": "bp_ret_f32",
    "f64": "bp_ret_f64",
    "u64": "bp_ret_u64",
    **{f"i{b}": "bp_ret_i64" for b in (8, 16, 32, 64)},
    **{f"u{b}": "bp_ret_uint" for b in (8, 16, 32)},
}


def fit(fn: CFunction, options: Mapping[str, int]) -> CFunction:
    """Return the function, with a reason if an agent with these options cannot call it."""
    if fn.reason is not None:
        return fn
    slot_bytes, mtu, arena = (options[name] for name in ("slot_bytes", "mtu", "arena"))
    count = _items(fn)
    needed = _slot_size(fn)
    if count > _MOST_PARAMETERS:
        reason = f"it has {count} parameters; a call takes at most {_MOST_PARAMETERS}"
    elif needed > slot_bytes:
        reason = f"its arguments and result take {needed} bytes; "
        reason += f"the board's agent has {slot_bytes}, its {agent_option('slot_bytes')}"
    elif not arena and any(isinstance(kind, Pointer) for _, kind in _slots(fn)):
        reason = "it takes pointers, but the board's agent has no memory for what they point to, "
        reason += f"no {agent_option('arena')}"
    elif _is_packed(fn) and _MEASURE_OVERHEAD + _SPAN_BYTES * _items(fn) > mtu:
        reason = f"its {count} arguments do not fit into a frame of {mtu} bytes, "
        reason += f"the board's {agent_option('mtu')}"
    elif wire_signature(fn, mtu - _FRAME_OVERHEAD - len(fn.name.encode())) is None:
        reason = f"its signature is too long for the board's frames, its {agent_option('mtu')}"
    else:
        return fn
    return fn.refused(reason)


def _items(fn: CFunction) -> int:
    """Return how many arguments a call has; a struct that is returned has a place as the last."""
    return len(fn.parameters) + _returns_struct(fn)


def _is_packed(fn: CFunction) -> bool:
    """Tell whether all arguments are within one."""
    return _items(fn) > _MOST_ITEMS


def _returns_struct(fn: CFunction) -> bool:
    return fn.result is not None and fn.result.by_value


def _needs_pointers(fn: CFunction) -> bool:
    """Tell whether a function's pointers are more than spans of the arena."""
    pointers = [kind for _, kind in _slots(fn) if isinstance(kind, Pointer)]
    structs = [each.element for each in pointers if isinstance(each.element, Struct)]
    returns_pointer = isinstance(fn.result, Pointer) and not fn.result.by_value
    leads_on = any(each.is_function for each in pointers) or any(s.pointers for s in structs)
    return returns_pointer or leads_on


def table_source(
    board: str,
    functions: Sequence[CFunction],
    collectors: Sequence[str],
    build_id: bytes,
    mtu: int = 256,
) -> str:
    """Return the text of ``bp_table.c`` with at most 8 collectors."""
    callable_ = [fn for fn in functions if fn.reason is None]
    has_pointers = any(map(_needs_pointers, callable_))
    packed = dict(_POINTER_FUNCTIONS if has_pointers else {})
    packed |= _CONSTANT_FUNCTIONS if any(map(_takes_constants, callable_)) else {}
    structs = _structs(callable_)
    parts = [_HEAD, *_size_checks(callable_), *structs.values()]
    names = {struct: f"bp_struct_{i}" for i, struct in enumerate(structs)}
    parts += [_function(fn, names, mtu, has_pointers=has_pointers) for fn in callable_]
    parts += [_function_table(callable_, packed)]
    count = len(callable_) + len(packed)
    parts += [_collector_table(collectors), _firmware(board, count, collectors, build_id)]
    return "\n".join(parts)


_HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Generated by boardprof for one image. Do not edit. */

#include "boardprof/bp.h"
"""


def _size_checks(functions: Sequence[CFunction]) -> list[str]:
    """Return C that checks the sizes of types, which flags such as ``-mdouble=64`` change."""
    every = [kind for fn in functions for _, kind in _slots(fn) if isinstance(kind, Scalar)]
    sizes = sorted({(kind.c_type, kind.size) for kind in every if kind.text in ("f32", "f64")})
    lines = (
        f"_Static_assert(sizeof({name}) == {size}, "
        f"\"{name} has {size} bytes in the user's code: compile the board's code alike\");\n"
        for name, size in sizes
    )
    return ["".join(lines)] if sizes else []


# -- structs by value ----------------------------------------------------------------------------


def _structs(functions: Sequence[CFunction]) -> dict[Struct, str]:
    """Return the C declarations of the structs that are passed by value, each after its members."""
    found: dict[Struct, str] = {}

    def declare(struct: Struct) -> str:
        for field in struct.fields:
            if isinstance(field.type, Struct):
                declare(field.type)
        names = {each: f"bp_struct_{i}" for i, each in enumerate(found)}
        if struct not in found:
            found[struct] = _declared_struct(struct, f"bp_struct_{len(found)}", names)
        return found[struct]

    for kind in (kind for fn in functions for _, kind in _slots(fn)):
        if isinstance(kind, Pointer) and kind.by_value and isinstance(kind.element, Struct):
            declare(kind.element)
    return found


def _declared_struct(struct: Struct, name: str, names: Mapping[Struct, str]) -> str:
    lines, checks = [], [f"sizeof({name}) == {struct.size}"]
    for i, field in enumerate(struct.fields):
        kind = field.type
        text = names[kind] if isinstance(kind, Struct) else kind.c_type
        shape = "".join(f"[{n}]" for n in field.shape)
        bits = f" : {field.bits}" if field.bits else ""
        own = "" if field.bits and not field.name else f"m{i}{shape}"
        lines.append(f"    {text} {own}{bits};\n")
        if not field.bits:
            checks.append(f"offsetof({name}, m{i}) == {field.offset}")
    word = "union" if struct.is_union else "struct"
    return (
        f"typedef {word} {{\n{''.join(lines)}}} {name};\n\n"
        f"_Static_assert({' && '.join(checks)},\n"
        f'               "{struct.name} has another layout in the user\'s code");\n'
    )


# -- functions -----------------------------------------------------------------------------------


def _function(fn: CFunction, structs: Mapping[Struct, str], mtu: int, *, has_pointers: bool) -> str:
    """Return the C of one function: declarations, glue if needed, and its target."""
    parts = [f"/// {fn.name}{signature(fn)} ///\n", _declarations(fn), _texts(fn, mtu)]
    if _slots(fn):
        parts += [_struct(fn), _thunk(fn, structs), _unpack(fn, has_pointers), _pack(fn)]
    return "\n".join([*(part for part in parts if part), _target(fn)])


def _id(symbol: str) -> str:
    """Return a name as part of an identifier; compilers before GCC 10 take only ASCII there."""
    return re.sub(r"[^\x00-\x7f]", lambda match: f"_u{ord(match[0]):x}_", symbol)


def _declarations(fn: CFunction) -> str:
    kinds = [("bp_fn_t", fn.symbol, ""), ("void", fn.setup, "(void)"), ("int", fn.check, "(void)")]
    return "".join(
        f'extern {kind} bp_user_{_id(name)}{takes} __asm__("{name}");\n'
        for kind, name, takes in kinds
        if name
    )


def _texts(fn: CFunction, mtu: int) -> str:
    room = mtu - _FRAME_OVERHEAD - len(fn.name.encode())
    text = wire_signature(fn, room)
    return (
        f'static const char bp_name_of_{_id(fn.symbol)}[] BP_ROM = "{fn.name}";\n'
        f'static const char bp_signature_of_{_id(fn.symbol)}[] BP_ROM = "{text}";\n'
    )


def _slots(fn: CFunction) -> list[tuple[str, CType]]:
    """Return the fields of the struct of a call, in order."""
    slots: list[tuple[str, CType]] = [(f"a{i}", p.type) for i, p in enumerate(fn.parameters)]
    return slots + ([("result", fn.result)] if fn.result else [])


def _slot_size(fn: CFunction) -> int:
    """Return the size of the struct in bytes, with every field aligned to its own size."""
    end = 0
    sizes = [kind.size for _, kind in _slots(fn)]
    for size in sizes:
        end = -(-end // size) * size + size
    widest = max(sizes, default=1)
    return -(-end // widest) * widest


def _struct(fn: CFunction) -> str:
    kinds = [(kind.c_type.removesuffix(" *"), kind, name) for name, kind in _slots(fn)]
    fields = "".join(f"    {c} {'*' * isinstance(k, Pointer)}{name};\n" for c, k, name in kinds)
    return (
        f"struct bp_slots_of_{_id(fn.symbol)} {{\n{fields}}};\n\n"
        f"_Static_assert(sizeof(struct bp_slots_of_{_id(fn.symbol)}) <= BP_CFG_SLOT_BYTES,\n"
        f'               "the arguments of {fn.name} do not fit: raise BP_CFG_SLOT_BYTES");\n'
    )


def _passed(kind: CType | None, structs: Mapping[Struct, str]) -> str:
    if kind is None:
        return "void"
    if isinstance(kind, Pointer) and kind.by_value and isinstance(kind.element, Struct):
        return structs[kind.element]
    return kind.c_type


def _thunk(fn: CFunction, structs: Mapping[Struct, str]) -> str:
    types = ", ".join(_passed(p.type, structs) for p in fn.parameters) or "void"
    arguments = ", ".join(
        f"*(const {_passed(p.type, structs)} *)s->a{i}" if p.type.by_value else f"s->a{i}"
        for i, p in enumerate(fn.parameters)
    )
    result = _passed(fn.result, structs)
    store = "s->result = " if fn.result else ""
    store = f"*({result} *)s->result = " if _returns_struct(fn) else store
    return (
        f"static void bp_thunk_of_{_id(fn.symbol)}(bp_fn_t *fn, void *slots) {{\n"
        f"    struct bp_slots_of_{_id(fn.symbol)} *s = slots;\n"
        f"    {store}(({result}(*)({types}))fn)({arguments});\n"
        "}\n"
    )


def _unpack(fn: CFunction, has_pointers: bool) -> str:
    taken = [(f"a{i}", p.type) for i, p in enumerate(fn.parameters)]
    if _returns_struct(fn):
        assert fn.result is not None
        taken.append(("result", fn.result))
    if not taken:
        return ""
    lines = "".join(f"    s->{name} = {_argument(kind, has_pointers)};\n" for name, kind in taken)
    head = f"static int bp_unpack_of_{_id(fn.symbol)}(bp_call_t *call, void *slots) {{\n"
    slots = f"    struct bp_slots_of_{_id(fn.symbol)} *s = slots;\n"
    if not _is_packed(fn):
        return f"{head}{slots}{lines}    return call->err;\n}}\n"
    return (
        head.replace("*call", "*outer")
        + slots
        + f"    bp_call_t inner = bp_arg_inner(outer, {len(taken)});\n"
        f"    bp_call_t *call = &inner;\n{lines}"
        "    bp_arg_end(call);\n"
        "    return call->err != 0 ? bp_fail(outer, call->err, call->detail) : 0;\n"
        "}\n"
    )


def _argument(kind: CType, has_pointers: bool) -> str:
    if isinstance(kind, Pointer):
        how = "struct" if kind.by_value else "pointer" if has_pointers else "span"
        return f"bp_arg_{how}(call, {kind.element_size})"
    return _ARGUMENTS[kind.text]


def _pack(fn: CFunction) -> str:
    if not fn.result or _returns_struct(fn):
        return ""
    how = "bp_ret_pointer" if isinstance(fn.result, Pointer) else _RETURNS[fn.result.text]
    return (
        f"static void bp_pack_of_{_id(fn.symbol)}(bp_call_t *call, const void *slots) {{\n"
        f"    const struct bp_slots_of_{_id(fn.symbol)} *s = slots;\n"
        f"    {how}(call, s->result);\n"
        "}\n"
    )


def _target(fn: CFunction) -> str:
    own = _id(fn.symbol)
    fields = [f".fn = bp_user_{own}"]
    fields += [f".thunk = bp_thunk_of_{own}"] if _slots(fn) else []
    fields += [f".unpack = bp_unpack_of_{own}"] if _items(fn) else []
    fields += [f".pack = bp_pack_of_{own}"] if fn.result and not _returns_struct(fn) else []
    fields += [f".setup = bp_user_{_id(fn.setup)}"] if fn.setup else []
    fields += [f".check = bp_user_{_id(fn.check)}"] if fn.check else []
    lines = "".join(f"    {field},\n" for field in fields)
    return f"static const bp_target_t bp_target_of_{own} BP_ROM = {{\n{lines}}};\n"


# Packed functions of an image whose pointers are more than spans of the arena.
_POINTER_FUNCTIONS = {
    "bp.point": "bp_point",
    "bp.unpoint": "bp_unpoint",
    "bp.text_at": "bp_text_at",
}
_CONSTANT_FUNCTIONS = {"bp.crc": "bp_arena_crc"}
"""Packed functions of an image whose functions take arrays that they only read."""


def _takes_constants(fn: CFunction) -> bool:
    kinds = [each.type for each in fn.parameters if isinstance(each.type, Pointer)]
    return any(kind.const and not kind.by_value and not kind.is_function for kind in kinds)


def _function_table(functions: Sequence[CFunction], packed_functions: Mapping[str, str]) -> str:
    if not functions:  # C has no empty arrays
        return ""
    rows = "".join(
        f"    {{bp_name_of_{name}, bp_signature_of_{name}, NULL, &bp_target_of_{name}}},\n"
        for name in (_id(fn.symbol) for fn in functions)
    )
    names = ""
    if packed_functions:
        names = 'static const char bp_no_signature[] BP_ROM = "";\n'
        for name, packed in packed_functions.items():
            names += f'static const char bp_name_of_{packed}[] BP_ROM = "{name}";\n'
            rows += f"    {{bp_name_of_{packed}, bp_no_signature, {packed}, NULL}},\n"
    table = f"static const bp_function_t bp_functions[] BP_ROM = {{\n{rows}}};\n"
    return f"/// Tables ///\n\n{names}{table}"


def _collector_table(collectors: Sequence[str]) -> str:
    if not collectors:
        return ""
    externs = "".join(f"extern const bp_collector_t bp_collector_{name};\n" for name in collectors)
    rows = "".join(f"    &bp_collector_{name},\n" for name in collectors)
    return f"{externs}\nstatic const bp_collector_t *const bp_collectors[] BP_ROM = {{\n{rows}}};\n"


def _firmware(board: str, functions: int, collectors: Sequence[str], build_id: bytes) -> str:
    identity = ", ".join(f"0x{byte:02x}" for byte in build_id)
    return (
        f'static const char bp_board[] BP_ROM = "{board}";\n\n'
        "const bp_firmware_t bp_firmware BP_ROM = {\n"
        "    .board = bp_board,\n"
        f"    .functions = {'bp_functions' if functions else 'NULL'},\n"
        f"    .collectors = {'bp_collectors' if collectors else 'NULL'},\n"
        f"    .function_count = {functions},\n"
        f"    .collector_count = {len(collectors)},\n"
        f"    .build_id = {{{identity}}},\n"
        "};\n"
    )
