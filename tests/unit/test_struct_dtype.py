# SPDX-License-Identifier: Apache-2.0
"""A struct of C and the numpy type of its memory have the same bytes at the same places."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from boardprof.base.errors import UnknownNameError
from boardprof.target.arguments.dtypes import Dtypes, element_dtype, struct_dtype
from boardprof.target.cfunction import CFunction, Field, Parameter, Pointer, Scalar, Struct

I8, I16, I32 = (Scalar(f"i{8 * n}", f"int{8 * n}_t", n) for n in (1, 2, 4))
U8, U64 = Scalar("u8", "uint8_t", 1), Scalar("u64", "uint64_t", 8)
F32, F64, BOOL = Scalar("f32", "float", 4), Scalar("f64", "double", 8), Scalar("bool", "bool", 1)

# struct sample { uint8_t kind; float gain; int16_t taps[3]; bool on; };
SAMPLE = Struct(
    "sample",
    16,
    (
        Field("kind", 0, U8),
        Field("gain", 4, F32),
        Field("taps", 8, I16, (3,)),
        Field("on", 14, BOOL),
    ),
)


@pytest.mark.parametrize(
    ("scalar", "little", "big"),
    [
        (I8, "i1", "i1"),
        (I16, "<i2", ">i2"),
        (U64, "<u8", ">u8"),
        (F32, "<f4", ">f4"),
        (F64, "<f8", ">f8"),
        (BOOL, "?", "?"),
    ],
)
def test_a_number_has_its_size_kind_and_byte_order(scalar: Scalar, little: str, big: str) -> None:
    assert element_dtype(scalar) == np.dtype(little)
    assert element_dtype(scalar, "big") == np.dtype(big)


def test_offsets_and_size_are_the_structs_with_its_padding() -> None:
    dtype = struct_dtype(SAMPLE)
    assert dtype.itemsize == 16
    assert dtype.fields is not None
    assert {name: entry[1] for name, entry in dtype.fields.items()} == {
        "kind": 0,
        "gain": 4,
        "taps": 8,
        "on": 14,
    }
    assert (dtype["taps"].shape, dtype["taps"].base) == ((3,), np.dtype("<i2"))


@pytest.mark.parametrize(("order", "mark"), [("little", "<"), ("big", ">")])
def test_the_bytes_are_those_of_the_board(order: str, mark: str) -> None:
    dtype = struct_dtype(SAMPLE, "big" if order == "big" else "little")
    memory = struct.pack(f"{mark}B3xf3h?x", 7, 1.5, 1, -2, 3, True)
    (value,) = np.frombuffer(memory, dtype)
    assert (value["kind"], value["gain"], bool(value["on"])) == (7, 1.5, True)
    assert value["taps"].tolist() == [1, -2, 3]


def test_structs_in_structs_keep_their_place_and_byte_order() -> None:
    point = Struct("point", 4, (Field("x", 0, I16), Field("y", 2, I16)))
    path = Struct("path", 20, (Field("length", 0, I32), Field("points", 4, point, (2, 2))))
    dtype = struct_dtype(path, "big")
    memory = struct.pack(">i8h", 2, 1, 2, 3, 4, 5, 6, 7, 8)
    (value,) = np.frombuffer(memory, dtype)
    assert value["length"] == 2
    assert value["points"]["y"].tolist() == [[2, 4], [6, 8]]


def test_the_members_of_a_union_overlap() -> None:
    word = Struct("word", 8, (Field("all", 0, U64), Field("bytes", 0, U8, (8,))))
    (value,) = np.frombuffer(bytes([1, 2, 0, 0, 0, 0, 0, 0]), struct_dtype(word))
    assert value["all"] == 0x0201
    assert value["bytes"].tolist() == [1, 2, 0, 0, 0, 0, 0, 0]


def test_the_members_of_an_anonymous_struct_stand_among_the_others() -> None:
    inner = Struct("anonymous", 4, (Field("x", 0, I16), Field("y", 2, I16)))
    outer = Struct("outer", 8, (Field("first", 0, I32), Field("", 4, inner)))
    dtype = struct_dtype(outer)
    assert dtype.names == ("first", "x", "y")
    assert dtype.fields is not None
    assert (dtype.fields["x"][1], dtype.fields["y"][1]) == (4, 6)


def test_a_struct_without_fields_is_bytes() -> None:
    flags = Struct("flags", 6)
    assert struct_dtype(flags) == np.dtype("V6")
    holder = Struct("holder", 8, (Field("flags", 0, flags), Field("x", 6, I16)))
    (value,) = np.frombuffer(b"abcdef\x05\x00", struct_dtype(holder))
    assert (bytes(value["flags"]), value["x"]) == (b"abcdef", 5)


def test_members_of_the_same_name_make_it_plain_bytes() -> None:
    # struct B { int x; }; struct D : B { int x, y; };
    base = Struct("B", 4, (Field("x", 0, I32),))
    derived = Struct("D", 12, (Field("", 0, base), Field("x", 4, I32), Field("y", 8, I32)))
    assert struct_dtype(derived) == np.dtype("V12")
    holder = Struct("holder", 16, (Field("d", 0, derived), Field("n", 12, I32)))
    assert struct_dtype(holder)["d"] == np.dtype("V12")


def test_the_structs_of_an_image_are_learnt_when_one_is_asked_for_that_is_not_known() -> None:
    def taking(struct: Struct) -> CFunction:
        parameter = Parameter("s", Pointer(struct, False, 4))
        return CFunction("f", (parameter,), None, None, None, "f.c", None)

    functions = {"f": taking(SAMPLE)}
    point = Struct("point", 4, (Field("x", 0, I16), Field("y", 2, I16)))
    asked: list[str] = []

    def learn() -> None:
        asked.append("image")
        functions["g"] = taking(point)

    dtypes = Dtypes(functions, learn=learn)
    assert dtypes["sample"] == struct_dtype(SAMPLE)
    assert asked == []
    assert dtypes["point"] == struct_dtype(point)
    assert (asked, sorted(dtypes)) == (["image"], ["point", "sample"])
    with pytest.raises(UnknownNameError, match="Known: sample, point"):
        dtypes["pint_of_milk"]
