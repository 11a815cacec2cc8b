# SPDX-License-Identifier: Apache-2.0
"""Thread-local variables have their values, on boards without an operating system, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.target.build.build_options import BuildOptions
from tests.boards.conftest import available
from tests.firmware import build

SOURCE = """\
static __thread int seed = 41;
static __thread char odd[3] = {1, 2, 3};
static __thread int zeros[5];
__thread int wide __attribute__((aligned(64))) = 7;
int next_seed(void) { zeros[4]++; return ++seed + odd[2]; }
int others(void) { return wide * 10 + (int)((unsigned long)&wide % 64) + zeros[0] + zeros[4]; }
"""
ERRNO = """\
#include <errno.h>
#include <stdlib.h>
int error(void) { errno = 0; strtol("99999999999999999999", 0, 10); return errno == ERANGE; }
"""


@pytest.mark.parametrize("name", ["qemu-rv32", "qemu-cortex-a53", "microbit", "linux"])
def test_thread_local_variables_have_their_values(tmp_path: Path, name: str) -> None:
    (tmp_path / "tls.c").write_text(SOURCE)
    with build(available(name), [tmp_path / "tls.c"]).open() as board:
        assert board.functions.others() == 70
        assert board.functions.next_seed() == 45
        assert board.functions.next_seed() == 46
        assert board.functions.others() == 72


@pytest.mark.parametrize("name", ["qemu-rv32", "microbit"])
def test_those_of_the_c_library_are_beside_them(tmp_path: Path, name: str) -> None:
    (tmp_path / "tls.c").write_text(SOURCE + ERRNO)
    made = build(available(name), [tmp_path / "tls.c"], BuildOptions(optimize="-Os"))
    assert made.libc == ("newlib" if name == "microbit" else "picolibc")
    with made.open() as board:
        assert board.functions.error() == 1
        assert board.functions.next_seed() == 45
        assert board.functions.others() == 71
