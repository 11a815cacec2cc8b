# SPDX-License-Identifier: Apache-2.0
"""Exporters of Reports and Comparisons by name, and the files that they write.

Other packages bring more: an entry point of the group ``boardprof.exporters`` has the exporter's
name, and names a function that takes a `Report` and returns a str or bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from boardprof.errors import BoardprofError, UnknownNameError, UsageError
from boardprof.packages import entries, named_function
from boardprof.writing import check_is_file, unwritable

if TYPE_CHECKING:
    from boardprof.report.report import Report

__all__ = ["exporter_names", "find_exporter"]

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
"""The same for methods of a Report or a Comparison; ``--export`` does not offer these."""

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


@dataclass(frozen=True)
class Export:
    """A file to write, and its exporter."""

    name: str
    file: Path
    exporter: Exporter


def read_exports(texts: Sequence[str]) -> list[Export]:
    """Read ``NAME=FILE``, before anything is measured.

    Raises:
        UsageError: one has another form, its exporter cannot be used, or its folder is missing.
        UnknownNameError: the exporter does not exist.
    """
    return [_export(text) for text in texts]


def _export(text: str) -> Export:
    name, equals, file = text.partition("=")
    if not equals or not name or not file:
        raise UsageError(
            f"{text!r} is not a valid --export.", hint="NAME=FILE, e.g. csv=report.csv"
        )
    check_is_file(file)
    path = Path(file)
    if not path.parent.is_dir():
        raise UsageError(f"{file} cannot be written: there is no folder {path.parent}.")
    return Export(name, path, find_exporter(name))


def write_export(report: Report, export: Export) -> None:
    """Write a Report's file.

    Raises:
        UsageError, StorageError: the exporter fails, or the file cannot be written.
    """
    write_exported(exported(report, export.name, export.exporter), export.file)


def exported(report: Report, name: str, exporter: Exporter) -> bytes:
    """Return the output of an exporter for a Report.

    Raises:
        UsageError: the Report has nothing for it, or it fails.
    """
    try:
        made = exporter(report)
        return made.encode() if isinstance(made, str) else bytes(made)
    except BoardprofError:
        raise
    except Exception as error:  # whatever another package raises
        raise UsageError(f"The exporter {name} failed: {error!r}.") from error


def write_exported(content: bytes, file: Path) -> None:
    """Write an export.

    Raises:
        UsageError, StorageError: the file cannot be written.
    """
    try:
        file.write_bytes(content)
    except OSError as error:
        raise unwritable(file, error) from error
