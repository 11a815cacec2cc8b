# SPDX-License-Identifier: Apache-2.0
"""The link of an image: symbols renamed, without the C library or with it, without what is missing.

The agent and the user's code must never clash. The agent of a process calls ``poll`` and ``read``
of the C library. A measured ``int poll(int)`` would be called instead, so it is renamed wherever
the user's code defines or uses it.

memcpy, memmove, memset and memcmp are called by compilers on their own. On bare boards the agent
has its own under other names: a measured function never calls the agent's, nor the other way
round. The user's code gets the C library's. Without a C library it gets the agent's too, under the
plain names and from a library that comes last in the link, so that the user's own come first.

Files that belong to a larger program may need symbols that are not there. Functions that need such
a symbol are left out of the table, each with a reason, so that the linker discards them and the
others can be measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from boardprof.base.errors import BuildError, UsageError
from boardprof.base.files import runtime_dir
from boardprof.target.build.build_errors import (
    UndefinedError,
    link_error,
    nothing_left,
    undefined_symbols,
)
from boardprof.target.build.build_options import UserFlags
from boardprof.target.build.sources import (
    HEAP_FUNCTIONS,
    Libc,
    has_heap,
    libc_units,
    start_script,
    start_unit,
)
from boardprof.target.cfunction import CFunction
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.elf.object_file import (
    LOCAL,
    MAGIC,
    WEAK,
    Image,
    defining,
    functions_in,
    global_names,
    images,
    is_library,
    outside,
    read_image,
    symbols,
)
from boardprof.target.toolchain.cache import Cache, digest
from boardprof.target.toolchain.compiler import Compiler, LinkFailure, Object, Unit

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile


_FORMAT = 5

VECTOR = "__vector_"
"""How avr-libc's names of handlers of interrupts begin."""

_NAMES = ("memcpy", "memmove", "memset", "memcmp")
_OBJECT = "bp_mem.o"
_LIBRARY = "libbp_mem.a"


def names_to_change(
    cache: Cache,
    agent: Sequence[Object],
    user: Sequence[Object],
    lto: bool,
    also: Collection[str] = (),
) -> list[str]:
    """Return the names that the user's code defines and the agent uses but does not define.

    Handlers of interrupts of an AVR that the agent uses count, too: it defines them as well.
    ``lto``: code is compiled at link time, so that nothing can be renamed.
    """
    hashes = ([m.sha256 for m in made] for made in (agent, user))
    place = ("names", digest(_FORMAT, *hashes, sorted(also)))

    def clashes() -> str:
        own, needed = _symbols(cache, agent)
        theirs, _ = _symbols(cache, user)
        vectors = {name for name in own if name.startswith(VECTOR)}
        return json.dumps(sorted((needed - own | {*also} | vectors) & theirs))

    names: list[str] = json.loads(cache.recall(clashes, *place))
    if names and lto:
        raise BuildError(
            f"{names[0]} is also a function that the agent calls, and -flto prevents renaming it.",
            hint=f"rename it, or give -D{names[0]}=my_{names[0]}",
        )
    return names


def renamed(
    compiler: Compiler, objects: Sequence[Object], names: Collection[str], prefix: str = "bp_user_"
) -> list[Object]:
    """Return objects and libraries in which ``poll`` has become ``bp_user_poll``."""
    changed = []
    for made in objects:
        content = made.path.read_bytes()
        found = [name for name in names if name.encode() + b"\0" in content]
        options = [f"--redefine-sym={name}={prefix}{name}" for name in found]
        changed.append(compiler.edit(made, *options))
    return changed


def thin_members(library: Path) -> list[Object]:
    """Return a library; for a thin one, the objects that it names."""
    parts = [path for path in outside(library) if path.is_file()]
    return [Object.of(path) for path in parts or [library]]


def renamed_libraries(
    compiler: Compiler, cache: Cache, paths: Sequence[Path], names: Collection[str]
) -> dict[Path, Path]:
    """Return renamed copies of the libraries that define one of ``names``."""
    copies = {}
    for path in paths if names else ():
        made = Object.of(path)
        if path.read_bytes().startswith(MAGIC):
            [new] = renamed(compiler, [made], names)
            if new != made:
                copies[path] = new.path
        elif clash := names_to_change(cache, [], thin_members(path), False, names):
            raise BuildError(
                f"{path} defines {clash[0]}, which the agent also calls. The symbol can only be "
                "renamed in a complete static library.",
                hint="link the static library, made by ar rcs without T, or rename the symbol "
                "there",
            )
    return copies


