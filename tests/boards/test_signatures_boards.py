# SPDX-License-Identifier: Apache-2.0
"""Functions of every kind of signature, on three processors: on each the same, known by hand."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.target.arguments.passing import Out
from boardprof.target.descriptions.board import board_spec
from tests.firmware import build
from tests.support import requires_tool

SIGNATURES = Path(__file__).parent / "fixtures" / "signatures.c"
BOARDS = ("native", "qemu-rv32", "qemu-cortex-m3")

POINT = np.dtype([("x", "<i2"), ("y", "<i2")])
PACKET = np.dtype(
    [
        ("kind", "u1"),
        ("valid", "?"),
        ("length", "<u2"),
        ("corners", POINT, (2,)),
        ("mode", "<u4"),
        ("stamp", "<u8"),
    ]
)
BIQUAD = np.dtype([("b", "<f4", (3,)), ("a", "<f4", (2,)), ("z", "<f4", (2,))])
SUMMARY = np.dtype([("mean", "<f8"), ("least", "<f8"), ("most", "<f8"), ("n", "<u4"), ("", "V4")])


def packet() -> Any:
    record = np.zeros(1, PACKET)
    record[0] = (7, True, 100, [(1, 2), (4, 6)], 1, 5)
    return record


# Function, arguments, result, and what its arrays hold afterwards, by position.
CASES: list[tuple[str, list[Any], Any, dict[int, Any]]] = [
    ("nothing", [], None, {}),
    ("answer", [], 42, {}),
    ("saturate_i8", [300], 127, {}),
    ("saturate_i8", [-300], -128, {}),
    ("rotate_u8", [0x81, 1], 0x03, {}),
    ("median_i16", [-5, 9, 3], 3, {}),
    # The check value of CRC-16/CCITT-FALSE.
    ("crc16", [b"123456789", 9, 0xFFFF], 0x29B1, {}),
    ("isqrt_u32", [4_294_967_295], 65_535, {}),
    ("mul_i32", [-(2**31), 2**31 - 1], -4_611_686_016_279_904_256, {}),
    ("mul_mod_u64", [2**63 - 1, 2**63 - 1, 2**63], 1, {}),
    ("lerp_f32", [1.0, 3.0, 0.25], 1.5, {}),
    ("horner_f64", [2.0, 1.0, 2.0, 3.0], 17.0, {}),
    ("is_leap", [1900], False, {}),
    ("is_leap", [2000], True, {}),
    ("next_mode", [0, True], 2, {}),
    ("upper", [ord("a")], ord("A"), {}),
    ("sum_i8", [np.array([-128, 127, -1], np.int8), 3], -2, {}),
    ("negate_i8", [np.array([1, -128, 0], np.int8), 3], None, {0: [-1, -128, 0]}),
    ("gray_u8", [np.array([0, 1, 2, 3, 255], np.uint8), 5], None, {0: [0, 1, 3, 2, 128]}),
    ("find_u8", [b"abc", 3, ord("c")], 2, {}),
    (
        "fir_i16",
        [
            np.array([1, 2, 3, 4, 5, 6, 7], np.int16),
            np.array([1, 0, -1, 2], np.int16),
            np.zeros(4, np.int32),
            4,
        ],
        None,
        {0: [1, 2, 3, 4, 5, 6, 7], 2: [6, 8, 10, 12]},
    ),
    ("swap_bytes_u16", [np.array([0x1234, 0xFF], np.uint16), 2], None, {0: [0x3412, 0xFF00]}),
    ("most_u16", [np.array([3, 65_535, 7], np.uint16), 3], 65_535, {}),
    ("is_sorted_i32", [np.array([-1, 0, 0, 5], np.int32), 4], True, {}),
    ("is_sorted_i32", [[5, -1], 2], False, {}),
    ("adler_u32", [np.array([1, 2, 3], np.uint32), 3], (13 << 16) + 7, {}),
    ("xorshift_u32", [np.array([1], np.uint32), 1], None, {0: [270_369]}),
    ("sum_i64", [np.array([2**62, 2**62, -1], np.int64), 3], 2**63 - 1, {}),
    (
        "running_i64",
        [np.array([10, 20, 30], np.int64), np.array([1, -2, 4], np.int32), 3],
        None,
        {0: [11, 19, 33]},
    ),
    ("fold_u64", [np.array([0x9E3779B97F4A7C15], np.uint64), 1], 0, {}),
    ("fold_u64", [np.array([], np.uint64), 0], 0x9E3779B97F4A7C15, {}),
    ("reverse_u64", [np.array([1, 2, 2**64 - 1], np.uint64), 3], None, {0: [2**64 - 1, 2, 1]}),
    ("most_f32", [np.array([-2.5, 1.0], np.float32), 2], 2.5, {}),
    ("scale_f32", [np.array([1.0, -0.5], np.float32), 2, 0.5], None, {0: [0.5, -0.25]}),
    ("dot_f64", [np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), 3], 32.0, {}),
    ("difference_f64", [np.array([1.0, 4.0, 9.0, 16.0]), 4], None, {0: [1.0, 3.0, 5.0, 7.0]}),
    ("count_true", [np.array([True, False, True]), 3], 2, {}),
    ("invert", [np.array([True, False, True]), 3], None, {0: [False, True, False]}),
    ("count_mode", [np.array([0, 2, 2], np.uint32), 3, 2], 2, {}),
    ("faster", [np.array([0, 1, 2], np.uint32), 3], None, {0: [1, 2, 2]}),
    ("count_char", [b"banana\0a", 8, ord("a")], 3, {}),
    # FNV-1a's own test vector.
    ("hash_bytes", [b"foobar", 6], 0xBF9CF968, {}),
    ("fill_bytes", [bytearray(4), 4, 254], None, {0: [254, 255, 0, 1]}),
    ("trace_i32", [np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.int32)], 15, {}),
    (
        "transpose_i16",
        [np.array([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]], np.int16)],
        None,
        {0: [[1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [4, 8, 12, 16]]},
    ),
    ("dot_q15", [[16_384, 16_384], [16_384, 16_384], 2], 16_384, {}),
    ("area", [packet()], 12, {}),
    (
        "move",
        [packet(), np.array([(10, -10)], POINT)],
        None,
        {0: [(8, False, 124, [(11, -8), (14, -4)], 2, 0x100000006)]},
    ),
    (
        "biquad_step",
        [np.array([([1, 2, 4], [0.5, 0.25], [1, 3])], BIQUAD), 2.0],
        3.0,
        {0: [([1.0, 2.0, 4.0], [0.5, 0.25], [5.5, 7.25])]},
    ),
    ("swap_word", [bytearray(b"\1\2\3\4\5\6\7\x08"), 2], None, {0: [4, 3, 2, 1, 8, 7, 6, 5]}),
    (
        "summarize",
        [np.array([1.0, 2.0, 6.0]), 3, np.zeros(1, SUMMARY)],
        None,
        {2: [(3.0, 1.0, 6.0, 3, b"\0\0\0\0")]},
    ),
    (
        "eight_kinds",
        [-1, 2, -3, 2**40, 1.5, -2.5, True, np.array([7], np.int32)],
        1_099_511_627_780,
        {},
    ),
    ("eight_f64", [1, 2, 3, 4, 5, 6, 7, 8], -4.0, {}),
    ("eight_u8", [1, 2, 3, 4, 5, 6, 7, 8], 2_221_163_556, {}),
    (
        "eight_pointers",
        [
            [1],
            [2],
            [3],
            [0.5],
            [0.25],
            np.array([(10, 4)], POINT),
            np.array([100.0]),
            1,
        ],
        None,
        {6: [112.75]},
    ),
]


@pytest.fixture(scope="module", params=BOARDS)
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    yield from started(request.param)


def started(name: str) -> Iterator[Board]:
    spec = board_spec(name)
    requires_tool(spec.build.cc, spec.build.package)
    if spec.launch.kind == "process":
        requires_tool(spec.launch.command[0], spec.launch.package)
    with connect(name, image=build(spec, [SIGNATURES]).image) as opened:
        yield opened


def plain(value: Any) -> Any:
    """Return a value's content as lists, tuples and numbers."""
    if isinstance(value, bytearray):
        return list(value)
    if isinstance(value, np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, np.void) and value.dtype.names:
        return tuple(plain(value[name]) for name in value.dtype.names)
    return value.item() if isinstance(value, np.generic) else value


