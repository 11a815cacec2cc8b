# SPDX-License-Identifier: Apache-2.0
"""A Report's medians per call for services that draw them over time.

Shares of a row in its board's time and the perturbation are left out: they describe a run, not a
function. So are values that are not finite, which these formats do not have.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from boardprof.base.metrics import Count, Duration
from boardprof.base.printable import bounded
from boardprof.results.report.calls import LEVELS, SHARES
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey
from boardprof.results.stats.groups import GroupSummary, summaries

_LONGEST_BENCHMARK, _LONGEST_MEASURE = 1024, 64  # of Bencher


def _found(report: Report) -> Iterator[tuple[str, int, GroupSummary]]:
    """Yield each metric of each function with its title, and which one of that title it is."""
    seen: Counter[tuple[str, str]] = Counter()
    for each in summaries(report):
        if each.metric not in SHARES:
            title = _title(each.key)
            seen[title, each.metric] += 1
            nth = seen[title, each.metric]
            yield (title if nth == 1 else f"{title} ({nth})"), nth, each


def _title(key: GroupKey) -> str:
    """Name a function with its arguments, flags and board: ``fir(n=256) -O3 on m4``."""
    flags = f" {key.flags}" if key.flags else ""
    device = f" on {key.device}" if key.device else ""
    return bounded(f"{key.title}({key.shapes}){flags}{device}")


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
    text = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items() if value)
    return f"{{{text}}}" if text else ""


def _quoted(text: str) -> str:
    return bounded(text).replace("\\", r"\\").replace('"', r"\"")
