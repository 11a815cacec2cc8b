# SPDX-License-Identifier: Apache-2.0
"""Why the stack of functions in a Report is unknown."""

from __future__ import annotations

from boardprof.results.report.report import Report
from boardprof.results.stats.groups import GroupKey


def stack_reasons(report: Report) -> dict[GroupKey, str]:
    """Return why the stack of a call is unknown, by group without its hash; empty if none is."""
    swept = "Flags" in report.calls.names
    return {
        GroupKey(
            each.get("name") or "",
            each.get("arguments") or "",
            (each.get("flags") or "") if swept else "",
            each.get("device") or "",
            label=each.get("label") or "",
        ): each["stack_unknown"]
        for each in (report.extra or {}).get("measurements", ())
        if each.get("stack_unknown")
    }
