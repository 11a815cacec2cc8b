# SPDX-License-Identifier: Apache-2.0
"""Both halves of a run are all of the tests."""

from __future__ import annotations

from pathlib import Path

from scripts.run_tests import halves
from tests.support import ROOT


def test_every_file_of_tests_is_in_one_half_and_no_other() -> None:
    first, second = halves()
    assert set(first) & set(second) == set()
    places = [ROOT / place for place in first + second]
    for file in (ROOT / "tests").rglob("test_*.py"):
        assert sum(place == file or place in file.parents for place in places) == 1, file


def test_folders_without_tests_are_left_out(tmp_path: Path) -> None:
    for name in ("boards/test_a.py", "unit/test_b.py", "golden/c.txt", "test_d.py", "support.py"):
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert halves(tmp_path / "tests") == (["tests/boards"], ["tests/test_d.py", "tests/unit"])
