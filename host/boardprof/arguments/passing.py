# SPDX-License-Identifier: Apache-2.0
"""Which way an array goes that is passed for a pointer; `Out` and `Keep`, which say so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["Keep", "Out", "Passing"]


class Passing(Enum):
    """Which way an array goes."""

    IN = "in"
    IN_OUT = "in and out, put back before each sample of a measurement"
    OUT = "out"
    KEEP = "in and out, kept from call to call"
    STAYS = "a block that stays on the board"
    NULL = "NULL"


@dataclass(frozen=True, eq=False)
class Out:
    """An array that is only written: it is not sent, begins as zeros, and comes back.

    Attributes:
        array: a numpy array, or what else may be passed for ``T*``; its content is replaced.
    """

    array: Any


@dataclass(frozen=True, eq=False)
class Keep:
    """An array that is sent once, and not put back between calls of a measurement.

    So each call goes on with what the one before left, as a filter does with its state.

    Attributes:
        array: a numpy array, or what else may be passed for ``T*``.
    """

    array: Any
