# SPDX-License-Identifier: Apache-2.0
"""The title of a Report: what was measured, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from boardprof.render.cells import escaped, plural
from boardprof.report.report import Report


def heading(report: Report, shown: Callable[[str], str]) -> str:
    """Return what was measured where; each name as ``shown`` gives it."""
    what, devices = _measured(report, shown), _names(report, "Device")
    return f"{what} on {_listed([shown(each) for each in devices])}" if devices else what


def _names(report: Report, column: str) -> list[str]:
    found = dict.fromkeys(report.calls.column(column).filled(""))
    return [escaped(name) for name in found if isinstance(name, str) and name]


def _measured(report: Report, shown: Callable[[str], str]) -> str:
    """Name the one function, or count them; and what was measured of them if that is more."""
    functions = _names(report, "Name")
    if len(functions) == 1:
        return shown(functions[0])
    rows = len(report.calls.group_by("Name", "Label", "Argument Shapes", "Flags").keys)
    counted = plural(len(functions), "function")
    return counted if rows <= len(functions) else f"{plural(rows, 'measurement')} of {counted}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > 4:
        return f"{len(names)} devices"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
