# SPDX-License-Identifier: Apache-2.0
"""Parts that tables share: cells in TVM's format and in ours, headers, headings and notes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from boardprof.base.metrics import Count, Duration, Kind, Metric, Percent, Ratio, digits, raw_of
from boardprof.base.printable import bounded
from boardprof.results.report.calls import DURATION, LABEL, SHARE, Calls, Row, one_of
from boardprof.results.report.report import Report
from boardprof.results.stats.summary import Summary

_BETWEEN: Final = re.compile(r", (?=\w+=)")
"""What is between two arguments."""

KEY_COLUMNS: Final = ("Name", "Argument Shapes", "Flags", "Device")
"""The columns that identify what a sample is of."""

FIRST_COLUMNS: Final = ("Name", DURATION, SHARE, "Device", "Count", "Argument Shapes")
"""Columns that always come first, in TVM's order."""

JUDGED_BY: Final = (DURATION, "instructions", "cycles", "ticks")
"""The metric for certainty and change: the first available one."""

_PRECISE_BELOW = 100.0
_LONG = 10**60
"""Larger counts are implausible and would make the table too wide."""


def tvm_cell(metric: Metric, separator: str) -> str:
    """Return ``metric`` as TVM's table prints it: Ratios with two significant digits."""
    if isinstance(metric, Count):
        return digits(metric.value, separator)
    if isinstance(metric, Duration):
        return f"{metric.microseconds:,.2f}".replace(",", separator)
    if isinstance(metric, Percent):
        return f"{metric.percent:.2f}"
    return metric if isinstance(metric, str) else f"{metric.ratio:.2g}"


def cell(metric: Metric, column: str, separator: str) -> str:
    """Return ``metric`` as our table prints it."""
    if isinstance(metric, str):
        return bounded(metric)
    if isinstance(metric, Duration) and 0 < abs(metric.microseconds) < 1:
        return f"{metric.microseconds:.3g}"
    if not isinstance(metric, Ratio):
        return tvm_cell(metric, separator)
    if column.endswith("(%)"):
        return _percentage(metric.ratio)
    return _ratio(metric.ratio).replace(",", separator)


def per_call_cell(value: int | Decimal | Duration | None, separator: str) -> str:
    """Return a value per call, with up to two decimals; only 0 is written as 0."""
    if value is None:
        return ""
    if isinstance(value, Duration):
        return cell(value, "", separator)
    if isinstance(value, int):
        return digits(value, separator)
    rounded = f"{value:,.2f}"
    if rounded in ("0.00", "-0.00"):
        return _nearly_zero(value > 0)
    shown = rounded if rounded.endswith("00") else rounded.removesuffix("0")
    return shown.replace(",", separator)


def value_cell(value: Metric | int | Decimal | None, column: str, separator: str) -> str:
    """Return a metric as `cell` does, or a value per call as `per_call_cell` does."""
    if value is None or isinstance(value, int | Decimal):
        return per_call_cell(value, separator)
    return cell(value, column, separator)


def number_text(value: int | float | None, kind: Kind) -> str:
    """Return a value per call: whole as it is, else with four digits or two decimals."""
    if value is None:
        return ""
    unit = " %" if kind is Percent else ""
    if value == int(value):
        whole = int(value)
        return (digits(whole, ",") if abs(whole) < _LONG else f"{Decimal(whole):.12e}") + unit
    return (f"{value:.4g}" if abs(value) < _PRECISE_BELOW else f"{value:,.2f}") + unit


def half_range(summary: Summary) -> float:
    """Return half the distance between the quartiles."""
    return float(summary.percentiles[75] - summary.percentiles[25]) / 2


def decimals_of(value: float, half: float) -> int | None:
    """Return the decimals for a value and its spread of two digits; None without a spread."""
    if not half:
        return None
    most = max(0, 1 - math.floor(math.log10(half)))
    texts = [f"{each:.{most}f}" for each in (value, half)]
    return most - min(most, *(len(text) - len(text.rstrip("0")) for text in texts))


_SMALLEST: Final = 0.0005
"""A smaller error of a ratio does not matter to anybody."""


def multiple_text(ratio: float, spread: float) -> str:
    """Return how many times as much something is, such as ``1.42 ± 0.03``; 0.0: exact."""
    decimals = 2
    spread = spread if spread >= _SMALLEST else 0
    if spread:
        decimals = min(decimals_of(ratio, float(f"{spread:.2g}")) or 0, 3)
    while not spread and decimals < 6 and ratio != 1 and float(f"{ratio:.{decimals}f}") == 1:
        decimals += 1  # 507 and 508 are not the same
    return f"{ratio:.{decimals}f}" + (f" ± {spread:.{decimals}f}" if spread else "")


