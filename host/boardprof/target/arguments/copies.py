# SPDX-License-Identifier: Apache-2.0
"""Copies of a call's arguments, for calls whose outputs nobody wants."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Mapping, Sequence

import numpy as np

from boardprof.target.arguments.passing import Keep, Out


def copied_arguments(
    args: Sequence[object], named: Mapping[str, object] | None
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return arguments whose arrays are copies. An array that is given twice stays one.

    Args:
        args: by position; see `array_argument` for the values of pointers.
        named: by parameter name.
    """
    known: dict[int, object] = {}

    def fresh(value: object) -> object:
        if isinstance(value, Out | Keep):
            return type(value)(fresh(value.array))
        if isinstance(value, memoryview) and not value.readonly:
            value = np.asarray(value)
        if isinstance(value, np.ndarray | bytearray | array):
            return known.setdefault(id(value), copy.copy(value))
        if isinstance(value, dict):
            if id(value) not in known:
                made: dict[str, object] = {}
                known[id(value)] = made  # before its members: one of them may be itself
                made.update((name, fresh(each)) for name, each in value.items())
            return known[id(value)]
        if isinstance(value, list):
            return [fresh(each) for each in value]
        return value

    return tuple(map(fresh, args)), {name: fresh(each) for name, each in (named or {}).items()}
