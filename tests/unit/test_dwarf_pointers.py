# SPDX-License-Identifier: Apache-2.0
"""Pointers: what they point to, whether it is only read, and which of them cannot be passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.cfunction import Parameter, Pointer, Scalar, signature
from tests.unit.objects import ARM, AVR, MACHINES, RISCV, X86_64, found, reason, signatures

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
        ("int **x", "a pointer to a pointer"),
        ("char *x[4]", "a pointer to a pointer"),
        ("void *const *x", "a pointer to a pointer"),
        ("const char *(*x)[2]", "a pointer to a pointer"),
        ("int (*x)(int)", "a pointer to a function"),
        ("handler *x", "a pointer to a function"),
        ("handler **x", "a pointer to a pointer"),
        ("long double *x", "a pointer to 'long double' of 16 bytes"),
        ("__int128 *x", "a pointer to '__int128' of 16 bytes"),
        ("_Complex double *x", "a pointer to 'complex double' of 16 bytes"),
        ("const v4 *x", "a pointer to a vector"),
        ("struct hidden *x", "a pointer to struct hidden, whose members are unknown"),
        ("union hide *x", "a pointer to union hide, whose members are unknown"),
        ("struct node *x", "a pointer to struct node, which holds a pointer"),
        ("list *x", "a pointer to struct list, which holds a pointer"),
        ("struct table *x", "a pointer to struct table, which holds a pointer"),
        ("struct call *x", "a pointer to struct call, which holds a pointer"),
        ("union either *x", "a pointer to union either, which holds a pointer"),
        ("struct none *x", "a pointer to struct none, which has no bytes"),
    ],
)
def test_a_pointer_that_cannot_be_passed_is_named_with_the_reason(
    tmp_path: Path, parameter: str, what: str
) -> None:
    text = f"""\
    typedef int handler(int);
    typedef int v4 __attribute__((vector_size(16)));
    struct node {{ int value; struct node *next; }};
    typedef struct {{ struct node first; }} list;
    struct table {{ const char *names[4]; int count; }};
    struct call {{ int (*function)(int); }};
    union either {{ int number; struct {{ char *text; }}; }};
    struct none {{}};
    int f(int n, {parameter}) {{ return 0; }}
    """
    assert reason(tmp_path, text) == f"its parameter 'x' is {what}"


def test_the_first_parameter_that_cannot_be_passed_is_the_reason(tmp_path: Path) -> None:
    text = "long double f(int n, int **first, struct s *second) { return 0; }"
    assert reason(tmp_path, text) == "its parameter 'first' is a pointer to a pointer"


@pytest.mark.parametrize("result", ["int *", "const void *", "char *", "struct s *"])
def test_a_pointer_is_no_result(tmp_path: Path, result: str) -> None:
    assert reason(tmp_path, f"{result} f(void) {{ return 0; }}") == "its result is a pointer"


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
