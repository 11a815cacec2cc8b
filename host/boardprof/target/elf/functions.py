# SPDX-License-Identifier: Apache-2.0
"""The functions in objects, libraries and programs, with their signatures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from boardprof.base.errors import BuildError, UsageError, option
from boardprof.target.cfunction import LONGEST_NAME, CFunction, HiddenFunction
from boardprof.target.elf.debug_info import debug_info
from boardprof.target.elf.object_file import (
    Image,
    all_names,
    global_functions,
    images,
    interrupt_handlers,
    is_lto_only,
    local_functions,
    main_source,
    read_image,
    resolvers,
)
from boardprof.target.elf.subprograms import (
    NotCallable,
    Prototype,
    Subprogram,
    drops_equal_functions,
    is_elsewhere,
    prototype,
    returned_function,
    subprograms,
    wrapper,
)

_MANGLED = ("_Z", "_R")  # C++ and old Rust; Rust. In C such names are the compiler's own.
_UNKNOWN = "it has no debug information about its type"
_ELSEWHERE = "its debug information is in another file: compile it without -gsplit-dwarf"
_SEVERAL = "several functions have that name, and it is unknown which type belongs to this one"
_LONG = f"its name is longer than {LONGEST_NAME} bytes"
_INT_HAS_16_BITS = {"EM_AVR", "EM_H8_300", "EM_MSP430", "EM_RL78"}
_OF_LIBRARIES = {"std", "__gnu_cxx", "__cxxabiv1"}
_REMEDIES = {
    "C++": ": call it from a function of your own",
    "Rust": ': declare {} as #[no_mangle] pub extern "C"',
}


def functions(
    objects: Sequence[Path], kept: Collection[str] = (), sources: Sequence[Path] = ()
) -> list[CFunction]:
    """Return the global functions that ``objects`` define, by name.

    ``main`` and names that begin with ``bp_`` are left out. Set-ups and checks are attributes of
    their function; one with another type is a function like any other. As for the linker, a
    function in an object hides one in a library, and the first library wins.
    """
    found: dict[str, _Symbol] = {}
    where: dict[str, Path] = {}
    for path, source in zip(objects, sources or objects, strict=True):
        for image in images(path):
            for symbol in read_image(image, partial(_symbols, image, kept)):
                name = symbol.fn.symbol
                named = source if sources else Path(symbol.fn.source)
                other = found.get(name)
                if other is not None and other.rank == symbol.rank == _STRONG:
                    raise _defined_twice(name, where[name], named, name in kept)
                if other is None or symbol.rank > other.rank:  # as the linker chooses
                    found[name] = symbol
                    where[name] = named
    return _with_hooks(_with_own_names(found))


def _defined_twice(name: str, one: Path, other: Path, kept: bool) -> BuildError:
    first, second = _distinct_names([one, other])
    hint = (
        "make one of them static, rename it, or build only one of the files; "
        f"to compare them, name both: PATH/{first}:{name} PATH/{second}:{name}"
    )
    if kept:
        kept_one = option("--no-inline", f"{first}:{name}")
        hint = f"{kept_one} keeps that of one file if the others are static; otherwise {hint}"
    return BuildError(
        f"The function {name} is defined twice: in {first} and in {second}.", hint=hint
    )


def _distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return the last parts of each path, as many as make the paths distinct."""
    for count in range(1, max((len(path.parts) for path in paths), default=0)):
        names = [str(Path(*path.parts[-count:])) for path in paths]
        if len({*names}) == len({*paths}):
            return names
    return [str(path) for path in paths]


def hidden_functions(objects: Sequence[Path]) -> list[HiddenFunction]:
    """Return the functions of C and C++ that are static, inlined everywhere, or not linked."""
    found: set[HiddenFunction] = set()
    for path in objects:
        for image in images(path):
            found.update(read_image(image, _hidden))
    return sorted(found)


_IN_LIBRARY, _WEAK, _STRONG = range(3)


@dataclass(frozen=True)
class _Symbol:
    """A function, its rank for the linker, and whether it returns the machine's int."""

    fn: CFunction
    rank: int
    returns_int: bool


