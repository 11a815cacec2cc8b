# SPDX-License-Identifier: Apache-2.0
"""Firmware for a board: the agent, the board's port, and the user's code as functions.

The user's code needs no header of boardprof, and the agent needs no header of the user's.
``bp_table.c`` ties them together. It is generated from the functions in the user's objects.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from boardprof.base.errors import BuildError, UsageError, option
from boardprof.base.files import check_runnable, runtime_dir
from boardprof.target.build.build_errors import (
    MissingHeaderError,
    UndefinedError,
    missing_header,
    source_hint,
)
from boardprof.target.build.build_options import (
    BuildOptions,
    check_database,
    defining_sources,
    effective_flags,
    linked_libraries,
    linker_files,
    source_flags,
    user_flags,
    with_copies,
)
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.build.glue import table_source
from boardprof.target.build.image_check import check_image
from boardprof.target.build.linking import (
    VECTOR,
    Linker,
    edited,
    fallback_library,
    link_without_missing,
    names_to_change,
    renamed,
    renamed_libraries,
    start_needs,
    thin_members,
    with_own_memcpy,
)
from boardprof.target.build.sources import (
    FORMATS,
    RUNTIME,
    agent_flags,
    agent_includes,
    agent_units,
    check_kept,
    find_libc,
    find_sources,
    kept_functions,
    language,
    link_inputs,
    read_functions,
    user_unit,
    with_heap,
)
from boardprof.target.cfunction import CFunction, HiddenFunction, wrapper_name
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.elf.object_file import check_machine, compilers_of
from boardprof.target.toolchain.cache import Cache, FileHashes, digest, prune
from boardprof.target.toolchain.compiler import Compiler, Object, Unit, compiling_in_pool
from boardprof.wire.transport.keyed import read_key

_DEFAULT = BuildOptions()
_T = TypeVar("_T")

_NOT_WANTED = "it is not linked, because only another function was asked for"

Finish = Callable[..., BuiltFirmware]
"""``finish(wanted)`` links the functions of these names and what they need; without names, all."""

_Waiting = tuple[Callable[[], list[Object]], Callable[[], list[Object]]]
"""Two functions that wait for the user's objects and for the agent's, and return them."""


def build(
    spec: BoardSpec,
    sources: Sequence[str | Path] = (),
    options: BuildOptions = _DEFAULT,
    *,
    verbose: Callable[[str], None] | None = None,
) -> BuiltFirmware:
    """Build firmware for a board; whatever is in the cache is not built again.

    Further sources in ``options`` come after ``sources``. With ``-flto`` the build id depends on
    the folder.
    """

    def built(code: BuildOptions) -> BuiltFirmware:
        with Build(spec, sources, code, verbose).begin() as (_, finish):
            return finish()

    firmware, added = finding_headers(options, built)
    return replace(firmware, added=(*added, *firmware.added))


def finding_headers(
    options: BuildOptions, attempt: Callable[[BuildOptions], _T]
) -> tuple[_T, list[str]]:
    """Return what an attempt gives, with each folder of headers that only it lacks, and notes."""
    added: list[str] = []
    while True:
        try:
            return attempt(options), added
        except MissingHeaderError as error:
            if error.folder is None:
                raise
            options, text = with_folder(options, error.header, error.folder)
            added.append(text)


def with_folder(options: BuildOptions, header: str, folder: Path) -> tuple[BuildOptions, str]:
    """Return options with one more folder of headers, and a note."""
    more = replace(options, includes=(*options.includes, folder))
    return more, f"the build adds {option('-I', os.path.relpath(folder))} for {header}"


def link_objects(
    spec: BoardSpec,
    objects: Sequence[Object],
    functions: Sequence[CFunction],
    options: BuildOptions = _DEFAULT,
    *,
    cplusplus: bool = False,
    verbose: Callable[[str], None] | None = None,
) -> BuiltFirmware:
    """Link the user's objects, whose functions are known, with the agent.

    Their global names must not be those of functions that the agent calls. Libraries among the
    sources of ``options`` are linked whole.
    """
    libraries = [path for path in options.sources if Path(path).suffix == ".a"]
    options = replace(options, sources=())
    linking = Build(spec, libraries, options, verbose, needs_libc=True, cplusplus=cplusplus)
    return linking.link(objects, functions)


def serve_agent(
    spec: BoardSpec,
    sources: Sequence[str],
    options: BuildOptions,
    *,
    listen: str | None,
    key_file: str | None = None,
) -> None:
    """Build the agent of a board that is a program on this machine, and become it.

    ``listen``: ``HOST:PORT`` to serve. None for a pseudo-terminal.
    """
    if spec.launch.listen != "board":
        raise UsageError(
            f"{spec.name} cannot serve a port, because it is not a program on this machine.",
            hint=f"`boardprof run -b {spec.name} PATH:FUNCTION` starts it by itself",
        )
    line = ["--pty"] if listen is None else ["--listen", listen]
    line += ["--key-file", key_file] if key_file else []
    if listen is not None:
        read_key(key_file)  # before the build: the agent would refuse it only afterwards
    image = str(build(spec, sources, options).image)
    check_runnable(image)
    os.execv(image, [image, *line])


class Build:
    """One build, or a part of one."""

    def __init__(
        self,
        spec: BoardSpec,
        sources: Sequence[str | Path],
        options: BuildOptions,
        verbose: Callable[[str], None] | None,
        *,
        needs_libc: bool = False,
        cplusplus: bool = False,
    ) -> None:
        """Find the sources and the tools; ``cplusplus``: objects that are linked are in C++."""
        self.read: tuple[Path, ...] = ()  # the sources and headers, once they are compiled
        self._spec = with_heap(spec) if options.heap else spec
        self._sources = find_sources([*sources, *options.sources])
        self._flags = user_flags(options)
        check_database(self._flags.compile_commands, self._sources.files)
        self._cache = Cache()
        self._cc = Compiler(spec.build.cc, spec.build.package, self._cache, verbose)
        self._compilers = {"c": self._cc, "assembler": self._cc}
        if cplusplus or any(language(file) == "c++" for file in self._sources.files):
            name, package = cxx_of(spec)
            self._compilers["c++"] = Compiler(name, package, self._cache, verbose)
        is_any = self._sources.files or self._sources.objects or self._sources.archives
        self._libc = find_libc(spec, self._cc) if needs_libc or is_any else None
        if options.libc == "none" and not spec.build.freestanding:
            raise UsageError(
                f"{spec.name} always links the C library of its system.",
                hint=f"leave out {option('--libc', 'none')}, or use a board without an operating "
                "system",
            )
        self._linked_libc = self._libc if options.libc == "board" else None

    def functions(self) -> tuple[list[CFunction], list[HiddenFunction]]:
        """Return the functions of the sources, and those that are hidden; nothing is linked."""
        user = self._user_units()
        with self._compiling(user, []) as (of_user, _):
            compiled = of_user()
        self.read = _sources(compiled)
        objects = edited(self._cc, compiled, self._flags, self._kept(user))
        found, hidden = self._functions(objects, user, compiled)
        known = {name: source for name, source, _ in hidden}
        check_kept(self._flags, self._sources.files, [fn.name for fn in found], known)
        return found, hidden

    def _kept(self, units: Sequence[Unit]) -> list[list[str]]:
        return kept_functions(units, self._sources.files, self._flags)

    def _user_units(self) -> list[Unit]:
        cflags = None if self._libc is None else self._libc.cflags
        return [user_unit(self._spec, file, self._flags, cflags) for file in self._sources.files]

    @contextmanager
    def begin(self) -> Iterator[tuple[list[CFunction], Finish]]:
        """Give the user's functions once compiled, and what finishes the build.

        An error in the ``with`` block ends the build.
        """
        runtime, user = agent_units(self._spec), self._user_units()
        given = self._sources
        with ExitStack() as compiling:
            of_user, of_agent = compiling.enter_context(self._compiling(user, runtime))
            compiled = of_user()
            if given.objects or given.archives:
                own = (compiled or of_agent())[0].path
                check_machine(self._spec, [*given.objects, *given.archives], own)
            objects = [*compiled, *map(Object.of, given.objects)]
            objects = edited(self._cc, objects, self._flags, self._kept(user))
            archives = edited(self._cc, list(map(Object.of, given.archives)), self._flags)
            self.read = _sources(compiled)
            functions, unseen = self._functions([*objects, *archives], user, compiled)
            hidden = {name: source for name, source, _ in unseen}

            def finish(wanted: Collection[str] | None = None) -> BuiltFirmware:
                agent = of_agent()
                compiling.close()
                names, elsewhere = [fn.name for fn in functions], [*given.objects, *given.archives]
                check_kept(self._flags, given.files, names, hidden, elsewhere)
                units = [*runtime, *user]
                linked = functions if wanted is None else _only(functions, wanted)
                firmware = self._linked(agent, objects, archives, linked, units, hidden)
                compilers = compilers_of([each.path for each in (*objects, *archives)])
                flags = self._effective_flags()
                return replace(firmware, compilers=compilers, flags=flags, sources=self.read)

            yield functions, finish

    def link(self, objects: Sequence[Object], functions: Sequence[CFunction]) -> BuiltFirmware:
        """Link compiled objects, whose functions are known."""
        runtime = agent_units(self._spec)
        with self._compiling([], runtime) as (_, of_agent):
            agent = of_agent()
        archives = edited(self._cc, list(map(Object.of, self._sources.archives)), self._flags)
        return self._linked(agent, objects, archives, functions, runtime, {}, named=archives)

    def _linked(
        self,
        agent: Sequence[Object],
        objects: Sequence[Object],
        archives: Sequence[Object],
        functions: Sequence[CFunction],
        units: Sequence[Unit],
        hidden: Mapping[str, str],
        named: Sequence[Object] | None = None,
    ) -> BuiltFirmware:
        """Link the agent and the user's code; the firmware says nothing yet on their compilers.

        ``named``: what may have names of functions that the agent calls; None for all of it.
        """
        fallback = fallback_library(self._cc, agent)
        if fallback is not None:
            agent = with_own_memcpy(self._cc, agent)
        hashes = FileHashes()
        linked = {str(path): hashes.of(path) for path in linker_files(self._flags.linker)}
        inputs = {**link_inputs(self._spec), **linked}
        theirs = [*objects, *archives]
        build_id = self._build_id(units, [*agent, *theirs], inputs, functions)
        taken = linked_libraries(self._flags.linker)
        parts = [part for path in taken for part in thin_members(path)]
        every = [*(theirs if named is None else named), *parts]
        names = names_to_change(self._cache, agent, every, self._flags.lto)
        copies = renamed_libraries(self._cc, self._cache, taken, names)
        called = [fn.symbol for fn in functions if fn.reason is None]
        needs = start_needs(self._spec, self._cache, [*theirs, *parts], called)
        flags = replace(self._flags, linker=with_copies(self._flags.linker, copies))
        cpp, hint = "c++" in self._compilers, self._no_libc()
        linker = Linker(
            self._spec, self._cc, self._cache, flags, self._linked_libc, cpp, fallback, hint, *needs
        )
        before = [*agent, *renamed(self._cc, objects, names)]
        libraries = renamed(self._cc, archives, names)

        def link(offered: Sequence[CFunction]) -> tuple[Path, str | None]:
            tables = [self._cc.compile(self._table(offered, build_id))]
            linked = [*before, *renamed(self._cc, tables, names)]
            return linker.link(linked, libraries, digest(inputs), hidden)

        paths = [each.path for each in theirs]
        try:
            (image, libc), offered, missing = link_without_missing(
                self._cache, functions, paths, build_id, link
            )
        except UndefinedError as error:
            given = self._flags.compile_commands
            known = defining_sources(self._sources.files, error.symbols, given)
            error.hint = source_hint(len(error.symbols), known) if known else error.hint
            raise
        lacks = frozenset(FORMATS) if self._libc is None else self._libc.lacks
        libc_lacks = check_image(self._spec, self._cache, image, theirs, lacks=lacks)
        commands = tuple(each for compiler in self._all_compilers() for each in compiler.commands)
        if commands:  # or the cache has not grown
            prune(self._cache.root)
        made = BuiltFirmware(
            image, build_id, tuple(offered), self._spec, commands, dict(hidden), libc
        )
        unconnected = tuple(name for name in names if name.startswith(VECTOR))
        return replace(made, missing=missing, libc_lacks=libc_lacks, unconnected=unconnected)

    def _no_libc(self) -> str | None:
        """Return a hint on how to link a C library. None if the board has none."""
        package = self._spec.build.libc_package
        if self._libc is not None:
            return f"leave out {option('--libc', 'none')} to link functions of the C library"
        if package is not None:
            return f"install the package {package} for functions of the C library"
        return None

    def _effective_flags(self) -> str | None:
        """Return the flags of the user's sources; None if there are only objects."""
        if not self._sources.files:
            return None
        levels = [flag for flag in self._spec.build.cflags if flag.startswith("-O")]
        of_build = source_flags(self._sources.files[0], self._flags.compile_commands).taken
        return effective_flags(shlex.join([*levels, *of_build, *self._flags.compiler]))

    def _all_compilers(self) -> list[Compiler]:
        return list(dict.fromkeys(self._compilers.values()))

    @contextmanager
    def _compiling(self, user: Sequence[Unit], runtime: Sequence[Unit]) -> Iterator[_Waiting]:
        """Compile on all processors, the user's code first; yield functions to wait for either."""
        units = [(self._compilers[language(Path(unit.source))], unit) for unit in user]
        units += [(self._cc, unit) for unit in runtime]
        known = [cc.find(unit) for cc, unit in units]
        made = [each for each in known if each is not None]
        if len(made) == len(units):
            yield partial(list, made[: len(user)]), partial(list, made[len(user) :])
            return
        what = f"compiling for {self._spec.name}"
        try:
            with compiling_in_pool(what, units, known) as wait:
                yield partial(wait, 0, len(user)), partial(wait, len(user), len(units))
        except BuildError as error:
            files = self._sources.files
            folders = [file.parent for file in files]
            missing = missing_header(self._spec, error, self._libc, folders)
            raise (missing or error) from error

    def _functions(
        self, objects: Sequence[Object], units: Sequence[Unit], compiled: Sequence[Object]
    ) -> tuple[list[CFunction], list[HiddenFunction]]:
        """Return the functions of the user's objects, and those that are hidden.

        ``units`` and ``compiled``: the sources among them, before they were edited.
        """
        given = self._sources
        sources = [*given.files, *given.objects, *given.archives]
        found, hidden = read_functions(self._spec, self._cache, objects, self._flags, sources)
        for unit, made in zip(units, compiled, strict=True):
            found = with_conventions(
                self._compilers[language(Path(unit.source))], unit, made, found
            )
        return found, hidden

    def _build_id(
        self,
        units: Sequence[Unit],
        objects: Sequence[Object],
        inputs: Mapping[str, str | None],
        functions: Sequence[CFunction],
    ) -> bytes:
        """Return 8 bytes that identify everything that the image depends on.

        Sources and headers count through the objects, which have no paths: a change that does not
        change an object does not change the id.
        """
        made = [[each.path.name, each.sha256] for each in objects]
        names = [[unit.source, unit.flags] for unit in units]
        versions = [each.version for each in self._all_compilers()]
        libc = None if self._linked_libc is None else self._linked_libc.version
        board = asdict(self._spec.build)
        left_out = [fn.name for fn in functions if fn.reason == _NOT_WANTED]
        text = digest(
            *(self._spec.name, board, versions, names, made, inputs, self._flags.linker, libc),
            *([left_out] if left_out else []),
        )
        return bytes.fromhex(text)[:8]

    def _table(self, functions: Sequence[CFunction], build_id: bytes) -> Unit:
        """Write ``bp_table.c`` to the cache, where users can read it, and return its unit."""
        spec, board = self._spec, self._spec.build
        mtu = board.options["mtu"]
        text = table_source(spec.name, functions, board.collectors, build_id, mtu)

        path = self._cache.written("bp_table.c", text, "tables")
        roots = ((RUNTIME, runtime_dir()),)
        return Unit(path.parent, path.name, agent_flags(spec)(path), agent_includes(spec), roots)


