# SPDX-License-Identifier: Apache-2.0
"""Firmware for a board: the agent, the board's port, and the user's C files as functions.

The user's code needs no header of boardprof and sees none; the agent sees none
of the user's. What ties them is ``bp_table.c``, generated after the user's
objects have been asked for their functions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from boardprof.board_file import BoardSpec, agent_options
from boardprof.cache import Cache, FileHashes, digest
from boardprof.cfunction import CFunction, function_from_json, function_to_json
from boardprof.compile_unit import Unit
from boardprof.errors import UnknownNameError, UsageError
from boardprof.glue import fit, table_source
from boardprof.resources import runtime_dir
from boardprof.toolchain import Compiler, Object

__all__ = ["Firmware", "build"]

_RUNTIME = "device_runtime_c"  # in debug information, for wherever the runtime is
_DEBUG = ("-g", "-gdwarf-4", "-ffunction-sections", "-fdata-sections")
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


@dataclass(frozen=True)
class Firmware:
    """An image, and what it offers.

    Attributes:
        image: the program or shared library, in the cache: do not change it.
        build_id: 8 bytes, the same for the same inputs, wherever they are.
        functions: the user's, by name; those with a ``reason`` are not in the image's table.
        board: what it was built for.
        commands: the compilers' runs that were needed; none if all was in the cache.
    """

    image: Path
    build_id: bytes
    functions: tuple[CFunction, ...]
    board: BoardSpec
    commands: tuple[tuple[str, ...], ...]


def build(
    spec: BoardSpec,
    sources: Sequence[str | Path] = (),
    *,
    optimize: str = "-O2",
    defines: Sequence[str] = (),
    verbose: Callable[[str], None] | None = None,
) -> Firmware:
    """Build firmware for a board, as far as the cache does not have it.

    Args:
        spec: the board.
        sources: the user's C files, and folders, which stand for their ``*.c``.
        optimize: flags for the user's files, such as ``-O3 -ffast-math``. With
            ``-flto`` the build id is another one in another folder.
        defines: macros for the user's files: ``NAME`` or ``NAME=VALUE``.
        verbose: is given each command before it runs, and compilers' warnings.

    Raises:
        UsageError: there is no such source, or a define is none.
        MissingToolError: the board's compiler is not installed.
        BuildError: something does not compile or link, with the compiler's own text.
    """
    files = _resolved(sources)
    flags = _user_flags(spec, optimize, defines)
    user = [_user_unit(file, flags) for file in files]
    runtime = _agent_units(spec)
    cache = Cache()
    compiler = Compiler(spec.build.cc, spec.build.package, cache, verbose)
    made = _compile_all(compiler, [*runtime, *user])
    functions = _functions(spec, cache, made[len(runtime) :])
    inputs = _link_inputs(spec)
    build_id = _build_id(spec, compiler.version, flags, [*runtime, *user], made, inputs)
    table = _table(spec, cache, functions, build_id)
    objects = [*made, compiler.compile(table)]
    image = compiler.link(
        f"{spec.name}.so" if spec.build.shared else f"{spec.name}.elf",
        objects,
        *_link_flags(spec),
        folder=spec.folder,
        key=digest(inputs),
    )
    return Firmware(image, build_id, tuple(functions), spec, tuple(compiler.commands))


def _resolved(sources: Sequence[str | Path]) -> list[Path]:
    """Return the C files that ``sources`` stand for, each once."""
    found: dict[Path, None] = {}
    for source in map(Path, sources):
        if not source.exists():
            raise UsageError(f"There is no file or folder {source}.")
        files = sorted(source.glob("*.c")) if source.is_dir() else [source]
        if not files:
            raise UsageError(f"The folder {source} has no .c files.")
        for file in files:
            if file.suffix != ".c":
                raise UsageError(f"{file} is not a C source: its name must end in .c.")
            found[file.parent.resolve() / file.name] = None
    return list(found)


def _user_flags(spec: BoardSpec, optimize: str, defines: Sequence[str]) -> tuple[str, ...]:
    for define in defines:
        if not re.fullmatch(r"[A-Za-z_]\w*(=.*)?", define, re.ASCII | re.DOTALL):
            raise UsageError(f"{define!r} is not a macro: write NAME or NAME=VALUE.")
    try:
        wanted = shlex.split(optimize)
    except ValueError as error:
        raise UsageError(f"{optimize!r} cannot be split into flags: {error}.") from error
    # Fat objects: with -flto in `optimize` there would be no functions to be found otherwise.
    flags = (*spec.build.cflags, "-std=gnu11", *_DEBUG, "-ffat-lto-objects")
    flags += ("-fPIC",) if spec.build.shared else ()
    # Without a libc there are none of its headers to ask for; but memcpy may still become a load.
    flags += ("-ffreestanding", "-fbuiltin") if spec.build.freestanding else ()
    return (*flags, *wanted, *(f"-D{define}" for define in defines))


def _user_unit(file: Path, flags: tuple[str, ...]) -> Unit:
    """Return the unit for a user's file, whose main, if it has one, gets out of the way."""
    content = hashlib.sha256(file.read_bytes()).hexdigest()
    # A name of its own for each file: programs with a main each may be built together.
    return Unit(file.parent, file.name, (*flags, f"-Dmain=bp_user_main_{content[:16]}"))


