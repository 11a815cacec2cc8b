# SPDX-License-Identifier: Apache-2.0
"""bp_trace.h in the languages and with the warnings of firmware; without probes it is nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.support import AGENT, defines, requires_tool, run

ON = {
    "BP_CFG_TRACE": 256,
    "BP_CFG_STREAM": 1024,
    "BP_CFG_BULK": 64,
    "BP_CFG_ARENA": 1024,
    "BP_CFG_INTERRUPTS": 2,
}
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-pedantic", "-Werror"]
EVERY_PROBE = """
#include "boardprof/bp_trace.h"
#ifdef __cplusplus
extern "C" {
#endif
void use(int n, unsigned u, float x, unsigned char b, short s, signed char c, void *p, size_t w);
void use(int n, unsigned u, float x, unsigned char b, short s, signed char c, void *p, size_t w) {
    BP_MARK(tick);
    BP_VALUE(n, n);
    BP_VALUE(u, u);
    BP_VALUE(x, x);
    BP_VALUE(b, b);
    BP_VALUE(s, s);
    BP_VALUE(c, c);
    BP_VALUE(flag, n > 3);
    BP_RANGE_BEGIN(work);
    BP_RANGE_END(work);
    {
        BP_RANGE(block);
        BP_MARK(tick);
    }
    BP_ISR_ENTER(irq);
    BP_ISR_EXIT(irq);
    BP_ISR_ENTER_NUMBER(n);
    BP_ISR_EXIT_NUMBER();
    BP_TASK_SWITCH(p);
    BP_ALLOC(p, w);
    BP_FREE(p);
}
#ifdef __cplusplus
}
#endif
"""
NO_PROBE = """
#include <stddef.h>
void use(int n, unsigned u, float x, unsigned char b, short s, signed char c, void *p, size_t w);
void use(int n, unsigned u, float x, unsigned char b, short s, signed char c, void *p, size_t w) {
    (void)n, (void)u, (void)x, (void)b, (void)s, (void)c, (void)p, (void)w;
}
"""

COMPILERS = [("gcc", "c11"), ("clang", "c11")]
COMPILERS += [(name, f"c++{year}") for name in ("g++", "clang++") for year in (11, 17)]


def compiled(compiler: str, standard: str, source: Path, text: str, *options: str) -> Path:
    source.write_text(text)
    made = source.with_suffix(".o")
    cc = requires_tool(compiler, {"clang++": "clang"}.get(compiler, compiler))
    flags = [f"-std={standard}", "-O2", *WARNINGS, f"-I{AGENT / 'include'}", *options]
    run([cc, *flags, "-c", source, "-o", made])
    return made


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
@pytest.mark.parametrize(("compiler", "standard"), COMPILERS)
def test_each_compiler_takes_every_probe_without_a_warning(
    compiler: str, standard: str, on: bool, tmp_path: Path
) -> None:
    source = tmp_path / ("use.cpp" if "++" in compiler else "use.c")
    options = defines(ON) if on else []
    assert compiled(compiler, standard, source, EVERY_PROBE, *options).stat().st_size > 0


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_switched_off_probes_leave_the_object_code_as_it_is_without_them(
    compiler: str, tmp_path: Path
) -> None:
    """Byte by byte, with symbols and sections."""
    objects = []
    for name, text in (("with", EVERY_PROBE), ("without", NO_PROBE)):
        (tmp_path / name).mkdir()
        source = tmp_path / name / "use.c"
        made = compiled(compiler, "c11", source, f'#line 1 "use.c"\n{text}')
        objects.append(made.read_bytes())
    assert objects[0] == objects[1]


@pytest.mark.parametrize("given", [(), ("STREAM",), ("BULK", "ARENA"), ("STREAM", "ARENA")])
def test_all_that_probes_need_is_named_at_once(given: tuple[str, ...], tmp_path: Path) -> None:
    options = [f"-DBP_CFG_{name}={ON[f'BP_CFG_{name}']}" for name in ("TRACE", *given)]
    source = tmp_path / "use.c"
    source.write_text('#include "boardprof/bp_config.h"\n')
    command = ["gcc", "-fsyntax-only", f"-I{AGENT / 'include'}", *options, str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    needed = "three more, such as BP_CFG_STREAM=4096 BP_CFG_BULK=64 BP_CFG_ARENA=1024"
    assert f"BP_CFG_TRACE needs {needed}" in done.stderr
    enough = [f"-D{setting}" for setting in needed.split()[4:]]
    others = [*command[:-1], *(each for each in enough if each.split("=")[0] not in str(options))]
    assert subprocess.run([*others, str(source)], capture_output=True).returncode == 0


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize(("compiler", "standard"), COMPILERS)
def test_each_name_has_a_hash_of_its_kind_and_letters_in_the_image(
    compiler: str, standard: str, level: str, tmp_path: Path
) -> None:
    """One section for each name. FNV's prime, letters from 1 on: as the comment above it says."""
    source = tmp_path / ("use.cpp" if "++" in compiler else "use.c")
    text = '#include "boardprof/bp_trace.h"\nvoid use(void);\nvoid use(void) {\n'
    text += "    BP_MARK(a);\n    BP_MARK(Z9_);\n    BP_MARK(a);\n    BP_RANGE_BEGIN(a);\n}\n"
    made = compiled(compiler, standard, source, text, level, *defines(ON))
    with made.open("rb") as file:
        found = [s.data() for s in ELFFile(file).iter_sections() if s.name == "bp_trace_check"]
    hashes = sorted(int.from_bytes(each, "little") for each in found)
    assert hashes == sorted([3 * 16777619 + 1, 1 * 16777619 + 1, 0xB335590E])
