# SPDX-License-Identifier: Apache-2.0
"""What GNU ld complains of, in plain words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from boardprof.boards.board_file import BoardSpec

__all__ = ["explain", "libraries_in", "undefined_symbols"]

_MOST = 8  # symbols that are named one by one
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_FUNCTION = re.compile(r"([^:\s]*\.o\)?): in function [`'](.+)':$")
_UNDEFINED = re.compile(r"(\S*?):(?:(\d+)|\(.*?\)): undefined reference to [`'](.+)'$")
_BARE_UNDEFINED = re.compile(r"(\S*): undefined reference to [`'](.+)'$")
_REGION = re.compile(r"^\s*(\S+):\s+(\d+) ([KMG]?B)\s+(\d+) ([KMG]?B)\s+[\d.]+%", re.MULTILINE)
_OVERFLOW = re.compile(r"region [`'](.+?)' overflowed by (\d+) bytes")
_OUTSIDE = re.compile(r"section [`'](\S+)' (?:is not within|will not fit in) region [`'](.+?)'")
_TWICE = re.compile(r"multiple definition of [`'](.+?)'; (\S+?):.*first defined here")
_MEMBER = re.compile(r"(?:^|ld: )(\S*\.a)\(\S+?\)[:,]", re.MULTILINE)
_LIBRARY = re.compile(r"cannot find (-l[^\s:]+)")
_STACK = re.compile(r"ld: (too little is left for the stack)")
_HEAP = {"_sbrk", "sbrk", "__heap_start", "__heap_end"}


def explain(output: str, spec: BoardSpec, keepers: Sequence[str] = ()) -> str | None:
    """Return what went wrong in a link, None where the linker's own words must do.

    Args:
        output: what the linker printed, in English, with ``--print-memory-usage``.
        spec: the board.
        keepers: names of static functions, which other files cannot use.
    """
    sentences = [*_sizes(output, spec), *_undefined(output, spec, keepers)]
    for symbol, first in dict.fromkeys(_TWICE.findall(output)):
        sentences.append(f"{symbol} is defined twice, the first time in {os.path.basename(first)}.")
    for library in dict.fromkeys(_LIBRARY.findall(output)):
        sentences.append(f"There is no library for {library}: give its folder with -L.")
    return " ".join(sentences) if sentences else None


def undefined_symbols(output: str) -> dict[str, list[str]]:
    """Return the symbols that were not found -> who uses each, such as ``f in fir.c:3``."""
    found: dict[str, list[str]] = {}
    for symbol, function, place in _uses(output):
        users = found.setdefault(symbol, [])
        user = f"{function} in {place}" if function and place else place
        if user and user not in users:
            users.append(user)
    return found


def libraries_in(output: str) -> list[Path]:
    """Return the static libraries whose members the linker complains of."""
    return [Path(name) for name in dict.fromkeys(_MEMBER.findall(output))]


def _uses(output: str) -> Iterator[tuple[str, str, str]]:
    """Yield (symbol, function, place); the linker names the function on a line before."""
    function = ""
    for line in output.splitlines():
        if match := _FUNCTION.search(line):
            function = match[2]
        elif match := _UNDEFINED.search(line):
            file, number, symbol = match.groups()
            place = _shown(file) + (f":{number}" if number else "")
            yield symbol, function, place
        elif match := _BARE_UNDEFINED.search(line):
            yield match[2], "", _shown(match[1])


def _shown(path: str) -> str:
    """Return a file's name, or ``library(member)``."""
    return os.path.basename(path)


def _sizes(output: str, spec: BoardSpec) -> Iterator[str]:
    used, sizes = {}, {}
    for name, amount, unit, size, size_unit in _REGION.findall(output):
        used[name] = int(amount) * _UNITS[unit]
        sizes[name] = int(size) * _UNITS[size_unit]
    # Where a section has a place of its own, the linker does not say by how much it is too large.
    excesses = {region: used.get(region, 0) - sizes.get(region, 0) for region in used}
    excesses = {region: excess for region, excess in excesses.items() if excess > 0}
    excesses |= {region: int(excess) for region, excess in _OVERFLOW.findall(output)}
    for region, excess in excesses.items():
        if region in sizes:
            needed, size = sizes[region] + excess, sizes[region]
            yield f"The program needs {needed:,} bytes of {region}; {spec.name} has {size:,}."
        else:
            yield f"The program is {excess:,} bytes too large for the {region} of {spec.name}."
    for section, region in dict.fromkeys(_OUTSIDE.findall(output)):
        if region not in excesses:
            yield f"{section} has no room in the {region} of {spec.name}."
    if _STACK.search(output):
        yield f"The program leaves too little of the memory of {spec.name} for the stack."


def _undefined(output: str, spec: BoardSpec, keepers: Sequence[str]) -> Iterator[str]:
    found = undefined_symbols(output)
    if found.keys() & _HEAP:
        yield (
            f"malloc needs a heap, and {spec.name} has none: set libc_heap in its board.toml, "
            "or give the function its memory as an argument."
        )
    named = [symbol for symbol in found if symbol not in _HEAP]
    for symbol in named[:_MOST]:
        users = found[symbol]
        who = f"; {' and '.join(users[:2])} {'uses' if len(users) == 1 else 'use'} it"
        static = f" (it is static elsewhere: --keep {symbol})" if symbol in keepers else ""
        yield f"{symbol} is not defined{who if users else ''}{static}."
    if len(named) > _MOST:
        yield f"Nor are {len(named) - _MOST} more."
