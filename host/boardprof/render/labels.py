# SPDX-License-Identifier: Apache-2.0
"""Rows of one function that the user gave different labels, as a program's calls may have."""

from __future__ import annotations

from array import array

from boardprof.report.calls import Calls
from boardprof.report.groups import Groups, Key, grouped

__all__ = ["LABEL", "labelled_groups"]

LABEL = "Label"


def labelled_groups(calls: Calls, *, by_flags: bool = True) -> Groups[tuple[Key, str]]:
    """Return the groups of `Calls.groups`, apart by label: who names two calls wants to see two."""
    plain = calls.groups(by_flags=by_flags)
    if LABEL not in calls.names:
        unlabelled = tuple((key, "") for key in plain.keys)
        return Groups(unlabelled, plain.order, plain.bounds, plain.same)
    place = array("q", bytes(8 * len(calls)))
    for number, rows in enumerate(plain.rows):
        for row in rows:
            place[row] = number
    labels = map(str, calls.column(LABEL).filled(""))
    found = grouped(zip(place, labels, strict=True))
    keys = tuple((plain.keys[number], label) for number, label in found.keys)
    return Groups(keys, found.order, found.bounds, (*plain.same, LABEL))
