# SPDX-License-Identifier: Apache-2.0
"""Arrays as arguments on real boards: there and back, put back between calls, freed in any case."""

from __future__ import annotations

import base64
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boardprof
from boardprof.base.errors import (
    DeviceBoundsError,
    DeviceFaultError,
    DeviceTimeoutError,
    RpcError,
    UnknownNameError,
    UsageError,
)
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.measure.sampling.placement import Placement
from boardprof.results.record import Stack
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement
from boardprof.target.arguments.passing import Block, Keep, Out
from boardprof.target.descriptions.board import BoardSpec, board_spec, load_board
from boardprof_protocol.codes import ErrorCode, MeasureFlag
from tests.firmware import build
from tests.support import requires_tool

ARRAYS = Path(__file__).parent / "fixtures" / "arrays.c"
STATE = np.dtype([("sum", "<i4"), ("calls", "u1"), ("", "V3")])


def started(name: str | BoardSpec, **options: Any) -> Board:
    spec = board_spec(name) if isinstance(name, str) else name
    return connect(spec, image=build(spec, [ARRAYS]).image, **options)


@pytest.fixture(scope="module")
def rv32() -> Iterator[Board]:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    with started("qemu-rv32") as board:
        yield board


@pytest.fixture(scope="module")
def linux() -> Iterator[Board]:
    with started("linux") as board:
        yield board


@pytest.fixture(params=["native", "linux", "rv32"])
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    if request.param == "native":
        with started("native") as opened:
            yield opened
    else:
        yield request.getfixturevalue(request.param)


def small_arena(folder: Path, arena: int) -> BoardSpec:
    """Return the linux board with an arena of so many bytes; channels need one."""
    copy = folder / "linux"
    shutil.copytree(board_spec("linux").folder, copy)
    file = copy / "board.toml"
    text = file.read_text()
    assert "arena = 8388608" in text
    text = text.replace("arena = 8388608", f"arena = {arena}")
    if not arena:
        text = text.replace("bulk = 65535", "bulk = 0").replace("stream = 65536", "stream = 0")
        text = re.sub(r"trace = \d+", "trace = 0", text)
    file.write_text(text)
    return load_board(copy)


def all_is_free(board: Board) -> bool:
    """Take the whole arena at once, which fails if anything is left in it."""
    board.memory.free(board.memory.alloc(board.memory.size))
    return board.memory.held_bytes == 0


# -- single calls -----------------------------------------------------------------------------


def test_an_array_goes_there_and_comes_back_in_place(board: Board) -> None:
    x = np.array([1, -1, 2**31 - 2], np.int32)
    assert board.functions.count_up(x, 3) is None
    assert x.tolist() == [2, 0, 2**31 - 1]
    assert board.functions.sum_of(x[:2], 2) == 2
    assert board.functions.sum_of([5, -7], 2) == -2
    assert all_is_free(board)


def test_an_array_of_many_frames_goes_there_and_comes_back(board: Board) -> None:
    x = np.arange(20_000, dtype=np.int32)
    board.functions.count_up(x, 20_000)
    assert (x == np.arange(1, 20_001)).all()


def test_null_and_empty_arrays_are_told_apart(board: Board) -> None:
    assert board.functions.is_null(None) is True
    assert board.functions.is_null(np.zeros(0, np.int32)) is False
    assert board.functions.is_null(np.zeros(1, np.int32)) is False


def test_an_array_passed_twice_is_one_array_in_c(board: Board) -> None:
    x, y = np.zeros(4, np.int32), np.zeros(4, np.int32)
    assert board.functions.is_same(x, x) is True
    assert board.functions.is_same(x, y) is False
    assert board.functions.is_same(None, None) is True


def test_a_view_with_gaps_leaves_the_gaps_alone(board: Board) -> None:
    x = np.zeros((3, 4), np.int32)
    board.functions.count_up(x[:, 1], 3)
    assert x.tolist() == [[0, 1, 0, 0]] * 3


def test_out_begins_as_zeros_whatever_was_there_before(board: Board) -> None:
    full = np.full(64, 7, np.int32)
    board.functions.count_up(full, 64)
    out = np.full(64, 9, np.int32)
    board.functions.count_up(Out(out), 64)
    assert out.tolist() == [1] * 64


def test_a_block_of_the_board_stays_there(board: Board) -> None:
    block = board.memory.alloc(16)
    board.memory.write(block, np.arange(4, dtype="<i4").tobytes())
    board.functions.count_up(block, 4)
    board.functions.count_up(block, 4)
    assert board.functions.sum_of(block, 4) == 2 + 3 + 4 + 5
    board.memory.free(block)
    assert all_is_free(board)


