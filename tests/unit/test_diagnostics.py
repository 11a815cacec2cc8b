# SPDX-License-Identifier: Apache-2.0
"""Compilers' messages, errors first: what real compilers say of real files, in another order."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from boardprof.base.errors import BuildError
from boardprof.target.descriptions.board import board_spec
from boardprof.target.toolchain.tools import errors_first
from tests.support import requires_compiler, requires_tool
from tests.unit.building import build, folder_of

FILES = {
    "part.h": "static int part(void) { signed char z = 1000; return z; }\n",
    "code.c": """\
#include "part.h"
int fine(int a) { return a + part() + (1 << 40); }
int wrong(int b) { signed char q = 1000; return undefined_thing + q; }
int worse(int b) { signed char q = 1000; return q +; }
""",
}


def said(folder: Path, cc: str) -> str:
    folder_of(folder, FILES)
    command = [cc, "-fsyntax-only", "code.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    return done.stderr


def kinds(text: str) -> list[str]:
    return re.findall(r": (error|warning): ", text)


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_errors_come_before_warnings_and_nothing_is_lost(tmp_path: Path, cc: str) -> None:
    requires_tool(cc, cc)
    text = said(tmp_path, cc)
    assert kinds(text)[0] == "warning"
    found = kinds(errors_first(text))
    assert found == sorted(found)
    assert Counter(kinds(text)) == Counter(found)
    assert {*text.splitlines()} == {*errors_first(text).splitlines()}


def test_each_message_says_in_which_function_and_of_which_file_it_is(tmp_path: Path) -> None:
    requires_compiler("gcc")
    lines = [
        line
        for line in errors_first(said(tmp_path, "gcc")).splitlines()
        if not line.startswith(" ") and ": note: " not in line
    ]
    shown = [re.sub(r"\d+:\d+: (error|warning): .*", r"\1", line) for line in lines]
    quoted = [line.translate({0x2018: "'", 0x2019: "'"}) for line in shown]
    assert quoted == [
        "code.c: In function 'wrong':",
        "code.c:error",
        "code.c: In function 'worse':",
        "code.c:error",
        "In file included from code.c:1:",
        "part.h: In function 'part':",
        "part.h:warning",
        "code.c: In function 'fine':",
        "code.c:warning",
        "code.c: In function 'wrong':",
        "code.c:warning",
        "code.c: In function 'worse':",
        "code.c:warning",
    ]


@pytest.mark.parametrize("text", ["", "ld: cannot find -lm", "a.c: In function 'f':\nnothing else"])
def test_what_is_no_message_stays_as_it_is(text: str) -> None:
    assert errors_first(text) == text


def test_a_build_that_fails_shows_the_error_first(tmp_path: Path) -> None:
    folder_of(tmp_path, FILES)
    with pytest.raises(BuildError) as caught:
        build(board_spec("native"), [tmp_path / "code.c"])
    assert kinds(str(caught.value)) == [
        "error",
        "error",
        "warning",
        "warning",
        "warning",
        "warning",
    ]
