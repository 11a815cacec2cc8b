# SPDX-License-Identifier: Apache-2.0
"""``--json`` of commands that print something else by default and have no tests of their own."""

from __future__ import annotations

import json
from pathlib import Path

from boardprof.base.files import runtime_dir
from tests.cli.command import FIXTURES, boardprof

SCALARS = FIXTURES / "scalars.c"


def facts(*arguments: str | Path) -> dict[str, object]:
    done = boardprof(*arguments, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert isinstance(found, dict)
    assert found["schema_version"] == 1
    return found


def test_a_build_tells_file_sizes_and_functions(tmp_path: Path) -> None:
    found = facts("build", "-b", "native", SCALARS, "-o", tmp_path / "image.so")
    assert found["file"] == str(tmp_path / "image.so")
    assert found["board"] == "native"
    functions = found["functions"]
    assert isinstance(functions, list)
    assert {"name": "count_calls", "signature": "() -> u32", "reason": None} in functions


def test_the_folder_of_the_sources_is_told() -> None:
    assert facts("runtime", "path")["path"] == str(runtime_dir())


def test_a_new_board_tells_its_files_and_what_to_do(tmp_path: Path) -> None:
    found = facts("new", "board", "mine", "--like", "native", tmp_path)
    files = found["files"]
    assert isinstance(files, list)
    assert str(tmp_path / "mine" / "board.toml") in files
    assert found["steps"] == [f"boardprof build -b {tmp_path / 'mine'}"]
