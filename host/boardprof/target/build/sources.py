# SPDX-License-Identifier: Apache-2.0
"""The sources of a build, how each is compiled, and the functions and macros in the user's."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import elftools

from boardprof.base.errors import BuildError, UnknownNameError, UsageError
from boardprof.base.files import runtime_dir
from boardprof.base.printable import encodable
from boardprof.target import cfunction
from boardprof.target.build.build_options import BuildOptions, UserFlags, source_flags, user_flags
from boardprof.target.build.glue import fit
from boardprof.target.cfunction import CFunction, HiddenFunction, function_from_json
from boardprof.target.descriptions.board import BOARD_FILE, BoardSpec
from boardprof.target.elf.object_file import global_functions, images, local_functions, read_image
from boardprof.target.toolchain.cache import Cache, FileHashes, digest
from boardprof.target.toolchain.compiler import Compiler, Object, Unit, is_tracked
from boardprof.wire.decode.schemas import packages_collectors

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

RUNTIME = "device_runtime_c"
"""Stands for the runtime's folder in debug information."""

DEBUG = ("-g", "-gdwarf-4", "-ffunction-sections", "-fdata-sections")
"""For every compilation."""

# A library may be a header alone. A folder's headers are not sources of their own.
_HEADERS = {".h": "c", **dict.fromkeys((".hh", ".hpp", ".hxx"), "c++")}
_LANGUAGES = {
    **_HEADERS,
    ".c": "c",
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".C"), "c++"),
    **dict.fromkeys((".S", ".s"), "assembler"),
    ".o": "object",
    ".a": "archive",
}
_COMPILED = ("c", "c++", "assembler")
# A bare board does not unwind stacks, ask for types at run time, or run the handlers of `exit`.
_BARE_CPP = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-use-cxa-atexit")
_KEEP = ("-fkeep-static-functions", "-fkeep-inline-functions")
_MAIN = "_main.c"
_USER_MAIN = "bp_user_main_"  # what a main of the user is called, with a digest after it
_FREESTANDING_ONLY = "bp_mem.c"
_HEAP = "libc/bp_heap.c"
_NO_LINK_INPUT = {".c", ".h", ".S", ".md", ".py", ".pyc", ".toml"}

_PROBE = "string.h"

HEAP_FUNCTIONS = (
    *("malloc", "calloc", "realloc", "free", "strdup", "strndup"),
    *("aligned_alloc", "memalign", "posix_memalign"),
    *("_malloc_r", "_calloc_r", "_realloc_r", "_memalign_r", "_free_r"),
)
"""What libc/bp_heap.c replaces. newlib alone has the last five."""


@dataclass(frozen=True)
class Sources:
    """The user's files, each once, absolute, and in the given order."""

    files: tuple[Path, ...]
    objects: tuple[Path, ...]
    archives: tuple[Path, ...]


# Nothing replaces a function, so it may be inlined into others of its file, as in a program.
_SHARED = ("-fPIC", "-fno-semantic-interposition")


def language(path: Path) -> str:
    """Return "c", "c++", "assembler", "object", "archive", or "" for any other file."""
    return _LANGUAGES.get(path.suffix, "")


def is_header(path: Path) -> bool:
    """Return whether a file is a header, which is compiled like a source if it is named."""
    return path.suffix in _HEADERS


def missing(path: Path, hint: str | None = None) -> UsageError:
    """Return the error for a path that does not exist."""
    if hint is None:
        nearest = UnknownNameError.nearest(path.name, [p.name for p in path.parent.glob("*")])
        hint = f"check the path; a relative path begins at {Path.cwd()}"
        hint = hint if nearest is None else f"{path.with_name(nearest)} exists"
    return UsageError(f"The file or folder {path} does not exist.", hint=hint)


def find_sources(named: Sequence[str | Path]) -> Sources:
    """Return the named files; a folder stands for the sources in it."""
    found: dict[Path, str] = {}
    for source in map(Path, named):
        if not source.exists():
            raise missing(source)
        for file in _in_folder(source) if source.is_dir() else [source]:
            if not file.is_file():
                raise UsageError(
                    f"{file} is not a regular file.", hint="name a file or a folder of sources"
                )
            kind = language(file)
            if not kind:
                raise UsageError(
                    f"{file} is neither a source nor an object.",
                    hint="known are .c, .cc, .cpp, .cxx, .h, .hpp, .S, .s, .o and .a",
                )
            path = file.parent.resolve() / file.name
            if kind in _COMPILED and "\n" in str(path):  # not for depfiles
                raise UsageError(
                    f"{str(path)!r} cannot be compiled: its path contains a line break.",
                    hint="rename the file or its folder",
                )
            found[path] = kind
    return Sources(
        tuple(f for f, kind in found.items() if kind in _COMPILED),
        tuple(f for f, kind in found.items() if kind == "object"),
        tuple(f for f, kind in found.items() if kind == "archive"),
    )


