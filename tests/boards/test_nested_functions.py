# SPDX-License-Identifier: Apache-2.0
"""GCC writes code to the stack if the address of a nested function is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import DeviceFaultError
from tests.boards.conftest import available
from tests.firmware import build

SOURCE = """\
__attribute__((noinline)) static int apply(int (*f)(int), int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += f(i);
    return s;
}
int nested(int k, int n) { int add(int i) { return i + k; } return apply(add, n); }
"""
JUMP = "int jump(void) { volatile int code[4] = {0}; ((void (*)(void))(void *)code)(); return 1; }"


@pytest.mark.parametrize("name", ["native", "qemu-cortex-a53", "qemu-cortex-m33", "qemu-rv32"])
def test_nested_functions_can_be_called(tmp_path: Path, name: str) -> None:
    (tmp_path / "nested.c").write_text(SOURCE)
    with build(available(name), [tmp_path / "nested.c"]).open() as board:
        assert board.functions.nested(2, 3) == 9


def test_other_code_cannot_be_executed_on_the_stack(tmp_path: Path) -> None:
    (tmp_path / "jump.c").write_text(JUMP)
    firmware = build(available("native"), [tmp_path / "jump.c"])
    with firmware.open() as board, pytest.raises(DeviceFaultError, match="bad address"):
        board.functions.jump()
