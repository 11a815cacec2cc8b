# SPDX-License-Identifier: Apache-2.0
"""Text of a metric in a table cell, in TVM's format and in ours."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from boardprof.metrics import Count, Duration, Kind, Metric, Percent, Ratio, digits
from boardprof.printable import bounded as escaped
from boardprof.stats.summary import Number, plain

__all__ = ["cell", "escaped", "number_text", "per_call_cell", "plural", "tvm_cell"]
__all__ += ["tvm_width"]


_PRECISE_BELOW = 100.0
_LONG = 10**60
"""Larger counts are implausible and would make the table too wide."""


def tvm_cell(metric: Metric, separator: str) -> str:
    """Return ``metric`` as TVM's table prints it.

    Args:
        metric: the value of the cell.
        separator: between thousands of Counts and Durations. TVM prints Ratios with two
            significant digits and Percents without separators.
    """
    if isinstance(metric, Count):
        return digits(metric.value, separator)
    if isinstance(metric, Duration):
        return f"{metric.microseconds:,.2f}".replace(",", separator)
    if isinstance(metric, Percent):
        return f"{metric.percent:.2f}"
    return metric if isinstance(metric, str) else f"{metric.ratio:.2g}"


def cell(metric: Metric, column: str, separator: str) -> str:
    """Return ``metric`` as our table prints it.

    It differs from ``tvm_cell`` in this: a Ratio has up to four significant digits, and no exponent
    between 1e-6 and 1e6. A Ratio in a column whose name ends in ``(%)`` is a percentage. Text is
    escaped.
    """
    if isinstance(metric, str):
        return escaped(metric)
    if not isinstance(metric, Ratio):
        return tvm_cell(metric, separator)
    if column.endswith("(%)"):
        return _percentage(metric.ratio)
    return _ratio(metric.ratio).replace(",", separator)


def per_call_cell(value: int | Fraction | Duration | None, separator: str) -> str:
    """Return a value per call: whole numbers without decimals, others with up to two.

    A number that is not whole keeps its point even if both decimals are 0. A number other than 0 is
    never written as 0.
    """
    if value is None:
        return ""
    if isinstance(value, Duration):
        return tvm_cell(value, separator)
    if isinstance(value, int):
        return digits(value, separator)
    positive = value.numerator > 0
    hundredths = _round_half_even(100 * abs(value.numerator), value.denominator)
    if hundredths == 0:
        return _nearly_zero(positive)
    decimals = f"{hundredths % 100:02d}"
    decimals = decimals if decimals == "00" else decimals.removesuffix("0")
    return ("" if positive else "-") + f"{digits(hundredths // 100, separator)}.{decimals}"


def number_text(value: Number | None, kind: Kind) -> str:
    """Return a value per call: whole numbers as they are, others with four digits or two decimals.

    Empty if there is no value.
    """
    if value is None:
        return ""
    unit = " %" if kind is Percent else ""
    number = plain(value)
    if number == int(number):
        whole = int(number)
        return (digits(whole, ",") if abs(whole) < _LONG else f"{Decimal(whole):.12e}") + unit
    return (f"{number:.4g}" if abs(number) < _PRECISE_BELOW else f"{number:,.2f}") + unit


def plural(number: int, one: str) -> str:
    """Return a number with its noun: ``1 row``, ``1,200 rows``."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def tvm_width(text: str) -> int:
    """Return the width that TVM pads by: the number of bytes of ``text`` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _round_half_even(numerator: int, denominator: int) -> int:
    """Divide integers and round to nearest, like round(Fraction) but ten times as fast."""
    quotient, rest = divmod(numerator, denominator)
    up = 2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1)
    return quotient + up


def _ratio(ratio: float) -> str:
    """Return at most four significant digits, with an exponent only below 1e-6 and from 1e6 on."""
    rounded = f"{ratio:.4g}"
    if "e" not in rounded or not 1e-6 <= abs(ratio) < 1e6:
        return rounded
    return f"{Decimal(rounded):,f}"


def _percentage(percent: float) -> str:
    if percent != 0 and abs(percent) < 0.005:
        return _nearly_zero(percent > 0)
    return f"{percent:.2f}"


def _nearly_zero(positive: bool) -> str:
    return "<0.01" if positive else ">-0.01"
