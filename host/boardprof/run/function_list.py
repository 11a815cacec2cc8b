# SPDX-License-Identifier: Apache-2.0
"""Output of ``boardprof functions``: functions, why some cannot be called, struct layouts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from posixpath import basename
from typing import Any

from boardprof.cfunction import CFunction, Field, HiddenFunction, Pointer, Struct, signature
from boardprof.elf.functions import functions, hidden_functions

_MOST_LINES = 40
_WIDEST = 60
_MANGLED = "its name is not a C identifier"


@dataclass(frozen=True)
class FunctionList:
    """Functions by name: those that are offered, and those that are not."""

    functions: tuple[CFunction, ...]
    hidden: tuple[HiddenFunction, ...]


def object_functions(paths: Sequence[Path]) -> FunctionList:
    """Return the functions of objects, libraries and programs.

    Raises:
        UsageError: a file is none of these.
        BuildError: two objects define the same function.
    """
    found = functions(paths)
    offered = {fn.name for fn in found}
    hidden = (fn for fn in hidden_functions(paths) if fn.name not in offered)
    return FunctionList(tuple(found), tuple(hidden))


def structs(found: Iterable[CFunction]) -> list[Struct]:
    """Return the structs that functions take, and those in them, each once, by name."""
    known: dict[Struct, None] = {}
    todo = [p.type.element for fn in found for p in fn.parameters if isinstance(p.type, Pointer)]
    while todo:
        element = todo.pop()
        if isinstance(element, Struct) and element not in known:
            known[element] = None
            todo += [field.type for field in element.fields]
    return sorted(known, key=lambda struct: (struct.name, struct.size))


def list_facts(found: FunctionList) -> dict[str, Any]:
    """Return the list as plain data."""
    return {
        "schema_version": 1,
        "functions": [_function_facts(fn) for fn in found.functions],
        "hidden": [fn._asdict() for fn in found.hidden],
        "structs": [
            {
                "name": struct.name,
                "bytes": struct.size,
                "fields": [_field_facts(field) for field in struct.fields],
            }
            for struct in structs(found.functions)
        ],
    }


def _function_facts(fn: CFunction) -> dict[str, Any]:
    return {
        "name": fn.name,
        "signature": signature(fn) or None,
        "parameters": [{"name": p.name, "type": p.type.text} for p in fn.parameters],
        "result": fn.result.text if fn.result else None,
        "setup": fn.setup,
        "check": fn.check,
        "source": fn.source,
        "reason": fn.reason,
    }


def _field_facts(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "offset": field.offset,
        "type": _element_text(field),
        "shape": list(field.shape),
    }


def list_text(found: FunctionList, *, complete: bool = False) -> str:
    """Return the list as text, a function a line.

    Args:
        found: the list.
        complete: show all that cannot be called, which is much in a program or a large library.
    """
    offered = [fn for fn in found.functions if fn.reason is None]
    refused = [fn for fn in found.functions if fn.reason is not None]
    refused.sort(key=lambda fn: str(fn.reason).startswith(_MANGLED))  # those last, as they are many
    shown = [(f"{fn.name}{signature(fn)}", _where(fn)) for fn in offered]
    parts = [_section("Functions", shown or [("(none)",)])]
    for title, rows in (
        ("Not callable", [(fn.name, basename(fn.source), str(fn.reason)) for fn in refused]),
        ("Not offered", [(fn.name, basename(fn.source), fn.why) for fn in found.hidden]),
    ):
        if rows:
            most = len(rows) if complete else _MOST_LINES
            parts.append(_section(title, rows[:most]))
            parts += [f"  and {len(rows) - most} more: --all lists them"] if rows[most:] else []
    layouts = structs(offered)
    parts += ["Structs"] if layouts else []
    parts += [f"  {line}" for struct in layouts for line in _layout(struct)]
    return "\n".join(parts)


def _where(fn: CFunction) -> str:
    hooks = [f"set-up {fn.setup}"] if fn.setup else []
    hooks += [f"check {fn.check}"] if fn.check else []
    return ", ".join([basename(fn.source), *hooks])


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a heading and rows below it, aligned unless that wastes too much space."""
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join([title, *(f"  {line}".rstrip() for line in lines)])


def _layout(struct: Struct) -> list[str]:
    """Return ``fir_state (24 bytes)`` and a line a field: its offset, name and type."""
    if not struct.fields:
        return [f"{struct.name} ({struct.size} bytes): passed as bytes"]
    names = [field.name or "(anonymous)" for field in struct.fields]
    width = max(map(len, names))
    return [
        f"{struct.name} ({struct.size} bytes):",
        *(
            f"  {field.offset:4}  {name:{width}}  {_element_text(field)}"
            + "".join(f"[{n}]" for n in field.shape)
            for field, name in zip(struct.fields, names, strict=True)
        ),
    ]


def _element_text(field: Field) -> str:
    if isinstance(field.type, Struct):
        return f"{field.type.name}{{{field.type.size}}}"
    return field.type.text
