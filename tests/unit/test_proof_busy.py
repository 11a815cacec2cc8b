# SPDX-License-Identifier: Apache-2.0
"""A time is proven beside other programs only as far as its runs agree."""

from __future__ import annotations

from boardprof.measure.doctor.counters import FAILED, SKIPPED, better_half, doubt

QUIET = [[100, 101, 104, 5_000], [200, 202, 203, 9_000], [300, 300, 306, 307]]
"""Of four runs each; a few of them were interrupted."""


def test_the_better_half_of_the_runs_is_what_others_have_left_alone() -> None:
    assert better_half([[5, 3, 1, 9]]) == 2  # 1 and 3
    assert better_half([[9, 1, 4]]) == 3  # of an odd number, the one in the middle too
    assert better_half(QUIET) == 2


def test_runs_that_agree_are_proven_whatever_a_few_others_took() -> None:
    assert doubt(QUIET, "ns") is None


def test_runs_that_differ_by_more_than_the_work_takes_prove_nothing() -> None:
    busy = [[100, 250, 260, 270], [200, 201, 202, 203], [300, 301, 302, 303]]
    assert doubt(busy, "ns") == (
        SKIPPED,
        "the machine is too busy: 100, 200, 300 ns for 1, 2, 3 times the work, half of the runs "
        "within 150 ns of each other",
    )


def test_steps_that_differ_by_more_than_a_tenth_prove_nothing() -> None:
    uneven = [[100, 100], [200, 200], [320, 320]]
    assert doubt(uneven, "ns") == (
        SKIPPED,
        "the machine is too busy: 100, 200, 320 ns for 1, 2, 3 times the work, half of the runs "
        "within 0 ns of each other",
    )


def test_what_hardly_grows_with_the_work_fails_on_a_busy_machine_too() -> None:
    assert doubt([[100], [101], [102]], "ns") == (
        FAILED,
        "does not grow evenly: 100, 101, 102 ns for 1, 2, 3 times the work",
    )


def test_longer_calls_may_wait_for_other_programs_longer() -> None:
    shared = [[2_217_381], [16_600_103], [52_799_110]]  # of a machine with six programs a core
    verdict, text = doubt(shared, "ns") or ("", "")
    assert verdict == SKIPPED
    assert text.startswith("the machine is too busy: 2,217,381, 16,600,103, 52,799,110 ns for 1,")
