# SPDX-License-Identifier: Apache-2.0
"""The five kinds of value in a Report: Count, Duration, Percent, Ratio and str.

Their names and attribute names are those of ``tvm.runtime.profiling``, and so
is the tagged form in JSON: ``{"count": 1}``, ``{"microseconds": 1.5}``,
``{"percent": 40.0}``, ``{"ratio": 1.25}``, ``{"string": "fir"}``. JSON has no
infinities and no NaN, so these are written as tagged strings, for example ``{"microseconds":
"inf"}``.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, SupportsFloat, SupportsIndex, TypeAlias, cast, final

_FLOAT32_DIGITS = 9  # the most digits that a C ``float`` needs


@final
@dataclass(frozen=True, slots=True)
class Count:
    """A number of events; sums when rows are aggregated.

    Attributes:
        value: the number, an integer of any size. A bool is refused, because adding up flags is
            nearly always a mistake.
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
    """A share of a whole; only the column ``Percent`` sums when rows are aggregated.

    Of other columns of shares, the median is taken. In TVM's table all of them are summed, as in
    TVM.

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
    """One quantity over another; its median is taken, never its sum, when rows are aggregated.

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
Kind: TypeAlias = type[Count] | type[Duration] | type[Percent] | type[Ratio] | type[str]
Raw: TypeAlias = int | float | str
"""The value of a metric, without its kind."""

MetricJson: TypeAlias = dict[str, Raw]

TAGS: Final[dict[Kind, str]] = {
    Count: "count",
    Duration: "microseconds",
    Percent: "percent",
    Ratio: "ratio",
    str: "string",
}
"""The name of each kind of metric in JSON."""

METRIC_ALIASES: Final = {
    "cpu-cycles": "cycles",
    "branch-instructions": "branches",
    "faults": "page-faults",
    "cs": "context-switches",
    "migrations": "cpu-migrations",
    "insn": "instructions",
    "duration": "Duration (us)",
    "duration_time": "Duration (us)",
    "time": "Duration (us)",
    "stack": "Stack (bytes)",
}
"""Other names of metrics: perf's own, and ours without the unit."""

_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def metric_called(name: str, known: Iterable[str]) -> str | None:
    """Return the metric of ``known`` that ``name`` means; None if there is none.

    Wherever a caller names a metric, all of these work: its own name, the name in another case or
    without its unit, and an alias (`METRIC_ALIASES`). The metric's own name has precedence.
    """
    names = list(known)
    if name in names:
        return name
    wanted = METRIC_ALIASES.get(name.casefold(), name).casefold()
    same = [each for each in names if each.casefold() == wanted]
    plain = _without_unit(wanted)
    alike = [each for each in names if _without_unit(each.casefold()) == plain]
    return next(iter((*same, *alike)), None)


def _without_unit(name: str) -> str:
    return name.removesuffix(" (us)").removesuffix(" (bytes)").removesuffix(" (nj)")


def as_metric(value: object) -> Metric:
    """Return a metric as it is, and an int as a Count.

    Raises:
        TypeError: the value is a float (its unit is unknown), a bool, or of any other type.
    """
    if type(value) in _RAW:
        return cast(Metric, value)
    if isinstance(value, str):
        return str.__str__(value)  # an enum member or other subclass becomes its plain text
    if isinstance(value, float):
        raise TypeError(
            f"a float ({value!r}) has no unit: use Duration(microseconds), Percent, Ratio, "
            "or Count for a whole number"
        )
    return Count(value)  # type: ignore[arg-type]  # Count refuses anything but an integer


def raw_of(metric: Metric) -> Raw:
    """Return the value of ``metric``: an int, a float or a str."""
    return _RAW[type(metric)](metric)


def raws_of(values: Sequence[object]) -> tuple[Kind, Sequence[Raw]] | None:
    """Return the values of metrics of one kind; None if their kinds differ.

    Ints are Counts, as in ``as_metric``.
    """
    kinds = set(map(type, values))
    if len(kinds) > 1:
        return None
    kind = kinds.pop()
    if kind is int:
        return Count, cast(Sequence[int], values)
    return (kind, list(map(_RAW[kind], values))) if kind in _RAW else None


def digits(value: int, separator: str = "") -> str:
    """Return the decimal digits of ``value``, however many, with ``separator`` between thousands.

    By default, Python itself refuses to write more than 4300 digits.
    """
    try:
        return f"{value:,}".replace(",", separator)
    except ValueError:
        from decimal import Decimal

        return f"{Decimal(value):,f}".replace(",", separator)


def float32_text(number: float) -> str:
    """Return the shortest text of the C ``float`` nearest to a number."""
    single = _float32(number)
    short = (repr(float(f"{single:.{count}g}")) for count in range(1, _FLOAT32_DIGITS + 1))
    return next((text for text in short if _float32(float(text)) == single), repr(number))


def _float32(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:  # with one digit less it may exceed the largest float
        return math.inf


def metric_to_json(metric: Metric) -> MetricJson:
    """Return the tagged form of ``metric``, which is always valid JSON."""
    raw = raw_of(metric)
    is_finite = not isinstance(raw, float) or math.isfinite(raw)
    return {TAGS[type(metric)]: raw if is_finite else str(raw)}


def metric_from_json(value: object) -> Metric:
    """Read the tagged form of a metric, or a plain string; ValueError if it is neither."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"a metric is an object with one tag, not {_shown(value)}")
    [(tag, content)] = value.items()
    found = _FROM_JSON.get(tag)
    if found is None:
        raise ValueError(f"unknown metric tag {tag!r}; valid tags are {', '.join(_FROM_JSON)}")
    kind, read = found
    return cast(Callable[[Raw], Metric], kind)(read(content))


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


def _float_from_json(value: object) -> float:
    if type(value) is float and math.isfinite(value):
        return value
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


def _count_from_json(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a count is an integer, not {_shown(value)}")
    return value


def _string_from_json(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a string is needed, not {_shown(value)}")
    return value


_RAW: dict[Kind, Callable[[Any], Raw]] = {
    Count: operator.attrgetter("value"),
    Duration: operator.attrgetter("microseconds"),
    Percent: operator.attrgetter("percent"),
    Ratio: operator.attrgetter("ratio"),
    str: str,
}

_FROM_JSON: dict[str, tuple[Kind, Callable[[object], Raw]]] = {
    "count": (Count, _count_from_json),
    "microseconds": (Duration, _float_from_json),
    "percent": (Percent, _float_from_json),
    "ratio": (Ratio, _float_from_json),
    "string": (str, _string_from_json),
}
