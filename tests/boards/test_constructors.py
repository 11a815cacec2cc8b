# SPDX-License-Identifier: Apache-2.0
"""Static constructors run before the first call, and one that traps is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceFaultError
from tests.boards.conftest import available
from tests.firmware import build

# avr-gcc has no priorities, and avr-libc no .preinit_array.
ORDER = """\
static int order, first, second, third, before, zero;
#if defined __AVR__
#define AT(priority)
#else
#define AT(priority) (priority)
static void run(void) { before = ++order; }
__attribute__((section(".preinit_array"), used)) static void (*const entry)(void) = run;
#endif
__attribute__((constructor)) static void c(void) { third = ++order; zero = 0; }
__attribute__((constructor AT(300))) static void b(void) { second = ++order; }
__attribute__((constructor AT(200))) static void a(void) { first = ++order; }
int digits(void) { return before * 1000 + first * 100 + second * 10 + third; }
int runs(void) { return order; }
"""
OBJECTS = """\
struct Table { int v[4]; Table() { for (int i = 0; i < 4; i++) v[i] = i + 5; } };
static Table table;
extern "C" int looked_up(int i) { return table.v[i & 3]; }
"""
TRAP = """\
static int *volatile nowhere = (int *)-64;
__attribute__((noinline)) static void store(int *at) { *at = 3; }
__attribute__((constructor)) static void fill(void) {
    store(nowhere);
    nowhere = 0;
}
int looked_up(int i) { return i; }
int second(int i) { return i; }
"""
BOARDS = ["native", "linux", "qemu-rv32", "qemu-cortex-m3", "qemu-cortex-a53"]


@pytest.mark.parametrize("name", [*BOARDS, "arduino-uno"])
def test_constructors_run_once_and_by_their_priorities(tmp_path: Path, name: str) -> None:
    (tmp_path / "order.c").write_text(ORDER)
    (tmp_path / "objects.cpp").write_text(OBJECTS)
    firmware = build(available(name), [tmp_path / "order.c", tmp_path / "objects.cpp"])
    for _ in range(2):
        with firmware.open() as board:
            assert board.functions.looked_up(2) == 7
            assert board.functions.runs() == (3 if name == "arduino-uno" else 4)
            if name != "arduino-uno":
                assert board.functions.digits() == 1234


@pytest.mark.parametrize("name", BOARDS)
def test_a_constructor_that_traps_is_named(tmp_path: Path, name: str) -> None:
    source = tmp_path / "trap.c"
    source.write_text(TRAP)
    with build(available(name), [source]).open() as board:
        for function in (board.functions.looked_up, board.functions.second):
            with pytest.raises(DeviceFaultError) as caught:
                function(1)
            what = r"A static constructor, trap.c:[34] \(in fill\), trapped: bad address .*"
            assert re.search(what + r"trap.c:2 \(in store\)", str(caught.value))
            assert f"so {function.info.name} was not called" in str(caught.value)
