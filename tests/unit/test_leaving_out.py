# SPDX-License-Identifier: Apache-2.0
"""Functions that need what is not there do not keep others from being measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.boards.finding import board_spec
from boardprof.errors import BuildError
from boardprof.firmware.builder import build
from tests.cli.command import boardprof
from tests.support import requires_compiler
from tests.unit.building import folder_of, shown

PART = """\
int nowhere(int n);
extern int state;
int whole(int n) { return n + 1; }
int direct(int n) { return nowhere(n); }
static __attribute__((noinline)) int helper(int n) { return state + n; }
int indirect(int n) { return helper(n) + 1; }
__attribute__((noinline)) int middle(int n) { return direct(n) + 2; }
int far(int n) { return middle(n) + 3; }
int prepared(int n) { return n; }
void prepared_setup(void) { state = 1; }
int (*const table[])(int) = {direct};
int by_table(int i) { return table[i](1); }
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["native", "qemu-rv32", "qemu-cortex-m3"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_what_needs_a_missing_symbol_even_through_others_has_the_reason(
    tmp_path: Path, name: str, level: str
) -> None:
    folder = folder_of(tmp_path / "src", {"part.c": PART})
    requires_compiler(board_spec(name).build.cc)
    firmware = build(board_spec(name), [folder], optimize=level)
    assert shown(firmware) == {
        "by_table": "it needs nowhere, which is not defined",
        "direct": "it needs nowhere, which is not defined",
        "far": "it needs nowhere, which is not defined",
        "indirect": "it needs state, which is not defined",
        "middle": "it needs nowhere, which is not defined",
        "prepared": "it needs state, which is not defined",
        "whole": "(n: i32) -> i32",
    }
    assert firmware.missing["far"] == "nowhere"
    again = build(board_spec(name), [folder], optimize=level)
    assert again.commands == ()
    assert again.functions == firmware.functions


def test_what_is_left_runs_and_asking_for_the_rest_is_a_build_error(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "src", {"part.c": PART})
    with build(board_spec("native"), [folder]).open() as board:
        assert board.functions.whole(4) == 5
    done = boardprof("run", f"{folder}:far", "n=1")
    assert done.code == 7
    assert "far needs nowhere, which is not defined." in done.err
    assert "give the file that defines it with --source" in done.err
    every = boardprof("run", f"{folder}:all", "n=1", "--repeat", "2")
    assert every.code == 0
    assert "note: far is left out: it needs nowhere, which is not defined" in every.err


def test_where_nothing_would_be_left_the_linker_s_words_are_shown(tmp_path: Path) -> None:
    text = "int nowhere(int n);\nint f(int n) { return nowhere(n); }\nint g(int n) { return f(n); }"
    folder = folder_of(tmp_path / "src", {"f.c": text})
    with pytest.raises(BuildError, match="undefined reference to `nowhere'"):
        build(board_spec("native"), [folder])
