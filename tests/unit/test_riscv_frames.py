# SPDX-License-Identifier: Apache-2.0
"""Frames of RISC-V functions, which are made in steps: held against what the compiler tells."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.target.elf.machine_code import below_s0
from boardprof.target.elf.stack_need import image_stack
from tests.support import requires_tool

# Around each size at which the compiler takes another form: 2032 fits one ADDI, 4096 needs LUI.
SIZES = [8, 500, 1990, 2000, 2016, 2040, 2048, 2500, 4000, 4060, 4096, 4100, 6144, 9000, 100000]
SOURCE = """\
void use(volatile char *);
#define ONE(n) \\
    void one##n(int k) { volatile char a[n]; a[0] = (char)k; use(a); } \\
    int many##n(int a, int b, int c, int d, int e, int f, int g, int h) \\
    { volatile char x[n]; x[0] = 1; use(x); use(x); \\
      return a + b * c + d * e - f * g + h + x[0] + many##n(h, g, f, e, d, c, b, a) * b + c; }
"""
ARCHITECTURES = {
    "rv32imac": ["-march=rv32imac", "-mabi=ilp32"],
    "rv32i": ["-march=rv32i", "-mabi=ilp32"],
    "rv64gc": ["-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"],
}


@pytest.mark.parametrize("options", ["-O0", "-O2", "-O2 -fno-omit-frame-pointer"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_frame_that_is_made_in_steps_is_seen_whole(
    tmp_path: Path, architecture: str, options: str
) -> None:
    compiler = requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    (tmp_path / "f.c").write_text(SOURCE + "\n".join(f"ONE({size})" for size in SIZES))
    flags = [*ARCHITECTURES[architecture], *options.split(), "-g", "-fstack-usage", "-nostdlib"]
    flags += ["-Wl,--unresolved-symbols=ignore-all,-e,0"]
    command = [compiler, *flags, "-o", "f.elf", "f.c"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    (report,) = tmp_path.glob("*.su")
    lines = [line.split("\t") for line in report.read_text().splitlines()]
    told = {place.rpartition(":")[2]: int(size) for place, size, _ in lines}
    assert len(told) == 2 * len(SIZES)
    assert told["one100000"] >= 100000
    needs = image_stack(tmp_path / "f.elf", told).needs
    assert {name: need.own for name, need in needs.items()} == told


def code(*halves: str) -> bytes:
    """Return instructions, each as the hex that objdump shows: four digits or eight."""
    return b"".join(bytes.fromhex(each)[::-1] for each in halves)


@pytest.mark.parametrize(
    ("instructions", "taken"),
    [
        # addi sp,sp,-32; addi s0,sp,32; addi sp,sp,-2016
        (["1101", "1000", "82010113"], 2016),
        # the same without the frame pointer: the rules tell it
        (["1101", "82010113"], 0),
        # lui t0,0xfffff; add sp,sp,t0
        (["1000", "72fd", "9116"], 4096),
        # lui t0,0xfffe8; addi t0,t0,-16; add sp,sp,t0 (all of four bytes)
        (["02010413", "fffe82b7", "ff028293", "00510133"], 98320),
        # lui a0,0x2; addi a0,a0,-2000; sub sp,sp,a0, as clang has it
        (["1000", "6509", "83050513", "40a10133"], 6192),
        # sub sp,sp,a0 of what nobody knows: a variable array
        (["1000", "40a10133"], 0),
        # lui a0,0x2; lw a0,0(a0); sub sp,sp,a0: a variable array of a variable's length
        (["1000", "6509", "4108", "40a10133"], 0),
        # lui a0,0x2; lw a0,16(a0), of four bytes
        (["1000", "6509", "01052503", "40a10133"], 0),
        # addi sp,sp,-16; addi sp,sp,16: arguments of a call; the first is the deepest
        (["1000", "1141", "0141"], 16),
        # addi sp,sp,-64 (C.ADDI16SP)
        (["1000", "7139"], 64),
        ([], 0),
    ],
)
def test_what_is_taken_behind_the_frame_pointer(instructions: list[str], taken: int) -> None:
    assert below_s0(code(*instructions)) == taken
