# SPDX-License-Identifier: Apache-2.0
"""The runner of tuning on this machine, whose samples differ; and what it refuses."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boardprof
from boardprof.base.errors import UsageError
from boardprof.jobs.tune import Candidate, MeasureError, Runner
from boardprof.measure.sampling.counted_pass import PackedCall
from boardprof.measure.sampling.measure_function import PassQueue
from boardprof.target.build.build_options import BuildOptions
from boardprof_protocol.codes import MeasureFlag
from tests.tune import candidates as source
from tests.tune.candidates import EXPECTED, GOOD, arguments


def test_a_board_with_a_real_clock_takes_several_samples() -> None:
    run = Runner("native", arguments(), "time", function="scale", expect=EXPECTED, remember=False)
    good, bad = run.measure([GOOD.format(number=1), source.WRONG.format(number=1)])
    assert len(good.costs) == 5
    assert good.cost == sorted(good.costs)[2]
    assert good.metrics["Duration (us)"] == good.cost
    assert bad.error_no is MeasureError.WRONG_ANSWER


def test_a_time_does_not_lack_the_work_between_requests(tmp_path: Path) -> None:
    """Right after a request the caches are cold, and the empty window is longer.

    A time is too low by the difference, here 0.02 to 0.06 us, if each window of the empty
    function comes after a request and the candidate's windows do not. Where the caches make no
    difference, an error is at least half of the clock's tick of 0.01 us.
    """
    file = tmp_path / "same.c"
    file.write_text("int same(int n) { return n; }\n")

    def costs_us() -> tuple[float, ...]:
        run = Runner("native", {"n": 1}, "time", sources=file, repeat=20, remember=False)
        return run.measure([Candidate()])[0].costs

    with boardprof.build(file, board="native").open() as board:
        call = PackedCall(board.functions["same"].info, bytes([1]), 1)
        counted = PassQueue(board.link, board.offer.passes(["duration_time"]), may_drop=False).next(
            lambda each: each.try_out(call)
        )
        assert counted is not None

        def empty_us(prepare: Callable[[], None] | None) -> float:
            taken = counted.take(call, 1, 100, flags=MeasureFlag.EMPTY, prepare=prepare)
            return _middle(each.readings["duration_time"].value / 1000 for each in taken.samples)

        request_us = empty_us(lambda: None) - empty_us(None)

    found_us = _middle(cost for _ in range(5) for cost in costs_us())
    assert found_us > -max(request_us, 0.01) / 2


def _middle(values: Iterable[float]) -> float:
    """Return the mean of the middle half: finer than a median of a clock that ticks in 10 ns."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return statistics.mean(ordered[quarter:-quarter])


def test_a_result_of_the_function_is_checked() -> None:
    texts = [f"int answer(int n) {{ return n * 2 + {extra}; }}" for extra in (0, 1)]
    run = Runner("native", {"n": 21}, "time", expect={"return": np.int32(42)}, remember=False)
    right, wrong = run.measure(texts)
    assert right.ok
    assert right.outputs["return"] == 42
    assert wrong.error_no is MeasureError.WRONG_ANSWER
    assert "expected 42" in str(wrong.error)


def test_results_come_as_they_are_measured_and_in_the_end_in_order() -> None:
    seen: dict[int, object] = {}
    texts = [source.DOES_NOT_COMPILE.format(number=1), *(GOOD.format(number=i) for i in (1, 2, 1))]
    run = Runner("native", arguments(), "time", function="scale", remember=False)
    results = run.measure(texts, on_result=seen.__setitem__)
    assert [seen[i] for i in range(4)] == results
    assert results[3].costs == results[1].costs


def test_arguments_that_do_not_fit_a_candidate_are_its_own_error() -> None:
    texts = ["int f(int n) { return n; }", "int f(int n, int m) { return n + m; }"]
    run = Runner("native", {"n": 1}, "time", remember=False)
    fits, does_not = run.measure(texts)
    assert fits.ok
    assert does_not.error_no is MeasureError.INSTANTIATION_ERROR
    assert "without m" in str(does_not.error)


