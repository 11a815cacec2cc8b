# SPDX-License-Identifier: Apache-2.0
"""Pointers: what they point to, whether it is only read, and which of them cannot be passed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from boardprof.target.cfunction import (
    Parameter,
    Pointer,
    Scalar,
    Struct,
    function_from_json,
    signature,
)
from tests.unit.objects import ARM, AVR, MACHINES, RISCV, X86_64, fields, found, reason, signatures

EACH = ("-O0",)  # an old GCC makes one of functions that do the same, and tells of one

TO_NUMBERS = """\
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint16_t word;
typedef const word *words;
void a(int8_t *x, const uint8_t *y) {}
void b(int16_t *restrict x, const uint16_t *const y) {}
void c(volatile int32_t *x, const volatile uint32_t *y) {}
void d(int64_t *x, uint64_t const *y) {}
void e(bool *x, const bool *y) {}
void f(float *x, const float *y) {}
void g(void *x, const void *y) {}
void h(words x, word *y) {}
void i(int16_t x[8], const int32_t y[static 4]) {}
void j(int16_t x[4][8], const int16_t y[][3][2]) {}
void k(uint8_t (*x)[8], const float (*y)[2][2]) {}
void l(_Atomic int32_t *x, int32_t *_Atomic y) {}
"""


@pytest.mark.parametrize("cc", MACHINES, ids=lambda cc: cc[0])
def test_pointers_to_numbers_are_the_same_on_every_machine(tmp_path: Path, cc: list[str]) -> None:
    assert signatures(tmp_path, TO_NUMBERS, cc, *EACH) == {
        "a": "(x: i8*, y: const u8*) -> void",
        "b": "(x: i16*, y: const u16*) -> void",
        "c": "(x: i32*, y: const u32*) -> void",
        "d": "(x: i64*, y: const u64*) -> void",
        "e": "(x: bool*, y: const bool*) -> void",
        "f": "(x: f32*, y: const f32*) -> void",
        "g": "(x: void*, y: const void*) -> void",
        "h": "(x: const u16*, y: u16*) -> void",
        "i": "(x: i16*, y: const i32*) -> void",
        "j": "(x: i16*, y: const i16*) -> void",
        "k": "(x: u8*, y: const f32*) -> void",
        "l": "(x: i32*, y: i32*) -> void",
    }


OWN_WIDTH = """\
#include <stddef.h>
enum mode { OFF, ON };
typedef int matrix[2][2];
void a(int *x, const long *y, size_t n) {}
void b(double *x, const char *y) {}
void c(const enum mode *x, enum mode y) {}
void d(matrix *x, matrix y) {}
ptrdiff_t e(const size_t *x) { return 0; }
"""


@pytest.mark.parametrize(
    ("cc", "expected"),
    [
        (
            X86_64,
            [
                "(x: i32*, y: const i64*, n: u64) -> void",
                "(x: f64*, y: const char*) -> void",
                "(x: const u32*, y: u32) -> void",
                "(x: i32*, y: i32*) -> void",
                "(x: const u64*) -> i64",
            ],
        ),
        (
            ARM,
            [
                "(x: i32*, y: const i32*, n: u32) -> void",
                "(x: f64*, y: const char*) -> void",
                "(x: const u8*, y: u8) -> void",
                "(x: i32*, y: i32*) -> void",
                "(x: const u32*) -> i32",
            ],
        ),
        (
            RISCV,
            [
                "(x: i32*, y: const i32*, n: u32) -> void",
                "(x: f64*, y: const char*) -> void",
                "(x: const u32*, y: u32) -> void",
                "(x: i32*, y: i32*) -> void",
                "(x: const u32*) -> i32",
            ],
        ),
        (
            AVR,
            [
                "(x: i16*, y: const i32*, n: u16) -> void",
                "(x: f32*, y: const char*) -> void",
                "(x: const u16*, y: u16) -> void",
                "(x: i16*, y: i16*) -> void",
                "(x: const u16*) -> i16",
            ],
        ),
    ],
    ids=["x86-64", "arm", "riscv", "avr"],
)
def test_what_they_point_to_has_the_machines_own_width(
    tmp_path: Path, cc: list[str], expected: list[str]
) -> None:
    shown = signatures(tmp_path, OWN_WIDTH, cc, *EACH)
    assert [shown[name] for name in "abcde"] == expected


@pytest.mark.parametrize(
    ("cc", "size"),
    [(X86_64, 8), (ARM, 4), (RISCV, 4), (AVR, 2), (["clang"], 8)],
    ids=["x86-64", "arm", "riscv", "avr", "clang"],
)
def test_a_pointer_has_the_size_of_the_machines(tmp_path: Path, cc: list[str], size: int) -> None:
    fn = found(tmp_path, "int f(const float *gains) { return 0; }", cc)["f"]
    assert fn.parameters == (
        Parameter("gains", Pointer(Scalar("f32", "float", 4), const=True, size=size)),
    )


@pytest.mark.parametrize(
    ("parameter", "what"),
    [
        ("long double *x", "a pointer to 'long double' of 16 bytes"),
        ("__int128 *x", "a pointer to '__int128' of 16 bytes"),
        ("const v4 *x", "a pointer to a vector"),
    ],
)
def test_a_pointer_that_cannot_be_passed_is_named_with_the_reason(
    tmp_path: Path, parameter: str, what: str
) -> None:
    text = f"""\
    typedef int v4 __attribute__((vector_size(16)));
    int f(int n, {parameter}) {{ return 0; }}
    """
    assert reason(tmp_path, text) == f"its parameter 'x' is {what}"


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        ("int **x", "ptr{8}*"),
        ("char *x[4]", "ptr{8}*"),
        ("void *const *x", "const ptr{8}*"),
        ("const char *(*x)[2]", "ptr{8}*"),
        ("int (*x)(int)", "fn*"),
        ("handler *x", "fn*"),
        ("handler **x", "ptr{8}*"),
        ("_Complex double *x", "f64*"),
        ("struct hidden *x", "void*"),
        ("union hide *x", "void*"),
        ("struct node *x", "node{16}*"),
        ("list *x", "list{16}*"),
        ("struct table *x", "table{40}*"),
        ("struct call *x", "call{8}*"),
        ("union either *x", "either{8}*"),
        ("struct none *x", "void*"),
    ],
)
def test_pointers_to_pointers_functions_and_structs_with_pointers_are_passed(
    tmp_path: Path, parameter: str, text: str
) -> None:
    code = f"""\
    typedef int handler(int);
    struct node {{ int value; struct node *next; }};
    typedef struct {{ struct node first; }} list;
    struct table {{ const char *names[4]; int count; }};
    struct call {{ int (*function)(int); }};
    union either {{ int number; struct {{ char *text; }}; }};
    struct none {{}};
    int f(int n, {parameter}) {{ return 0; }}
    """
    assert signatures(tmp_path, code) == {"f": f"(n: i32, x: {text}) -> i32"}


NODES = """\
struct leaf { short v; struct node *up; };
struct node { struct node *next; struct leaf *leaf; const char *name; int (*f)(int); void **any; };
int f(struct node *n) { return 0; }
"""


@pytest.mark.parametrize(
    ("cc", "size"), [(X86_64, 8), (ARM, 4), (AVR, 2)], ids=["x86", "arm", "avr"]
)
def test_structs_behind_pointers_in_structs_are_known_once(
    tmp_path: Path, cc: list[str], size: int
) -> None:
    fn = found(tmp_path, NODES, cc)["f"]
    pointer = fn.parameters[0].type
    assert isinstance(pointer, Pointer)
    assert isinstance(pointer.element, Struct)
    whole = f"node{{{5 * size}}}*"
    leaf = f"leaf{{{size + max(2, size)}}}*"
    assert fields(pointer.element) == [
        ("next", 0, whole),
        ("leaf", size, leaf),
        ("name", 2 * size, "const char*"),
        ("f", 3 * size, "fn*"),
        ("any", 4 * size, f"ptr{{{size}}}*"),
    ]
    known = {struct.name: fields(struct) for struct in fn.structs}
    assert known["leaf"] == [("v", 0, "i16"), ("up", max(2, size), whole)]
    assert function_from_json(json.loads(json.dumps(asdict(fn)))) == fn


def test_the_first_parameter_that_cannot_be_passed_is_the_reason(tmp_path: Path) -> None:
    text = "long double f(int n, long double *first, __int128 *second) { return 0; }"
    expected = "its parameter 'first' is a pointer to 'long double' of 16 bytes"
    assert reason(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("int *", "i32*"),
        ("const void *", "const void*"),
        ("char *", "char*"),
        ("struct s *", "void*"),
        ("long double *", "void*"),
        ("int **", "ptr{8}*"),
    ],
)
def test_a_pointer_is_a_result(tmp_path: Path, result: str, text: str) -> None:
    assert signatures(tmp_path, f"{result} f(void) {{ return 0; }}") == {"f": f"() -> {text}"}


def test_a_pointer_to_flash_is_no_pointer_to_memory(tmp_path: Path) -> None:
    text = "int f(const __flash int *x) { return *x; }"
    expected = "its parameter 'x' is a pointer to a separate memory, such as flash"
    assert reason(tmp_path, text, AVR) == expected


def test_a_name_that_two_parameters_would_have_is_given_once(tmp_path: Path) -> None:
    assert signatures(tmp_path, "int f(int arg1, int) { return arg1; }") == {
        "f": "(arg1: i32, arg1_: i32) -> i32"
    }


ALIGNED = """\
struct __attribute__((aligned(16))) v4 { float x[4]; };
typedef float lane __attribute__((aligned(16)));
typedef struct { int n[16]; } __attribute__((aligned(64))) line;
struct wide { char c; int n __attribute__((aligned(32))); };
struct holder { struct wide w[2]; };
void a(struct v4 *p, const lane *q) {}
void b(const line *p) {}
void d(struct wide *p) {}
void e(const struct holder *p) {}
"""


@pytest.mark.parametrize("cc", [X86_64, ARM, RISCV, ["clang"]], ids=lambda cc: cc[0])
def test_what_is_aligned_to_more_than_blocks_are_is_not_callable(
    tmp_path: Path, cc: list[str]
) -> None:
    functions = found(tmp_path, ALIGNED, cc, *EACH)
    assert signature(functions["a"]) == "(p: v4{16}*, q: const f32*) -> void"
    more = "the arena is aligned to 16"
    assert {name: fn.reason for name, fn in functions.items() if name != "a"} == {
        "b": f"its parameter 'p' is a pointer to line{{64}}, aligned to 64 bytes; {more}",
        "d": f"its parameter 'p' is a pointer to wide{{64}}, aligned to 32 bytes; {more}",
        "e": f"its parameter 'p' is a pointer to holder{{128}}, aligned to 32 bytes; {more}",
    }


@pytest.mark.parametrize("cc", [X86_64, ARM, RISCV], ids=lambda cc: cc[0])  # clang does not say
def test_a_number_may_be_aligned_by_its_typedef(tmp_path: Path, cc: list[str]) -> None:
    text = "typedef unsigned char dma __attribute__((aligned(32))); void f(const dma *p) {}"
    assert reason(tmp_path, text, cc) == (
        "its parameter 'p' is a pointer to u8, aligned to 32 bytes; the arena is aligned to 16"
    )


def test_structs_that_lead_to_themselves_through_pointers_to_pointers_are_known(
    tmp_path: Path,
) -> None:
    code = """\
    typedef struct node node;
    typedef int op(node *, int);
    struct node { int n; node **children; node *(*rows)[2]; op *ops[2]; };
    int f(node *x, node **y) { return 0; }
    """
    assert signatures(tmp_path, code) == {"f": "(x: node{40}*, y: ptr{8}*) -> i32"}