def test_a_pointer_in_a_struct_may_lead_into_a_block_of_the_board(tmp_path: Path) -> None:
    source = tmp_path / "pair.c"
    source.write_text(
        "struct pair { const int *one, *other; };\n"
        "int sum(const struct pair *p) { return *p->one * 100 + *p->other; }\n"
    )
    with boardprof.build(source, board="native").open() as board:
        block = board.memory.alloc(8)
        board.memory.write(block, np.array([7, 9], np.int32).tobytes())
        assert board.functions.sum({"one": block, "other": np.array([5], np.int32)}) == 705


def test_bytes_go_in_and_a_bytearray_comes_back(board: Board) -> None:
    buffer = bytearray(5)
    board.functions.fill(buffer, 3, 200)
    assert buffer == b"\xc8\xc8\xc8\0\0"
    with pytest.raises(UsageError, match="x of fill is read-only"):
        board.functions.fill(b"abc", 3, 1)


# -- measurements -----------------------------------------------------------------------------


def test_each_sample_begins_with_the_hosts_values(board: Board) -> None:
    x = np.array([10, 20], np.int32)
    measured = board.measure("count_up", x, 2, warmup=3, repeat=4)
    assert x.tolist() == [11, 21]
    assert measured.outputs["x"].tolist() == [11, 21]
    assert (measured.arguments, measured.result) == ("x=int32[2], n=2", None)
    assert (measured.kept, measured.sent_again) == ((), "")
    assert all_is_free(board)


def test_empty_arrays_take_no_other_arrays_place(board: Board) -> None:
    x, y = np.array([1, 2], np.int32), np.array([10, 20], np.int32)
    none, empty = np.zeros(0, np.int32), np.zeros((3, 0), np.int32)
    measured = board.measure("add_up", x, none, empty, y, 2, warmup=1, repeat=2)
    assert (x.tolist(), y.tolist()) == ([11, 22], [10, 20])
    assert measured.outputs["none"].shape == (0,)
    board.functions.add_up(x, Out(none), empty, y, 2)
    assert x.tolist() == [21, 42]


def test_a_kept_array_goes_from_call_to_call(board: Board) -> None:
    state = np.zeros(1, STATE)
    measured = board.measure("accumulate", Keep(state), 2, warmup=3, repeat=4, number=5)
    # 3 warm-up calls, 4 samples of 5, one for the stack where that is painted, and the last.
    calls = 3 + 4 * 5 + isinstance(measured.stack, Stack) + 1
    assert (state["sum"][0], state["calls"][0]) == (2 * calls, calls)
    assert measured.result == 2 * calls
    assert measured.kept == ("state",)
    report = assemble([measured])
    kept = "state of accumulate: not restored between calls"
    assert report.configuration[f"{board.device.name} kept"] == kept


def test_a_block_that_the_function_may_write_is_named_as_kept(linux: Board) -> None:
    block = linux.memory.alloc(8)
    report = linux.profile("count_up", block, 2, warmup=0, repeat=2)
    kept = "x of count_up: not restored between calls"
    assert report.configuration["linux kept"] == kept
    assert "linux kept" not in linux.profile("sum_of", block, 2, repeat=1).configuration
    linux.memory.free(block)


def test_an_output_is_that_of_one_call_though_samples_have_several(board: Board) -> None:
    out = np.full(3, 5, np.int32)
    measured = board.measure("count_up", Out(out), 3, warmup=2, repeat=2, number=4)
    assert out.tolist() == [1, 1, 1]
    assert "Note" not in assemble([measured]).configuration  # it is said to be only written


def test_only_arrays_that_calls_change_are_not_as_given_in_later_calls_of_a_sample(
    board: Board,
) -> None:
    measured = board.measure("count_up", np.full(3, 5, np.int32), 3, warmup=2, repeat=2, number=4)
    assert measured.changed == ("x",)
    assert assemble([measured]).configuration["Note"].startswith("Number > 1")  # type: ignore
    measured = board.measure("count_up", np.full(3, 5, np.int32), 0, warmup=2, repeat=2, number=4)
    assert measured.changed == ()
    assert "Note" not in assemble([measured]).configuration


def test_a_function_without_arrays_is_called_once_more_for_its_result(board: Board) -> None:
    measured = board.measure("calls_so_far", warmup=1, repeat=2, number=3)
    began = measured.result
    assert isinstance(began, int)
    assert began == (1 + 2 * 3 + isinstance(measured.stack, Stack) + 1)
    assert board.functions.calls_so_far() == began + 1