def test_files_of_one_candidate_belong_together(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("int helper(int n);\nint f(int n) { return helper(n); }\n")
    for name, factor in (("two", 2), ("three", 3)):
        (tmp_path / f"{name}.c").write_text(f"int helper(int n) {{ return n * {factor}; }}\n")
    run = Runner("native", {"n": 5}, "time", function="f", remember=False)
    both = [Candidate([tmp_path / "f.c", tmp_path / f"{name}.c"]) for name in ("two", "three")]
    assert [int(result.outputs["return"]) for result in run.measure(both)] == [10, 15]


def test_static_functions_set_ups_and_checks_work_as_in_other_builds() -> None:
    text = """\
    static int state;
    static int f(int n) {{ return state + n; }}
    int g(int n) {{ return f(n) + {extra}; }}
    void g_setup(void) {{ state = 100; }}
    int g_check(void) {{ return state == 100 ? 0 : 1; }}
    """
    texts = [text.format(extra=extra) for extra in (1, 2)]
    run = Runner("native", {"n": 5}, "time", function="g", remember=False)
    assert [int(each.outputs["return"]) for each in run.measure(texts)] == [106, 107]
    kept = BuildOptions(keep=("f",))
    run = Runner("native", {"n": 5}, "time", function="f", options=kept, remember=False)
    [result] = run.measure([texts[0]])
    assert int(result.outputs["return"]) == 5


def test_cplusplus_is_a_language_of_candidates(tmp_path: Path) -> None:
    text = """\
    #include <string>
    extern "C" int f(int n) { return (int)(std::string(n, 'x') + "%s").size(); }
    """
    paths = [tmp_path / "one.cpp", tmp_path / "two.cpp"]
    for path, more in zip(paths, ("a", "bc"), strict=True):
        path.write_text(text % more)
    results = Runner("native", {"n": 40}, "time", function="f", remember=False).measure(paths)
    assert [result.error for result in results] == [None, None]
    assert [int(result.outputs["return"]) for result in results] == [41, 42]


@pytest.mark.board("linux")
def test_a_candidate_that_keeps_the_board_from_starting_does_not_stop_its_neighbours() -> None:
    ends = "#include <unistd.h>\n__attribute__((constructor)) static void end(void) { _exit(3); }\n"
    texts = [f"int f(int n) {{ return n + {i}; }}\n" for i in range(4)]
    texts[2] = ends + texts[2]
    results = Runner("linux", {"n": 1}, "time", function="f", remember=False).measure(texts)
    assert [result.ok for result in results] == [True, True, False, True]
    assert results[2].error_no is MeasureError.RUNTIME_DEVICE


def test_a_candidate_has_one_origin() -> None:
    with pytest.raises(UsageError, match="one of source, text and image"):
        Candidate("fir.c", text="int f;")
    with pytest.raises(UsageError, match="already compiled"):
        Candidate(image="fir.elf", flags="-O3")
    with pytest.raises(UsageError, match="is not a candidate"):
        Runner("native", (), "time").measure([3])  # type: ignore[list-item]


def test_it_must_be_clear_which_function_is_meant() -> None:
    text = "int f(int n) { return n; }\nint g(int n) { return n; }\n"
    [result] = Runner("native", {"n": 1}, "time", remember=False).measure([text])
    assert result.error_no is MeasureError.INSTANTIATION_ERROR
    assert "a candidate has f, g" in str(result.error)


def test_a_real_board_needs_a_port() -> None:
    with pytest.raises(UsageError, match="needs a port"):
        Runner("nucleo-f446re", ())


def test_no_candidates_are_no_work() -> None:
    assert Runner("native", (), "time").measure([]) == []


def test_a_cost_has_all_names_of_its_metric() -> None:
    run = Runner("native", {"n": 1}, "task-clock", constraints={"duration_time": 1e6})
    (result,) = run.measure(["int f(int n) { return n; }"])
    assert result.error is None
    assert len(result.costs) == 5
    assert result.metrics["task-clock"] == result.metrics["task-clock (us)"] == result.cost


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"constraints": {"stack": float("nan")}}, "The constraint stack=nan is not a number"),
        ({"constraints": {"stack": -1}}, "The constraint stack=-1 is not a number from 0 on."),
        ({"constraints": {"stack": "many"}}, "The constraint stack='many' is not a number"),
        ({"tolerance": -0.1}, "tolerance=-0.1 is out of range: it must be at least 0."),
    ],
)
def test_settings_that_would_check_nothing_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Runner("native", {"n": 1}, "time", **settings)


def test_one_candidate_is_not_a_list_and_one_source_may_stand_alone(tmp_path: Path) -> None:
    file = tmp_path / "f.c"
    file.write_text("int f(int n) { return n; }\n")
    run = Runner("native", {"n": 1}, "time", sources=str(file), remember=False)
    (result,) = run.measure([Candidate()])
    assert result.ok
    with pytest.raises(UsageError, match="One candidate is not a list of candidates"):
        run.measure("int f(int n) { return n; }")
