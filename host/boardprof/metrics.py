# SPDX-License-Identifier: Apache-2.0
"""The five kinds of value in a Report: Count, Duration, Percent, Ratio and str.

Their names and attribute names are those of ``tvm.runtime.profiling``, and so
is the tagged form in JSON: ``{"count": 1}``, ``{"microseconds": 1.5}``,
``{"percent": 40.0}``, ``{"ratio": 1.25}``, ``{"string": "fir"}``. JSON has no
infinities and no NaN, so these are written as tagged strings, for example
``{"microseconds": "inf"}``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import SupportsFloat, SupportsIndex, TypeAlias, cast, final

__all__ = [
    "Count",
    "Duration",
    "Metric",
    "MetricJson",
    "Percent",
    "Ratio",
    "as_metric",
    "metric_from_json",
    "metric_to_json",
]


@final
@dataclass(frozen=True, slots=True)
class Count:
    """A number of events; sums when rows are aggregated.

    Attributes:
        value: the number, an integer of any size. A bool is refused, because a
            flag that is added up is nearly always a mistake.
    """

    value: int

    def __post_init__(self) -> None:
        """Accept every integer type, and nothing else."""
        if type(self.value) is not int:
            object.__setattr__(self, "value", _integer(self.value))


@final
@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time; sums when rows are aggregated.

    Attributes:
        microseconds: the time in microseconds; may be infinite or NaN.
    """

    microseconds: float

    def __post_init__(self) -> None:
        """Accept every real number type."""
        object.__setattr__(self, "microseconds", _real(self.microseconds, "Duration"))

    def __eq__(self, other: object) -> bool:
        """Compare by content: NaN equals NaN."""
        return type(other) is Duration and _same(self.microseconds, other.microseconds)


@final
@dataclass(frozen=True, slots=True)
class Percent:
    """A share of a whole; sums when rows are aggregated.

    Attributes:
        percent: 0 to 100; may be infinite or NaN.
    """

    percent: float

    def __post_init__(self) -> None:
        """Accept every real number type."""
        object.__setattr__(self, "percent", _real(self.percent, "Percent"))

    def __eq__(self, other: object) -> bool:
        """Compare by content: NaN equals NaN."""
        return type(other) is Percent and _same(self.percent, other.percent)


@final
@dataclass(frozen=True, slots=True)
class Ratio:
    """One quantity over another; averaged, never summed, when rows are aggregated.

    Attributes:
        ratio: the quotient, without a unit; may be infinite or NaN.
    """

    ratio: float

    def __post_init__(self) -> None:
        """Accept every real number type."""
        object.__setattr__(self, "ratio", _real(self.ratio, "Ratio"))

    def __eq__(self, other: object) -> bool:
        """Compare by content: NaN equals NaN."""
        return type(other) is Ratio and _same(self.ratio, other.ratio)


Metric: TypeAlias = Count | Duration | Percent | Ratio | str
MetricJson: TypeAlias = dict[str, int | float | str]

_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def as_metric(value: object) -> Metric:
    """Return ``value`` as a metric.

    Args:
        value: a metric, which is returned as it is, or an int, which becomes a
            Count.

    Raises:
        TypeError: the value is a float (its unit is unknown), a bool, or of any
            other type; the message says what to use.
    """
    if type(value) in _TO_JSON:
        return cast(Metric, value)
    if isinstance(value, str):
        return str.__str__(value)  # an enum member or other subclass becomes its plain text
    if isinstance(value, float):
        raise TypeError(
            f"a float ({value!r}) has no unit: use Duration(microseconds), Percent, Ratio, "
            "or Count for a whole number"
        )
    return Count(value)  # type: ignore[arg-type]  # Count refuses what is no integer


def metric_to_json(metric: Metric) -> MetricJson:
    """Return the tagged form of ``metric``, which is always valid JSON."""
    return _TO_JSON[type(metric)](metric)


def metric_from_json(value: object) -> Metric:
    """Read the tagged form of a metric, or a plain string.

    Args:
        value: what a JSON parser returned for one metric.

    Raises:
        ValueError: the value is not a metric; the message says why.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"a metric is an object with one tag, not {_shown(value)}")
    [(tag, content)] = value.items()
    read = _FROM_JSON.get(tag)
    if read is None:
        raise ValueError(f"unknown metric tag {tag!r}; valid tags are {', '.join(_FROM_JSON)}")
    return read(content)


def _integer(value: SupportsIndex) -> int:
    if isinstance(value, bool):
        raise TypeError(f"a bool ({value}) is not a Count: use Count(int(...)) or a str")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"a Count is an integer, not {_shown(value)}") from None


def _real(value: SupportsFloat | SupportsIndex, kind: str) -> float:
    if type(value) is not float:
        if isinstance(value, bool) or not isinstance(value, SupportsFloat | SupportsIndex):
            raise TypeError(f"a {kind} is a real number, not {_shown(value)}")
        value = float(value)
    return math.nan if value != value else value  # one NaN, so that equal metrics hash equal


def _same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def _shown(value: object) -> str:
    """Describe a foreign value in an error message, shortened."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _float_to_json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _float_from_json(value: object) -> float:
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f'a number, "inf", "-inf" or "nan" is needed, not {_shown(value)}')
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("the number is too large for a 64-bit float")
    return number


def _count_from_json(value: object) -> Count:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a count is an integer, not {_shown(value)}")
    return Count(value)


def _string_from_json(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a string is needed, not {_shown(value)}")
    return value


_TO_JSON: dict[type, Callable[..., MetricJson]] = {
    Count: lambda m: {"count": m.value},
    Duration: lambda m: {"microseconds": _float_to_json(m.microseconds)},
    Percent: lambda m: {"percent": _float_to_json(m.percent)},
    Ratio: lambda m: {"ratio": _float_to_json(m.ratio)},
    str: lambda m: {"string": m},
}

_FROM_JSON: dict[str, Callable[[object], Metric]] = {
    "count": _count_from_json,
    "microseconds": lambda v: Duration(_float_from_json(v)),
    "percent": lambda v: Percent(_float_from_json(v)),
    "ratio": lambda v: Ratio(_float_from_json(v)),
    "string": _string_from_json,
}
