# SPDX-License-Identifier: Apache-2.0
"""Files of a Report in whatever form: ``--export NAME=FILE``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from boardprof.errors import UsageError
from boardprof.render.finding import Exporter, find_exporter
from boardprof.report.report import Report
from boardprof.writing import check_is_file, unwritable

__all__ = ["Export", "read_exports", "write_export"]


@dataclass(frozen=True)
class Export:
    """A file to be written, and what writes it."""

    name: str
    file: Path
    exporter: Exporter


def read_exports(texts: Sequence[str]) -> list[Export]:
    """Read ``NAME=FILE``, before anything is measured.

    Raises:
        UsageError: one has another form, its exporter cannot be used, or there is no such folder.
        UnknownNameError: there is no such exporter.
    """
    return [_export(text) for text in texts]


def _export(text: str) -> Export:
    name, equals, file = text.partition("=")
    if not equals or not name or not file:
        raise UsageError(f"{text!r} is no export.", hint="NAME=FILE, e.g. csv=report.csv")
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
    try:
        made = export.exporter(report)
        content = made.encode() if isinstance(made, str) else bytes(made)
    except Exception as error:  # whatever another package raises
        raise UsageError(f"The exporter {export.name} fails: {error!r}.") from error
    try:
        export.file.write_bytes(content)
    except OSError as error:
        raise unwritable(export.file, error) from error
