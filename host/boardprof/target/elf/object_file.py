# SPDX-License-Identifier: Apache-2.0
"""The ELF images in a file that a user names: their symbols, machine, compilers and build id.

The file may be a static library.
"""

from __future__ import annotations

import io
import platform
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from boardprof.base.errors import BoardprofError, BuildError, UsageError
from boardprof.base.files import open_file
from boardprof.target.descriptions.board import BoardSpec

if TYPE_CHECKING:  # pyelftools takes a while to import
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import Section


ELF_MAGIC = b"\x7fELF"
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # LLVM's, bare and wrapped
_T = TypeVar("_T")
MAGIC = b"!<arch>\n"
THIN_MAGIC = b"!<thin>\n"
_HEADER = 60
_TABLES = ("SHT_SYMTAB", "SHT_DYNSYM")  # the latter if the file is stripped
_SYMBOL = {32: "IIIBBH", 64: "IBBHQQ"}  # ELF, "Symbol Table"
_UNDEFINED, _RESERVED = 0, 0xFF00  # SHN_UNDEF, SHN_LORESERVE
_FUNCTION, _FILE, _IFUNC = 2, 4, 10  # STT_FUNC, STT_FILE, STT_GNU_IFUNC
_INDICES = {"/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64"}


@dataclass(frozen=True)
class Image:
    """An ELF image."""

    label: str  # the file's name; for a member of a library, ``libfir.a(fir.o)``
    path: Path
    content: bytes
    in_library: bool  # linked only when something else needs it


def images(path: Path) -> Iterator[Image]:
    """Yield the ELF images in a file."""
    magic = _magic(path)
    if magic in (MAGIC, THIN_MAGIC):
        is_empty = True
        for member in members(path):
            if member.content.startswith(ELF_MAGIC):
                is_empty = False
                yield member
        if is_empty:
            raise UsageError(f"{path} is a library that contains no ELF object.")
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


def read_image(image: Image, reader: Callable[[ELFFile], _T]) -> _T:
    """Return the result of ``reader`` for an image."""
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


class Symbol(NamedTuple):
    """An entry of a symbol table."""

    name: str  # a dynamic one may end in ``@@VERSION``
    value: int  # an address, or an offset in its section
    size: int
    bind: int
    kind: int
    section: int

    @property
    def is_defined(self) -> bool:
        """Whether it is defined in this file."""
        return self.section != _UNDEFINED

    @property
    def is_in_section(self) -> bool:
        """Whether it is defined in a section; a constant or a common symbol is not."""
        return _UNDEFINED < self.section < _RESERVED

    @property
    def is_function(self) -> bool:
        """Whether it is a function that is defined here."""
        return self.kind == _FUNCTION and self.is_defined

    @property
    def is_ifunc(self) -> bool:
        """Whether the loader finds the function, by calling a resolver that is defined here."""
        return self.kind == _IFUNC and self.is_defined


LOCAL, GLOBAL, WEAK = range(3)
"""Bindings of symbols: STB_LOCAL, STB_GLOBAL, STB_WEAK."""

OBJECT = 1
"""Kind of a variable's symbol: STT_OBJECT."""


def symbols(elf: ELFFile) -> list[Symbol]:
    """Return all symbols; a stripped library has only those that it exports."""
    return list(_read_symbols(elf, False))


def functions_in(elf: ELFFile) -> list[Symbol]:
    """Return the symbols of the functions that are defined here."""
    return [symbol for symbol in symbols(elf) if symbol.is_function]


def code_address(elf: ELFFile, symbol: Symbol) -> int:
    """Return a function's start address, without the bit that marks Thumb code."""
    return symbol.value & ~1 if elf["e_machine"] == "EM_ARM" else symbol.value


def sources_of_locals(elf: ELFFile) -> dict[int, str]:
    """Return the source of each function that is local to it, by the function's address."""
    found: dict[int, str] = {}
    source = ""
    for symbol in _read_symbols(elf, False):
        if symbol.kind == _FILE:
            source = symbol.name
        elif symbol.bind == LOCAL and symbol.is_function:
            found[code_address(elf, symbol)] = source
    return found


