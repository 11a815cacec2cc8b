# SPDX-License-Identifier: Apache-2.0
"""Structs by value whose place depends on what debug information does not tell: refused on Arm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import boardprof
from boardprof.base.errors import UsageError
from tests.cli.command import boardprof as command

ARM = """\
#include <stdint.h>
typedef struct __attribute__((packed)) { int64_t v; } packed;
typedef struct { int32_t a __attribute__((aligned(8))); int32_t b; } raised;
typedef struct { int32_t x; int32_t y : 8; int64_t : 20; } unnamed;
typedef struct { int32_t a; int64_t b; } padded;
int64_t behind(int32_t k, packed x, int32_t m) { return x.v * 3 + k * 5 + m; }
int64_t higher(int32_t k, raised x, int32_t m) { return x.a * 3 + x.b * 7 + k * 5 + m; }
int64_t hidden(int32_t k, unnamed x, int32_t m) { return x.x * 7 + x.y * 11 + k * 5 + m; }
int64_t first(packed x, int32_t m) { return x.v * 3 + m; }
int64_t plain(int32_t k, padded x, int32_t m) { return x.a * 7 + x.b * 11 + k * 5 + m; }
"""
BASES = """\
#include <stdint.h>
struct A { int32_t a; };
struct B { int32_t a; };
struct Both : A, B { int32_t z; };
int32_t sum(Both b) { return b.A::a * 100 + b.B::a * 10 + b.z; }
"""
PAIRS = """\
#include <stdint.h>
#include <stddef.h>
struct pair { const int32_t *to; };
int32_t both(const struct pair *p, int32_t n) {
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) sum += *p[i].to * (i + 1);
    return sum;
}
const char *nothing(void) { return NULL; }
"""


def test_a_struct_on_arm_is_called_only_where_its_place_is_known(tmp_path: Path) -> None:
    file = tmp_path / "arm.c"
    file.write_text(ARM)
    told = command("functions", "-b", "qemu-cortex-m3", file).out
    refused = {line.split()[0]: line for line in told.partition("Not callable\n")[2].splitlines()}
    assert "whose alignment the debug information does not tell" in refused["behind"]
    assert "whose alignment the debug information does not tell" in refused["hidden"]
    assert "whose layout was changed by an attribute" in refused["higher"]
    with boardprof.build(file, board="qemu-cortex-m3").open() as board:
        assert board.functions.first({"v": 123456789012345}, 77) == 370370367037112
        assert board.functions.plain(-2, {"a": 3, "b": 10**12}, 77) == 11 * 10**12 + 88


def test_bases_with_members_of_the_same_name_are_not_taken_for_one(tmp_path: Path) -> None:
    file = tmp_path / "bases.cpp"
    file.write_text(BASES)
    assert "whose members are not known" in command("functions", file).out


def test_each_struct_of_a_list_has_a_pointer_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "pairs.c"
    file.write_text(PAIRS)
    five, seven = np.array([5], np.int32), np.array([7], np.int32)
    with boardprof.build(file, board="native").open() as board:
        assert board.functions.both([{"to": five}, {"to": seven}], 2) == 5 + 2 * 7
        assert board.functions.both([{"to": five}, {"to": five}], 2) == 5 + 2 * 5
        with pytest.raises(UsageError, match="None is not a pointer of the board"):
            board.memory.text_at(board.functions.nothing())  # type: ignore[arg-type]