def _symbols(cache: Cache, objects: Sequence[Object]) -> tuple[set[str], set[str]]:
    """Return the global names that objects define, and those that they use."""
    defined: set[str] = set()
    used: set[str] = set()
    for made in objects:
        place = ("names", digest(_FORMAT, made.sha256))
        here, needed = json.loads(cache.recall(partial(_names, made.path), *place))
        defined.update(here)
        used.update(needed)
    return defined, used


def _names(path: Path) -> str:
    """Return the same for one object or library, as JSON."""
    defined: set[str] = set()
    used: set[str] = set()
    for image in images(path):
        for name, here in read_image(image, lambda elf: list(global_names(elf))):
            (defined if here else used).add(name.partition("@")[0])  # name@@version
    return json.dumps([sorted(defined), sorted(used)])


def with_own_memcpy(compiler: Compiler, agent: Sequence[Object]) -> list[Object]:
    """Return the agent's objects, which define and call ``bp_memcpy`` and the like."""
    return renamed(compiler, agent, _NAMES, "bp_")


def fallback_library(compiler: Compiler, agent: Sequence[Object]) -> Object | None:
    """Return the library with the plain names, weak; None if the agent has no such functions."""
    own = next((made for made in agent if made.path.name == _OBJECT), None)
    if own is None:
        return None
    return compiler.library(_LIBRARY, compiler.edit(own, "--weaken"))


def edited(
    compiler: Compiler,
    objects: Sequence[Object],
    flags: UserFlags,
    kept: Sequence[Sequence[str]] = (),
) -> list[Object]:
    """Return objects and libraries with main renamed, and with kept functions made global.

    ``kept``: for each of the first objects, the static functions that become global. They were
    compiled for any caller; in other objects the compiler may have specialised them.
    """
    if flags.keep and flags.lto:
        raise UsageError(
            f"{flags.keep[0]} cannot be kept with -flto, which compiles at link time.",
            hint="leave out -flto",
        )
    pairs = zip(objects, chain(kept, repeat(())), strict=False)
    return [compiler.edit(made, *_options(made, keep)) for made, keep in pairs]


def _options(made: Object, keep: Sequence[str]) -> Iterator[str]:
    content = made.path.read_bytes()
    # A longer name with the same end is also found; then the option has no effect.
    if b"main\0" in content:
        yield f"--redefine-sym=main=bp_user_main_{made.sha256[:16]}"
    for name in keep:
        if name.encode() + b"\0" in content:
            yield f"--globalize-symbol={name}"


# -- the link ----------------------------------------------------------------------------------


_T = TypeVar("_T")
_CONSTRUCTORS = (".preinit_array", ".init_array", ".ctors")  # names of sections
_GUARDED = ("bp_port_guard", "bp_ret_error")  # what start/bp_construct.c replaces
_UNGUARDED = ("bp_serve",)  # the same in an agent without a guard
_TLS_NAMES = (b".tdata", b".tbss", b".tcommon")
_TLS, _EXECUTABLE = 0x400, 4  # SHF_TLS, SHF_EXECINSTR
_NESTED = re.compile(r"\w+\.\d+")
_WITH_TLS = "picolibc"  # its errno is thread-local


