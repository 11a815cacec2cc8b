# SPDX-License-Identifier: Apache-2.0
"""Candidates of one function, some of them broken, for the tests of tuning."""

from __future__ import annotations

import numpy as np

GOOD = """\
#include <stdint.h>
static int32_t scaled(int32_t value) {{ return value * 3; }}
void scale(const int32_t x[16], int32_t y[16], int n) {{
    for (int i = 0; i < n; i++) y[i] = scaled(x[i]) + (x == y ? {number} : 0);
}}
"""
"""Right, and different code for each ``number``. The helper has the same name in all."""

DOES_NOT_COMPILE = """\
#include <stdint.h>
void scale(const int32_t x[16], int32_t y[16], int n) {{
    int{number} wrong;
}}
"""

DOES_NOT_LINK = """\
#include <stdint.h>
extern int32_t missing_{number}(int32_t value);
void scale(const int32_t x[16], int32_t y[16], int n) {{
    for (int i = 0; i < n; i++) y[i] = missing_{number}(x[i]);
}}
"""

TRAPS = """\
#include <stdint.h>
void scale(const int32_t x[16], int32_t y[16], int n) {{
    for (int i = 0; i < n; i++) y[i] = x[i] * 3;
    __builtin_trap(); /* on line 4 */
    y[0] = {number};
}}
"""

HANGS = """\
#include <stdint.h>
void scale(const int32_t x[16], int32_t y[16], int n) {{
    for (volatile int i = {number}; i > -1; ) y[0] = x[0] + n;
}}
"""

WRONG = """\
#include <stdint.h>
void scale(const int32_t x[16], int32_t y[16], int n) {{
    for (int i = 0; i < n; i++) y[i] = x[i] * 3;
    y[7] = {number};
}}
"""

WRITES_NOTHING = """\
#include <stdint.h>
void scale(const int32_t x[16], int32_t y[16], int n) {{
}}
"""

WRITES_TO_ITS_INPUT = """\
#include <stdint.h>
void scale(const int32_t x[16], int32_t y[16], int n) {{
    for (int i = 0; i < n; i++) y[i] = x[i] * 3;
    ((volatile int32_t *)(uintptr_t)x)[5] = {number};
}}
"""

WRITES_BEYOND = """\
#include <stdint.h>
void scale(const int32_t x[16], int32_t y[16], int n) {{
    for (int i = 0; i < n; i++) y[i] = x[i] * 3;
    y[n] = {number};
}}
"""

X = np.arange(16, dtype=np.int32)
EXPECTED = {"y": np.array([3 * i for i in range(16)], np.int32)}


def arguments() -> dict[str, object]:
    return {"x": X.copy(), "y": np.zeros(16, np.int32), "n": 16}


def mixed(count: int) -> tuple[list[str], list[str]]:
    """Return candidates of which a quarter fails, and the kind of each.

    10 % do not compile, 5 % trap, 5 % hang and 5 % are wrong.
    """
    bad = {0: DOES_NOT_COMPILE, 10: DOES_NOT_COMPILE, 3: TRAPS, 8: HANGS, 13: WRONG}
    texts = [bad.get(i % 20, GOOD).format(number=i) for i in range(count)]
    kinds = {DOES_NOT_COMPILE: "compile", TRAPS: "trap", HANGS: "hang", WRONG: "wrong"}
    return texts, [kinds.get(bad.get(i % 20, ""), "ok") for i in range(count)]
