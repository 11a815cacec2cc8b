# SPDX-License-Identifier: Apache-2.0
"""Files that may never end, such as pipes and devices, are refused wherever a user names a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command import boardprof

SOURCE = "int f(const int *x) { return *x; }\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run -b native pipe.c:f", "pipe.c is not a regular file."),
        ("run -b native f.c:f x=1 --source pipe.o", "pipe.o is not a regular file."),
        (
            "run -b native f.c:f x=@pipe.bin",
            "x=@pipe.bin cannot be read: it is not a regular file.",
        ),
        ("run -b native f.c:f x=@zero.npy", "x=@zero.npy: zero.npy cannot be read: it is not a"),
        ("run -b ./board f.c:f x=1", "board.toml cannot be read: it is"),
        ("functions pipe.o", "pipe.o: it is not a regular file."),
        ("show ./pipe.c", "pipe.c cannot be read: it is not a regular file."),
        ("show /dev/zero", "/dev/zero cannot be read: it is not a regular file."),
        ("--config pipe.c boards", "pipe.c cannot be read: it is not a regular file."),
        ("fleet run /dev/zero", "/dev/zero cannot be read: it is not a regular file."),
        ("history import pipe.c", "pipe.c cannot be read: it is not a regular file."),
    ],
)
def test_a_pipe_or_a_device_is_not_read(words: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(SOURCE)
    (tmp_path / "board").mkdir()
    for name in ("pipe.c", "pipe.o", "pipe.bin", "board/board.toml"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "zero.npy").symlink_to("/dev/zero")
    history = {"BOARDPROF_HISTORY": str(tmp_path / "history.sqlite")}
    done = boardprof(*words.split(), environment=history, folder=tmp_path)
    assert done.code == 2
    assert message in done.err
