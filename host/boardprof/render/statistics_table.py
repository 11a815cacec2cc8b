# SPDX-License-Identifier: Apache-2.0
"""Statistics of a Report's samples as a text table: a row for each metric of a function."""

from __future__ import annotations

from typing import Final

from boardprof.render.cells import number_text
from boardprof.render.layout import Page, plain, record_table
from boardprof.report.report import Report
from boardprof.stats.groups import GroupSummary, LeftOut, left_out, summaries
from boardprof.stats.summary import PERCENTILES, Summary

_LEFT: Final = ("Name", "Label", "Flags", "Argument Shapes", "Device", "Metric")
_OPTIONAL: Final = ("Label", "Flags", "Argument Shapes", "Device", "Cold", "Outliers")
_EXACT: Final = "exact"
_SHOWN_OUTLIERS: Final = 8

_LEGEND: Final = "Values are per call."
_NOTES: Final = {
    "CV": "CV: standard deviation as a share of the mean.",
    _EXACT: (
        "exact: no noise. The board is deterministic, or the value was found once for all samples."
    ),
    "Cold": "Cold: the very first call. The other columns do not include it.",
    "Outliers": "Outliers: samples that stand apart, by their number in the run; the first is #0.",
}


def render_statistics(report: Report) -> str:
    """Return the statistics of a Report's samples as a text table; see ``Report.statistics``."""
    return plain(statistics_page(report))


def statistics_page(report: Report) -> Page:
    """Return the statistics of a Report's samples as a table, and a legend."""
    rows = [_cells(group) for group in summaries(report)]
    notes = [_left_out(each) for each in left_out(report)]
    if not rows:
        return ["There are no samples.", *notes]
    headers = [name for name in rows[0] if name not in _OPTIONAL or any(row[name] for row in rows)]
    has_exact = any(row["CV"] == _EXACT for row in rows)
    shown = [
        text for name, text in _NOTES.items() if name in headers or (name == _EXACT and has_exact)
    ]
    return [record_table(headers, rows, _LEFT), "", _LEGEND, *shown, *notes]


def _cells(group: GroupSummary) -> dict[str, str]:
    """Return a row's cells; all rows have all columns, in the table's order."""
    key, summary = group.key, group.summary

    def text(value: float | None) -> str:
        return number_text(value, group.kind)

    return {
        "Name": key.name,
        "Label": key.label,
        "Flags": key.flags,
        "Argument Shapes": key.shapes,
        "Device": key.device,
        "Metric": group.metric,
        "n": f"{summary.n:,}",
        "Min": text(summary.minimum),
        "Median": text(summary.median),
        "Mean": text(summary.mean),
        "Max": text(summary.maximum),
        "Stddev": text(summary.stddev),
        "CV": _cv(summary),
        **{f"p{share}": text(summary.percentiles[share]) for share in PERCENTILES},
        "Cold": text(summary.first),
        "Outliers": _outliers(summary),
    }


def _left_out(lost: LeftOut) -> str:
    of = f" of {lost.key.title}" if lost.key is not None else ""
    return f"Left out: {lost.metric}{of}: {lost.why}."


def _cv(summary: Summary) -> str:
    if summary.is_exact:
        return _EXACT
    if summary.cv is None:
        return ""
    percent = 100 * summary.cv
    return "<0.01 %" if 0 < percent < 0.005 else f"{percent:,.2f} %"


def _outliers(summary: Summary) -> str:
    shown = ", ".join(f"#{i}" for i in summary.outliers[:_SHOWN_OUTLIERS])
    more = len(summary.outliers) - _SHOWN_OUTLIERS
    return f"{shown} and {more:,} more" if more > 0 else shown
