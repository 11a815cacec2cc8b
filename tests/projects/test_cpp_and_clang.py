# SPDX-License-Identifier: Apache-2.0
"""The firmware with a main and a port in C++, and compiled by clang; its counts stay exact."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from boardprof.measure.connect import connect
from tests.projects.firmware import EXAMPLE, command, counts_of, executed, requires_board, shell
from tests.support import requires_tool

MAKEFILE = Path(__file__).parent / "fixtures" / "Makefile"
# With frame pointers, an empty function in C is longer than its return.
CLANG = "--target=riscv32-unknown-elf -march=rv32imac -mabi=ilp32 -mcmodel=medany"
CLANG += " -fno-omit-frame-pointer"

pytestmark = pytest.mark.board("qemu-rv32")


def made(folder: Path, *options: str) -> Path:
    """Make the firmware of ``folder / "source"``; return its image."""
    shutil.copy(MAKEFILE, folder)
    options += (f"SOURCE={folder / 'source'}", f"BOARDPROF={command(folder)}")
    shell(["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "make", *options], folder)
    return folder / "thermostat.elf"


def test_a_firmware_whose_main_and_port_are_cpp_is_measured(tmp_path: Path) -> None:
    requires_board("qemu-rv32")
    requires_tool("riscv64-unknown-elf-g++", "gcc-riscv64-unknown-elf")
    shutil.copytree(EXAMPLE, tmp_path / "source")
    app, hal = tmp_path / "source/app", tmp_path / "source/hal/virt_rv32"
    for source in (app / "main.c", app / "agent_port.c", hal / "hal.c"):
        source.rename(source.with_suffix(".cpp"))
    main = app / "main.cpp"
    header = '#include "control.h"\n'
    main.write_text(main.read_text().replace(header, f'extern "C" {{\n{header}}}\n'))
    image = made(tmp_path)
    with connect("qemu-rv32", image=image) as board:
        assert board.functions.isqrt(1000000) == 1000
    assert len(counts_of(image, "qemu-rv32", "instructions", "isqrt", 1000000)) == 3


def test_counts_of_a_firmware_that_clang_has_compiled_are_those_of_the_emulator(
    tmp_path: Path,
) -> None:
    spec = requires_board("qemu-rv32")
    clang = requires_tool("clang", "clang")
    shutil.copytree(EXAMPLE, tmp_path / "source")
    image = made(
        tmp_path,
        f"CC={clang}",
        f"CORE={CLANG}",
        f"BOARDPROF_CFLAGS={CLANG}",
        "BOARDPROF_CONFIG=BP_CFG_ARENA=4096 BP_CFG_MTU=512 BP_CFG_STACK=2048",
        "LINK=riscv64-unknown-elf-gcc",
    )
    exact = executed(image, spec, tmp_path / "counts", "isqrt", 1000000)
    assert counts_of(image, "qemu-rv32", "instructions", "isqrt", 1000000) == [exact] * 3