@dataclass(frozen=True)
class Linker:
    """How a board's images are linked.

    ``fallback`` is not used if there is a C library: a function's count must not depend on its
    neighbours.
    """

    spec: BoardSpec
    compiler: Compiler
    cache: Cache
    flags: UserFlags
    libc: Libc | None  # None if it must not be used
    cplusplus: bool
    fallback: Object | None = None  # the last library: what a compiler calls on its own
    no_libc: str | None = None  # how to get a C library, for a hint
    constructs: bool = False  # the agent runs static constructors
    has_tls: bool = False  # the user's code has thread-local variables
    executes_stack: bool = False  # it has nested functions

    def link(
        self,
        objects: Sequence[Object],
        archives: Sequence[Object],
        key: str,
        hidden: Mapping[str, str],
    ) -> tuple[Path, str | None]:
        """Return the image, and the C library in it as `Firmware.libc` has it."""
        made = [each.sha256 for each in (*objects, *archives)]
        place = ("libc", digest(made, key, self.flags.linker, self.libc and self.libc.version))
        try:
            if self.libc is None or self.cache.read(*place) is None:
                try:
                    image = self._link(objects, archives, key, None)
                    return image, "none" if self.spec.build.freestanding else None
                except LinkFailure as error:
                    if self.libc is None or not undefined_symbols(error.output):
                        raise
            image = self._link(objects, archives, key, self.libc)
        except LinkFailure as error:
            no_libc = self.no_libc if self.libc is None else None
            raise link_error(error, self.spec, self.flags, archives, hidden, no_libc) from error
        self.cache.write("", *place)
        return image, self.spec.build.libc

    def _link(
        self, objects: Sequence[Object], archives: Sequence[Object], key: str, libc: Libc | None
    ) -> Path:
        board = self.spec.build
        before = [*board.cflags, "-Wl,--gc-sections"]
        # Without -z defs only the loader would find that a function is missing.
        before += ["-shared", "-fPIC", "-Wl,-z,defs"] if board.shared else []
        before += ["-nostdlib"] if board.freestanding else []
        if board.link_script is not None:
            before += ["-T", board.link_script, "-Wl,--print-memory-usage"]
        if not board.freestanding and board.libc_heap:  # its C library is not tied to the agent
            before += [f"-Wl,--defsym=bp_heap_bytes={board.libc_heap}"]
        if has_heap(self.spec):
            before += [f"-Wl,--wrap={name}" for name in HEAP_FUNCTIONS]
        units: list[Unit] = []
        if libc is not None:
            assert board.libc is not None
            before += libc.before
            units += libc_units(self.spec, libc.cflags)
        start: list[Path] = []
        if self.constructs:
            replaced = _GUARDED if board.config.get("guard") else _UNGUARDED
            before += [f"-Wl,--wrap={name}" for name in replaced]
            units.append(start_unit(self.spec, "construct"))
            hosted = "" if board.freestanding else "_hosted"
            start.append(start_script(f"constructors{hosted}"))
        if board.freestanding and (self.has_tls or (libc is not None and board.libc == _WITH_TLS)):
            before += ["-Wl,--wrap=bp_port_init"]
            units.append(start_unit(self.spec, "tls"))
            start.append(start_script("tls"))
        if self.executes_stack:
            # Any address will do. The loader need not make the stacks of the host executable.
            before += ["-Wl,--defsym=bp_stack_executes=bp_firmware"]
            before += ["-Wl,-z,noexecstack"] if board.shared else []
        own = [self.compiler.compile(unit) for unit in units]
        objects = [*objects, *(with_own_memcpy(self.compiler, own) if board.freestanding else own)]
        after = [*self.flags.linker, *board.ldflags]
        is_hosted = self.cplusplus and not board.freestanding
        if is_hosted and self.compiler.has_library("stdc++"):
            after += ["-lstdc++"]
        elif self.cplusplus and (is_hosted or libc is not None):  # it needs malloc
            new = self.compiler.compile(start_unit(self.spec, "new"))
            after += [str(self.compiler.library("libbp_new.a", new).path)]
        if libc is not None:
            after += libc.after
        elif board.freestanding:
            after += ["-lgcc"]
        last = () if self.fallback is None or self.libc is not None else (self.fallback,)
        arch = () if board.arch is None else (runtime_dir() / "arch" / board.arch,)
        name = f"{self.spec.name}.{'so' if board.shared else 'elf'}"
        every, folder = [*objects, *archives], self.spec.folder
        key, watched = digest(key, libc and libc.version), bool(self.flags.linker)
        return self.compiler.link(
            name, every, before, after, folder, key, start, last=last, watched=watched, folders=arch
        )


