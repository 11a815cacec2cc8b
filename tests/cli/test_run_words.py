# SPDX-License-Identifier: Apache-2.0
"""What ``boardprof run`` says of boards and arguments, and what it keeps out of its output."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import boardprof


def test_a_comma_alone_names_no_board() -> None:
    done = boardprof("run", "-b", ",", "nothing.c:f")
    assert done.code == 2
    assert "-b needs the name of a board" in done.err


def test_what_a_function_prints_in_this_process_is_not_in_the_json(tmp_path: Path) -> None:
    source = tmp_path / "says.c"
    source.write_text('#include <stdio.h>\nint says(void) { return printf("hello\\n"); }\n')
    target = (f"{source}:says", "--repeat", "2", "--warmup", "0", "--json", "-")
    quiet, shown = boardprof("run", *target), boardprof("run", *target, "--console")
    assert json.loads(quiet.out)["calls"]
    assert "hello" not in quiet.err
    assert json.loads(shown.out)["calls"]
    assert "hello\n" in shown.err


def test_a_struct_is_given_by_its_members(tmp_path: Path) -> None:
    source = tmp_path / "move.c"
    source.write_text(
        "typedef struct { short x; double y; } point;\n"
        "double move(point *p, int n) { p[n].x += 2; return p[n].x + p[n].y; }\n"
    )
    target = (f"{source}:move", "--repeat", "1", "--warmup", "0")
    one = boardprof("run", *target, "p={x=3, y=0.5}", "n=0")
    assert "native returned: 5.5\n" in one.out
    three = boardprof("run", *target, "p=[3]:ones", "n=2")
    assert "native returned: 4.0\n" in three.out
    wrong = boardprof("run", *target, "p=5", "n=0")
    assert wrong.code == 2
    assert "Try: p=zeros, p=[3]:zeros for three, p='{x=..., ...}'" in wrong.err


def test_a_mistake_on_one_of_several_boards_names_it(tmp_path: Path) -> None:
    source = tmp_path / "sum.c"
    source.write_text("long sum(const long *p) { return p[0] + p[1]; }\n")
    done = boardprof(
        "run", "-b", "qemu-rv32,native", f"{source}:sum", "p=int64[2]:ones", "--repeat", "1"
    )
    assert "native returned: 2\n" in done.out
    assert "error: On qemu-rv32: sum: p=int64[2]:ones is int64" in done.err


def test_a_static_function_is_kept_if_one_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.c").write_text("static int f(int x) { return x; }\n")
    (tmp_path / "t.c").write_text("static inline int g(int x) { return x; }\nint h(void);\n")
    (tmp_path / "both").mkdir()
    for name in ("a.c", "b.c"):
        (tmp_path / "both" / name).write_text("static int f(int x) { return x; }\n")
    why = "is static or inlined, so nothing outside its file can call it."
    for target, message in (
        ("both:f", f"f in a.c and in b.c {why}\nTry: --no-inline a.c:f compiles it out of line"),
        (
            "s.c:all",
            "There is nothing to measure in s.c: f is static or inlined.\n"
            "Try: --no-inline f compiles it out of line",
        ),
        (
            "s.c:e",
            "There is no function 'e' in s.c. Known: f\nTry: --no-inline f compiles it out of line",
        ),
    ):
        done = boardprof("run", target, "x=1")
        assert (done.code, done.out) == (2, "")
        assert done.err.endswith(f"error: {message}\n"), target
    for target, name in (("s.c:f", "f"), ("t.c:g", "g")):
        done = boardprof("run", target, "x=1", "--expect", "return=1")
        note = f"note: the build adds --no-inline {name}, because it is static"
        assert (done.code, done.err.splitlines()[0]) == (0, note), done.err
    (tmp_path / "boardprof.toml").write_text(
        '[[benchmark]]\nname = "f"\ntarget = "s.c:f"\narguments = {x = 1}\n'
    )
    assert boardprof("check", "-b", "native").code == 0


def test_a_static_function_that_nothing_could_keep_is_told_no_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    always = "static inline __attribute__((always_inline)) int f(int x) { return x; }\n"
    (tmp_path / "s.c").write_text(f"{always}int g(void);\n")
    done = boardprof("run", "s.c:f", "x=1")
    assert done.err.endswith("error: There is no function 'f' in s.c. Known: (none)\n")


def test_an_inlined_function_that_nothing_could_keep_is_told_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    always = "static inline __attribute__((always_inline)) int f(int x) { return x; }"
    (tmp_path / "s.c").write_text(f"{always} int g(int x) {{ return f(x); }}\n")
    (tmp_path / "t.cpp").write_text(
        'static inline int f(int x) { return x; } extern "C" int g(int x) { return f(x); }\n'
    )
    for source in ("s.c", "t.cpp"):
        assert boardprof("run", f"{source}:f", "x=1").err.endswith(
            f"error: f in {source} is static or inlined, so nothing outside its file can call it.\n"
            f"Try: call f in {source} from a function of your own there\n"
        ), source


def test_each_function_of_a_file_that_cannot_be_measured_has_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.c").write_text(
        "int outside(int n);\nint f(int n, ...) { return n; }\nint g(int n) { return n; }\n"
        "int h(int n) { return outside(n); }\n"
    )
    done = boardprof("run", "-q", "v.c:all", "m=3")
    assert done.code == 2
    assert done.err.splitlines() == [
        "error: There is nothing to measure in v.c:",
        "f: it takes a variable number of arguments",
        "h: it needs outside, which is not defined",
        "g: it takes (n: i32) -> i32; it needs n and has no m.",
        "Try: v.c:g n=64",
    ]


def test_only_a_similar_option_is_suggested() -> None:
    strange = boardprof("run", "--xyzzy", "v.c:f").err
    assert strange.startswith(
        "error: No such option '--xyzzy'. Did you mean the argument xyzzy=VALUE?\n"
    )
    misspelt = boardprof("run", "--metrisc", "v.c:f").err
    assert misspelt.startswith("error: No such option '--metrisc'. Did you mean '--metrics'?\n")
    of_hyperfine = boardprof("run", "--runs", "5", "v.c:f").err
    assert of_hyperfine.startswith("error: No such option '--runs'. Did you mean '--repeat'?\n")


def test_main_alone_is_told_as_why_there_is_nothing_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.c").write_text("int main(void) { return 3; }\n")
    hint = "Try: move the code of main into a function with another name\n"
    assert boardprof("run", "m.c:all").err.endswith(
        "error: There is nothing to measure in m.c: the firmware's main replaces main, and no "
        f"other function can be called.\n{hint}"
    )
    assert boardprof("run", "m.c:main").err.endswith(
        "error: main in m.c cannot be measured: the firmware's main replaces it.\n"
        "Try: move its code into a function with another name\n"
    )


def test_a_path_that_no_compiler_can_tell_of_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "int f(int x) { return x; }\n"
    told = ("c\td.c", "e\u00a0f.c", os.fsdecode(b"g\x85h.c"))
    for name in ("a\nb.c", *told):
        (tmp_path / name).write_text(code)
    (tmp_path / "in\nc").mkdir()
    hint = "Try: rename the file or its folder\n"
    done = boardprof("run", "a\nb.c:f", "x=1")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(
        f"a\\nb.c' cannot be compiled: its path contains a line break.\n{hint}"
    )
    for name in told:
        assert boardprof("run", f"{name}:f", "x=1").code == 0, name
    done = boardprof("run", "c\td.c:f", "x=1", "-I", "in\nc")
    assert (done.code, done.err.count("its path contains a line break")) == (2, 1)


def test_an_argument_that_does_not_fit_names_its_function(tmp_path: Path) -> None:
    (tmp_path / "s.c").write_text("int b(const int *x) { return *x; }\n")
    done = boardprof("run", "-b", "native", "s.c:b", "x=2", folder=tmp_path)
    assert done.code == 2
    assert "error: b: x=2 is not an array; the parameter's type is const i32*.\n" in done.err


def test_a_static_function_as_an_argument_is_told_how_it_gets_on_the_board(tmp_path: Path) -> None:
    source = "static int f(int n) { return n; }\nint use(int (*g)(int)) { return g(f(1)); }\n"
    (tmp_path / "s.c").write_text(source)
    done = boardprof("run", "-b", "native", "s.c:use", "g=f", folder=tmp_path)
    assert done.code == 2
    assert "Try: if f is static, --no-inline f puts it on the board\n" in done.err
