# SPDX-License-Identifier: Apache-2.0
"""What about samples is not to be trusted, and what must not be complained of."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from boardprof.base.metrics import Duration
from boardprof.results.stats.summary import summarize
from boardprof.results.stats.warnings import Mode, Warning_, two_modes, warnings
from tests.unit.reports import HARDWARE, report_of

STEADY = [100.0, 100.3, 99.8, 100.1, 99.9, 100.2, 100.0, 99.7, 100.1, 100.2, 99.9, 100.0]


def doubts(values: Sequence[float], **options: Any) -> list[Warning_]:
    return warnings(
        report_of(
            {"Duration (us)": [Duration(v) for v in values]}, **{"facts": HARDWARE, **options}
        )
    )


def kinds(values: Sequence[float], **options: Any) -> list[str]:
    return [each.kind for each in doubts(values, **options)]


def test_there_is_nothing_to_say_of_steady_samples() -> None:
    assert doubts(STEADY) == []


def test_samples_whose_numbers_are_doubtful_are_not_judged_by_their_spread() -> None:
    finding = {"text": "fir masks interrupts", "spoils": True}
    values = [5771.0, *[1675.0] * 5, *[5771.0] * 5]
    assert kinds(values) != []
    assert kinds(values, measurement={"findings": [finding]}) == []


def test_there_is_nothing_to_say_of_exact_counts_however_few() -> None:
    assert warnings(report_of({"instructions": [205], "ticks": [3]}, clocks={"ticks": 10})) == []


def test_a_call_that_takes_less_than_measuring_it_is_told() -> None:
    def short(us: float, *windows_ns: int) -> list[str]:
        taken = {
            "calibration": {"duration_time": 20},
            "calibration_samples": [{"raw": {"duration_time": n}} for n in windows_ns],
        }
        values = [us + i / 1e4 for i in (0, 1, 2, 1, 0, 1)]
        found = doubts(values, clocks={"duration_time": 10**9}, measurement=taken)
        return [str(each) for each in found if each.kind == "overhead"]

    [text] = short(0.011, 19, 20, 21)
    assert text == (
        "Time of fir on board: the measurement overhead is 20 ns per call, more than "
        "the 11.1 ns that remain after it is subtracted. Make the samples longer: --number 1000. "
        "Or count instructions where you can."
    )
    assert len(short(-0.003, 19, 20, 21)) == 1
    assert short(0.021, 19, 20, 21) == []
    assert short(0.011, 20, 20, 20) == []


def test_four_samples_are_too_few_and_five_are_not() -> None:
    [found] = doubts(STEADY[:4])
    assert found.kind == "few"
    # 2 of the C(8, 4) = 70 arrangements
    assert (
        "4 samples are too few: with this many in each of two runs, the rank test cannot give a "
        "p below 0.029"
    ) in found.text
    assert "--repeat" in found.hint
    assert kinds(STEADY[:5]) == []
    assert "one sample tells nothing" in doubts([5.0])[0].text


def test_a_slow_first_sample_means_that_the_warm_up_was_too_short() -> None:
    [found] = doubts([150.0, *STEADY])
    assert found.kind == "warm-up"
    assert found.text.startswith("the first sample, 150 us, is far above the others, 100 us:")
    assert "--warmup" in found.hint


def test_samples_that_rise_over_the_run_drift() -> None:
    assert kinds([100.0 + i for i in range(15)]) == ["drift"]
    assert (
        "the samples rise over the run, from 102 us to 112 us"
        in doubts([100.0 + i for i in range(15)])[0].text
    )
    assert "the samples fall" in doubts([200.0 - i for i in range(15)])[0].text


def test_ten_samples_are_enough_for_a_drift_and_one_pair_may_be_the_other_way() -> None:
    assert kinds([100.0, 101.0, 103.0, 102.0, 104.0, 105.0, 106.0, 107.0, 108.0, 109.0]) == [
        "drift"
    ]
    # Spearman's coefficient is 0.77 here: p is 0.009 by Fisher's transform
    assert kinds([104.0, 101.0, 103.0, 100.0, 102.0, 105.0, 106.0, 109.0, 108.0, 107.0]) == []


def test_a_drift_that_nobody_minds_is_none() -> None:
    assert kinds([1000.0 + 0.1 * i for i in range(15)]) == []


def test_samples_in_two_parts_are_told_with_both() -> None:
    values = [100.0, 150.0, 101.0, 151.0, 99.0, 149.0, 100.0, 150.0, 100.0, 151.0, 100.0]
    [found] = doubts(values)
    assert found.kind == "bimodal"
    assert "6 near 100 us and 5 near 150 us" in found.text


@pytest.mark.parametrize(
    ("hit", "of"),
    [
        (1, 10),
        (2, 10),
        (1, 50),
        (3, 50),
        (4, 50),
        (9, 50),
        (1, 100),
        (8, 100),
        (19, 100),
        (30, 100),
    ],
)
def test_samples_that_an_interrupt_has_hit_are_told_whatever_their_share(hit: int, of: int) -> None:
    # fir of 522 ticks, and a handler of 211, on mps2-an386
    ticks = [522] * of
    for place in range(hit):
        ticks[3 + place * of // hit % (of - 3)] += 211
    found = warnings(report_of({"ticks": ticks}, clocks={"ticks": 25_000_000}))
    assert len(found) == 1
    assert "--mask-interrupts" in found[0].hint


def test_samples_apart_are_told_with_their_number_and_by_how_much() -> None:
    ticks = [522 + 211 * (i % 12 == 5) + i % 2 for i in range(100)]
    [found] = warnings(report_of({"ticks": ticks}, clocks={"ticks": 25_000_000}))
    assert found.kind == "apart"
    assert found.text == (
        "8 of 100 samples are 212 ticks longer than the others, which take 522: interrupts?"
    )
    assert found.hint.startswith("Try --mask-interrupts")


def test_a_first_sample_that_others_are_like_is_not_a_short_warm_up() -> None:
    hit = {0, 13, 26, 39, 52, 65, 78, 91}
    values = [733 if i in hit else 522 for i in range(100)]
    found = warnings(report_of({"ticks": values}, clocks={"ticks": 25_000_000}))
    assert [each.kind for each in found] == ["apart"]


def test_one_sample_apart_of_few_that_are_equal_is_told() -> None:
    [found] = warnings(report_of({"ticks": [522, 522, 733, 522, 522]}, clocks={"ticks": 10**6}))
    assert found.text.startswith("1 of 5 samples is 211 ticks longer")
    assert kinds([522.0, 523.0, 733.0, 521.0, 522.5]) == []  # of five noisy ones it may be chance


def test_samples_that_an_interrupt_did_not_hit_are_told_if_most_were_hit() -> None:
    [found] = warnings(report_of({"ticks": [733] * 44 + [522] * 6}, clocks={"ticks": 10**6}))
    assert found.text == (
        "6 of 50 samples are 211 ticks shorter than the others, which take 733: interrupts?"
    )


def test_a_difference_of_one_is_singular() -> None:
    [found] = warnings(report_of({"instructions": [57] * 36 + [56] * 4}))
    assert found.text.startswith(
        "4 of 40 samples are 1 instruction shorter than the others, which take 57"
    )


def test_samples_hit_by_several_interrupts_do_not_hide_those_hit_by_one() -> None:
    ticks = [522] * 90 + [733] * 9 + [54461]
    [found] = warnings(report_of({"ticks": ticks}, clocks={"ticks": 10**6}))
    assert found.text.startswith("10 of 100 samples are 211 ticks longer")


def test_one_step_of_the_clock_may_be_a_large_part_of_a_sample() -> None:
    found = doubts([5.0, 6.0, 5.0, 6.0, 5.0, 6.0], clocks={"ticks": 1_000_000})
    assert [each.kind for each in found] == ["grain"]
    assert "--number" in found[0].hint
    # a hundred calls a sample: the step is 0.01 us per call
    assert kinds([500.0, 501.0, 500.0], clocks={"ticks": 1_000_000}, number=100) == ["few"]


def test_samples_on_this_machine_that_vary_much_are_noise_of_the_host() -> None:
    host = {"clock_kind": "measured", "emulated": False}
    values = [100.0, 180.0, 140.0, 220.0, 120.0, 200.0, 160.0]
    assert kinds(values, facts=host) == ["noise"]
    assert kinds(values) == []  # of another board, this machine's load says nothing


def test_a_tenth_of_samples_that_other_programs_delayed_is_no_warning() -> None:
    host = {"clock_kind": "measured", "emulated": False}
    assert doubts([*STEADY, 1600.0], facts=host) == []
    [found] = doubts([*STEADY, 1600.0, 2900.0], facts=host)
    assert found.kind == "apart"
    assert found.hint == "Stop other programs, or take more samples: --repeat 100."


def test_outliers_are_named_with_their_place() -> None:
    [found] = doubts([*STEADY, 140.0])
    assert found.kind == "outliers"
    assert "1 of 13 samples is an outlier (#12: 140 us; the median is 100 us)" in found.text


def test_a_sample_that_plain_noise_may_have_is_no_warning_and_still_named() -> None:
    # The median distance is 0.1, so 1.3 is nine standard deviations: 1.3 * 0.6745 / 0.1 = 8.8.
    values = [*STEADY, 101.3]
    assert doubts(values) == []
    assert summarize(values).outliers == (12,)


def test_a_warning_says_whom_it_is_about() -> None:
    assert str(doubts([5.0])[0]).startswith("Time of fir on board: one sample")


@pytest.mark.parametrize("size", [5, 10, 30])
@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential"])
def test_plain_noise_sets_off_a_warning_in_one_run_of_twelve_at_most(size: int, shape: str) -> None:
    noise = random.Random(f"{shape}{size}")
    draw = {
        "normal": lambda: 100 + 2 * noise.gauss(),
        "uniform": lambda: 97 + 6 * noise.random(),
        "exponential": lambda: 100 + 5 * noise.expovariate(1),
    }[shape]
    runs = [bool(doubts([draw() for _ in range(size)])) for _ in range(120)]
    assert sum(runs) <= 10


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        [5, 5, 5, 5, 5, 5, 5, 5, 5, 9],
        [7, 7, 7, 7],
        [1],
        [1, 1, 2],
    ],
)
def test_evenly_spread_samples_and_single_ones_apart_are_one_part(values: list[int]) -> None:
    assert two_modes(values) is None


def test_the_parts_are_cut_where_they_differ_most() -> None:
    assert two_modes([1, 2, 1, 2, 1, 9, 9, 10]) == (Mode(5, 1.0), Mode(3, 9.0))


def test_a_short_call_has_one_warning_and_a_number_above_the_one_it_was_measured_with() -> None:
    taken = {
        "calibration": {"duration_time": 20},
        "calibration_samples": [{"raw": {"duration_time": n}} for n in (19, 20, 21)],
    }
    values = [0.9, 0.001, 0.0, 0.002, -0.001, 0.001, 0.0, 0.4, 0.001, 0.0, 0.001, 0.002]
    [found] = doubts(values, clocks={"duration_time": 10**9}, measurement=taken)
    assert found.kind == "overhead"
    assert found.hint.startswith("Make the samples longer: --number 1000. ")
    [found] = doubts(values, clocks={"duration_time": 10**9}, measurement=taken, number=1000)
    assert found.hint.startswith("Make the samples longer: --number 10000. ")
