# SPDX-License-Identifier: Apache-2.0
"""Tests that measure one function with other data of the same shape: each has its own baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pytest_plugin.suite import Suite
from tests.support import requires_tool

COUNTED = """\
int above(const int *values, int n);
int above(const int *values, int n) {
    int found = 0;
    for (int i = 0; i < n; i++) {
        if (values[i] > 0) {
            __asm__ volatile("nop\\n\\tnop");
            found++;
        }
    }
    return found;
}
"""
TWO_TESTS = """\
import numpy as np
import pytest

pytestmark = [
    pytest.mark.board("qemu-rv32"),
    pytest.mark.boardprof(fail_if=["instructions:max>0"], metrics="instructions", repeat=2),
]

def test_none(boardprof):
    boardprof("above.c:above", np.zeros(8, np.int32), 8)

def test_all_after_none(boardprof):
    boardprof("above.c:above", np.zeros(8, np.int32), 8)
    boardprof("above.c:above", np.ones(8, np.int32), 8)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    suite = Suite(tmp_path)
    suite.write("above.c", COUNTED)
    suite.write("test_above.py", TWO_TESTS)
    return suite


@pytest.mark.board("qemu-rv32")
def test_each_call_of_each_test_is_held_against_its_own_earlier_one(suite: Suite) -> None:
    assert suite.run("--bp-json", "old.json").code == 0
    old = json.loads((suite.folder / "old.json").read_text())
    assert {row["Label"]["string"] for row in old["calls"]} == {
        "test_above.py::test_none",
        "test_above.py::test_all_after_none",
        "test_above.py::test_all_after_none #2",
    }
    same = suite.run("--bp-compare", "old.json")
    assert same.code == 0, same.out
    suite.write("test_above.py", TWO_TESTS.replace("zeros", "ones", 1))
    told = suite.run("--bp-compare", "old.json")
    assert told.code == 0, told.out
    assert "its arrays had other contents before" in told.out
    ran = suite.run("--bp-compare", "old.json", "--bp-allow", "inputs")
    assert ran.code == 1, ran.out
    assert "1 failed, 1 passed" in ran.out
    assert "above  test_above.py::test_none  " in ran.out
    assert "REGRESSION (instructions:max>0)" in ran.out
