# SPDX-License-Identifier: Apache-2.0
"""Which range on a board is inside which."""

from __future__ import annotations

import numpy as np

from boardprof.compat.torch.board_activity import _parents
from boardprof.results.probes.timeline import Passes


def passes(*rows: tuple[int, int, int, int]) -> Passes:
    """Passes from begin, end, task and level."""
    begin, end, task, level = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    zero = np.zeros_like(begin)
    named = np.ones(len(begin), np.bool_)
    return Passes(zero, named, begin, end, task, level, zero, zero, zero, zero)


def test_a_range_is_inside_the_innermost_one_that_holds_it_whole() -> None:
    found = _parents(passes((0, 100, 1, 0), (10, 50, 1, 0), (20, 30, 1, 0), (40, 60, 1, 0)))
    assert found == [-1, 0, 1, 0]


def test_ranges_that_follow_each_other_or_overlap_are_not_nested() -> None:
    assert _parents(passes((0, 10, 1, 0), (10, 20, 1, 0), (15, 25, 1, 0))) == [-1, -1, -1]


def test_ranges_of_other_tasks_and_of_interrupts_are_not_inside() -> None:
    found = _parents(passes((0, 100, 1, 0), (10, 90, 2, 0), (20, 30, 2, 1), (40, 50, 1, 0)))
    assert found == [-1, -1, -1, 0]
