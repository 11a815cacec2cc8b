# SPDX-License-Identifier: Apache-2.0
"""Exporters by name: boardprof's own, then those of other packages.

An entry point of the group ``boardprof.exporters`` has the exporter's name, and names a function
that takes a `Report` and returns a str or bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from boardprof.errors import UnknownNameError, UsageError
from boardprof.render.csv import render_csv
from boardprof.render.json import render_json
from boardprof.render.table import render_table
from boardprof.report.report import Report

__all__ = ["Exporter", "find_exporter"]

_ENTRY_POINTS = "boardprof.exporters"

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
    entries = metadata.entry_points(group=_ENTRY_POINTS)
    found = sorted((entry for entry in entries if entry.name == name), key=lambda e: e.value)
    if not found:
        raise UnknownNameError("exporter", name, sorted({*_OWN, *entries.names}))
    entry = found[0]
    try:
        exporter: Exporter = entry.load()
        if not callable(exporter):
            raise TypeError(f"{exporter!r} is no function")
    except Exception as error:  # whatever another package raises
        raise UsageError(
            f"The exporter {name} of {entry.value} cannot be used: {error!r}."
        ) from error
    return exporter
