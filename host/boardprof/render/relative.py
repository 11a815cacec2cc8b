# SPDX-License-Identifier: Apache-2.0
"""The settings of a sweep side by side: each as a multiple of the first, the best marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from boardprof.stats.groups import GroupKey
from boardprof.stats.summary import Number


class Relative(NamedTuple):
    """A median as a multiple of the first setting's; the best is below at least one other."""

    ratio: float
    is_best: bool

    @property
    def text(self) -> str:
        """Such as ``0.42 best``."""
        return f"{self.ratio:.2f}{' best' if self.is_best else ''}"


def relatives(medians: Sequence[Number]) -> list[Relative] | None:
    """Return each setting's; None if there is one setting, or the first median is 0."""
    exact = [Fraction(median) for median in medians]
    if len(exact) < 2 or not exact[0]:
        return None
    best = min(exact) if len(set(exact)) > 1 else None
    return [Relative(float(each / exact[0]), each == best) for each in exact]


def settings_of(keys: Iterable[GroupKey]) -> dict[GroupKey, list[int]]:
    """Return the places of the settings of each function on each board, in order."""
    found: dict[GroupKey, list[int]] = {}
    for place, key in enumerate(keys):
        found.setdefault(replace(key, flags=""), []).append(place)
    return found
