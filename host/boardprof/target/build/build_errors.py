# SPDX-License-Identifier: Apache-2.0
"""Translate errors of compilers and GNU ld into plain words."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from boardprof.base.errors import BuildError, MissingToolError, option
from boardprof.target.build.build_options import UserFlags, around, linker_files
from boardprof.target.build.sources import Libc
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.elf.object_file import is_library
from boardprof.target.toolchain.compiler import LinkFailure, Object

_MOST = 8  # names in a message
_TOO_LARGE = r"The program (needs|is|leaves) | has no room in "
_SMALLER = "compile with -Os, use smaller arrays, or build fewer of the files"
# A memory that is not the RAM, in an explanation.
_OTHER_MEMORY = r" (?:of|the) (?!(?:ram|data|dram|memory)\b)\w+(?: of |;)"
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_FUNCTION = r"([^:\s]*\.o\)?): in function [`'](.+)':$"
_UNDEFINED = r"(\S*?):(?:(\d+)|\(.*?\)): undefined reference to [`'](.+)'$"
_BARE_UNDEFINED = r"(\S*): undefined reference to [`'](.+)'$"
_REGION = r"(?m)^\s*(\S+):\s+(\d+) ([KMG]?B)\s+(\d+) ([KMG]?B)\s+[\d.]+%"
_OVERFLOW = r"region [`'](.+?)' overflowed by (\d+) bytes"
_OUTSIDE = r"section [`'](\S+)' (?:is not within|will not fit in) region [`'](.+?)'"
_TWICE = r"multiple definition of [`'](.+?)'; (\S+?):.*first defined here"
_MEMBER = r"(?m)(?:^|ld: )(\S*\.a)\(\S+?\)[:,]"
_LIBRARY = r"cannot find (-l[^\s:]+)"
_STACK = r"ld: (too little is left for the stack)"
_WITH_STACK = ("ram", "data", "dram")  # names of the region that has the stack
_HEAP = {"_sbrk", "sbrk", "__heap_start", "__heap_end"}
_NO_HEAP = "ld: malloc needs a heap"

# The headers of C17 that belong to a library and not to the compiler, in GCC's error message.
_MISSING = (
    r"error: '?((?:assert|complex|ctype|errno|fenv|inttypes|locale|math|setjmp|signal|stdio|stdlib"
    r"|string|tgmath|threads|time|uchar|wchar|wctype|strings|unistd)\.h)'?"
    r"(?:: No such file| file not found)"
)
# C++17, 20.5.1.2, tables 16 and 17.
_MISSING_CXX = (
    r"error: '?(algorithm|any|array|atomic|bitset|charconv|chrono|complex|condition_variable|deque"
    r"|exception|execution|filesystem|forward_list|fstream|functional|future|initializer_list"
    r"|iomanip|ios|iosfwd|iostream|istream|iterator|limits|list|locale|map|memory|memory_resource"
    r"|mutex|new|numeric|optional|ostream|queue|random|ratio|regex|scoped_allocator|set"
    r"|shared_mutex|sstream|stack|stdexcept|streambuf|string|string_view|system_error|thread|tuple"
    r"|type_traits|typeindex|typeinfo|unordered_map|unordered_set|utility|valarray|variant|vector"
    r"|c(?:assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdarg|stddef"
    r"|stdint|stdio|stdlib|string|time|uchar|wchar|wctype))'?(?:: No such file| file not found)"
)
_MISSING_ANY = r"error: '?([^:'\n]+)'?(?:: No such file| file not found)"
_NOT_OF_C = {"charconv", "chrono", "complex", "condition_variable"}


class UndefinedError(BuildError):
    """An image did not link because ``symbols`` are not defined.

    ``libraries`` may need them too. ``uses`` has the first place that uses each symbol; it is empty
    if that does not explain the error.
    """

    def __init__(
        self,
        message: str,
        *,
        symbols: frozenset[str],
        libraries: tuple[Path, ...],
        hint: str | None,
        uses: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Keep the symbols and the libraries beside the message."""
        super().__init__(message, hint=hint)
        self.uses = uses
        self.symbols = symbols
        self.libraries = libraries


class MissingHeaderError(BuildError):
    """A source includes ``header``, which only ``folder`` near the sources has, if not None."""

    def __init__(self, error: BuildError, hint: str, header: str, folder: Path | None) -> None:
        """Keep the header and the folder beside the message."""
        super().__init__(error.message, hint=hint)
        self.header = header
        self.folder = folder