def _in_folder(folder: Path) -> list[Path]:
    sources = (path for path in sorted(folder.iterdir()) if not is_header(path))
    files = [path for path in sources if language(path) in _COMPILED and path.is_file()]
    if not files:
        raise UsageError(f"The folder {folder} has no C, C++ or assembler files.")
    return files


def user_unit(spec: BoardSpec, file: Path, flags: UserFlags, libc: Sequence[str] | None) -> Unit:
    """Return the unit for a user's file; with -flto a main in it is renamed."""
    board, kind = spec.build, language(file)
    # The options of the agent are for code that includes boardprof/bp.h.
    words = [*board.cflags, *DEBUG, *(f"-DBP_CFG_{k.upper()}={v}" for k, v in board.config.items())]
    words += _SHARED if board.shared else ()
    if libc is not None:
        words += libc
    elif board.freestanding:
        # Without the headers of a libc; but memcpy may still become a load.
        words += ["-ffreestanding", "-fbuiltin"]
    if kind == "c":
        words += ["-std=gnu11"]
    if kind == "c++":
        words += ["-std=gnu++17", *(_BARE_CPP if board.freestanding else ())]
    if kind != "assembler":
        # With -flto from the user, only fat objects have functions that can be found.
        words += ["-ffat-lto-objects"]
    words += ["-x", kind] if is_header(file) else []
    of_build = source_flags(file, flags.compile_commands)
    words += [
        flag for flag in of_build.taken if kind != "assembler" or flag.startswith(("-D", "-U"))
    ]
    words += flags.compiler
    if kind == "c":
        content = file.read_bytes()
        # `edited` renames main in the object, where members and parameters of that name stay. With
        # -flto the object has no code. Each file gets another name, so that several programs can
        # be built together.
        own = f"{_USER_MAIN}{hashlib.sha256(content).hexdigest()[:16]}"
        words += [f"-Dmain={own}"] if flags.lto else []
        words += _KEEP if may_define_one_of(file, flags, flags.kept_in(file)) else ()
    # After all others: a build that works without them is the same with them.
    folders = (*flags.folders, *(("-idirafter", folder) for folder in of_build.folders))
    roots = [(f"include{i}", folder) for i, (_, folder) in enumerate(folders)]
    return Unit(
        file.parent,
        # Otherwise the compiler would take it for an option, or for a file of options.
        f"./{file.name}" if file.name.startswith(("-", "@")) else file.name,
        tuple(words),
        (*folders, ("-idirafter", runtime_dir() / "include")),
        (*roots, (RUNTIME, runtime_dir())),
        watched=True,
        tracked=is_tracked(flags.compiler),
    )


def kept_functions(
    units: Sequence[Unit], files: Sequence[Path], flags: UserFlags
) -> list[list[str]]:
    """Return for each unit the static functions that are made global; it is compiled for that."""
    keeps = [unit.flags[-len(_KEEP) :] == _KEEP for unit in units]
    return [flags.kept_in(file) if keep else [] for keep, file in zip(keeps, files, strict=True)]


def names_one_of(content: bytes, names: Sequence[str]) -> bool:
    """Return whether a source mentions one of these names, even in a comment."""
    letter = rb"[\w\x80-\xff]"  # names may have letters in UTF-8
    written = (re.escape(encodable(name).encode()) for name in names)
    return any(re.search(rb"(?<!%s)%s(?!%s)" % (letter, name, letter), content) for name in written)


def may_define_one_of(file: Path, flags: UserFlags, names: Sequence[str]) -> bool:
    """Return whether a source or a file that it includes mentions a name, even in a comment.

    Macros may also put names together, with ``##``.
    """
    return bool(names) and any(
        b"##" in text or names_one_of(text, names) for text in _texts(file, flags)
    )


def _texts(file: Path, flags: UserFlags) -> Iterator[bytes]:
    """Yield the content of a source and of the user's files that it may include."""
    folders = [folder for _, folder in flags.folders]
    forced = [Path(path) for option, path in pairwise(flags.compiler) if option == "-include"]
    todo, seen = [file, *forced], set()
    while todo:
        path = todo.pop().resolve()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        text = path.read_bytes()
        yield text
        for name in re.findall(rb'(?m)^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)', text):
            todo += [folder / os.fsdecode(name) for folder in (path.parent, *folders)]


