# SPDX-License-Identifier: Apache-2.0
"""Fields of instructions as numbers."""

from __future__ import annotations

__all__ = ["signed"]


def signed(value: int, bits: int) -> int:
    """Return what ``value`` is as a two's complement number of so many bits."""
    return value - ((value & 1 << (bits - 1)) << 1)
