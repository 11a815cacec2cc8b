# SPDX-License-Identifier: Apache-2.0
"""A compiler that warns of our C, as a newer one may, does not keep anybody from a number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command import boardprof
from tests.support import requires_compiler

pytestmark = pytest.mark.slow

WARNINGS = "-Wall -Wextra -Wtraditional -Wpadded"
"""With the last two, GCC warns of most C that there is."""


@pytest.mark.parametrize(
    ("board", "cc"),
    [
        ("native", "gcc"),
        ("linux", "gcc"),
        ("qemu-rv32", "riscv64-unknown-elf-gcc"),
        ("qemu-cortex-m3", "arm-none-eabi-gcc"),
        ("qemu-cortex-a53", "aarch64-linux-gnu-gcc"),
        ("arduino-uno", "avr-gcc"),
    ],
)
def test_a_compiler_that_warns_of_our_code_builds_it(tmp_path: Path, board: str, cc: str) -> None:
    real = requires_compiler(cc)
    wrapper = tmp_path / cc
    wrapper.write_text(f'#!/bin/sh\nexec {real} "$@" {WARNINGS} 2>>{tmp_path}/warnings\n')
    wrapper.chmod(0o755)
    (tmp_path / "twice.c").write_text("int twice(int n) { return 2 * n; }\n")
    done = boardprof(
        *("run", "-q", "-b", board, f"{tmp_path}/twice.c:twice", "n=4", "--expect", "return=8"),
        environment={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": f"{tmp_path}/cache",
        },
    )
    assert done.code == 0, done.err
    warned = (tmp_path / "warnings").read_text(errors="replace")
    assert "/bp_agent.c:" in warned
    assert "warning: " in warned
