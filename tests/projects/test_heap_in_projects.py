# SPDX-License-Identifier: Apache-2.0
"""BP_CFG_TRACE_HEAP in projects of one's own: the linker replaces malloc and free."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from boardprof.target.build.sources import HEAP_FUNCTIONS
from tests.projects.firmware import command, shell
from tests.support import AGENT, requires_tool

# In place of the agent's own, which also record. The program ends with 0 if all calls came there.
MAIN = """\
#include <stdlib.h>
#include <string.h>
#include "boardprof/bp_trace.h"
static int taken, given, replaced;
static size_t bytes;
void bp_heap_taken(const void *block, size_t asked, size_t held, const void *caller) {
    bytes += asked;
    taken += block != NULL && held >= asked && caller != NULL;
}
void bp_heap_given(const void *block, size_t held) {
    given += block != NULL && held != 0;
}
void bp_heap_replaced(const void *old, size_t old_held, const void *block, size_t asked,
                      size_t held, const void *caller) {
    bytes += asked;
    replaced += old != block && old_held < held && caller != NULL;
}
int main(void) {
    char *volatile one = malloc(10);
    one = realloc(one, 1000);
    char *volatile text = strdup("four");
    char *volatile clear = calloc(3, 20);
    free(one);
    free(text);
    free(clear);
    return taken == 3 && given == 3 && replaced == 1 && bytes == 10 + 1000 + 5 + 60 ? 0 : 1;
}
"""
OPTIONS = {"TRACE_HEAP": 1, "TRACE": 1024, "TRACE_CLOCK": 1}
OPTIONS |= {"STREAM": 1024, "BULK": 256, "ARENA": 1024}
CMAKE = f"""\
cmake_minimum_required(VERSION 3.20)
project(own C)
{"".join(f"set(BP_CFG_{name} {value}){chr(10)}" for name, value in OPTIONS.items())}
add_subdirectory({AGENT} boardprof)
add_library(functions OBJECT functions.c)
add_executable(own main.c)
boardprof_firmware(own BOARD own ARCH posix COLLECTORS FUNCTIONS_FROM functions)
"""
MAKE = f"""\
BOARDPROF_BOARD := own
BOARDPROF_OBJECTS := functions.o
BOARDPROF_ARCH := posix
BOARDPROF_CONFIG := {" ".join(f"BP_CFG_{name}={value}" for name, value in OPTIONS.items())}
include {AGENT}/boardprof.mk
own: main.o functions.o $(BOARDPROF_LIBRARY)
\t$(CC) $(BOARDPROF_LDFLAGS) $^ -o $@
%.o: %.c
\t$(CC) -gdwarf-4 $(BOARDPROF_CPPFLAGS) -c $< -o $@
"""

# A heap with macros where FreeRTOS 10 has them: traceMALLOC has the wanted size, traceFREE the
# block's own, which is larger if the rest would have been too small for a block.
FREERTOS = """\
#include <stddef.h>
#define configTOTAL_HEAP_SIZE 1000
size_t xPortGetFreeHeapSize(void);
#include "boardprof/bp_freertos.h"
static size_t left = 1000, held;
static int calls;
static const void *from;
void bp_heap_taken(const void *block, size_t bytes, size_t of_block, const void *caller) {
    calls += block != NULL && bytes == 100;
    held += of_block;
    from = caller;
}
void bp_heap_given(const void *block, size_t of_block) {
    calls += block != NULL && of_block == 108;
    held -= of_block;
}
size_t xPortGetFreeHeapSize(void) { return left; }
static char memory[108];
__attribute__((noipa)) static void *pvPortMalloc(size_t wanted) {
    left -= 108;
    traceMALLOC(memory, wanted);
    return memory;
}
__attribute__((noipa)) static void vPortFree(void *block) {
    left += 108;
    traceFREE(block, 108);
}
int main(void) {
    void *block = pvPortMalloc(100);
    int is_right = held == 108 && (const char *)from > (const char *)main;
    vPortFree(block);
    pvPortMalloc(100);
    return is_right && calls == 3 && held == 108 ? 0 : 1;
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    requires_tool("gcc", "gcc")
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "functions.c").write_text(
        '#include "boardprof/bp_function.h"\n'
        "int twice(int x);\nint twice(int x) { return 2 * x; }\nBP_FUNCTION(twice);\n"
    )
    return tmp_path


def test_cmake_makes_probes_of_malloc_and_free(project: Path) -> None:
    requires_tool("cmake", "cmake")
    (project / "CMakeLists.txt").write_text(CMAKE)
    shell(["cmake", "-S", ".", "-B", "b", f"-DBOARDPROF={command(project)}"], project)
    shell(["cmake", "--build", "b"], project)
    shell(["b/own"], project)


def test_make_makes_probes_of_malloc_and_free(project: Path) -> None:
    requires_tool("make", "make")
    (project / "Makefile").write_text(MAKE)
    shell(["make", f"BOARDPROF={command(project)}", "own"], project)
    shell(["./own"], project)


def test_every_way_to_build_replaces_the_same_functions() -> None:
    """The table of options has those for build systems; boardprof builds firmware itself, too."""
    table = tomllib.loads((AGENT / "options" / "options.toml").read_text(encoding="utf-8"))
    assert tuple(table["trace_heap"]["wrap"]) == HEAP_FUNCTIONS


def test_every_function_that_is_replaced_has_a_replacement() -> None:
    text = (AGENT / "libc" / "bp_heap.c").read_text(encoding="utf-8")
    defined = re.findall(r"^\w[\w ]*\*?__wrap_(\w+)\([^;]*\{", text, re.MULTILINE)
    assert sorted(defined) == sorted(HEAP_FUNCTIONS)


def test_the_hooks_of_freertos_count_what_its_heap_has_in_use(tmp_path: Path) -> None:
    cc = requires_tool("gcc", "gcc")
    (tmp_path / "heap.c").write_text(FREERTOS)
    options = [f"-DBP_CFG_{name}={value}" for name, value in OPTIONS.items()]
    command = [cc, "-Wall", "-Werror", "-O2", *options, f"-I{AGENT / 'include'}", "heap.c"]
    shell([*command, "-o", "heap"], tmp_path)
    shell(["./heap"], tmp_path)


def test_heap_3_of_freertos_leaves_the_heap_to_malloc(tmp_path: Path) -> None:
    cc = requires_tool("gcc", "gcc")
    (tmp_path / "heap.c").write_text(FREERTOS)
    options = [f"-DBP_CFG_{name}={value}" for name, value in OPTIONS.items()]
    options += ["-DBP_FREERTOS_HEAP_3", f"-I{AGENT / 'include'}"]
    shell([cc, "-Wall", "-O2", *options, "heap.c", "-o", "heap"], tmp_path)
    with pytest.raises(AssertionError):
        shell(["./heap"], tmp_path)  # no call of bp_heap_taken
