# SPDX-License-Identifier: Apache-2.0
"""Files with Reports: JSON, baselines, or runs of probes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from boardprof.base.errors import ReportFileError, UsageError
from boardprof.base.files import check_is_file, open_file, read_file, write_bytes
from boardprof.results.report.report import Report

_OR_RUN = "`boardprof history` lists the runs that were kept"

_BY_RUN: Final = "a file written by `boardprof run --json FILE`"

_MAGIC_OF_A_PROBE_RUN = b"PK\x03\x04"


def check_report_file(file: str) -> None:
    """Check that ``file`` can be written, before anything is measured."""
    if not file:
        raise UsageError("A file without a name cannot be written.", hint="give it one, e.g. out")
    check_is_file(file)
    path = Path(file)
    if path.exists() and not path.is_file():  # a pipe or a device is written to directly
        if not os.access(path, os.W_OK):
            raise UsageError(f"{file} cannot be written: no permission.")
        return
    folder = Path(os.path.realpath(path)).parent  # also of links in a circle
    if not folder.is_dir():
        raise UsageError(f"{file} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{file} cannot be written: no permission in {folder}.")


def write_report(report: Report, file: str) -> None:
    """Write the Report as JSON; a regular file completely or not at all."""
    write_text(report.json() + "\n", file)


def write_text(text: str, file: str) -> None:
    """Write a text; a regular file completely or not at all."""
    # Names may have what UTF-8 has no form for, such as a file's name that was not UTF-8.
    write_bytes(text.encode(errors="backslashreplace"), file)


def read_report(file: str) -> Report:
    """Read a Report from a JSON file, or from a baseline file."""
    try:
        text = read_file(file).decode()
    except IsADirectoryError as error:
        raise ReportFileError(
            f"{file} is a folder.", hint=f"name a file in it; {_OR_RUN}"
        ) from error
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}."
        raise ReportFileError(message, hint=f"name another file; {_OR_RUN}") from error
    except UnicodeDecodeError as error:
        raise ReportFileError(
            f"{file} is not a Report: it is not text (byte {error.start}).", hint=_BY_RUN
        ) from error
    try:
        if '"boardprof.baseline"' in text:
            from boardprof.results.baseline import baseline_content, is_baseline, report_of_baseline

            if is_baseline(text):
                return report_of_baseline(baseline_content(text))
        return Report.from_json(text)
    except ReportFileError as error:
        raise ReportFileError(f"{file}: {error.message}", hint=error.hint or _BY_RUN) from error


def is_probe_run(file: str) -> bool:
    """Return whether a file may hold a run of probes; False also if it cannot be read."""
    try:
        with open_file(file) as opened:
            return opened.read(len(_MAGIC_OF_A_PROBE_RUN)) == _MAGIC_OF_A_PROBE_RUN
    except (OSError, ValueError):
        return False
