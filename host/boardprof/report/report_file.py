# SPDX-License-Identifier: Apache-2.0
"""Files with Reports: read with clear errors, written completely or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from boardprof.errors import ReportFileError, UsageError
from boardprof.report.baseline import baseline_content, is_baseline, report_of_baseline
from boardprof.report.report import Report
from boardprof.writing import check_is_file, unwritable

_OR_RUN = "`boardprof history` lists the runs that were kept"


def check_report_file(file: str) -> None:
    """Check that ``file`` can be written, before anything is measured.

    Raises:
        UsageError: the name is empty or a folder, or its folder is missing or not writable.
    """
    if not file:
        raise UsageError("A file without a name cannot be written.", hint="give it one, e.g. out")
    check_is_file(file)
    path = Path(file)
    if path.exists() and not path.is_file():  # a pipe or a device is written to directly
        if not os.access(path, os.W_OK):
            raise UsageError(f"{file} cannot be written: no permission.")
        return
    folder = path.resolve().parent
    if not folder.is_dir():
        raise UsageError(f"{file} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{file} cannot be written: no permission in {folder}.")


def write_report(report: Report, file: str) -> None:
    """Write the Report as JSON; a regular file completely or not at all.

    Raises:
        UsageError, StorageError: the file cannot be written.
    """
    write_text(report.json() + "\n", file)


def write_text(text: str, file: str) -> None:
    """Write a text; a regular file completely or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    path = Path(file)
    try:
        if path.exists() and not path.is_file():  # a pipe or a device: it must not be replaced
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise unwritable(file, error) from error


def _replace(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as temporary:
        try:
            temporary.write(text)
            temporary.flush()
            os.chmod(temporary.name, 0o666 & ~_umask())
            os.replace(temporary.name, path)
        except OSError:
            os.unlink(temporary.name)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_report(file: str) -> Report:
    """Read a Report from a JSON file, or from a baseline file.

    Raises:
        ReportFileError: the file does not exist, or does not hold a Report.
    """
    try:
        text = Path(file).read_bytes().decode()
    except IsADirectoryError as error:
        raise ReportFileError(
            f"{file} is a folder.", hint=f"name a file in it; {_OR_RUN}"
        ) from error
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}."
        raise ReportFileError(message, hint=f"name another file; {_OR_RUN}") from error
    except UnicodeDecodeError as error:
        raise ReportFileError(
            f"{file} is not a Report: it is not text (byte {error.start}).",
            hint="a file written by `boardprof run --json FILE`",
        ) from error
    try:
        if is_baseline(text):
            return report_of_baseline(baseline_content(text))
        return Report.from_json(text)
    except ReportFileError as error:
        raise ReportFileError(f"{file}: {error.message}", hint=error.hint) from error
