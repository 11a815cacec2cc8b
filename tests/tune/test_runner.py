# SPDX-License-Identifier: Apache-2.0
"""The runner of tuning on an emulated board, whose counts are exact."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import boardprof
from boardprof.base.errors import (
    BuildError,
    CheckFailedError,
    DeviceBoundsError,
    DeviceFaultError,
    DeviceTimeoutError,
    UnknownNameError,
    UsageError,
)
from boardprof.jobs.tune import Candidate, MeasureError, MeasureResult, Runner
from boardprof.target.descriptions.board import board_spec
from tests.support import requires_compiler, run
from tests.tune import candidates as source
from tests.tune.candidates import EXPECTED, GOOD, arguments, mixed

pytestmark = [pytest.mark.slow, pytest.mark.board("qemu-rv32")]

BOARD = "qemu-rv32"


def runner(**options: object) -> Runner:
    settings: dict[str, object] = {
        "metric": "instructions",
        "function": "scale",
        "expect": EXPECTED,
        "timeout_s": 0.05,
        "remember": False,
        **options,
    }
    return Runner(BOARD, arguments(), **settings)  # type: ignore[arg-type]


def measured(*texts: str, **options: object) -> list[MeasureResult]:
    return runner(**options).measure(texts)


KINDS = {
    "ok": (MeasureError.NO_ERROR, type(None)),
    "compile": (MeasureError.COMPILE_DEVICE, BuildError),
    "trap": (MeasureError.RUNTIME_DEVICE, DeviceFaultError),
    "hang": (MeasureError.RUN_TIMEOUT, DeviceTimeoutError),
    "wrong": (MeasureError.WRONG_ANSWER, CheckFailedError),
}


@pytest.mark.parametrize(
    "count", [40, pytest.param(200, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])]
)
def test_broken_candidates_get_their_errors_and_all_others_their_costs(count: int) -> None:
    texts, kinds = mixed(count)
    assert Counter(kinds) == {
        "ok": count * 3 // 4,
        "compile": count // 10,
        "trap": count // 20,
        "hang": count // 20,
        "wrong": count // 20,
    }
    began_s = time.monotonic()
    results = measured(*texts)
    assert time.monotonic() - began_s < 2.0 * count
    assert [result.error_no for result in results] == [KINDS[kind][0] for kind in kinds]
    assert all(
        isinstance(result.error, KINDS[kind][1])
        for result, kind in zip(results, kinds, strict=True)
    )
    costs = {result.costs for result, kind in zip(results, kinds, strict=True) if kind == "ok"}
    assert len(costs) <= 3  # a constant takes one instruction to load, or two
    assert all(not result.costs for result in results if result.error is not None)


def test_a_candidate_that_the_boards_own_timer_does_not_stop_ends_by_wall_time() -> None:
    texts = [GOOD.format(number=1), source.HANGS.format(number=2), GOOD.format(number=3)]
    began_s = time.monotonic()
    results = measured(*texts, timeout_s=1000.0, wall_timeout_s=1.0)
    assert time.monotonic() - began_s < 30.0
    assert [result.error_no for result in results] == [
        MeasureError.NO_ERROR,
        MeasureError.RUN_TIMEOUT,
        MeasureError.NO_ERROR,
    ]
    assert isinstance(results[1].error, DeviceTimeoutError)
    assert results[1].error.limit_s == 1.0


def test_the_error_of_a_fault_has_file_and_line() -> None:
    [result] = measured(source.TRAPS.format(number=1))
    assert isinstance(result.error, DeviceFaultError)
    assert result.error.location is not None
    assert result.error.location.line == 4
    assert Path(result.error.location.path).name == "scale.c"
    assert result.error.message.startswith("scale ")


def test_the_error_of_a_compiler_has_file_and_line() -> None:
    [result] = measured(source.DOES_NOT_COMPILE.format(number=7))
    assert "scale.c:3:" in str(result.error)


def test_a_candidate_that_needs_a_missing_function_does_not_stop_its_neighbours() -> None:
    texts = [GOOD.format(number=i) for i in range(3)]
    texts.insert(1, source.DOES_NOT_LINK.format(number=1))
    results = measured(*texts)
    assert [result.ok for result in results] == [True, False, True, True]
    assert "missing_1" in str(results[1].error)


def test_a_candidate_that_is_too_large_does_not_stop_its_neighbours() -> None:
    table = "static volatile int32_t table[0x10000000];\nstatic int32_t scaled"
    large = GOOD.format(number=1).replace("static int32_t scaled", table)
    large = large.replace("return value", "return table[value] + value")
    results = measured(GOOD.format(number=0), large, GOOD.format(number=2))
    assert [result.error_no for result in results] == [
        MeasureError.NO_ERROR,
        MeasureError.COMPILE_DEVICE,
        MeasureError.NO_ERROR,
    ]


def test_a_candidate_that_writes_nothing_does_not_profit_from_the_one_before() -> None:
    results = measured(GOOD.format(number=1), source.WRITES_NOTHING.format(number=2))
    assert [result.error_no for result in results] == [
        MeasureError.NO_ERROR,
        MeasureError.WRONG_ANSWER,
    ]


def test_an_output_array_is_empty_again_for_each_candidate() -> None:
    values = {**arguments(), "y": boardprof.Out(np.zeros(16, np.int32))}
    run = Runner(BOARD, values, "instructions", function="scale", expect=EXPECTED, remember=False)
    results = run.measure([GOOD.format(number=1), source.WRITES_NOTHING.format(number=2)])
    assert [result.ok for result in results] == [True, False]


def test_a_candidate_that_spoils_the_inputs_does_not_spoil_the_results_of_others() -> None:
    texts = [source.WRITES_TO_ITS_INPUT.format(number=77), *(GOOD.format(number=i) for i in (1, 2))]
    results = measured(*texts)
    assert [result.ok for result in results] == [True, True, True]


def test_writing_beyond_an_array_is_an_error() -> None:
    first, second = measured(source.WRITES_BEYOND.format(number=9), GOOD.format(number=1))
    assert isinstance(first.error, DeviceBoundsError)
    assert second.ok


def test_the_arrays_of_the_caller_are_not_changed() -> None:
    values = arguments()
    Runner(BOARD, values, "instructions", remember=False).measure([GOOD.format(number=1)])
    assert np.array_equal(values["y"], np.zeros(16, np.int32))  # type: ignore[arg-type]


def test_a_cost_is_the_number_of_instructions_of_the_function(tmp_path: Path) -> None:
    paths = []
    for count in (1, 2, 40):
        path = tmp_path / f"nops{count}.c"
        path.write_text(
            f'__attribute__((naked)) void nops(void) {{ __asm__(".rept {count}\\nnop\\n.endr\\n'
            'ret"); }\n'
        )
        paths.append(Candidate(path))
    results = Runner(BOARD, (), "instructions", remember=False).measure(paths)
    assert [result.costs for result in results] == [(2.0,), (3.0,), (41.0,)]


def test_sources_that_compile_to_the_same_code_are_measured_once() -> None:
    text = GOOD.format(number=5)
    other = "/* the same */\n#define UNUSED 3\n" + text
    first, second = measured(text, other)
    assert first.costs == second.costs
    assert (first.is_known, second.is_known) == (False, True)


def test_defines_and_flags_make_candidates_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "scale.c"
    path.write_text(GOOD.format(number=1).replace("* 3", "* FACTOR"))
    same = [
        Candidate(defines={"FACTOR": 3}, flags="-O1"),
        Candidate(defines={"FACTOR": 3}, flags="-O3 -funroll-loops"),
        Candidate(defines={"FACTOR": 4}),
        Candidate(),
    ]
    results = runner(sources=[path]).measure(same)
    assert [result.error_no for result in results] == [
        MeasureError.NO_ERROR,
        MeasureError.NO_ERROR,
        MeasureError.WRONG_ANSWER,
        MeasureError.COMPILE_DEVICE,
    ]
    assert results[1].cost < results[0].cost


def test_a_candidate_for_the_link_time_optimiser_is_built_alone() -> None:
    shared, alone = runner().measure(
        [
            Candidate(text=GOOD.format(number=1)),
            Candidate(text=GOOD.format(number=1), flags="-flto"),
        ]
    )
    assert shared.cost == alone.cost
    assert "Flash (bytes)" in shared.metrics
    assert "Flash (bytes)" not in alone.metrics  # its code is made at link time


def test_images_and_objects_are_candidates(tmp_path: Path) -> None:
    path = tmp_path / "scale.c"
    path.write_text(GOOD.format(number=1))
    firmware = boardprof.build(path, board=BOARD)
    spec = board_spec(BOARD).build
    compiler, made = requires_compiler(spec.cc), tmp_path / "scale.o"
    run([compiler, *spec.cflags, "-O2", "-g", "-ffreestanding", "-c", path, "-o", made])
    results = runner().measure([firmware.image, made, path])
    assert [result.error for result in results] == [None, None, None]
    assert len({result.cost for result in results}) == 1


def test_an_image_of_another_machine_fails_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scale.c"
    path.write_text(GOOD.format(number=1))
    other = boardprof.build(path, board="native").image
    (tmp_path / "own.elf").write_bytes(boardprof.build(path, board=BOARD).image.read_bytes())
    monkeypatch.chdir(tmp_path)
    refused, missing, own = runner().measure(
        [Candidate(image=other), Candidate(image="missing.elf"), Candidate(image="own.elf")]
    )
    assert refused.error_no is missing.error_no is MeasureError.INSTANTIATION_ERROR
    assert "is for x86-64; qemu-rv32 is RISC-V" in str(refused.error)
    assert "missing.elf cannot be read" in str(missing.error)
    assert own.error is None


def test_a_constraint_keeps_a_candidate_from_winning() -> None:
    limit = {"flash": 8}
    [result] = measured(GOOD.format(number=1), constraints=limit)
    assert result.error_no is MeasureError.OVER_LIMIT
    assert not result.costs
    assert result.metrics["instructions"] > 0
    [result] = measured(GOOD.format(number=1), constraints={"flash": 1000, "stack": 64})
    assert result.ok
    assert result.metrics["Stack (bytes)"] <= 64


def test_a_metric_that_the_board_does_not_count_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match="no cycle model"):
        measured(GOOD.format(number=1), metric="cycles")
    with pytest.raises(UnknownNameError):
        measured(GOOD.format(number=1), metric="cyclse")


def test_results_are_remembered_in_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "history.sqlite"))
    texts = [t.format(number=1) for t in (GOOD, source.TRAPS, source.WRONG, source.HANGS)]
    before = measured(*texts, remember=True)
    after = measured(*texts, remember=True)
    assert [result.is_known for result in before] == [False] * 4
    assert [result.is_known for result in after] == [True] * 4
    for one, other in zip(before, after, strict=True):
        assert (one.costs, one.error_no, one.metrics) == (
            other.costs,
            other.error_no,
            other.metrics,
        )
        assert str(one.error) == str(other.error)
        assert type(one.error) is type(other.error)
    fault = after[1].error
    assert isinstance(fault, DeviceFaultError)
    assert fault.location is not None
    assert fault.location.line == 4
    # Under other conditions, they are measured again.
    longer, changed = measured(texts[3], texts[0], remember=True, timeout_s=0.06)
    assert (longer.is_known, changed.is_known) == (False, True)
    assert not measured(texts[0], remember=True, number=2)[0].is_known


def test_several_calls_in_a_sample_give_the_cost_of_one() -> None:
    [one] = measured(GOOD.format(number=1))
    [many] = measured(GOOD.format(number=1), number=3, repeat=2)
    assert one.cost == many.cost
    assert len(many.costs) == 2
