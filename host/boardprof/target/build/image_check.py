# SPDX-License-Identifier: Apache-2.0
"""What a linker and a C library do wrong without an error: checks of a linked image.

Start-up copies one range of memory to its place. A section outside of it would lack its initial
values. A small printf skips the numbers that it cannot print.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from boardprof.base.errors import BuildError
from boardprof.target.build.linking import check_constructors
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.elf.object_file import Image, images, read_image, symbols
from boardprof.target.toolchain.cache import Cache
from boardprof.target.toolchain.compiler import Object

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_MOST = 3  # names in a message
_OTHER_TYPE = "pass the value as another type"


def check_image(
    spec: BoardSpec, cache: Cache, image: Path, inputs: Sequence[Object], *, lacks: Collection[str]
) -> str:
    """Check that start-up does what an image needs; return what its C library cannot print.

    ``lacks``: what the library was built without, see `FORMATS`.
    """
    place = ("checked", f"{image.parent.name}-2")
    known = cache.read(*place)
    if known is not None:
        return known
    check_constructors(spec, image)
    linked = next(images(image))
    objects = [each for made in inputs for each in images(made.path)]
    for section in read_image(linked, _uninitialised):
        owner = next(filter(None, (_owner(each, section) for each in objects)), None)
        if section.kind != "cleared" or owner is not None:
            raise _refusal(spec, section, owner)
    told = _lacking(linked, objects, lacks=lacks)
    cache.write(told, *place)
    return told


# -- sections ----------------------------------------------------------------------------------

_EXECUTABLE, _WRITABLE, _ALLOCATED, _TLS = 4, 1, 2, 0x400  # ELF, "Section Attribute Flags"
_AVR_DATA, _AVR_OTHERS = 0x800000, 0x810000  # in avr-ld's addresses: RAM; EEPROM, fuses, ...
_COPY = ("bp_data_start", "bp_data_end", "bp_data_load", "bp_bss_start", "bp_bss_end")
_AVR_COPY = ("__data_start", "__data_end", "__data_load_start", "__bss_start", "__bss_end")


class _Section(NamedTuple):
    """A section that start-up leaves out."""

    name: str
    kind: str  # copied, cleared or code: what start-up would have to do
    variables: tuple[str, ...]  # or functions


def _uninitialised(elf: ELFFile) -> list[_Section]:
    """Return the sections whose content start-up does not put where the program uses it."""
    table = symbols(elf)
    values = {symbol.name: symbol.value for symbol in table if symbol.is_defined}
    is_avr = elf["e_machine"] == "EM_AVR"
    if not is_avr and not all(name in values for name in _COPY):
        return []  # an operating system loads it
    # On AVR, an image that needs no copy has no symbols for it.
    marks = (values.get(name, 0) for name in (_AVR_COPY if is_avr else _COPY))
    start, end, load, cleared, cleared_end = marks
    segments = list(elf.iter_segments("PT_LOAD"))
    # Flash may be mapped elsewhere, as the section of the entry point is.
    entry = next(
        s for s in elf.iter_sections() if 0 <= elf["e_entry"] - s["sh_addr"] < s["sh_size"]
    )
    in_place = {0, _moved(segments, entry)}
    found = []
    section: Any
    for index, section in enumerate(elf.iter_sections()):
        flags, begin, size = section["sh_flags"], section["sh_addr"], section["sh_size"]
        if not flags & _ALLOCATED or not size or (is_avr and begin >= _AVR_OTHERS):
            continue
        moved = _moved(segments, section)
        if section["sh_type"] == "SHT_NOBITS":
            is_kept = section.name.startswith(".noinit") or flags & _TLS
            kind = "" if is_kept or cleared <= begin < cleared_end else "cleared"
        elif start <= begin and begin + size <= end:
            kind = "" if moved == load - start else "copied"
        elif flags & _WRITABLE:
            kind = "" if moved == load - start == 0 else "copied"
        elif flags & _EXECUTABLE:
            kind = "" if moved in in_place else "code"
        else:
            is_readable = not is_avr or begin >= _AVR_DATA
            kind = "" if moved in in_place and is_readable else "copied"
        if kind:
            held = (symbol.name for symbol in table if symbol.section == index and symbol.size)
            found.append(_Section(section.name, kind, tuple(dict.fromkeys(held))))
    return found


def _moved(segments: Sequence[Any], section: Any) -> int | None:
    """Return a section's load address less its address; None if it is not loaded."""
    for each in segments:
        into = section["sh_offset"] - each["p_offset"]
        is_near = 0 <= section["sh_addr"] - each["p_vaddr"] < each["p_memsz"]
        if is_near and 0 <= into < each["p_filesz"]:
            return int(each["p_paddr"] + into - section["sh_addr"])
    return None


