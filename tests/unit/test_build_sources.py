# SPDX-License-Identifier: Apache-2.0
"""What the user names: C++, assembler, objects, libraries, include folders, flags, static names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import boardprof
from boardprof.base.errors import BuildError, MissingToolError, UnknownNameError, UsageError
from boardprof.target.descriptions.board import BoardSpec, board_spec
from tests.support import requires_compiler, requires_tool, run
from tests.unit.building import FIR, build, changed, folder_of, runs, shown

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_cache")]

TWICE = "int helper(int n); int twice(int n) { return 2 * helper(n); }"
HELPER = "int helper(int n) { return n + 1; }"
WITH_MAIN = "int fir(int n) { return 3 * n; } int main(void) { return fir(1); }"


@pytest.fixture
def native() -> BoardSpec:
    return board_spec("native")


def object_of(folder: Path, text: str, *flags: str, cc: str = "gcc", name: str = "made") -> Path:
    """Compile as somebody else's build would; return the object."""
    folder_of(folder, {f"{name}.c": text})
    target = folder / f"{name}.o"
    run([requires_compiler(cc), "-g", "-O2", *flags, "-c", folder / f"{name}.c", "-o", target])
    os.unlink(folder / f"{name}.c")
    return target


def library_of(folder: Path, texts: Sequence[str], name: str = "libmade.a") -> Path:
    members = [object_of(folder, text, "-fPIC", name=f"member{i}") for i, text in enumerate(texts)]
    run([requires_tool("ar", "binutils"), "rcs", folder / name, *members])
    return folder / name


def test_a_file_may_be_called_as_an_option_is(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"-x.c": "int f(int n) { return n; }", "@g.c": "int g(void) { return 1; }"})
    made = shown(build(native, [tmp_path / "-x.c", tmp_path / "@g.c"]))
    assert (made["f"], made["g"]) == ("(n: i32) -> i32", "() -> i32")


# C++ and assembler


def test_functions_of_cpp_with_names_of_c_are_offered(tmp_path: Path, native: BoardSpec) -> None:
    text = """\
    #include <algorithm>
    template <class T> static T most(T a, T b) { return std::max(a, b); }
    extern "C" int larger(int a, int b) { return most(a, b); }
    int main() {}
    """
    for ending in ("cc", "cpp", "cxx"):
        folder_of(tmp_path / ending, {f"f.{ending}": text})
        made = shown(build(native, [tmp_path / ending]))
        assert made["larger"] == "(a: i32, b: i32) -> i32"
        assert "main" not in made


def test_a_missing_cpp_compiler_is_named_with_its_package(
    tmp_path: Path, native: BoardSpec
) -> None:
    folder_of(tmp_path, {"f.cpp": 'extern "C" int f(int n) { return n; }'})
    with pytest.raises(MissingToolError, match="no-such-g\\+\\+") as caught:
        build(changed(native, cxx="no-such-g++", cxx_package="g++-no-such"), [tmp_path])
    assert caught.value.package == "g++-no-such"


def test_cpp_on_a_bare_board_has_no_exceptions(tmp_path: Path) -> None:
    folder_of(tmp_path, {"f.cpp": 'extern "C" int f(int n) { if (n) throw n; return n; }'})
    spec = board_spec("qemu-rv32")
    requires_compiler(spec.build.cc)
    with pytest.raises(BuildError, match="exception handling disabled"):
        build(spec, [tmp_path])


def test_assembler_is_linked_with_and_without_a_preprocessor(
    tmp_path: Path, native: BoardSpec
) -> None:
    files = {
        "one.S": '#define N 1\n.globl one\none: ret\n.section .note.GNU-stack,"",@progbits\n',
        "two.s": '.globl two\ntwo: ret\n.section .note.GNU-stack,"",@progbits\n',
        "f.c": "void one(void); void two(void); void f(void) { one(); two(); }",
    }
    folder_of(tmp_path, files)
    assert shown(build(native, [tmp_path]))["f"] == "() -> void"
    assert build(native, [tmp_path]).commands == ()


# Objects and libraries


def test_an_object_s_functions_are_offered_and_its_main_is_out_of_the_way(
    tmp_path: Path, native: BoardSpec
) -> None:
    made = object_of(tmp_path, WITH_MAIN, "-fPIC")
    assert shown(build(native, [made])) == {"fir": "(n: i32) -> i32"}
    linux = build(board_spec("linux"), [made])  # whose own main is in port.c
    assert shown(linux) == {"fir": "(n: i32) -> i32"}


def test_a_library_is_linked_behind_the_sources_and_offers_its_functions(
    tmp_path: Path, native: BoardSpec
) -> None:
    library = library_of(tmp_path / "lib", [HELPER, FIR])
    folder_of(tmp_path / "src", {"twice.c": TWICE})
    firmware = build(native, [library, tmp_path / "src"])
    assert shown(firmware) == {
        "fir": "(n: i32) -> i32",
        "helper": "(n: i32) -> i32",
        "twice": "(n: i32) -> i32",
    }
    with firmware.open() as board:
        assert board.functions.twice(4) == 10
        assert board.functions.fir(4) == 12