# -- the agent's and the board's ---------------------------------------------------------------


def agent_units(spec: BoardSpec) -> list[Unit]:
    """Return the agent's sources that the board needs, and the board's own."""
    board, runtime = spec.build, runtime_dir()
    files = sorted(runtime.glob("src/*.c"))
    files += [runtime / _HEAP] if has_heap(spec) and not board.freestanding else []
    if board.arch is not None:
        files += _arch_files(runtime, board.arch)
        files += sorted(runtime.glob(f"libc/bp_{board.arch}_*.c"))
    mains = [path for path in files if path.name.endswith(_MAIN)]  # the last is the arch's own
    left_out = mains if board.own_main or board.shared else mains[:-1]
    left_out += [] if board.freestanding else [runtime / "src" / _FREESTANDING_ONLY]
    files = [path for path in files if path not in left_out]
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
    units = [_agent_unit(spec, path, flags(path)) for path in files]
    roots = ((RUNTIME, runtime),)
    return units + [
        Unit(folder, str(p.relative_to(folder)), flags(p), (*includes, ("-I", folder)), roots)
        for folder, p in brought
    ]


def libc_units(spec: BoardSpec, cflags: Sequence[str]) -> list[Unit]:
    """Return the sources that tie the board's C library to the agent: output, heap and exit."""
    runtime = runtime_dir()
    paths = [runtime / "libc" / str(spec.build.libc) / "bp_libc.c"]
    paths += [runtime / _HEAP] if has_heap(spec) else []
    own = [flag for flag in agent_flags(spec)(paths[0]) if flag != "-ffreestanding"]
    flags = (*own, *cflags, f"-DBP_LIBC_HEAP={spec.build.libc_heap}")
    return [_agent_unit(spec, path, flags) for path in paths]


def start_unit(spec: BoardSpec, name: str) -> Unit:
    """Return the source of the agent that sets up one thing for the user's code."""
    path = runtime_dir() / "start" / f"bp_{name}.c"
    return _agent_unit(spec, path, agent_flags(spec)(path))


def _agent_unit(spec: BoardSpec, path: Path, flags: tuple[str, ...]) -> Unit:
    runtime = runtime_dir()
    return Unit(runtime, str(path.relative_to(runtime)), flags, agent_includes(spec))


def start_script(name: str) -> Path:
    """Return the link script that goes with it."""
    return runtime_dir() / "start" / f"{name}.ld"


def with_heap(spec: BoardSpec) -> BoardSpec:
    """Return a board whose firmware has malloc and free as probes."""
    config = spec.build.config
    if not config.get("trace"):
        raise UsageError(
            f"{spec.name} cannot record its heap, because its agent has no probes.",
            hint="take another board; the agent of a larger one has BP_CFG_TRACE",
        )
    return replace(spec, build=replace(spec.build, config={**config, "trace_heap": 1}))


def has_heap(spec: BoardSpec) -> bool:
    """Return whether malloc and free are probes."""
    return bool(spec.build.config.get("trace_heap"))


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
    common += _SHARED if spec.build.shared else ()
    c = (*common, "-std=c11")
    return lambda path: c if path.suffix == ".c" else common


def agent_includes(spec: BoardSpec) -> tuple[tuple[str, Path], ...]:
    """Return the folders with the headers of the agent and of its architecture, for `Unit`."""
    runtime, arch = runtime_dir(), spec.build.arch
    folders = [runtime / "include", *([] if arch is None else [runtime / "arch" / arch])]
    return tuple(("-I", folder) for folder in folders)


def link_inputs(spec: BoardSpec) -> dict[str, str | None]:
    """Return digests of the board's files that the linker might read: link scripts, libraries."""
    folders = {"": spec.folder, "start/": runtime_dir() / "start"}
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
    """The C library of a board without an operating system."""

    cflags: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    version: str
    lacks: frozenset[str]  # of `FORMATS`, those that it was built without


def find_libc(spec: BoardSpec, compiler: Compiler) -> Libc | None:
    """Return the library of a freestanding board; None if it is not installed, or not known."""
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
        lacks=_lacking_formats(header.parent, board.libc_ldflags),
    )


FORMATS = ("C99_FORMATS", "POS_ARGS", "MB_CAPABLE", "PERCENT_N")
"""What a C library may be built without: ``%zu``, ``%1$d``, ``%ls`` and ``%n`` of printf."""


