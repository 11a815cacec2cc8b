# SPDX-License-Identifier: Apache-2.0
"""The firmware of plans that share their files and flags."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from boardprof.base.errors import BuildError
from boardprof.jobs.run.function_choice import check_early, needed_functions
from boardprof.jobs.run.plan import ALL, Plan
from boardprof.target.build.build_errors import UndefinedError
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.builder import Build
from boardprof.target.build.compile_commands import defining_sources, source_flags
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.build.sources import find_sources, with_static_of_header
from boardprof.target.cfunction import CFunction
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.toolchain.tools import check_compiler

Callback = Callable[[str], None]


def build_plans(
    spec: BoardSpec,
    plans: Sequence[Plan],
    on_note: Callback,
    on_command: Callback | None,
    *,
    is_whole: bool = False,
) -> BuiltFirmware:
    """Build the firmware of plans with the same files and flags.

    What the project's compile_commands.json adds is noted: flags, and sources that are needed.
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

    def build(more: BuildOptions) -> BuiltFirmware:
        same = [replace(each, code=more) for each in plans]
        return build_plans(spec, same, on_note, on_command, is_whole=is_whole)

    add = partial(_with_more, build, path, on_note)
    try:
        firmware, needed = _built(spec, code, plans, on_command, is_whole=is_whole)
    except UndefinedError as error:
        found = add(code, error.symbols)
        if found is None:
            raise
        return found
    missing = [firmware.missing[name] for name in needed or () if name in firmware.missing]
    more = add(code, missing) if missing else None
    return more or firmware


def _with_more(
    build: Callable[[BuildOptions], BuiltFirmware],
    path: Path,
    on_note: Callback,
    code: BuildOptions,
    symbols: Collection[str],
) -> BuiltFirmware | None:
    """Build with the project's sources that define symbols; None if that does not help."""
    files = find_sources([path, *code.sources]).files
    known = defining_sources(files, symbols, code.compile_commands)
    if not known:
        return None
    more = replace(code, sources=(*code.sources, *known))
    with suppress(BuildError):  # the error without them says what is missing
        found = build(more)
        names = ", ".join(os.path.relpath(each) for each in known)
        on_note(f"the build adds {names} for {', '.join(sorted(symbols))}")
        return found
    return None


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
    with Build(spec, [plans[0].path], code, on_command).begin() as (functions, finish):
        if len(plans) == 1:
            check_early(functions, plans[0])
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
