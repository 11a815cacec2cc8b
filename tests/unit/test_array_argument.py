# SPDX-License-Identifier: Apache-2.0
"""What may be passed for a pointer, what goes to the board, and what comes back into the array."""

from __future__ import annotations

import array as stdlib_array
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from boardprof.base.errors import UsageError
from boardprof.target.arguments.array_argument import ArrayArgument, array_argument
from boardprof.target.arguments.binding import bind, check_overlap
from boardprof.target.arguments.passing import Block, Keep, Out, Passing, copied_arguments
from boardprof.target.arguments.signature import parse_signature
from boardprof.target.cfunction import CHAR, Field, Pointer, Scalar, Struct

I32, F32 = Scalar("i32", "int32_t", 4), Scalar("f32", "float", 4)


def argument(kind: str, value: object, order: Any = "little") -> ArrayArgument:
    pointer = parse_signature(f"(x: {kind}) -> void").pointers["x"]
    return array_argument("f", "x", pointer, value, order)


def refusal(kind: str, value: object) -> str:
    with pytest.raises(UsageError) as caught:
        argument(kind, value)
    return str(caught.value)


# -- there ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "content", "shape"),
    [
        ("const i16*", np.array([1, -2], np.int16), "01 00 fe ff", "int16[2]"),
        ("const i16*", np.array([1, -2], ">i2"), "01 00 fe ff", "int16[2]"),
        ("u64*", np.array([1], np.uint64), "01 00 00 00 00 00 00 00", "uint64[1]"),
        ("const f32*", np.array([1.5], np.float32), "00 00 c0 3f", "float32[1]"),
        ("f64*", np.array(1.5), "00 00 00 00 00 00 f8 3f", "float64[]"),
        ("bool*", np.array([True, False]), "01 00", "bool[2]"),
        ("const i8*", np.array([[1, 2], [3, 4]], np.int8), "01 02 03 04", "int8[2,2]"),
        ("const i8*", np.array([[1, 2], [3, 4]], np.int8).T, "01 03 02 04", "int8[2,2]"),
        ("const i32*", np.array([], np.int32), "", "int32[0]"),
        ("const u8*", b"ab", "61 62", "uint8[2]"),
        ("const i8*", b"a\xff", "61 ff", "int8[2]"),
        ("u8*", bytearray(b"ab"), "61 62", "uint8[2]"),
        ("const void*", b"ab", "61 62", "uint8[2]"),
        ("void*", np.array([1], np.int16), "01 00", "int16[1]"),
        ("const char*", b"ab", "61 62", "uint8[2]"),
        ("const char*", np.array([-1, 1], np.int8), "ff 01", "int8[2]"),
        ("char*", np.array([255, 1], np.uint8), "ff 01", "uint8[2]"),
        ("const char*", np.array([b"ab"], "S2"), "61 62", "bytes16[1]"),
        ("const u16*", memoryview(stdlib_array.array("H", [7])), "07 00", "uint16[1]"),
        ("i16*", stdlib_array.array("h", [7]), "07 00", "int16[1]"),
        ("const i16*", [1, -2], "01 00 fe ff", "int16[2]"),
        ("const f32*", (1, 0.5), "00 00 80 3f 00 00 00 3f", "float32[2]"),
        ("const u8*", [[1, 2], [3, 4]], "01 02 03 04", "uint8[2,2]"),
        ("const bool*", [True, 0], "01 00", "bool[2]"),
        ("const u8*", range(3), "00 01 02", "uint8[3]"),
        ("pair{4}*", bytearray(8), "00 00 00 00 00 00 00 00", "pair[2]"),
        ("const pair{4}*", np.array([(1, 2)], "u2, u2"), "01 00 02 00", "pair[1]"),
        ("const pair{4}*", np.zeros((2, 3), "V4"), "00 " * 23 + "00", "pair[2,3]"),
    ],
)
def test_an_array_goes_as_its_elements_in_c_order(
    kind: str, value: object, content: str, shape: str
) -> None:
    made = argument(kind, value)
    assert made.content().hex(" ") == content
    assert made.shape_text == shape
    assert made.size == len(made.content())
    assert made.passing is (Passing.IN if kind.startswith("const") else Passing.IN_OUT)


