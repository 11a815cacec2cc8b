# SPDX-License-Identifier: Apache-2.0
"""Operations by formula: torch's own, the registry, and formulas that fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from boardprof.base.errors import UsageError
from boardprof.compat.torch import flops
from boardprof.compat.torch.flops import flops_of, register_flops, unregister_flops


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for name in ("fir", "matmul"):
        unregister_flops(name)


def test_a_convolution_takes_two_operations_for_each_product() -> None:
    # 3 -> 8 channels, 5x5 out of 7x7 by 3x3: 2 * 25 * 9 * 3 * 8
    assert flops.conv2d((1, 3, 7, 7), (8, 3, 3, 3)) == 10800
    # 4x4 out of 7x7 with a border of 1 and every second place; twice as many images
    assert flops.conv2d((2, 3, 7, 7), (8, 3, 3, 3), stride=2, padding=1) == 13824
    # each of 4 channels by itself, 3x3 kernels spread to 5x5: 2 * 3 * 3 * 9 * 4
    assert flops.conv2d((1, 4, 7, 7), (4, 1, 3, 3), dilation=2, groups=4) == 648
    # 6x3 out of 8x7: other steps and borders down than across
    assert flops.conv2d((1, 1, 8, 7), (1, 1, 3, 3), stride=(1, 2), padding=(0, 0)) == 324


def test_products_of_matrices_take_two_operations_for_each_product_of_numbers() -> None:
    assert flops.mm((2, 3), (3, 5)) == 60
    assert flops.addmm((2, 3), (3, 5)) == 60
    assert flops.bmm((7, 2, 3), (7, 3, 5)) == 420


def test_sums_and_products_by_element_take_one_for_each() -> None:
    assert flops.add((4, 5)) == 20
    assert flops.mul((4, 5, 2)) == 40


def test_shapes_of_other_dimensions_are_refused() -> None:
    with pytest.raises(UsageError, match=r"mm takes a of 2 dimensions, not \(6,\)"):
        flops.mm((6,), (3, 5))
    with pytest.raises(UsageError, match="conv2d takes weight of 4 dimensions"):
        flops.conv2d((1, 3, 7, 7), (8, 27))


def test_shapes_that_do_not_fit_each_other_have_no_count() -> None:
    with pytest.raises(UsageError, match=r"mm of \(2, 3\) and \(4, 5\): 3 is not 4"):
        flops.mm((2, 3), (4, 5))
    with pytest.raises(UsageError, match=r"bmm of .*: 7 is not 6"):
        flops.bmm((7, 2, 3), (6, 3, 5))
    with pytest.raises(UsageError, match="3 channels in 1 groups takes a weight of 3 / 1 channels"):
        flops.conv2d((1, 3, 7, 7), (8, 4, 3, 3))
    with pytest.raises(UsageError, match="a multiple of 3 filters, not 4"):
        flops.conv2d((1, 12, 7, 7), (4, 4, 3, 3), groups=3)
    with pytest.raises(UsageError, match="a stride of 1 or more, or two, not 0"):
        flops.conv2d((1, 3, 7, 7), (8, 3, 3, 3), stride=0)
    # Two sides of -2 each would make 4 places out of none.
    with pytest.raises(UsageError, match=r"a kernel of \(1, 1, 5, 5\) does not fit in"):
        flops.conv2d((1, 1, 2, 2), (1, 1, 5, 5))
    assert flops.conv2d((1, 1, 2, 2), (1, 1, 5, 5), padding=2) == 200  # 2 * 2*2 * 5*5


def test_a_function_without_a_formula_has_no_count() -> None:
    assert flops_of("mm", {"a": (2, 3), "b": (3, 5)}, {}) is None


def test_a_formula_is_registered_for_functions_by_name() -> None:
    register_flops("fir")(lambda shapes, args: int(2 * args["n"] * shapes["h"][0]))
    register_flops("matmul")(lambda shapes, args: flops.mm(shapes["a"], shapes["b"]))
    assert flops_of("fir", {"h": (16,)}, {"n": 100}) == 3200
    assert flops_of("matmul", {"a": (2, 3), "b": (3, 5)}, {}) == 60


def test_a_formula_can_be_a_decorated_function() -> None:
    @register_flops("fir", "matmul")
    def none(shapes: object, args: object) -> int:
        return 0

    assert (flops_of("fir", {}, {}), flops_of("matmul", {}, {})) == (0, 0)


def test_a_formula_that_fails_or_gives_no_count_is_an_error_with_its_input() -> None:
    register_flops("fir")(lambda shapes, args: int(args["m"]))
    with pytest.raises(UsageError, match=r"flops for fir fails: KeyError.*'n': 4"):
        flops_of("fir", {}, {"n": 4})
    for bad in (-1, 0.5, "many", float("nan")):
        register_flops("fir")(lambda shapes, args, bad=bad: bad)  # type: ignore[misc,return-value]
        with pytest.raises(UsageError, match="is not a count"):
            flops_of("fir", {}, {})


def test_a_formula_can_be_called() -> None:
    with pytest.raises(UsageError, match="5 is not a formula"):
        register_flops("fir")(5)  # type: ignore[type-var]


def test_a_formula_needs_a_name() -> None:
    with pytest.raises(UsageError, match="by name"):
        register_flops()
    with pytest.raises(UsageError, match="by name"):
        register_flops(lambda shapes, args: 1)  # type: ignore[arg-type]
