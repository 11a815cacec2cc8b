# SPDX-License-Identifier: Apache-2.0
"""What tests of the builder share."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from boardprof.measure.connect import Firmware
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.sources import find_libc
from boardprof.target.cfunction import signature
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.toolchain.cache import Cache
from boardprof.target.toolchain.compiler import Compiler
from tests import firmware
from tests.support import requires_tool

__all__ = ["FIR", "build", "changed", "folder_of", "requires_library", "runs", "shown", "sizes"]

FIR = "int fir(int n) { return 3 * n; }\n"
_LONG_AGO_S = 1_000_000_000


def build(
    spec: BoardSpec,
    sources: Sequence[str | Path] = (),
    *,
    optimize: str = "-O2",
    defines: Sequence[str] = (),
    includes: Sequence[str | Path] = (),
    cflags: str = "",
    ldflags: str = "",
    keep: Sequence[str] = (),
    libc: str = "board",
    verbose: Callable[[str], None] | None = None,
) -> Firmware:
    options = BuildOptions(
        optimize=optimize,
        defines=tuple(defines),
        includes=tuple(includes),
        cflags=cflags,
        ldflags=ldflags,
        keep=tuple(keep),
        libc=libc,
    )
    return firmware.build(spec, sources, options, verbose=verbose)


def folder_of(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files as if long ago: what is as new as the build itself is not remembered."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (_LONG_AGO_S, _LONG_AGO_S))
    return folder


def runs(firmware: Firmware, source: str | None = None) -> int:
    """Return how often a compiler was run, for one source or at all."""
    return sum(source is None or source in command for command in firmware.commands)


def shown(firmware: Firmware) -> dict[str, str]:
    return {fn.name: fn.reason or signature(fn) for fn in firmware.functions}


def sizes(firmware: Firmware) -> dict[str, int]:
    """Return the image's symbols with their sizes in bytes."""
    with firmware.image.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return {symbol.name: symbol["st_size"] for symbol in table.iter_symbols()}


def requires_library(spec: BoardSpec) -> None:
    """Skip the test, or fail it where all is required, if a board's C library is not installed."""
    board = spec.build
    if board.libc_package is None:
        return
    compiler = Compiler(requires_tool(board.cc, board.package), board.package, Cache())
    if find_libc(spec, compiler) is None:
        requires_tool(f"the C library of {spec.name}", board.libc_package)


def changed(spec: BoardSpec, **build_keys: object) -> BoardSpec:
    return dataclasses.replace(spec, build=dataclasses.replace(spec.build, **build_keys))  # type: ignore[arg-type]
