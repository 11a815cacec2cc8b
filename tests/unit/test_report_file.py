# SPDX-License-Identifier: Apache-2.0
"""A file for a Report is checked before anything is measured."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.results.report.report_file import check_report_file


def test_files_new_and_old_and_pipes_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    os.mkfifo(tmp_path / "pipe")
    for name in ("new.json", "old.json", "pipe"):
        check_report_file(str(tmp_path / name))
    assert not (tmp_path / "new.json").exists()


def test_a_file_in_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    words = re.escape(f"{folder / 'new.json'} cannot be written: there is no folder {folder}.")
    with pytest.raises(UsageError, match=words):
        check_report_file(str(folder / "new.json"))
    with pytest.raises(UsageError, match="without a name"):
        check_report_file("")
