# SPDX-License-Identifier: Apache-2.0
"""Signatures, and arguments packed as their types say. Packed bytes are from the msgpack spec."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boardprof.base.errors import FrameError, UnknownNameError, UsageError
from boardprof.target.arguments.binding import bind
from boardprof.target.arguments.signature import pack_arguments, parse_signature
from boardprof.target.cfunction import Field, Pointer, Scalar, Struct


def pack(kind: str, value: object) -> str:
    """Return one argument as it goes over the wire, in hex."""
    packed, count = pack_arguments("f", parse_signature(f"(x: {kind}) -> void"), [value], {})
    assert count == 1
    return packed.hex(" ")


def test_a_signature_has_parameters_in_order_and_a_result() -> None:
    signature = parse_signature("(n: u32, gain: f32) -> i32")
    assert signature.parameters == (("n", "u32"), ("gain", "f32"))
    assert (signature.result, signature.text) == ("i32", "(n: u32, gain: f32) -> i32")
    assert parse_signature("() -> void").parameters == ()


def test_signatures_are_equal_whatever_else_is_known_of_their_structs() -> None:
    told = parse_signature("(p: pair{4}*) -> pair{4}")
    pair = Struct("pair", 4, (Field("a", 0, Scalar("i16", "int16_t", 2)),))
    known = replace(
        told,
        pointers={"p": Pointer(pair, False, 4)},
        returns=Pointer(pair, False, 4, by_value=True),
        structs={("pair", 4): pair},
    )
    assert known == told
    assert told != parse_signature("(q: pair{4}*) -> pair{4}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "()",
        "n: u32 -> i32",
        "(n: u128) -> void",
        "(n) -> void",
        "(p: *u8) -> void",
        "(p: u8**) -> void",
    ],
)
def test_what_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a signature|unknown type"):
        parse_signature(text)


@pytest.mark.parametrize(
    ("kind", "value", "packed"),
    [
        ("u8", 0, "00"),
        ("u8", 127, "7f"),
        ("u8", 255, "cc ff"),
        ("u16", 256, "cd 01 00"),
        ("u32", 4_294_967_295, "ce ff ff ff ff"),
        ("u64", 18_446_744_073_709_551_615, "cf ff ff ff ff ff ff ff ff"),
        ("i8", -1, "ff"),
        ("i8", -128, "d0 80"),
        ("i16", -32_768, "d1 80 00"),
        ("i32", -2_147_483_648, "d2 80 00 00 00"),
        ("i64", -9_223_372_036_854_775_808, "d3 80 00 00 00 00 00 00 00"),
        ("i64", 9_223_372_036_854_775_807, "cf 7f ff ff ff ff ff ff ff"),
        ("f32", 1.5, "ca 3f c0 00 00"),
        ("f32", 2, "ca 40 00 00 00"),
        ("f64", 1.5, "cb 3f f8 00 00 00 00 00 00"),
        ("f64", "-inf", "cb ff f0 00 00 00 00 00 00"),
        ("bool", True, "c3"),
        ("bool", 0, "c2"),
        ("bool", "true", "c3"),
        ("bool", "false", "c2"),
        ("u32", "0x10", "10"),
        ("u32", "0b11", "03"),
        ("i32", "-7", "f9"),
        ("i16", np.int16(-5), "fb"),
        ("f32", np.float32(1.5), "ca 3f c0 00 00"),
    ],
)
def test_a_value_is_packed_as_its_type(kind: str, value: object, packed: str) -> None:
    assert pack(kind, value) == packed


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("i8", -128, 127),
        ("i16", -32_768, 32_767),
        ("i32", -2_147_483_648, 2_147_483_647),
        ("i64", -9_223_372_036_854_775_808, 9_223_372_036_854_775_807),
        ("u8", 0, 255),
        ("u16", 0, 65_535),
        ("u32", 0, 4_294_967_295),
        ("u64", 0, 18_446_744_073_709_551_615),
        ("bool", 0, 1),
    ],
)
def test_the_ends_of_a_range_fit_and_one_more_does_not(kind: str, low: int, high: int) -> None:
    pack(kind, low)
    pack(kind, high)
    for value in (low - 1, high + 1):
        message = f"x={value} of f is out of range: {kind} is {low} to {high}."
        with pytest.raises(UsageError) as caught:
            pack(kind, value)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("kind", "fit", "others"),
    [
        ("i8", [-128, 127], [-129, 128, 0.0, True, None, "0", [0]]),
        ("u16", [0, 65535], [-1, 65536]),
        ("i64", [-(2**63), 2**63 - 1], [2**63]),
        ("u64", [0, 2**64 - 1], [-1, 2**64]),
        ("f32", [0.5, float("nan"), float("inf")], [1, None, b"\0"]),
        ("bool", [False, True], [0, 1, None]),
        ("void", [None], [0, False, ""]),
    ],
)
def test_a_result_is_a_value_of_its_type(
    kind: str, fit: list[object], others: list[object]
) -> None:
    signature = parse_signature(f"() -> {kind}")
    for value in fit:
        signature.check_result("f", value)
    for value in others:
        with pytest.raises(FrameError, match=rf"^f\(\) -> {kind} returned .* of type {kind}"):
            signature.check_result("f", value)


def test_a_value_that_an_enum_does_not_have_is_refused_with_those_it_has() -> None:
    signature = parse_signature("(color: u32) -> void")
    enum = Scalar("u32", "enum color", 4, (("RED", 0), ("BLUE", 5)))
    known = replace(signature, numbers={"color": enum})
    assert pack_arguments("f", known, ["BLUE"], {})[0].hex() == "05"
    for each, hint in ((known, "a number, RED, BLUE"), (signature, "an integer, such as 64")):
        with pytest.raises(UsageError) as caught:
            pack_arguments("f", each, ["GREEN"], {})
        assert str(caught.value) == (
            f"color='GREEN' of f is not an integer; the parameter's type is u32.\nTry: {hint}"
        )


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_a_text_is_infinite_only_if_it_says_so(kind: str) -> None:
    for text in ("1e400", "-1e400"):
        with pytest.raises(UsageError, match=f"x='{text}' of f is out of range") as caught:
            pack(kind, text)
        assert caught.value.hint == "write inf or -inf if infinity is meant"
    assert pack("f32", "-inf") == "ca ff 80 00 00"


def test_a_float_that_is_too_large_for_its_type_is_out_of_range() -> None:
    with pytest.raises(UsageError, match=r"x=1e\+39 of f is out of range of its type f32\."):
        pack("f32", 1e39)
    pack("f64", 1e39)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("i32", "ten", "x='ten' of f is not an integer; the parameter's type is i32."),
        ("i32", "", "x='' of f is not an integer"),
        ("i32", "1e3", "x='1e3' of f is not an integer"),
        ("i32", 1.5, "x=1.5 of f is not an integer"),
        ("i32", None, "x=None of f is not an integer"),
        ("i32", np.float32(1.0), "of f is not an integer"),
        ("bool", "yes", "x='yes' of f is not an integer; the parameter's type is bool."),
        ("f64", "fast", "x='fast' of f is not a number; the parameter's type is f64."),
        ("f32", [1.0], r"x=[1.0] of f is not a number"),
    ],
)
def test_what_is_no_number_is_refused(kind: str, value: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        pack(kind, value)
    assert message in str(caught.value)


def test_arguments_go_by_position_and_by_name() -> None:
    signature = parse_signature("(a: u8, b: u8, c: u8) -> void")
    assert pack_arguments("f", signature, [1], {"c": 3, "b": 2}) == (b"\x01\x02\x03", 3)
    assert pack_arguments("f", parse_signature("() -> void"), [], {}) == (b"", 0)


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ([], {}, "f was called without a, b."),
        ([1], {}, "f was called without b."),
        ([1, 2, 3], {}, "f was called with 3 arguments."),
        ([1, 2], {"a": 1}, "f was called with a given twice."),
    ],
)
def test_too_few_too_many_and_twice_are_refused(
    args: list[object], named: dict[str, object], message: str
) -> None:
    signature = parse_signature("(a: u8, b: u8) -> void")
    with pytest.raises(UsageError) as caught:
        pack_arguments("f", signature, args, named)
    assert str(caught.value) == f"{message}\nTry: f(a: u8, b: u8) -> void"


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    signature = parse_signature("(length: u8, gain: u8) -> void")
    with pytest.raises(UnknownNameError) as caught:
        pack_arguments("f", signature, [], {"lenght": 1})
    assert str(caught.value).startswith("There is no parameter 'lenght'; did you mean 'length'?")


def test_an_object_that_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="is not an integer"):
        pack("u8", Path("x"))


@pytest.mark.parametrize(
    ("kind", "element", "const", "size"),
    [
        ("const i16*", "i16", True, 2),
        ("char*", "char", False, 1),
        ("i32*", "i32", False, 4),
        ("bool*", "bool", False, 1),
        ("const f64*", "f64", True, 8),
        ("void*", None, False, 1),
        ("const void*", None, True, 1),
    ],
)
def test_a_pointer_says_what_it_points_to(
    kind: str, element: str | None, const: bool, size: int
) -> None:
    pointer = parse_signature(f"(n: u32, p: {kind}) -> void").pointers["p"]
    assert (pointer.element.text if isinstance(pointer.element, Scalar) else None) == element
    assert (pointer.const, pointer.element_size, pointer.text) == (const, size, kind)


def test_a_pointer_to_a_struct_says_its_name_and_size() -> None:
    signature = parse_signature("(s: fir_state{24}*, t: const a::b<c, d>{3}*, n: u8) -> void")
    assert signature.pointers["s"].element == Struct("fir_state", 24)
    assert signature.pointers["t"].element == Struct("a::b<c, d>", 3)
    assert [name for name, _ in signature.parameters] == ["s", "t", "n"]


def test_three_scalars_are_packed_in_a_few_microseconds() -> None:
    signature = parse_signature("(n: u32, a: i16, gain: f32) -> i32")
    begin = time.process_time()
    for _ in range(10_000):
        pack_arguments("f", signature, (256, -3, 0.5), {})
    # 1.5 us on the machine where it was written; a busy or slow one takes its time.
    assert time.process_time() - begin < 0.2


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        ("i32", ["16", "0x10", "+16", " 16", "0b10000", 16, np.int16(16)], "16"),
        ("u8", ["true", "1", True, 1], "1"),
        ("i8", ["-0", "false", 0, False], "0"),
        ("bool", ["true", "1", "0x1", True, 1], "true"),
        ("f64", ["1.5", "15e-1", "+1.50", 1.5, np.float32(1.5)], "1.5"),
        ("f32", ["1", "1.0", " 1", 1, 1.0, True], "1"),
        ("f64", ["100000000000000000000", 10**20, 1e20], "1e+20"),
        ("f32", ["0.1", 0.1, np.float32(0.1), "0.10000000149"], "0.1"),
        ("f64", ["0.1", 0.1], "0.1"),
        ("f64", [np.float32(0.1)], "0.10000000149011612"),
        ("f32", [16777217, "16777216"], "16777216"),
        ("f32", [3.4028234663852886e38], "3.4028235e+38"),
        ("f32", ["inf", float("inf")], "inf"),
        ("f32", ["nan", float("nan")], "nan"),
        ("f64", ["-0", -0.0], "-0"),
    ],
)
def test_an_argument_shows_as_what_its_type_makes_of_it(
    kind: str, values: list[object], text: str
) -> None:
    signature = parse_signature(f"(x: {kind}) -> void")
    shown = {bind("f", signature, [value], {}).text for value in values}
    assert shown == {f"x={text}"}