def _symbols(image: Image, kept: Collection[str], elf: ELFFile) -> list[_Symbol]:
    names = dict(global_functions(elf))
    if not names and is_lto_only(elf):
        raise UsageError(
            f"{image.path} has only intermediate code for -flto, no machine code.",
            hint="compile it without -flto, or with -ffat-lto-objects",
        )
    found_by = resolvers(elf)
    generated = {f"{name}.resolver" for name in found_by}  # by GCC, for target_clones
    wanted = [
        name
        for name in names
        if name != "main" and not name.startswith("bp_") and name not in generated
    ]
    # Reading takes seconds if there is a lot of it, as in Rust's standard library.
    is_needed = any(_is_c_name(name) or name.startswith("_Z") for name in wanted)
    info = debug_info(elf) if is_needed else None
    known: dict[str, list[Subprogram]] = {}
    for each in subprograms(info) if info else ():
        known.setdefault(each.symbol, []).append(each)
    aliases = cache(lambda: all_names(elf) if known else {})  # few functions need them
    elsewhere = info is not None and is_elsewhere(info)
    handlers = interrupt_handlers(elf)
    source = image.label if image.in_library else main_source(elf) or image.label
    int_type = "i16" if elf["e_machine"] in _INT_HAS_16_BITS else "i32"
    symbols = []
    for name in wanted:
        own = _own(name, known, aliases, name in kept)
        if name in found_by and isinstance(own, NotCallable):
            own = _of_ifunc(name, found_by[name], known)
        fn = _function(name, own, source)
        if fn.reason == _UNKNOWN and (elsewhere or (is_needed and info is None)):
            none = f"its object {image.label} has no debug information"
            fn = replace(fn, reason=_ELSEWHERE if elsewhere else none)
        if fn.reason is None and name in handlers:
            fn = fn.refused(f"it ends with {handlers[name]}: it is an interrupt handler")
        rank = _IN_LIBRARY if image.in_library else _WEAK if names[name] else _STRONG
        symbols.append(_Symbol(fn, rank, fn.result is not None and fn.result.text == int_type))
    return symbols


def _own(
    name: str,
    known: Mapping[str, Sequence[Subprogram]],
    aliases: Callable[[], Mapping[str, Sequence[str]]],
    kept: bool,
) -> Subprogram | NotCallable:
    """Return the function of a symbol, or of what it is an alias of; or why it is not known."""
    own = _chosen(known[name], kept) if name in known else None
    if isinstance(own, Subprogram) and own.external:
        return own
    others = [known[n][0] for n in aliases().get(name, ()) if n in known and n != name]
    exported = (other for other in others if other.symbol.endswith(f".{name}"))
    if others:
        found = next(exported, None)
        if found is None and others[0].language == "C" and not drops_equal_functions(others[0]):
            found = replace(others[0], external=True)  # its code, so its type
        return found or NotCallable(f"{_UNKNOWN}: it is an alias of {others[0].name}")
    return own or NotCallable(_UNKNOWN)


def _of_ifunc(
    name: str, resolver: Sequence[str], known: Mapping[str, Sequence[Subprogram]]
) -> Subprogram | NotCallable:
    """Return an ifunc with the type that its resolver returns."""
    for own in (each for n in resolver for each in known.get(n, ())):
        kind = returned_function(own.die)
        if kind is not None:
            found = replace(own, name=name, symbol=name, external=True, die=kind)
            return replace(found, die=_with_names(found, known))
    return NotCallable(f"{_UNKNOWN}: it is an ifunc, and its resolver does not return that type")


def _with_names(of: Subprogram, known: Mapping[str, Sequence[Subprogram]]) -> DIE:
    """Return a function of the same type, such as one that the resolver returns, for its names."""
    wanted = _types(of)
    every = (each for same in known.values() for each in same if each.source == of.source)
    return next((each.die for each in every if _types(each) == wanted), of.die)


def _types(of: Subprogram) -> object:
    own = prototype(of)
    if isinstance(own, NotCallable):
        return own.reason
    return [parameter.type for parameter in own.parameters], own.result


def _chosen(same: Sequence[Subprogram], kept: bool) -> Subprogram | NotCallable:
    """Return the function that a global symbol means: a static one only if kept and alone."""
    possible = [each for each in same if each.external]
    if not possible and (kept or same[0].language not in ("C", "C++")):
        possible = list(same)
    if len(possible) == 1 or len({repr(prototype(each)) for each in possible}) == 1:
        return possible[0]
    return NotCallable(_SEVERAL)


def _function(name: str, found: Subprogram | NotCallable, source: str) -> CFunction:
    own, linkage, line = name, "", 0
    if isinstance(found, Subprogram):
        source, line = found.source or source, found.line
        if found.language == "C++" and name != found.name:
            own, linkage = found.full_name, name
    called = _prototype(name, found)
    if isinstance(called, NotCallable):
        own, linkage = (own, linkage) if _is_named(found) else (name, "")
        return CFunction(
            own, (), None, None, None, source, called.reason, line, linkage, wrapper=called.wrapper
        )
    types = called.parameters, called.result
    return CFunction(own, *types, None, None, source, None, line, linkage, called.structs)