def test_a_report_has_shapes_stack_and_the_crc_of_outputs(board: Board) -> None:
    x = np.zeros(2, np.int32)
    report = board.profile("count_up", x, 2, warmup=0, repeat=2)
    assert [row["Argument Shapes"] for row in report.calls] == ["x=int32[2], n=2"] * 2
    stacks = {row["Stack (bytes)"] for row in report.calls}
    assert len(stacks) == 1
    assert report.extra is not None
    (found,) = report.extra["measurements"]
    # CRC-32 of 01 00 00 00 01 00 00 00, and these bytes as zlib and base64 have them.
    (output,) = found["outputs"].values()
    assert zlib.decompress(base64.b64decode(output.pop("values"))) == bytes([1, 0, 0, 0] * 2)
    assert found["outputs"] == {"x": {"dtype": "int32", "shape": [2], "crc32": "1134b892"}}


# -- where copies do not fit ------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """A board whose arena holds 1008 bytes."""
    with started(small_arena(tmp_path_factory.mktemp("narrow"), 1008)) as opened:
        yield opened


def measured_narrow(
    board: Board, n: int, **options: int
) -> tuple[np.ndarray[Any, Any], Measurement]:
    x = np.zeros(n, np.int32)
    return x, board.measure("count_up", x, n, **options)


def test_arrays_whose_copies_fit_are_put_back_on_the_board(narrow: Board) -> None:
    x, measured = measured_narrow(narrow, 124, warmup=2, repeat=3)
    assert x.tolist() == [1] * 124
    assert measured.sent_again == ""


def test_arrays_whose_copies_do_not_fit_are_sent_again(narrow: Board) -> None:
    x, measured = measured_narrow(narrow, 250, warmup=2, repeat=3, number=1)
    assert x.tolist() == [1] * 250
    assert len(measured.samples) == len(measured.passes[0].totals) == 3
    why = (
        "copies of 1,008 bytes do not fit into the arena of 1,008 bytes together with the arrays "
        "(1,008 bytes)"
    )
    assert measured.sent_again == why
    line = assemble([measured]).configuration["linux sent again"]
    assert line == (
        f"The arrays of count_up are sent before each round of samples: {why}. The first call of a "
        "round is cold."
    )
    assert all_is_free(narrow)


def test_more_arrays_than_the_board_restores_are_sent_again(linux: Board) -> None:
    arrays = [np.zeros(1, np.int32) for _ in range(9)]
    measured = linux.measure("nine", *arrays, warmup=2, repeat=3)
    assert [x[0] for x in arrays] == [1] * 9
    assert measured.sent_again == "the board restores at most 8 arrays"


def test_kept_arrays_are_not_sent_again_with_the_others(narrow: Board) -> None:
    state = np.zeros(1, STATE)
    block = narrow.memory.alloc(976)  # so that no copy fits
    measured = narrow.measure("accumulate", Keep(state), 1, warmup=0, repeat=2)
    assert state["calls"][0] == 2 + isinstance(measured.stack, Stack) + 1
    narrow.memory.free(block)


def test_arrays_are_sent_again_where_no_handle_is_left_for_their_copies(linux: Board) -> None:
    blocks = [linux.memory.alloc(8) for _ in range(63)]  # of the board's 64
    x = np.zeros(4, np.int32)
    measured = linux.measure("count_up", x, 4, warmup=1, repeat=2)
    assert x.tolist() == [1] * 4
    assert "the board has no free handle" in measured.sent_again
    for block in blocks:
        linux.memory.free(block)
    assert all_is_free(linux)


