# SPDX-License-Identifier: Apache-2.0
"""A metric over several Reports: what is usual for it, and what a rule makes of that."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from boardprof.results.comparison.compare import Trend, compare, trends_of
from boardprof.results.comparison.comparison import ComparisonError
from boardprof.results.report.report import Report
from boardprof.show.trend_table import blocks
from tests.unit.reports import EMULATOR, HARDWARE, report_of

NOISY = [1003, 998, 1001, 996, 1005, 1000, 1002, 995, 1004, 999]
"""Median 1000.5; half of the values are within 2.5 of it."""


def hardware(cycles: int, **more: Any) -> Report:
    values = [cycles - 1, cycles, cycles, cycles + 1, cycles] * 2
    return report_of({"cycles": values}, facts=HARDWARE, **more)


def emulated(count: int) -> Report:
    return report_of({"instructions": [count] * 3}, facts=EMULATOR)


def trend_of(*runs: Report) -> Trend:
    (found,) = trends_of(runs, partial(compare, after=runs[-1]))[0].values()
    return found


def test_what_is_usual_is_the_median_and_the_distance_of_half_of_the_runs() -> None:
    usual = trend_of(*map(hardware, NOISY)).usual()
    assert usual is not None
    assert (usual.middle, usual.spread, usual.runs) == (1000.5, 3.7065, 10)


def test_an_outlier_does_not_change_what_is_usual() -> None:
    usual = trend_of(*map(hardware, [*NOISY[:9], 90_000])).usual()
    assert usual is not None
    # Of 995 996 998 1000 1001 1002 1003 1004 1005 90000, the middle is 1001.5; of the distances
    # 6.5 5.5 3.5 1.5 .5 .5 1.5 2.5 3.5 88998.5, it is 3: 3 * 1.4826.
    assert (usual.middle, usual.spread) == (1001.5, 4.4478)


def test_another_statistic_has_its_own_usual_value() -> None:
    usual = trend_of(*map(hardware, NOISY)).usual("max")
    assert usual is not None
    assert usual.middle == 1001.5
    assert trend_of(*map(hardware, NOISY)).usual("cold") is None


def test_only_the_runs_since_the_last_change_count() -> None:
    trend = trend_of(*map(emulated, [505, 505, 507, 507, 507]))
    assert [(each.at, each.before, each.after) for each in trend.changes] == [(2, 505, 507)]
    usual = trend.usual()
    assert usual is not None
    assert (usual.middle, usual.spread, usual.runs, trend.is_exact) == (507, 0, 3, True)


def test_runs_that_cannot_be_compared_are_left_out_with_the_reason() -> None:
    runs = [hardware(100), hardware(101, flags="-O3"), hardware(102, name="iir"), hardware(103)]
    trends, left_out = trends_of(runs, partial(compare, after=runs[-1]))
    (trend,) = trends.values()
    assert trend.runs == (0, 3)
    assert trend.medians == [100, 103]
    assert [*left_out] == [1, 2]
    assert "no row in common" in left_out[2]


def test_earlier_runs_are_given_to_a_comparison() -> None:
    earlier = [*map(hardware, NOISY)]
    found = compare(earlier[-1], hardware(1016), "cycles>4spread", earlier=earlier)
    assert [row.metric for row in found.regressions] == ["cycles"]
    # 15.5 / 3.7065
    told = "1,016 is +4.18 spreads of 3.706 from 1,000.5, the median of 10 earlier runs."
    assert f"cycles of fir: {told}" in found.notes
    fewer = compare(earlier[-1], hardware(1016), "cycles>4spread", earlier=earlier, spread_runs=5)
    # The last five: median 1000, distances 0 2 5 4 1, their median 2; 16 / 2.9652 is 5.4 spreads.
    assert "+5.40 spreads of 2.965 from 1,000" in " ".join(fewer.notes)
    many = [hardware(1000), *earlier, *earlier]
    most = compare(earlier[-1], hardware(1016), "cycles>4spread", earlier=many)
    assert "the median of 20 earlier runs." in " ".join(most.notes)


def test_counts_beyond_a_floats_precision_have_a_trend_and_a_limit() -> None:
    earlier = [*map(emulated, [10**40] * 5)]
    found = compare(earlier[-1], emulated(10**40 + 1), "instructions>4spread", earlier=earlier)
    assert found.regressed
    (trend,) = trends_of(earlier, partial(compare, after=emulated(3)))[0].values()
    assert (trend.changes, blocks(trend.medians)) == ([], "▅▅▅▅▅")


def test_any_growth_of_an_exact_count_is_beyond_its_spread() -> None:
    earlier = [*map(emulated, [505] * 5)]
    found = compare(earlier[-1], emulated(506), "instructions>4spread", earlier=earlier)
    assert found.regressed
    told = "506 differs from 505, the median of 5 earlier runs."
    assert f"instructions of fir: {told}" in found.notes
    assert not compare(
        earlier[-1], emulated(505), "instructions>4spread", earlier=earlier
    ).regressed


def test_without_earlier_runs_a_rule_in_spreads_is_refused() -> None:
    with pytest.raises(ComparisonError, match="The rule cycles>4spread needs earlier runs"):
        compare(hardware(1), hardware(2), "cycles>4spread")


@pytest.mark.parametrize("count", [0, 1, 4])
def test_fewer_than_five_runs_judge_nothing(count: int) -> None:
    earlier = [*map(hardware, NOISY[:count])]
    found = compare(hardware(1000), hardware(2000), "cycles>4spread", earlier=earlier)
    assert (found.regressed, found.judged) == (False, 0)
    (one,) = found.unjudged
    assert one.why.endswith(f"there {'is' if count == 1 else 'are'} {count}")


def test_values_are_drawn_as_blocks_and_small_differences_nearly_level() -> None:
    assert blocks([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert blocks([1000, 1001]) == "▄▅"
    assert blocks([5, 5]) == "▅▅"
    assert blocks([0, 0, 0]) == "▁▁▁"
    assert len(blocks([*range(100)])) == 24
    assert blocks([1 / 3, 10**18]) == "▁█"