def link_error(
    error: LinkFailure,
    spec: BoardSpec,
    flags: UserFlags,
    archives: Sequence[Object],
    hidden: Mapping[str, str],
    no_libc: str | None,
) -> BuildError:
    """Return the error of a link in plain words, then the linker's own."""
    said = explain(error.output, spec, tuple(hidden))
    if said is None:
        return error
    text = str(error).partition(":\n")[2]
    message = f"{error.image} does not link: {said}\n{text}"
    symbols = frozenset(undefined_symbols(error.output))
    if not symbols:
        return BuildError(message, hint=_smaller(said, spec))
    sources = {made.path for made in archives}
    named = [path for path in linker_files(flags.linker) if is_library(path)]
    others = [path for path in libraries_in(error.output) if path not in sources]
    users = {path.resolve() for path in named}
    hint = None
    if sources & set(libraries_in(error.output)):
        hint = "a library among the sources is linked whole, so that all its functions can be "
        hint += f"called; from a library in {option('--ldflags')} only what the sources need is "
        hint += "linked"
    elif no_libc is not None:
        hint = no_libc
    elif any(path.resolve() not in users for path in others):
        hint = "the C library needs this from an operating system, but the board has none. "
        hint += "Leave out what calls it, or define it in a file of your own and give that "
        hint += "file with --source"
    elif others:
        hint = (
            f"a library needs it: in {option('--ldflags')}, name the library that defines it "
            "after that library"
        )
    libraries_ = tuple(dict.fromkeys([*named, *others]))
    uses = {}
    if hint is None and "--no-inline" not in said and "malloc needs" not in said:
        uses = {
            symbol: users[0].rpartition(" in ")[2] if users else ""
            for symbol, users in undefined_symbols(error.output).items()
        }
        hint = source_hint(len(symbols))
    return UndefinedError(message, symbols=symbols, libraries=libraries_, hint=hint, uses=uses)


def _smaller(said: str, spec: BoardSpec) -> str | None:
    """Return what makes a program smaller; None if its size is not the fault."""
    if not re.search(_TOO_LARGE, said):
        return None
    if re.search(_OTHER_MEMORY, said):
        return _SMALLER
    arena = spec.build.options["arena"]
    agents = f" (the agent's arena takes {arena:,} bytes of the RAM)" if arena else ""
    return f"use smaller arrays, or build fewer of the files{agents}"


def source_hint(symbols: int = 1, known: Sequence[Path] = ()) -> str:
    """Return what defines missing symbols, for an error; ``known``: sources that seem to."""
    ldflags = option("--ldflags")
    if known:
        return " ".join(option("--source", os.path.relpath(path)) for path in known[:_MOST])
    if symbols == 1:
        return f"give the file that defines it with --source, or its library with {ldflags}"
    return f"give the files that define them with --source, or their libraries with {ldflags}"


def nothing_left(error: UndefinedError, missing: Collection[str]) -> UndefinedError:
    """Return the error for sources whose functions all need missing symbols."""
    symbols = [f"{symbol} ({place})" if place else symbol for symbol, place in error.uses.items()]
    is_one = len(symbols) == 1
    return UndefinedError(
        f"{_listed([*missing])} {'needs' if len(missing) == 1 else 'need'} {_listed(symbols)}, "
        f"which {'is' if is_one else 'are'} not defined.",
        symbols=error.symbols,
        libraries=error.libraries,
        hint=error.hint,
        uses=error.uses,
    )


def _listed(names: Sequence[str]) -> str:
    """Return names as a list; of many, the first ones and the number of the others."""
    shown = [*names[:_MOST]]
    if len(names) > _MOST:
        shown.append(f"{len(names) - _MOST} more")
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def explain(output: str, spec: BoardSpec, keepers: Sequence[str] = ()) -> str | None:
    """Return what went wrong in a link with ``--print-memory-usage``. None if not understood."""
    sentences = [*_sizes(output, spec), *_undefined(output, spec, keepers)]
    for symbol, first in dict.fromkeys(re.findall(_TWICE, output)):
        sentences.append(f"{symbol} is defined twice, the first time in {os.path.basename(first)}.")
    for library in dict.fromkeys(re.findall(_LIBRARY, output)):
        sentences.append(f"The library for {library} was not found: give its folder with -L.")
    return " ".join(sentences) if sentences else None


def undefined_symbols(output: str) -> dict[str, list[str]]:
    """Return each symbol that was not found -> its users, such as ``f in fir.c:3``."""
    found: dict[str, list[str]] = {}
    for symbol, function, place in _uses(output):
        users = found.setdefault(symbol, [])
        user = f"{function} in {place}" if function and place else place
        if user and user not in users:
            users.append(user)
    return found


def libraries_in(output: str) -> list[Path]:
    """Return the static libraries whose members are named in errors."""
    return [Path(name) for name in dict.fromkeys(re.findall(_MEMBER, output))]


def _uses(output: str) -> Iterator[tuple[str, str, str]]:
    """Yield (symbol, function, place); the linker names the function on a line before."""
    function = ""
    for line in output.splitlines():
        if match := re.search(_FUNCTION, line):
            function = match[2]
        elif match := re.search(_UNDEFINED, line):
            file, number, symbol = match.groups()
            place = os.path.basename(file) + (f":{number}" if number else "")
            yield symbol, function, place
        elif match := re.search(_BARE_UNDEFINED, line):
            yield match[2], "", os.path.basename(match[1])


