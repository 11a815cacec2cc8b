# SPDX-License-Identifier: Apache-2.0
"""Libraries that are one header, and what a project's compile_commands.json tells."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.target.build.build_options import source_flags
from tests.cli.command import boardprof

FEW = ("-b", "native", "--repeat", "1", "--warmup", "0", "-q")
SUM = """\
#pragma once
#ifdef STB_SUM_STATIC
#define SUMDEF static
#else
#define SUMDEF extern
#endif
SUMDEF int stb_sum(const int *x, int n);
#ifdef STB_SUM_IMPLEMENTATION
static int helper(int a) { return a + 1; }
SUMDEF int stb_sum(const int *x, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += helper(x[i]);
    return s;
}
#endif
"""
INLINE = """\
#ifndef INLINE_H
#define INLINE_H
#define API static inline
API int twice(int x) { return 2 * x; }
static inline int clamped(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
#endif
"""


def test_a_header_whose_functions_need_a_macro_is_measured_with_it_and_says_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "stb_sum.h").write_text(SUM)
    run = ("run", "-b", "native", "--repeat", "1", "--warmup", "0")
    target = (*run, f"{tmp_path}/stb_sum.h:stb_sum", "x=[1, 2]", "n=2", "--expect", "return=5")
    done = boardprof(*target)
    added = "the build adds -D STB_SUM_IMPLEMENTATION for the functions of stb_sum.h"
    assert (done.code, done.err.splitlines()[0]) == (0, f"note: {added}")
    assert f"\nnative build: {added}\n" in done.out
    assert "-DSTB_SUM_IMPLEMENTATION" in done.out
    done = boardprof(*target, "-D", "STB_SUM_IMPLEMENTATION", "-D", "STB_SUM_STATIC")
    assert (done.code, "the build adds" in done.err) == (0, False)
    (tmp_path / "stb_sum.h").write_text(SUM + "#ifdef STB_SUM_IMPLEMENTATION\n}\n#endif\n")
    done = boardprof(*target)
    assert (done.code, done.err.splitlines()[0]) == (7, f"note: {added}")
    (tmp_path / "stb_sum.h").write_text(SUM)
    listed = boardprof("functions", tmp_path / "stb_sum.h")
    assert listed.err.endswith(
        "has its functions with -D STB_SUM_IMPLEMENTATION, which `run` adds\n"
    )
    assert "  stb_sum(" in listed.out


def test_a_name_that_a_macro_makes_is_looked_for_with_the_headers_own_macro(tmp_path: Path) -> None:
    """As in stb_sprintf.h."""
    header = tmp_path / "deco.h"
    header.write_text(
        "#define DECO(name) deco_##name\nint DECO(twice)(int x);\n"
        "#ifdef DECO_IMPLEMENTATION\nint DECO(twice)(int x) { return 2 * x; }\n#endif\n"
    )
    done = boardprof("run", *FEW, f"{header}:deco_twice", "x=4", "--expect", "8")
    assert done.code == 0, done.err
    assert "the build adds -D DECO_IMPLEMENTATION for the functions of deco.h" in done.out


def test_static_functions_of_a_header_are_measured_without_an_option(tmp_path: Path) -> None:
    header = tmp_path / "inline.h"
    header.write_text(INLINE)
    for call, wanted in ((("twice", "x=5"), 10), (("clamped", "x=7", "low=1", "high=3"), 3)):
        function, *values = call
        done = boardprof("run", *FEW, f"{header}:{function}", *values, "--expect", f"{wanted}")
        assert done.code == 0, done.err
    done = boardprof("run", *FEW, f"{header}:all", "x=5")
    assert done.code == 0, done.err
    assert re.search(r"(?m)^twice .* native ", done.out)


def test_the_headers_of_a_folder_are_not_sources_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "inline.h").write_text(INLINE)
    (tmp_path / "a.c").write_text('#include "inline.h"\nint a(int x) { return twice(x); }\n')
    done = boardprof("functions", tmp_path)
    assert [line for line in done.out.splitlines() if "h" in line.split()[-1]] == []
    assert "  a(x: i32) -> i32  a.c" in done.out


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("#if defined(WITH_F) && 1\nint f(int x) { return x; }\n#endif\n", "-D WITH_F"),
        (
            "#ifdef A\n# if defined B\nint f(\n    int x) {\n    return x;\n}\n# endif\n#endif\n",
            "-D A -D B",
        ),
        ("/* f(x) { */\n#if FAST\n#else\nint g;\n#endif\n#ifdef F\nint f(int x) { return x; }\n"
         "#endif\n", "-D F"),
    ],
)  # fmt: skip
def test_a_macro_that_a_function_of_a_source_needs_is_named(
    tmp_path: Path, text: str, flags: str
) -> None:
    (tmp_path / "f.c").write_text(f"{text}int other(int x) {{ return x; }}\n")
    target = ("run", *FEW, f"{tmp_path}/f.c:f", "x=1")
    done = boardprof(*target)
    assert done.err.endswith(f"\nTry: {flags}\n")
    assert boardprof(*target, *flags.split()).code == 0


def test_a_macro_of_the_compiler_is_not_to_be_defined(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("#ifdef __ARM_NEON\nint f(int x) { return x; }\n#endif\nint g;\n")
    done = boardprof("run", *FEW, f"{tmp_path}/f.c:f", "x=1")
    assert done.err.endswith("in --cflags, with which the compiler defines __ARM_NEON itself\n")
    assert "-D" not in done.err


def project(folder: Path) -> Path:
    """Write a project whose build has generated a header and a source; return its own source."""
    for place in ("src", "include", "build/gen"):
        (folder / place).mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "src" / "a.c").write_text(
        '#include "gen/config.h"\n#include "table.h"\nint a(int x) { return table[x] + SIZE; }\n'
    )
    (folder / "build" / "gen" / "config.h").write_text("#define SIZE 5\n")
    (folder / "include" / "table.h").write_text("extern const int table[3];\n")
    (folder / "build" / "gen" / "table.c").write_text("const int table[3] = {1, 2, 3};\n")
    commands = [
        {
            "directory": str(folder / "build"),
            "command": "cc -I. -I '../include' -DSIZE=9 -c ../src/a.c",
            "file": "../src/a.c",
        },
        {
            "directory": str(folder / "build"),
            "arguments": ["cc", "-c", "gen/table.c"],
            "file": str(folder / "build" / "gen" / "table.c"),
        },
    ]
    (folder / "build" / "compile_commands.json").write_text(json.dumps(commands))
    return folder / "src" / "a.c"


def test_generated_headers_and_sources_and_macros_come_from_the_projects_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = project(tmp_path)
    monkeypatch.chdir(tmp_path)
    target = ("run", *FEW, f"{source}:a", "x=1")
    # table[1] is 2; the generated header defines SIZE as 5 unless the build defines it.
    assert boardprof(*target, "--expect", "return=7").code == 0
    (tmp_path / "build" / "gen" / "config.h").write_text("#ifndef SIZE\n#define SIZE 5\n#endif\n")
    assert boardprof(*target, "--expect", "return=11").code == 0
    assert boardprof(*target, "--expect", "return=6", "-D", "SIZE=4").code == 0
    none = boardprof(*target, "--compile-commands", "none", "-I", "build", "-I", "include")
    assert (none.code, "table" in none.err) == (7, True)


def test_what_the_build_takes_and_leaves_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.c").write_text("int f(int x) { return x + N; }\n")
    flags = "-mcpu=cortex-m4 -Os -Wall -g3 -DN=3 -std=c99 -fwrapv -MF a.d -o f.o -c f.c"
    entry = {"directory": str(tmp_path), "command": f"cc {flags}", "file": "f.c"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "compile_commands.json").write_text(json.dumps([entry]))
    monkeypatch.chdir(tmp_path)
    run = ("run", "f.c:f", "x=1", "--repeat", "2", "--expect", "return=4")
    done = boardprof(*run, "--compile-commands", "other")
    assert done.code == 0, done.err
    assert (
        "note: the build takes -DN=3 -std=c99 -fwrapv and leaves out -mcpu=cortex-m4 -Os of "
        "other/compile_commands.json\n"
    ) in done.err
    absent = boardprof(*run, "--compile-commands", "nowhere.json")
    assert (absent.code, "nowhere.json does not exist." in absent.err) == (2, True)
    (tmp_path / "g.c").write_text("int g(int x) { return x; }\n")
    foreign = boardprof("run", "g.c:g", "x=1", "--compile-commands", "other")
    assert (foreign.code, "compile_commands.json does not name g.c." in foreign.err) == (2, True)


@pytest.mark.parametrize("place", ["build/Debug", "out/build/arm", "cmake-build-debug"])
def test_files_of_presets_and_response_files_are_found(tmp_path: Path, place: str) -> None:
    source, build = tmp_path / "src" / "f.c", tmp_path / place
    for folder in (source.parent, build, tmp_path / "include"):
        folder.mkdir(parents=True)
    source.write_text("int f(int x) { return x + N; }\n")
    (build / "flags.rsp").write_text(f'-DN=3 @more.rsp "-I{tmp_path}/include"\n')
    (build / "more.rsp").write_text("-std=c99\n")
    entry = {"directory": str(build), "command": "cc @flags.rsp -DM=@x -c f.c", "file": str(source)}
    (build / "compile_commands.json").write_text(json.dumps([entry]))
    assert source_flags(source).taken == ("-DN=3", "-std=c99", "-DM=@x")
    assert source_flags(source).folders == (tmp_path / "include",)
    for wrong, told in (
        ('-DN="3', "cannot be read: No closing quotation"),
        ("@more.rsp", "itself"),
    ):
        (build / "more.rsp").write_text(wrong)
        with pytest.raises(UsageError, match=rf"more\.rsp.* {told}"):
            source_flags(source)


@pytest.mark.parametrize("text", ["[", "[1]"])
def test_a_damaged_database_is_as_none_and_the_folders_of_headers_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    source = project(tmp_path)
    (tmp_path / "build" / "compile_commands.json").write_text(text)
    monkeypatch.chdir(tmp_path)
    target = ("run", "-b", "native", "--repeat", "1", "--warmup", "0", f"{source}:a", "x=1")
    done = boardprof(*target)
    assert done.err.endswith("\nTry: --source build/gen/table.c\n")
    done = boardprof(*target, "--source", "build/gen/table.c", "--expect", "return=7")
    assert done.code == 0, done.err
    for added in ("-I build for gen/config.h", "-I include for table.h"):
        assert f"note: the build adds {added}\n" in done.err
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "table.h").touch()
    done = boardprof(*target, "--source", "build/gen/table.c")
    assert done.err.endswith("\nTry: -I include or -I other\n")


def test_a_header_that_is_nowhere_near_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.c").write_text('#include "missing.h"\nint a;\n')
    done = boardprof("run", *FEW, f"{tmp_path}/src/a.c:a")
    assert done.code == 7
    assert done.err.endswith("\nTry: -I DIR, the folder that has missing.h\n")
    (tmp_path / "CMakeLists.txt").touch()
    done = boardprof("run", *FEW, f"{tmp_path}/src/a.c:a")
    assert done.err.endswith("/build -DCMAKE_EXPORT_COMPILE_COMMANDS=ON\n")


def test_other_sources_of_a_project_are_found_without_its_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in the source's folder is added, one of a port is named; if two are as near, none is."""
    library = {
        "LICENSE": "",
        "src/lib.h": "int mul(int a, int b);\nint cube(int x);\nextern int bias;\n",
        "src/cube.c": '#include "lib.h"\nint cube(int x) { return mul(x, mul(x, x)) + bias; }\n',
        "src/mul.c": '#include "lib.h"\nint\nmul(int a, int b)\n{\n    return a * b + bias;\n}\n',
        "port/bias.c": "/* the bias */\nint bias = 100;\n",
        "port/used.c": "extern int bias;\nint used(void) { return bias; }\n",
        "test/mul.c": "int mul(int a, int b) { return 0; }\n",
    }
    for name, text in library.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    run = ("run", "-b", "native", "--repeat", "1", "--warmup", "0")
    done = boardprof(*run, "src/cube.c:cube", "x=2")
    assert done.err.endswith("\nTry: --source port/bias.c --source src/mul.c\n")
    known = ("--source", "port/bias.c")
    done = boardprof(*run, "src/cube.c:cube", "x=2", *known, "--expect", "return=408")
    assert (done.code, done.err) == (0, "note: the build adds src/mul.c for mul\n")
    done = boardprof(*run, "src/lib.h:cube", "x=2", *known, "--expect", "return=408")
    assert (done.code, done.err) == (
        0,
        "note: the build adds src/cube.c for cube\nnote: the build adds src/mul.c for mul\n",
    )
    (tmp_path / "port" / "other.c").write_text("int bias = 7;\n")
    done = boardprof(*run, "src/cube.c:cube", "x=2")
    assert done.err.endswith("\nTry: --source src/mul.c\n")


def test_sources_in_other_folders_are_added_unless_they_are_of_tests_or_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = {
        "LICENSE": "",
        "src/sum.c": "int a(void); int b(void); int c(void); int d(void);\n"
        "int sum(void) { return a() + b() + c() + d(); }\n",
        "src/core/parts.c": "int a(void) { return 1; }\nint b(void) { return 20; }\n"
        "int c(void) { return 300; }\n",
        "tests/parts.c": "int a(void) { return 0; }\nint d(void) { return 0; }\n",
        "extra/d.c": "int d(void) { return 4000; }\n",
    }
    for name, text in library.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    run = ("run", "-b", "native", "--repeat", "1", "--warmup", "0", "src/sum.c:sum")
    done = boardprof(*run, "--expect", "return=4321")
    assert (done.code, done.err) == (
        0,
        "note: the build adds src/core/parts.c, extra/d.c for a, b, c and 1 more\n",
    )
    (tmp_path / "extra" / "d.c").unlink()
    assert boardprof(*run).err.endswith("\nTry: --source src/core/parts.c --source tests/parts.c\n")


def test_arguments_may_have_the_names_of_the_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fill.h").write_text(
        "int fill(int *dst, const int *src, /* how many */ int n);\nint less(int a, int b);\n"
    )
    (tmp_path / "fill.c").write_text(
        '#include "fill.h"\n'
        "int fill(int *to, const int *from, int n) {\n"
        "    int i = 0;\n    for (; i < n; i++) to[i] = from[i] + 1;\n    return i;\n}\n"
        "int less(int b, int a) { return b - a; }\n"
    )
    monkeypatch.chdir(tmp_path)
    run = ("run", "-b", "native", "--repeat", "1", "--warmup", "0", "fill.c:fill")
    done = boardprof(*run, "dst=[3, 4]", "src=&dst", "n=2", "--save-output", "o")
    assert (done.code, done.err.splitlines()[0]) == (
        0,
        "note: fill: dst is to, src is from. The first are the names in fill.h",
    )
    done = boardprof(*run, "src=[3, 4]", "dst=[2]:out", "n=2", "--expect", "dst=@o/to.npy")
    assert done.code == 0, done.err  # 4, 5
    # The definition's own names come first: 7 - 2.
    swapped = boardprof(*run[:-1], "fill.c:less", "a=2", "b=7", "--expect", "return=5")
    assert (swapped.code, swapped.err) == (0, "")
    unknown = boardprof(*run, "source=[3, 4]", "to=[2]:out", "n=2")
    assert "There is no parameter 'source'" in unknown.err

    benchmark = """[[benchmark]]
name = "fill"
target = "fill.c:fill"
boards = ["native"]
arguments = {dst = "[3, 4]", src = "&dst", n = %s}
expect = {dst = "@o/to.npy"}
"""
    (tmp_path / "boardprof.toml").write_text(benchmark % "2")
    for command in ("check", "run"):
        done = boardprof(command)
        assert done.code == 0, done.err
    (tmp_path / "boardprof.toml").write_text(benchmark % "5000000000")
    done = boardprof("check")
    assert done.code == 2
    assert f"{tmp_path}/boardprof.toml:5: fill: n='5000000000' of fill is out of range" in done.err
