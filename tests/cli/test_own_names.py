# SPDX-License-Identifier: Apache-2.0
"""Names that a C file may have: in UTF-8, long, or ``main``; macros with parameters; bit-fields."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof import build
from tests.cli.command import boardprof
from tests.support import requires_compiler

FEW = ("-b", "native", "--repeat", "1", "--warmup", "0", "-q")
LONG = "Com_Module_With_A_Long_Autosar_Like_Name_And_Runnable_Cyclic_10ms_Task_Body"


def made(folder: Path, text: str) -> Path:
    (folder / "code.c").write_text(text, encoding="utf-8")
    return folder / "code.c"


NAMES = """\
struct größe { int länge; };
struct grüße { int tiefe; };
int höhe(const struct größe *s, int ä) { return s->länge + ä; }
int tiefer(const struct grüße *s) { return s->tiefe; }
static int 内(int x) { return 3 * x; }
"""


def test_a_name_may_have_letters_in_utf_8(tmp_path: Path) -> None:
    source = made(tmp_path, NAMES)
    with build(source, board="native", keep=["内"]).open() as board:
        assert board.functions.höhe({"länge": 3}, ä=4) == 7
        assert board.functions.tiefer({"tiefe": 9}) == 9
        assert board.functions["内"](5) == 15


MAINS = """\
struct s { int main; };
int of(const struct s *p) { return p->main; }
int taken(int main) { return main + 1; }
int main(void) { return taken(2); }
"""


def test_a_member_and_a_parameter_may_be_called_main_next_to_a_main(tmp_path: Path) -> None:
    source = made(tmp_path, MAINS)
    with build(source, board="native").open() as board:
        assert sorted(board.functions) == ["of", "taken"]
        assert board.functions.of({"main": 4}) == 4
        assert board.functions.taken(main=3) == 4
    done = boardprof("run", *FEW, f"{source}:main")
    assert done.err.startswith("error: main in code.c cannot be measured")


def test_programs_with_a_main_each_are_built_together_also_with_lto(tmp_path: Path) -> None:
    source, other = made(tmp_path, MAINS), tmp_path / "other.c"
    other.write_text("int b(int x) { return x; }\nint main(void) { return 1; }\n")
    for flags in ("", "-flto"):
        done = boardprof(
            *("run", *FEW, f"{other}:b", "x=3", "--source", source, "--cflags", flags),
            *("--expect", "return=3"),
        )
        assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("define", "code", "wanted"),
    [
        ("F(y)=((y)+1)", "F(x)", "3"),
        ("F(a, b)=((a)*(b))", "F(x, 5)", "10"),
        ("F(...)=__VA_ARGS__", "F(x)", "2"),
        ("F()=7", "F()", "7"),
    ],
)
def test_a_macro_may_have_parameters(tmp_path: Path, define: str, code: str, wanted: str) -> None:
    source = made(tmp_path, f"int f(int x) {{ return {code}; }}\n")
    done = boardprof(
        *("run", *FEW, f"{source}:f", "x=2", "-D", define, "--expect", f"return={wanted}")
    )
    assert done.code == 0, done.err


@pytest.mark.parametrize("define", ["2F=1", "F(y", "F(y)1=2", "=3"])
def test_what_is_not_a_macro_is_refused_with_the_forms(tmp_path: Path, define: str) -> None:
    done = boardprof("run", *FEW, f"{made(tmp_path, 'int f;')}:f", "-D", define)
    assert (done.code, done.err) == (
        2,
        f"error: {define!r} is not a macro.\nTry: write NAME, NAME=VALUE or 'NAME(x)=VALUE'\n",
    )


def test_a_name_that_is_too_long_gets_a_wrapper_that_runs(tmp_path: Path) -> None:
    text = f"int {LONG}(int x) {{ return x + 1; }}\n"
    source = made(tmp_path, text)
    wrapper = "Com_Module_With_A_Long_Autosar_Like_Name_And_Runnable_C_wrapper"
    line = f"int {wrapper}(int x) {{ return {LONG}(x); }}\n"
    done = boardprof("run", *FEW, f"{source}:{LONG}", "x=1")
    assert (done.code, done.err) == (
        2,
        f"error: {LONG} cannot be called over the wire: its name is longer than 63 bytes.\n"
        f"Try: add this to code.c and measure {wrapper}:\n{line}",
    )
    made(tmp_path, text + line)
    done = boardprof("run", *FEW, f"{source}:{wrapper}", "x=1", "--expect", "return=2")
    assert done.code == 0, done.err


@pytest.mark.parametrize("flag", ["-Wl,-Map=", "-Xlinker -Map -Xlinker "])
def test_a_file_of_the_linker_is_written_each_time(tmp_path: Path, flag: str) -> None:
    source, file = made(tmp_path, "int f(int x) { return x; }\n"), tmp_path / "out"
    for _ in range(2):
        done = boardprof("run", *FEW, f"{source}:f", "x=1", "--ldflags", f"{flag}{file}")
        assert done.code == 0, done.err
        assert file.read_text()
        file.unlink()


def test_an_object_without_debug_information_is_named_with_the_flag(tmp_path: Path) -> None:
    requires_compiler("gcc")
    made(tmp_path, "int f(int x) { return x; }\n")
    subprocess.run(["gcc", "-c", "code.c", "-o", "plain.o"], cwd=tmp_path, check=True, timeout=60)
    done = boardprof("run", *FEW, f"{tmp_path / 'plain.o'}:f", "x=1")
    assert (done.code, done.err) == (
        2,
        "error: f cannot be called over the wire: its object plain.o has no debug information.\n"
        "Try: compile it with -g; call a function in assembler from one in C\n",
    )


BITS = """\
#include <stdint.h>
typedef struct { uint32_t a : 3; uint32_t : 0; uint32_t b : 5; } apart;
typedef struct { uint32_t a : 3; uint32_t : 5; uint32_t b : 5; char c; } within;
typedef struct { uint32_t : 4; uint32_t a : 3; uint32_t : 32; uint32_t : 32; } around;
typedef struct { int16_t k; uint8_t a : 1; uint8_t : 0; uint16_t : 12; uint8_t b : 2; } mixed;
typedef struct { float x; int16_t : 16; uint32_t b : 5; } beside;
int32_t f_apart(apart s, int32_t k) { return s.a * 100 + s.b * k; }
int32_t f_within(int32_t k, within s) { return s.a * 1000 + s.b * 10 + s.c + k; }
int32_t f_around(around s, int32_t k) { return s.a * 10 + k; }
int32_t f_mixed(mixed s, int32_t k) { return s.k * (int32_t)100 + s.a * 10 + s.b + k; }
within changed(within s) { s.b++; return s; }
int f_beside(beside s) { return s.b; }
"""


@pytest.mark.parametrize(
    "board",
    [
        "native",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("qemu-rv32", "qemu-cortex-m4", "qemu-cortex-a53", "arduino-uno")
        ),
    ],
)
def test_a_struct_by_value_may_have_bit_fields_without_a_name(tmp_path: Path, board: str) -> None:
    source = made(tmp_path, BITS)
    listed = boardprof("functions", "-b", board, source).out
    assert "whose layout" not in listed
    assert (
        "its parameter 's' is a struct by value, which has bit-fields without a name and" in listed
    )
    with build(source, board=board).open() as opened:
        call = opened.functions
        assert call.f_apart({"a": 5, "b": 21}, 7) == 647
        assert call.f_within(4, {"a": 7, "b": 31, "c": 100}) == 7414
        assert call.f_mixed({"k": -30, "a": 1, "b": 3}, 5) == -2982
        assert call.changed({"a": 1, "b": 2, "c": 3}) == {"a": 1, "b": 3, "c": 3}
        assert call.f_around({"a": 6}, 4) == 64


def test_a_name_that_begins_like_the_agents_is_refused_by_its_name(tmp_path: Path) -> None:
    source = made(
        tmp_path, "int bp_filter(int x) { return 3 * x; }\nint other(void) { return 1; }\n"
    )
    done = boardprof("run", *FEW, f"{source}:bp_filter", "x=3")
    assert (done.code, done.err) == (
        2,
        "error: bp_filter cannot be measured: names that begin with bp_ are those of boardprof's "
        "agent.\nTry: call bp_filter from a function with another name, and measure that\n",
    )