def _owner(image: Image, wanted: _Section) -> str | None:
    """Return the label of an object that has a section of this name."""
    if wanted.name.encode() not in image.content:
        return None
    names = read_image(image, lambda elf: {section.name for section in elf.iter_sections()})
    return image.label if wanted.name in names else None


def _refusal(spec: BoardSpec, section: _Section, owner: str | None) -> BuildError:
    named = ", ".join(section.variables[:_MOST])
    more = f" and {len(section.variables) - _MOST} more" if len(section.variables) > _MOST else ""
    what = f"the section {section.name}{f' of {owner}' if owner else ''}"
    what += f" ({named}{more})" if named else ""
    board = spec.name
    family, text = {
        "copied": (
            ".data",
            f"Start-up on {board} does not copy {what}, so it would not have its values.",
        ),
        "cleared": (".bss", f"Start-up on {board} does not clear {what}."),
        "code": (
            ".text",
            f"Start-up on {board} does not copy {what}, so its code would not be there.",
        ),
    }[section.kind]
    return BuildError(
        text,
        hint=f"name the section {family}.{section.name.lstrip('.')}, or leave the attribute out. "
        f"In a link script of your own, put it into {family}",
    )


# -- printf ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Function:
    """A printf or scanf."""

    has: tuple[str, ...]  # an image with it has one of these symbols
    full: tuple[str, ...] = ()  # one that converts floating point has one of these; () if all do
    flags: str = ""  # that ask for floating point


@dataclass(frozen=True)
class _Library:
    """A C library that does not convert everything."""

    name: str
    functions: Mapping[str, _Function]
    # conversions that no flag adds, by the option that it may be built without; "" for none
    never: Mapping[str, re.Pattern[bytes]]
    never_read: re.Pattern[bytes] = re.compile(rb"(?!)")  # those of scanf without C99_FORMATS


_FLAGS = rb"%[-+#0']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?"
_FLOAT = re.compile(rb"%%|(" + _FLAGS + rb"[lL]?[eEfFgG])")
_WIDE = re.compile(rb"%%|(" + _FLAGS + rb"(?:ls|S|C))")
_POSITION = re.compile(rb"%%|(%\d+\$[-+#0-9.l]*[a-zA-Z])")
_COUNT = re.compile(rb"%%|(" + _FLAGS + rb"(?:hh?|ll?)?n)")
_TEXT = re.compile(rb"[^\0]*%[^\0]*")


def _but(sizes: bytes, others: bytes = rb"(?!)") -> re.Pattern[bytes]:
    """Return what finds integers of these sizes, hexadecimal floating point and others."""
    numbers = _FLAGS + rb"(?:(?:" + sizes + rb")[diouxX]|[lL]?[aA])"
    return re.compile(rb"%%|(" + numbers + rb"|" + others + rb")")


_NANO = _Library(
    "newlib-nano",
    {
        "printf": _Function(("_printf_i",), ("_printf_float",), "-u _printf_float"),
        "scanf": _Function(("_scanf_i",), ("_scanf_float",), "-u _scanf_float"),
    },
    {"C99_FORMATS": _but(rb"hh|ll|j|z|t"), "POS_ARGS": _POSITION, "MB_CAPABLE": _WIDE},
)
_NEWLIB = _Library(
    "newlib",
    {
        "printf": _Function(("__sprint_r", "__ssprint_r")),
        "scanf": _Function(("__svfscanf_r", "__ssvfscanf_r")),
    },
    {"C99_FORMATS": _but(rb"j|z|t"), "POS_ARGS": _POSITION, "MB_CAPABLE": _WIDE},
    re.compile(rb"%%|(%\*?\d*hh[diouxXn])"),
)
_INTEGERS = "-DPICOLIBC_DOUBLE_PRINTF_SCANF instead of -DPICOLIBC_INTEGER_PRINTF_SCANF"


