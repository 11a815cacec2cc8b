# SPDX-License-Identifier: Apache-2.0
"""The board's clock on the host's: offset, drift, and an error bound that holds."""

from __future__ import annotations

import math
import random

import pytest

from boardprof.wire.decode.clock import Exchange, fit_clock

HZ = 1_000_000


def exchange(host_s: float, ticks: int, there_s: float, back_s: float) -> Exchange:
    """A board that reads its clock once, ``there_s`` after the request and ``back_s`` before the
    reply; its clock shows ``ticks`` when the host's shows ``host_s``."""
    return Exchange(host_s - there_s, ticks, ticks, host_s + back_s)


def test_even_delays_give_the_offset_and_the_rate() -> None:
    fit = fit_clock([exchange(10.0 + i, 5_000_000 + i * HZ, 0.5, 0.5) for i in range(5)], HZ)
    assert fit.to_host_s(5_000_000) == pytest.approx(10.0, abs=1e-6)
    assert fit.to_host_s(8_500_000) == pytest.approx(13.5, abs=1e-6)
    assert fit.drift_ppm == pytest.approx(0.0, abs=0.1)
    assert fit.error_s == pytest.approx(0.5, abs=1e-6)
    assert fit.exchanges == 5
    assert fit.span_s == 5.0


def test_a_clock_may_count_whole_seconds() -> None:
    fit = fit_clock([exchange(10.0 + i, 500 + i, 0.25, 0.25) for i in range(60)], 1)
    assert fit.hz == 1
    assert fit.to_host_s(530) == pytest.approx(40.0, abs=1.0)


def test_a_clock_that_runs_a_hundred_millionths_fast_is_seen_to() -> None:
    fit = fit_clock([exchange(float(i), i * 1_000_100, 0.001, 0.001) for i in range(11)], HZ)
    assert fit.drift_ppm == pytest.approx(100.0, abs=0.2)
    # From one corner of the first gate to the opposite one of the last: 2 ms in 10 s, either way.
    assert fit.drift_error_ppm == pytest.approx(2 * 200, rel=1e-3)


def test_the_boards_own_time_between_its_stamps_is_no_delay() -> None:
    begins = [0, 10, 20, 30, 40]
    slow = [Exchange(s, s * HZ, s * HZ + 2 * HZ, s + 2.1) for s in begins]
    assert fit_clock(slow, HZ).error_s == pytest.approx(0.05, rel=0.1)


def test_an_exchange_that_was_delayed_on_its_way_changes_nothing() -> None:
    good = [exchange(float(i), i * HZ, 0.01, 0.01) for i in range(10)]
    late = exchange(4.5, 4_500_000, 0.01, 0.9)
    with_late, without = fit_clock([*good[:5], late, *good[5:]], HZ), fit_clock(good, HZ)
    assert with_late.to_host_s(4_500_000) == pytest.approx(4.5, abs=1e-6)
    assert with_late.error_s == without.error_s == pytest.approx(0.01, abs=1e-6)


def test_one_quick_exchange_at_each_end_is_enough() -> None:
    gates = [(0.0, 0.001), (1.0, 0.4), (2.0, 0.3), (3.0, 0.001)]
    fit = fit_clock([exchange(s, round(s * HZ), wide, wide) for s, wide in gates], HZ)
    assert fit.error_s == pytest.approx(0.001, abs=1e-6)


@pytest.mark.parametrize("seed", range(50))
def test_the_error_bound_holds_whatever_the_line_does(seed: int) -> None:
    draw = random.Random(seed)
    rate = HZ * (1 + draw.uniform(-200e-6, 200e-6))
    offset_s = draw.uniform(-1e4, 1e4)

    def ticks_at(host_s: float) -> int:
        return math.floor((host_s + offset_s + 2e4) * rate)

    exchanges = []
    for i in range(16):
        sent_s = 100.0 + i * 0.3
        received_s = sent_s + draw.expovariate(1 / 0.002)
        answered_s = received_s + draw.uniform(0, 0.001)
        done_s = answered_s + draw.expovariate(1 / 0.008)
        exchanges.append(Exchange(sent_s, ticks_at(received_s), ticks_at(answered_s), done_s))
    fit = fit_clock(exchanges, HZ)
    assert abs(fit.drift_ppm - (rate / HZ - 1) * 1e6) <= fit.drift_error_ppm
    for host_s in (exchanges[0].done_s, 101.7, exchanges[-1].sent_s):
        assert abs(fit.to_host_s(ticks_at(host_s)) - host_s) <= fit.error_s + 1 / HZ


def test_nanoseconds_since_a_year_keep_their_precision() -> None:
    start = 30_000_000_000_000_000
    gates = [exchange(3e7 + i, start + i * 1_000_000_000, 1e-5, 1e-5) for i in range(4)]
    fit = fit_clock(gates, 1_000_000_000)
    assert fit.error_s == pytest.approx(1e-5, rel=1e-3)
    assert fit.to_host_s(start + 1_500_000_000) == pytest.approx(3e7 + 1.5, abs=1e-6)


@pytest.mark.parametrize(("count", "hz"), [(0, HZ), (1, HZ), (2, 0)])
def test_too_few_exchanges_or_no_rate_give_no_fit(count: int, hz: int) -> None:
    with pytest.raises(ValueError, match="two exchanges and a clock rate"):
        fit_clock([exchange(float(i), i, 0.1, 0.1) for i in range(count)], hz)


@pytest.mark.parametrize("ticks", [[0, 0, 0], [0, HZ, 9 * HZ], [2 * HZ, HZ, 0]])
def test_a_clock_that_stands_jumps_or_runs_backwards_gives_no_fit(ticks: list[int]) -> None:
    with pytest.raises(ValueError, match="does not run evenly"):
        fit_clock([exchange(float(i), t, 0.01, 0.01) for i, t in enumerate(ticks)], HZ)