def _only(functions: Sequence[CFunction], wanted: Collection[str]) -> list[CFunction]:
    """Return the functions, with a reason for those that the linker may discard."""
    return [
        fn if fn.name in wanted or fn.reason is not None else replace(fn, reason=_NOT_WANTED)
        for fn in functions
    ]


def _sources(compiled: Sequence[Object]) -> tuple[Path, ...]:
    """Return the user's files, each once, without boardprof's own."""
    every = dict.fromkeys(path for each in compiled for path in each.sources)
    return tuple(path for path in every if not path.is_relative_to(runtime_dir()))


def cxx_of(spec: BoardSpec) -> tuple[str, str]:
    """Return the board's C++ compiler and its package; its name follows the C compiler's."""
    board = spec.build
    name = board.cxx or re.sub(r"gcc(?=(-[\d.]+)?$)", "g++", board.cc)
    if name == board.cc:
        name = re.sub(r"clang(?=(-[\d.]+)?$)", "clang++", board.cc)
    own = "g++" if board.package.startswith("gcc") and name.startswith("g++") else board.package
    return name, board.cxx_package or own


# -- calling conventions -------------------------------------------------------------------------

# GCC's debug information does not have these attributes. So a source that names one is given to
# the compiler once more, with a question for each function.


class _Convention(NamedTuple):
    attribute: str
    where: str  # condition of the preprocessor: the attribute differs from what the agent does
    says: str
    is_of_floats: bool = False  # it changes nothing for integers and pointers
    has_wrapper: bool = True  # C code can call it


