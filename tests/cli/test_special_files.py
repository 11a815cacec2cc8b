# SPDX-License-Identifier: Apache-2.0
"""Files that may never end, such as pipes and devices, are refused wherever a user names a file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import BOARDPROF, boardprof

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
        (
            "run -b ./circle f.c:f x=1",
            "circle/board.toml cannot be read: Too many levels of symbolic links.",
        ),
        ("build -b linux f.c -o circle/a", "there is no folder"),
        ("--config circle boards", "circle cannot be read: Too many levels of symbolic links."),
    ],
)
def test_a_pipe_or_a_device_is_not_read(words: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(SOURCE)
    (tmp_path / "board").mkdir()
    for name in ("pipe.c", "pipe.o", "pipe.bin", "board/board.toml"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "zero.npy").symlink_to("/dev/zero")
    (tmp_path / "circle").symlink_to("circle")
    history = {"BOARDPROF_HISTORY": str(tmp_path / "history.sqlite")}
    done = boardprof(*words.split(), environment=history, folder=tmp_path)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("variable", "place", "message"),
    [
        ("BOARDPROF_HISTORY", "circle", "circle cannot be read: Too many levels of symbolic"),
        ("BOARDPROF_HISTORY", "f.c/history", "history cannot be read: Not a directory."),
        ("XDG_CONFIG_HOME", "circle", "config.toml cannot be read: Too many levels of symbolic"),
    ],
)
def test_what_cannot_be_looked_at_is_not_taken_for_absent(
    variable: str, place: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "f.c").write_text(SOURCE)
    (tmp_path / "circle").symlink_to("circle")
    done = boardprof("history", environment={variable: str(tmp_path / place)}, folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_what_does_not_fit_into_memory_is_not_an_internal_error(tmp_path: Path) -> None:
    os.truncate(os.open(tmp_path / "big.json", os.O_CREAT | os.O_RDWR), 1 << 30)
    done = subprocess.run(
        ["prlimit", f"--as={1 << 30}", *BOARDPROF, "show", "big.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (8, "")
    assert done.stderr.startswith("error: There is not enough memory for it.\n")
