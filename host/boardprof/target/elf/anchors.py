# SPDX-License-Identifier: Apache-2.0
"""The symbol at a distance from one of the agent's anchors, in an image (SPEC.md 5.9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from boardprof.target.elf.object_file import OBJECT, Symbol, code_address, read_if_possible, symbols

_ANCHORS = {1: "bp_firmware", 2: "bp_agent"}


def anchored_symbols(image: Path) -> Callable[[int, int], str | None]:
    """Return a function from an anchor and a distance to ``table+8``; None if no symbol is there.

    The image is read at the first call.
    """
    known: dict[str, int] = {}
    ranges: list[tuple[int, int, str]] = []

    def read() -> None:
        for address, symbol in (
            read_if_possible(
                image,
                lambda elf: [
                    (code_address(elf, each) if each.is_function else each.value, each)
                    for each in symbols(elf)
                    if each.is_in_section and (each.kind == OBJECT or each.is_function)
                ],
            )
            or []
        ):
            known[symbol.name] = address
            ranges.append((address, _end(address, symbol), symbol.name))

    def symbol_at(anchor: int, distance: int) -> str | None:
        if not known:
            read()
        start = known.get(_ANCHORS.get(anchor, ""))
        if start is None:
            return None
        address = start + distance
        for low, high, name in ranges:
            if low <= address < high:
                return name if low == address else f"{name}+{address - low}"
        return None

    return symbol_at


def _end(address: int, symbol: Symbol) -> int:
    return address + symbol.size
