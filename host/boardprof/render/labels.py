# SPDX-License-Identifier: Apache-2.0
"""Rows that our own table shows as one: of one name, and of one label that the user gave."""

from __future__ import annotations

from typing import NamedTuple

from boardprof.metrics import Metric
from boardprof.report.calls import Calls
from boardprof.report.groups import Groups

__all__ = ["LABEL", "LabelledKey", "labelled_groups"]

LABEL = "Label"


class LabelledKey(NamedTuple):
    """What rows have in common that are one in our own table; "" where a row lacks the column.

    Attributes:
        name: Name.
        hash: Hash, which parts functions of equal name.
        shapes: Argument Shapes.
        device: Device.
        label: Label: who names two calls wants to see two.
        flags: the compiler's, of a sweep.
    """

    name: Metric
    hash: Metric
    shapes: Metric
    device: Metric
    label: Metric
    flags: Metric = ""


def labelled_groups(calls: Calls, *, by_flags: bool = True) -> Groups[LabelledKey]:
    """Return the groups of rows that are one in our own table.

    In TVM's, rows of one hash are one whatever their names and labels: `Calls.groups`.

    Args:
        calls: the rows.
        by_flags: rows of other compiler flags are apart; else the key's ``flags`` is "".
    """
    flags = ["Flags"] if by_flags else []
    found = calls.group_by("Name", "Hash", "Argument Shapes", "Device", LABEL, *flags)
    keys = tuple(LabelledKey(*key) for key in found.keys)
    return Groups(keys, found.order, found.bounds, found.same)
