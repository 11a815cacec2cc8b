# SPDX-License-Identifier: Apache-2.0
"""A Report as Markdown with GitHub's tables: for a pull request or a wiki.

A table a device; each number is the median per call. Names stand as code; what could be taken for
markup is written as character references.
"""

from __future__ import annotations

import re
from typing import Any

from boardprof.metrics import Count, Duration
from boardprof.render.aggregate import (
    LEVELS,
    SHARE,
    SORT_COLUMNS,
    merge_calls,
    per_call_median,
)
from boardprof.render.cells import cell, escaped, per_call_cell
from boardprof.render.labels import LABEL
from boardprof.render.mixed import mixed_columns, mixed_note
from boardprof.render.names import KEY_COLUMNS, text_of
from boardprof.render.typical import Typical
from boardprof.report.calls import Calls
from boardprof.report.groups import grouped
from boardprof.report.report import Report, Row

__all__ = ["code", "markdown_table", "render_markdown"]

_PLAIN = re.compile(r"[\w .,:;=()\[\]{}/+*%'^?!@$-]+")
_KEYS = (LABEL, "Flags", "Argument Shapes")
_LEFT_OUT = frozenset({*KEY_COLUMNS, LABEL, "Hash"})


def render_markdown(report: Report) -> str:
    """Return ``report`` as Markdown: a table a device, then the configuration, folded up."""
    by_device: dict[str, list[Row]] = {}
    for row in report.calls:
        by_device.setdefault(text_of(row.get("Device", "")), []).append(row)
    parts = [_device(report, device, rows) for device, rows in by_device.items()]
    return "\n".join(filter(None, [*parts, _configuration(report)]))


def code(text: str) -> str:
    """Return ``text`` as code that no renderer takes for markup, in a table's cell too."""
    shown = escaped(text)
    if not shown.strip():
        return ""
    if _PLAIN.fullmatch(shown) and shown == shown.strip():
        return f"`{shown}`"
    return (
        f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in shown)}</code>"
    )


def markdown_table(headers: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    """Return a table; the first ``left`` columns are aligned left, the others right.

    Args:
        headers: one a column, already safe as Markdown.
        rows: cells, likewise.
        left: how many columns are of text.
    """
    rule = [":--" if i < left else "--:" for i in range(len(headers))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (headers, rule, *rows))


def _device(report: Report, device: str, rows: list[Row]) -> str:
    calls = Calls(rows)
    groups = grouped(
        tuple(text_of(row.get(column, "")) for column in ("Name", "Hash", *_KEYS)) for row in rows
    )
    typical = Typical(calls, groups, merge_calls(calls, groups))
    order = typical.order()
    samples = [[rows[number] for number in groups.rows[i]] for i in order]
    merged = [typical.merged[i] for i in order]
    keys = [column for column in _KEYS if any(column in r for r in merged)]
    numbers = _number_columns(merged)
    headers = ["Name", *keys, *(code(column) for column in numbers), "Samples"]
    lines = [
        [
            code(text_of(row.get("Name", ""))),
            *(code(text_of(row.get(column, ""))) for column in keys),
            *(_cell(column, row, group) for column in numbers),
            str(len(group)),
        ]
        for row, group in zip(merged, samples, strict=True)
    ]
    title = f"**{code(device) or 'no device'}**{_clock(report, device)}\n\n"
    notes = ["Counts and times are medians per call."] if numbers else []
    notes += mixed_note(mixed_columns(report.calls, merged), code)
    told = "".join(f"\n{note}\n" for note in notes)
    return title + markdown_table(headers, lines, left=1 + len(keys)) + told


def _number_columns(rows: list[Row]) -> list[str]:
    found = {
        name
        for row in rows
        for name, metric in row.items()
        if name not in _LEFT_OUT and not isinstance(metric, str)
    }
    first = [name for name in (*SORT_COLUMNS[:1], SHARE) if name in found]
    return [*first, *sorted(found.difference(first, {"Count"}))]


def _cell(column: str, row: Row, samples: list[Row]) -> str:
    metric = row.get(column)
    if metric is None:
        return ""
    if isinstance(metric, Count | Duration) and column not in LEVELS:
        return per_call_cell(per_call_median(samples, column), ",")
    return cell(metric, column, ",")


def _clock(report: Report, device: str) -> str:
    """Say in front of all numbers where time comes from; nothing where the Report does not say."""
    devices: dict[str, Any] = (report.extra or {}).get("devices", {})
    facts = devices.get(device)
    if not isinstance(facts, dict) or "clock_kind" not in facts:
        return ""
    kind = str(facts["clock_kind"])
    emulated = ", emulated" if facts.get("emulated") else ""
    return f" ({escaped(kind)} clock{', no wall time' if kind == 'simulated' else ''}{emulated})"


def _configuration(report: Report) -> str:
    lines = [[code(k), code(cell(v, k, ","))] for k, v in report.configuration.items()]
    if not lines:
        return ""
    table = markdown_table(["Key", "Value"], lines, left=2)
    return f"<details><summary>Configuration</summary>\n\n{table}\n</details>\n"
