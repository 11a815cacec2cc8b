# SPDX-License-Identifier: Apache-2.0
"""Sources and flags from the agent, the board and its C library for a build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardprof.boards.board_file import BOARD_FILE, BoardSpec
from boardprof.decode.schemas import packages_collectors
from boardprof.errors import UnknownNameError
from boardprof.firmware.sources import DEBUG, RUNTIME
from boardprof.resources import runtime_dir
from boardprof.toolchain.cache import FileHashes
from boardprof.toolchain.compile_unit import Unit
from boardprof.toolchain.compiler import Compiler

_WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Wmissing-prototypes",
    "-pedantic",
    "-Werror",
)
_MAIN = "bp_main.c"
_FREESTANDING_ONLY = "bp_mem.c"
_NO_LINK_INPUT = {".c", ".h", ".S", ".md", ".py", ".pyc", ".toml"}

_PROBE = "string.h"


def agent_units(spec: BoardSpec) -> list[Unit]:
    """Return the agent's sources that the board needs, and the board's own.

    Raises:
        UnknownNameError: the architecture or a collector does not exist.
    """
    board, runtime = spec.build, runtime_dir()
    files = [
        path
        for path in sorted(runtime.glob("src/*.c"))
        if not (path.name == _MAIN and (board.own_main or board.shared))
        and not (path.name == _FREESTANDING_ONLY and not board.freestanding)
    ]
    if board.arch is not None:
        files += _arch_files(runtime, board.arch)
    brought = [(spec.folder, spec.folder / source) for source in board.sources]
    for name in board.collectors:
        if f"bp_{name}.c" not in board.sources:
            path = _collector(runtime, name, spec)
            if path.is_relative_to(runtime):
                files.append(path)
            else:
                brought.append((path.parent, path))
    flags = agent_flags(spec)
    includes = agent_includes(spec)
    units = [Unit(runtime, str(p.relative_to(runtime)), flags(p), includes) for p in files]
    roots = ((RUNTIME, runtime),)
    return units + [
        Unit(folder, str(p.relative_to(folder)), flags(p), (*includes, folder), roots)
        for folder, p in brought
    ]


def libc_unit(spec: BoardSpec, cflags: Sequence[str]) -> Unit:
    """Return the source that ties the board's C library to the agent: output, heap and exit.

    Args:
        spec: the board, which has a C library.
        cflags: flags that find the library's headers.
    """
    runtime = runtime_dir()
    path = runtime / "libc" / str(spec.build.libc) / "bp_libc.c"
    own = [flag for flag in agent_flags(spec)(path) if flag != "-ffreestanding"]
    flags = (*own, *cflags, f"-DBP_LIBC_HEAP={spec.build.libc_heap}")
    return Unit(runtime, str(path.relative_to(runtime)), flags, agent_includes(spec))


def _arch_files(runtime: Path, arch: str) -> list[Path]:
    known = sorted(path.name for path in (runtime / "arch").iterdir() if path.is_dir())
    if arch not in known:
        raise UnknownNameError("architecture", arch, known)
    folder = runtime / "arch" / arch
    return sorted([*folder.glob("*.c"), *folder.glob("*.S")])


def _collector(runtime: Path, name: str, spec: BoardSpec) -> Path:
    path = runtime / "collectors" / f"bp_{name}.c"
    if path.is_file():
        return path
    brought = packages_collectors()
    if name not in brought:
        files = [*sorted((runtime / "collectors").glob("bp_*.c")), *brought.values()]
        known = [file.stem[len("bp_") :] for file in files]
        raise UnknownNameError("collector", name, known, hint=_how_to_add(name, spec))
    return brought[name]


def _how_to_add(name: str, spec: BoardSpec) -> str | None:
    """Return how to add a collector whose source is in the board's folder; None if it is not."""
    source = f"bp_{name}.c"
    if not (spec.folder / source).is_file():
        return None
    return f'"{source}" among the sources of [build] in {spec.folder / BOARD_FILE}'


def agent_flags(spec: BoardSpec) -> Callable[[Path], tuple[str, ...]]:
    """Return a function from a file of the agent or the board to its flags."""
    options = (f"-DBP_CFG_{name.upper()}={value}" for name, value in spec.build.config.items())
    common = ("-Os", *spec.build.cflags, *DEBUG, *options)  # a board may prefer speed
    common += ("-ffreestanding",) if spec.build.freestanding else ()
    common += ("-fPIC",) if spec.build.shared else ()
    c = (*common, "-std=c11", *_WARNINGS)
    return lambda path: c if path.suffix == ".c" else common


def agent_includes(spec: BoardSpec) -> tuple[Path, ...]:
    """Return the folders with the headers of the agent and of its architecture."""
    runtime = runtime_dir()
    arch = () if spec.build.arch is None else (runtime / "arch" / spec.build.arch,)
    return (runtime / "include", *arch)


def link_inputs(spec: BoardSpec) -> dict[str, str | None]:
    """Return digests of the board's files that the linker might read: link scripts, libraries."""
    folders = {"": spec.folder}
    if spec.build.arch is not None:
        folders["arch/"] = runtime_dir() / "arch" / spec.build.arch
    if spec.build.libc is not None:
        folders["libc/"] = runtime_dir() / "libc" / spec.build.libc
    hashes = FileHashes()
    return {
        f"{label}{path.relative_to(folder)}": hashes.of(path)
        for label, folder in folders.items()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in _NO_LINK_INPUT
    }


@dataclass(frozen=True)
class Libc:
    """The C library of a board without an operating system.

    Attributes:
        cflags: flags that find its headers.
        before: for the link, before the objects.
        after: for the link, after the objects.
        version: changes with the library.
    """

    cflags: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    version: str


def find_libc(spec: BoardSpec, compiler: Compiler) -> Libc | None:
    """Return the library of a freestanding board; None if it is not installed, or not known.

    A board with an operating system has its own C library, which is always linked.
    """
    board = spec.build
    if not board.freestanding or board.libc is None:
        return None
    header = compiler.header(_PROBE, (*board.cflags, *board.libc_cflags))
    if header is None:
        return None
    status = header.stat()  # its package sets the same time on every machine
    return Libc(
        board.libc_cflags,
        (*board.libc_cflags, *board.libc_ldflags),
        ("-Wl,--start-group", "-lm", "-lc", "-lgcc", "-Wl,--end-group"),
        f"{header.parent.name} {status.st_size} {int(status.st_mtime)}",
    )
