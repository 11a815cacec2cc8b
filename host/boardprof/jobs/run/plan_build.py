# SPDX-License-Identifier: Apache-2.0
"""The firmware of plans that share their files and flags."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from boardprof.base.errors import BuildError, option
from boardprof.jobs.run.function_choice import check_early, needed_functions, with_own_names
from boardprof.jobs.run.plan import ALL, Plan
from boardprof.target.build.build_errors import MissingHeaderError, UndefinedError
from boardprof.target.build.build_options import BuildOptions, defining_sources, source_flags
from boardprof.target.build.builder import Build, finding_headers, with_folder
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.build.sources import (
    discarded_functions,
    find_sources,
    has_definition,
    implementation_macros,
    is_header,
    macros_around,
    with_static_of_header,
)
from boardprof.target.cfunction import CFunction
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.toolchain.tools import check_compiler

Callback = Callable[[str], None]
_FEW = 3  # names in a note


def build_plans(
    spec: BoardSpec,
    plans: Sequence[Plan],
    on_note: Callback,
    on_command: Callback | None,
    *,
    is_whole: bool = False,
) -> BuiltFirmware:
    """Build the firmware of plans with the same files and flags.

    Flags that the project's compile_commands.json adds are noted. What else is needed and found is
    in the firmware's ``added``: sources, folders of headers, macros, static functions.
    ``is_whole``: with all functions of the files, if they fit, as for a board at a port.
    """
    [path] = {plan.path for plan in plans}
    assert path is not None, "the plans have files"
    if plans[0].connection.port is None:
        check_compiler(spec)
    code = plans[0].code
    for wanted in dict.fromkeys(plan.function for plan in plans):
        code = with_static_of_header(spec, path, None if wanted == ALL else wanted, code)
    for file in find_sources([path, *code.sources]).files:
        if note := source_flags(file, code.compile_commands).note:
            on_note(note)

    def build(more: BuildOptions, added: str) -> BuiltFirmware:
        same = [replace(each, code=more) for each in plans]
        found = build_plans(spec, same, on_note, on_command, is_whole=is_whole)
        return replace(found, added=(added, *found.added))

    def again(more: BuildOptions, added: str) -> BuiltFirmware:
        try:
            return build(more, added)
        except BuildError:  # whoever reads it must know with what it was built
            on_note(added)
            raise

    add = partial(_with_more, build, path)
    try:
        firmware, needed = _built(spec, code, plans, on_command, is_whole=is_whole)
    except _LackingError as error:
        return again(error.options, error.added)
    except MissingHeaderError as error:
        if error.folder is None:
            raise
        return again(*with_folder(code, error.header, error.folder))
    except UndefinedError as error:
        found = add(code, error.symbols)
        if found is None:
            raise
        return found
    missing = [firmware.missing[name] for name in needed or () if name in firmware.missing]
    more = add(code, missing) if missing else None
    return more or firmware


def _with_more(
    build: Callable[[BuildOptions, str], BuiltFirmware],
    path: Path,
    code: BuildOptions,
    symbols: Collection[str],
) -> BuiltFirmware | None:
    """Build with the project's sources that define symbols; None if that does not help."""
    files = find_sources([path, *code.sources]).files
    known = defining_sources(files, symbols, code.compile_commands, is_hint=False)
    if not known:
        return None
    more = replace(code, sources=(*code.sources, *known))
    with suppress(BuildError):  # the error without them says what is missing
        return build(more, _adds(known, symbols))
    return None


def _adds(sources: Sequence[Path], symbols: Collection[str]) -> str:
    names = ", ".join(os.path.relpath(each) for each in sources)
    wanted = sorted(symbols)
    more = f" and {len(wanted) - _FEW} more" if len(wanted) > _FEW else ""
    return f"the build adds {names} for {', '.join(wanted[:_FEW])}{more}"


class _LackingError(Exception):
    """The functions of sources lack one that a plan wants, and other options have it."""

    def __init__(self, options: BuildOptions, added: str) -> None:
        super().__init__(added)
        self.options = options
        self.added = added


