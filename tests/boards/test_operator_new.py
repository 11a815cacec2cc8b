# SPDX-License-Identifier: Apache-2.0
"""operator new and delete where the toolchain's C++ library is not linked."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import DeviceFaultError
from tests.boards.conftest import available
from tests.firmware import build

FROM_MALLOC = """\
struct Shape { virtual int area() = 0; virtual ~Shape() {} };
struct Square : Shape {
    int side;
    explicit Square(int s) : side(s) {}
    int area() override { return side * side; }
};
__attribute__((noinline)) static Shape *made(int k) { return new Square(k); }
extern "C" int area(int k) { Shape *s = made(k); int a = s->area(); delete s; return a; }
extern "C" int sum(unsigned n) {
    volatile char *v = new volatile char[n];
    v[n - 1] = 5;
    int last = v[n - 1];
    delete[] v;
    return last;
}
"""
OWN = """\
typedef __SIZE_TYPE__ size;
static int blocks[8];
void *operator new(size) { return blocks; }
void operator delete(void *) noexcept {}
void operator delete(void *, size) noexcept {}
extern "C" int mine(int k) { volatile int *p = new int(k); return blocks[0] + (p == blocks); }
"""


@pytest.mark.parametrize("name", ["qemu-cortex-m4", "qemu-rv32", "arduino-mega"])
def test_new_takes_memory_from_malloc(tmp_path: Path, name: str) -> None:
    (tmp_path / "new.cpp").write_text(FROM_MALLOC)
    with build(available(name), [tmp_path / "new.cpp"]).open() as board:
        for _ in range(100):  # more than the heap has without delete
            assert board.functions.area(7) == 49
        assert board.functions.sum(20) == 5


def test_new_ends_the_call_if_the_heap_is_full(tmp_path: Path) -> None:
    (tmp_path / "new.cpp").write_text(FROM_MALLOC)
    firmware = build(available("qemu-rv32"), [tmp_path / "new.cpp"])
    with firmware.open() as board, pytest.raises(DeviceFaultError, match="abort or exit"):
        board.functions.sum(100_000_000)


def test_the_users_own_operators_come_first(tmp_path: Path) -> None:
    (tmp_path / "own.cpp").write_text(OWN)
    with build(available("qemu-cortex-m4"), [tmp_path / "own.cpp"]).open() as board:
        assert board.functions.mine(7) == 8
