# SPDX-License-Identifier: Apache-2.0
"""Rank tests against scipy 1.17.1, which was run by hand: its results are the literals here."""

from __future__ import annotations

import pytest

from boardprof.results.stats.summary import (
    mann_whitney,
    mid_ranks,
    rank_correlation,
    signed_rank,
    smallest_p,
)


def test_a_textbook_example_is_exact() -> None:
    # mannwhitneyu([19, 22, 16, 29, 24], [20, 11, 17, 12], method="exact")
    p = mann_whitney([19, 22, 16, 29, 24], [20, 11, 17, 12])
    assert p == pytest.approx(0.1111111111111111, rel=1e-12)


def test_twelve_a_side_are_still_exact() -> None:
    # mannwhitneyu(range(1, 13), [v + 3.5 for v in range(12)], method="exact")
    p = mann_whitney(list(range(1, 13)), [v + 3.5 for v in range(12)])
    assert p == pytest.approx(0.12768789966259345, rel=1e-12)


def test_many_samples_take_the_normal_curve_with_continuity() -> None:
    # mannwhitneyu(range(25), [v + 4.5 for v in range(25)], method="asymptotic")
    p = mann_whitney(list(range(25)), [v + 4.5 for v in range(25)])
    assert p == pytest.approx(0.0478057953309806, rel=1e-12)


def test_ties_are_counted_exactly_too() -> None:
    # 2 of the C(10, 5) = 252 arrangements; the normal curve would say 0.0040
    assert mann_whitney([3] * 5, [4] * 5) == pytest.approx(2 / 252, rel=1e-12)
    # 2 of C(8, 4) = 70 and of C(32, 2) = 496; the normal curve would say 0.013 and 5e-8
    assert mann_whitney([3] * 4, [4] * 4) == pytest.approx(2 / 70, rel=1e-12)
    assert mann_whitney([4] * 30, [3] * 2) == pytest.approx(2 / 496, rel=1e-12)
    # of 3 choices of one rank from 1.5, 1.5, 3 one is as high as 3, and all are at most that
    assert mann_whitney([2], [1, 1]) == pytest.approx(2 / 3, rel=1e-12)


def test_all_arrangements_of_ten_a_side_with_ties() -> None:
    # rank sums of all C(20, 10) choices of scipy.stats.rankdata(first + second), counted by numpy
    first = [10, 10, 10, 11, 11, 12, 12, 12, 13, 14]
    second = [11, 12, 12, 13, 13, 13, 14, 14, 15, 15]
    assert mann_whitney(first, second) == pytest.approx(0.015458225984541774, rel=1e-12)


def test_the_depression_scores_of_a_textbook_have_one_tie() -> None:
    # Hollander and Wolfe, Nonparametric Statistical Methods, table 3.1; two pairs are tied here.
    # All C(18, 9) choices of the ranks, counted by numpy.
    first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    second = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    assert mann_whitney(first, second) == pytest.approx(0.12990538872891813, rel=1e-12)


def test_the_normal_curve_is_corrected_for_ties() -> None:
    # mannwhitneyu(first, second, method="asymptotic")
    first, second = [i % 7 for i in range(24)], [1 + i % 7 for i in range(30)]
    assert mann_whitney(first, second) == pytest.approx(0.06897907715090831, rel=1e-12)


def test_the_order_of_the_sides_does_not_matter() -> None:
    assert mann_whitney([1, 2, 3], [4, 5, 6, 7]) == mann_whitney([4, 5, 6, 7], [1, 2, 3])


def test_samples_that_are_all_alike_differ_by_nothing() -> None:
    assert mann_whitney([5] * 10, [5] * 10) == 1.0
    assert mann_whitney([1], [1]) == 1.0


def test_two_single_samples_say_nothing() -> None:
    assert mann_whitney([1], [2]) == 1.0


def test_the_smallest_p_is_that_of_two_sides_apart() -> None:
    # 2 of the C(6, 3) = 20 and of the C(10, 5) = 252 arrangements
    assert smallest_p(3, 3) == pytest.approx(0.1)
    assert smallest_p(5, 5) == pytest.approx(2 / 252)
    assert mann_whitney([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1)
    assert smallest_p(1, 1) == 1.0
    assert smallest_p(10**6, 10**6) < 1e-50


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert mid_ranks([30, 10, 20, 20]) == [4.0, 1.0, 2.5, 2.5]


def test_the_correlation_with_the_order_is_spearmans() -> None:
    # spearmanr(range(10), [2, 1, 4, 3, 6, 5, 8, 7, 10, 9]), spearmanr(range(6), [5, 5, 3, 3, 1, 1])
    swapped = rank_correlation([2, 1, 4, 3, 6, 5, 8, 7, 10, 9])
    assert swapped == pytest.approx(0.9393939393939393)
    assert rank_correlation([5, 5, 3, 3, 1, 1]) == pytest.approx(-0.956182887467515)
    assert rank_correlation([4, 4, 4]) == 0.0
    assert rank_correlation([4]) == 0.0


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([], 1.0),
        ([0, 0], 1.0),
        ([*range(1, 11)], 2 / 1024),
        ([-1, *range(2, 11)], 4 / 1024),
        ([1, -2, -1.5, 4, 5, 6, 7, 8], 20 / 256),
        ([3, -3], 1.0),
        ([2.5] * 6, 2 / 64),
        ([10**30 + n for n in range(7)], 2 / 128),
    ],
)
def test_the_signed_rank_test_counts_signs(differences: list[float], p: float) -> None:
    """By hand: sums of ranks 1 to n that are not above the smaller one, of 2^n, and twice that.

    Of 1.5, 2 below among eight: ranks 2 and 3 sum to 5, which ten sets do not exceed.
    """
    assert signed_rank(differences) == p
    assert signed_rank([-each for each in differences]) == p


def test_of_many_pairs_the_signed_rank_test_is_the_normal_curve() -> None:
    """Of 60 that all rise, z = (1830 / 2 - 0.5) / sqrt(60 * 61 * 121 / 24) = 6.732."""
    assert signed_rank([(-1) ** n * n for n in range(1, 53)]) > 0.7
    assert signed_rank([*range(1, 61)]) == pytest.approx(1.67e-11, rel=0.01)
