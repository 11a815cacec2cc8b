# SPDX-License-Identifier: Apache-2.0
"""Operations per call, by formulas that are registered for functions by name.

The name of a C function does not say what it computes, so no formula applies automatically::

    register_flops("matmul_f32")(lambda shapes, args: mm(shapes["a"], shapes["b"]))
    register_flops("fir_q15")(lambda shapes, args: 2 * args["n"] * args["taps"])

Functions without a formula have no count: ``--`` in tables, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from boardprof.base.errors import UsageError

__all__ = ["add", "addmm", "bmm", "conv2d", "mm", "mul", "register_flops", "unregister_flops"]

Shape = Sequence[int]

Formula = Callable[[Mapping[str, tuple[int, ...]], Mapping[str, float]], int]
"""A formula: shapes of arrays and values of scalars, by parameter, to operations."""

_F = TypeVar("_F", bound=Formula)

_FORMULAS: dict[str, Formula] = {}


def register_flops(*functions: str) -> Callable[[_F], _F]:
    """Register a formula for functions; the last registration wins.

    Args:
        functions: their names, one or more.

    Raises:
        UsageError: there is no name, or a name is not a string. The returned decorator raises it if
            the formula cannot be called.
    """
    if not functions or not all(isinstance(name, str) for name in functions):
        raise UsageError(
            "A formula is registered for functions by name.", hint='register_flops("fir")(formula)'
        )

    def register(formula: _F) -> _F:
        if not callable(formula):
            raise UsageError(f"{formula!r:.60} is not a formula: it cannot be called.")
        _FORMULAS.update(dict.fromkeys(functions, formula))
        return formula

    return register


def unregister_flops(function: str) -> None:
    """Forget the formula of a function, if it has one."""
    _FORMULAS.pop(function, None)


def flops_of(
    function: str, shapes: Mapping[str, tuple[int, ...]], args: Mapping[str, float]
) -> int | None:
    """Return the operations of one call; None if there is no formula."""
    formula = _FORMULAS.get(function)
    if formula is None:
        return None
    try:
        count = formula(shapes, args)
    except Exception as error:  # whatever a user's formula raises
        raise UsageError(
            f"The formula of flops for {function} fails: {error!r}; it has the shapes "
            f"{dict(shapes)} and the values {dict(args)}."
        ) from error
    if not isinstance(count, int | float) or count < 0 or count != count // 1:
        raise UsageError(
            f"The formula of flops for {function} gives {count!r:.60}, which is not a count."
        )
    return int(count)


# -- formulas -----------------------------------------------------------------------------------


def conv2d(
    input: Shape,
    weight: Shape,
    *,
    stride: int | Shape = 1,
    padding: int | Shape = 0,
    dilation: int | Shape = 1,
    groups: int = 1,
) -> int:
    """Return the operations of a 2D convolution; a multiply-add counts as two.

    Args:
        input: (N, C in, H, W).
        weight: (C out, C in / groups, kernel H, kernel W).
        stride: of the kernel; one number, or (H, W).
        padding: on each side, likewise.
        dilation: of the kernel, likewise.
        groups: number of groups of channels.

    Raises:
        UsageError: the shapes do not fit each other.
    """
    batch, channels, *size = _dims("conv2d", "input", input, 4)
    filters, inner, *kernel = _dims("conv2d", "weight", weight, 4)
    if inner * groups != channels or filters % groups:
        raise UsageError(
            f"conv2d of {channels} channels in {groups} groups takes a weight of {channels} / "
            f"{groups} channels, not {inner}, and a multiple of {groups} filters, not {filters}.",
            hint="shapes are (N, C, H, W) and (C out, C / groups, kernel H, kernel W)",
        )
    steps, holes = _pair("stride", stride, 1), _pair("dilation", dilation, 1)
    sides = (size, _pair("padding", padding, 0), holes, kernel, steps)
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(*sides, strict=True)]
    if min(out) < 1:
        raise UsageError(f"conv2d of {tuple(input)}: a kernel of {tuple(weight)} does not fit in.")
    return 2 * batch * math.prod(out) * math.prod(kernel) * channels * filters // groups


def mm(a: Shape, b: Shape) -> int:
    """Return the operations of a product of matrices, (M, K) and (K, N).

    Raises:
        UsageError: the shapes are not of this form.
    """
    rows, inner = _dims("mm", "a", a, 2)
    same, columns = _dims("mm", "b", b, 2)
    _check_equal("mm", inner, same, a, b)
    return 2 * rows * inner * columns


addmm = mm
"""The same as `mm`, with a matrix added afterwards, which is not counted."""


def bmm(a: Shape, b: Shape) -> int:
    """Return the operations of a batch of products, (B, M, K) and (B, K, N).

    Raises:
        UsageError: the shapes are not of this form.
    """
    batch, *left = _dims("bmm", "a", a, 3)
    same, *right = _dims("bmm", "b", b, 3)
    _check_equal("bmm", batch, same, a, b)
    return batch * mm(left, right)


def mul(a: Shape) -> int:
    """Return the operations of an element-wise function, one for each element."""
    return math.prod(a)


add = mul


def _dims(formula: str, name: str, shape: Shape, count: int) -> Shape:
    if len(shape) != count:
        raise UsageError(f"{formula} takes {name} of {count} dimensions, not {tuple(shape)}.")
    return shape


def _check_equal(formula: str, one: int, other: int, a: Shape, b: Shape) -> None:
    if one != other:
        raise UsageError(f"{formula} of {tuple(a)} and {tuple(b)}: {one} is not {other}.")


def _pair(name: str, value: int | Shape, least: int) -> Shape:
    pair = (value, value) if isinstance(value, int) else value
    if len(pair) != 2 or min(pair) < least:
        raise UsageError(f"conv2d takes a {name} of {least} or more, or two, not {value!r:.60}.")
    return pair
