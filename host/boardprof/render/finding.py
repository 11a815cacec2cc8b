# SPDX-License-Identifier: Apache-2.0
"""Exporters by name: boardprof's own, then those of other packages.

An entry point of the group ``boardprof.exporters`` has the exporter's name, and names a function
that takes a `Report` and returns a str or bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from boardprof.errors import UnknownNameError, UsageError
from boardprof.packages import entries, named_function
from boardprof.report.report import Report

__all__ = ["Exporter", "exporter_names", "find_exporter"]

Exporter = Callable[[Report], str | bytes]

_OWN = {
    "baseline": "baseline:render_baseline",
    "chrome": "report_trace:render_chrome",
    "collapsed": "collapsed:render_collapsed",
    "csv": "csv:render_csv",
    "html": "html:render_html",
    "json": "json:render_json",
    "markdown": "markdown:render_markdown",
    "speedscope": "speedscope:render_speedscope",
    "table": "table:render_table",
}
"""Name -> module of this package, and its function; imported when it is asked for."""

_NO_FILE = {"pandas": "a DataFrame is no file: use report.to_pandas()"}


def exporter_names() -> list[str]:
    """Return the names of all exporters, those of other packages included."""
    return sorted({*_OWN, *entries("exporters").names})


def find_exporter(name: str) -> Exporter:
    """Return the exporter called ``name``.

    Raises:
        UnknownNameError: there is none.
        UsageError: another package's cannot be used.
    """
    if name in _OWN:
        module, _, function = _OWN[name].partition(":")
        own: Exporter = getattr(import_module(f"boardprof.render.{module}"), function)
        return own
    found = named_function("exporters", name, f"The exporter {name}")
    if found is not None:
        return found.function
    if name in _NO_FILE:
        raise UsageError(
            f"{name} is no exporter of the command line: {_NO_FILE[name]}.",
            hint="boardprof export csv, which pandas.read_csv reads",
        )
    raise UnknownNameError("exporter", name, exporter_names())
