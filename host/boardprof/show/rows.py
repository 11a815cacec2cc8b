# SPDX-License-Identifier: Apache-2.0
"""The rows of a Report as CSV and as a DataFrame of pandas; their medians, also for other services.

CSV is that of RFC 4180, with LF at the ends of lines. The header is the union of all column names
in byte order. Strings are always quoted, numbers never. A missing value is empty. Floats have as
many digits as are needed to read back the same number. Units are in the column names.

Spreadsheets run text that begins with one of ``=+-@`` as a formula, even if it is quoted. Such text
gets an apostrophe in front, which marks it as text.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

from boardprof.base.errors import MissingExtraError, UnknownNameError, UsageError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio, digits, raw_of
from boardprof.base.printable import bounded
from boardprof.results.comparison.comparison import row_title
from boardprof.results.report.calls import DURATION, LEVELS, SHARES, Column, Row
from boardprof.results.report.report import Report
from boardprof.results.report_json import Compat
from boardprof.results.row_origins import GroupKey
from boardprof.results.stats.groups import GroupSummary, summaries
from boardprof.show.cells import arguments_of

if TYPE_CHECKING:
    import pandas

_NEEDS_QUOTES: Final = frozenset(',"\r\n')
_BEGINS_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Spreadsheets skip some blanks at the beginning (OWASP, "CSV Injection")."""


def render_csv(report: Report, *, compat: Compat = None) -> str:
    """Return ``report.calls`` as CSV, in TVM's form byte for byte; see ``Report.csv``."""
    if compat not in (None, "tvm"):
        raise UnknownNameError("compat mode", compat, ["tvm"])
    names = sorted(report.calls.names)
    header = names if compat else [_quoted_if_needed(name) for name in names]
    columns = (report.calls.column(name).filled(None) for name in names)
    cells = ((_cell(metric, compat) for metric in column) for column in columns)
    # Readers would skip a line that has only one empty field.
    blank = '""' if names and compat is None else ""
    rows = zip(*cells, strict=True) if names else repeat((), len(report.calls))
    return _text(",".join(line) or blank for line in chain([header], rows))


def _text(lines: Iterable[str]) -> str:
    # Bytes of a file name that are not UTF-8 are surrogates in a Report. Files cannot contain them.
    text = "".join(f"{line}\n" for line in lines)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _cell(metric: Metric | None, compat: Compat) -> str:
    if metric is None:
        return ""
    raw = raw_of(metric)
    if isinstance(raw, str):
        return f'"{raw}"' if compat else _quoted(raw)
    if isinstance(raw, int):
        return digits(raw)
    return f"{raw:g}" if compat else repr(raw)


def _quoted(text: str) -> str:
    mark = "'" if text.startswith(_BEGINS_FORMULA) else ""
    return '"' + mark + text.replace('"', '""') + '"'


def _quoted_if_needed(name: str) -> str:
    is_plain = name and not _NEEDS_QUOTES.intersection(name)
    return name if is_plain and not name.startswith(_BEGINS_FORMULA) else _quoted(name)


def render_medians(report: Report) -> str:
    """Return a line of CSV for each metric of each function, with statistics per call.

    The last columns have the numbers among the arguments, such as ``argument_n``.
    """
    groups = [*summaries(report, without=SHARES)]
    arguments = [arguments_of(each.key.shapes) for each in groups]
    known = dict.fromkeys(name for each in arguments for name in each)
    names = [n for n in known if not any("[" in each.get(n, "") for each in arguments)]
    lines = [",".join([_MEDIANS, *(_quoted_if_needed(f"argument_{name}") for name in names)])]
    for each, values in zip(groups, arguments, strict=True):
        key, found = each.key, each.summary
        texts = (key.name, key.label, key.shapes, key.flags, key.device, each.metric)
        ends = [found.median, found.minimum, found.maximum, found.mean, found.stddev]
        ends += [found.percentiles[25], found.percentiles[75]]
        own = [_quoted_if_needed(values[name]) if name in values else "" for name in names]
        lines.append(",".join([*map(_quoted, texts), f"{found.n}", *map(_rounded, ends), *own]))
    return _text(lines)


def _rounded(value: int | float | None) -> str:
    """Return a number without the noise of floats in its last digits; "" for None."""
    return "" if value is None else repr(float(f"{value:.15g}") if value % 1 else value)


_MEDIANS: Final = (
    "name,label,arguments,flags,device,metric,samples,median,min,max,mean,stddev,p25,p75"
)


# -- pandas --------------------------------------------------------------------------------------


