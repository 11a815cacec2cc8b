# SPDX-License-Identifier: Apache-2.0
"""Functions of one name: in several units, in the agent, in libraries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.base.errors import BuildError, UsageError
from boardprof.target.build.glue import table_source
from boardprof.target.cfunction import signature
from boardprof.target.descriptions.board import board_spec
from boardprof.target.elf.functions import functions
from tests.support import requires_compiler
from tests.unit.building import build, folder_of, shown
from tests.unit.objects import compiled

pytestmark = pytest.mark.slow

GLOBAL = "int f(int a) { return a + 1; }"
STATIC = "static __attribute__((noinline)) double f(double a) { return a * 2.5; }\n"
STATIC += "double g(double a) { return f(a) + f(a + 1); }"
MEMCPY = """\
void *memcpy(void *to, const void *from, __SIZE_TYPE__ n) {
    unsigned char *out = to;
    const unsigned char *in = from;
    for (__SIZE_TYPE__ i = 0; i < n; i++) { out[i] = in[i]; __asm__ volatile(""); }
    if (n == 3) { out[0] = 77; }
    return to;
}
"""
COPY = """\
void *memcpy(void *, const void *, __SIZE_TYPE__);
int first(int n) { unsigned char a[8] = {1, 2, 3}, b[8]; memcpy(b, a, n); return b[0]; }
"""
MACHINE = {
    "native": ["gcc", "-fPIC"],
    "linux": ["gcc"],
    "qemu-rv32": ["riscv64-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32", "-mcmodel=medany"],
    "qemu-cortex-m3": ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb"],
}


def joined(folder: Path, *objects: Path) -> Path:
    made = folder / "joined.o"
    subprocess.run(["ld", "-r", *objects, "-o", made], check=True, timeout=60)
    return made


def library(folder: Path, text: str, cc: list[str]) -> Path:
    requires_compiler(cc[0])
    made = compiled(folder, text, cc, "-O1", "-fno-builtin", "-ffunction-sections", name="own.c")
    subprocess.run(["ar", "rcs", folder / "libown.a", made], check=True, timeout=60)
    return folder / "libown.a"


def test_a_static_function_of_another_unit_does_not_hide_a_global_one(tmp_path: Path) -> None:
    one = compiled(tmp_path, GLOBAL, name="one.c")
    other = compiled(tmp_path, STATIC, name="other.c")
    for objects in ((one, other), (other, one)):
        found = {fn.name: signature(fn) for fn in functions([joined(tmp_path, *objects)])}
        assert found == {"f": "(a: i32) -> i32", "g": "(a: f64) -> f64"}


def test_a_static_function_s_type_is_not_that_of_a_global_one_without_any(tmp_path: Path) -> None:
    one = compiled(tmp_path, GLOBAL, ["gcc"], "-g0", name="one.c")
    other = compiled(tmp_path, STATIC, name="other.c")
    found = {fn.name: fn.reason for fn in functions([joined(tmp_path, one, other)])}
    assert found == {
        "f": "several functions have that name, and it is unknown which type belongs to this one",
        "g": None,
    }


def test_a_static_function_of_an_object_compiled_elsewhere_is_not_kept(tmp_path: Path) -> None:
    """GCC has made it for its callers: here it knows n, and leaves out what does not happen."""
    text = "static __attribute__((noinline)) int inner(int n) { if (n > 4) { return -1; }\n"
    text += "int s = 0; for (int i = 0; i < n; i++) { s += i * n; } return s; }\n"
    made = compiled(tmp_path, text + "int outer(int a) { return inner(a & 3); }", ["gcc"], "-fPIC")
    with pytest.raises(BuildError, match=r"inner cannot be kept: code\.o was compiled elsewhere"):
        build(board_spec("native"), [made], keep=["inner"])
    with build(board_spec("native"), [tmp_path / "code.c"], keep=["inner"]).open() as board:
        assert board.functions.inner(9) == -1


@pytest.mark.parametrize("name", ["native", "linux"])
def test_a_function_named_like_what_the_agent_calls_is_only_the_user_s(
    tmp_path: Path, name: str
) -> None:
    text = "int poll(int x) { return x + 1; } int read(int x) { return 2 * poll(x); }\n"
    text += "int signal; int close(int x) { return signal += x; }\n"
    folder_of(tmp_path, {"own.c": text})
    flags = "-O2 -fno-builtin"
    with build(board_spec(name), [tmp_path], optimize=flags).open() as board:
        assert board.functions.poll(4) == 5
        assert board.functions.read(4) == 10
        assert board.functions.close(4) == 4
    with pytest.raises(BuildError, match="also a function that the agent calls"):
        build(board_spec(name), [tmp_path], optimize=flags + " -flto")


@pytest.mark.parametrize("name", sorted(MACHINE))
def test_a_library_s_memcpy_is_the_user_s_and_never_the_agent_s(tmp_path: Path, name: str) -> None:
    own = library(tmp_path, MEMCPY, MACHINE[name])
    folder_of(tmp_path, {"copy.c": COPY})
    made = build(board_spec(name), [tmp_path / "copy.c", own], optimize="-O1 -fno-builtin")
    assert "memcpy" in shown(made)
    with made.open() as board:
        assert board.functions.first(3) == 77


@pytest.mark.parametrize(("libc", "linked"), [("board", "picolibc"), ("none", "none")])
def test_a_memcpy_that_nobody_brings_is_the_c_library_s_or_the_agent_s(
    tmp_path: Path, libc: str, linked: str
) -> None:
    folder_of(tmp_path, {"copy.c": COPY})
    for flags in ("-O1 -fno-builtin", "-O2 -flto"):
        made = build(board_spec("qemu-rv32"), [tmp_path], optimize=flags, libc=libc)
        assert made.libc == linked
        with made.open() as board:
            assert board.functions.first(3) == 1


def test_a_library_with_a_main_does_not_take_the_agent_s_place(tmp_path: Path) -> None:
    own = library(tmp_path, "int five(void) { return 5; } int main(void) { return 3; }", ["gcc"])
    with build(board_spec("linux"), [own]).open() as board:
        assert board.functions.five() == 5


def test_code_that_was_compiled_elsewhere_has_no_flags(tmp_path: Path) -> None:
    made = compiled(tmp_path, GLOBAL, ["gcc"], "-fPIC")
    assert build(board_spec("native"), [made]).flags is None
    assert build(board_spec("native"), [tmp_path / "code.c"]).flags == "-O2"
    assert build(board_spec("native"), [tmp_path / "code.c"], optimize="").flags == "-O2"


def test_a_double_of_another_size_than_the_agent_s_is_an_error_of_the_compiler(
    tmp_path: Path,
) -> None:
    text = "double half(double x) { return x / 2; }"
    short = compiled(tmp_path, text, ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb"])
    assert {fn.name: signature(fn) for fn in functions([short])} == {"half": "(x: f64) -> f64"}
    table = table_source("any", functions([short]), [], bytes(8))
    assert "_Static_assert(sizeof(double) == 8, " in table
    assert "sizeof(float)" not in table


def test_a_long_double_of_8_bytes_is_no_double(tmp_path: Path) -> None:
    text = "int f(long double x) { return x > 1; }"
    made = compiled(tmp_path, text, ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb"])
    assert functions([made])[0].reason == "its parameter 'x' is 'long double' of 8 bytes"


def test_of_static_functions_of_one_name_that_of_the_file_named_is_kept(tmp_path: Path) -> None:
    text = "static int f(int x) {{ return x + {}; }} int {}(int x) {{ return f(x) * 10; }}"
    files = {"one/f.c": text.format(1, "one"), "two/f.c": text.format(2, "two")}
    folder_of(tmp_path, files)
    sources, native = [tmp_path / "one", tmp_path / "two"], board_spec("native")
    with pytest.raises(
        BuildError, match=r"f is defined twice: in one/f\.c and in two/f\.c"
    ) as error:
        build(native, sources, keep=["f"])
    assert 'keep=["one/f.c:f"] keeps that of one file' in str(error.value)
    for keep, expected in (("one/f.c:f", 6), (f"{tmp_path}/two/f.c:f", 7)):
        with build(native, sources, keep=[keep]).open() as board:
            assert board.functions.f(5) == expected
            assert board.functions.one(5) == 60
            assert board.functions.two(5) == 70
    with pytest.raises(UsageError, match=r"f of three\.c cannot be kept: three\.c is not among"):
        build(native, sources, keep=["three.c:f"])


@pytest.mark.parametrize("name", ["native", "linux"])
@pytest.mark.parametrize("flags", ["-L{} -lown", "-L {} -l own", "{}/libown.a", "-Wl,{}/libown.a"])
def test_a_library_of_the_linker_s_flags_takes_no_function_from_the_agent(
    tmp_path: Path, name: str, flags: str
) -> None:
    text = "int poll(int x) { return x * 7; } int helper(int x) { return poll(x) + 1; }"
    library(tmp_path, text, MACHINE[name])
    used = "int helper(int); int poll(int); int f(int x) { return helper(x) + poll(1); }"
    folder_of(tmp_path, {"src/u.c": used})
    ldflags = flags.format(tmp_path)
    made = build(board_spec(name), [tmp_path / "src"], cflags="-fno-builtin", ldflags=ldflags)
    with made.open(timeout_s=10.0) as board:
        assert board.functions.f(2) == 22


@pytest.mark.parametrize("kind", ["shared", "thin"])
def test_a_library_that_cannot_be_edited_and_has_what_the_agent_calls_is_refused(
    tmp_path: Path, kind: str
) -> None:
    text = "int poll(int x) { return x * 7; } int other(int x) { return x; }"
    made = compiled(tmp_path, text, ["gcc", "-fPIC"], "-fno-builtin", name="own.c")
    out = tmp_path / ("libown.so" if kind == "shared" else "libown.a")
    command = ["gcc", "-shared", made, "-o", out] if kind == "shared" else ["ar", "rcsT", out, made]
    subprocess.run(command, check=True, timeout=60)
    folder_of(tmp_path, {"src/u.c": "int other(int); int f(int x) { return other(x); }"})
    with pytest.raises(BuildError, match="defines poll, which the agent also calls"):
        build(board_spec("linux"), [tmp_path / "src"], ldflags=f"-L{tmp_path} -lown")