def global_functions(elf: ELFFile) -> Iterator[tuple[str, bool]]:
    """Yield the name of every global function that is defined here, and whether it is weak."""
    for symbol in _read_symbols(elf, True):
        if (symbol.is_function or symbol.is_ifunc) and symbol.bind in (GLOBAL, WEAK):
            yield symbol.name.partition("@")[0], symbol.bind == WEAK  # name@@version


def global_names(elf: ELFFile) -> Iterator[tuple[str, bool]]:
    """Yield the name of every global function and variable, and whether it is defined here."""
    for symbol in _read_symbols(elf, True):
        if symbol.name:
            yield symbol.name, symbol.is_defined


def _names_by_place(elf: ELFFile) -> dict[tuple[int, int], list[str]]:
    at: dict[tuple[int, int], list[str]] = {}
    for symbol in functions_in(elf):
        at.setdefault((symbol.section, symbol.value), []).append(symbol.name)
    return at


def all_names(elf: ELFFile) -> dict[str, list[str]]:
    """Return for each function all names of its code, in the order of the table."""
    return {name: names for names in _names_by_place(elf).values() for name in names}


def resolvers(elf: ELFFile) -> dict[str, list[str]]:
    """Return for each ifunc the names of its resolver."""
    at, ifuncs = _names_by_place(elf), (each for each in symbols(elf) if each.is_ifunc)
    return {each.name: at.get((each.section, each.value), []) for each in ifuncs}


_WAYS_BACK: Final = {
    # privileged manual, 3.3.2
    "EM_RISCV": {b"\x73\x00\x20\x30": "mret", b"\x73\x00\x20\x10": "sret"},
    "EM_AARCH64": {b"\xe0\x03\x9f\xd6": "eret"},  # DDI 0487, C6.2
}
"""The instructions that return from an interrupt, as bytes."""


def interrupt_handlers(elf: ELFFile) -> dict[str, str]:
    """Return the functions that return from an interrupt, and by which instruction."""
    ways = _WAYS_BACK.get(elf["e_machine"], {})
    found: dict[str, str] = {}
    if not ways:
        return found
    contents = cache(lambda index: elf.get_section(index).data())
    for symbol in functions_in(elf):
        if not symbol.is_in_section:
            continue
        begin = symbol.value
        if elf["e_type"] != "ET_REL":
            begin -= elf.get_section(symbol.section)["sh_addr"]
        code = contents(symbol.section)[begin : begin + symbol.size]
        found.update((symbol.name, name) for way, name in ways.items() if way in code)
    return found


def local_functions(elf: ELFFile) -> set[str]:
    """Return the names of the functions here that no other file can call."""
    return {
        symbol.name.partition(".")[0]  # GCC's clones: name.part.0
        for symbol in functions_in(elf)
        if symbol.bind == LOCAL
    }


def is_lto_only(elf: ELFFile) -> bool:
    """Tell whether an object has the compiler's intermediate code and no machine code."""
    names = {section.name for section in elf.iter_sections()}
    return ".debug_info" not in names and any(name.startswith(".gnu.lto_") for name in names)


def main_source(elf: ELFFile) -> str | None:
    """Return the source that an object was compiled from; None for a linked program."""
    if elf["e_type"] != "ET_REL":
        return None
    files = (symbol.name for symbol in _read_symbols(elf, False) if symbol.kind == _FILE)
    return next(files, None)


def _read_symbols(elf: ELFFile, globals_only: bool) -> Iterator[Symbol]:
    """Yield symbols. Local ones come first, up to sh_info (ELF, "Sections")."""
    table = next((each for kind in _TABLES for each in elf.iter_sections(kind)), None)
    if table is None:
        return
    names = elf.get_section(table["sh_link"]).data()
    for name, value, size, info, section in symbol_entries(elf, table, globals_only):
        text = names[name : names.index(b"\0", name)].decode(errors="replace")
        yield Symbol(text, value, size, info >> 4, info & 15, section)