def _lacking_formats(headers: Path, ldflags: Sequence[str]) -> frozenset[str]:
    """Return what the header that has a library's options says of its printf."""
    nano, pico = headers / "nano" / "newlib.h", headers / "picolibc.h"
    is_nano = "--specs=nano.specs" in ldflags and nano.is_file()
    file = pico if pico.is_file() else nano if is_nano else headers / "newlib.h"
    if not file.is_file():
        return frozenset()
    text = file.read_text(encoding="utf-8", errors="replace")
    known = set(re.findall(rf"_({'|'.join(FORMATS)})\b", text))
    has = set(re.findall(rf"^#define _\w*?({'|'.join(FORMATS)})\b", text, re.MULTILINE))
    if file == pico:  # its printf has positions; older headers do not name the option of %n
        return frozenset((known - {"POS_ARGS"} | {"PERCENT_N"}) - has)
    return frozenset(known - has)


# -- the functions of the user's code ----------------------------------------------------------
#
# A static function that nothing calls is not in the object: the compiler drops it silently. So
# `discarded_functions` compiles the sources once more, as ``--no-inline`` would, when an error is
# to be explained or somebody asks for all. pyelftools is imported only when objects are read: that
# takes longer than a build from the cache.

_READERS = ("elf/*.py", "cfunction.py")
"""The modules that read functions: a change of them invalidates the cached results."""


def read_functions(
    spec: BoardSpec,
    cache: Cache,
    objects: Sequence[Object],
    flags: UserFlags,
    sources: Sequence[Path],
) -> tuple[list[CFunction], list[HiddenFunction]]:
    """Return the functions, with a reason if the board's agent cannot call them, and the hidden."""
    package, hashes = Path(cfunction.__file__).parent, FileHashes()
    modules = sorted(path for pattern in _READERS for path in package.glob(pattern))
    readers = [elftools.__version__, *map(hashes.of, modules)]
    names = [[made.path.name, made.sha256] for made in objects]
    place = ("functions", digest(2, readers, names, flags.keep) + ".json")
    known = cache.read(*place)
    if known is None:
        from boardprof.target.elf.functions import functions, hidden_functions

        paths = [made.path for made in objects]
        found = functions(paths, flags.kept_names, sources)
        offered = {fn.name for fn in found}
        hidden = [each for each in hidden_functions(paths) if each.name not in offered]
        data = {"functions": [asdict(fn) for fn in found], "hidden": hidden}
        cache.write(json.dumps(data), *place)
    else:
        data = json.loads(known)
        found = [function_from_json(each) for each in data["functions"]]
        hidden = [HiddenFunction(*each) for each in data["hidden"]]
    return [fit(fn, spec.build.options) for fn in found], hidden


def with_static_of_header(
    spec: BoardSpec, source: Path, function: str | None, options: BuildOptions
) -> BuildOptions:
    """Return options that make the static functions of a header callable.

    ``function``: the one that is wanted; None for all. A source that is not a header keeps its
    options: its functions may be static because its own functions call them.
    """
    if not is_header(source) or not source.is_file():
        return options
    content = source.read_bytes()
    found = discarded_functions(spec, [source], replace(options, sources=()), function)
    own = [each.name for each in found.static if names_one_of(content, [each.name])]
    return replace(options, keep=tuple(dict.fromkeys([*options.keep, *own])))


@dataclass(frozen=True)
class Discarded:
    """The functions that no firmware offers."""

    static: tuple[HiddenFunction, ...] = ()
    mains: tuple[Path, ...] = ()


def discarded_functions(
    spec: BoardSpec,
    sources: Sequence[str | Path],
    options: BuildOptions,
    name: str | None = None,
    verbose: Callable[[str], None] | None = None,
) -> Discarded:
    """Compile C sources so that nothing is discarded; a source that fails is left out.

    ``name``: the only function of interest, which may be inline; None for all that are not inline.
    """
    flags = user_flags(options)
    files = [
        file
        for file in find_sources([*sources, *options.sources]).files
        if language(file) == "c" and (name is None or may_define_one_of(file, flags, [name]))
    ]
    if not files or flags.lto:
        return Discarded()
    compiler = Compiler(spec.build.cc, spec.build.package, Cache(), verbose)
    libc = find_libc(spec, compiler)
    cflags = None if libc is None else libc.cflags
    static: list[HiddenFunction] = []
    mains: list[Path] = []
    for file in files:
        unit = user_unit(spec, file, flags, cflags)
        # Those that are inline are each of each header.
        keep = _KEEP[:1] if name is None and not is_header(file) else _KEEP
        try:
            made = compiler.compile(replace(unit, flags=(*unit.flags, *keep)))
        except BuildError:  # the compiler does not know the flag
            continue
        found, has_main = _read(made.path)
        static += [each for each in found if name is None or each.name == name]
        mains += [file] if has_main else []
    return Discarded(tuple(static), tuple(mains))