def _check_complete(
    spec: BoardSpec, code: BuildOptions, plans: Sequence[Plan], names: Collection[str]
) -> None:
    """Raise a `_LackingError` if a plan's function needs a macro, is static or is elsewhere."""
    for plan in plans:
        if plan.path is None or plan.function in names:
            continue
        path, function = plan.path, plan.function
        macros = implementation_macros(path)
        if function == ALL:
            macros = [] if names else macros
        elif macros and has_definition(path, function):  # else a macro may make its name
            macros = [each for each in macros_around(path, function) if each in macros]
        if len(macros) == 1 and not _has_macro(code, macros[0]):
            added = f"the build adds {option('-D', macros[0])} for the functions of {path.name}"
            raise _LackingError(replace(code, defines=(*code.defines, macros[0])), added)
        if function == ALL:
            continue
        found = discarded_functions(spec, [path], code, function).static
        if len(found) == 1 and function not in code.keep:
            added = f"the build adds {option('--no-inline', function)}, because it is static"
            raise _LackingError(replace(code, keep=(*code.keep, function)), added)
        if is_header(path):
            files = find_sources([path, *code.sources]).files
            known = defining_sources(files, [function], code.compile_commands)
            if len(known) == 1:
                more = replace(code, sources=(*code.sources, *known))
                raise _LackingError(more, _adds(known, [function]))


class Compiled(NamedTuple):
    """The files of a plan, compiled and not linked."""

    functions: Sequence[CFunction]
    read: Sequence[Path]  # sources and headers
    code: BuildOptions  # of the plan, with what its build would add
    added: tuple[str, ...]  # a note for each thing that it would add


def compiled(spec: BoardSpec, plan: Plan, on_command: Callback | None = None) -> Compiled:
    """Compile a plan's files with what its build would add."""
    assert plan.path is not None, "the plan has a file"
    wanted = None if plan.function == ALL else plan.function
    code = with_static_of_header(spec, plan.path, wanted, plan.code)
    path, added = plan.path, list[str]()

    def attempt(more: BuildOptions) -> Compiled:
        building = Build(spec, [path], more, on_command)
        found, _ = building.functions()
        _check_complete(spec, more, [plan], [fn.name for fn in found])
        return Compiled(found, building.read, more, ())

    while True:
        try:
            found, notes = finding_headers(code, attempt)
            return found._replace(added=(*added, *notes))
        except _LackingError as error:
            code = error.options
            added.append(error.added)


def _has_macro(code: BuildOptions, macro: str) -> bool:
    return any(each.partition("=")[0] == macro for each in code.defines)


def _built(
    spec: BoardSpec,
    code: BuildOptions,
    plans: Sequence[Plan],
    on_command: Callback | None,
    *,
    is_whole: bool,
) -> tuple[BuiltFirmware, list[str] | None]:
    """Build plans; also return the functions that they need, if that is known."""
    assert plans[0].path is not None
    building = Build(spec, [plans[0].path], code, on_command)
    with building.begin() as (functions, finish):
        _check_complete(spec, code, plans, [fn.name for fn in functions])
        if len(plans) == 1:
            plan, _ = with_own_names(plans[0], functions, building.read)
            check_early(functions, plan)
        needed, is_all = _needed(functions, plans)
        is_at_port = plans[0].connection.port is not None
        if is_all and not (is_whole or is_at_port):
            return finish(needed), needed
        return _whole_or(finish, needed), needed


def _needed(functions: Sequence[CFunction], plans: Sequence[Plan]) -> tuple[list[str] | None, bool]:
    """Return the functions that plans need, and whether they need no others; None: not known."""
    # A benchmark whose function is missing fails alone, and needs nothing.
    known = {fn.name for fn in functions if fn.reason is None}
    plans = [plan for plan in plans if plan.function in (ALL, *known)] or plans
    found = [needed_functions(functions, each.function, each.values) for each in plans]
    names = [name for needed, _ in found for name in needed or ()]
    is_known = all(needed is not None for needed, _ in found)
    return [*dict.fromkeys(names)] if is_known else None, all(is_all for _, is_all in found)


def _whole_or(
    finish: Callable[..., BuiltFirmware], needed: Collection[str] | None
) -> BuiltFirmware:
    """Link all functions, for a board that keeps them; if they do not link, those needed."""
    try:
        return finish()
    except BuildError:
        if needed is None:
            raise
        return finish(needed)