def _agent_units(spec: BoardSpec) -> list[Unit]:
    """Return the agent's sources that the board needs, and the board's own."""
    board, runtime = spec.build, runtime_dir()
    files = [
        path
        for path in sorted(runtime.glob("src/*.c"))
        if not (path.name == _MAIN and (board.own_main or board.shared))
        and not (path.name == _FREESTANDING_ONLY and not board.freestanding)
    ]
    if board.arch is not None:
        files += _arch_files(runtime, board.arch)
    own = [spec.folder / source for source in board.sources]
    for name in board.collectors:
        if f"bp_{name}.c" not in board.sources:
            files.append(_collector(runtime, name))
    flags = _agent_flags(spec)
    includes = _agent_includes(spec)
    units = [Unit(runtime, str(p.relative_to(runtime)), flags(p), includes) for p in files]
    roots = ((_RUNTIME, runtime),)
    return units + [
        Unit(
            spec.folder, str(p.relative_to(spec.folder)), flags(p), (*includes, spec.folder), roots
        )
        for p in own
    ]


def _arch_files(runtime: Path, arch: str) -> list[Path]:
    known = sorted(path.name for path in (runtime / "arch").iterdir() if path.is_dir())
    if arch not in known:
        raise UnknownNameError("architecture", arch, known)
    folder = runtime / "arch" / arch
    return sorted([*folder.glob("*.c"), *folder.glob("*.S")])


def _collector(runtime: Path, name: str) -> Path:
    path = runtime / "collectors" / f"bp_{name}.c"
    if not path.is_file():
        files = sorted((runtime / "collectors").glob("bp_*.c"))
        raise UnknownNameError("collector", name, [file.stem[len("bp_") :] for file in files])
    return path


def _agent_flags(spec: BoardSpec) -> Callable[[Path], tuple[str, ...]]:
    """Return what gives the flags for a file of the agent or the board."""
    options = (f"-DBP_CFG_{name.upper()}={value}" for name, value in spec.build.config.items())
    common = ("-Os", *spec.build.cflags, *_DEBUG, *options)  # a board may prefer speed
    common += ("-ffreestanding",) if spec.build.freestanding else ()
    common += ("-fPIC",) if spec.build.shared else ()
    c = (*common, "-std=c11", *_WARNINGS)
    return lambda path: c if path.suffix == ".c" else common


def _agent_includes(spec: BoardSpec) -> tuple[Path, ...]:
    runtime = runtime_dir()
    arch = () if spec.build.arch is None else (runtime / "arch" / spec.build.arch,)
    return (runtime / "include", *arch)


def _compile_all(compiler: Compiler, units: Sequence[Unit]) -> list[Object]:
    """Compile on all processors; of several errors, that of the first unit is raised."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = [pool.submit(compiler.compile, unit) for unit in units]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _functions(spec: BoardSpec, cache: Cache, objects: Sequence[Object]) -> list[CFunction]:
    """Return the functions of the user's objects, as far as the board's agent can call them."""
    place = ("functions", digest([made.sha256 for made in objects]) + ".json")
    known = cache.read(*place)
    if known is None:
        from boardprof.elf import functions  # here, because pyelftools takes a while to import

        found = functions([made.path for made in objects])
        cache.write(json.dumps([function_to_json(fn) for fn in found]), *place)
    else:
        found = [function_from_json(data) for data in json.loads(known)]
    options = {**agent_options(), **spec.build.config}
    return [fit(fn, slot_bytes=options["slot_bytes"], mtu=options["mtu"]) for fn in found]


def _link_inputs(spec: BoardSpec) -> dict[str, str | None]:
    """Return digests of the files that the linker might read: link scripts, libraries."""
    folders = {"": spec.folder}
    if spec.build.arch is not None:
        folders["arch/"] = runtime_dir() / "arch" / spec.build.arch
    hashes = FileHashes()
    return {
        f"{label}{path.relative_to(folder)}": hashes.of(path)
        for label, folder in folders.items()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in _NO_LINK_INPUT
    }


def _build_id(
    spec: BoardSpec,
    version: str,
    flags: tuple[str, ...],
    units: Sequence[Unit],
    objects: Sequence[Object],
    inputs: Mapping[str, str | None],
) -> bytes:
    """Return 8 bytes over all that decides the image.

    The contents of sources and headers are in by way of the objects, which are
    free of paths: what does not change an object changes no id.
    """
    made = [[unit.source, obj.sha256] for unit, obj in zip(units, objects, strict=True)]
    text = digest(spec.name, asdict(spec.build), version, flags, made, inputs)
    return bytes.fromhex(text)[:8]


def _table(spec: BoardSpec, cache: Cache, functions: Sequence[CFunction], build_id: bytes) -> Unit:
    """Write ``bp_table.c`` to the cache, where it can be read, and return its unit."""
    text = table_source(spec.name, functions, spec.build.collectors, build_id)
    place = ("tables", digest(text), "bp_table.c")
    if cache.read(*place) != text:
        cache.write(text, *place)
    path = cache.root.resolve().joinpath(*place)
    roots = ((_RUNTIME, runtime_dir()),)
    return Unit(path.parent, path.name, _agent_flags(spec)(path), _agent_includes(spec), roots)


def _link_flags(spec: BoardSpec) -> tuple[list[str], list[str]]:
    """Return what stands before and behind the objects."""
    board = spec.build
    before = [*board.cflags, "-Wl,--gc-sections"]
    # Without -z defs a function that is nowhere would be found missing by the loader only.
    before += ["-shared", "-fPIC", "-Wl,-z,defs"] if board.shared else []
    before += ["-nostdlib"] if board.freestanding else []
    before += ["-T", board.link_script] if board.link_script is not None else []
    return before, [*board.ldflags, *(["-lgcc"] if board.freestanding else [])]