def test_a_big_endian_board_gets_and_gives_its_own_byte_order() -> None:
    x = np.array([1, 2], np.int16)
    made = argument("i16*", x, "big")
    assert made.content() == b"\x00\x01\x00\x02"
    made.take(b"\x00\x03\x01\x00")
    assert x.tolist() == [3, 256]
    records = np.array([(1, 2)], "u1, >u4")
    assert argument("const s{5}*", records, "big").content() == b"\x01\x00\x00\x00\x02"
    assert argument("const s{5}*", b"\x01\x02\x03\x04\x05", "big").content() == b"\1\2\3\4\5"


def test_null_and_a_block_send_nothing() -> None:
    null = argument("const i16*", None)
    assert (null.passing, null.size, null.shape_text) == (Passing.NULL, 0, "NULL")
    block = argument("i16*", Block(7, 32))
    assert (block.passing, block.size, block.shape_text) == (Passing.STAYS, 0, "block[32]")
    assert block.block == Block(7, 32)


def test_what_the_function_writes_is_kept_where_the_caller_says_so_and_in_a_block() -> None:
    values = [Keep(np.zeros(2, np.int16)), Block(7, 32), np.zeros(2, np.int16), None]
    assert [argument("i16*", value).is_kept for value in values] == [True, True, False, False]
    assert not argument("const i16*", Block(7, 32)).is_kept


# struct list { char *name; struct list *next; }; on a board with pointers of 32 bits
LIST = Struct(
    "list",
    8,
    (
        Field("name", 0, Pointer(CHAR, False, 4)),
        Field("next", 4, Pointer(Struct("list", 8), False, 4)),
    ),
)


def test_pointers_in_structs_lead_to_arrays_and_a_returned_struct_is_only_written() -> None:
    signature = parse_signature("(l: list{8}*) -> pair{4}")
    signature = replace(signature, structs={("list", 8): LIST})
    node: dict[str, object] = {"name": "&text"}
    node["next"] = node
    bound = bind("f", signature, [], {"l": node, "text": "ab"})
    made, result = bound.parts
    assert isinstance(made, ArrayArgument)
    assert isinstance(result, ArrayArgument)
    assert (made.content(), made.passing) == (bytes(8), Passing.IN_OUT)
    assert (result.size, result.passing) == (4, Passing.OUT)
    [text] = bound.extras
    assert (text.content(), text.passing) == (b"ab\0", Passing.IN_OUT)  # not const
    assert [(each.offset, each.array, each.at) for each in made.targets] == [
        (0, text, 0),
        (4, made, 0),
    ]


def test_a_copy_of_arguments_leads_to_itself_where_they_do() -> None:
    x = np.zeros(2, np.int16)
    node: dict[str, object] = {"x": x}
    node["next"] = node
    (first, second), named = copied_arguments([node, node], {"x": Out(x)})
    assert isinstance(first, dict)
    assert first is second
    assert first is not node
    assert first["next"] is first
    assert first["x"] is not x
    out = named["x"]
    assert isinstance(out, Out)
    assert out.array is first["x"]


@pytest.mark.parametrize(
    ("value", "passing"),
    [
        (np.zeros(2, np.int16), Passing.IN_OUT),
        (Out(np.zeros(2, np.int16)), Passing.OUT),
        (Keep(np.zeros(2, np.int16)), Passing.KEEP),
    ],
)
def test_what_a_function_may_write_is_returned(value: object, passing: Passing) -> None:
    made = argument("i16*", value)
    assert (made.is_returned, made.passing) == (True, passing)


# -- and back ---------------------------------------------------------------------------------


def test_what_comes_back_is_in_the_caller_s_array() -> None:
    x = np.zeros((2, 2), np.int16)
    output = argument("i16*", x).take(b"\1\0\2\0\3\0\4\0")
    assert x.tolist() == [[1, 2], [3, 4]]
    assert output.tolist() == [[1, 2], [3, 4]]
    output[0, 0] = 9
    assert x[0, 0] == 1


def test_what_comes_back_goes_through_views_that_are_not_contiguous() -> None:
    whole = np.zeros((3, 4), np.int16)
    argument("i16*", whole[1, ::2]).take(b"\1\0\2\0")
    assert whole.tolist() == [[0, 0, 0, 0], [1, 0, 2, 0], [0, 0, 0, 0]]
    turned = np.zeros((2, 3), np.uint8)
    argument("u8*", turned.T).take(bytes([1, 2, 3, 4, 5, 6]))
    assert turned.tolist() == [[1, 3, 5], [2, 4, 6]]
    big = np.zeros(1, ">i4")
    argument("i32*", big).take(b"\1\0\0\0")
    assert big.tolist() == [1]


