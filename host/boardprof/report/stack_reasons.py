# SPDX-License-Identifier: Apache-2.0
"""Why the stack of functions in a Report is unknown."""

from __future__ import annotations

from boardprof.report.report import Report

Place = tuple[str, str, str, str, str]
"""Name, label, arguments, device and flags of a row."""


def stack_reasons(report: Report) -> dict[Place, str]:
    """Return why the stack of a call is unknown, by row; empty if all are known."""
    swept = "Flags" in report.calls.names
    return {
        (
            each.get("name") or "",
            each.get("label") or "",
            each.get("arguments") or "",
            each.get("device") or "",
            (each.get("flags") or "") if swept else "",
        ): each["stack_unknown"]
        for each in (report.extra or {}).get("measurements", ())
        if each.get("stack_unknown")
    }
