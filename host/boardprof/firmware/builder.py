# SPDX-License-Identifier: Apache-2.0
"""Firmware for a board: the agent, the board's port, and the user's code as functions.

The user's code needs no header of boardprof; the agent sees none of the user's. What ties them is
``bp_table.c``, generated after the user's objects have been asked for their functions.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from boardprof.boards.board_file import BoardSpec
from boardprof.cfunction import CFunction
from boardprof.elf.compilers import compilers_of
from boardprof.elf.machine import check_machine
from boardprof.errors import BuildError, UsageError
from boardprof.firmware.agent_sources import agent_flags, agent_includes, agent_units, link_inputs
from boardprof.firmware.build_options import BuildOptions
from boardprof.firmware.firmware import Firmware
from boardprof.firmware.glue import table_source
from boardprof.firmware.leaving_out import link_what_can_be
from boardprof.firmware.libc import find_libc, missing_header
from boardprof.firmware.linker_files import (
    digests,
    libraries_taken,
    linker_files,
    with_copies,
)
from boardprof.firmware.linking import Linker
from boardprof.firmware.memory_functions import fallback_library, with_own_memory
from boardprof.firmware.prebuilt import check_constructors, check_kept, edited
from boardprof.firmware.read_functions import Hidden, read_functions
from boardprof.firmware.same_names import names_to_change, parts_of, renamed, renamed_libraries
from boardprof.firmware.sources import (
    RUNTIME,
    find_sources,
    keeps_functions,
    language,
    user_unit,
)
from boardprof.firmware.sweep import effective_flags
from boardprof.firmware.user_flags import user_flags
from boardprof.progress import activity
from boardprof.resources import runtime_dir
from boardprof.toolchain.cache import Cache, FileHashes, digest
from boardprof.toolchain.compile_unit import Unit
from boardprof.toolchain.prune import prune
from boardprof.toolchain.toolchain import Compiler, Object

__all__ = ["Firmware", "build", "source_functions"]

_DEFAULT = BuildOptions()

OnFunctions = Callable[[Sequence[CFunction]], None]

_Waiting = tuple[Callable[[], list[Object]], Callable[[], list[Object]]]
"""Return the user's objects, and the agent's, once they are compiled."""


def build(
    spec: BoardSpec,
    sources: Sequence[str | Path] = (),
    options: BuildOptions = _DEFAULT,
    *,
    verbose: Callable[[str], None] | None = None,
    on_functions: OnFunctions | None = None,
) -> Firmware:
    """Build firmware for a board, as far as the cache does not have it.

    Args:
        spec: the board.
        sources: the user's C, C++ and assembler files, folders of them, objects and libraries.
        options: how; further sources are behind ``sources``. With ``-flto`` the build id is
            another one in another folder.
        verbose: is given each command before it runs, and compilers' warnings.
        on_functions: is given the user's functions when their code is compiled, long before the
            image may be linked; what it raises ends the build.

    Raises:
        UsageError: there is no such source, or a define is none.
        MissingToolError: the board's compiler, or its C library, is not installed.
        BuildError: something does not compile or link, with the compiler's own text.
    """
    return _Build(spec, sources, options, verbose).run(on_functions)


def source_functions(
    spec: BoardSpec,
    sources: Sequence[str | Path],
    options: BuildOptions = _DEFAULT,
    verbose: Callable[[str], None] | None = None,
) -> tuple[list[CFunction], list[Hidden]]:
    """Compile sources as `build` does, and link nothing.

    Returns:
        Their functions, and those that are hidden.

    Raises:
        BoardprofError: as `build`.
    """
    return _Build(spec, sources, options, verbose).functions()


class _Build:
    """One build; its methods are its steps, in order."""

    def __init__(
        self,
        spec: BoardSpec,
        sources: Sequence[str | Path],
        options: BuildOptions,
        verbose: Callable[[str], None] | None,
    ) -> None:
        self._spec = spec
        self._sources = find_sources([*sources, *options.sources])
        self._flags = user_flags(options)
        self._cache = Cache()
        self._cc = Compiler(spec.build.cc, spec.build.package, self._cache, verbose)
        self._compilers = {"c": self._cc, "assembler": self._cc}
        if any(language(file) == "c++" for file in self._sources.files):
            name, package = _cxx(spec)
            self._compilers["c++"] = Compiler(name, package, self._cache, verbose)
        self._libc = find_libc(spec, self._cc) if self._sources.named else None
        if options.libc == "none" and not spec.build.freestanding:
            raise UsageError(
                f"{spec.name} cannot do without a C library: it is the system's.",
                hint="leave out --libc none, or take a bare board",
            )
        self._linked_libc = self._libc if options.libc == "board" else None

    def functions(self) -> tuple[list[CFunction], list[Hidden]]:
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
            objects = [*compiled, *map(_object, brought.objects)]
            objects = edited(self._cc, objects, self._flags, self._kept(user))
            archives = edited(self._cc, list(map(_object, brought.archives)), self._flags)
            functions, unseen = self._functions([*objects, *archives])
            if on_functions is not None:
                on_functions(functions)
            agent = of_agent()
        hidden = {name: source for name, source, _ in unseen}
        elsewhere = [*brought.objects, *brought.archives]
        check_kept(self._flags, brought.files, [fn.name for fn in functions], hidden, elsewhere)
        fallback = fallback_library(self._cc, self._cache, agent)
        if fallback is not None:
            agent = with_own_memory(self._cc, agent)
        inputs = {**link_inputs(self._spec), **digests(linker_files(self._flags.linker))}
        theirs = [*objects, *archives]
        build_id = self._build_id([*runtime, *user], [*agent, *theirs], inputs)
        link = self._link_step(agent, objects, archives, fallback, inputs, hidden, build_id)
        paths = [each.path for each in theirs]
        (image, libc), functions, missing = link_what_can_be(
            self._cache, functions, paths, build_id, link
        )
        called = [fn.name for fn in functions if fn.reason is None]
        check_constructors(self._spec, self._cache, image, theirs, called)
        commands = [tuple(c) for each in self._all_compilers() for c in each.commands]
        if commands:  # or the cache has not grown
            prune(self._cache.root)
        return Firmware(
            image,
            build_id,
            tuple(functions),
            self._spec,
            tuple(commands),
            hidden,
            libc,
            compilers_of(paths),
            self._effective_flags(),
            missing,
            _sources(compiled),
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
    ) -> Callable[[Sequence[CFunction]], tuple[Path, str | None]]:
        """Return what links the agent and the user's code, with a table of the functions offered.

        Names that both have are the agent's own by then.
        """
        taken = libraries_taken(self._flags.linker)
        every = [*objects, *archives, *(part for path in taken for part in parts_of(path))]
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
        """Return what would link a C library; None where nothing would."""
        package = self._spec.build.libc_package
        if self._libc is not None:
            return "what is of the C library is linked without --libc none"
        if package is not None:
            return f"what is of the C library comes with the package {package}"
        return None

    def _effective_flags(self) -> str | None:
        """Return the flags of the user's sources; None where all was compiled before."""
        if not self._sources.files:
            return None
        levels = [flag for flag in self._spec.build.cflags if flag.startswith("-O")]
        return effective_flags(shlex.join([*levels, *self._flags.compiler]))

    def _all_compilers(self) -> list[Compiler]:
        return list(dict.fromkeys(self._compilers.values()))

    @contextmanager
    def _compiling(self, user: Sequence[Unit], runtime: Sequence[Unit]) -> Iterator[_Waiting]:
        """Compile on all processors, the user's code first; lend what waits for either.

        Of several errors, that of the first unit is raised.
        """
        units = [(self._compilers[language(Path(unit.source))], unit) for unit in user]
        units += [(self._cc, unit) for unit in runtime]
        what, done = f"compiling for {self._spec.name}", itertools.count(1)
        with activity(what, len(units)) as step, ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(cc.compile, unit) for cc, unit in units]

            def made(jobs: Sequence[Future[Object]]) -> list[Object]:
                for job in as_completed(jobs):
                    if job.exception() is not None:
                        break
                    step(next(done))
                return [job.result() for job in jobs]

            try:
                yield partial(made, jobs[: len(user)]), partial(made, jobs[len(user) :])
            except BuildError as error:
                pool.shutdown(cancel_futures=True)
                missing = missing_header(self._spec, error, self._libc)
                raise (missing or error) from error
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _functions(self, objects: Sequence[Object]) -> tuple[list[CFunction], list[Hidden]]:
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
        """Return 8 bytes over all that decides the image.

        The contents of sources and headers are in by way of the objects, which are
        free of paths: what does not change an object changes no id.
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
        """Write ``bp_table.c`` to the cache, where it can be read, and return its unit."""
        spec = self._spec
        text = table_source(spec.name, functions, spec.build.collectors, build_id)
        name, place = "bp_table.c", ("tables", digest(text))
        kept = self._cache.find(name, *place)
        if kept is None:
            with self._cache.scratch() as scratch:
                (scratch / name).write_text(text, encoding="utf-8")
                kept = self._cache.store(scratch / name, *place)
        path = kept.resolve()
        roots = ((RUNTIME, runtime_dir()),)
        return Unit(path.parent, path.name, agent_flags(spec)(path), agent_includes(spec), roots)


def _sources(compiled: Sequence[Object]) -> tuple[Path, ...]:
    """Return the user's files, each once; boardprof itself may be installed among them."""
    every = dict.fromkeys(path for each in compiled for path in each.sources)
    return tuple(path for path in every if not path.is_relative_to(runtime_dir()))


def _object(path: Path) -> Object:
    return Object(path, FileHashes().of(path) or "")


def _cxx(spec: BoardSpec) -> tuple[str, str]:
    """Return the board's C++ compiler, which is called as its C compiler is, and its package."""
    board = spec.build
    name = board.cxx or re.sub(r"gcc(?=(-[\d.]+)?$)", "g++", board.cc)
    if name == board.cc:
        name = re.sub(r"clang(?=(-[\d.]+)?$)", "clang++", board.cc)
    own = "g++" if board.package.startswith("gcc") and name.startswith("g++") else board.package
    return name, board.cxx_package or own