def test_what_comes_back_fills_buffers_scalars_and_empty_arrays() -> None:
    buffer = bytearray(b"abcd")
    argument("u8*", buffer).take(b"wxyz")
    assert buffer == b"wxyz"
    words = stdlib_array.array("h", [0, 0])
    argument("i16*", words).take(b"\1\0\2\0")
    assert words.tolist() == [1, 2]
    zero_dimensional = np.zeros((), np.float32)
    argument("f32*", zero_dimensional).take(b"\0\0\xc0\x3f")
    assert zero_dimensional == 1.5
    assert argument("f32*", np.zeros((0, 3), np.float32)).take(b"").shape == (0, 3)


def test_the_bytes_between_a_struct_s_members_come_back_as_well() -> None:
    padded = np.dtype({"names": ["a", "b"], "formats": ["u1", "<u2"], "offsets": [0, 2]})
    record = np.zeros(1, padded)
    argument("s{4}*", record).take(b"\1\xee\2\0")
    assert record.tobytes() == b"\1\xee\2\0"
    assert record.tolist() == [(1, 2)]


# -- what is refused --------------------------------------------------------------------------


def test_a_wrong_element_type_is_refused_with_what_to_write() -> None:
    assert refusal("const i16*", np.zeros(256)) == (
        "x of f is float64[256]; the parameter's type is const i16*, which needs int16.\n"
        "Try: x = x.astype(numpy.int16)"
    )
    assert refusal("bool*", np.zeros(1, np.uint8)).endswith("x = x.astype(numpy.bool_)")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("i16*", np.zeros(2, np.uint16)),
        ("i16*", np.zeros(2, np.int32)),
        ("const u8*", np.zeros(2, np.int8)),
        ("const u8*", np.zeros(2, bool)),
        ("f32*", np.zeros(2, np.float16)),
        ("f64*", np.zeros(2, complex)),
        ("const i16*", b"ab"),
        ("const i64*", np.zeros(2, "M8[s]")),
    ],
)
def test_other_element_types_are_never_converted_in_silence(kind: str, value: object) -> None:
    assert "the parameter's type is" in refusal(kind, value)


def test_a_read_only_array_that_may_be_written_is_refused() -> None:
    x = np.zeros(2, np.int16)
    x.flags.writeable = False
    assert refusal("i16*", x) == (
        "x of f is read-only, and f may write it: the parameter is i16*.\n"
        "Try: x = x.copy(), or declare the parameter `const` in the source"
    )
    assert "pass a bytearray" in refusal("u8*", b"ab")
    assert argument("const i16*", x).size == 4


