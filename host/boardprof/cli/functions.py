# SPDX-License-Identifier: Apache-2.0
"""``boardprof functions``: list the functions in files, and how to call them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boardprof.cli.build import compile_options, taken_build_options
from boardprof.cli.options import board_option, json_option, width_option
from boardprof.cli.output import echo_command, echo_json, echo_lines, echo_note
from boardprof.errors import UsageError

if TYPE_CHECKING:
    from boardprof.run.function_list import FunctionList


_COMPILED = {".c", ".C", ".cc", ".cpp", ".cxx", ".S", ".s"}


@click.command(short_help="List the functions in files and their parameters.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@board_option
@compile_options
@click.option(
    "--all", "complete", is_flag=True, help="Also list every function that cannot be called."
)
@json_option
@width_option
@click.option("-v", "--verbose", is_flag=True, help="Show each compiler command.")
def functions(
    files: tuple[str, ...], board: str | None, complete: bool, as_json: bool, **options: Any
) -> None:
    """List the functions in FILEs, with their signatures and the structs that they take.

    FILE is a C or C++ source or a folder of them, compiled for a board as in `run`; or an object, a
    static library, a shared library or a program with debug information (-g).
    """
    from boardprof.run.function_list import list_facts, list_text

    found = _found([Path(file) for file in files], board, complete, **options)
    if as_json:
        echo_json(list_facts(found))
    else:
        echo_lines(list_text(found, complete=complete))
    if any("debug information" in (fn.reason or "") for fn in found.functions):
        echo_note("compile files without debug information with -g, or with -g -gdwarf-4")


def _found(paths: list[Path], board: str | None, complete: bool, **options: Any) -> FunctionList:
    from boardprof.run.function_list import FunctionList, object_functions

    for path in paths:
        if not path.exists():
            file, colon, _ = str(path).rpartition(":")
            is_run_s = colon and os.path.exists(file)
            hint = f"boardprof functions {file} lists all functions" if is_run_s else None
            raise UsageError(f"The file or folder {path} does not exist.", hint=hint)
    sources = [path for path in paths if path.is_dir() or path.suffix in _COMPILED]
    objects = [path for path in paths if path not in sources]
    listed = object_functions(objects)
    compiled = _compiled(sources, board, complete, **options) if sources or board else None
    if compiled is None:
        return listed
    every = [*listed.functions, *compiled.functions]
    hidden = {*listed.hidden, *compiled.hidden}
    return FunctionList(tuple(sorted(every, key=lambda fn: fn.name)), tuple(sorted(hidden)))


def _compiled(
    sources: list[Path], board: str | None, complete: bool, **options: Any
) -> FunctionList:
    from boardprof.boards.board_lookup import board_spec, default_board
    from boardprof.cfunction import HiddenFunction
    from boardprof.firmware.builder import source_functions
    from boardprof.firmware.functions import unoffered
    from boardprof.run.function_list import FunctionList

    spec = board_spec(board) if board else default_board()
    if not sources:
        return FunctionList((), ())
    how = taken_build_options(options)
    verbose = echo_command if options["verbose"] else None
    found, hidden = source_functions(spec, sources, how, verbose)
    if complete or not (found or hidden):
        known = {*(fn.name for fn in found), *(name for name, _, _ in hidden)}
        unused = unoffered(spec, sources, how, verbose=verbose).static
        hidden = [*hidden, *(each for each in unused if each[0] not in known)]
    return FunctionList(tuple(found), tuple(sorted(HiddenFunction(*each) for each in hidden)))
