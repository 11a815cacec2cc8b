# SPDX-License-Identifier: Apache-2.0
"""How a type of DWARF is to be aligned, where its source asks for more than its own."""

from __future__ import annotations

from elftools.dwarf.die import DIE

from boardprof.dwarf.entries import number, type_chain
from boardprof.dwarf.structs import AGGREGATES, members

__all__ = ["MOST", "asked_alignment"]

MOST = 16
"""Bytes that the blocks of an agent's arena are aligned to, and arrays within them."""


def asked_alignment(die: DIE) -> int:
    """Return the greatest alignment that a thing's type, or what lies in it, is declared with.

    Args:
        die: of a parameter, a pointer, an array or a member.

    Returns:
        Bytes; 1 where nothing is declared.
    """
    most = 1
    for found in type_chain(die):
        most = max(most, number(found, "DW_AT_alignment") or 1)
        if found.tag in AGGREGATES:
            most = max([most, *map(_of_member, members(found))])
    return most


def _of_member(member: DIE) -> int:
    return max(number(member, "DW_AT_alignment") or 1, asked_alignment(member))