def symbol_entries(
    elf: ELFFile, table: Section, globals_only: bool = False
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield place of the name, value, size, info and section of the symbols in a table.

    There may be a million. pyelftools takes 30 us for each, and struct takes one.
    """
    layout = struct.Struct(("<" if elf.little_endian else ">") + _SYMBOL[elf.elfclass])
    first = table["sh_info"] if globals_only else 0
    for name, *values in layout.iter_unpack(memoryview(table.data())[first * layout.size :]):
        if elf.elfclass == 64:
            info, _, section, value, size = values
        else:
            value, size, info, _, section = values
        yield name, value, size, info, section


# -- static libraries --------------------------------------------------------------------------
#
# They have the ar format, with the long names of GNU and of BSD. Layout, see ar(5): the magic, then
# members at even offsets. A header of 60 bytes of text has the name in bytes 0 to 15 and the size
# in bytes 48 to 57, and ends in a grave accent and a newline. ``/`` and ``/SYM64/`` are tables of
# symbols, ``//`` is the table of names of more than 15 bytes, ``/N`` a name at offset N in it,
# ``#1/N`` a name in the first N bytes of the content.


def _magic(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read(len(MAGIC))


def is_library(path: Path) -> bool:
    """Tell whether a file is a static library, thin or not."""
    return _magic(path) in (MAGIC, THIN_MAGIC)


def members(path: Path) -> Iterator[Image]:
    """Yield the files of a library, in its order, without its tables."""
    if _magic(path) == THIN_MAGIC:
        raise UsageError(
            f"{path} is a thin archive: it contains the names of objects, not the objects.",
            hint="give the objects themselves, or make the library without T: ar rcs",
        )
    return (_member(path, n, content) for _, n, content in _placed(path) if n not in _INDICES)


def _member(path: Path, name: str, content: bytes) -> Image:
    return Image(f"{path.name}({name})", path, content, in_library=True)


def outside(path: Path) -> list[Path]:
    """Return the files that a thin archive names; empty for any other library."""
    if _magic(path) != THIN_MAGIC:
        return []
    return [path.parent / name for _, name, _ in _placed(path) if name not in _INDICES]


def defining(path: Path) -> dict[str, Image]:
    """Return the member that defines each symbol, from a library's table; {} without a table."""
    placed = {place: (name, content) for place, name, content in _placed(path)}
    table = next((content for name, content in placed.values() if name == "/"), None)
    if table is None:
        return {}
    # Big-endian: the number of symbols, the offset of each one's file, and the names.
    count = int.from_bytes(table[:4], "big")
    begins = [int.from_bytes(table[4 + 4 * i : 8 + 4 * i], "big") for i in range(count)]
    names = table[4 + 4 * count :].split(b"\0")
    found: dict[str, Image] = {}
    for symbol, begin in zip(names, begins, strict=False):
        if begin in placed and placed[begin][1]:
            found.setdefault(symbol.decode(errors="replace"), _member(path, *placed[begin]))
    return found


def _placed(path: Path) -> Iterator[tuple[int, str, bytes]]:
    """Yield the offset of the header, name and content of each file and table of symbols."""
    data = path.read_bytes()
    thin = data.startswith(THIN_MAGIC)
    names, at = b"", len(MAGIC)
    while at + _HEADER <= len(data):
        name, size = _header(path, data[at : at + _HEADER])
        elsewhere = thin and name != "//" and name not in _INDICES
        place, begin = at, at + _HEADER
        at = begin if elsewhere else begin + size + size % 2
        content = b"" if elsewhere else data[begin : begin + size]
        if len(content) < size and not elsewhere:
            raise UsageError(f"{path} is truncated: its member {name} should have {size} bytes.")
        if name == "//":
            names = content
            continue
        if name.startswith("#1/"):
            length = _decimal(path, name[3:])
            name = content[:length].rstrip(b"\0").decode(errors="replace")
            content = content[length:]
        elif name[:1] == "/" and name[1:].isdecimal():
            name = names[int(name[1:]) :].partition(b"\n")[0].decode(errors="replace")
        name = name if name in _INDICES else name.removesuffix("/")
        if elsewhere:
            file = path.parent / name
            content = file.read_bytes() if file.is_file() else b""
        yield place, name, content


def _header(path: Path, header: bytes) -> tuple[str, int]:
    """Return name and size of a member."""
    if header[58:60] != b"`\n":
        raise UsageError(f"{path} is damaged: a member does not begin with a header.")
    size = _decimal(path, header[48:58].decode(errors="replace"))
    return header[:16].decode(errors="replace").rstrip(), size


def _decimal(path: Path, text: str) -> int:
    if not text.strip().isdecimal():
        raise UsageError(f"{path} is damaged: {text!r} is not the size of a member.")
    return int(text)


# -- machine, compilers, build id --------------------------------------------------------------
#
# Headers are read here and not by pyelftools, which takes longer to import than a build from the
# cache takes. Offsets are those of the System V ABI, "ELF Header" and "Sections".


_ELF_HEADER = 20  # bytes, to the end of e_machine
_RELOCATABLE, _EXECUTABLE, _SHARED = 1, 2, 3  # e_type

# e_machine, as the registry of the System V ABI has it.
_MACHINES = {
    3: "x86",
    8: "MIPS",
    20: "PowerPC",
    40: "Arm",
    62: "x86-64",
    83: "AVR",
    94: "Xtensa",
    105: "MSP430",
    183: "AArch64",
    243: "RISC-V",
}
_BY_PREFIX = {
    "aarch64": 183,
    "arm": 40,
    "avr": 83,
    "i686": 3,
    "mips": 8,
    "msp430": 105,
    "powerpc": 20,
    "riscv32": 243,
    "riscv64": 243,
    "x86_64": 62,
    "xtensa": 94,
}
_OF_THIS_HOST = ("cc", "c99", "clang", "gcc")

# By e_ident[EI_CLASS], 32 and 64 bits: e_shoff and its place, the place of e_shentsize, e_shnum and
# e_shstrndx, and sh_name, sh_offset and sh_size of a section.
_SECTIONS = {1: ("I", 32, 46, "I12xII"), 2: ("Q", 40, 58, "I20xQQ")}

_FIRMWARE, _DESCRIBE = "bp_firmware", "bp.describe"
_BUILD_ID_BYTES = 8
# Before build_id come three pointers, a uint16_t and a uint8_t (bp.h, bp_firmware_t).
_POINTERS, _REST = 3, 3
_POINTER_BYTES_AVR = 2


class _Header(NamedTuple):
    """The first fields of an ELF file; ``order`` is struct's mark of its byte order."""

    bits: int
    order: str
    kind: int
    machine: int

    @classmethod
    def of(cls, content: bytes) -> _Header | None:
        """Read a file's first 20 bytes; None if it is not an ELF file."""
        if len(content) < _ELF_HEADER or not content.startswith(ELF_MAGIC):
            return None
        order = ">" if content[5] == 2 else "<"
        bits = {1: 32, 2: 64}.get(content[4], 0)
        return cls(bits, order, *struct.unpack_from(order + "HH", content, 16))

    @property
    def machine_name(self) -> str:
        return _MACHINES.get(self.machine, f"machine {self.machine}")


def check_machine(spec: BoardSpec, files: list[Path], own: Path) -> None:
    """Check that objects and static libraries are for the board's machine."""
    wanted = _object_machine(_beginning(own), str(own))
    for where, content in _objects(files):
        machine = _object_machine(content, where)
        if machine != wanted:
            raise BuildError(
                f"{where} is for {machine}; {spec.name} is {wanted}.",
                hint=f"compile it with {spec.build.cc}, or name another board with -b",
            )


def _object_machine(content: bytes, where: str) -> str:
    """Return the machine that an object file is for, such as ``32-bit RISC-V``."""
    header = _Header.of(content)
    if header is None:
        raise BuildError(
            f"{where} is not an object file in the ELF format.",
            hint="compile it with the board's own compiler; with clang, without -flto",
        )
    if header.kind != _RELOCATABLE:
        raise BuildError(
            f"{where} is already linked.", hint="give the object files that it was linked from"
        )
    bits = f"{header.bits}-bit " if header.bits else ""
    return f"{bits}{header.machine_name}{', big-endian' if header.order == '>' else ''}"


def _objects(files: list[Path]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        if is_library(path):
            yield from ((str(path.with_name(each.label)), each.content) for each in images(path))
        else:
            yield str(path), _beginning(path)


def _beginning(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read(_ELF_HEADER)


def is_program(path: Path) -> bool:
    """Tell whether a file is a linked ELF program or shared library, and not an object file."""
    try:
        header = _Header.of(_beginning(path))
    except OSError:
        return False
    return header is not None and header.kind in (_EXECUTABLE, _SHARED)


def check_image(image: Path, spec: BoardSpec, others: Iterable[BoardSpec] = ()) -> None:
    """Check that an image is for the board and has the agent, before anything is started."""
    check_image_machine(image, spec, others)
    content = image.read_bytes()
    # A stripped image has no symbols, but every agent has a function of this name.
    mark = _FIRMWARE if b"\0.symtab\0" in content else _DESCRIBE
    if mark.encode() + b"\0" not in content:
        raise UsageError(
            f"{image} does not contain boardprof's agent: it has no {mark}.",
            hint="add the agent to its build (docs/firmware.md), or measure sources: "
            f"boardprof run -b {spec.name} FILE.c:FUNCTION",
        )


def check_image_machine(image: Path, spec: BoardSpec, others: Iterable[BoardSpec] = ()) -> None:
    """Check that a file is an ELF image for the board's machine."""
    if not image.is_file():
        wrong = "is not a regular file" if image.exists() else "does not exist"
        raise UsageError(f"The firmware image {image} {wrong}.")
    header = _Header.of(_beginning(image))
    if header is None:
        raise UsageError(
            f"{image} is not a firmware image in the ELF format.",
            hint="give the linker's output, not the .bin or .hex that objcopy made from it",
        )
    wanted = _board_machine(spec)
    if wanted is None or header.machine == wanted:
        return
    fitting = [other.name for other in others if _board_machine(other) == header.machine]
    raise UsageError(
        f"{image} is for {header.machine_name}; {spec.name} is {_MACHINES[wanted]}.",
        hint="give the board that it was built for with -b"
        + (f", such as {' or '.join(fitting)}" if fitting else ""),
    )


def _board_machine(spec: BoardSpec) -> int | None:
    """Return ``e_machine`` of a board, from its compiler's name. None if unknown."""
    name = Path(spec.build.cc).name
    if name.partition("-")[0] in _OF_THIS_HOST:
        is_cross = any("target" in flag for flag in spec.build.cflags)
        return None if is_cross else _BY_PREFIX.get(platform.machine())
    return _BY_PREFIX.get(name.partition("-")[0])


def compilers_of(files: Iterable[Path]) -> tuple[str, ...]:
    """Return the compilers of images, objects and libraries, in byte order, from ``.comment``."""
    found: set[str] = set()
    for file in files:
        with suppress(OSError, UsageError):
            for image in images(file):
                with suppress(struct.error, KeyError, IndexError):
                    texts = _comment(image.content).decode(errors="replace").split("\0")
                    found.update(map(str.strip, texts))
    return tuple(sorted(found - {""}))


def _comment(data: bytes) -> bytes:
    """Return the content of ``.comment``, empty if absent."""
    header = _Header.of(data)
    if header is None:
        return b""
    word, table_at, counts_at, section = _SECTIONS[data[4]]
    (table,) = struct.unpack_from(header.order + word, data, table_at)
    size, count, names = struct.unpack_from(header.order + "HHH", data, counts_at)
    places = range(table, table + count * size, size)
    sections = [struct.unpack_from(header.order + section, data, place) for place in places]
    _, names_at, names_size = sections[names]
    for name, begin, length in sections:
        if name < names_size and data.startswith(b".comment\0", names_at + name):
            return data[begin : begin + length]
    return b""


def build_id_of(image: Path) -> bytes | None:
    """Return the 8 bytes that an agent with this image reports; None without agent or symbols."""
    return read_if_possible(image, _build_id)


def _build_id(elf: ELFFile) -> bytes | None:
    symbol = next((each for each in symbols(elf) if each.name == _FIRMWARE), None)
    if symbol is None:
        return None
    section = elf.get_section(symbol.section)
    pointer = _POINTER_BYTES_AVR if elf["e_machine"] == "EM_AVR" else elf.elfclass // 8
    begin = symbol.value - section["sh_addr"] + _POINTERS * pointer + _REST
    found: bytes = section.data()[begin : begin + _BUILD_ID_BYTES]
    return found if len(found) == _BUILD_ID_BYTES else None