def test_every_function_of_the_fixture_is_called(board: Board) -> None:
    assert set(board.functions) == {name for name, *_ in CASES}


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{i} {case[0]}") for i, case in enumerate(CASES)]
)
def test_a_call_gives_what_is_known_by_hand(
    board: Board, case: tuple[str, list[Any], Any, dict[int, Any]]
) -> None:
    name, given, result, arrays = case
    args = copy.deepcopy(given)
    returned = board.functions[name](*args)
    assert (type(returned), returned) == (type(result), result)
    for index, content in arrays.items():
        assert plain(args[index]) == content
    assert board.memory.held_bytes == 0


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{i} {case[0]}") for i, case in enumerate(CASES) if case[3]]
)
def test_a_measurement_gives_what_one_call_gives(
    board: Board, case: tuple[str, list[Any], Any, dict[int, Any]]
) -> None:
    name, given, result, arrays = case
    args = copy.deepcopy(given)
    measured = board.measure(name, *args, warmup=1, repeat=2, number=3)
    assert measured.result == result
    for index, content in arrays.items():
        assert plain(args[index]) == content
    assert board.memory.held_bytes == 0


def test_large_inputs_give_the_same_bits_on_all_boards() -> None:
    found: dict[str, list[bytes]] = {}
    for name in BOARDS:
        draw = np.random.Generator(np.random.PCG64(4))
        x = draw.integers(-(2**15), 2**15, 1003, np.int16)
        h = draw.integers(-(2**15), 2**15, 4, np.int16)
        y = np.zeros(1000, np.int32)
        f, g = draw.random(777), draw.random(777)
        gains = draw.random(500, np.float32)
        words = draw.integers(0, 2**64, 300, np.uint64)
        for board in started(name):
            call = board.functions
            call.fir_i16(x, h, Out(y), 1000)
            dot = np.float64(call.dot_f64(f, g, 777))
            call.difference_f64(f, 777)
            call.scale_f32(gains, 500, 0.3)
            fold = np.uint64(call.fold_u64(words, 300))
            found[name] = [each.tobytes() for each in (y, dot, f, gains, fold)]
    assert found["qemu-rv32"] == found["native"]
    assert found["qemu-cortex-m3"] == found["native"]