def test_a_list_that_may_be_written_is_refused() -> None:
    assert refusal("i16*", [1, 2]) == (
        "x of f is a list, and f may write it (i16*): what it writes would be lost.\n"
        "Try: x = numpy.array([...], dtype=numpy.int16)"
    )


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("const i8*", [1, 128], "x[1]=128 of f is out of range: i8 is -128 to 127."),
        ("const i8*", [1.5], "x[0]=1.5 of f is not an integer"),
        ("const f32*", [1e39], "x[0]=1e+39 of f is out of range of its type f32."),
        ("const i8*", ["1"], "'1' in it is not a number"),
        ("const i8*", [[1, 2], [3]], "x of f: its rows have different lengths."),
        ("const void*", [1, 2], "does not say which type the numbers have"),
        ("const s{4}*", [1, 2], "does not say which type the numbers have"),
        ("const i16*", 5, "x of f is the number 5; the parameter's type is const i16*."),
        ("const i16*", np.int16(5), "x of f is the number 5"),
        ("const i16*", "abc", "x of f is the text 'abc'"),
        ("const i16*", {1: 2}, "x of f is a dict"),
        ("const i16*", np.array([None]), "x of f holds Python objects"),
        ("const s{4}*", np.zeros(2, "u1, u2"), "x of f has elements of 3 bytes"),
        ("const s{4}*", bytes(6), "x of f has 6 bytes; the parameter's type is const s{4}*"),
        ("const s{4}*", np.zeros(2, np.float32), "x of f is float32[2]"),
        ("i32*", Block(1, 10), "is a block of 10 bytes; an element of i32* has 4."),
        ("const i16*", Out(np.zeros(2, np.int16)), "there is nothing to return"),
        ("const i16*", Keep(np.zeros(2, np.int16)), "there is nothing to keep"),
        ("i16*", Out(None), "Out is for arrays, not for None"),
        ("i16*", Keep(Block(1, 8)), "Keep is for arrays, not for a Block"),
        ("i16*", Out(Keep(np.zeros(2, np.int16))), "Out is for arrays, not for a Keep"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(kind: str, value: object, message: str) -> None:
    assert message in refusal(kind, value)


# -- two of them ------------------------------------------------------------------------------


def pair(one: object, other: object, kinds: tuple[str, str] = ("i16*", "i16*")) -> None:
    first, second = (argument(kind, value) for kind, value in zip(kinds, (one, other), strict=True))
    check_overlap("f", first, second)


def test_the_same_array_twice_and_arrays_side_by_side_are_fine() -> None:
    x = np.zeros(8, np.int16)
    pair(x, x)
    pair(x, x[:])
    pair(Out(x), Out(x))
    pair(x[:4], x[4:])
    pair(x[::2], x[1::2])
    pair(x, x, ("const i16*", "i16*"))
    pair(x, x[1:], ("const i16*", "const i16*"))


def test_views_that_overlap_are_refused_where_one_is_written() -> None:
    x = np.zeros(8, np.int16)
    with pytest.raises(UsageError, match="x and x of f overlap in memory, and one of them is wri"):
        pair(x[:5], x[4:])
    with pytest.raises(UsageError, match="overlap in memory"):
        pair(x, x[::-1], ("const i16*", "i16*"))


def test_the_same_array_in_two_ways_is_refused() -> None:
    x = np.zeros(8, np.int16)
    for one, other, kinds in [
        (Out(x), x, ("i16*", "i16*")),
        (Keep(x), x, ("i16*", "i16*")),
        (x, Out(x), ("const i16*", "i16*")),
    ]:
        with pytest.raises(UsageError, match="are the same array, passed in different ways"):
            pair(one, other, kinds)
    pair(x, Keep(x), ("const i16*", "i16*"))


# -- members of structs -----------------------------------------------------------------------

# struct pair { int16_t a; int32_t b; };
PAIR = Pointer(
    Struct("pair", 8, (Field("a", 0, Scalar("i16", "int16_t", 2)), Field("b", 4, I32))), True, 0
)


def of_pair(*fields: tuple[str, str] | tuple[str, str, int]) -> ArrayArgument:
    return array_argument("sum", "p", PAIR, np.zeros(2, list(fields)))


def test_members_at_the_same_offsets_and_of_the_same_types_are_taken() -> None:
    assert of_pair(("a", "<i2"), ("", "V2"), ("b", "<i4")).shape_text == "pair[2]"
    assert of_pair(("one", "<i2"), ("pad", "<u2"), ("other", ">i4")).size == 16
    assert of_pair(("a", "V2"), ("rest", "V6")).size == 16
    with_gap = np.dtype({"names": ["b", "a"], "formats": ["<i4", "<i2"], "offsets": [4, 0]})
    assert array_argument("sum", "p", PAIR, np.zeros(1, with_gap)).size == 8
    assert array_argument("sum", "p", PAIR, bytes(8)).size == 8


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([("b", "<i4"), ("a", "<i2"), ("", "V2")], "b is int32 at byte 0, where pair has i16"),
        ([("a", "<i2"), ("", "V2"), ("b", "<u4")], "b is uint32 at byte 4, where pair has i32"),
        ([("a", "<i2"), ("", "V2"), ("b", "<f4")], "b is float32 at byte 4, where pair has i32"),
        ([("a", "<i4"), ("b", "<i4")], "a is int32 at byte 0, where pair has i16"),
        ([("a", "<i2", 4)], "a[2] is int16 at byte 4, where pair has i32"),
        ([("a", "<i2"), ("b", "<i2", 3)], "b[1] is int16 at byte 4, where pair has i32"),
        ([("n", "<i8")], "n is int64 at byte 0, where pair has i16"),
    ],
)
def test_members_elsewhere_or_of_other_types_are_refused(fields: Any, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        of_pair(*fields)
    assert str(caught.value) == (
        f"p of sum has different members from const pair{{8}}*: {why}.\nTry: p = numpy.zeros(1, "
        "dtype=board.dtypes['pair']), which is {'names': ['a', 'b'], 'formats': ['<i2', '<i4'], "
        "'offsets': [0, 4], 'itemsize': 8}"
    )


def test_a_member_that_is_left_out_is_refused() -> None:
    only_a = np.dtype({"names": ["a"], "formats": ["<i2"], "offsets": [0], "itemsize": 8})
    with pytest.raises(UsageError, match="nothing is at byte 4, where pair has i32"):
        array_argument("sum", "p", PAIR, np.zeros(1, only_a))


def test_of_members_that_overlap_one_is_enough() -> None:
    # struct tagged { char name[4]; union { uint32_t bits; float value; }; };
    either = Struct("", 4, (Field("bits", 0, Scalar("u32", "uint32_t", 4)), Field("value", 0, F32)))
    fields = (Field("name", 0, CHAR, (4,)), Field("", 4, either))
    pointer = Pointer(Struct("tagged", 8, fields), False, 0)
    for dtype in ("S4, u4", "S4, f4", "4u1, f4", "4i1, u4"):
        assert array_argument("f", "x", pointer, np.zeros(1, dtype)).size == 8
    with pytest.raises(UsageError, match="f1 is int32 at byte 4, where tagged has u32 or f32"):
        array_argument("f", "x", pointer, np.zeros(1, "S4, i4"))


def test_each_element_of_a_member_that_is_an_array_is_checked() -> None:
    # struct row { int32_t n; int16_t taps[3]; };
    taps = Field("taps", 4, Scalar("i16", "int16_t", 2), (3,))
    pointer = Pointer(Struct("row", 12, (Field("n", 0, I32), taps)), False, 0)

    def refusal_of(*fields: tuple[str, str] | tuple[str, str, int]) -> str:
        with pytest.raises(UsageError) as caught:
            array_argument("f", "x", pointer, np.zeros(1, list(fields)))
        return str(caught.value)

    right = np.dtype([("n", "<i4"), ("taps", "<i2", 3), ("", "V2")])
    assert array_argument("f", "x", pointer, np.zeros(1, right)).size == 12
    assert "last is uint16 at byte 8, where row has i16." in refusal_of(
        ("n", "<i4"), ("taps", "<i2", 2), ("last", "<u2"), ("", "V2")
    )
    assert "both is int32 at byte 6, where row has i16." in refusal_of(
        ("n", "<i4"), ("taps", "<i2"), ("both", "<i4"), ("", "V2")
    )


def test_padding_may_hold_anything() -> None:
    # struct stamped { int8_t kind; double at; }; with 7 bytes of padding
    kind = Field("kind", 0, Scalar("i8", "int8_t", 1))
    fields = (kind, Field("at", 8, Scalar("f64", "double", 8)))
    pointer = Pointer(Struct("stamped", 16, fields), False, 0)
    for padding in ("V3, V4", "V3, u4", "S3, f4", "u1, 3u2"):
        assert array_argument("f", "x", pointer, np.zeros(1, f"i1, {padding}, f8")).size == 16


def test_bytes_that_end_within_a_struct_are_told_what_to_pad_them_to() -> None:
    assert "Try: pad it to 12 bytes, or " in refusal("packet{4}*", bytearray(9))


def test_inputs_are_told_apart_by_what_the_function_finds_in_its_arrays() -> None:
    """The CRC-32 of ``x``, a zero byte and ``abc`` is the one that gzip writes for these bytes."""

    def inputs(kind: str, *values: object) -> str:
        return bind("f", parse_signature(kind), values, {}).inputs_crc32()

    assert inputs("(x: const u8*) -> void", b"abc") == "c5e5c4c3"
    assert inputs("(x: u8*) -> void", bytearray(b"abc")) == "c5e5c4c3"
    assert inputs("(x: u8*) -> void", Keep(bytearray(b"abc"))) == "c5e5c4c3"
    assert inputs("(x: const u8*) -> void", b"abd") != "c5e5c4c3"
    assert inputs("(x: const u8*, y: const u8*) -> void", b"abc", b"") != "c5e5c4c3"
    for nothing in (Out(bytearray(3)), None, Block(1, 3)):
        assert inputs("(x: u8*) -> void", nothing) == ""
    assert inputs("(n: i32) -> void", 5) == ""
