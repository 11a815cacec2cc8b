# SPDX-License-Identifier: Apache-2.0
"""What `boardprof run` takes for strings, enums, structs with pointers and C++ names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boardprof import build
from tests.cli.command import boardprof
from tests.support import ROOT, requires_tool

CALLS = ROOT / "tests" / "boards" / "fixtures" / "calls.c"
CPP = ROOT / "tests" / "boards" / "fixtures" / "calls.cpp"
FEW = ("-b", "native", "--repeat", "1", "--warmup", "0", "-q")


def measured(folder: Path, target: str, *values: str) -> tuple[str, Any]:
    """Run a function; return the arguments and the result of the Report."""
    file = folder / "report.json"
    done = boardprof("run", *FEW, target, *values, "--json", str(file))
    assert done.code == 0, done.err
    (row,) = json.loads(file.read_text())["boardprof"]["measurements"]
    return row["arguments"], row["result"]


CASES = [
    ("length", ["text=hello"], 'text="hello"', 5),
    ("length", ['text="a, {b}: [c]"'], 'text="a, {b}: [c]"', 11),
    ("length", [r'text="a\n\"b\""'], r'text="a\n\"b\""', 5),
    ("color_number", ["c=GREEN"], "c=GREEN", 50),
    ("color_number", ["c=6"], "c=BLUE", 6),
    ("settings_sum", ["s={mode=5,level=-3,big=7,tail=2,color=GREEN}"], "s=settings_t[1]", 4984),
    ("middle", ["a={x=2,y=-4}", "b={x=10,y=20}"], "a={x=2, y=-4}, b={x=10, y=20}", "{x=6, y=8}"),
    ("apply", ["f=square", "n=4"], "f=square, n=4", 14),
    ("find", ["text=hello", "c=108"], 'text="hello", c=108', "text+2"),
    ("count_at", ["i=2"], "i=2", "counts+8"),
    ("greeting", [], "", '"hello, board"'),
    (
        "sum_list",
        ["first={value=3, next=&b, name=A}", "b={value=4, next=NULL}"],
        'first=node[1], b=node[1], first.name="A"',
        72,
    ),
    (
        "filtered",
        ["f={taps=&h[1], count=2, scale=square}", "h=int16[3]:ones", "x=[2]:ones"],
        "f=filter_t[1], x=int16[2], h=int16[3]",
        4,
    ),
    ("parse", ["text=7", "end=zeros"], 'text="7", end=ptr[1]', 7),
]


@pytest.mark.parametrize(("function", "values", "arguments", "result"), CASES)
def test_values_are_what_c_would_take(
    tmp_path: Path, function: str, values: list[str], arguments: str, result: Any
) -> None:
    assert measured(tmp_path, f"{CALLS}:{function}", *values) == (arguments, result)


def test_functions_of_cpp_are_named_with_their_scope(tmp_path: Path) -> None:
    values = ["x=int16[3]:ones", "y=[3]:ones", "n=3"]
    assert measured(tmp_path, f"{CPP}:k::dot", *values)[1] == 3
    assert measured(tmp_path, f"{CPP}:k::half(f32)", "x=7")[1] == 3.5
    assert measured(tmp_path, f"{CPP}:Gain::run", "this={gain=3}", "x=5")[1] == 15
    done = boardprof("run", *FEW, f"{CPP}:k::half", "x=7")
    assert done.code == 2
    assert "did you mean 'k::half(" in done.err


def test_a_struct_that_is_returned_is_an_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    values = ("a={x=2}", "b={x=4}", "--save-output", str(out))
    assert boardprof("run", *FEW, f"{CALLS}:middle", *values).code == 0
    (file,) = out.rglob("return.npy")
    assert np.load(file).tolist() == [(3, 0)]


POINTERS = """\
int strs(const char *const *names, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) for (const char *c = names[i]; *c; c++) s++;
    return s;
}
int add(int a, int b) { return a + b; }
int tab(int (**fs)(int, int), int n) {
    int s = 0;
    for (int i = 0; i < n; i++) if (fs[i]) s += fs[i](i, 1);
    return s;
}
int pp(int **rows, int n, int m) {
    int s = 0;
    for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) s += rows[i][j];
    return rows[0][0] = s;
}
int up(int *dst, const int *src, int n) {
    for (int i = 1; i < n; i++) dst[i] = src[i - 1] + 1;
    return dst[n - 1];
}
int both(int *a, int *b, int n) { for (int i = 0; i < n; i++) { a[i]++; b[i] *= 2; } return b[0]; }
"""


@pytest.mark.parametrize(
    ("call", "values", "arguments", "result"),
    [
        ("tab", ["fs=[add, NULL]", "n=2"], "fs=ptr[2], n=2", 1),
        ("pp", ["rows=[[1, 2], [3, 4]]", "n=2", "m=2"], None, 10),
        ("pp", ["rows=[&a, &a]", "a=[1, 2]", "n=2", "m=2"], None, 6),
        ("strs", ['names=["ab", "c, d"]', "n=2"], None, 6),
        ("up", ["dst=[5, 0, 0]", "src=&dst", "n=3"], "dst=int32[3], src=&dst, n=3", 7),
        ("up", ["dst=[9, 9]", "src=[5, 0, 0]", "n=2"], None, 6),
        ("up", ["dst=&x", "src=&x", "x=[5, 0, 0]", "n=3"], "dst=&x, src=&x, n=3, x=int32[3]", 7),
        ("both", ["a=[3]:ones:keep", "b=&a", "n=3"], "a=int32[3], b=&a, n=3", 22),
    ],
)
def test_pointers_may_be_in_an_array_or_lead_to_the_array_of_another(
    tmp_path: Path, call: str, values: list[str], arguments: str | None, result: int
) -> None:
    (tmp_path / "p.c").write_text(POINTERS)
    found = measured(tmp_path, f"{tmp_path}/p.c:{call}", *values)
    assert found == (arguments or found[0], result)


def test_from_python_an_array_of_pointers_is_a_list(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(POINTERS)
    with build(tmp_path / "p.c", board="native").open() as board:
        call = board.functions
        assert call.strs(["ab", b"c\0"], 2) == 3
        assert call.tab(["add", None], 2) == 1
        row = np.array([1, 2], np.int32)
        assert call.pp([row, row], 2, 2) == 6
        assert row.tolist() == [6, 2]


@pytest.mark.parametrize(
    ("call", "values", "message"),
    [
        ("pp", ["rows=[1, 2]", "n=1", "m=1"], "1 is not an array; each pointer is i32*"),
        ("pp", ["rows=4", "n=1", "m=1"], "Try: rows='[[1, 2], [3, 4]]', rows='[&a, NULL]' with a="),
        ("strs", ["names=4", "n=1"], """Try: names='["one", "two"]', or names=NULL"""),
        ("tab", ["fs=4", "n=1"], "Try: fs='[FUNCTION, NULL]', or fs=NULL"),
        (
            "up",
            ["dst=[3]:out", "src=&dst", "n=3"],
            "src=&dst of up: dst is only written, with :out",
        ),
        ("up", ["dst=&src", "src=&dst", "n=3"], "dst=&src of up: src is not an array of its own"),
        ("up", ["dst=&n", "src=[1]", "n=3"], "dst=&n of up: n is not an array of its own"),
        ("up", ["dst=&y", "src=[1]", "n=3"], "There is no array for dst 'y'"),
    ],
)
def test_pointers_that_lead_nowhere_are_refused_with_a_form_that_works(
    tmp_path: Path, call: str, values: list[str], message: str
) -> None:
    (tmp_path / "p.c").write_text(POINTERS)
    done = boardprof("run", *FEW, f"{tmp_path}/p.c:{call}", *values)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["first={value=3, next=&b}"], "There is no array for first.next 'b'"),
        (["first={value=3}", "b=[3]:zeros"], "There is no parameter 'b'"),
        (["first={nxt=&b}", "b=zeros"], "did you mean 'next'?"),
        (["first={value=3}:keep"], "a struct with pointers, enums or bit-fields is in and out"),
    ],
)
def test_what_leads_nowhere_is_refused(values: list[str], message: str) -> None:
    done = boardprof("run", *FEW, f"{CALLS}:sum_list", *values)
    assert done.code == 2
    assert message in done.err


REST = """\
#include <complex.h>
#include <stdarg.h>
struct pair { int a, b; };
int total(int n, ...) { return n; }
int old(a, b) int a; short b; { return a + b; }
float _Complex product(float _Complex a, double _Complex b) { return a * b; }
long double wide(long double x, int n) { return x * n; }
long double *moved(long double *x, const struct pair *p, int (*f)(int, char *), char **names) {
    return x + p->a + f(1, names[0]);
}
"""
WRAPPERS = {
    "total": "int total_wrapper(int n, int value) { return total(n, value); }",
    "old": "int old_wrapper(int a, short int b) { return old(a, b); }",
    "product": "void product_wrapper(const float *a, const double *b, float *result) { "
    "*(float _Complex *)result = product(*(const float _Complex *)a, "
    "*(const double _Complex *)b); }",
    "wide": "void wide_wrapper(const void *x, int n, void *result) { *(long double *)result = "
    "wide(*(const long double *)x, n); }",
}


def test_for_the_rest_the_error_shows_a_wrapper_that_compiles_and_runs(tmp_path: Path) -> None:
    source = tmp_path / "rest.c"
    source.write_text(REST)
    for name, wrapper in WRAPPERS.items():
        done = boardprof("run", *FEW, f"{source}:{name}")
        assert done.code == 2
        assert done.err.endswith(
            f"Try: add this to rest.c and measure {name}_wrapper:\n{wrapper}\n"
        )
    source.write_text(REST + "\n".join(WRAPPERS.values()) + "\n")
    assert measured(tmp_path, f"{source}:old_wrapper", "a=3", "b=4")[1] == 7
    out = tmp_path / "out"
    values = ("a=[2]:ones", "b=[2]:ones", "result=[2]:out", "--save-output", str(out))
    assert boardprof("run", *FEW, f"{source}:product_wrapper", *values).code == 0
    (file,) = out.rglob("result.npy")
    assert np.load(file).tolist() == [0.0, 2.0]


BYTES = """\
#include <stdint.h>
typedef float v4 __attribute__((vector_size(16)));
typedef struct { _Alignas(64) int32_t v[16]; } line;
int quads(const long double *x, int n) { int s = 0; while (n) s += (int)x[--n]; return s; }
int wides(const __int128 *x, int n) { int s = 0; while (n) s += (int)x[--n]; return s; }
void twice(v4 *x, int n) { while (n) x[--n] *= 2; }
int32_t sum(const line *l) { int32_t s = 0; for (int i = 0; i < 16; i++) s += l->v[i]; return s; }
void count(line *l, int n) { while (n) l[--n].v[3]++; }
"""
BYTES_WRAPPERS = {
    "quads": "int quads_wrapper(const void *x, int n) { return quads(x, n); }",
    "wides": "int wides_wrapper(const void *x, int n) { return wides(x, n); }",
    "twice": "void twice_wrapper(void *x, int n) { twice(x, n); }",
    "sum": "int32_t sum_wrapper(const void *l) { line l_copy; "
    "__builtin_memcpy(&l_copy, l, sizeof l_copy); return sum(&l_copy); }",
    "count": "void count_wrapper(void *l, unsigned l_count, int n) { line l_copy[l_count]; "
    "__builtin_memcpy(l_copy, l, sizeof l_copy); count(l_copy, n); "
    "__builtin_memcpy(l, l_copy, sizeof l_copy); }",
}


def test_the_wrapper_of_a_pointer_to_another_type_takes_the_array_itself(tmp_path: Path) -> None:
    source = tmp_path / "bytes.c"
    source.write_text(BYTES)
    for name, wrapper in BYTES_WRAPPERS.items():
        assert boardprof("run", *FEW, f"{source}:{name}").err.endswith(f"_wrapper:\n{wrapper}\n")
    source.write_text(BYTES + "\n".join(BYTES_WRAPPERS.values()) + "\n")
    with build(source, board="native").open() as board:
        call = board.functions
        assert call.quads_wrapper(np.array([1.0, 2.0], np.longdouble).tobytes(), 2) == 3
        assert call.wides_wrapper(np.array([5, 0, 6, 0], np.uint64), 2) == 11
        floats = np.arange(8, dtype=np.float32)
        call.twice_wrapper(floats, 2)
        assert floats.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
        assert call.sum_wrapper(np.arange(16, dtype=np.int32)) == 120
        lines = np.zeros(32, np.int32)
        call.count_wrapper(lines, 2, 2)
        assert (lines[3], lines[19], lines.sum()) == (1, 1, 2)


def test_a_function_that_gcc_5_merged_with_an_equal_one_is_told_how_it_can_be_called(
    tmp_path: Path,
) -> None:
    gcc = requires_tool("avr-gcc", "gcc-avr")
    source = tmp_path / "same.c"
    source.write_text(
        "short f(short x) { return x * 3 + 1; }\nshort g(short x) { return x * 3 + 1; }\n"
    )
    avr = ("-b", "arduino-uno", *FEW[2:])
    done = boardprof("run", *avr, f"{source}:f", "x=3", "--expect", "10")
    version = subprocess.run([gcc, "-dumpversion"], capture_output=True, text=True, timeout=30)
    if version.stdout.startswith("5."):  # of Debian 12; later ones merge them in another way
        assert done.code == 2
        assert "Try: --cflags -fno-ipa-icf, if the function equals another" in done.err
    else:
        assert done.code == 0, done.err
    done = boardprof(
        "run", *avr, f"{source}:f", "x=3", "--cflags", "-fno-ipa-icf", "--expect", "10"
    )
    assert done.code == 0, done.err
