# SPDX-License-Identifier: Apache-2.0
"""Members by name to bytes and back; bit-fields as compilers of both byte orders lay them out."""

from __future__ import annotations

import pytest

from boardprof.base.errors import UsageError
from boardprof.jobs.run.plan import split_target
from boardprof.target.arguments.struct_value import (
    members_of,
    members_text,
    pointer_paths,
    structs_bytes,
    unquoted,
)
from boardprof.target.cfunction import CHAR, Field, Pointer, Scalar, Struct

U32, I16 = Scalar("u32", "uint32_t", 4), Scalar("i16", "int16_t", 2)
# struct { unsigned low : 3, mid : 7, top : 22; short n[2]; char name[4]; }
BITS = Struct(
    "bits",
    12,
    (
        Field("low", 0, U32, (), 3, 0),
        Field("mid", 0, U32, (), 7, 3),
        Field("top", 0, U32, (), 22, 10),
        Field("n", 4, I16, (2,)),
        Field("name", 8, CHAR, (4,)),
    ),
)
MEMBERS = {"low": 5, "mid": 100, "top": 0x2ABCDE, "n": [1, -2], "name": "ab"}


@pytest.mark.parametrize(
    ("order", "content"),
    [  # the bytes that gcc for x86-64 and powerpc has made of this struct
        ("little", "257bf3aa0100feff61620000"),
        ("big", "b92abcde0001fffe61620000"),
    ],
)
def test_bit_fields_are_where_the_compiler_has_them(order: str, content: str) -> None:
    found, links = structs_bytes("s", [MEMBERS], BITS, order)  # type: ignore[arg-type]
    assert (found.hex(), links) == (content, [])
    back = members_of(bytes(found), BITS, order)  # type: ignore[arg-type]
    assert back == {**MEMBERS, "name": b"ab"}


def test_pointers_are_links_and_null_in_the_bytes() -> None:
    pointer = Pointer(I16, True, 4)
    inner = Struct("inner", 8, (Field("p", 4, pointer),))
    outer = Struct("outer", 20, (Field("in", 0, inner, (2,)), Field("q", 16, pointer)))
    value = {"in": [{}, {"p": "&x"}], "q": None}
    content, links = structs_bytes("s", [value, {"q": "&y[2]"}], outer)
    assert content == bytes(40)
    assert [(link.offset, link.value) for link in links] == [(12, "&x"), (36, "&y[2]")]
    assert pointer_paths(outer) == {4: ("in", 0, "p"), 12: ("in", 1, "p"), 16: ("q",)}
    assert pointer_paths(Struct("anonymous", 16, (Field("", 8, inner),))) == {12: ("p",)}


# struct { bool on; unsigned char byte; short tone; enum { RED = 3 } color; }
COLOR = Scalar("u32", "enum color", 4, (("RED", 3),))
NUMBERS = Struct(
    "numbers",
    8,
    (
        Field("on", 0, Scalar("bool", "bool", 1)),
        Field("byte", 1, Scalar("u8", "unsigned char", 1)),
        Field("tone", 2, I16),
        Field("color", 4, COLOR),
    ),
)


def test_numbers_reach_to_the_limits_of_their_types() -> None:
    most = {"on": 1, "byte": 255, "tone": 32767, "color": 4294967295}
    least = {"on": 0, "byte": 0, "tone": -32768, "color": "RED"}
    content, _ = structs_bytes("s", [most, least], NUMBERS)
    assert content.hex() == "01ffff7fffffffff" + "0000008003000000"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"on": 2}, "on=2 is out of range: bool is 0 to 1"),
        ({"byte": 256}, "byte=256 is out of range: u8 is 0 to 255"),
        ({"byte": -1}, "byte=-1 is out of range: u8 is 0 to 255"),
        ({"tone": 32768}, "tone=32768 is out of range: i16 is -32768 to 32767"),
        ({"tone": -32769}, "tone=-32769 is out of range: i16 is -32768 to 32767"),
        ({"color": "BLUE"}, "color=BLUE is not an integer"),
    ],
)
def test_a_number_that_does_not_fit_its_member_is_refused(
    members: dict[str, object], why: str
) -> None:
    with pytest.raises(UsageError, match=f"^s: {why}"):
        structs_bytes("s", [members], NUMBERS)


def test_a_number_beyond_the_floats_of_its_member_is_refused() -> None:
    gain = Struct("gain", 4, (Field("gain", 0, Scalar("f32", "float", 4)),))
    with pytest.raises(UsageError, match=r"^s: gain=1e\+39 is out of range of its type f32"):
        structs_bytes("s", [{"gain": 1e39}], gain)


def test_more_elements_than_an_array_has_are_refused() -> None:
    with pytest.raises(UsageError, match="n is an array of 2 elements"):
        structs_bytes("s", [{"n": [1, 2, 3]}], BITS)


def test_members_are_shown_as_the_command_line_takes_them() -> None:
    value = {"on": True, "at": {"x": 1}, "w": [1.5, 2.0], "name": b"ab", "next": None}
    assert members_text(value) == '{on=true, at={x=1}, w=[1.5, 2.0], name="ab", next=NULL}'


def test_quotes_around_a_text_are_taken_off_with_their_backslashes() -> None:
    assert unquoted(r'"a \"b\" \\ \n"') == 'a "b" \\ \n'
    assert unquoted('"') == '"'
    assert unquoted("plain") == "plain"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("fir.c:fir", ("fir.c", "fir")),
        ("dsp.cpp:k::dot", ("dsp.cpp", "k::dot")),
        ("a:b.cpp:k::c::dot(i32)", ("a:b.cpp", "k::c::dot(i32)")),
        ("k::dot", ("", "k::dot")),
        ("fir", ("", "fir")),
        ("dsp.cpp:all", ("dsp.cpp", "all")),
    ],
)
def test_a_target_is_divided_at_the_last_single_colon(text: str, parts: tuple[str, str]) -> None:
    assert split_target(text) == parts
