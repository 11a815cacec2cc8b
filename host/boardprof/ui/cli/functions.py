# SPDX-License-Identifier: Apache-2.0
"""``boardprof functions``: functions in files, why some cannot be called, and struct layouts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from posixpath import basename
from typing import Any, NamedTuple

import click

from boardprof.target.cfunction import (
    CFunction,
    Field,
    HiddenFunction,
    Pointer,
    Scalar,
    Struct,
    signature,
)
from boardprof.ui.cli.options import (
    board_option,
    compile_options,
    json_option,
    parse_build_options,
    verbose_option,
    width_option,
)
from boardprof.ui.cli.output import echo_command, echo_json, echo_lines, echo_note

_COMPILED = {".c", ".C", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".S", ".s"}
_MOST_LINES = 40
_MOST_NAMES = 8  # names of an enum that are listed
_WIDEST = 60
_MANGLED = "its name is not a C name"


class _Functions(NamedTuple):
    """Functions by name: those that are offered, and those that are not."""

    functions: Sequence[CFunction]
    hidden: Sequence[HiddenFunction]


@click.command(short_help="List the functions in files and their parameters.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@board_option
@compile_options
@click.option(
    "--all", "complete", is_flag=True, help="Also list every function that cannot be called."
)
@json_option
@width_option
@verbose_option
def functions(
    files: tuple[str, ...], board: str | None, complete: bool, as_json: bool, **options: Any
) -> None:
    """List the functions in FILEs, with their signatures and the structs that they take.

    FILE is a C or C++ source or a folder of them, compiled for a board as in `run`; or an object, a
    static library, a shared library or a program with debug information (-g).
    """
    from boardprof.target.build.sources import implementation_macros

    found = _found([Path(file) for file in files], board, complete, **options)
    if as_json:
        facts = {
            "functions": [_function_facts(fn) for fn in found.functions],
            "hidden": [fn._asdict() for fn in found.hidden],
            "structs": [_struct_facts(struct) for struct in _structs(found.functions)],
        }
        echo_json({"schema_version": 1, **facts})
    else:
        echo_lines(_list_text(found, complete=complete))
    for file in files:
        macros = [] if found.functions or found.hidden else implementation_macros(Path(file))
        if macros:
            echo_note(f"{file} has its functions only with -D {' -D '.join(macros)}")
    if any("debug information" in (fn.reason or "") for fn in found.functions):
        echo_note(
            "compile files without debug information with -g, or with -g -gdwarf-4. gcc 5 drops "
            "that of a function that equals another: -fno-ipa-icf keeps it."
        )


def _found(paths: list[Path], board: str | None, complete: bool, **options: Any) -> _Functions:
    from boardprof.target.build.sources import missing
    from boardprof.target.elf.functions import functions as functions_in
    from boardprof.target.elf.functions import hidden_functions

    for path in paths:
        if not path.exists():
            file, colon, _ = str(path).rpartition(":")
            is_run_s = colon and os.path.exists(file)
            hint = f"boardprof functions {file} lists all functions" if is_run_s else None
            raise missing(path, hint)
    sources = [path for path in paths if path.is_dir() or path.suffix in _COMPILED]
    objects = [path for path in paths if path not in sources]
    found = functions_in(objects)
    offered = {fn.name for fn in found}
    listed = _Functions(found, [fn for fn in hidden_functions(objects) if fn.name not in offered])
    if not sources and not board:
        return listed
    compiled = _compiled(sources, board, complete, **options)
    every = [*listed.functions, *compiled.functions]
    hidden = {*listed.hidden, *compiled.hidden}
    return _Functions(sorted(every, key=lambda fn: fn.name), sorted(hidden))


def _compiled(sources: list[Path], board: str | None, complete: bool, **options: Any) -> _Functions:
    from boardprof.target.build.builder import Build, finding_headers
    from boardprof.target.build.sources import discarded_functions, implementation_macros
    from boardprof.target.descriptions.board import board_spec, default_board

    spec = board_spec(board) if board else default_board()
    if not sources:
        return _Functions((), ())
    how = parse_build_options(options)
    verbose = echo_command if options["verbose"] else None
    (found, hidden), notes = finding_headers(
        how, lambda code: Build(spec, sources, code, verbose).functions()
    )
    macros = [macro for path in sources for macro in implementation_macros(path)]
    if not found and len(macros) == 1 and macros[0] not in " ".join(how.defines):
        notes.append(f"{sources[0]} has its functions with -D {macros[0]}, which `run` adds")
        how = replace(how, defines=(*how.defines, macros[0]))
        found, hidden = Build(spec, sources, how, verbose).functions()
    for note in notes:
        echo_note(note)
    if complete or not (found or hidden):
        known = {*(fn.name for fn in found), *(name for name, _, _ in hidden)}
        unused = discarded_functions(spec, sources, how, verbose=verbose).static
        hidden = [*hidden, *(each for each in unused if each[0] not in known)]
    return _Functions(found, [HiddenFunction(*each) for each in hidden])


def _structs(found: Iterable[CFunction]) -> list[Struct]:
    """Return the structs that functions take, and those in them, each once, by name."""
    known: dict[Struct, None] = {}
    todo: list[object] = []
    for fn in found:
        types = [*(parameter.type for parameter in fn.parameters), fn.result]
        todo += [each.element for each in types if isinstance(each, Pointer)]
        todo += fn.structs
    while todo:
        element = todo.pop()
        if isinstance(element, Struct) and element not in known:
            known[element] = None
            todo += [field.type for field in element.fields]
    return sorted(known, key=lambda struct: (struct.name, struct.size))


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
        "wrapper": fn.wrapper or None,
    }


def _struct_facts(struct: Struct) -> dict[str, Any]:
    fields = [
        {"name": f.name, "offset": f.offset, "type": _element_text(f), "shape": list(f.shape)}
        for f in _shown(struct)
    ]
    return {"name": struct.name, "bytes": struct.size, "fields": fields}


def _shown(struct: Struct) -> list[Field]:
    """Return the fields of a struct without its bit-fields that have no name."""
    return [field for field in struct.fields if field.name or not field.bits]


def _list_text(found: _Functions, *, complete: bool = False) -> str:
    """Return the list as text, a function a line."""
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
    layouts = _structs(offered)
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
    fields = _shown(struct)
    names = [field.name or "(anonymous)" for field in fields]
    width = max(map(len, names))
    return [
        f"{struct.name} ({struct.size} bytes):",
        *(
            f"  {field.offset or field.first_bit // 8:4}  {name:{width}}  {_element_text(field)}"
            + "".join(f"[{n}]" for n in field.shape)
            for field, name in zip(fields, names, strict=True)
        ),
    ]


def _element_text(field: Field) -> str:
    if field.bits:
        return f"{field.type.text if isinstance(field.type, Scalar) else ''}:{field.bits}"
    if isinstance(field.type, Scalar) and field.type.names:
        names = ", ".join(name for name, _ in field.type.names[:_MOST_NAMES])
        more = ", ..." if len(field.type.names) > _MOST_NAMES else ""
        return f"{field.type.text} ({names}{more})"
    if isinstance(field.type, Struct):
        return f"{field.type.name}{{{field.type.size}}}"
    return field.type.text
