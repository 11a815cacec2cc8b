# SPDX-License-Identifier: Apache-2.0
"""Functions that need what is not there do not keep others from being measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.base.errors import BuildError
from boardprof.target.descriptions.board import board_spec
from tests.cli.command import boardprof
from tests.support import requires_compiler
from tests.unit.building import build, folder_of, requires_library, shown

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_cache")]

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

SYSTEM = """\
#include <stdio.h>
#include <time.h>
int add(int a, int b) { return a + b; }
int says(int n) { return printf("%d", n); }
long ticks(void) { return (long)clock(); }
static __attribute__((noinline)) int inner(int n) { return n + (int)clock(); }
int through(int n) { return inner(n); }
int opens(void) { return fopen("x", "r") != NULL; }
"""


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
    assert "far needs nowhere (part.c:4), which is not defined" in done.err
    assert "give the file that defines it with --source" in done.err
    every = boardprof("run", f"{folder}:all", "n=1", "--repeat", "2")
    assert every.code == 0
    assert "note: far is skipped: it needs nowhere, which is not defined" in every.err


def test_where_nothing_would_be_left_all_missing_symbols_are_named(tmp_path: Path) -> None:
    text = "int nowhere(int n);\nint f(int n) { return nowhere(n); }\nint g(int n) { return f(n); }"
    folder = folder_of(tmp_path / "one", {"f.c": text})
    with pytest.raises(BuildError) as caught:
        build(board_spec("native"), [folder])
    assert (
        str(caught.value).splitlines()[0] == "f and g need nowhere (f.c:2), which is not defined."
    )
    assert caught.value.hint == (
        "give the file that defines it with --source, or its library with ldflags="
    )
    text = "int here(int);\nint there(int);\nint f(int n) {\n return here(n) +\n  there(n); }"
    folder = folder_of(tmp_path / "two", {"f.c": text})
    with pytest.raises(BuildError) as caught:
        build(board_spec("native"), [folder])
    first, *_ = str(caught.value).splitlines()
    assert first == "f needs here (f.c:4) and there (f.c:5), which are not defined."
    assert caught.value.hint == (
        "give the files that define them with --source, or their libraries with ldflags="
    )


@pytest.mark.parametrize(
    ("name", "times", "opening"),
    [("qemu-rv32", "times", "open"), ("qemu-cortex-m3", "_times", "_open")],
)
def test_what_the_c_library_has_no_system_for_takes_only_its_callers_with_it(
    tmp_path: Path, name: str, times: str, opening: str
) -> None:
    spec = board_spec(name)
    requires_library(spec)
    folder = folder_of(tmp_path / "src", {"system.c": SYSTEM})
    firmware = build(spec, [folder])
    assert shown(firmware) == {
        "add": "(a: i32, b: i32) -> i32",
        "opens": f"it needs {opening} (for fopen), which is not defined",
        "says": "(n: i32) -> i32",
        "through": f"it needs {times} (for clock), which is not defined",
        "ticks": f"it needs {times} (for clock), which is not defined",
    }
    assert build(spec, [folder]).commands == ()


def test_what_the_c_library_asks_of_a_system_may_be_given_in_a_file(tmp_path: Path) -> None:
    spec = board_spec("qemu-rv32")
    requires_library(spec)
    text = "#include <time.h>\nlong ticks(void) { return (long)clock(); }"
    folder = folder_of(tmp_path / "src", {"ticks.c": text})
    with pytest.raises(BuildError, match="times is not defined; clock in clock") as caught:
        build(spec, [folder])
    assert caught.value.hint == (
        "the C library needs this from an operating system, but the board has none. Leave out "
        "what calls it, or define it in a file of your own and give that file with --source"
    )
    stub = "#include <sys/times.h>\n#include <time.h>\n"
    stub += "clock_t times(struct tms *t) { *t = (struct tms){0}; return 0; }"
    given = folder_of(tmp_path / "stub", {"times.c": stub}) / "times.c"
    assert shown(build(spec, [folder, given]))["ticks"] == "() -> i32"


@pytest.mark.parametrize("kind", ["rcs", "rcsT"])
def test_a_function_that_a_library_of_the_flags_leads_to_a_missing_symbol_is_left_out(
    tmp_path: Path, kind: str
) -> None:
    library = {"m.c": "int nowhere(int); int middle(int n) { return nowhere(n); }"}
    folder_of(tmp_path / "lib", library)
    in_lib = {"cwd": tmp_path / "lib", "check": True, "timeout": 60}
    subprocess.run(["gcc", "-fPIC", "-c", "m.c"], **in_lib)  # type: ignore[call-overload]
    subprocess.run(["ar", kind, "libm2.a", "m.o"], **in_lib)  # type: ignore[call-overload]
    text = "int middle(int); int f(int n) { return middle(n); } int g(int n) { return n; }"
    folder = folder_of(tmp_path / "src", {"f.c": text})
    made = build(board_spec("native"), [folder], ldflags=f"-L{tmp_path / 'lib'} -lm2")
    assert shown(made) == {
        "f": "it needs nowhere (for middle), which is not defined",
        "g": "(n: i32) -> i32",
    }
