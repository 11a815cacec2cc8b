# SPDX-License-Identifier: Apache-2.0
"""Arguments of the command line: numbers, files, generated arrays, and how they are passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boardprof.base.errors import UsageError
from boardprof.target.arguments.argument_text import read_argument
from boardprof.target.arguments.passing import Keep, Out
from boardprof.target.arguments.signature import parse_signature


def value(text: str, kind: str) -> Any:
    """Return what ``x=text`` passes for a parameter of a type."""
    pointer = parse_signature(f"(x: {kind}) -> void").pointers.get("x")
    return read_argument("x", text).value(pointer)


def refusal(text: str, kind: str = "i16*") -> str:
    with pytest.raises(UsageError) as caught:
        value(text, kind)
    return str(caught.value)


@pytest.mark.parametrize("text", ["256", "0x100", "-7", "1.5", "true", "1e-3", "nan"])
def test_a_number_stays_a_text_until_its_type_is_known(text: str) -> None:
    assert value(text, "i32") == text


@pytest.mark.parametrize(
    ("text", "dtype", "content"),
    [
        ("int16[3]:zeros", np.int16, [0, 0, 0]),
        ("int16[3]", np.int16, [0, 0, 0]),
        ("i16[2]:ones", np.int16, [1, 1]),
        ("float32[2,2]:ones", np.float32, [[1.0, 1.0], [1.0, 1.0]]),
        ("f64[1, 2]:zeros", np.float64, [[0.0, 0.0]]),
        ("bool[2]:ones", np.bool_, [True, True]),
        ("u8[0]:ones", np.uint8, []),
        ("uint64[1]:ones", np.uint64, [1]),
    ],
)
def test_zeros_and_ones_are_of_the_type_and_shape(
    text: str, dtype: type[np.generic], content: object
) -> None:
    made = value(text, "void*")
    assert (made.dtype, made.tolist()) == (np.dtype(dtype), content)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        # What numpy's Generator(PCG64(seed)) gives, which was asked without boardprof.
        ("u8[4]:random(7)", [139, 74, 229, 241]),
        ("int16[4]:random", [607, 22978, 27599, 8975]),
        ("float32[2]:random(0)", [0.7012484073638916, 0.27392327785491943]),
    ],
)
def test_random_is_the_same_everywhere(text: str, content: list[float]) -> None:
    assert value(text, "void*").tolist() == content


def test_random_fills_the_whole_range_of_integers() -> None:
    made = value("int8[4096]:random", "i8*")
    assert (made.min(), made.max()) == (-128, 127)
    wide = value("uint64[4096]:random", "u64*")
    assert wide.max() > 2**64 - 2**56
    assert set(value("bool[64]:random", "bool*").tolist()) == {False, True}


@pytest.mark.parametrize("text", ["float32[4096]:random", "float64[4096]:random"])
def test_random_floats_are_between_minus_one_and_one(text: str) -> None:
    made = value(text, "void*")
    assert -1.0 <= made.min() < -0.99
    assert 0.99 < made.max() < 1.0


def test_the_seed_is_zero_unless_told() -> None:
    first = value("int32[8]:random", "i32*")
    assert first.tolist() == value("int32[8]:random(0)", "i32*").tolist()
    assert first.tolist() != value("int32[8]:random(1)", "i32*").tolist()


def test_out_and_keep_are_said_behind_the_content() -> None:
    assert isinstance(value("int16[4]:out", "i16*"), Out)
    assert isinstance(value("int16[4]:zeros:out", "i16*"), Out)
    kept = value("int16[4]:ones:keep", "i16*")
    assert isinstance(kept, Keep)
    assert kept.array.tolist() == [1, 1, 1, 1]


def test_an_npy_file_is_the_array_that_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.array([[1, 2]], np.int16))
    made = value(f"@{file}", "const i16*")
    assert (made.dtype, made.tolist()) == (np.dtype(np.int16), [[1, 2]])
    assert isinstance(value(f"@{file}:out", "i16*"), Out)
    assert isinstance(value(f"@{file}:keep", "i16*"), Keep)


def test_each_board_gets_a_copy_of_its_own(tmp_path: Path) -> None:
    pointer = parse_signature("(x: i16*) -> void").pointers["x"]
    text = read_argument("x", "int16[1]:ones")
    first: Any = text.value(pointer)
    first[0] = 5
    second: Any = text.value(pointer)
    assert second.tolist() == [1]


def test_a_bin_file_is_the_parameter_s_own_elements(tmp_path: Path) -> None:
    file = tmp_path / "x.bin"
    file.write_bytes(b"\1\0\xff\xff")
    made = value(f"@{file}", "i16*")
    assert (made.dtype, made.tolist()) == (np.dtype("<i2"), [1, -1])
    made[0] = 3  # it may be written
    assert value(f"@{file}", "s{4}*") == bytearray(b"\1\0\xff\xff")
    assert value(f"@{file}", "const void*") == bytearray(b"\1\0\xff\xff")
    assert "has 4 bytes; an element of i64* has 8" in refusal(f"@{file}", "i64*")


def test_null_is_no_address() -> None:
    assert value("NULL", "i16*") is None
    assert "is an array, but the parameter is a number" in refusal("NULL", "i32")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int16[4]:randm", "'randm' is not a content; did you mean 'random'?"),
        ("[4]:one", "'one' is not a content; did you mean 'ones'?"),
        ("flaot32[4]", "'flaot32' is not known; the parameter's type is i16*"),
        ("flaot32[4]", "; did you mean 'float32'?"),
        ("int16[4]:random(x)", "'random(x)' is not a content"),
        ("int16[4]:ones:zeros", "has more than one content"),
        ("int16[4]:out:keep", "'out' is not a content"),
        ("int16[4", "is not a known form of argument"),
        ("int16:ones", "is not a known form of argument"),
        ("int16[-4]", "is not a known form of argument"),
        ("int16[4,]", "[4,] is not a shape"),
        ("int16[]:random", "[] is not a shape"),
        ("int[4]", "the element type 'int' is not known"),
        ("float16[4]", "the element type 'float16' is not known"),
        ("int64[999999999999999]", "cannot be made"),
        ("@nowhere.npy", "nowhere.npy cannot be read: No such file or directory."),
        ("@nowhere.bin", "nowhere.bin cannot be read: No such file or directory."),
        ("5", "x=5 is not an array; the parameter's type is i16*."),
    ],
)
def test_what_has_no_known_form_is_refused(text: str, message: str) -> None:
    assert message in refusal(text)


def test_a_number_for_a_pointer_has_the_hint_for_one_element() -> None:
    with pytest.raises(UsageError) as caught:
        value("0x10", "u32*")
    assert str(caught.value.hint).startswith("x='[0x10]' points to this number. For an array: ")


def test_a_value_of_an_enum_class_may_have_its_scope() -> None:
    assert value("Mode::on", "u8") == "on"
    assert value("lab::Mode::on", "u8") == "on"
    assert refusal("Mode::on", "u8*").startswith("x=Mode::on is not an array; ")
    assert value("Mode::on", "const char*") == "Mode::on"


def test_an_array_for_a_scalar_is_refused() -> None:
    assert refusal("int16[4]:ones", "i16") == (
        "x=int16[4]:ones is an array, but the parameter is a number.\nTry: x=NUMBER"
    )


def test_a_file_of_another_kind_is_not_taken_for_raw_bytes(tmp_path: Path) -> None:
    text = tmp_path / "data.csv"
    text.write_text("1,2,3\n4,5,6")
    assert refusal(f"@{text}") == (
        f"x=@{text}: {text} is neither a .npy file nor a .bin file.\n"
        "Try: numpy.save writes a .npy file; give a file of raw bytes the name NAME.bin"
    )
    assert "neither a .npy file nor a .bin file" in refusal(f"@{text}:keep")
    for name in ("data.bin", "data.BIN", "data"):
        (tmp_path / name).write_bytes(b"\x01\x00\xff\xff")
        assert np.asarray(value(f"@{tmp_path / name}", "i16*")).tolist() == [1, -1]


def test_any_file_is_the_text_or_the_bytes_that_it_holds(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(b"<p>\r\n")
    assert value(f"@{page}", "char*") == bytearray(b"<p>\r\n\0")
    assert np.asarray(value(f"@{page}", "u8*")).tolist() == [60, 112, 62, 13, 10]
    assert value(f"@{page}", "const void*") == bytearray(b"<p>\r\n")


@pytest.mark.parametrize("text", ["[0-9]+x*", '{"a": [1, 2]}', "{{name}}"])
def test_what_can_only_be_a_text_is_one_for_char(text: str) -> None:
    assert value(text, "char*") == bytearray(text.encode() + b"\0")
    assert "x=" + text in refusal(text)
    with pytest.raises(UsageError):
        read_argument("x", text).value(None)


def test_bytes_of_a_command_line_that_are_not_utf_8_stay_as_they_are() -> None:
    assert value("caf\udce9", "char*") == bytearray(b"caf\xe9\0")  # as Python gives Latin-1's
    message = r"x: '\ud800' has half of a UTF-16 pair, for which UTF-8 has no form."
    assert refusal("\ud800", "char*").startswith(message)


def test_a_text_that_may_be_a_list_has_a_hint_that_quotes_it() -> None:
    assert refusal("[a-z]", "char*").endswith(
        """[0]=a-z is not an integer.\nTry: as a text, in double quotes: x='"[a-z]"'"""
    )
    assert value('"[a-z]"', "char*") == bytearray(b"[a-z]\0")


def test_an_array_larger_than_the_arena_is_refused_before_it_is_made() -> None:
    """The numbers would take 4 TB."""
    for content in ("zeros", "ones", "random"):
        text = read_argument("x", f"[1000000000000]:{content}")
        with pytest.raises(
            UsageError, match="takes 4,000,000,000,000 bytes; the board's"
        ) as caught:
            text.value(parse_signature("(x: f32*) -> void").pointers["x"], 262_144)
        assert caught.value.message.endswith(" arena has 262,144 bytes.")
        assert "pass a smaller array" in (caught.value.hint or "")


def test_an_array_for_which_this_machine_has_no_memory_has_a_hint() -> None:
    assert refusal("float64[99999999999999]:ones").endswith("\nTry: a smaller array")


def test_files_that_hold_no_array_of_numbers_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.npy"
    text.write_text("1 2 3\n")
    assert "text.npy is not a .npy file of numbers: it is text.\nTry: numpy" in refusal(f"@{text}")
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([None]), allow_pickle=True)
    assert "is not a .npy file of numbers: it holds Python objects.\n" in refusal(f"@{objects}")
    picture = tmp_path / "picture.npy"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    begins = "is not a .npy file of numbers: it begins with the bytes 89 50 4e 47 0d 0a 1a 0a.\n"
    assert begins in refusal(f"@{picture}")
    cut = tmp_path / "cut.npy"
    np.save(cut, np.zeros(10, np.int32))
    cut.write_bytes(cut.read_bytes()[:-4])
    assert "is not a .npy file of numbers: " in refusal(f"@{cut}")
    assert "could only read 9 elements" in refusal(f"@{cut}")
    several = tmp_path / "several.npy"
    with several.open("wb") as file:
        np.savez(file, a=np.zeros(1))
    assert "holds several arrays" in refusal(f"@{several}")
    empty = tmp_path / "empty.npy"
    empty.touch()
    assert "is not a .npy file of numbers: it is empty.\n" in refusal(f"@{empty}")