_PLACES = "it takes its arguments in other places than the agent puts them"
_CONVENTIONS = (
    _Convention("ms_abi", "defined __x86_64__", _PLACES),
    _Convention("preserve_none", "1", _PLACES),
    *(
        _Convention(name, "defined __i386__", _PLACES)
        for name in ("regparm", "fastcall", "stdcall", "thiscall", "sseregparm")
    ),
    _Convention('pcs("aapcs")', "defined __ARM_PCS_VFP", _PLACES, is_of_floats=True),
    _Convention("no_callee_saved_registers", "1", "it destroys registers of its caller"),
    _Convention(
        *("interrupt", "defined __riscv || defined __x86_64__", "it is an interrupt handler"),
        has_wrapper=False,
    ),
)
_WORDS = re.compile(
    rb"\b_{0,2}(%s)_{0,2}\b"
    % b"|".join(re.match(r"\w+", each.attribute)[0].encode() for each in _CONVENTIONS)  # type: ignore[index]
)
_ANSWER = re.compile(r'assertion failed: "?boardprof: (\d+) (\d+)\b')


def with_conventions(
    compiler: Compiler, unit: Unit, compiled: Object, functions: Sequence[CFunction]
) -> list[CFunction]:
    """Return functions, with a reason for those that ``unit`` gives another calling convention."""
    flags = " ".join(unit.flags).encode("utf-8", "surrogateescape")
    texts = chain([flags], (path.read_bytes() for path in compiled.sources))
    if language(Path(unit.source)) not in ("c", "c++") or not any(map(_WORDS.search, texts)):
        return list(functions)
    asked = [fn.name.partition("(")[0] for fn in functions if fn.reason is None]
    questions = "\n".join(_questions(asked))
    hashes = FileHashes()
    read = [hashes.of(path) for path in compiled.sources]
    told = compiler.errors(unit, questions, digest(unit.flags, read, questions))
    found = {asked[int(fn)]: int(at) for fn, at in _ANSWER.findall(told)}
    return [_refused(fn, found) for fn in functions]