def link_without_missing(
    cache: Cache,
    functions: Sequence[CFunction],
    objects: Sequence[Path],
    build_id: bytes,
    link: Callable[[Sequence[CFunction]], _T],
) -> tuple[_T, list[CFunction], dict[str, str]]:
    """Link as many functions as possible; also return each function left out and its symbol."""
    place = ("undefined", build_id.hex() + ".json")
    known = cache.read(*place)
    if known is not None:
        missing: dict[str, str] = json.loads(known)
        offered = [_without(fn, missing) for fn in functions]
        return link(offered), offered, missing
    try:
        return link(functions), list(functions), {}
    except UndefinedError as error:
        needing = _functions_needing(error.symbols, objects, error.libraries)
        missing = {
            fn.name: needing[name]
            for fn in functions
            for name in (fn.check, fn.setup, fn.symbol)  # of several, the last is shown
            if fn.reason is None and name in needing
        }
        offered = [_without(fn, missing) for fn in functions]
        if not missing or all(fn.reason for fn in offered):
            if not missing or not error.uses:
                raise
            raise nothing_left(error, missing) from error
    linked = link(offered)
    cache.write(json.dumps(missing), *place)
    return linked, offered, missing


def _without(fn: CFunction, missing: dict[str, str]) -> CFunction:
    if fn.name not in missing or fn.reason is not None:
        return fn
    refused = fn.refused(f"it needs {missing[fn.name]}, which is not defined")
    return replace(refused, setup=None, check=None)


def start_needs(
    spec: BoardSpec, cache: Cache, inputs: Sequence[Object], offered: Collection[str]
) -> tuple[bool, bool, bool]:
    """Return whether the agent must run constructors, set up thread-local variables, and so on.

    The third is whether it must let code on the stack be executed.
    avr-libc runs constructors by itself, and AVR has no thread pointer.
    """
    guards_itself = spec.build.arch == "posix" and bool(spec.build.config.get("guard"))
    if not spec.build.freestanding and not guards_itself:
        return False, False, False
    linked = [made for made in inputs if ".so" not in made.path.suffixes]
    place = ("start", digest(_FORMAT, [made.sha256 for made in linked], sorted(offered)))

    def found() -> str:
        paths = [made.path for made in linked]
        every = [image for path in paths for image in images(path)]
        named = (each for each in every if any(kind in each.content for kind in _TLS_NAMES))
        has_tls = any(read_image(image, _has_tls) for image in named)
        sources = (image for image in every if not image.in_library)
        executes = any(read_image(image, _executes_stack) for image in sources)
        return json.dumps([bool(_constructing(paths, offered)), has_tls, executes])

    constructs, has_tls, executes_stack = json.loads(cache.recall(found, *place))
    return constructs, has_tls, executes_stack


def check_constructors(spec: BoardSpec, image: Path) -> None:
    """Check that no code of an image is to be run before main that start-up does not run."""
    if not spec.build.freestanding or not _constructing([image], ()):
        return
    raise BuildError(
        f"{image.name} has static constructors that start-up on {spec.name} does not run, such as "
        "those of a library.",
        hint="give the library as a source, or construct its objects in NAME_setup()",
    )


def _constructing(paths: Sequence[Path], offered: Collection[str]) -> list[str]:
    """Return the objects with constructors, and the needed members of libraries with them."""
    needed, found = set(offered), []
    has_libraries = any(map(is_library, paths))  # whose members are only linked if needed
    for image in (image for path in paths for image in images(path)):
        if not has_libraries and not any(kind.encode() in image.content for kind in _CONSTRUCTORS):
            continue  # no section has such a name: to read the file would take much longer
        names, constructs = read_image(image, partial(_names_and_constructors, has_libraries))
        needed.update(name for name, is_here in names if not is_here)
        if constructs:
            own = {name for name, is_here in names if is_here}
            found.append((image.label, own if image.in_library else None))
    return [label for label, own in found if own is None or own & needed]


def _names_and_constructors(named: bool, elf: ELFFile) -> tuple[list[tuple[str, bool]], bool]:
    names = list(global_names(elf)) if named else []
    return names, any(
        section.data_size and f"{section.name}.".startswith(f"{kind}.")
        for section in elf.iter_sections()
        for kind in _CONSTRUCTORS
    )


