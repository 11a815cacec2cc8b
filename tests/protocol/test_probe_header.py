# SPDX-License-Identifier: Apache-2.0
"""bp_trace.h as a user's compiler sees it: no warnings, and nothing at all without BP_CFG_TRACE."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import AGENT, requires_tool, run

PROBED = """\
#include "boardprof/bp_trace.h"

#ifdef __cplusplus
extern "C"
#endif
uint32_t work(uint32_t n, int32_t m, float x);

uint32_t work(uint32_t n, int32_t m, float x) {
    BP_RANGE(scoped);
    BP_RANGE_BEGIN(work);
    BP_MARK(step);
    BP_VALUE(unsigned_value, n);
    BP_VALUE(signed_value, m);
    BP_VALUE(float_value, x);
    BP_VALUE(small_value, (uint8_t)n);
    BP_ISR_ENTER(systick);
    BP_ISR_EXIT(systick);
    BP_ISR_ENTER_NUMBER(n);
    BP_ISR_EXIT_NUMBER();
    BP_ALLOC(&n, sizeof n);
    BP_FREE(&n);
    BP_RANGE_END(work);
    return n + 1;
}
"""

PLAIN = """\
#include <stdint.h>

uint32_t work(uint32_t n, int32_t m, float x);

uint32_t work(uint32_t n, int32_t m, float x) {
    (void)m, (void)x;
    return n + 1;
}
"""

STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-O2")
TRACED = (
    *("-DBP_CFG_TRACE=1024", "-DBP_CFG_BULK=256"),
    *("-DBP_CFG_STREAM=1024", "-DBP_CFG_ARENA=4096"),
)


def compiled(folder: Path, compiler: str, text: str, *options: str) -> Path:
    cc = requires_tool(compiler, compiler)
    source = folder / ("source.cpp" if "++" in compiler else "source.c")
    source.write_text(text, encoding="ascii")
    run([cc, *options, f"-I{AGENT / 'include'}", "-c", source, "-o", source.with_suffix(".o")])
    return source.with_suffix(".o")


@pytest.mark.parametrize("config", [TRACED, ("-DBP_CFG_TRACE=0",)], ids=["on", "off"])
@pytest.mark.parametrize(
    ("compiler", "standard"),
    [
        ("gcc", "-std=c11"),
        ("gcc", "-std=gnu17"),
        ("clang", "-std=c11"),
        ("g++", "-std=c++11"),
        ("g++", "-std=c++20"),
        ("clang++", "-std=c++11"),
    ],
)
def test_probes_compile_without_a_warning(
    tmp_path: Path, compiler: str, standard: str, config: tuple[str, ...]
) -> None:
    assert compiled(tmp_path, compiler, PROBED, *STRICT, standard, *config).is_file()


@pytest.mark.parametrize("compiler", ["gcc", "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc"])
def test_probes_that_are_off_leave_the_code_as_it_is_without_them(
    tmp_path: Path, compiler: str
) -> None:
    code = []
    for text in (PROBED, PLAIN):
        made = compiled(tmp_path, compiler, text, "-O2", "-ffreestanding", "-DBP_CFG_TRACE=0")
        objcopy = requires_tool(compiler.replace("gcc", "objcopy"), "binutils")
        raw = tmp_path / "code"
        subprocess.run([objcopy, "-O", "binary", "-j", ".text", made, raw], check=True, timeout=60)
        code.append(raw.read_bytes())
    assert code[0] == code[1]
    assert len(code[0]) >= 4


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m23", "cortex-m4"])
def test_probes_assemble_on_every_arm_core(tmp_path: Path, core: str) -> None:
    options = ("-Os", "-ffreestanding", f"-mcpu={core}", "-mthumb", *TRACED)
    assert compiled(tmp_path, "arm-none-eabi-gcc", PROBED, *options).is_file()
