# SPDX-License-Identifier: Apache-2.0
"""Collectors of Linux in projects of one's own: what they have in arch/posix comes along."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects.firmware import command, shell
from tests.support import AGENT, requires_tool

MAIN = """\
#include "boardprof/bp.h"
extern const bp_collector_t bp_collector_linux_perf, bp_collector_papi;
int main(void) { return bp_collector_linux_perf.counters + bp_collector_papi.counters - 20; }
"""
CMAKE = f"""\
cmake_minimum_required(VERSION 3.20)
project(own C)
set(BP_CFG_OPEN_WINDOWS 2)
set(BP_CFG_STATE_BYTES 1024)
add_subdirectory({AGENT} boardprof)
add_library(functions OBJECT functions.c)
add_executable(own main.c)
boardprof_firmware(own BOARD own ARCH posix COLLECTORS linux_perf papi FUNCTIONS_FROM functions)
"""
MAKE = f"""\
BOARDPROF_BOARD := own
BOARDPROF_OBJECTS := functions.o
BOARDPROF_ARCH := posix
BOARDPROF_COLLECTORS := linux_perf papi
BOARDPROF_CONFIG := BP_CFG_OPEN_WINDOWS=2 BP_CFG_STATE_BYTES=1024
include {AGENT}/boardprof.mk
own: main.o functions.o $(BOARDPROF_LIBRARY)
\t$(CC) $^ -o $@
%.o: %.c
\t$(CC) -gdwarf-4 $(BOARDPROF_CPPFLAGS) -c $< -o $@
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


def test_cmake_links_the_collectors_of_linux(project: Path) -> None:
    requires_tool("cmake", "cmake")
    (project / "CMakeLists.txt").write_text(CMAKE)
    shell(["cmake", "-S", ".", "-B", "b", f"-DBOARDPROF={command(project)}"], project)
    shell(["cmake", "--build", "b"], project)
    shell(["b/own"], project)


def test_make_links_the_collectors_of_linux(project: Path) -> None:
    requires_tool("make", "make")
    (project / "Makefile").write_text(MAKE)
    shell(["make", f"BOARDPROF={command(project)}", "own"], project)
    shell(["./own"], project)