def test_a_library_that_the_linker_is_told_of_offers_nothing_and_is_noticed(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    library_of(tmp_path / "lib", [HELPER])
    folder_of(tmp_path / "src", {"twice.c": TWICE})
    monkeypatch.chdir(tmp_path)
    first = build(native, ["src"], ldflags="-L lib -lmade")
    assert shown(first) == {"twice": "(n: i32) -> i32"}
    library_of(tmp_path / "lib", [HELPER.replace("1", "2")])
    second = build(native, ["src"], ldflags="-Llib -lmade")
    assert first.build_id != second.build_id
    with second.open() as board:
        assert board.functions.twice(4) == 12


def test_an_object_of_another_machine_is_refused_with_both_machines(tmp_path: Path) -> None:
    made = object_of(tmp_path, FIR)
    spec = board_spec("qemu-rv32")
    requires_compiler(spec.build.cc)
    with pytest.raises(BuildError) as caught:
        build(spec, [made])
    assert f"{made} is for 64-bit x86-64; qemu-rv32 is 32-bit RISC-V." in str(caught.value)
    library = library_of(tmp_path / "lib", [FIR])
    with pytest.raises(BuildError, match=r"libmade\.a\(member0\.o\) is for 64-bit x86-64"):
        build(spec, [library])


def test_a_linked_program_and_a_text_are_no_objects(tmp_path: Path, native: BoardSpec) -> None:
    made = object_of(tmp_path, WITH_MAIN)
    run(["gcc", made, "-o", tmp_path / "program.o"])
    with pytest.raises(BuildError, match=r"program\.o is already linked"):
        build(native, [tmp_path / "program.o"])
    folder_of(tmp_path, {"text.o": "no object"})
    with pytest.raises(BuildError, match=r"text\.o is not an object file in the ELF format"):
        build(native, [tmp_path / "text.o"])


def test_an_object_without_debug_information_is_listed_with_the_reason(
    tmp_path: Path, native: BoardSpec
) -> None:
    made = object_of(tmp_path, FIR, "-fPIC", "-g0")
    reason = f"its object {made.name} has no debug information"
    assert shown(build(native, [made])) == {"fir": reason}


# Folders and flags


def test_include_folders_are_searched_in_order_and_their_changes_noticed(
    tmp_path: Path, native: BoardSpec
) -> None:
    folder_of(tmp_path / "src", {"f.c": '#include "t.h"\nint f(T n) { return n; }'})
    folder_of(tmp_path / "second", {"t.h": "typedef short T;"})
    (tmp_path / "first").mkdir()
    folders = [tmp_path / "first", tmp_path / "second"]
    assert shown(build(native, [tmp_path / "src"], includes=folders)) == {"f": "(n: i16) -> i32"}
    folder_of(tmp_path / "first", {"t.h": "typedef char T;"})
    assert shown(build(native, [tmp_path / "src"], includes=folders)) == {"f": "(n: i8) -> i32"}
    with pytest.raises(UsageError, match=r"The include folder .* does not exist"):
        build(native, [tmp_path / "src"], includes=[tmp_path / "nowhere"])


def test_a_header_in_a_folder_of_the_environment_that_comes_later_is_noticed(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(tmp_path / "src", {"f.c": "#include <wctype.h>\nint f(wint_t n) { return 0; }"})
    (tmp_path / "env").mkdir()
    monkeypatch.setenv("CPATH", str(tmp_path / "env"))
    assert shown(build(native, [tmp_path / "src"])) == {"f": "(n: u32) -> i32"}
    folder_of(tmp_path / "env", {"wctype.h": "typedef short wint_t;"})
    assert shown(build(native, [tmp_path / "src"])) == {"f": "(n: i16) -> i32"}


def test_more_flags_reach_the_compiler_with_paths_from_the_current_folder(
    tmp_path: Path, native: BoardSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(tmp_path, {"src/f.c": "int f(T n) { return N; }", "t.h": "typedef long T;"})
    monkeypatch.chdir(tmp_path)
    made = build(native, ["src"], cflags='-include t.h -DN="1 + 1"')
    assert shown(made) == {"f": "(n: i64) -> i32"}
    text = "int g(size_t n) { return 0; }"
    folder_of(tmp_path / "other", {"g.c": text})
    assert shown(build(native, ["other"], cflags="-include stddef.h")) == {"g": "(n: u64) -> i32"}
    with pytest.raises(UsageError, match="cannot be split into flags: No closing quotation"):
        build(native, ["src"], cflags='-DN="')


# Static functions

STATIC = """\
static int once(const int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }
static inline int tiny(int n) { return n * 3 + 1; }
static int unused(int n) { return n - 7; }
static __attribute__((always_inline)) inline int always(int n) { return n * 5; }
int all(const int *p, int n) { return once(p, n) + tiny(n) + always(n); }
"""


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("name", ["native", "qemu-rv32", "qemu-cortex-m3"])
def test_static_and_inlined_functions_are_kept(tmp_path: Path, name: str, level: str) -> None:
    folder_of(tmp_path, {"s.c": STATIC, "other.c": "int other(int n) { return n; }"})
    requires_compiler(board_spec(name).build.cc)
    kept = ["once", "tiny", "unused"]
    made = shown(build(board_spec(name), [tmp_path], optimize=level, keep=kept))
    assert made == {
        "all": "(p: const i32*, n: i32) -> i32",
        "once": "(p: const i32*, n: i32) -> i32",
        "other": "(n: i32) -> i32",
        "tiny": "(n: i32) -> i32",
        "unused": "(n: i32) -> i32",
    }


def test_a_kept_function_computes_what_it_did(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"s.c": STATIC})
    with build(native, [tmp_path], optimize="-O3", keep=["tiny", "unused"]).open() as board:
        assert board.functions.tiny(5) == 16
        assert board.functions.unused(5) == -2


def test_what_cannot_be_kept_is_said(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"s.c": STATIC})
    with pytest.raises(BuildError, match=r"always in s\.c cannot be compiled out of line"):
        build(native, [tmp_path], keep=["always"])
    with pytest.raises(UnknownNameError, match="no function to keep 'tinny'; did you mean 'tiny'"):
        build(native, [tmp_path], keep=["tinny"])
    with pytest.raises(UsageError, match="is not the name of a function"):
        build(native, [tmp_path], keep=["a b"])
    with pytest.raises(UsageError, match="leave out -flto"):
        build(native, [tmp_path], optimize="-O2 -flto", keep=["tiny"])


def test_a_function_to_keep_may_be_in_an_included_file_or_made_by_a_macro(
    tmp_path: Path, native: BoardSpec
) -> None:
    files = {
        "a.c": '#include "deep/one.inc"\n',
        "b.c": "#include <two.h>\nint b(int x) { return quarter(x); }\n",
        "c.c": "#define M(n) static int n##_fn(int x) { return x + 7; }\nM(add)\n",
        "deep/one.inc": '#pragma once\n#include "../deep/one.inc.h"\n'
        "int pub(int x) { return third(x); }\n",
        "deep/one.inc.h": '#ifndef H\n#define H\n#include "one.inc"\n'
        "static int third(int x) { return x / 3 + 2; }\n#endif\n",
        "headers/two.h": "static inline int quarter(int x) { return x / 4 + 3; }\n",
    }
    (tmp_path / "deep").mkdir()
    (tmp_path / "headers").mkdir()
    folder_of(tmp_path, files)
    kept = ["third", "b.c:quarter", "add_fn"]
    made = build(native, [tmp_path], includes=[tmp_path / "headers"], keep=kept)
    with made.open() as board:
        assert board.functions.third(12) == 6
        assert board.functions.quarter(12) == 6
        assert board.functions.add_fn(12) == 19


def test_static_functions_are_listed_as_hidden(tmp_path: Path, native: BoardSpec) -> None:
    folder_of(tmp_path, {"s.c": STATIC})
    assert build(native, [tmp_path]).hidden == {"always": "s.c", "once": "s.c", "tiny": "s.c"}


# The public name


def test_the_public_build_takes_sources_and_a_board_s_name(tmp_path: Path) -> None:
    folder_of(tmp_path, {"twice.c": TWICE, "lib/helper.c": HELPER})
    commands: list[str] = []
    firmware = boardprof.build(
        tmp_path / "twice.c",
        tmp_path / "lib",
        board="native",
        define=["PUBLIC"],
        verbose=commands.append,
    )
    assert firmware.image.is_file()
    assert any("twice.c" in command for command in commands)
    with firmware.open(timeout_s=5) as board:
        assert board.functions.twice(20) == 42
    default = boardprof.build(tmp_path / "twice.c", tmp_path / "lib", define=["PUBLIC"])
    assert runs(default) == 0
    assert default.image == firmware.image


def test_a_board_that_runs_another_image_is_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, {"fir.c": FIR})
    serve = boardprof.build(tmp_path, board="linux")
    other = boardprof.build(tmp_path, board="linux", define=["OTHER"])
    command = [str(serve.image), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        port = "socket://" + child.stdout.readline().split()[-1]
        try:
            with pytest.raises(boardprof.BoardprofError, match="these sources produce build"):
                other.open(port)
            with serve.open(port) as board:
                assert board.functions.fir(2) == 6
        finally:
            child.kill()