def test_the_empty_function_is_measured_behind_the_same_work_of_the_link(narrow: Board) -> None:
    x, room = np.zeros(narrow.memory.size // 4, np.int32), narrow.memory.size
    done, sent_before = 0, 0

    def on_progress(rounds: int, _: int) -> None:
        nonlocal done
        done = rounds

    def on_transfer(way: str, sent: int, _: int) -> None:
        nonlocal sent_before
        sent_before += done < 10 and (way, sent) == ("to the board", room)

    narrow.measure(
        "count_up", x, x.size, repeat=2, on_progress=on_progress, on_transfer=on_transfer
    )
    assert sent_before == 1 + (1 + 9)  # once to begin with, and once before each of its rounds


def test_sent_again_counts_as_many_rounds_as_there_are(narrow: Board) -> None:
    seen: list[tuple[int, int]] = []
    x = np.zeros(250, np.int32)
    narrow.measure(
        "count_up", x, 250, warmup=2, repeat=3, on_progress=lambda *each: seen.append(each)
    )
    assert seen[-1] == (1 + 9 + 2 + 3, 15)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_arrays_larger_than_the_arena_are_refused_before_anything_is_sent(narrow: Board) -> None:
    x = np.zeros(253, np.int32)
    with pytest.raises(UsageError) as caught:
        narrow.functions.count_up(x, 253)
    assert str(caught.value) == (
        "The arrays of count_up take 1,024 bytes; the board's arena has 1,008 bytes.\n"
        "Try: pass smaller arrays, or compile the agent with a larger BP_CFG_ARENA (`arena` in "
        "[build] config of a board.toml)"
    )
    block = narrow.memory.alloc(10)
    with pytest.raises(UsageError, match=r"arena has 1,008 bytes \(16 of them are reserved\)\."):
        narrow.functions.count_up(x[:250], 250)
    narrow.memory.free(block)


def test_an_agent_without_arena_takes_no_arrays(tmp_path: Path) -> None:
    spec = small_arena(tmp_path, 0)
    with connect(spec, image=build(spec, [ARRAYS]).image) as board:
        assert board.functions.calls_so_far() == 1
        assert list(board.functions) == ["calls_so_far"]  # the others were left out


# -- blocks that are void ---------------------------------------------------------------------


def test_a_block_that_is_freed_or_another_boards_is_refused(linux: Board) -> None:
    block = linux.memory.alloc(16)
    linux.memory.free(block)
    with pytest.raises(UsageError, match="x of sum_of is a block that is not on this board"):
        linux.functions.sum_of(block, 4)
    with started("native") as other:
        foreign = other.memory.alloc(16)
        with pytest.raises(UsageError, match="it was freed, or it belongs to another board"):
            linux.functions.sum_of(foreign, 4)
        with pytest.raises(UsageError, match="is not on this board"):
            other.functions.sum_of(Block(foreign.handle, 16), 4)


# -- what happens in between ------------------------------------------------------------------


def test_a_trap_leaves_the_array_alone_and_frees_the_block(board: Board) -> None:
    if not any(f.name == "bp.guard" for f in board.dictionary.functions):
        pytest.skip(f"{board.device.name} does not guard its calls")
    x = np.zeros(4, np.int32)
    with pytest.raises(DeviceFaultError, match="trap_after trapped on the board: bad address"):
        board.functions.trap_after(x)
    with pytest.raises(DeviceFaultError):
        board.measure("trap_after", x)
    assert x.tolist() == [0, 0, 0, 0]
    assert all_is_free(board)


def test_a_call_that_hangs_is_stopped_and_frees_the_block() -> None:
    with started("linux", timeout_s=0.3) as board:
        x = np.zeros(4, np.int32)
        with pytest.raises(DeviceTimeoutError, match=r"did not end within 0\.3 s"):
            board.functions.spin(x)
        assert all_is_free(board)


class Interrupt:
    """Raises KeyboardInterrupt at the n-th report of progress."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_an_interrupt_while_arrays_are_sent_or_measured_frees_the_blocks(linux: Board) -> None:
    x = np.zeros(500_000, np.int32)
    with pytest.raises(KeyboardInterrupt):
        linux.measure("count_up", x, 500_000, on_transfer=Interrupt(2))
    assert linux.functions.sum_of([1, 2], 2) == 3
    assert all_is_free(linux)
    with pytest.raises(KeyboardInterrupt):
        linux.measure("count_up", x[:10], 10, on_progress=Interrupt(2))
    assert x.sum() == 0
    assert all_is_free(linux)


def test_transfers_are_told_while_they_run(linux: Board) -> None:
    seen: list[tuple[str, int, int]] = []
    x = np.zeros(500_000, np.int32)
    linux.measure("count_up", x, 500_000, repeat=1, on_transfer=lambda *each: seen.append(each))
    ways = list(dict.fromkeys(way for way, _, _ in seen))
    assert ways == ["to the board", "from the board"]
    assert ("from the board", 2_000_032, 2_000_032) in seen  # and the fences around it


def test_the_public_names_are_those_that_the_board_takes() -> None:
    assert (boardprof.Out, boardprof.Keep) == (Out, Keep)
    assert MeasureFlag.EMPTY == 1


# -- what is written outside of an array -----------------------------------------------------


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (4, "p[4] was changed, at byte 16"),
        (7, "p[7] was changed, at byte 28"),
        (-1, "p[-1] was changed, at byte -4"),
        (-4, "p[-4] was changed, at byte -16"),
    ],
)
@pytest.mark.parametrize("passed", [Out, Keep, np.asarray], ids=["out", "keep", "both ways"])
def test_a_write_before_or_behind_an_array_is_an_error_with_its_place(
    board: Board, passed: Any, at: int, told: str
) -> None:
    x = np.zeros(4, np.int32)
    with pytest.raises(DeviceBoundsError) as caught:
        board.functions.stray(passed(x), at)
    expected = (
        f"stray wrote outside of x, which has 4 elements (16 bytes): {told.replace('p', 'x')}."
    )
    assert str(caught.value).splitlines()[0] == expected
    assert (caught.value.array, caught.value.offset) == ("x", 4 * at)
    with pytest.raises(DeviceBoundsError, match="stray wrote outside of x"):
        board.profile("stray", passed(x), at, warmup=1, repeat=2)
    assert all_is_free(board)
    board.functions.stray(passed(x), 3)
    assert x.tolist() == [0, 0, 0, 7]


@pytest.mark.parametrize(("at", "name", "offset"), [(3, "y", 6), (-1, "y", -2), (-13, "x", 6)])
def test_of_two_arrays_the_one_is_named_whose_bounds_were_passed(
    board: Board, at: int, name: str, offset: int
) -> None:
    """Behind the 6 bytes of x come 10 up to its 16, and 16 more: y[-13] stands behind x."""
    x, y = np.zeros(3, np.int16), np.zeros(3, np.int16)
    with pytest.raises(DeviceBoundsError) as caught:
        board.functions.stray_of_two(b"key", x, y, at)
    assert (caught.value.array, caught.value.offset) == (name, offset)


def test_a_call_that_writes_outside_is_found_though_only_samples_do(board: Board) -> None:
    """The call behind the samples gives the result, and here it writes inside."""
    x = np.zeros(4, np.int32)
    with pytest.raises(DeviceBoundsError, match=r"x\[4\] was changed, at byte 16"):
        board.profile("stray_once", Out(x), warmup=0, repeat=1)


def test_arrays_that_leave_no_room_for_fences_are_measured_without(narrow: Board) -> None:
    x = np.arange(narrow.memory.size // 4, dtype=np.int32)
    narrow.functions.stray(x, 0)
    assert x[0] == 7


@pytest.mark.parametrize("name", ["native", "linux"])
def test_a_write_far_behind_all_arrays_traps_and_ends_the_call_alone(name: str) -> None:
    with started(name) as board:
        x = np.zeros(16, np.uint8)
        with pytest.raises(DeviceFaultError, match="fill trapped on the board: bad address"):
            board.functions.fill(Out(x), 9_000_000, 1)
        assert board.functions.sum_of(np.ones(3, np.int32), 3) == 3


# -- structs ----------------------------------------------------------------------------------


def test_the_structs_of_what_was_built_here_are_there_as_numpy_types() -> None:
    with build(board_spec("native"), [ARRAYS]).open() as board:
        assert list(board.dtypes) == ["state"]
        state = np.zeros(1, board.dtypes["state"])
        assert board.functions.accumulate(state, 5) == 5
        assert (state["sum"][0], state["calls"][0]) == (5, 1)
        with pytest.raises(UnknownNameError, match=r"There is no struct .* 'stat'; did you mean"):
            board.dtypes["stat"]
        assert "stat" not in board.dtypes


def test_a_struct_whose_members_are_swapped_is_refused_where_they_are_known() -> None:
    swapped = np.zeros(1, [("calls", "u1"), ("", "V3"), ("sum", "<i4")])
    why = "calls is uint8 at byte 0, where state has i32"
    with (
        build(board_spec("native"), [ARRAYS]).open() as board,
        pytest.raises(UsageError, match=why),
    ):
        board.functions.accumulate(swapped, 5)
    with started("native") as board:
        assert list(board.dtypes) == []
        assert board.functions.accumulate(swapped, 5) == 5


def test_an_error_is_not_replaced_by_that_of_a_board_that_does_not_free(
    linux: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = linux.memory._call

    def refusing(name: str, *values: int | bytes) -> object:
        if name == "bp.free":  # no agent does this to a handle that is good
            raise RpcError("The board refused bp.free.", code=ErrorCode.UNSUPPORTED)
        return call(name, *values)

    arguments = linux.functions.count_up.bind([np.zeros(4, np.int32), 4], {})

    def fail() -> None:
        with Placement(linux.memory, arguments):
            raise ValueError("of the caller")

    with monkeypatch.context() as patch:
        patch.setattr(linux.memory, "_call", refusing)
        with pytest.raises(ValueError, match="of the caller"):
            fail()
    assert all_is_free(linux)


def test_what_is_no_dict_of_arguments_is_refused(linux: Board) -> None:
    with pytest.raises(UsageError, match="named=3 is not a dict of arguments by name"):
        linux.measure("count_up", named=3)  # type: ignore[arg-type]