def plural(number: int, one: str) -> str:
    """Return a number with its noun: ``1 row``, ``1,200 rows``."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def arguments_of(text: str) -> dict[str, str]:
    """Return arguments by name, as Reports show them; {} if they have none, as in a program."""
    parts = [part.partition("=") for part in _BETWEEN.split(text)]
    return {name: value for name, _, value in parts} if all(each[1] for each in parts) else {}


def short_arguments(calls: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return what to show of the arguments, by function and arguments; all of them if all share it.

    Of several rows of a function, those that tell them apart; without arrays, if that is enough.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name, text in calls:
        found.setdefault(name, {})[text] = arguments_of(text)
    short = {(name, text): text for name, texts in found.items() for text in texts}
    if len({*short.values()}) > 1:
        for name, texts in found.items():
            known = dict.fromkeys(each for values in texts.values() for each in values)
            columns = {each: [values.get(each, "") for values in texts.values()] for each in known}
            if len(texts) > 1:
                columns = {each: cells for each, cells in columns.items() if len({*cells}) > 1}
            scalars = [each for each, cells in columns.items() if "[" not in "".join(cells)]
            for chosen in ([*columns], scalars):
                shown = {
                    text: ", ".join(f"{each}={values[each]}" for each in chosen if each in values)
                    for text, values in texts.items()
                }
                if all(shown.values()) and len({*shown.values()}) == len(texts):
                    short |= {(name, text): each for text, each in shown.items()}
    return short


def tvm_width(text: str) -> int:
    """Return the width that TVM pads by: the number of bytes of ``text`` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def text_of(metric: Metric) -> str:
    """Return a text unchanged, and a number as text: nothing prevents a number as a name."""
    return str(raw_of(metric))


def headers_of(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the fixed columns, then all others of the rows in byte order."""
    names = {name for row in rows for name in row}
    return [*FIRST_COLUMNS, *sorted(names.difference(FIRST_COLUMNS))]


def configuration_lines(configuration: Row, separator: str) -> list[str]:
    """Return the lines below our tables, beginning with a blank line."""
    lines = ["", "Configuration", "-------------"]
    return lines + [f"{name}: {cell(v, name, separator)}" for name, v in configuration.items()]


def heading(report: Report, shown: Callable[[str], str]) -> str:
    """Return a heading such as ``fir on m4``; ``shown`` formats each name."""
    what, devices = _measured(report, shown), _names(report, "Device")
    return f"{what} on {_listed([shown(each) for each in devices])}" if devices else what


def _names(report: Report, column: str) -> list[str]:
    found = dict.fromkeys(report.calls.column(column).filled(""))
    return [bounded(name) for name in found if isinstance(name, str) and name]


def _measured(report: Report, shown: Callable[[str], str]) -> str:
    """Return the name of the only function, or the numbers of functions and measurements."""
    functions = _names(report, "Name")
    if len(functions) == 1:
        return shown(functions[0])
    rows = len(report.calls.group_by("Name", LABEL, "Argument Shapes", "Flags").keys)
    is_called = one_of(report.calls.column(LABEL).filled("")) == "call"
    counted = plural(len(functions), "function" if is_called else "range")
    return counted if rows <= len(functions) else f"{plural(rows, 'measurement')} of {counted}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > 4:
        return f"{len(names)} devices"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def mixed_columns(calls: Calls, merged: Iterable[Row]) -> dict[str, str]:
    """Return the columns that are empty in a merged row because its rows have different kinds."""
    columns = {name: calls.column(name) for name in calls.names}
    kinds = {
        name: " and ".join(sorted({type(value).__name__ for value in column.given}))
        for name, column in columns.items()
        if column.kind is None
    }
    if not kinds:
        return {}
    empty = {name for row in merged for name in kinds if row.get(name) == ""}
    return {name: text for name, text in kinds.items() if name in empty}


def mixed_note(mixed: Mapping[str, str], shown: Callable[[str], str] = bounded) -> Sequence[str]:
    """Return a note on the columns of `mixed_columns`, if any; ``shown`` formats each name."""
    if not mixed:
        return []
    listed = ", ".join(f"{shown(name)} ({kinds})" for name, kinds in mixed.items())
    return [
        f"Cells are empty where merged rows have several kinds of metric: {listed}. CSV and JSON "
        "have each row."
    ]


def incomplete_row_notes(report: Report) -> Iterator[str]:
    """Yield a note for each kind of incomplete row: without Name, Count, or with Count below 1."""
    calls = report.calls
    unnamed = sum(name == "" for name in calls.column("Name").filled(""))
    if unnamed:
        yield f"{_rows(unnamed)} no Name"
    counts = calls.column("Count").of(Count)
    uncounted = len(calls) - len(counts.given)
    if uncounted:
        yield f"{_rows(uncounted)} no Count, so values per call cannot be computed"
    below = sum(count <= 0 for count in counts.given)
    if below:
        yield f"{_rows(below)} a Count below 1, so values per call cannot be computed"


def _rows(number: int) -> str:
    return "1 row has" if number == 1 else f"{number:,} rows have"


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
