# SPDX-License-Identifier: Apache-2.0
"""Where a series changes its level. Expected p are scipy's: mannwhitneyu(method="exact")."""

from __future__ import annotations

import random

import pytest

from boardprof.results.stats.summary import Change, change_points

STEP = [101, 105, 98, 104, 99, 103, 97, 102, 96, 100, 111, 114, 109, 113, 110, 112]
"""Ten values around 100, then six around 111."""


def test_a_step_is_found_where_it_is_with_the_levels_of_both_sides() -> None:
    (found,) = change_points(STEP)
    assert (found.at, found.before, found.after) == (10, 100.5, 111.5)
    # p is 2 / C(16, 10) = 2 / 8008; places 5 to 11 of 16 are tested, in the first of two searches.
    assert found.p == pytest.approx(2 * 7 * 2 / 8008, rel=1e-12)


def test_an_outlier_is_no_change() -> None:
    assert change_points([*STEP[:10], 5000, 101, 98, 104, 99, 103]) == []


def test_a_level_that_comes_and_goes_is_found_with_both_ends() -> None:
    twice = [*STEP[:10], *(value + 50 for value in STEP[:10]), *STEP[:10]]
    assert [(each.at, each.before, each.after) for each in change_points(twice)] == [
        (10, 100.5, 150.5),
        (20, 150.5, 100.5),
    ]


@pytest.mark.parametrize("values", [[], [5], [1, 2] * 4 + [9], [7] * 30, [1] * 4 + [2] * 5])
def test_too_few_or_equal_values_have_no_change(values: list[int]) -> None:
    assert change_points(values) == []


def test_the_shortest_series_that_is_split_has_twelve_values() -> None:
    (found,) = change_points([1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16])
    assert (found.at, found.p) == (6, pytest.approx(2 * 2 / 924))
    assert change_points([1, 2, 3, 4, 5, 11, 12, 13, 14, 15]) == []


def test_steps_in_one_direction_are_all_found() -> None:
    stairs = [*STEP[:10], *(v + 50 for v in STEP[:10]), *(v + 99 for v in STEP[:10])]
    assert [each.at for each in change_points(stairs)] == [10, 20]


def test_exact_values_change_wherever_they_differ() -> None:
    large = 10**30
    assert change_points([505, 505, 507, 507, 507, 505], is_exact=True) == [
        Change(2, 505, 507, None),
        Change(5, 507, 505, None),
    ]
    assert change_points([large, large + 1], is_exact=True) == [Change(1, large, large + 1, None)]
    assert change_points([0.1] * 9, is_exact=True) == []


DRAWS = {
    "log-normal": lambda source: source.lognormvariate(0.0, 1.0),
    "few values": lambda source: source.choice([1000, 1001, 1001, 1002]),
    "two modes": lambda source: source.choice([0, 50]) + source.random(),
    "heavy tails": lambda source: source.gauss(0, 1) / max(1e-9, abs(source.gauss(0, 1))),
}


@pytest.mark.parametrize("name", DRAWS)
def test_at_most_one_series_in_a_hundred_without_a_change_has_one(name: str) -> None:
    source = random.Random(f"seed 22, {name}")
    series = ([DRAWS[name](source) for _ in range(25)] for _ in range(600))
    alarms = sum(bool(change_points(each)) for each in series)
    # With a rate of 1 %, more than 14 of 600 come in 1 of 1,000 tries (binomial distribution).
    assert alarms <= 14


def test_a_step_of_four_standard_deviations_is_found_after_six_runs() -> None:
    source = random.Random("seed 23")
    found = 0
    for _ in range(200):
        values = [source.gauss(100.0 if i < 20 else 104.0, 1.0) for i in range(26)]
        changes = change_points(values)
        found += len(changes) == 1 and abs(changes[0].at - 20) <= 1
    assert found >= 180
