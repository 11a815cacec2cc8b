# SPDX-License-Identifier: Apache-2.0
"""The C functions that object files offer, with their signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from boardprof.cfunction import CFunction, Parameter, Scalar, signature
from boardprof.dwarf_types import NotCallable, Prototype, prototypes
from boardprof.errors import BuildError

__all__ = ["CFunction", "Parameter", "Scalar", "functions", "signature"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_NAME = 63  # bytes, bp.h
_INT_HAS_16_BITS = {"EM_AVR", "EM_H8_300", "EM_MSP430", "EM_RL78"}


def functions(objects: Sequence[Path]) -> list[CFunction]:
    """Return the global functions that ``objects`` define, by name.

    Left out are ``main``, names that begin with ``bp_`` and the set-ups and
    checks, which stand with their function. What has the name of one but not
    its type is a function like any other.

    Args:
        objects: relocatable ELF files, compiled with ``-g``, of any machine.

    Raises:
        BuildError: a file is no ELF file, or two files define the same function.
    """
    found: dict[str, _Symbol] = {}
    for path in objects:
        for symbol in _read(path):
            name = symbol.fn.name
            other = found.get(name)
            if other is not None and not other.weak and not symbol.weak:
                raise BuildError(
                    f"The function {name} is defined twice: "
                    f"in {other.fn.source} and in {symbol.fn.source}.",
                    hint="make one of them static, rename it, or build only one of the files",
                )
            if other is None or (other.weak and not symbol.weak):  # as the linker chooses
                found[name] = symbol
    return _with_hooks(found)


@dataclass(frozen=True)
class _Symbol:
    """A function, and what its object alone tells: whether it is weak, whether it returns int."""

    fn: CFunction
    weak: bool
    returns_int: bool


def _read(path: Path) -> Iterator[_Symbol]:
    with path.open("rb") as file:
        try:
            elf = ELFFile(file)
            types = prototypes(elf)
            symbols = dict(_defined(elf))
            source = _source(elf, path)
            int_type = "i16" if elf["e_machine"] in _INT_HAS_16_BITS else "i32"
        except ELFError as error:
            raise BuildError(f"{path} cannot be read as an ELF file: {error}.") from error
    for name, weak in symbols.items():
        if name != "main" and not name.startswith("bp_"):
            fn = _function(name, types.get(name), source)
            yield _Symbol(fn, weak, fn.result is not None and fn.result.text == int_type)


def _defined(elf: ELFFile) -> Iterator[tuple[str, bool]]:
    """Yield the name of every global function symbol, and whether it is weak."""
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return
    for symbol in table.iter_symbols():
        info = symbol["st_info"]
        if (
            info["type"] == "STT_FUNC"
            and info["bind"] in ("STB_GLOBAL", "STB_WEAK")
            and symbol["st_shndx"] != "SHN_UNDEF"
        ):
            yield symbol.name, info["bind"] == "STB_WEAK"


def _source(elf: ELFFile, path: Path) -> str:
    """Return the file's own word on what it was compiled from, else its name."""
    table = elf.get_section_by_name(".symtab")
    symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
    files = (symbol.name for symbol in symbols if symbol["st_info"]["type"] == "STT_FILE")
    return next(files, path.name)


def _function(name: str, found: Prototype | NotCallable | None, source: str) -> CFunction:
    if found is None:
        found = NotCallable("there is no debug information on its type", source)
    if not _IDENTIFIER.fullmatch(name):
        found = NotCallable("its name is not one of C", found.source)
    elif len(name) > _LONGEST_NAME:
        found = NotCallable(f"its name is longer than {_LONGEST_NAME} bytes", found.source)
    if isinstance(found, NotCallable):
        return CFunction(name, (), None, None, None, found.source, found.reason)
    return CFunction(name, found.parameters, found.result, None, None, found.source, None)


def _with_hooks(found: dict[str, _Symbol]) -> list[CFunction]:
    """Give each function its set-up and check, which then stand for themselves no more."""
    plain = {n: s for n, s in found.items() if s.fn.reason is None and not s.fn.parameters}
    setups = {n for n, s in plain.items() if n.endswith("_setup") and s.fn.result is None}
    checks = {n for n, s in plain.items() if n.endswith("_check") and s.returns_int}
    setups = {n for n in setups if n.removesuffix("_setup") in found}
    checks = {n for n in checks if n.removesuffix("_check") in found}
    return [
        replace(
            found[name].fn,
            setup=f"{name}_setup" if f"{name}_setup" in setups else None,
            check=f"{name}_check" if f"{name}_check" in checks else None,
        )
        for name in sorted(found.keys() - setups - checks)
    ]
