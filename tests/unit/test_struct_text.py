# SPDX-License-Identifier: Apache-2.0
"""Structs on the command line: contents, members by name, files, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.target.arguments.argument_text import read_argument
from boardprof.target.arguments.array_argument import array_argument
from boardprof.target.arguments.passing import Keep, Out
from boardprof.target.arguments.struct_value import StructText, structs_bytes
from boardprof.target.cfunction import Field, Pointer, Scalar, Struct

I16 = Scalar("i16", "int16_t", 2)
F32 = Scalar("f32", "float", 4)
BOOL = Scalar("bool", "bool", 1)
POINT = Struct("point", 4, (Field("x", 0, I16), Field("y", 2, I16)))
FILTER = Struct(
    "filter",
    20,
    (
        Field("gain", 0, F32),
        Field("taps", 4, I16, (3,)),
        Field("on", 10, BOOL),
        Field("at", 12, POINT),
    ),
)
CPX = Struct("cpx", 8, (Field("re", 0, F32), Field("im", 4, F32)))


def value(text: str, element: Scalar | Struct | None = FILTER) -> Any:
    return read_argument("s", text).value(Pointer(element, False, 4))


def refusal(text: str, element: Scalar | Struct | None = FILTER) -> str:
    with pytest.raises(UsageError) as caught:
        value(text, element)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "count"),
    [("zeros", 1), ("[3]:zeros", 3), ("filter[2]", 2), ("filter[0]:zeros", 0)],
)
def test_zeros_are_as_many_structs_as_are_told(text: str, count: int) -> None:
    made = value(text)
    assert (made.dtype.itemsize, made.shape) == (20, (count,))
    assert made.tobytes() == bytes(20 * count)


def test_ones_are_in_every_member_and_not_in_the_padding() -> None:
    made = value("ones")
    assert made["gain"].tolist() == [1.0]
    assert made["taps"].tolist() == [[1, 1, 1]]
    assert made["on"].tolist() == [True]
    assert made["at"]["y"].tolist() == [1]
    assert made.tobytes()[16:] == bytes(4)


def test_random_members_are_the_same_each_time() -> None:
    made = value("[2]:random(7)", POINT)
    assert made.tobytes() == value("[2]:random(7)", POINT).tobytes()
    assert made.tobytes() != value("[2]:random(8)", POINT).tobytes()
    assert len(set(made.tobytes())) > 2


def test_out_and_keep_are_said_of_structs_too() -> None:
    assert isinstance(value("out"), Out)
    assert isinstance(value("[2]:out"), Out)
    assert isinstance(value("zeros:keep"), Keep)
    assert value("{gain=3}:keep").array["gain"].tolist() == [3.0]


def test_members_are_given_by_name_and_the_others_are_zeros() -> None:
    made = value("{gain = 2.5, taps=[1, -2], at={y=0x10}, on=true}")
    assert made["gain"].tolist() == [2.5]
    assert made["taps"].tolist() == [[1, -2, 0]]
    assert made["at"].tolist() == [(0, 16)]
    assert made["on"].tolist() == [True]
    assert value("{}").tobytes() == bytes(20)


def test_a_member_that_says_so_is_infinite() -> None:
    assert value("{gain=-inf}")["gain"].tolist() == [float("-inf")]


def test_several_structs_stand_in_brackets() -> None:
    assert value("[{x=1}, {x=2, y=3}]", POINT).tolist() == [(1, 0), (2, 3)]


def test_members_that_are_more_than_numbers_wait_for_what_they_point_to() -> None:
    node = Struct("node", 8, (Field("x", 0, F32), Field("next", 4, Pointer(POINT, False, 4))))
    made = value("{x=1, next=&p}", node)
    assert isinstance(made, StructText)
    assert made.structs == [{"x": "1", "next": "&p"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{gain=2", "s={gain=2 is not a struct"),
        ("{gain 2}", "is not a struct"),
        ("{gain=1, gain=2}", "is not a struct"),
        ("{gain=1}}", "is not a struct"),
        ("[{gain=1}, 3]", "is not a struct"),
        ("{gain=,}", "is not a struct"),
        ("{gain=x}", "gain=x is not a number"),
        ("{taps=[1.5]}", "taps[0]=1.5 is not an integer"),
        ("{taps=[40000]}", "taps[0]=40000 is out of range: i16 is -32768 to 32767"),
        ("{on=2}", "on=2 is out of range"),
        ("{gain=1e300}", "gain=1e300 is out of range of its type f32"),
        ("{gain=-1e400}", "gain=-1e400 is out of range of its type f32"),
        ("{at=" * 3000, "is nested too deeply: at most 50 levels"),
        ("{taps=" + "[" * 3000 + "]" * 3000 + "}", "is nested too deeply: at most 50 levels"),
        ("{taps=1}", "taps is an array of 3"),
        ("{taps=[1,2,3,4]}", "taps is an array of 3"),
        ("{at=1}", "at is a struct"),
        ("{gain=[1]}", "the member gain does not take this value"),
        (
            "biq[2]:zeros",
            "the element type 'biq' is not known; the parameter's type is filter{20}*",
        ),
        ("float32[8,2]", "is float32[8,2]; the parameter's type is filter{20}*"),
        ("uint8[30]:zeros", "has 30 bytes; the parameter's type is filter{20}*"),
        ("5", "s=5 is not an array"),
        ("zeros:ones", "is not a known form of argument"),
        ("5:keep", "is not a known form of argument"),
    ],
)
def test_what_is_no_such_struct_is_refused(text: str, message: str) -> None:
    assert message in refusal(text)


def test_an_unknown_member_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError) as caught:
        value("{gian=1}")
    assert str(caught.value) == (
        "There is no member of filter 'gian' in s={gian=1}; did you mean 'gain'? Known: gain, "
        "taps, on, at"
    )


def test_a_hint_has_as_many_brackets_as_the_member_has_dimensions() -> None:
    matrix = Struct("matrix", 12, (Field("m", 0, I16, (2, 3)),))
    assert refusal("{m=[1, 2, 3, 4, 5, 6]}", matrix).endswith(
        "m is an array of 2 by 3 elements.\nTry: m=[[NUMBER, ...]]"
    )


FLEXIBLE = Struct("flexible", 4, (Field("length", 0, I16), Field("data", 2, I16, (0,))))


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("{length=3, data=[7, 8, 9]}", "0300 0700 0800 0900"),
        ("{data=[3]:ones, length=3}", "0300 0100 0100 0100"),
        ("{length=3, data=[2]:zeros}", "0300 0000 0000 0000"),  # whole structs of 4 bytes
        ("{length=3}", "0300 0000"),
    ],
)
def test_a_flexible_array_has_as_many_elements_as_the_text_gives(text: str, content: str) -> None:
    for length in (0, 1):  # 1: as C is written before C99
        struct = replace(FLEXIBLE, fields=(FLEXIBLE.fields[0], Field("data", 2, I16, (length,))))
        made = array_argument("f", "s", Pointer(struct, False, 4), value(text, struct))
        assert made.content() == bytes.fromhex(content)
        assert made.shape_text == "flexible[1]"


def test_only_one_struct_has_a_flexible_array() -> None:
    assert "give one struct, with its elements" in refusal("[{data=[1]}, {data=[2]}]", FLEXIBLE)


def test_an_array_in_a_struct_is_told_by_its_length_and_content() -> None:
    assert value("{taps=[2]:ones}")["taps"].tolist() == [[1, 1, 0]]
    assert value("{taps=ones}")["taps"].tolist() == [[1, 1, 1]]
    drawn = value("{taps=random(7)}")["taps"].tolist()
    assert drawn == [np.asarray(Out(value("[3]:random(7)", I16)).array).tolist()]
    assert "taps is an array of 3 elements" in refusal("{taps=[4]:ones}")
    view = Struct("view", 4, (Field("data", 0, Pointer(I16, False, 4)),))
    text = value("{data=[2]:ones}", view)
    _, (link,) = structs_bytes(text.where, text.structs, view)
    assert np.asarray(link.value).tolist() == [1, 1]
    assert "is not a struct" in refusal("{taps=[4]:twos}")


def test_the_hint_is_in_the_command_line_s_words() -> None:
    hint = refusal("float32[8,2]").partition("Try: ")[2]
    assert hint == (
        "s=zeros, s=[3]:zeros for three, s='{gain=..., ...}', s=@s.bin or s=uint8[20]:ones for the "
        "bytes, a structured s=@s.npy, or s=NULL"
    )
    assert (
        refusal("5", I16)
        .partition("Try: ")[2]
        .startswith(
            "s='[5]' points to this number. For an array: s='[1, 2, 3]', s=int16[64]:zeros,"
        )
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[2]", [2]),
        ("[5,3,9,-1,7]", [5, 3, 9, -1, 7]),
        ("[[1, 2, 3], [4, 0x5, 6]]", [[1, 2, 3], [4, 5, 6]]),
    ],
)
def test_numbers_in_brackets_are_the_array(text: str, numbers: list[object]) -> None:
    made = value(text, I16)
    assert (made.dtype, made.tolist()) == (np.dtype(np.int16), numbers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "its rows are not alike, or empty."),
        ("[[1, 2], [3]]", "its rows are not alike"),
        ("[1, [2]]", "its rows are not alike"),
        ("[1, 40000]", "[1]=40000 is out of range: i16 is -32768 to 32767."),
        ("[1, x]", "[1]=x is not an integer."),
        ("[1; 2]", "s=[1; 2] is not a list of numbers."),
        ("[1, 2", "is not a known form of argument"),
    ],
)
def test_what_is_not_a_list_of_such_numbers_is_refused(text: str, message: str) -> None:
    assert message in refusal(text, I16)


def test_numbers_in_brackets_are_not_structs() -> None:
    assert "s=[2] has numbers; the parameter's type is a struct." in refusal("[2]")


def test_a_number_s_type_is_the_parameter_s_where_none_is_told() -> None:
    made = value("[3]:ones", I16)
    assert (made.dtype, made.tolist()) == (np.dtype(np.int16), [1, 1, 1])
    assert "does not say how many elements" in refusal("ones", I16)
    assert "does not say which type" in refusal("[3]:ones", None)
    assert "is a struct; the parameter's type is i16*" in refusal("{x=1}", I16)


def test_a_struct_of_which_the_members_are_not_known_is_bytes() -> None:
    unknown = Struct("state", 12)
    assert value("[2]:zeros", unknown).tobytes() == bytes(24)
    assert value("uint8[24]:ones", unknown).tobytes() == b"\1" * 24
    assert "the types of its members are not known" in refusal("ones", unknown)
    assert "the types of its members are not known" in refusal("random", unknown)
    assert "the members of state are not known" in refusal("{a=1}", unknown)
    assert "image= ELF, which has the members" in refusal("{a=1}", unknown)


def test_files_hold_structs_as_bytes_or_as_a_structured_array(tmp_path: Path) -> None:
    array = np.array([(1, 2), (3, 4)], [("x", "<i2"), ("y", "<i2")])
    np.save(tmp_path / "s.npy", array)
    (tmp_path / "s.bin").write_bytes(array.tobytes())
    assert value(f"@{tmp_path}/s.npy", POINT).tolist() == [(1, 2), (3, 4)]
    assert value(f"@{tmp_path}/s.bin", POINT) == bytearray(b"\1\0\2\0\3\0\4\0")
    assert "has 8 bytes; an element of filter{20}* has 20" in refusal(f"@{tmp_path}/s.bin")


def test_complex_numbers_are_pairs_of_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.array([1 + 2j, 3 - 4j], np.complex64))
    text = f"@{tmp_path}/c.npy"
    pairs = value(text, F32)
    assert (pairs.dtype, pairs.tolist()) == (np.dtype(np.float32), [[1.0, 2.0], [3.0, -4.0]])
    assert value(text, CPX).tolist() == [(1.0, 2.0), (3.0, -4.0)]
    assert "is complex64" in refusal(text, I16)
    assert "is complex64[2]; the parameter's type" in refusal(text)