def to_pandas(report: Report) -> pandas.DataFrame:
    """Return the Report's rows as a DataFrame, one row for each sample in run order.

    Columns have the Report's names. Counts are ``Int64``, or Python ints if one is larger.
    Durations (microseconds), Percents and Ratios are ``float64``. Texts have pandas' own type.
    Missing values are ``<NA>`` or NaN. A column with several kinds of metric has the plain values
    as objects. ``attrs`` has ``kinds`` (column -> name of the metric's class), ``configuration``
    and ``device_metrics`` as plain values.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("A DataFrame", "pandas", "pandas") from None
    calls = report.calls
    columns = {name: calls.column(name) for name in calls.names}
    frame = pandas.DataFrame(
        {name: _array(pandas, column) for name, column in columns.items()},
        index=pandas.RangeIndex(len(calls)),
    )
    frame.attrs["kinds"] = {name: _kinds(column) for name, column in columns.items()}
    frame.attrs["configuration"] = _plain_row(report.configuration)
    totals = {device: _plain_row(row) for device, row in report.device_metrics.items()}
    frame.attrs["device_metrics"] = totals
    return frame


def _array(pandas: Any, column: Column) -> Any:
    values = column.given if column.kind is not None else [raw_of(each) for each in column.given]
    if column.kind is Count and isinstance(values, array):  # all fit into 64 bits
        kind = "Int64"
    elif column.kind in (Duration, Percent, Ratio):
        kind = "float64"
    else:
        kind = "object"
    given = pandas.Series(list(values), index=column.rows, dtype=kind)
    if column.rows is not None:
        given = given.reindex(range(column.length))
    return given.array


def _kinds(column: Column) -> str:
    if column.kind is not None:
        return column.kind.__name__
    return " | ".join(dict.fromkeys(type(metric).__name__ for metric in column.given))


def _plain_row(row: Row) -> dict[str, str | int | float]:
    return {name: raw_of(metric) for name, metric in row.items()}


# -- medians for services that draw them over time --------------------------------------------

_LONGEST_BENCHMARK, _LONGEST_MEASURE = 1024, 64  # of Bencher


def _found(report: Report) -> Iterator[tuple[str, int, GroupSummary]]:
    """Yield each metric of each function with its title, and which one of that title it is."""
    seen: Counter[tuple[str, str]] = Counter()
    for each in summaries(report):
        if each.metric not in SHARES:
            title = bounded(row_title(each.key))
            seen[title, each.metric] += 1
            nth = seen[title, each.metric]
            yield (title if nth == 1 else f"{title} ({nth})"), nth, each


def render_bencher(report: Report) -> str:
    """Return ``report`` in Bencher's metric format, for its adapter ``json``."""
    found: dict[str, dict[str, dict[str, int | float]]] = {}
    for title, _, each in _found(report):
        measures = found.setdefault(title[:_LONGEST_BENCHMARK], {})
        measures[each.metric[:_LONGEST_MEASURE]] = {
            "value": each.summary.median,
            "lower_value": each.summary.minimum,
            "upper_value": each.summary.maximum,
        }
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def render_benchmark_action(report: Report) -> str:
    """Return ``report`` for github-action-benchmark, tool ``customSmallerIsBetter``."""
    # Ratios such as IPC are left out, because more of them is better.
    found = [
        {
            "name": f"{title}: {bounded(each.metric)}",
            "unit": _unit(each),
            "value": each.summary.median,
            "range": f"{each.summary.minimum} to {each.summary.maximum}",
            "extra": f"median of {each.summary.n} samples",
        }
        for title, _, each in _found(report)
        if each.kind in (Count, Duration)
    ]
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def render_hyperfine(report: Report) -> str:
    """Return the times of ``report`` in seconds per call, as hyperfine's JSON for its scripts.

    ``user``, ``system`` and ``exit_codes`` are of processes, so they are absent.

    Raises:
        UsageError: the Report has no times.
    """
    found = []
    for title, _, each in _found(report):
        if each.metric != DURATION:
            continue
        of = each.summary
        values = {"mean": of.mean, "stddev": of.stddev, "median": of.median}
        values |= {"min": of.minimum, "max": of.maximum}
        seconds = {name: None if us is None else us / 1e6 for name, us in values.items()}
        times = {"times": [us / 1e6 for us in each.values]}
        parameters = {"parameters": arguments_of(each.key.shapes)}
        found.append({"command": title, **seconds, **times, **parameters})
    if not found:
        raise UsageError("The Report has no times.", hint="medians has all metrics, as CSV")
    return json.dumps({"results": found}, indent=2, allow_nan=False) + "\n"


def _unit(each: GroupSummary) -> str:
    if each.metric in LEVELS:
        return "bytes"
    return "us" if each.kind is Duration else "per call"


def render_openmetrics(report: Report) -> str:
    """Return ``report`` as OpenMetrics text, for GitLab's ``artifacts:reports:metrics``."""
    families: dict[str, dict[str, list[tuple[int, GroupSummary]]]] = {}
    for _, nth, each in _found(report):
        name = "boardprof_" + re.sub(r"\W+", "_", each.metric, flags=re.ASCII).strip("_")
        families.setdefault(name, {}).setdefault(each.metric, []).append((nth, each))
    lines = []
    for name, metrics in families.items():
        lines.append(f"# TYPE {name} gauge")
        for metric, groups in metrics.items():
            same = {"metric": metric} if len(metrics) > 1 else {}
            lines += [
                f"{name}{_labels(each.key, nth, same)} {each.summary.median}"
                for nth, each in groups
            ]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _labels(key: GroupKey, nth: int, more: dict[str, str]) -> str:
    labels = {
        "function": key.name,
        "board": key.device,
        "arguments": key.shapes,
        "flags": key.flags,
        "label": key.label,
        "nth": f"{nth}" if nth > 1 else "",
        **more,
    }
    text = ",".join(f'{name}="{_label_value(value)}"' for name, value in labels.items() if value)
    return f"{{{text}}}" if text else ""


def _label_value(text: str) -> str:
    return bounded(text).replace("\\", r"\\").replace('"', r"\"")
