# SPDX-License-Identifier: Apache-2.0
"""A block of a board's arena, as a value: made by ``Memory.alloc``, passed where a pointer goes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Block"]


@dataclass(frozen=True)
class Block:
    """A block of the arena; ``handle`` is good until `Memory.free` or the session's end."""

    handle: int
    size: int