_PRINTFS, _SCANFS = (  # picolibc's variants: for double, float, long long, int and the least
    tuple(f"__{kind}_{name}" for kind in "dflim") for name in ("vfprintf", "vfscanf")
)
_PICOLIBC = _Library(
    "picolibc",
    {
        "printf": _Function(_PRINTFS, ("__d_vfprintf",), _INTEGERS),
        "scanf": _Function(_SCANFS, ("__d_vfscanf",), _INTEGERS),
    },
    {"MB_CAPABLE": _WIDE, "PERCENT_N": _COUNT},
)
_AVR = _Library(
    "avr-libc",
    {
        "printf": _Function(("vfprintf",), ("__ftoa_engine",), "-Wl,-u,vfprintf -lprintf_flt -lm"),
        "scanf": _Function(
            ("vfscanf",), ("pwr_p10", "__avrlibc_pwr_p10"), "-Wl,-u,vfscanf -lscanf_flt -lm"
        ),
    },
    # Its %S takes a text in flash.
    {"": _but(rb"ll|j|z|t", rb"%[-+#0']*\d*\.?\*[a-zA-Z]|%\d+\$[a-zA-Z]|%(?:ls|h*n|l*n|C)")},
)


def _lacking(image: Image, objects: Sequence[Image], *, lacks: Collection[str]) -> str:
    """Describe the conversions in the user's texts that the image's C library does not know."""
    names, machine = read_image(
        image, lambda elf: ({s.name for s in symbols(elf) if s.is_defined}, elf["e_machine"])
    )
    for library in (_AVR,) if machine == "EM_AVR" else (_NANO, _NEWLIB, _PICOLIBC):
        linked = {
            n: each for n, each in library.functions.items() if not names.isdisjoint(each.has)
        }
        if linked:
            break
    else:
        return ""
    unknown = f"{' and '.join(linked)} of {library.name} cannot convert"
    said = []
    # A text does not tell whether it is for printf or for scanf. If one of them knows floating
    # point, it may be for that one.
    knows_float = any(not each.full or not names.isdisjoint(each.full) for each in linked.values())
    if not knows_float and (found := _conversion(objects, _FLOAT)):
        flags = " ".join(dict.fromkeys(each.flags for each in linked.values()))
        said.append(f"{unknown} {found}: link with {flags}")
    wanted = [(unknown, each) for key, each in library.never.items() if not key or key in lacks]
    if "scanf" in linked and "C99_FORMATS" in lacks:
        wanted.append((f"scanf of {library.name} cannot convert", library.never_read))
    for what, pattern in wanted:
        if found := _conversion(objects, pattern):
            way = "pass the values in their order" if "$" in found else _OTHER_TYPE
            said.append(f"{what} {found}: {way}")
    return "; ".join(said)


def _conversion(objects: Sequence[Image], wanted: re.Pattern[bytes]) -> str | None:
    """Return the first of the wanted conversions in the texts of objects, and the object."""
    for image in objects:
        if b"%" in image.content:
            for text in read_image(image, lambda elf: list(_texts(elf))):
                for match in wanted.finditer(text):
                    if match[1]:
                        return f"{match[1].decode()} ({image.label})"
    return None


def _texts(elf: ELFFile) -> Iterator[bytes]:
    """Yield the texts with a percent sign in an object's data."""
    section: Any
    for section in elf.iter_sections("SHT_PROGBITS"):
        if section["sh_flags"] & (_ALLOCATED | _EXECUTABLE) == _ALLOCATED:
            for match in _TEXT.finditer(section.data()):
                if all(byte >= 0x20 or byte in b"\t\n\r\x1b" for byte in match[0]):
                    yield match[0]