def _is_named(found: Subprogram | NotCallable | None) -> bool:
    """Tell whether a function of C++ has a name of its own, and is not of the library."""
    if not isinstance(found, Subprogram) or found.language != "C++":
        return False
    scope = found.full_name.partition("::")[0]
    return scope not in _OF_LIBRARIES and not found.name.startswith("_")


def _with_own_names(found: dict[str, _Symbol]) -> dict[str, _Symbol]:
    """Return functions by name; several functions of one name get the types of their parameters."""
    same: dict[str, list[_Symbol]] = {}
    for symbol in found.values():
        same.setdefault(symbol.fn.name, []).append(symbol)
    named: dict[str, _Symbol] = {}
    for symbols in same.values():
        for symbol in symbols:
            fn = symbol.fn
            if len(symbols) > 1 and fn.linkage:
                types = ", ".join(parameter.type.text for parameter in fn.parameters)
                fn = replace(fn, name=fn.symbol if fn.reason else f"{fn.name}({types})")
            if fn.name in named:  # two types with one text
                fn = replace(fn, name=fn.symbol, linkage="")
            if len(fn.name.encode()) > LONGEST_NAME and fn.reason is None:
                fn = fn.refused(_LONG)
            named[fn.name] = replace(symbol, fn=fn)
    return named


def _prototype(name: str, found: Subprogram | NotCallable) -> Prototype | NotCallable:
    own = found if isinstance(found, Subprogram) else None
    if not _is_c_name(name) and (own is None or own.name != name) and not _is_named(own):
        language = own.language if own else "C++" if name.startswith("_Z") else ""
        remedy = _REMEDIES.get(language, "").format(own.name if own else name)
        return NotCallable(f"its name is not a C name{remedy}")
    called = prototype(found) if isinstance(found, Subprogram) else found
    if len(name.encode()) > LONGEST_NAME and not _is_named(own):
        if own is None or own.language != "C" or isinstance(called, NotCallable):
            return NotCallable(_LONG, getattr(called, "wrapper", ""))
        return NotCallable(_LONG, wrapper(name, own.die, frozenset(), result_by_pointer=False))
    return called


def _is_c_name(name: str) -> bool:
    return name.isidentifier() and not name.startswith(_MANGLED)


def _hidden(elf: ELFFile) -> list[HiddenFunction]:
    info = debug_info(elf)
    if info is None:
        return []
    offered = {name for name, _ in global_functions(elf)}
    local = local_functions(elf)
    linked = elf["e_type"] != "ET_REL"
    return [
        HiddenFunction(each.name, each.source, _why(each, local, linked))
        for each in subprograms(info, {"C", "C++"})
        if each.symbol == each.name
        and each.name.isidentifier()
        and each.name != "main"
        and not each.name.startswith("bp_")
        and (each.name not in offered or not each.external)
    ]


def _why(hidden: Subprogram, local: set[str], linked: bool) -> str:
    keep = f"--no-inline {hidden.name} compiles it out of line"
    if hidden.name not in local and hidden.language in ("C++", "Rust"):  # --no-inline is for C
        keep = "call it from a function of your own"
    if not hidden.external:
        return f"static: {keep}" if hidden.name in local else f"static and inlined: {keep}"
    if linked:
        return "removed by the linker: nothing refers to it"
    return f"inlined: {keep}"


def _with_hooks(found: dict[str, _Symbol]) -> list[CFunction]:
    """Return the functions with their set-ups and checks, which are then left out themselves."""
    plain = {n: s for n, s in found.items() if s.fn.reason is None and not s.fn.parameters}
    setups = {n for n, s in plain.items() if n.endswith("_setup") and s.fn.result is None}
    checks = {n for n, s in plain.items() if n.endswith("_check") and s.returns_int}
    setups = {n for n in setups if n.removesuffix("_setup") in found}
    checks = {n for n in checks if n.removesuffix("_check") in found}
    hooks = {name: found[name].fn.symbol for name in setups | checks}
    return [
        replace(found[n].fn, setup=hooks.get(f"{n}_setup"), check=hooks.get(f"{n}_check"))
        for n in sorted(found.keys() - hooks.keys())
    ]
