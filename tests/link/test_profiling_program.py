# SPDX-License-Identifier: Apache-2.0
"""Whole programs on real boards: a row a call, arrays that stay on the board, totals, collectors.

The network is two dense layers: [0 1 2 3] times ones of 4 by 3 is [6 6 6], with the bias
[-10 0 1] [-4 6 7], rectified [0 6 7]; times ones of 3 by 3 [13 13 13], with the bias [3 13 14].
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from boardprof.base.errors import (
    DeviceFaultError,
    LinkError,
    UnknownNameError,
    UsageError,
)
from boardprof.base.metrics import Count, Duration, Metric, Percent
from boardprof.compat.tvm_profiler import (
    DeviceWrapper,
    MetricCollector,
    Program,
    ProgramError,
    Report,
    profile_function,
    time_evaluator,
)
from boardprof.measure.board.board import Board
from boardprof.measure.connect import build
from boardprof.target.arguments.passing import Keep, Out
from boardprof.target.descriptions.board import BoardSpec, board_spec, load_board
from tests.link.profiling_boards import LAYERS, board, native, rv32

__all__ = ["board", "native", "rv32"]

Floats = npt.NDArray[np.float32]


class Network:
    """The program with its arrays."""

    def __init__(self, board: Board) -> None:
        self.x = np.arange(4, dtype=np.float32).reshape(1, 4)
        self.bias = np.array([-10, 0, 1], np.float32)
        self.hidden = np.full((1, 3), 77, np.float32)
        self.y = np.full(3, 77, np.float32)
        self.program = Program(board)
        ones = np.ones((4, 3), np.float32)
        self.program.add("dense", self.x, ones, self.bias, self.hidden, 4, 3, label="first")
        self.program.add("relu", self.hidden.reshape(3), 3)
        square = np.ones((3, 3), np.float32)
        out = Out(self.y)
        self.program.add("dense", self.hidden, square, self.bias, out, 3, 3, label="second")
        self.program.add("largest", named={"x": self.y, "n": 3})


def column(report: Report, name: str) -> list[Metric | None]:
    return [row.get(name) for row in report.calls]


def instructions(report: Report) -> list[int]:
    values = [row["instructions"] for row in report.calls]
    assert all(isinstance(value, Count) for value in values)
    return [value.value for value in values if isinstance(value, Count)]


def test_what_one_call_writes_the_next_one_reads_on_the_board(board: Board) -> None:
    network = Network(board)
    assert len(network.program) == 4
    assert network.program.run() == [None, None, None, 2]
    assert network.hidden.tolist() == [[0, 6, 7]]
    assert network.y.tolist() == [3, 13, 14]


def test_a_profiled_program_has_the_same_results(board: Board) -> None:
    network = Network(board)
    network.program.profile(warmup=2, repeat=3)
    assert network.hidden.tolist() == [[0, 6, 7]]
    assert network.y.tolist() == [3, 13, 14]


def test_nothing_comes_back_over_the_wire_between_the_calls(native: Board) -> None:
    network = Network(native)
    seen: list[float] = []

    class Onlooker(MetricCollector):
        def Start(self, dev: Board) -> object | None:
            seen.append(float(network.hidden[0, 2]))
            return None

        def Stop(self, obj: object) -> Mapping[str, Metric | int]:
            raise AssertionError("Start returned None")

    network.program.profile([Onlooker()])
    assert seen == [77, 77, 77, 77]
    assert network.hidden[0, 2] == 7


def test_there_is_a_row_for_each_call_in_the_order_of_execution(board: Board) -> None:
    report = Network(board).program.profile(repeat=2)
    assert column(report, "Name") == ["dense", "relu", "dense", "largest"] * 2
    assert column(report, "Label") == ["first", None, "second", None] * 2
    assert column(report, "Count") == [Count(1)] * 8
    assert column(report, "Device") == [board.device.name] * 8
    shapes = [
        "float32[1, 4], float32[4, 3], float32[3], float32[1, 3], 4, 3",
        "float32[3], 3",
        "float32[1, 3], float32[3, 3], float32[3], float32[3], 3, 3",
        "float32[3], 3",
    ]
    assert column(report, "Argument Shapes") == shapes * 2


def test_equal_functions_have_the_same_hash_on_every_board(native: Board, rv32: Board) -> None:
    first, relu, second, largest = column(Network(native).program.profile(), "Hash")
    assert first == second
    assert len({first, relu, largest}) == 3
    assert column(Network(rv32).program.profile(), "Hash") == [first, relu, first, largest]


def test_each_calls_instructions_are_those_of_the_function_alone(rv32: Board) -> None:
    network = Network(rv32)
    counted = instructions(network.program.profile())
    again = instructions(network.program.profile(repeat=2))
    assert again == counted * 2
    hidden, y = np.array([[0, 6, 7]], np.float32), np.zeros(3, np.float32)
    square = np.ones((3, 3), np.float32)
    alone = rv32.profile("dense", hidden, square, network.bias, Out(y), 3, 3, repeat=1)
    assert counted[2] == instructions(alone)[0]
    assert counted[3] == instructions(rv32.profile("largest", y, 3, repeat=1))[0]


def test_each_row_has_the_stack_of_its_call(rv32: Board) -> None:
    network = Network(rv32)
    report = network.program.profile(repeat=2)
    ones, zeros = np.ones((4, 3), np.float32), np.zeros((1, 3), np.float32)
    alone = rv32.profile("dense", network.x, ones, network.bias, Out(zeros), 4, 3, repeat=1)
    stacks = column(report, "Stack (bytes)")
    assert stacks[0] == stacks[2] == alone.calls[0]["Stack (bytes)"]
    assert stacks[:4] == stacks[4:]


def test_a_change_of_what_a_call_finds_shows_in_it_and_in_the_calls_behind(native: Board) -> None:
    def inputs(network: Network) -> list[str]:
        extra = network.program.profile(repeat=1).extra or {}
        return [each["inputs_crc32"] for each in extra["measurements"]]

    same, other = Network(native), Network(native)
    other.bias[0] = -9
    first = inputs(same)
    assert inputs(same) == first  # although its arrays now have the results of the run before
    changed = [one != another for one, another in zip(first, inputs(other), strict=True)]
    assert changed == [True] * len(first)
    last = Network(native)
    last.hidden[:] = 5  # overwritten before anything reads it
    assert inputs(last) == first


def test_a_call_more_in_front_does_not_change_what_the_others_find(native: Board) -> None:
    def inputs(calls: list[str]) -> list[str]:
        program, hidden = Program(native), np.zeros((1, 3), np.float32)
        for name in calls:
            if name == "dense":
                ones, bias = np.ones((4, 3), np.float32), np.zeros(3, np.float32)
                x = np.arange(4, dtype=np.float32).reshape(1, 4)
                program.add("dense", x, ones, bias, hidden, 4, 3)
            else:
                array = np.zeros(3, np.float32) if name == "other" else hidden.reshape(3)
                program.add("relu", array, 3)
        extra = program.profile(repeat=1).extra or {}
        return [each.get("inputs_crc32", "") for each in extra["measurements"]]

    alone = inputs(["dense", "relu"])
    assert "" not in alone
    assert inputs(["other", "dense", "relu"]) == ["", *alone]


def test_totals_are_of_the_board_and_hold_all_rows(board: Board) -> None:
    report = Network(board).program.profile(repeat=2)
    assert list(report.device_metrics) == [board.device.name]
    (total,) = report.device_metrics.values()
    name = "Duration (us)" if "Duration (us)" in total else "instructions"
    whole = amount(total[name])
    parts = [amount(row[name]) for row in report.calls]
    assert 0 < sum(parts) < whole
    for row, part in zip(report.calls, parts, strict=True):
        percent = row["Percent"]
        assert isinstance(percent, Percent)
        assert percent.percent == pytest.approx(100 * part / whole)


def amount(metric: Metric) -> float:
    assert isinstance(metric, Count | Duration)
    return metric.value if isinstance(metric, Count) else metric.microseconds


def test_the_configuration_says_what_ran_it_and_how_long_a_whole_run_took(
    native: Board, rv32: Board
) -> None:
    configuration = Network(native).program.profile(warmup=1, repeat=5).configuration
    assert configuration["Executor"] == "Program"
    assert configuration["Number of threads"] == Count(1)
    assert configuration["Warm-up"] == Count(1)
    assert configuration["Repeat"] == Count(5)
    whole = configuration["End to end (us)"]
    assert isinstance(whole, Duration)
    assert whole.microseconds > 4  # four calls over a wire take more than a microsecond each
    emulated = Network(rv32).program.profile().configuration
    assert emulated["End to end (us)"] == "not known: qemu-rv32 is emulated"


def test_the_report_is_one_like_any_other(native: Board) -> None:
    report = Network(native).program.profile(repeat=2)
    assert Report.from_json(report.json()) == report
    lines = report.table().splitlines()
    assert sum(line.startswith("dense") for line in lines) == 2  # of two shapes
    assert sum(line.startswith("relu") for line in lines) == 1


# -- arrays -----------------------------------------------------------------------------------


def test_each_run_begins_with_the_callers_values(native: Board) -> None:
    x = np.array([1, 2], np.int32)
    program = Program(native)
    program.add("twice", x, 2)
    program.add("twice", x.reshape(2, 1), 2)
    program.profile(warmup=3, repeat=2)
    assert x.tolist() == [4, 8]
    program.run()
    assert x.tolist() == [16, 32]


def test_what_is_only_written_begins_each_run_as_zeros(native: Board) -> None:
    x = np.array([9, 9], np.int32)
    program = Program(native)
    program.add("twice", Out(x), 2)
    program.profile(warmup=1)
    assert x.tolist() == [0, 0]


def test_what_is_kept_goes_on_from_run_to_run(native: Board) -> None:
    x = np.array([1], np.int32)
    program = Program(native)
    program.add("twice", Keep(x), 1)
    program.profile(warmup=3, repeat=2)
    assert x.tolist() == [64]  # one more run has found the stack


def test_an_array_that_is_read_first_and_written_later_is_sent_for_both(native: Board) -> None:
    x, w, none = (np.array([[v]], np.float32) for v in (3, 5, 0))
    program = Program(native)
    program.add("dense", x, w, none, Out(np.zeros(1, np.float32)), 1, 1)
    program.add("dense", w, w, none, Out(x), 1, 1)
    program.profile(warmup=2, repeat=2)
    assert x.tolist() == [[25]]


def test_blocks_stay_as_they_are_and_have_the_shape_that_the_pointer_gives_them(
    board: Board,
) -> None:
    block = board.memory.alloc(8)
    board.memory.write(block, np.array([1, 3], np.int32).tobytes())
    program = Program(board)
    program.add("twice", block, 2)
    report = program.profile(warmup=2, repeat=2)
    assert column(report, "Argument Shapes") == ["int32[2], 2"] * 2
    assert board.memory.read(block) == np.array([32, 96], np.int32).tobytes()
    board.memory.free(block)
    with pytest.raises(UsageError, match=r"x of call 0 \(twice\) of the program is a block that"):
        program.run()


def test_the_arena_is_free_again_afterwards_even_behind_a_fault(board: Board) -> None:
    network = Network(board)
    network.program.profile()
    assert board.memory.held_bytes == 0
    network.program.add("trap")
    with pytest.raises(ProgramError):
        network.program.profile()
    assert board.memory.held_bytes == 0
    assert Network(board).program.run()[3] == 2


# -- inputs, as TVM's executors take them -----------------------------------------------------


def test_inputs_are_filled_from_what_is_given(board: Board) -> None:
    x = np.zeros(3, np.float32)
    program = Program(board, inputs=[x])
    program.add("largest", x, 3)
    assert program.run(np.array([1, 9, 2], np.float32)) == [1]
    assert program.run([[1, 2, 9]]) == [2]
    assert program.run() == [2]
    clock = board.dictionary.collectors[0].name
    for report in (
        program.profile([np.array([7, 1, 2])], collectors=[clock], func_name="main"),
        program.profile(np.array([7, 1, 2]), collectors=[clock]),
        program.profile([clock]),
    ):
        assert column(report, "Name") == ["largest"]
        assert x.tolist() == [7, 1, 2]


def test_inputs_that_do_not_fit_are_refused(native: Board) -> None:
    x = np.zeros(3, np.int32)
    program = Program(native, inputs=[x])
    program.add("twice", x, 3)
    with pytest.raises(UsageError, match=r"Inputs given: 2; inputs of the program: 1\."):
        program.run(x, x)
    with pytest.raises(UsageError, match=r"Input 0 has the shape \(4,\), not \(3,\)\."):
        program.run(np.zeros(4, np.int32))
    with pytest.raises(UsageError, match=r"Input 0 has values that int32 cannot hold\."):
        program.profile([np.full(3, 0.5)], collectors=["clock"])
    with pytest.raises(UsageError, match=r"Input 0 is not an array of numbers"):
        program.run("three")
    with pytest.raises(UsageError, match=r"The program has no function 'tail', only 'main'\."):
        program.profile(func_name="tail")
    with pytest.raises(UsageError, match=r"inputs=5 is not a list of arrays"):
        Program(native, inputs=5)  # type: ignore[arg-type]


# -- a call that fails ------------------------------------------------------------------------


def test_a_fault_names_its_call_and_has_the_rows_before_it(rv32: Board) -> None:
    network = Network(rv32)
    known = instructions(network.program.profile(["cycles"]))
    network.program.add("trap", label="head")
    network.program.add("tick")
    with pytest.raises(ProgramError, match=r"^Call 4 \(trap, label 'head'\) of the") as caught:
        network.program.profile(["cycles"], warmup=0)
    error = caught.value
    assert isinstance(error.__cause__, DeviceFaultError)
    assert (error.call, error.label, error.exit_code) == (4, "head", 6)
    assert error.report is not None
    assert column(error.report, "Name") == ["dense", "relu", "dense", "largest"]
    assert instructions(error.report) == known
    text = "not known: the program did not reach its end"
    assert error.report.configuration["End to end (us)"] == text


def test_a_fault_in_a_warm_up_run_has_that_runs_rows(board: Board) -> None:
    network = Network(board)
    network.program.add("trap")
    with pytest.raises(ProgramError, match=r"Call 4 \(trap\) of the program failed") as caught:
        network.program.profile(warmup=3, repeat=2)
    report = caught.value.report
    assert report is not None
    assert column(report, "Name") == ["dense", "relu", "dense", "largest"]
    assert report.configuration["Warm-up"] == Count(0)


def test_a_fault_in_a_later_pass_has_the_rows_of_the_passes_before(tmp_path: Path) -> None:
    with build(LAYERS, board=one_at_a_time(tmp_path)).open() as small:
        program = Network(small).program
        program.add("trap_at", 9)  # 1 + 3 warm-up runs of the first pass, 2 runs, then the second
        program.add("tick")
        with pytest.raises(ProgramError, match=r"Call 4 \(trap_at\)") as caught:
            program.profile(repeat=2)
    report = caught.value.report
    assert report is not None
    assert len(report.calls) == 2 * 6


def test_the_first_call_that_fails_leaves_no_rows(board: Board) -> None:
    program = Program(board)
    program.add("trap")
    for attempt in (program.profile, program.run):
        with pytest.raises(ProgramError, match=r"^Call 0 \(trap\)") as caught:
            attempt()
        assert caught.value.report is None


# -- collectors -------------------------------------------------------------------------------


class Order(MetricCollector):
    """Counts the calls that it was there for."""

    calls = 0

    def Start(self, dev: Board) -> object | None:
        self.calls += 1
        return self.calls

    def Stop(self, obj: Any) -> Mapping[str, Metric | int]:
        return {"call": obj, "ticks": 1}


def test_collectors_of_both_sides_are_in_the_rows(rv32: Board) -> None:
    report = Network(rv32).program.profile(["ticks", Order()], warmup=2, repeat=2)
    assert column(report, "call") == [Count(n) for n in (1, 2, 3, 4, 5, 6, 7, 8)]
    assert column(report, "Order.ticks") == [Count(1)] * 8
    assert all(isinstance(value, Count) for value in column(report, "ticks"))
    assert column(report, "instructions") == [None] * 8


def test_a_program_may_run_on_several_boards(native: Board, rv32: Board) -> None:
    constant = np.array([1, 5, 3], np.float32)
    program = Program(native)
    program.add("largest", constant, 3)
    program.add("largest", constant, 3, device=rv32)
    program.add("tick", device=DeviceWrapper(native))
    program.add("tick", device="native")
    report = program.profile(repeat=2)
    assert column(report, "Device") == ["native", "qemu-rv32", "native", "native"] * 2
    assert list(report.device_metrics) == ["native", "qemu-rv32"]
    assert [row.get("instructions") is not None for row in report.calls][:3] == [False, True, False]
    assert program.run()[:2] == [1, 1]


def test_a_total_in_tvms_form_has_its_device_and_counts_as_one(native: Board, rv32: Board) -> None:
    program = Program(native)
    program.add("tick")
    program.add("tick", device=rv32)
    report = program.profile(repeat=2)
    for name, row in report.device_metrics.items():
        assert (row["Device"], row["Count"]) == (name, Count(1))
    again = Report.from_json(report.json(compat="tvm"))
    for each in (report, again):
        table, *_ = each.table(compat="tvm").split("\n\n")
        head = table.splitlines()[0]
        ends = {name: head.index(name) + len(name) for name in ("Device", "Count")}
        totals = [line for line in table.splitlines() if line.startswith("Total")]
        assert [
            tuple(line[:end].rpartition("  ")[2] for end in ends.values()) for line in totals
        ] == [("native", "1"), ("qemu-rv32", "1")]
    of_one = native.profile("tick", repeat=2)
    (total,) = [x for x in of_one.table(compat="tvm").splitlines() if x.startswith("Total")]
    assert re.search(r" native +1 ", total)


def test_of_several_boards_with_clocks_percent_is_of_the_one_that_is_busy_longest(
    native: Board,
) -> None:
    with build(LAYERS, board="linux").open() as linux:
        program = Program(native)
        program.add("work", 1000)
        program.add("work", 100_000_000, device=linux)  # longer than native can be interrupted
        report = program.profile()
    longest = max(amount(total["Duration (us)"]) for total in report.device_metrics.values())
    for row in report.calls:
        assert isinstance(row["Percent"], Percent)
        expected = 100 * amount(row["Duration (us)"]) / longest
        assert row["Percent"].percent == pytest.approx(expected)
    assert report.calls[0]["Percent"].percent < 50  # type: ignore[union-attr]


def test_two_boards_of_the_same_name_are_refused(native: Board) -> None:
    program = Program(native)
    program.add("tick")
    with build(LAYERS, board="native").open() as other:
        program.add("tick", device=other)
        with pytest.raises(UsageError, match=r"have the same name: native, native\."):
            program.profile()


def test_a_collector_of_one_board_leaves_the_others_rows_without_its_metrics(
    native: Board, rv32: Board
) -> None:
    program = Program(native)
    program.add("tick")
    program.add("tick", device=rv32)
    for collectors in (["cycles"], ["instructions"]):
        of_native, of_rv32 = program.profile(collectors).calls
        assert "instructions" in of_rv32
        assert "Duration (us)" not in of_rv32
        assert "instructions" not in of_native
        assert "Duration (us)" in of_native


def test_a_collector_that_no_board_has_is_refused(native: Board, rv32: Board) -> None:
    program = Program(native)
    program.add("tick")
    program.add("tick", device=rv32)
    with pytest.raises(UnknownNameError, match="'cycels'; did you mean 'cycles'"):
        program.profile(["cycels"])


@pytest.mark.parametrize(
    ("named", "shown"),
    [
        ("Duration (us)", "Duration (us)"),
        ("time", "Duration (us)"),
        ("task-clock (us)", "task-clock (us)"),
        ("FAULTS", "page-faults"),
        ("Stack (bytes)", "Duration (us)"),  # the stack is always there
    ],
)
def test_a_metric_of_a_program_has_all_its_names(native: Board, named: str, shown: str) -> None:
    program = Program(native)
    program.add("work", 1000)
    (row,) = program.profile([named]).calls
    assert shown in row
    assert "Stack (bytes)" in row


def test_a_time_that_a_simulated_clock_lacks_is_refused(rv32: Board) -> None:
    program = Program(rv32)
    program.add("tick")
    message = r"supports none of time: time \(its clock is simulated\)\."
    with pytest.raises(UsageError, match=message):
        program.profile(["time"])


def test_progress_is_told_call_by_call(native: Board) -> None:
    told: list[tuple[int, int]] = []
    program = Program(native)
    program.add("tick")
    program.add("tick")
    program.profile(warmup=1, repeat=1, on_progress=lambda done, all_: told.append((done, all_)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


# -- what goes wrong --------------------------------------------------------------------------


def test_what_cannot_be_a_program_is_told(native: Board, rv32: Board) -> None:
    program = Program(native)
    with pytest.raises(UsageError, match=r"The program has no calls\."):
        program.profile()
    with pytest.raises(UnknownNameError, match="no function 'rleu'; did you mean 'relu'"):
        program.add("rleu")
    with pytest.raises(UsageError, match="relu was called without n"):
        program.add("relu", np.zeros(3, np.float32))
    with pytest.raises(UsageError, match="The board native has no device npu"):
        program.add("tick", device="npu")
    assert len(program) == 0
    program.add("tick")
    with pytest.raises(UsageError, match="repeat=0 is out of range"):
        program.profile(repeat=0)
    with pytest.raises(UnknownNameError, match="no collector or metric 'cycels'"):
        program.profile(["cycels"])


def test_arrays_that_overlap_are_refused_if_one_is_written(native: Board) -> None:
    x = np.zeros(8, np.int32)
    program = Program(native)
    program.add("twice", x, 8)
    program.add("twice", x[4:], 4)
    with pytest.raises(UsageError, match=r"x of call 1 \(twice\).* of the program overlap"):
        program.profile()


def test_an_array_that_one_board_writes_cannot_be_another_ones(native: Board, rv32: Board) -> None:
    x = np.zeros(3, np.float32)
    program = Program(native)
    program.add("relu", x, 3)
    program.add("largest", x, 3, device=rv32)
    with pytest.raises(UsageError, match=r"are the same array on different boards"):
        program.profile()


def test_a_board_that_is_closed_is_refused_at_once() -> None:
    with build(LAYERS, board="native").open() as closed:
        pass
    for refused in (
        lambda: Program(closed).add("tick"),
        lambda: time_evaluator(closed, "tick"),
        lambda: profile_function(closed, None, ["clock"], "tick"),
    ):
        with pytest.raises(LinkError, match="is closed"):
            refused()


def test_what_is_no_board_no_dict_or_no_collector_is_refused(native: Board) -> None:
    with pytest.raises(UsageError, match="5 is not a connected board"):
        Program(5)  # type: ignore[arg-type]
    program = Program(native)
    with pytest.raises(UsageError, match="named=5 is not a dict"):
        program.add("tick", named=5)  # type: ignore[arg-type]
    program.add("tick")
    with pytest.raises(UsageError, match="5 is not a collector"):
        program.profile(5)  # type: ignore[arg-type]


def test_a_label_that_is_no_text_is_refused(native: Board) -> None:
    with pytest.raises(UsageError, match="label=5 is not a string"):
        Program(native).add("tick", label=5)  # type: ignore[arg-type]


def test_arrays_that_do_not_fit_the_arena_are_refused(rv32: Board) -> None:
    program = Program(rv32)
    program.add("largest", np.zeros(rv32.memory.size, np.float32), 1)
    with pytest.raises(UsageError, match=r"The arrays of the program take .* bytes; the board's"):
        program.profile()


# -- an agent that runs one collector at a time -----------------------------------------------


def one_at_a_time(folder: Path) -> BoardSpec:
    """The board native, whose agent runs one collector at a time."""
    copied = folder / "native"
    shutil.copytree(board_spec("native").folder, copied)
    file = copied / "board.toml"
    file.write_text(file.read_text().replace("config = {", "config = { active_collectors = 1,"))
    return load_board(copied)


def test_collectors_that_do_not_fit_into_one_pass_get_another(tmp_path: Path) -> None:
    with build(LAYERS, board=one_at_a_time(tmp_path)).open() as small:
        report = Network(small).program.profile(repeat=2)
    assert str(report.configuration["native passes"]).startswith("2 runs")
    for row in report.calls:
        assert row["page-faults"] == Count(0)
        assert isinstance(row["Duration (us)"], Duration)
