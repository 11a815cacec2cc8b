# SPDX-License-Identifier: Apache-2.0
"""Exporters of Reports and Comparisons by name: boardprof's own, then those of other packages.

An entry point of the group ``boardprof.exporters`` has the exporter's name, and names a function
that takes a `Report` and returns a str or bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from boardprof.errors import UnknownNameError, UsageError
from boardprof.packages import entries, named_function

if TYPE_CHECKING:
    from boardprof.report.report import Report

__all__ = ["Exporter", "exporter_names", "find_exporter", "own_form"]

Exporter: TypeAlias = "Callable[[Report], str | bytes]"

_REPORT = {
    "baseline": "baseline:render_baseline",
    "callgrind": "profile_files:render_callgrind",
    "chrome": "chrome_trace:render_chrome",
    "collapsed": "flame_graph:render_collapsed",
    "csv": "csv:render_csv",
    "html": "html:render_html",
    "json": "json:render_json",
    "markdown": "markdown:render_markdown",
    "pprof": "profile_files:render_pprof",
    "speedscope": "flame_graph:render_speedscope",
    "table": "table:render_table",
}
"""Name -> module of ``boardprof.render``, and its function; imported when it is asked for."""

_OTHERS = {
    "pandas": "data_frame:to_pandas",
    "parsed": "json:parse_json",
    "statistics": "table:render_statistics",
    "comparison json": "comparison_files:comparison_json",
    "comparison junit": "comparison_files:comparison_junit",
    "comparison markdown": "markdown:comparison_markdown",
    "comparison table": "comparison_table:comparison_table",
}
"""The same for methods; ``--export`` does not offer these."""

_NO_FILE = {"pandas": "a DataFrame is not a file: use report.to_pandas()"}


def exporter_names() -> list[str]:
    """Return the names of all exporters, those of other packages included."""
    return sorted({*_REPORT, *(entry.name for entry in entries("exporters"))})


def find_exporter(name: str) -> Exporter:
    """Return the exporter called ``name``.

    Raises:
        UnknownNameError: there is none.
        UsageError: another package's cannot be used.
    """
    if name in _REPORT:
        return own_form(name)
    found = named_function("exporters", name, f"The exporter {name}")
    if found is not None:
        return found.function
    if name in _NO_FILE:
        raise UsageError(
            f"The command line cannot use the exporter {name}: {_NO_FILE[name]}.",
            hint="use boardprof export csv, and read it with pandas.read_csv",
        )
    raise UnknownNameError("exporter", name, exporter_names())


def own_form(name: str) -> Callable[..., Any]:
    """Return boardprof's own function that makes a form of a Report or a Comparison.

    Values know no renderer: their methods, such as ``Report.table``, find theirs here.
    """
    module, _, function = (_REPORT | _OTHERS)[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(f"boardprof.render.{module}"), function)
    return found