def _executes_stack(elf: ELFFile) -> bool:
    """Tell whether code takes the address of a nested function, which GCC writes to the stack."""
    mark = elf.get_section_by_name(".note.GNU-stack")
    if mark is not None:
        return bool(mark["sh_flags"] & _EXECUTABLE)
    # Bare toolchains have no mark. There a nested function, called NAME.0, may be enough.
    return any(_NESTED.fullmatch(symbol.name) for symbol in functions_in(elf))


def _has_tls(elf: ELFFile) -> bool:
    return any(section["sh_flags"] & _TLS for section in elf.iter_sections())


# -- functions that need a symbol --------------------------------------------------------------
#
# Each function has a section of its own (``-ffunction-sections``), so what a section refers to is
# what the function in it needs. In objects that were compiled without, a function needs what its
# neighbours need. Only the members of libraries that a function leads to are read.

_ALLOCATED = 2  # SHF_ALLOC
_Section = tuple[int, int]  # which image, and the section's index in it


class _References:
    """The references between the sections of all images that were read."""

    def __init__(self, libraries: Sequence[Path]) -> None:
        self.functions: dict[str, _Section] = {}
        self._defined: dict[str, _Section] = {}
        self._uses: dict[_Section, dict[_Section | str, None]] = {}  # in the objects' order
        self._of_library: set[str] = set()
        self._images = 0
        self._unread: dict[str, Image] = {}
        for path in libraries:
            for name, member in defining(path).items():
                self._unread.setdefault(name, member)

    def add(self, image: Image) -> None:
        """Add an image."""
        read_image(image, partial(self._read, self._images))
        self._images += 1

    def needed(self, function: str, symbols: Collection[str]) -> str | None:
        """Return the first of ``symbols`` that a function needs, itself or through others.

        If a library's function needs it, its name is added: ``times (for clock)``.
        """
        start = self.functions[function]
        todo: list[tuple[_Section, str | None]] = [(start, None)]
        seen = {start}
        while todo:
            section, through = todo.pop()
            for target in self._uses.get(section, ()):
                if isinstance(target, str) and target in symbols:
                    return f"{target} (for {through})" if through else target
                found = self._section(target)
                if found is not None and found not in seen:
                    seen.add(found)
                    library = isinstance(target, str) and target in self._of_library
                    todo.append((found, through or (str(target) if library else None)))
        return None

    def _section(self, target: _Section | str) -> _Section | None:
        """Return the section of a target; a library's member is read when it is first needed."""
        if not isinstance(target, str):
            return target
        if target not in self._defined and target in self._unread:
            before = self._defined.keys() | set()
            self.add(self._unread[target])
            self._of_library |= self._defined.keys() - before
        return self._defined.get(target)

    def _read(self, number: int, elf: ELFFile) -> None:
        table = symbols(elf)
        for symbol in table:
            if symbol.is_in_section and symbol.bind != LOCAL:
                self._defined.setdefault(symbol.name, (number, symbol.section))
                if symbol.is_function:
                    self.functions.setdefault(symbol.name, (number, symbol.section))
        section: Any
        for section in elf.iter_sections():
            if section["sh_type"] not in ("SHT_REL", "SHT_RELA"):
                continue
            if not elf.get_section(section["sh_info"])["sh_flags"] & _ALLOCATED:
                continue  # debug information: it has many
            uses = self._uses.setdefault((number, section["sh_info"]), {})
            for relocation in section.iter_relocations():
                symbol = table[relocation["r_info_sym"]]
                if symbol.bind == WEAK and not symbol.is_defined:
                    continue  # it may be missing
                own = symbol.is_in_section and symbol.bind == LOCAL
                uses[(number, symbol.section) if own else symbol.name] = None


def _functions_needing(
    symbols: Collection[str], objects: Sequence[Path], libraries: Sequence[Path]
) -> dict[str, str]:
    """Return the global functions of ``objects`` that need one of ``symbols``, and which."""
    references = _References(libraries)
    for image in (image for path in objects for image in images(path)):
        references.add(image)
    needs = {name: references.needed(name, symbols) for name in sorted(references.functions)}
    return {name: need for name, need in needs.items() if need is not None}
