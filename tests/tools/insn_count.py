# SPDX-License-Identifier: Apache-2.0
"""Independent instruction counts from QEMU: build and use the TCG plugin `insn_count.c`.

The plugin counts what the emulator executes; it shares no code with the agent, the wire or the
host package, so its counts can be held against theirs. What counts is said in `insn_count.c`.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tests.support import built_once

__all__ = [
    "InsnCountError",
    "build_plugin",
    "plugin_argument",
    "read_counts",
    "read_trace",
    "symbol_range",
]

SOURCE = Path(__file__).with_name("insn_count.c")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wmissing-prototypes", "-pedantic")


class InsnCountError(Exception):
    """The plugin cannot be built, or its input or output makes no sense."""


def build_plugin() -> Path:
    """Compile the plugin with the machine's own C compiler; return the shared object.

    Raises:
        InsnCountError: there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise InsnCountError(
            "no C compiler (cc or gcc) on PATH to build the QEMU plugin: install the package gcc"
        )
    flags = ["-std=c11", "-O2", *WARNINGS, "-Werror", "-shared", "-fPIC"]
    return built_once([compiler, *flags, SOURCE], "insn_count.so")


def plugin_argument(
    plugin: Path,
    entries: Sequence[int],
    stops: Sequence[tuple[int, int]],
    out: Path,
    *,
    nested: bool = False,
    trace: Path | None = None,
) -> list[str]:
    """Write QEMU's arguments that load the plugin.

    Args:
        plugin: what `build_plugin` returned.
        entries: address of the first instruction of each function; a Thumb bit is ignored.
        stops: half-open address ranges of code whose execution ends a count, Thumb bit ignored.
        out: file that gets the counts; QEMU truncates it.
        nested: whether entries and stops are pairs that nest, and the outermost pair counts.
        trace: file that gets the addresses of the first activation of each entry.
    """
    options = [f"entry={entry:#x}" for entry in entries]
    options += [f"stop={lo:#x}:{hi:#x}" for lo, hi in stops]
    # QEMU's option syntax: a comma inside a value is written twice.
    paths = [str(path).replace(",", ",,") for path in (plugin, out, trace)]
    options += [f"out={paths[1]}", *(["nested=yes"] if nested else [])]
    options += [f"trace={paths[2]}"] if trace is not None else []
    return ["-plugin", ",".join([paths[0], *options])]


def read_counts(path: Path, start: int = 0) -> dict[int, list[int]]:
    """Read the plugin's output.

    Args:
        path: what the plugin writes.
        start: how many of its bytes were there before; they are not read.

    Returns:
        Entry address (Thumb bit clear) to the instruction counts of its activations, in order of
        execution. An entry that was never both reached and left is absent.

    Raises:
        InsnCountError: a line is not `0xENTRY COUNT`.
    """
    counts: dict[int, list[int]] = {}
    with path.open(encoding="ascii") as file:
        file.seek(start)
        lines = file.read().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            entry, count = line.split(" ")
            counts.setdefault(int(entry, 16), []).append(int(count))
        except ValueError as error:
            raise InsnCountError(f"{path}:{number}: {line!r} is not '0xENTRY COUNT'") from error
    return counts


def read_trace(path: Path) -> dict[int, list[int]]:
    """Read the plugin's trace: for each entry the addresses of its first activation, in order."""
    parts = path.read_text("ascii").split("\n\n")
    traces = ([int(line, 16) for line in part.split()] for part in parts)
    return {each[0]: each for each in traces if each}


def symbol_range(elf: Path, name: str) -> tuple[int, int]:
    """Look up the half-open address range of a function, Thumb bit clear.

    Raises:
        InsnCountError: the file has no such symbol, several at different places, or one of
            size 0 (assembly without `.size`).
    """
    found = _symbols(elf, elf.stat().st_mtime_ns).get(name, ())
    if len(found) != 1:
        raise InsnCountError(f"{elf} has {len(found)} symbols named {name}, need exactly 1")
    ((address, size),) = found
    if size == 0:
        raise InsnCountError(f"{name} in {elf} has size 0: give it a .size directive")
    return address, address + size


@functools.lru_cache(maxsize=8)
def _symbols(elf: Path, written_ns: int) -> dict[str, set[tuple[int, int]]]:
    """Return address and size of all that have each name; read once, which takes long."""
    with elf.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        if not isinstance(table, SymbolTableSection):
            raise InsnCountError(f"{elf} has no symbol table: link it without -s")
        found: dict[str, set[tuple[int, int]]] = {}
        for symbol in table.iter_symbols():
            if symbol["st_shndx"] != "SHN_UNDEF":
                place = (symbol["st_value"] & ~1, symbol["st_size"])
                found.setdefault(symbol.name, set()).add(place)
    return found
