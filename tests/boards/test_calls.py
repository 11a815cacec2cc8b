# SPDX-License-Identifier: Apache-2.0
"""Strings, enums, bit-fields, structs by value and pointers of all kinds, on three processors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boardprof.base.errors import RpcError, UsageError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.target.arguments.passing import BoardPointer
from boardprof.target.descriptions.board import board_spec
from boardprof_protocol.codes import ErrorCode
from tests.firmware import build

FIXTURES = Path(__file__).parent / "fixtures"
BOARDS = ("native", "qemu-rv32", "qemu-cortex-m3")


@pytest.fixture(scope="module", params=BOARDS)
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    firmware = build(board_spec(request.param), [FIXTURES / "calls.c"])
    with firmware.open() as opened:
        yield opened


@pytest.fixture(scope="module", params=("native", "qemu-rv32"))
def cpp(request: pytest.FixtureRequest) -> Iterator[Board]:
    firmware = build(board_spec(request.param), [FIXTURES / "calls.cpp"])
    with firmware.open() as opened:
        yield opened


CASES: list[tuple[str, list[Any], Any]] = [
    ("length", ["hello"], 5),
    ("length", [b"four\0"], 4),
    ("color_number", ["GREEN"], 50),
    ("color_number", [6], 6),
    (
        "settings_sum",
        [{"mode": 5, "level": -3, "big": 7, "tail": 2, "color": "GREEN"}],
        4984,
    ),
    (
        "make_settings",
        [3, -2],
        {"mode": 3, "level": -2, "big": 77, "tail": 0, "color": 6},
    ),
    ("middle", [{"x": 2, "y": -4}, {"x": 10, "y": 20}], {"x": 6, "y": 8}),
    (
        "grown",
        [{"re": 1.0, "im": 2.0, "tag": 7, "w": [1, 2, 3]}, 2.5],
        {"re": 2.5, "im": 5.0, "tag": 8, "w": [1.0, 2.0, 9.0]},
    ),
    ("apply", ["square", 4], 14),
    ("sum_list", [None], 0),
    ("sum_list", [{"value": 3}], 3),
    ("sum_list", [{"value": 3, "next": {"value": 4, "next": {"value": 5, "name": "A"}}}], 77),
    ("filtered", [{"taps": [1, 2, 3], "count": 3, "scale": None}, [10, 20, 30]], 140),
    ("filtered", [{"taps": [1, 2, 3], "count": 3, "scale": "square"}, [1, 0, 1]], 16),
]


@pytest.mark.parametrize(("function", "args", "result"), CASES)
def test_a_call_returns_what_c_does(
    board: Board, function: str, args: list[Any], result: Any
) -> None:
    assert board.functions[function](*args) == result


def test_a_measurement_counts_a_call_with_structs_exactly(board: Board) -> None:
    """The recorder of the emulator, or callgrind, contradicts if the counts differ."""
    args = ({"x": 2, "y": -4}, {"x": 10, "y": 20})
    measured = board.measure("middle", *args, repeat=2)
    assert measured.result == "{x=6, y=8}"
    assert measured.arguments == "a={x=2, y=-4}, b={x=10, y=20}"
    if board.spec.name == "qemu-rv32":
        profile = board.hotspots("middle", *args)
        assert profile.sum("instructions") == measured.nets["instructions"][0]


def test_a_pointer_into_an_argument_is_a_place_in_it(board: Board) -> None:
    found = board.functions.find("hello", ord("l"))
    assert str(found) == "text+2"
    assert board.functions.find("hello", ord("z")) is None
    assert board.measure("find", "hello", ord("l"), repeat=1).result == "text+2"


def test_the_end_of_an_array_is_not_the_beginning_of_the_next(board: Board) -> None:
    a, b = np.arange(4, dtype=np.int32), np.arange(4, 8, dtype=np.int32)  # 16 bytes each
    assert str(board.functions.place(a, b, 0)) == "a+16"
    assert str(board.functions.place(a, b, 1)) == "b"


def test_a_pointer_to_a_variable_is_its_symbol_and_can_be_passed(board: Board) -> None:
    third = board.functions.count_at(3)
    assert isinstance(third, BoardPointer)
    assert str(third) == "counts+12"
    before = board.functions.add_to(third, 0)
    assert board.functions.add_to(third, 5) == before + 5  # type: ignore[operator]
    assert board.measure("count_at", 1, repeat=1).result == "counts+4"


def test_a_returned_text_is_read_where_it_is(board: Board) -> None:
    greeting = board.functions.greeting()
    assert isinstance(greeting, BoardPointer)
    assert str(greeting) == "hello"  # the variable
    assert board.memory.text_at(greeting) == "hello, board"
    assert board.memory.text_at(greeting, 5) == "hello"
    assert board.functions.length(greeting) == 12
    assert board.measure("greeting", repeat=1).result == '"hello, board"'


def test_a_dict_gets_what_the_function_wrote(board: Board) -> None:
    head: dict[str, Any] = {"value": 1}
    node: dict[str, Any] = {"value": 2}
    assert str(board.functions.push(head, node)) == "node"
    assert node["next"] is head
    assert (node["value"], node["name"]) == (2, None)
    assert board.functions.sum_list(node) == 3


def test_a_pointer_by_pointer_comes_back(board: Board) -> None:
    end: dict[str, Any] = {}
    assert board.functions.parse("7 more", end) == 7
    assert str(end["to"]) == "text+2"


def test_an_array_in_a_struct_is_changed_in_place_and_put_back(board: Board) -> None:
    data = np.array([1, 2, 3], np.uint8)
    board.functions.fill({"bytes": data, "count": 2}, 10)
    assert data.tolist() == [11, 12, 3]
    measured = board.measure("fill", {"bytes": data, "count": 3}, 1, repeat=3)
    assert data.tolist() == [12, 13, 4]
    assert measured.sent_again == "pointers in structs lead to arrays that the function may change"


def test_what_a_pointer_in_a_struct_may_write_is_put_back_though_a_parameter_is_const(
    board: Board,
) -> None:
    def nodes() -> list[dict[str, Any]]:
        return [{"next": "&first[1]"}, {"value": 40, "next": "&first[2]"}, {"value": 2}]

    # The result of the last call: it found the values, not what the calls before had left.
    assert board.measure("drain", nodes(), repeat=3).result == 42
    drained = nodes()
    assert board.functions.drain(drained) == 42
    assert [node["value"] for node in drained] == [0, 0, 0]


def test_a_text_in_a_struct_is_put_back(board: Board) -> None:
    assert board.functions.first_word({"text": "four words"}) == 4
    assert board.measure("first_word", {"text": "four words"}, repeat=3).result == 4


def test_a_block_of_the_board_is_pointed_to(board: Board) -> None:
    block = board.memory.alloc(4)
    board.memory.write(block, bytes([1, 2, 3, 4]))
    board.functions.fill({"bytes": block, "count": 4}, 1)
    board.functions.fill({"bytes": block, "count": 4}, 1)
    assert board.memory.read(block) == bytes([3, 4, 5, 6])
    board.memory.free(block)


def test_numpy_arrays_show_a_pointer_only_as_null_or_not(board: Board) -> None:
    nodes = np.zeros(2, board.dtypes["node"])
    board.functions.push(None, nodes)
    assert nodes["next"].tolist() == [0, 0]
    head = np.zeros(1, board.dtypes["node"])
    board.functions.push(head, nodes)
    assert nodes["next"].tolist() == [2 ** (8 * board.welcome.pointer_size) - 1, 0]
    with pytest.raises(UsageError, match="has a pointer that is not NULL"):
        board.functions.sum_list(nodes)


def test_sixteen_arguments_are_passed_and_measured(board: Board) -> None:
    p = np.zeros(1, np.int32)
    numbers = list(range(1, 16))
    assert board.functions.sixteen(*numbers, p) == 1036
    assert p.tolist() == [204]
    p[0] = 0
    assert board.measure("sixteen", *numbers, p, repeat=2).result == 1036
    assert p.tolist() == [204]


def test_what_does_not_fit_is_refused_before_the_call(board: Board) -> None:
    for function, args, message in [
        ("middle", [{"x": 40000}, {}], "x=40000 is out of range: i16 is -32768 to 32767"),
        ("settings_sum", [{"mode": 8}], "mode=8 is out of range: a field of 3 bits is 0 to 7"),
        ("settings_sum", [{"level": -17}], "a field of 5 bits is -16 to 15"),
        ("settings_sum", [{"color": "PINK"}], "color=PINK is not an integer"),
        ("color_number", ["PINK"], "c='PINK' of color_number is not an integer"),
        ("middle", [None, {}], "the parameter's type is point_t{4}"),
        ("apply", [None.__class__, 1], "it is a pointer to a function"),
        ("filtered", [{"taps": "&none"}, [1]], "There is no array for f.taps 'none'"),
        ("find", ["a\0b", 1], "the text contains a zero character"),
    ]:
        with pytest.raises(UsageError) as caught:
            board.functions[function](*args)
        assert message in str(caught.value)


def test_a_pointer_of_another_session_is_refused() -> None:
    firmware = build(board_spec("native"), [FIXTURES / "calls.c"])
    with firmware.open() as first:
        pointer = first.functions.count_at(3)
    with firmware.open() as second, pytest.raises(RpcError) as caught:
        second.functions.add_to(pointer, 1)
    assert caught.value.code == ErrorCode.BAD_HANDLE


def test_functions_of_cpp_have_their_own_names(cpp: Board) -> None:
    assert list(cpp.functions) == [
        "Gain::run",
        "k::dot",
        "k::half(f32)",
        "k::half(i32)",
        "twice<long int>" if cpp.spec.name == "qemu-rv32" else "twice<int>",
    ]
    x = np.array([1, 2, 3], np.int16)
    assert cpp.functions["k::dot"](x, x, 3) == 14
    assert cpp.functions["k::half(i32)"](7) == 3
    assert cpp.functions["k::half(f32)"](7) == 3.5
    gain = {"gain": 3}
    assert cpp.functions["Gain::run"](gain, 5) == 15
    assert gain == {"gain": 15}


def test_an_image_of_its_own_tells_of_its_structs(tmp_path: Path) -> None:
    spec = board_spec("qemu-rv32")
    image = build(spec, [FIXTURES / "calls.c"]).image
    with connect(spec, image=image) as board:
        assert board.dtypes["point_t"].names == ("x", "y")
        assert board.functions.middle({"x": 2}, {"x": 4}) == {"x": 3, "y": 0}
        assert board.functions.color_number("GREEN") == 50
        assert board.functions.sum_list({"value": 1, "next": {"value": 2}}) == 3


def test_a_variable_is_not_taken_for_flash_at_the_same_address() -> None:
    """On AVR both memories begin at 0, and the agent's table is in flash."""
    with build(board_spec("arduino-mega"), [FIXTURES / "calls.c"]).open() as board:
        assert str(board.functions.count_at(3)) == "counts+12"
        assert board.functions.middle({"x": 2}, {"x": 4}) == {"x": 3, "y": 0}
        assert board.functions.apply("square", 4) == 14
