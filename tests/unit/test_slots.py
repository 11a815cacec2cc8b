# SPDX-License-Identifier: Apache-2.0
"""Memory that a call passes as several arguments: which of them says where it goes."""

from __future__ import annotations

import numpy as np
import pytest

from boardprof.base.errors import DeviceBoundsError
from boardprof.measure.sampling.placement import FENCE, Fence, Slot, fences, lay_out
from boardprof.target.arguments.array_argument import ArrayArgument
from boardprof.target.arguments.passing import Passing


def slot(*passings: Passing) -> Slot:
    first, *others = (ArrayArgument(each.name, each, "int16[2]") for each in passings)
    return Slot(first, others)


@pytest.mark.parametrize(
    ("passings", "is_written", "is_put_back", "is_out"),
    [
        ((Passing.IN,), False, False, False),
        ((Passing.KEEP,), True, False, False),
        ((Passing.IN_OUT,), True, True, False),
        ((Passing.OUT,), True, False, True),
        ((Passing.IN, Passing.KEEP), True, False, False),
        ((Passing.IN_OUT, Passing.KEEP), True, True, False),
        ((Passing.IN_OUT, Passing.OUT), True, False, True),
    ],
)
def test_memory_goes_where_the_furthest_of_its_arguments_goes(
    passings: tuple[Passing, ...], is_written: bool, is_put_back: bool, is_out: bool
) -> None:
    found = slot(*passings)
    assert (found.is_written, found.is_put_back, found.is_out) == (is_written, is_put_back, is_out)
    assert found.is_constant is not is_written


def test_of_arguments_in_one_place_the_one_that_is_put_back_comes_first() -> None:
    found = slot(Passing.KEEP, Passing.IN_OUT, Passing.IN).arguments
    assert [each.passing for each in found] == [Passing.IN_OUT, Passing.KEEP, Passing.IN]


@pytest.mark.parametrize(
    ("first", "last", "is_above", "offset"),
    [
        (0, 0, False, 4),
        (0, 15, False, 4),  # all of it: who wrote on and on began below
        (1, 15, True, -15),
        (15, 15, True, -1),
        (1, 14, False, 5),
    ],
)
def test_a_fence_tells_which_of_its_neighbours_was_passed(
    first: int, last: int, is_above: bool, offset: int
) -> None:
    shorts = np.zeros(2, np.int16)
    below, above = (
        Slot(ArrayArgument(name, Passing.OUT, "int16[2]", shorts, shorts.dtype))
        for name in ("below", "above")
    )
    above.offset = 20
    fence = Fence(4, FENCE, below, above)
    found = bytes(b ^ (first <= at <= last) for at, b in enumerate(FENCE))
    fence.check("fir", FENCE)
    with pytest.raises(DeviceBoundsError) as caught:
        fence.check("fir", found)
    assert (caught.value.array, caught.value.offset) == ("above" if is_above else "below", offset)


def test_arrays_that_are_not_written_have_no_fences() -> None:
    read = [slot(Passing.IN), slot(Passing.IN)]
    size = lay_out(read)
    assert (size, [each.offset for each in read]) == (32, [0, 16])
    assert fences(read, size) == []
