# SPDX-License-Identifier: Apache-2.0
"""One ratio for many functions, checked against means that are worked out by hand."""

from __future__ import annotations

import pytest

from boardprof.base.metrics import Count, Duration, Metric, Ratio
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.comparison import MeanRatio, mean_ratios
from boardprof.results.report.report import Report


def report(**functions: dict[str, Metric]) -> Report:
    rows = [{"Name": n, "Device": "b", "Count": Count(1), **each} for n, each in functions.items()]
    return Report(
        rows,
        {},
        {},
        {"schema_version": 1, "devices": {"b": {"clock_kind": "simulated", "emulated": True}}},
    )


def means(before: Report, after: Report) -> list[MeanRatio]:
    return mean_ratios(compare(before, after).rows)


def test_half_and_double_make_no_difference_together() -> None:
    old = report(f={"loads": Count(100)}, g={"loads": Count(8)})
    new = report(f={"loads": Count(50)}, g={"loads": Count(16)})
    assert means(old, new) == [MeanRatio("loads", "b", 1.0, 2, 2)]


def test_it_is_the_root_of_the_product() -> None:
    old = report(f={"loads": Count(100)}, g={"loads": Count(100)}, h={"loads": Count(100)})
    new = report(f={"loads": Count(50)}, g={"loads": Count(20)}, h={"loads": Count(80)})
    [mean] = means(old, new)  # the cube root of 0.08
    assert mean.ratio == pytest.approx(0.430887, abs=1e-6)
    assert mean.measured == "3 functions"


def test_parts_of_a_microsecond_have_their_ratio() -> None:
    old = report(f={"t": Duration(1.5)}, g={"t": Duration(1.5)})
    new = report(f={"t": Duration(3.0)}, g={"t": Duration(3.0)})
    assert means(old, new) == [MeanRatio("t", "b", 2.0, 2, 2)]


def test_what_is_0_or_on_one_side_only_has_no_ratio() -> None:
    old = report(f={"loads": Count(2)}, g={"loads": Count(4)}, h={"loads": Count(0)})
    new = report(f={"loads": Count(1)}, g={"loads": Count(2)}, h={"loads": Count(9)}, i={"x": 1})
    assert means(old, new) == [MeanRatio("loads", "b", 0.5, 2, 2, left_out=1)]


def timed(**functions: list[float]) -> Report:
    rows: list[dict[str, Metric | int]] = [
        {"Name": n, "Device": "b", "Count": 1, "t": Duration(us)}
        for n, each in functions.items()
        for us in each
    ]
    return Report(rows, {}, {})


SLOW = [20.0 + n / 100 for n in range(10)]
FAST = [10.0 + n / 200 for n in range(10)]
NEAR_0 = [0.001 * n for n in range(10)]
NOISY_0 = [0.001 * (n % 2) * 9 + 0.0001 * n for n in range(10)]


def test_rows_within_noise_are_not_in_the_mean_and_are_counted() -> None:
    old = timed(f=FAST, g=FAST, tiny=NEAR_0, below=[us - 0.005 for us in NEAR_0])
    new = timed(f=SLOW, g=FAST, tiny=NOISY_0, below=[us - 0.004 for us in NOISY_0])
    [mean] = means(old, new)
    assert mean.ratio == pytest.approx(2**0.5, abs=1e-3)
    assert mean.measured == "2 functions (2 left out: within noise, or not above 0)"


def test_with_one_row_beside_noise_there_is_no_mean() -> None:
    assert means(timed(f=FAST, tiny=NEAR_0), timed(f=SLOW, tiny=NOISY_0)) == []


def test_with_too_few_samples_there_is_no_mean() -> None:
    assert means(timed(f=[1.0], g=[2.0]), timed(f=[3.0], g=[4.0])) == []


def test_one_function_has_no_mean_and_neither_has_a_ratio_or_a_share() -> None:
    each = {"IPC": Ratio(0.5), "Perturbation (%)": Ratio(1.0)}
    old, new = report(f=each, g=each | {"t": Duration(1.0)}), report(f=each, g=each)
    assert means(old, new) == []


def test_settings_of_a_sweep_are_measurements_of_their_functions() -> None:
    rows = [
        {"Name": name, "Device": "b", "Flags": flags, "Count": 1, "loads": 4}
        for name in ("f", "g")
        for flags in ("-O2", "-O3")
    ]
    swept = Report(
        rows,
        {},
        {},
        {"schema_version": 1, "devices": {"b": {"clock_kind": "simulated", "emulated": True}}},
    )
    [mean] = means(swept, swept)
    assert (mean.ratio, mean.measured) == (1.0, "4 measurements of 2 functions")