def _sizes(output: str, spec: BoardSpec) -> Iterator[str]:
    used, sizes = {}, {}
    for name, amount, unit, size, size_unit in re.findall(_REGION, output):
        used[name] = int(amount) * _UNITS[unit]
        sizes[name] = int(size) * _UNITS[size_unit]
    # For a section at a fixed address the linker does not say by how much it is too large.
    excesses = {region: used.get(region, 0) - sizes.get(region, 0) for region in used}
    excesses = {region: excess for region, excess in excesses.items() if excess > 0}
    excesses |= {region: int(excess) for region, excess in re.findall(_OVERFLOW, output)}
    for region, excess in excesses.items():
        if region in sizes:
            needed, size = sizes[region] + excess, sizes[region]
            yield f"The program needs {needed:,} bytes of {region}; {spec.name} has {size:,}."
        else:
            yield f"The program is {excess:,} bytes too large for the {region} of {spec.name}."
    for section, region in dict.fromkeys(re.findall(_OUTSIDE, output)):
        if region not in excesses:
            yield f"{section} has no room in the {region} of {spec.name}."
    if re.search(_STACK, output):
        taken = "; ".join(
            f"it takes {used[region]:,} of {sizes[region]:,} bytes of {region}"
            for region in _WITH_STACK
            if region in used
        )
        yield (
            f"The program leaves too little of the memory of {spec.name} for the stack"
            f"{': ' if taken else ''}{taken}."
        )


def _undefined(output: str, spec: BoardSpec, keepers: Sequence[str]) -> Iterator[str]:
    found = undefined_symbols(output)
    if found.keys() & _HEAP or _NO_HEAP in output:
        yield (
            f"malloc needs a heap, and {spec.name} has none: set libc_heap in its board.toml, "
            "or give the function its memory as an argument."
        )
    named = [symbol for symbol in found if symbol not in _HEAP]
    for symbol in named[:_MOST]:
        users = found[symbol]
        who = f"; {' and '.join(users[:2])} {'uses' if len(users) == 1 else 'use'} it"
        static = f" (it is static elsewhere: --no-inline {symbol})" if symbol in keepers else ""
        yield f"{symbol} is not defined{who if users else ''}{static}."
    if len(named) > _MOST:
        yield f"{len(named) - _MOST} more symbols are also not defined."


def missing_header(
    spec: BoardSpec, error: BuildError, libc: Libc | None, folders: Sequence[Path] = ()
) -> BuildError | None:
    """Return a better error if a header is missing; ``folders``: of the sources."""
    of_library = _missing_of_library(spec, error, libc)
    found = re.search(_MISSING_ANY, str(error))
    if of_library is not None or found is None or error.hint is not None:
        return of_library
    near = _folders_with(found[1], folders)
    hint = " or ".join(option("-I", os.path.relpath(each)) for each in near)
    only = near[0] if len(near) == 1 else None
    return MissingHeaderError(error, hint or _no_folder(found[1], folders), found[1], only)


def _no_folder(header: str, folders: Sequence[Path]) -> str:
    hint = option("-I", f"DIR, the folder that has {header}")
    ups = (up for folder in folders for up in (folder, *folder.parents)[:3])
    roots = [up for up in ups if (up / "CMakeLists.txt").is_file()]
    if not roots:
        return hint
    root = os.path.relpath(roots[-1])
    return (
        f"{hint}. If the project's build makes it, build first; then its folders are found: "
        f"cmake -S {root} -B {root}/build -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    )


def _folders_with(header: str, folders: Sequence[Path]) -> list[Path]:
    """Return the folders nearest to the sources, in their project, with which it is found."""
    for level in (
        level for folder in dict.fromkeys(folders) for level in around(folder, folder.parent)
    ):
        if found := [each for each in level if (each / header).is_file()]:
            return found[:3]
    return []


def _missing_of_library(spec: BoardSpec, error: BuildError, libc: Libc | None) -> BuildError | None:
    """Return a better error if a header of a library that is not installed is missing."""
    found = re.search(_MISSING_CXX, str(error))
    if found is not None and spec.build.freestanding:
        return _missing_cxx_header(spec, error, found[1])
    found = re.search(_MISSING, str(error))
    package = spec.build.libc_package
    if found is None or package is None or libc is not None:
        return None
    return MissingToolError(
        found[1],
        package,
        message=f"{found[1]} belongs to the C library, which is not installed for {spec.name}.\n"
        f"{error}",
    )


def _missing_cxx_header(spec: BoardSpec, error: BuildError, name: str) -> BuildError:
    hint = f"avoid <{name}>"
    if name[0] == "c" and name not in _NOT_OF_C:
        hint = f"include <{name[1:]}.h> instead, and use its names without std::"
    return BuildError(
        f"<{name}> belongs to the C++ library, which the toolchain of {spec.name} lacks.\n{error}",
        hint=f"{hint}; or build for a board whose toolchain has it; or install such a toolchain "
        "and name it with build.cxx in a board.toml of your own (boards/README.md)",
    )
