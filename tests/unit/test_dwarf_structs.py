# SPDX-License-Identifier: Apache-2.0
"""Structs by pointer: their layout is that of the machine's ABI, worked out by hand here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from boardprof.target.arguments.dtypes import struct_dtype
from boardprof.target.cfunction import Struct, function_from_json
from tests.unit.objects import ARM, AVR, MACHINES, RISCV, X86_64, fields, found, layout, signatures

STATE = """\
#include <stdbool.h>
#include <stdint.h>
struct fir_state {
    uint8_t kind;
    float gain;
    int16_t taps[3];
    bool on;
    double scale;
    uint64_t count;
};
int f(struct fir_state *s) { return 0; }
"""


@pytest.mark.parametrize("cc", [X86_64, ARM, RISCV, ["clang"]], ids=lambda cc: cc[0])
def test_members_are_aligned_to_their_size(tmp_path: Path, cc: list[str]) -> None:
    struct = layout(tmp_path, STATE, cc)
    assert (struct.name, struct.size) == ("fir_state", 32)
    assert fields(struct) == [
        ("kind", 0, "u8"),
        ("gain", 4, "f32"),
        ("taps", 8, "i16[3]"),
        ("on", 14, "bool"),
        ("scale", 16, "f64"),
        ("count", 24, "u64"),
    ]


def test_an_avr_aligns_nothing_and_its_double_has_four_bytes(tmp_path: Path) -> None:
    struct = layout(tmp_path, STATE, AVR)
    assert (struct.name, struct.size) == ("fir_state", 24)
    assert fields(struct) == [
        ("kind", 0, "u8"),
        ("gain", 1, "f32"),
        ("taps", 5, "i16[3]"),
        ("on", 11, "bool"),
        ("scale", 12, "f32"),
        ("count", 16, "u64"),
    ]


OWN = "enum mode { OFF, ON }; struct s { char c; long n; enum mode m; }; int f(struct s *s) {}"


@pytest.mark.parametrize(
    ("cc", "size", "expected"),
    [
        (X86_64, 24, [("c", 0, "i8"), ("n", 8, "i64"), ("m", 16, "u32")]),
        (ARM, 12, [("c", 0, "u8"), ("n", 4, "i32"), ("m", 8, "u8")]),
        (RISCV, 12, [("c", 0, "u8"), ("n", 4, "i32"), ("m", 8, "u32")]),
        (AVR, 7, [("c", 0, "i8"), ("n", 1, "i32"), ("m", 5, "u16")]),
    ],
    ids=["x86-64", "arm", "riscv", "avr"],
)
def test_types_of_c_have_the_machines_own_layout(
    tmp_path: Path, cc: list[str], size: int, expected: list[tuple[str, int, str]]
) -> None:
    struct = layout(tmp_path, OWN, cc)
    assert struct.size == size
    assert fields(struct) == expected


NESTED = """\
#include <stdint.h>
typedef struct { int16_t x, y; } point;
typedef point pair[2];
struct path {
    uint8_t count;
    point from;
    pair ways[3];
    union { uint32_t all; uint8_t bytes[4]; };
    struct { int8_t low, high; } range;
    float m[2][3];
};
int f(const struct path *p) { return 0; }
"""


@pytest.mark.parametrize("cc", [X86_64, ARM, RISCV], ids=lambda cc: cc[0])
def test_structs_unions_and_arrays_stand_in_structs(tmp_path: Path, cc: list[str]) -> None:
    struct = layout(tmp_path, NESTED, cc)
    assert (struct.name, struct.size) == ("path", 64)
    assert fields(struct) == [
        ("count", 0, "u8"),
        ("from", 2, "point{4}"),
        ("ways", 6, "point{4}[3][2]"),
        ("", 32, "anonymous{4}"),
        ("range", 36, "anonymous{2}"),
        ("m", 40, "f32[2][3]"),
    ]
    inner = {field.offset: field.type for field in struct.fields}
    point, union, spread = inner[2], inner[32], inner[36]
    assert isinstance(point, Struct)
    assert fields(point) == [("x", 0, "i16"), ("y", 2, "i16")]
    assert isinstance(union, Struct)
    assert fields(union) == [("all", 0, "u32"), ("bytes", 0, "u8[4]")]
    assert isinstance(spread, Struct)
    assert fields(spread) == [("low", 0, "i8"), ("high", 1, "i8")]


def test_numpy_sees_the_same_layout(tmp_path: Path) -> None:
    dtype = struct_dtype(layout(tmp_path, NESTED, RISCV))
    assert dtype.itemsize == 64
    assert dtype.names == ("count", "from", "ways", "all", "bytes", "range", "m")
    assert (dtype["ways"].shape, dtype["m"].shape) == ((3, 2), (2, 3))


@pytest.mark.parametrize("cc", MACHINES, ids=lambda cc: cc[0])
def test_a_packed_struct_has_no_gaps(tmp_path: Path, cc: list[str]) -> None:
    text = """\
    #include <stdint.h>
    struct __attribute__((packed)) head { uint8_t kind; uint32_t length; uint16_t crc; };
    int f(struct head *h) { return 0; }
    """
    struct = layout(tmp_path, text, cc)
    assert struct.size == 7
    assert fields(struct) == [("kind", 0, "u8"), ("length", 1, "u32"), ("crc", 5, "u16")]


@pytest.mark.parametrize("cc", [X86_64, RISCV], ids=lambda cc: cc[0])
@pytest.mark.parametrize("version", ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"])
def test_old_and_new_dwarf_tell_the_same_offsets(
    tmp_path: Path, cc: list[str], version: str
) -> None:
    text = "struct s { char a[300]; int b; }; int f(struct s *s) { return 0; }"
    struct = layout(tmp_path, text, cc, version)
    assert [(name, offset) for name, offset, _ in fields(struct)] == [("a", 0), ("b", 300)]


@pytest.mark.parametrize(
    ("members", "size"),
    [
        ("int first; _Complex float z;", 12),
        ("long double wide;", 16),
        ("__int128 wide;", 16),
        ("int __attribute__((vector_size(16))) v;", 16),
    ],
)
def test_a_member_without_counterpart_makes_the_struct_bytes(
    tmp_path: Path, members: str, size: int
) -> None:
    struct = layout(tmp_path, f"struct s {{ {members} }}; int f(struct s *s) {{ return 0; }}")
    assert struct == Struct("s", size, ())


@pytest.mark.parametrize("cc", [X86_64, ARM, RISCV, ["clang"]], ids=lambda cc: cc[0])
@pytest.mark.parametrize("version", ["-gdwarf-3", "-gdwarf-4", "-gdwarf-5"])
def test_bit_fields_are_known_by_their_first_bit_and_width(
    tmp_path: Path, cc: list[str], version: str
) -> None:
    text = """\
    struct s { unsigned low : 3; int high : 5; unsigned wide : 20, next : 12; short last; };
    int f(struct s *s) { return 0; }
    """
    struct = layout(tmp_path, text, cc, version)
    assert [(each.name, each.first_bit, each.bits) for each in struct.fields] == [
        ("low", 0, 3),
        ("high", 3, 5),
        ("wide", 8, 20),
        ("next", 32, 12),
        ("last", 0, 0),
    ]
    assert (struct.size, struct.fields[4].offset) == (8, 6)


def test_a_bit_field_makes_only_the_numpy_type_bytes(tmp_path: Path) -> None:
    text = """\
    struct flags { unsigned on : 1; };
    struct s { int n; struct flags flags; };
    int f(struct s *s) { return 0; }
    """
    struct = layout(tmp_path, text)
    assert fields(struct) == [("n", 0, "i32"), ("flags", 4, "flags{4}")]
    assert struct_dtype(struct) == np.dtype("V8")


@pytest.mark.parametrize("cc", [X86_64, ["clang"]], ids=lambda cc: cc[0])
@pytest.mark.parametrize("dimension", ["", "0"])
def test_an_open_array_has_no_elements(tmp_path: Path, cc: list[str], dimension: str) -> None:
    text = f"struct s {{ int n; short tail[{dimension}]; }}; int f(struct s *s) {{ return 0; }}"
    struct = layout(tmp_path, text, cc)
    assert struct.size == 4
    assert fields(struct) == [("n", 0, "i32"), ("tail", 4, "i16[0]")]


def test_a_struct_is_called_by_its_tag_else_by_its_typedef(tmp_path: Path) -> None:
    text = """\
    typedef struct tag { int a; } alias;
    typedef struct { int a; } plain;
    typedef plain renamed;
    void a(alias *x, struct tag *y) {}
    void b(plain *x, const renamed *y) {}
    void c(struct { int a; } *x) {}
    void d(plain x[4], const plain (*y)[2]) {}
    """
    assert signatures(tmp_path, text) == {
        "a": "(x: tag{4}*, y: tag{4}*) -> void",
        "b": "(x: plain{4}*, y: const plain{4}*) -> void",
        "c": "(x: anonymous{4}*) -> void",
        "d": "(x: plain{4}*, y: const plain{4}*) -> void",
    }


def test_a_struct_survives_the_trip_through_json(tmp_path: Path) -> None:
    fn = found(tmp_path, NESTED)["f"]
    assert function_from_json(asdict(fn)) == fn
