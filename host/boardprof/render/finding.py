# SPDX-License-Identifier: Apache-2.0
"""Exporters by name: boardprof's own, then those of other packages.

An entry point of the group ``boardprof.exporters`` has the exporter's name, and names a function
that takes a `Report` and returns a str or bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from boardprof.errors import UnknownNameError
from boardprof.packages import entries, named_function
from boardprof.render.csv import render_csv
from boardprof.render.json import render_json
from boardprof.render.table import render_table
from boardprof.report.report import Report

__all__ = ["Exporter", "find_exporter"]

Exporter = Callable[[Report], str | bytes]

_OWN: dict[str, Exporter] = {"csv": render_csv, "json": render_json, "table": render_table}


def find_exporter(name: str) -> Exporter:
    """Return the exporter called ``name``.

    Raises:
        UnknownNameError: there is none.
        UsageError: another package's cannot be used.
    """
    if name in _OWN:
        return _OWN[name]
    found = named_function("exporters", name, f"The exporter {name}")
    if found is None:
        raise UnknownNameError("exporter", name, sorted({*_OWN, *entries("exporters").names}))
    return found.function
