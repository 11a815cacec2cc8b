# SPDX-License-Identifier: Apache-2.0
"""``--baseline FILE``: write what gates need of a run, to be committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from boardprof.errors import ReportFileError
from boardprof.render.baseline import render_baseline, updated_baseline
from boardprof.report.baseline import baseline_content, is_baseline
from boardprof.report.report import Report
from boardprof.report.report_file import write_text

__all__ = ["write_baseline"]


def write_baseline(
    report: Report, file: str, keeps: Callable[[str], bool] = lambda label: False
) -> None:
    """Write a baseline file. In one that is there, what has not changed stays as it is.

    Args:
        report: what was measured.
        file: to be written; another kind of file is replaced.
        keeps: tells by its label whether a measurement in the file stays that was not made now.

    Raises:
        ReportFileError: the file is a damaged baseline.
        UsageError, StorageError: it cannot be written.
    """
    path = Path(file)
    try:
        earlier = path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        earlier = ""
    if not is_baseline(earlier):
        text = render_baseline(report)
    else:
        try:
            text = updated_baseline(report, baseline_content(earlier), keeps)
        except ReportFileError as error:
            raise ReportFileError(f"{file}: {error.message}", hint=f"remove {file}") from error
    write_text(text, file)
