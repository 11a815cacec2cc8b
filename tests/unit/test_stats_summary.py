# SPDX-License-Identifier: Apache-2.0
"""Samples in a few numbers. Expected values are worked out by hand, or by numpy and scipy."""

from __future__ import annotations

import pytest

from boardprof.base.errors import UsageError
from boardprof.results.stats.summary import summarize


def test_five_samples_have_the_statistics_that_numpy_gives() -> None:
    found = summarize([16, 1, 8, 2, 4])
    assert (found.n, found.minimum, found.median, found.mean, found.maximum) == (5, 1, 4, 6.2, 16)
    # numpy.percentile([1, 2, 4, 8, 16], [5, 25, 75, 95])
    assert found.percentiles == {5: 1.2, 25: 2.0, 75: 8.0, 95: pytest.approx(14.4)}


def test_the_standard_deviation_is_that_of_a_sample() -> None:
    # numpy.std([2, 4, 4, 4, 5, 5, 7, 9], ddof=1); the mean is 5
    found = summarize([2, 4, 4, 4, 5, 5, 7, 9])
    assert found.stddev == pytest.approx(2.138089935299395)
    assert found.cv == pytest.approx(2.138089935299395 / 5)


def test_one_sample_has_no_spread() -> None:
    found = summarize([7.5])
    assert (found.stddev, found.cv) == (None, None)
    assert found.percentiles == {5: 7.5, 25: 7.5, 75: 7.5, 95: 7.5}


def test_a_mean_of_0_has_no_coefficient_of_variation() -> None:
    assert summarize([-1, 1]).cv is None


def test_samples_that_are_all_alike_have_exactly_no_spread() -> None:
    found = summarize([0.1] * 7)
    assert (found.mean, found.stddev, found.outliers) == (0.1, 0.0, ())


def test_what_is_said_to_be_exact_is_so_only_where_the_samples_are_alike() -> None:
    assert summarize([5, 5], is_exact=True).is_exact
    assert not summarize([5, 6], is_exact=True).is_exact
    assert not summarize([5, 5]).is_exact


def test_a_sample_far_from_the_others_is_named_by_its_place() -> None:
    # The median is 10, the median distance from it 1: beyond 3.5 / 0.6745 = 5.19 is outside.
    assert summarize([9, 11, 10, 15.1, 10, 9, 11]).outliers == ()
    assert summarize([9, 11, 10, 15.3, 10, 9, 11]).outliers == (3,)


def test_where_most_samples_are_alike_the_mean_distance_judges() -> None:
    # The median distance is 0; the mean one is 10 / 11, times 1.2533 * 3.5 is 3.99.
    assert summarize([5] * 10 + [15]).outliers == (10,)
    # Two of four are far: the mean distance is 5, and 21.9 away is nothing.
    assert summarize([5, 5, 5, 5, 15, 15, 15]).outliers == ()


def test_of_sixty_thousand_samples_the_same_ones_are_outliers_as_of_sixty() -> None:
    apart = [*[10, 11, 12] * 20_000, 1000, -7]
    assert summarize(apart).outliers == (60_000, 60_001)
    # The mean distance, 990 / 60,001, is all that a sample among equal ones is measured by.
    assert summarize([*[10] * 60_000, 1000]).outliers == (60_000,)


def test_counts_stay_whole_and_what_is_between_them_is_rounded_once() -> None:
    large = (1 << 64) - 1
    found = summarize([large, large - 2, large - 4])
    assert (found.minimum, found.median, found.mean) == (large - 4, large - 2, large - 2)
    assert (found.exactly("max"), found.maximum) == (large, large)
    assert type(summarize([1, 3]).mean) is int
    assert (summarize([1, 2]).mean, summarize([1, 2]).exactly("p75")) == (1.5, 1.75)


def test_the_largest_counts_are_alike_only_if_they_are_equal() -> None:
    large = (1 << 64) - 1  # as a float, both are 2^64
    assert summarize([large, large], is_exact=True).is_exact
    assert not summarize([large, large - 1], is_exact=True).is_exact


def test_the_cold_value_stands_beside() -> None:
    assert summarize([1, 2], first=9).first == 9.0
    assert summarize([1, 2]).first is None


@pytest.mark.parametrize(
    "values", [[], [1.0, float("nan")], [float("inf")], [1.0, -1e308], [10**400]]
)
def test_no_samples_or_what_is_no_number_is_refused(values: list[float]) -> None:
    with pytest.raises(UsageError):
        summarize(values)