def _questions(names: Sequence[str]) -> Iterator[str]:
    yield "#ifdef __cplusplus\n#define _Static_assert static_assert\n#endif"
    for at, each in enumerate(_CONVENTIONS):
        yield f"#if {each.where}"
        for number, name in enumerate(names):
            has = f"__builtin_has_attribute({name}, {each.attribute})"
            yield f'_Static_assert(!{has}, "boardprof: {number} {at}");'
        yield "#endif"


def _refused(fn: CFunction, found: Mapping[str, int]) -> CFunction:
    at = found.get(fn.name.partition("(")[0])
    if at is None or fn.reason is not None:
        return fn
    convention = _CONVENTIONS[at]
    kinds = [*(parameter.type for parameter in fn.parameters), fn.result]
    may_have_floats = any(k and (k.by_value or k.text in ("f32", "f64")) for k in kinds)
    if convention.is_of_floats and not may_have_floats:
        return fn
    reason = f"its calling convention is {convention.attribute}: {convention.says}"
    return fn.refused(reason, _wrapper(fn) if convention.has_wrapper else "")


def _wrapper(fn: CFunction) -> str:
    """Return the source of ``NAME_wrapper``; "" if a type has no name that is known here."""
    kinds = [*(parameter.type for parameter in fn.parameters), fn.result]
    if fn.linkage or any(kind and kind.by_value for kind in kinds):
        return ""
    taken = ", ".join(f"{each.type.c_type} {each.name}" for each in fn.parameters) or "void"
    given = ", ".join(each.name for each in fn.parameters)
    result = "void" if fn.result is None else fn.result.c_type
    call = f"{'return ' if fn.result else ''}{fn.name}({given});"
    made = f"{result} {wrapper_name(fn.name)}({taken}) {{ {call} }}"
    return f"#include <stdint.h>\n{made}" if "int" in f"{result} {taken}" else made
