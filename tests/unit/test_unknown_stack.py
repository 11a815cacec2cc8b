# SPDX-License-Identifier: Apache-2.0
"""Frames of variable size and calls through pointers, held against what the compiler tells."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.target.elf.stack_need import image_stack
from tests.support import requires_tool

SOURCE = """\
void use(volatile void *p);
__attribute__((noinline, noclone)) void use(volatile void *p) { *(volatile char *)p = 1; }
int variable(int n) { volatile char b[n]; b[0] = 1; return b[0]; }
int in_scope(int n) { for (int i = 0; i < n; i++) { volatile char b[i + 1]; use(b); } return n; }
int given(int n) { use(__builtin_alloca(n)); return n; }
int in_loop(int n) { for (int i = 0; i < n; i++) { use(__builtin_alloca(32)); } return n; }
int in_do(int n) { do { use(__builtin_alloca(32)); } while (--n); return n; }
int late(int n, int k) {
    if (n < 0) { volatile int z[20]; use(z); }
    for (int i = 0; i < k; i++) { n += k * i; use(&n); }
    volatile short b[n]; use(b); return b[1];
}
int calls_variable(int n) { return variable(n) + 1; }
int none(int n) { return n + 1; }
int small(int n) { volatile char b[8]; use(b); return b[0]; }
int some(int n) { volatile char b[300]; use(b); return b[0]; }
int many(int n) { volatile char b[2100]; use(b); return b[0]; }
int most(int n) { volatile char b[30001]; use(b); return b[0]; }
int pointer(int (*f)(int), int n) { return f(n) + 1; }
int tail(int (*f)(int), int n) { return f(n); }
int again(int n) { volatile int m = n; return m == 0 ? 0 : again(m - 1) + m; }
int odd(int n);
int even(int n) { volatile int m = n; return m == 0 ? 1 : odd(m - 1) + m; }
int odd(int n) { volatile int m = n; return m == 0 ? 0 : even(m - 1) + m; }
"""
VARIABLE = {"variable", "in_scope", "given", "in_loop", "in_do", "late"}
NAMES = VARIABLE | {"calls_variable", "none", "small", "some", "many", "most"}
NAMES |= {"pointer", "tail", "again", "even", "odd"}
COMPILERS = {
    "x86-64": ("gcc", "gcc", "-shared -fPIC -Wl,-Bsymbolic"),
    "cortex-m0": ("arm-none-eabi-gcc", "gcc-arm-none-eabi", "-mcpu=cortex-m0 -mthumb"),
    "cortex-m3": ("arm-none-eabi-gcc", "gcc-arm-none-eabi", "-mcpu=cortex-m3 -mthumb"),
    "aarch64": ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "-static"),
    "rv32": (
        "riscv64-unknown-elf-gcc",
        "gcc-riscv64-unknown-elf",
        "-march=rv32imac -mabi=ilp32",
    ),
    "rv64": (
        "riscv64-unknown-elf-gcc",
        "gcc-riscv64-unknown-elf",
        "-march=rv64gc -mabi=lp64d -mcmodel=medany",
    ),
    "avr": ("avr-gcc", "gcc-avr", "-mmcu=atmega2560"),
}


@pytest.mark.parametrize("optimize", ["-O0", "-O1", "-O2", "-Os"])
@pytest.mark.parametrize("machine", COMPILERS)
def test_a_frame_is_of_variable_size_where_the_compiler_says_so(
    tmp_path: Path, machine: str, optimize: str
) -> None:
    name, package, flags = COMPILERS[machine]
    (tmp_path / "f.c").write_text(SOURCE)
    options = [*flags.split(), optimize, "-gdwarf-2", "-fstack-usage", "-ffunction-sections"]
    options += ["-fno-inline", "-fno-ipa-icf", "-fno-ipa-cp", "-fno-optimize-sibling-calls"]
    if machine != "x86-64":
        options += ["-nostdlib", "-Wl,--unresolved-symbols=ignore-all,-e,0"]
    command = [requires_tool(name, package), *options, "-o", "f.elf", "f.c"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    (report,) = tmp_path.glob("*.su")
    lines = [line.split("\t") for line in report.read_text().splitlines()]
    told = {place.rpartition(":")[2] for place, _, kind in lines if kind.startswith("dynamic")}
    assert told == VARIABLE
    needs = image_stack(tmp_path / "f.elf", NAMES).needs
    assert needs.keys() == NAMES
    assert {name: need.variable_of for name, need in needs.items() if need.variable_of} == {
        **{name: name for name in VARIABLE},
        "calls_variable": "variable",
    }
    through = {name for name, need in needs.items() if need.calls_unknown}
    assert {"pointer", "tail"} <= through
    # In x86-64 code the bytes of such a call may also be part of a number.
    assert machine == "x86-64" or through == {"pointer", "tail"}
    assert {name for name, need in needs.items() if need.is_recursive} == {"again", "even", "odd"}
