# SPDX-License-Identifier: Apache-2.0
"""What a script does with a connected board: call, fill memory, open windows, profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import boardprof
from boardprof.base.errors import RpcError, UnknownNameError, UsageError
from boardprof.base.metrics import Count, Duration
from boardprof.compat.tvm_profiler.function import profile_function
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import board_spec
from tests.cli.command import FIXTURES
from tests.firmware import build
from tests.support import requires_tool

SOURCES = [FIXTURES / "scalars.c", FIXTURES / "same.c"]


def started(name: str) -> Iterator[Board]:
    with connect(name, image=build(board_spec(name), SOURCES).image) as board:
        yield board


@pytest.fixture(scope="module")
def linux() -> Iterator[Board]:
    yield from started("linux")


@pytest.fixture(scope="module")
def rv32() -> Iterator[Board]:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    yield from started("qemu-rv32")


@pytest.fixture(params=["native", "linux", "rv32"])
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    """A 64-bit board in this process, one in another, and a 32-bit one without a libc."""
    if request.param == "native":
        yield from started("native")
    else:
        yield request.getfixturevalue(request.param)


# -- calls ------------------------------------------------------------------------------------


def test_each_type_goes_there_and_comes_back(board: Board) -> None:
    functions = board.functions
    for bits in (8, 16, 32, 64):
        for value in (0, 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), -1):
            assert functions[f"same_i{bits}"](value) == value
        for value in (0, 127, 128, 2**bits - 1):
            assert functions[f"same_u{bits}"](value) == value
    assert functions.same_f32(-0.1) == -0.10000000149011612  # the float nearest to it
    assert functions.same_f64(-0.1) == -0.1
    assert functions.same_f64(float("inf")) == float("inf")
    assert functions.same_bool(True) is True
    assert functions.same_bool(False) is False
    assert functions.same_sign(-1) == -1


def test_arguments_of_all_widths_in_one_call_keep_their_places(board: Board) -> None:
    mix = board.functions.mix
    assert mix(False, -1, 2**40, -300, 0.5, 70_000) == 2**40 - 1 - 300 + 0.5 + 70_000
    assert mix(negate=True, a=1, b=2, c=3, d=4.0, e=5) == -15.0


def test_numpy_scalars_are_numbers_too(linux: Board) -> None:
    assert linux.functions.same_i16(np.int16(-5)) == -5
    assert linux.functions.same_f32(np.float32(1.5)) == 1.5


def test_functions_are_listed_and_others_refused_with_the_nearest(linux: Board) -> None:
    assert "take_u8" in list(linux.functions)
    assert "take_u8" in dir(linux.functions)
    assert repr(linux.functions.take_u8) == "<function take_u8(value: u8) -> u8 on the board>"
    with pytest.raises(AttributeError, match=r"did you mean 'take_u8'\?"):
        _ = linux.functions.taek_u8
    with pytest.raises(UnknownNameError):
        linux.functions["sum_of"]
    with pytest.raises(UsageError, match="is not the name of a function") as caught:
        linux.profile(linux.functions.take_u8, 3)  # type: ignore[arg-type]
    assert caught.value.hint == 'give a string, such as "take_u8"'


def test_a_function_of_the_agent_can_be_called_and_not_measured(linux: Board) -> None:
    with pytest.raises(
        UsageError, match=r"^bp\.describe of linux can be called but not measured\.$"
    ):
        linux.measure("bp.describe")


def test_an_instance_in_this_process_begins_afresh_each_time() -> None:
    for _ in range(2):
        (native,) = [*started_count()]
        assert native == 1


def started_count() -> Iterator[object]:
    for board in started("native"):
        yield board.functions.count_calls()


# -- memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [0, 1, 2.5])
def test_memory_gives_back_what_was_written_in_many_frames(board: Board, frames: float) -> None:
    size = max(1, int(frames * board.welcome.mtu_rx))
    content = bytes((7 * i + i // 251) % 256 for i in range(size))
    block = board.memory.alloc(size)
    board.memory.write(block, content)
    assert board.memory.read(block) == content
    board.memory.write(block, b"\xaa", offset=size - 1)
    assert board.memory.read(block, 1, size - 1) == b"\xaa"
    assert board.memory.read(block, size - 1) == content[:-1]
    board.memory.free(block)
    with pytest.raises(RpcError, match="no such handle"):
        board.memory.read(block)


def test_memory_outside_of_a_block_is_refused(linux: Board) -> None:
    block = linux.memory.alloc(16)
    for size, offset in ((None, 17), (-1, 0), (2, -1), (17, 0)):
        with pytest.raises(UsageError, match=r"-?\d+ bytes from offset -?\d+ exceed the"):
            linux.memory.read(block, size, offset)
    for offset in (-1, 16, 15):
        with pytest.raises(UsageError, match=r"2 bytes from offset -?\d+ exceed the block"):
            linux.memory.write(block, b"ab", offset=offset)
    linux.memory.free(block)


def test_a_block_that_cannot_be_is_refused(linux: Board) -> None:
    for size in (0, -1, linux.memory.size + 1):
        with pytest.raises(
            UsageError, match=r"does not fit into the board's arena of 8388608 bytes"
        ):
            linux.memory.alloc(size)


# -- windows ----------------------------------------------------------------------------------


def test_a_window_counts_what_the_board_did_in_it(rv32: Board) -> None:
    empties = []
    for _ in range(5):  # the board polls until its host is awake again, which may take long
        with rv32.collectors["ticks"] as window:
            pass
        empties.append(window)
    empty = min(empties, key=lambda window: window.metrics["ticks"].value)
    with rv32.collectors["ticks"] as busy:
        for _ in range(20):
            rv32.functions.count_calls()
    ticks = [window.metrics["ticks"] for window in (empty, busy)]
    assert all(isinstance(value, Count) for value in ticks)
    assert ticks[0].value < ticks[1].value  # type: ignore[union-attr]
    assert "Duration (us)" not in busy.metrics, "the clock is simulated"
    # The header's 6 bytes, four fields of 24 and the CRC's 4.
    assert len(busy.blob) == 34


def test_windows_nest_and_a_board_has_no_end_of_them(linux: Board) -> None:
    clock = next(name for name in linux.collectors if name.endswith("clock"))
    with linux.collectors[clock] as outer, linux.collectors[clock] as inner:
        linux.functions.count_calls()
    name = "Duration (us)"
    assert isinstance(outer.metrics[name], Duration)
    assert outer.metrics[name].microseconds > inner.metrics[name].microseconds  # type: ignore[union-attr]
    for _ in range(20):  # each stop gives its window back
        with linux.collectors[clock]:
            pass


def test_counters_that_are_unsupported_are_not_in_a_window(rv32: Board) -> None:
    core = next(c.name for c in rv32.dictionary.collectors if len(c.counters) == 2)
    with rv32.collectors[core] as window:
        pass
    assert list(window.metrics) == ["instructions"]


def test_a_window_that_is_open_or_shut_already_is_told(linux: Board) -> None:
    window = linux.collectors[next(iter(linux.collectors))]
    with pytest.raises(UsageError, match="is not open"):
        window.stop()
    window.start()
    with pytest.raises(UsageError, match="is already open"):
        window.start()
    window.stop()
    with pytest.raises(UnknownNameError, match="no collector 'none'"):
        linux.collectors["none"]


def test_an_error_within_a_window_is_the_one_that_is_seen(linux: Board) -> None:
    name = next(iter(linux.collectors))
    with pytest.raises(UsageError, match="without value"), linux.collectors[name]:
        linux.functions.take_u8()


# -- profiling --------------------------------------------------------------------------------


def test_a_profiled_function_returns_the_metrics_of_one_call(rv32: Board) -> None:
    profiled = profile_function(rv32, "qemu-rv32", func_name="take_i32", warmup_iters=2)
    metrics = profiled(-(2**31))
    assert isinstance(metrics["instructions"], Count)
    assert metrics["instructions"] == profiled(value=-(2**31))["instructions"]
    only = profile_function(rv32, None, ["ticks"], "count_calls")()
    assert "ticks" in only
    assert "instructions" not in only


def test_a_measurement_names_the_place_of_its_function(tmp_path: Path) -> None:
    source = tmp_path / "twice.c"
    source.write_text("/* Doubles. */\nint twice(int x) {\n    return 2 * x;\n}\n")
    with boardprof.build(source, board="native").open() as board:
        measured = board.measure("twice", 3, warmup=0, repeat=1)
    assert measured.result == 6
    assert measured.source is not None
    assert (Path(measured.source.file).name, measured.source.line) == ("twice.c", 2)


def test_what_the_system_refuses_to_count_has_its_reason_in_the_report(linux: Board) -> None:
    """Of papi and perf, which come in this order; a machine may refuse nothing."""
    refused: dict[str, str] = {}
    for collector in linux.offer.programmable:
        refused |= collector.select_default().refused
    measured = linux.measure("count_calls", warmup=0, repeat=1)
    assert refused.items() <= measured.device.unsupported.items()


def test_what_cannot_be_profiled_is_told(linux: Board, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"The board linux has no device cpu\."):
        profile_function(linux, "cpu", func_name="count_calls")
    with pytest.raises(UsageError, match=r"linux has \d+ functions: .*\nTry: say which"):
        profile_function(linux)
    with pytest.raises(UnknownNameError, match="no function 'count_call'; did you mean"):
        profile_function(linux, func_name="count_call")
    with pytest.raises(UnknownNameError, match="no collector or metric 'cycels'"):
        profile_function(linux, None, ["cycels"], "count_calls")
    with pytest.raises(UsageError, match=r"repeat=0 is out of range"):
        linux.profile("count_calls", repeat=0)
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    with connect("native", image=build(board_spec("native"), [source]).image) as native:
        assert "Duration (us)" in profile_function(native)()


def test_firmware_and_board_are_short_in_an_interpreter() -> None:
    firmware = boardprof.build(FIXTURES / "scalars.c", board="native")
    number = sum(each.reason is None for each in firmware.functions)
    assert 1 < number < 100
    build_id = firmware.build_id.hex()
    assert repr(firmware) == f"<Firmware native, {number} functions, build {build_id}>"
    with firmware.open() as board:
        assert repr(board) == "<Board native at in-process:native.so>"