def _read(path: Path) -> tuple[list[HiddenFunction], bool]:
    from boardprof.target.elf.functions import hidden_functions

    def facts(elf: ELFFile) -> tuple[set[str], bool]:
        has_main = any(name == "main" for name, _ in global_functions(elf))
        return local_functions(elf), has_main

    found = [read_image(image, facts) for image in images(path)]
    local = {name for names, _ in found for name in names}
    # A function that still has no code is always inlined: nothing can keep it.
    hidden = [each for each in hidden_functions([path]) if each.name in local]
    return hidden, any(has_main for _, has_main in found)


def check_kept(
    flags: UserFlags,
    files: Sequence[Path],
    offered: Collection[str],
    hidden: Mapping[str, str],
    brought: Sequence[Path] = (),
) -> None:
    """Check that each function that the user wants to keep is there."""
    for each in flags.keep:
        at, _, name = each.rpartition(":")
        if at and not any(flags.is_of(each, file) for file in files):
            raise UsageError(
                f"{name} of {at} cannot be kept: {at} is not among the sources.",
                hint=f"the sources are {', '.join(map(str, files))}",
            )
        if name in hidden:
            for path in brought:
                if encodable(name).encode() + b"\0" in path.read_bytes():
                    raise BuildError(
                        f"{name} cannot be kept: {path.name} was compiled elsewhere, and its "
                        "static functions may be specialised for their callers.",
                        hint=f"give the source {hidden[name]} instead, or call {name} from a "
                        "function of your own in that file",
                    )
            raise BuildError(
                f"{name} in {hidden[name]} cannot be compiled out of line.",
                hint="it is always_inline, in C++, or defined by a macro: change that, or call it "
                "from a function of your own",
            )
        if name not in offered:
            raise UnknownNameError("function to keep", name, [*offered, *hidden])


# -- macros that a function depends on -----------------------------------------------------------

_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LINE = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)$")
_IMPLEMENTATION = re.compile(rb"(?m)^[ \t]*#[ \t]*if(?:def\b|\b.*?\bdefined\b)\W*(\w*_IMPL\w*)")
_NEEDED = re.compile(rb"(?<![!\w])defined\s*\(?\s*([A-Za-z_]\w*)|^\s*([A-Za-z_]\w*)\s*$")


def macros_around(source: Path, function: str) -> list[str]:
    """Return the macros that must be defined so that a file defines a function, outermost first.

    Empty if a definition is in the file without such a condition, or if there is none.
    """
    content, begins = _definitions(source, function)
    defined = [content.count(b"\n", 0, begin) for begin in begins]
    found: list[list[str]] = []
    around: list[str | None] = []  # the macro of each condition that is open
    for number, line in enumerate(content.split(b"\n")):
        if (match := _LINE.match(line)) is not None:
            word, rest = match[1], match[2]
            if word.startswith(b"if"):
                around.append(_needed(word, rest))
            elif word == b"endif" and around:
                around.pop()
            elif around:
                around[-1] = _needed(b"if", rest) if word == b"elif" else None
        if number in defined:
            found.append([macro for macro in around if macro is not None])
    return min(found, key=len, default=[])


def has_definition(source: Path, function: str) -> bool:
    """Tell whether a file has a definition with this name, under whatever condition."""
    return bool(_definitions(source, function)[1])


def _definitions(source: Path, function: str) -> tuple[bytes, list[int]]:
    """Return the text of a file without comments, and where definitions of a function begin."""
    content = re.sub(rb"\\\r?\n", b"  ", source.read_bytes())
    content = _COMMENT.sub(lambda match: b"\n" * match[0].count(b"\n") or b" ", content)
    body = re.compile(rb"\b%s\s*\([^;{}]*\)[\s\w()]*\{" % re.escape(encodable(function).encode()))
    return content, [match.start() for match in body.finditer(content)]


def implementation_macros(source: Path) -> list[str]:
    """Return the macros with which a header has its functions, such as ``STB_SUM_IMPLEMENTATION``.

    Empty if a source is not a header.
    """
    if not is_header(source) or not source.is_file():
        return []
    content = _COMMENT.sub(b" ", source.read_bytes())
    return [each.decode() for each in dict.fromkeys(_IMPLEMENTATION.findall(content))]


def _needed(word: bytes, rest: bytes) -> str | None:
    """Return the macro that a condition asks for; None if it asks for something else."""
    if word == b"ifndef":
        return None
    match = re.match(rb"\s*([A-Za-z_]\w*)", rest) if word == b"ifdef" else _NEEDED.search(rest)
    return next(each for each in match.groups() if each).decode() if match else None
