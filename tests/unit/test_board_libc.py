# SPDX-License-Identifier: Apache-2.0
"""How a board names its C library and its C++ compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.target.descriptions.board import load_board

BOARD = """\
summary = "a board"
[build]
cc = "some-gcc"
package = "gcc-some"
freestanding = true
{}
[launch]
kind = "serial"
[clock]
kind = "measured"
"""


def board_with(tmp_path: Path, *keys: str) -> Path:
    folder = tmp_path / "lab-board"
    folder.mkdir()
    (folder / "port.c").write_text("")
    (folder / "board.toml").write_text(BOARD.format("\n".join(keys)))
    return folder


def test_the_keys_are_read_as_they_are_written(tmp_path: Path) -> None:
    keys = ['libc = "newlib"', 'libc_package = "libnewlib-some"', "libc_heap = 4096"]
    keys += ['libc_cflags = ["--specs=nano.specs"]', 'libc_ldflags = ["-Wl,--wrap=f"]']
    keys += ['cxx = "some-c++"', 'cxx_package = "g++-some"']
    build = load_board(board_with(tmp_path, *keys)).build
    assert (build.libc, build.libc_package, build.libc_heap) == ("newlib", "libnewlib-some", 4096)
    assert build.libc_cflags == ("--specs=nano.specs",)
    assert build.libc_ldflags == ("-Wl,--wrap=f",)
    assert (build.cxx, build.cxx_package) == ("some-c++", "g++-some")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            ['libc = "musl"', 'libc_package = "musl"'],
            "'musl' is not known; known: newlib, picolibc",
        ),
        (['libc = "newlib"'], "libc and libc_package go together"),
        (['libc_package = "libnewlib-some"'], "libc and libc_package go together"),
        (
            ['libc = "picolibc"', 'libc_package = "picolibc-some"', 'main = "port"'],
            'libc: picolibc needs a set-up that main = "port" does not do',
        ),
        (["libc_heap = -1"], "libc_heap: must be 0 bytes or more, not -1"),
    ],
)
def test_what_is_no_library_is_refused(tmp_path: Path, keys: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_board(board_with(tmp_path, *keys))
    assert message in str(caught.value)
