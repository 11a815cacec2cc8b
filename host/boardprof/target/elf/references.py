# SPDX-License-Identifier: Apache-2.0
"""Find the functions that need a symbol, directly or through others, from relocations.

Each function has a section of its own (``-ffunction-sections``), so what a section refers to is
what the function in it needs. In objects that were compiled without, a function needs what its
neighbours need. Only the members of libraries that a function leads to are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from boardprof.target.elf.object_file import (
    LOCAL,
    WEAK,
    Image,
    defining,
    images,
    read_image,
    symbols,
)

_Section = tuple[int, int]  # which image, and the section's index in it


@dataclass(frozen=True)
class Need:
    """A symbol that a function needs and nothing defines.

    Attributes:
        symbol: the missing symbol.
        through: the library's function that needs it and that the objects use; None if the
            objects need the symbol themselves.
    """

    symbol: str
    through: str | None = None


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
                label = f"{path.name}({member.name})"
                self._unread.setdefault(name, Image(label, path, member.content, in_library=True))

    def add(self, image: Image) -> None:
        """Add an image."""
        read_image(image, partial(self._read, self._images))
        self._images += 1

    def needed(self, function: str, symbols: Collection[str]) -> Need | None:
        """Return the first of ``symbols`` that a function needs, itself or through others."""
        start = self.functions[function]
        todo: list[tuple[_Section, str | None]] = [(start, None)]
        seen = {start}
        while todo:
            section, through = todo.pop()
            for target in self._uses.get(section, ()):
                if isinstance(target, str) and target in symbols:
                    return Need(target, through)
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
        for section in _loaded_relocations(elf):
            uses = self._uses.setdefault((number, section["sh_info"]), {})
            for relocation in section.iter_relocations():
                symbol = table[relocation["r_info_sym"]]
                if symbol.bind == WEAK and not symbol.is_defined:
                    continue  # it may be missing
                own = symbol.is_in_section and symbol.bind == LOCAL
                uses[(number, symbol.section) if own else symbol.name] = None


def _loaded_relocations(elf: ELFFile) -> Iterator[RelocationSection]:
    """Yield the relocations of code and data; those of debug information are many more."""
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection):
            flags: int = elf.get_section(section["sh_info"])["sh_flags"]
            if flags & SH_FLAGS.SHF_ALLOC:
                yield section


def functions_needing(
    objects: Sequence[Path], symbols: Collection[str], libraries: Sequence[Path] = ()
) -> dict[str, Need]:
    """Return the global functions of ``objects`` that need one of ``symbols``, and which.

    Args:
        objects: ELF objects and static libraries.
        symbols: names that nothing defines.
        libraries: static libraries that come after the objects, in the order of the link.

    Raises:
        UsageError: a file is neither.
    """
    references = _References(libraries)
    for image in (image for path in objects for image in images(path)):
        references.add(image)
    needs = {name: references.needed(name, symbols) for name in sorted(references.functions)}
    return {name: need for name, need in needs.items() if need is not None}
