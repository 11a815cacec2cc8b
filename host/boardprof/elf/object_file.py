# SPDX-License-Identifier: Apache-2.0
"""The ELF images in a file that a user names, and the functions in their symbol tables."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from boardprof.elf.archive import MAGIC, THIN_MAGIC, members
from boardprof.errors import BoardprofError, UsageError

if TYPE_CHECKING:  # pyelftools takes a while to import
    from elftools.elf.elffile import ELFFile

ELF_MAGIC = b"\x7fELF"
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # LLVM's, bare and wrapped
_T = TypeVar("_T")


@dataclass(frozen=True)
class Image:
    """An ELF image.

    Attributes:
        label: the file's name; for a member of a library, ``libfir.a(fir.o)``.
        path: the file, as it was given.
        content: the image.
        in_library: whether the linker takes it only when something else needs it.
    """

    label: str
    path: Path
    content: bytes
    in_library: bool


def images(path: Path) -> Iterator[Image]:
    """Yield the ELF images in a file.

    Raises:
        UsageError: it is neither an ELF file nor a library with ELF files.
    """
    with path.open("rb") as file:
        magic = file.read(8)
    if magic in (MAGIC, THIN_MAGIC):
        yield from _library(path)
    elif magic.startswith(ELF_MAGIC):
        yield Image(path.name, path, path.read_bytes(), in_library=False)
    elif magic.startswith(_BITCODE):
        raise UsageError(
            f"{path} cannot be read as an ELF file: it is LLVM bitcode.",
            hint="compile it without -flto",
        )
    else:
        raise UsageError(
            f"{path} cannot be read as an ELF file or a library of ELF files.",
            hint="give an object (.o), a static library (.a), a shared library or a program",
        )


def _library(path: Path) -> Iterator[Image]:
    found = False
    for member in members(path):
        if member.content.startswith(ELF_MAGIC):
            found = True
            yield Image(f"{path.name}({member.name})", path, member.content, in_library=True)
    if not found:
        raise UsageError(f"{path} is a library that contains no ELF object.")


def read_image(image: Image, reader: Callable[[ELFFile], _T]) -> _T:
    """Return the result of ``reader`` for an image.

    Raises:
        UsageError: the image is damaged.
    """
    from elftools.elf.elffile import ELFFile

    try:
        return reader(ELFFile(io.BytesIO(image.content)))
    except BoardprofError:
        raise
    except Exception as error:
        # For damaged files pyelftools raises asserts and KeyErrors besides its own errors.
        raise UsageError(
            f"{image.path} cannot be read as an ELF file"
            f"{f' ({image.label})' if image.in_library else ''}: "
            f"{type(error).__name__}: {error}.",
            hint="if the file is not damaged, compile it with -g -gdwarf-4, or decompress it: "
            "objcopy --decompress-debug-sections",
        ) from error


def read_if_possible(path: Path, reader: Callable[[ELFFile], _T]) -> _T | None:
    """Return the result of ``reader`` for an ELF file. None if the file is missing or damaged."""
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as file:
            return reader(ELFFile(file))
    except Exception:  # as for `read_image`
        return None


def symbols(elf: ELFFile) -> list[Any]:
    """Return all symbols; a stripped library has only those that it exports."""
    table = _table(elf)
    return [] if table is None else list(table.iter_symbols())


def functions_in(elf: ELFFile) -> list[Any]:
    """Return the symbols of the functions that are defined here."""
    return list(filter(_is_function, symbols(elf)))


def code_address(elf: ELFFile, symbol: Any) -> int:
    """Return a function's start address, without the bit that marks Thumb code."""
    address: int = symbol["st_value"]
    return address & ~1 if elf["e_machine"] == "EM_ARM" else address


def global_functions(elf: ELFFile) -> Iterator[tuple[str, bool]]:
    """Yield the name of every global function that is defined here, and whether it is weak."""
    for symbol in filter(_is_function, _global_symbols(elf)):
        bind = symbol["st_info"]["bind"]
        if bind in ("STB_GLOBAL", "STB_WEAK"):
            yield symbol.name.partition("@")[0], bind == "STB_WEAK"  # name@@version


def global_names(elf: ELFFile) -> Iterator[tuple[str, bool]]:
    """Yield the name of every global function and variable, and whether it is defined here."""
    for symbol in _global_symbols(elf):
        if symbol.name:
            yield symbol.name, symbol["st_shndx"] != "SHN_UNDEF"


def all_names(elf: ELFFile) -> dict[str, list[str]]:
    """Return for each function all names of its code, in the order of the table."""
    at: dict[tuple[Any, int], list[str]] = {}
    for symbol in functions_in(elf):
        at.setdefault((symbol["st_shndx"], symbol["st_value"]), []).append(symbol.name)
    return {name: names for names in at.values() for name in names}


def local_functions(elf: ELFFile) -> set[str]:
    """Return the names of the functions here that no other file can call."""
    return {
        symbol.name.partition(".")[0]  # GCC's clones: name.part.0
        for symbol in functions_in(elf)
        if symbol["st_info"]["bind"] == "STB_LOCAL"
    }


def is_lto_only(elf: ELFFile) -> bool:
    """Tell whether an object has the compiler's intermediate code and no machine code."""
    names = {section.name for section in elf.iter_sections()}
    return ".debug_info" not in names and any(name.startswith(".gnu.lto_") for name in names)


def main_source(elf: ELFFile) -> str | None:
    """Return the source that an object was compiled from; None for a linked program."""
    if elf["e_type"] != "ET_REL":
        return None
    files = (s.name for s in symbols(elf) if s["st_info"]["type"] == "STT_FILE")
    return next(files, None)


def _is_function(symbol: Any) -> bool:
    return bool(symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF")


def _global_symbols(elf: ELFFile) -> Iterator[Any]:
    """Yield the symbols that are not local: they come last, from sh_info on (ELF, "Sections")."""
    table = _table(elf)
    if table is not None:
        yield from map(table.get_symbol, range(table["sh_info"], table.num_symbols()))


def _table(elf: ELFFile) -> Any:
    from elftools.elf.sections import SymbolTableSection

    tables = map(elf.get_section_by_name, (".symtab", ".dynsym"))
    return next((each for each in tables if isinstance(each, SymbolTableSection)), None)
