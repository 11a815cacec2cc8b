# SPDX-License-Identifier: Apache-2.0
"""The user's code on every board: the C library, kept functions, C++, and what it costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

import boardprof
from boardprof.base.errors import BuildError, DeviceFaultError, UsageError
from boardprof.target.descriptions.board import BoardSpec
from tests.unit.building import folder_of, requires_library

LIBRARY = """\
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int length(int n) {
    char text[40];
    sprintf(text, "%d and %s", n, "more");
    return (int)strlen(text);
}
int compare(int n) { char a[8] = "abc"; a[1] = (char)n; return strcmp(a, "abc") == 0; }
double root(double x) { return sqrt(x) + floor(x / 2); }
int overflow(void) { errno = 0; strtol("99999999999999999999", NULL, 10); return errno == ERANGE; }
int clamped(int *y, int n) {
    errno = 0;
    for (int i = 0; i < n; i++) {
        y[i] += strtol("99999999999999999999", NULL, 10) > 0;
    }
    return errno == ERANGE;
}
int heap(unsigned n) {
    unsigned char *block = malloc(n);
    if (block == NULL) { return -1; }
    memset(block, 7, n);
    int last = block[n - 1];
    free(block);
    return last;
}
int say(int n) { return printf("it is %d\\n", n); }
int claim(int n) { assert(n > 0); return n; }
int main(void) { return say(1); }
"""

MEMORY = """\
#include <string.h>
int sum(void) {
    unsigned char from[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, to[9];
    memset(to, 1, sizeof to);
    volatile unsigned n = 8;
    memcpy(to, from, n);
    memmove(to + 1, to, n);
    int all = 100 * (memcmp(to, from, n) == 0);
    for (int i = 0; i < 9; i++) { all += to[i]; }
    return all;
}
"""

LENGTH = """\
#include <string.h>
int length(int n) { char text[8] = "abcdefg"; text[n] = 0; return (int)strlen(text); }
"""

OWN_MEMCPY = """\
void *memcpy(void *to, const void *from, unsigned long n) {
    char *t = to;
    const char *f = from;
    while (n--) { *t++ = *f++; }
    return to;
}
int copied(void) {
    volatile int n = 3, m = 0;
    memcpy((void *)&m, (void *)&n, sizeof m);
    return m;
}
"""

CPP = """\
struct Shape { virtual int area() const = 0; };
struct Square final : Shape {
    int side;
    constexpr explicit Square(int n) : side(n) {}
    int area() const override { return side * side; }
};
static int measure(const Shape &shape) { return shape.area(); }
extern "C" __attribute__((noinline)) int square(int n) { return measure(Square(n)); }
int main() {}
"""


def test_the_c_library_works_where_the_code_needs_it(wide_spec: BoardSpec, tmp_path: Path) -> None:
    requires_library(wide_spec)
    folder_of(tmp_path, {"library.c": LIBRARY})
    firmware = boardprof.build(tmp_path, board=wide_spec)
    assert firmware.libc == wide_spec.build.libc
    lines: list[str] = []
    with firmware.open(on_console=lines.append) as board:
        assert board.functions.length(-12) == 12
        assert board.functions.compare(98) == 1
        assert board.functions.root(9.0) == 7.0
        assert board.functions.overflow() == 1
        y = np.array([7, -8, 9, 10], np.int32)
        assert board.functions.clamped(y, 4) == 1
        assert y.tolist() == [8, -7, 10, 11]
        assert board.functions.heap(1000) == 7
        assert board.functions.say(42) == 9
        assert board.functions.claim(3) == 3
        with pytest.raises(DeviceFaultError):
            board.functions.claim(0)
        assert board.functions.claim(4) == 4
    if wide_spec.build.freestanding:  # others print to this process's own output
        assert "it is 42" in lines
        assert any("n > 0" in line for line in lines)


def binding_of_memcpy(image: Path) -> str | None:
    """Return how memcpy is bound: the agent's weakly, a C library's not; None where it is not."""
    with image.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        found = table.get_symbol_by_name("memcpy") or ()
        bindings = [str(symbol["st_info"]["bind"]) for symbol in found]
        return bindings[0] if bindings else None


def test_memory_functions_are_the_c_library_s_whatever_else_the_code_calls(
    spec: BoardSpec, tmp_path: Path
) -> None:
    """The agent's go byte by byte: a count must not change when a neighbour needs the library."""
    requires_library(spec)
    folder_of(tmp_path, {"memory.c": MEMORY})
    alone = boardprof.build(tmp_path, board=spec)
    folder_of(tmp_path, {"length.c": LENGTH, "bp_mem.c": "int own(void) { return 5; }\n"})
    beside = boardprof.build(tmp_path, board=spec)
    counted = []
    for firmware in (alone, beside):
        assert firmware.libc == spec.build.libc
        if spec.build.freestanding:
            assert binding_of_memcpy(firmware.image) == "STB_GLOBAL"
        with firmware.open() as board:
            assert board.functions.sum() == 37
            report = board.profile("sum", repeat=2)
            counted.append([row.get("Instructions") for row in report.calls])
            assert report.configuration.get(f"{spec.name} libc") == spec.build.libc
    if spec.clock.is_emulated:
        assert counted[0] == counted[1]


def test_without_a_c_library_the_memory_functions_are_the_agents(
    spec: BoardSpec, tmp_path: Path
) -> None:
    requires_library(spec)  # its header
    folder_of(tmp_path, {"memory.c": MEMORY})
    if not spec.build.freestanding:
        with pytest.raises(UsageError, match=f"{spec.name} always links the C library"):
            boardprof.build(tmp_path, board=spec, libc="none")
        return
    firmware = boardprof.build(tmp_path, board=spec, libc="none")
    assert firmware.libc == "none"
    assert binding_of_memcpy(firmware.image) == "STB_WEAK"
    with firmware.open() as board:
        assert board.functions.sum() == 37
        line = board.profile("sum", repeat=2).configuration[f"{spec.name} libc"]
    agents = (
        "none; memcpy and similar functions come from the agent and copy byte by byte, unless "
        "the code has its own"
    )
    assert line == agents
    folder_of(tmp_path, {"length.c": LENGTH})
    with pytest.raises(
        BuildError, match='leave out libc="none" to link functions of the C library'
    ):
        boardprof.build(tmp_path / "length.c", board=spec, libc="none")


def test_functions_of_cpp_run(spec: BoardSpec, tmp_path: Path) -> None:
    folder_of(tmp_path, {"shape.cpp": CPP})
    with boardprof.build(tmp_path, board=spec).open() as board:
        assert board.functions.square(7) == 49


def test_a_kept_function_runs_and_is_measured(wide_spec: BoardSpec, tmp_path: Path) -> None:
    text = "static inline int inner(int n) { return n * 3 + 1; } int outer(int n) "
    folder_of(tmp_path, {"kept.c": text + "{ return inner(n) + inner(n + 1); }"})
    with boardprof.build(tmp_path, board=wide_spec, optimize="-O3", keep=["inner"]).open() as board:
        assert board.functions.inner(5) == 16
        assert board.functions.outer(5) == 35
        assert len(board.profile("inner", 5, repeat=2).calls) == 2


def test_a_memcpy_of_the_user_s_own_takes_the_agent_s_place(
    spec: BoardSpec, tmp_path: Path
) -> None:
    folder_of(tmp_path, {"copy.c": OWN_MEMCPY})
    flags = "-O1 -fno-builtin -Wno-builtin-declaration-mismatch"
    with boardprof.build(tmp_path, board=spec, optimize=flags).open() as board:
        assert board.functions.copied() == 3


VECTORS = """\
typedef struct { float x[4]; } __attribute__((aligned(16))) vector;
void add(unsigned *n, vector *p, const vector *q) {
    *n += ((unsigned long)p | (unsigned long)q) % 16;
    for (int i = 0; i < 4; i++) { p->x[i] += q->x[i]; }
}
"""


def test_every_array_is_aligned_to_16_bytes(wide_spec: BoardSpec, tmp_path: Path) -> None:
    """GCC takes x86's movaps for these, which traps at any other address."""
    folder_of(tmp_path, {"vectors.c": VECTORS})
    kind = np.dtype([("x", np.float32, 4)])
    n, p, q = np.zeros(1, np.uint32), np.zeros(1, kind), np.zeros(1, kind)
    p["x"], q["x"] = [1, 2, 3, 4], [10, 20, 30, 40]
    with boardprof.build(tmp_path, board=wide_spec, optimize="-O3").open() as board:
        board.functions.add(n, p, q)
        assert (n.tolist(), p["x"].tolist()) == ([0], [[11, 22, 33, 44]])
        board.profile("add", n, p, q, repeat=2)
        assert (n.tolist(), p["x"].tolist()) == ([0], [[21, 42, 63, 84]])
