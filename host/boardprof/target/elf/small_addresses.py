# SPDX-License-Identifier: Apache-2.0
"""Addresses of two bytes in debug information, which pyelftools does not know: MSP430."""

from __future__ import annotations

from typing import Any

from elftools.construct import UBInt16, ULInt16
from elftools.dwarf.structs import DWARFStructs

_VERSIONS = (2, 3, 4, 5)
_SIZE = 2


class _SmallStructs(DWARFStructs):
    """The layouts of debug information with addresses of two bytes."""

    @property
    def Dwarf_target_addr(self) -> Any:  # pyelftools has this name
        return ULInt16 if self.little_endian else UBInt16

    @Dwarf_target_addr.setter
    def Dwarf_target_addr(self, _: Any) -> None:
        """Keep the type: pyelftools would set one of eight bytes."""


def know_small_addresses() -> None:
    """Let pyelftools read units with addresses of two bytes; it keeps its layouts in a cache."""
    for little_endian in (True, False):
        for version in _VERSIONS:
            key = (little_endian, 32, _SIZE, version)
            if key in DWARFStructs._structs_cache:
                return
            made: Any = object.__new__(_SmallStructs)
            made.little_endian, made.dwarf_format = little_endian, 32
            made.address_size, made.dwarf_version = _SIZE, version
            made._create_structs()
            DWARFStructs._structs_cache[key] = made
