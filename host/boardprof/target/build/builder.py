# SPDX-License-Identifier: Apache-2.0
"""Firmware for a board: the agent, the board's port, and the user's code as functions.

The user's code needs no header of boardprof, and the agent needs no header of the user's.
``bp_table.c`` ties them together. It is generated from the functions in the user's objects.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from boardprof.base.errors import BuildError, UsageError
from boardprof.base.progress import activity
from boardprof.base.resources import runtime_dir
from boardprof.target.build.build_errors import missing_header
from boardprof.target.build.build_options import (
    BuildOptions,
    digests,
    effective_flags,
    libraries_taken,
    linker_files,
    user_flags,
    with_copies,
)
from boardprof.target.build.firmware import Firmware
from boardprof.target.build.functions import agent_mtu, check_kept, read_functions
from boardprof.target.build.glue import table_source
from boardprof.target.build.linking import Linker, check_constructors, link_what_can_be
from boardprof.target.build.sources import (
    RUNTIME,
    agent_flags,
    agent_includes,
    agent_units,
    find_libc,
    find_sources,
    keeps_functions,
    language,
    link_inputs,
    user_unit,
    with_heap,
)
from boardprof.target.build.symbol_renaming import (
    edited,
    fallback_library,
    names_to_change,
    parts_of,
    renamed,
    renamed_libraries,
    with_own_memory,
)
from boardprof.target.cfunction import CFunction, HiddenFunction
from boardprof.target.descriptions.board_file import BoardSpec
from boardprof.target.elf.identity import check_machine, compilers_of
from boardprof.target.toolchain.cache import Cache, digest, prune
from boardprof.target.toolchain.compile_unit import Unit
from boardprof.target.toolchain.compiler import Compiler, Object
from boardprof.wire.transport.keyed import read_key

_DEFAULT = BuildOptions()

OnFunctions = Callable[[Sequence[CFunction]], None]

_Waiting = tuple[Callable[[], list[Object]], Callable[[], list[Object]]]
"""Two functions that wait for the user's objects and for the agent's, and return them."""

_Wait = Callable[[int, int], list[Object]]
"""Return the objects of the units from one number to before another, once they are there."""


def build(
    spec: BoardSpec,
    sources: Sequence[str | Path] = (),
    options: BuildOptions = _DEFAULT,
    *,
    verbose: Callable[[str], None] | None = None,
    on_functions: OnFunctions | None = None,
) -> Firmware:
    """Build firmware for a board; whatever is in the cache is not built again.

    Args:
        spec: the board.
        sources: the user's C, C++ and assembler files, folders of them, objects and libraries.
        options: how; further sources come after ``sources``. With ``-flto`` the build id depends
            on the folder.
        verbose: gets each command before it runs, and compilers' warnings.
        on_functions: gets the user's functions once their code is compiled, which may be long
            before the image is linked; an exception in it ends the build.

    Raises:
        UsageError: a source does not exist, or a define is invalid.
        MissingToolError: the board's compiler, or its C library, is not installed.
        BuildError: something does not compile or link, with the compiler's own text.
    """
    return _Build(spec, sources, options, verbose).run(on_functions)


def source_functions(
    spec: BoardSpec,
    sources: Sequence[str | Path],
    options: BuildOptions = _DEFAULT,
    verbose: Callable[[str], None] | None = None,
) -> tuple[list[CFunction], list[HiddenFunction]]:
    """Compile sources as `build` does, and link nothing.

    Returns:
        Their functions, and those that are hidden.

    Raises:
        BoardprofError: as `build`.
    """
    return _Build(spec, sources, options, verbose).functions()


def link_objects(
    spec: BoardSpec,
    objects: Sequence[Object],
    functions: Sequence[CFunction],
    options: BuildOptions = _DEFAULT,
    *,
    cplusplus: bool = False,
    verbose: Callable[[str], None] | None = None,
) -> Firmware:
    """Link objects whose functions are known with the agent.

    Their global names must not be those of functions that the agent calls.

    Args:
        spec: the board.
        objects: the user's; each was made by this board's compiler.
        functions: of the objects.
        options: of the link. Libraries among the sources are linked whole.
        cplusplus: whether there is C++ among the sources.
        verbose: gets each command before it runs.

    Raises:
        MissingToolError: the board's compiler, or its C library, is not installed.
        BuildError: they do not link, with the linker's own text.
    """
    libraries = [path for path in options.sources if Path(path).suffix == ".a"]
    options = replace(options, sources=())
    linking = _Build(spec, libraries, options, verbose, needs_libc=True, cplusplus=cplusplus)
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

    Does not return.

    Args:
        spec: the board.
        sources: as for `build`.
        options: as for `build`.
        listen: ``HOST:PORT`` to serve. None for a pseudo-terminal.
        key_file: see `boardprof.connect`.

    Raises:
        UsageError: the board is not such a program, or the key is not valid.
        BoardprofError: as `build`.
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
    os.execv(image, [image, *line])


class _Build:
    """One build; its methods are its steps, in order."""

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
        self._spec = with_heap(spec) if options.heap else spec
        self._sources = find_sources([*sources, *options.sources])
        self._flags = user_flags(options)
        self._cache = Cache()
        self._cc = Compiler(spec.build.cc, spec.build.package, self._cache, verbose)
        self._compilers = {"c": self._cc, "assembler": self._cc}
        if cplusplus or any(language(file) == "c++" for file in self._sources.files):
            name, package = cxx_of(spec)
            self._compilers["c++"] = Compiler(name, package, self._cache, verbose)
        needs_libc = needs_libc or self._sources.named
        self._libc = find_libc(spec, self._cc) if needs_libc else None
        if options.libc == "none" and not spec.build.freestanding:
            raise UsageError(
                f"{spec.name} always links the C library of its system.",
                hint="leave out --libc none, or use a board without an operating system",
            )
        self._linked_libc = self._libc if options.libc == "board" else None

    def functions(self) -> tuple[list[CFunction], list[HiddenFunction]]:
        """Return the functions of the sources, and those that are hidden."""
        user = self._user_units()
        with self._compiling(user, []) as (of_user, _):
            objects = edited(self._cc, of_user(), self._flags, self._kept(user))
        found, hidden = self._functions(objects)
        known = {name: source for name, source, _ in hidden}
        check_kept(self._flags, self._sources.files, [fn.name for fn in found], known)
        return found, hidden

    def _kept(self, units: Sequence[Unit]) -> list[list[str]]:
        """Return for each unit the static functions that are made global."""
        pairs = zip(units, self._sources.files, strict=True)
        return [self._flags.kept_in(file) if keeps_functions(unit) else [] for unit, file in pairs]

    def _user_units(self) -> list[Unit]:
        cflags = None if self._libc is None else self._libc.cflags
        return [user_unit(self._spec, file, self._flags, cflags) for file in self._sources.files]

    def run(self, on_functions: OnFunctions | None) -> Firmware:
        runtime, user = agent_units(self._spec), self._user_units()
        brought = self._sources
        with self._compiling(user, runtime) as (of_user, of_agent):
            compiled = of_user()
            if brought.objects or brought.archives:
                own = (compiled or of_agent())[0].path
                check_machine(self._spec, [*brought.objects, *brought.archives], own)
            objects = [*compiled, *map(Object.of, brought.objects)]
            objects = edited(self._cc, objects, self._flags, self._kept(user))
            archives = edited(self._cc, list(map(Object.of, brought.archives)), self._flags)
            functions, unseen = self._functions([*objects, *archives])
            if on_functions is not None:
                on_functions(functions)
            agent = of_agent()
        hidden = {name: source for name, source, _ in unseen}
        elsewhere = [*brought.objects, *brought.archives]
        check_kept(self._flags, brought.files, [fn.name for fn in functions], hidden, elsewhere)
        firmware = self._linked(agent, objects, archives, functions, [*runtime, *user], hidden)
        paths = [each.path for each in (*objects, *archives)]
        return replace(
            firmware,
            compilers=compilers_of(paths),
            flags=self._effective_flags(),
            sources=_sources(compiled),
        )

    def link(self, objects: Sequence[Object], functions: Sequence[CFunction]) -> Firmware:
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
    ) -> Firmware:
        """Link the agent and the user's code; the firmware says nothing yet on their compilers.

        ``named``: what may have names of functions that the agent calls; None for all of it.
        """
        fallback = fallback_library(self._cc, agent)
        if fallback is not None:
            agent = with_own_memory(self._cc, agent)
        inputs = {**link_inputs(self._spec), **digests(linker_files(self._flags.linker))}
        theirs = [*objects, *archives]
        build_id = self._build_id(units, [*agent, *theirs], inputs)
        named = theirs if named is None else named
        link = self._link_step(agent, objects, archives, fallback, inputs, hidden, build_id, named)
        paths = [each.path for each in theirs]
        (image, libc), offered, missing = link_what_can_be(
            self._cache, functions, paths, build_id, link
        )
        called = [fn.symbol for fn in offered if fn.reason is None]
        check_constructors(self._spec, self._cache, image, theirs, called)
        commands = [tuple(c) for each in self._all_compilers() for c in each.commands]
        if commands:  # or the cache has not grown
            prune(self._cache.root)
        return Firmware(
            image,
            build_id,
            tuple(offered),
            self._spec,
            tuple(commands),
            dict(hidden),
            libc,
            missing=missing,
        )

    def _link_step(
        self,
        agent: Sequence[Object],
        objects: Sequence[Object],
        archives: Sequence[Object],
        fallback: Object | None,
        inputs: Mapping[str, str | None],
        hidden: Mapping[str, str],
        build_id: bytes,
        named: Sequence[Object],
    ) -> Callable[[Sequence[CFunction]], tuple[Path, str | None]]:
        """Return a function that links the agent and the user's code with a table of functions.

        The user's functions that have names of the agent's are renamed first.
        """
        taken = libraries_taken(self._flags.linker)
        every = [*named, *(part for path in taken for part in parts_of(path))]
        names = names_to_change(self._cache, agent, every, self._flags.lto)
        copies = renamed_libraries(self._cc, self._cache, taken, names)
        flags = replace(self._flags, linker=with_copies(self._flags.linker, copies))
        cplusplus = "c++" in self._compilers
        linker = Linker(
            self._spec,
            self._cc,
            self._cache,
            flags,
            self._linked_libc,
            cplusplus,
            fallback,
            self._no_libc(),
        )
        users = renamed(self._cc, objects, names)
        libraries = renamed(self._cc, archives, names)

        def link(offered: Sequence[CFunction]) -> tuple[Path, str | None]:
            table = self._cc.compile(self._table(offered, build_id))
            tables = renamed(self._cc, [table], names)
            return linker.link([*agent, *users, *tables], libraries, digest(inputs), hidden)

        return link

    def _no_libc(self) -> str | None:
        """Return a hint on how to link a C library. None if the board has none."""
        package = self._spec.build.libc_package
        if self._libc is not None:
            return "leave out --libc none to link functions of the C library"
        if package is not None:
            return f"install the package {package} for functions of the C library"
        return None

    def _effective_flags(self) -> str | None:
        """Return the flags of the user's sources; None if there are only objects."""
        if not self._sources.files:
            return None
        levels = [flag for flag in self._spec.build.cflags if flag.startswith("-O")]
        return effective_flags(shlex.join([*levels, *self._flags.compiler]))

    def _all_compilers(self) -> list[Compiler]:
        return list(dict.fromkeys(self._compilers.values()))

    @contextmanager
    def _compiling(self, user: Sequence[Unit], runtime: Sequence[Unit]) -> Iterator[_Waiting]:
        """Compile on all processors, the user's code first; yield functions that wait for either.

        If several units fail, the error of the first one is raised.
        """
        units = [(self._compilers[language(Path(unit.source))], unit) for unit in user]
        units += [(self._cc, unit) for unit in runtime]
        known = [cc.find(unit) for cc, unit in units]
        made = [each for each in known if each is not None]
        if len(made) == len(units):
            yield partial(list, made[: len(user)]), partial(list, made[len(user) :])
            return
        what = f"compiling for {self._spec.name}"
        try:
            with _in_pool(what, units, known) as wait:
                yield partial(wait, 0, len(user)), partial(wait, len(user), len(units))
        except BuildError as error:
            missing = missing_header(self._spec, error, self._libc)
            raise (missing or error) from error

    def _functions(self, objects: Sequence[Object]) -> tuple[list[CFunction], list[HiddenFunction]]:
        """Return the functions of the user's objects, and those that are hidden."""
        brought = self._sources
        sources = [*brought.files, *brought.objects, *brought.archives]
        return read_functions(self._spec, self._cache, objects, self._flags, sources)

    def _build_id(
        self,
        units: Sequence[Unit],
        objects: Sequence[Object],
        inputs: Mapping[str, str | None],
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
        text = digest(
            self._spec.name, board, versions, names, made, inputs, self._flags.linker, libc
        )
        return bytes.fromhex(text)[:8]

    def _table(self, functions: Sequence[CFunction], build_id: bytes) -> Unit:
        """Write ``bp_table.c`` to the cache, where users can read it, and return its unit."""
        spec = self._spec
        text = table_source(spec.name, functions, spec.build.collectors, build_id, agent_mtu(spec))

        def written(path: Path) -> None:
            path.write_text(text, encoding="utf-8")

        path = self._cache.made("bp_table.c", written, "tables", digest(text)).resolve()
        roots = ((RUNTIME, runtime_dir()),)
        return Unit(path.parent, path.name, agent_flags(spec)(path), agent_includes(spec), roots)


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


@contextmanager
def _in_pool(
    what: str, units: Sequence[tuple[Compiler, Unit]], known: Sequence[Object | None]
) -> Iterator[_Wait]:
    """Compile units on all processors, the first ones first, while the context lasts.

    Of several errors, that of the first unit is raised.

    Args:
        what: name of the work, for progress.
        units: each with its compiler.
        known: the objects that need not be compiled. None if this unit has no object.
    """
    # Here, because most builds compile nothing: pools of threads take a while to import.
    from concurrent.futures import Future, ThreadPoolExecutor, as_completed

    done = itertools.count(1)
    with activity(what, len(units)) as step, ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            Future[Object]() if made else pool.submit(compiler.compile, unit)
            for (compiler, unit), made in zip(units, known, strict=True)
        ]
        for job, made in zip(jobs, known, strict=True):
            if made is not None:
                job.set_result(made)

        def wait(first: int, end: int) -> list[Object]:
            for job in as_completed(jobs[first:end]):
                if job.exception() is not None:
                    break
                step(next(done))
            return [job.result() for job in jobs[first:end]]

        try:
            yield wait
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):  # a compiler may take minutes
                for cc, _ in units:
                    cc.stop()
            raise
