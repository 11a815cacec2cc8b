# SPDX-License-Identifier: Apache-2.0
"""Measurements to rows, totals and notes. Every expected number is worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from boardprof.decode.clock import ClockFit
from boardprof.decode.samples import Reading, Sample
from boardprof.metrics import Count, Duration, Percent, Ratio
from boardprof.report.assemble import assemble
from boardprof.report.measurement import Device, Measurement

DEVICE = Device("m4", "measured", False, "/dev/ttyACM0", "0.1.0", "00" * 8, 1, {})


def sample(**values: int) -> Sample:
    kinds = {"duration_time": ("ns", 0), "ticks": ("ticks", 25_000_000)}
    readings = {}
    for name, value in values.items():
        unit, hz = kinds.get(name, ("count", 0))
        readings[name] = Reading(value, unit, hz, own_return=int(name == "instructions"))
    return Sample(readings, b"")


def measurement(*, kind: str = "measured", number: int = 1) -> Measurement:
    return Measurement(
        "fir",
        replace(DEVICE, clock_kind=kind),
        number,
        0,
        (sample(instructions=1000, ticks=500), sample(instructions=1100, ticks=550)),
        tuple(sample(instructions=n, ticks=50) for n in (90, 100, 100, 300, 500)),
        (sample(instructions=3000, ticks=1500), sample(instructions=1000, ticks=500)),
    )


def test_the_median_calibration_is_subtracted_and_the_empty_return_given_back() -> None:
    rows = assemble([measurement(number=4)]).calls
    assert [row["instructions"] for row in rows] == [Count(904), Count(1004)]
    assert [row["ticks"] for row in rows] == [Count(450), Count(500)]


def test_ticks_of_a_real_clock_are_a_duration_and_percent_goes_by_it() -> None:
    row, _ = assemble([measurement()]).calls
    assert row["Duration (us)"] == Duration(18.0)  # 450 ticks of 40 ns
    assert row["Percent"] == Percent(22.5)  # of 2000 ticks in all
    assert row["Perturbation (%)"] == Ratio(10.0)  # 50 of 500


def test_a_simulated_clock_gives_no_duration_and_percent_goes_by_instructions() -> None:
    row, _ = assemble([measurement(kind="simulated")]).calls
    assert "Duration (us)" not in row
    assert row["Percent"] == Percent(100 * 901 / 4000)
    assert row["Perturbation (%)"] == Ratio(9.9)  # 1000 less 901


def test_the_total_is_the_sum_over_all_replies() -> None:
    total = assemble([measurement()]).device_metrics["m4"]
    assert (total["instructions"], total["ticks"]) == (Count(4000), Count(2000))
    assert total["Duration (us)"] == Duration(80.0)


def test_of_two_clocks_one_gives_the_duration_of_rows_and_total() -> None:
    both = replace(
        measurement(),
        samples=(sample(duration_time=7000, ticks=100),),
        calibration=(sample(duration_time=1000, ticks=0),),
        totals=(sample(duration_time=12000, ticks=200),),
    )
    report = assemble([both])
    assert report.calls[0]["Duration (us)"] == Duration(6.0)
    assert report.device_metrics["m4"]["Duration (us)"] == Duration(12.0)
    assert report.calls[0]["Percent"] == Percent(50.0)


def test_what_is_ambiguous_or_below_zero_is_a_warning() -> None:
    odd = {"ticks": Reading(10, "ticks", 25_000_000, ambiguous=True, wrapped=2)}
    report = assemble([replace(measurement(), samples=(Sample(odd, b""),))])
    assert report.configuration["m4 warning"] == (
        "ticks of fir is below what can be resolved (net < 0); ticks of fir may have wrapped unseen"
    )
    assert report.extra is not None
    (raw,) = report.extra["measurements"][0]["samples"]
    assert raw == {"raw": {"ticks": 10}, "wraps": {"ticks": 2}, "ambiguous": ["ticks"], "blobs": ""}


def test_the_perturbation_line_spans_least_and_most() -> None:
    line = str(assemble([measurement()]).configuration["m4 perturbation"])
    assert line.startswith("9.09 to 10 % ")


def test_the_configuration_states_how_well_the_boards_clock_is_known() -> None:
    # By hand: a tick of 0.999998e-6 s is a clock 2 ppm fast of its 1 MHz.
    fit = ClockFit(1_000_000, 0.999998e-6, 0, 5.0, 0.0000125, 40.0, 0.5, 16)
    shorter = replace(fit, error_s=0.00002, span_s=0.1)
    both = [replace(measurement(), clock_fit=each) for each in (shorter, fit)]
    report = assemble([*both, measurement()])
    assert report.configuration["m4 clock by the host's"] == (
        "within 20 us, drift +2 ppm (within 40) over 0.5 s"
    )
    assert report.extra is not None
    fits = [each["clock_fit"] for each in report.extra["measurements"]]
    assert [each and each["span_s"] for each in fits] == [0.1, 0.5, None]


def test_without_exchanges_nothing_is_said_of_the_boards_clock() -> None:
    assert "m4 clock by the host's" not in assemble([measurement()]).configuration


def test_flags_stand_in_the_configuration_and_with_each_measurement() -> None:
    one = replace(measurement(), flags="-O2 -Wall")
    report = assemble([replace(one, device=replace(one.device, cflags=("-mcpu=m4", "-O1")))])
    assert report.configuration["m4 flags"] == "-mcpu=m4 -O2 -Wall"
    assert report.extra is not None
    assert report.extra["measurements"][0]["flags"] == "-O2 -Wall"
    assert all("Flags" not in row for row in report.calls)


def test_whose_memcpy_is_in_the_image_is_told() -> None:
    none, linked = replace(measurement(), libc=False), replace(measurement(), libc=True)
    assert "m4 libc" not in assemble([measurement()]).configuration
    agents = "none; memcpy and its like are the agent's, byte by byte, unless the code has its own"
    assert assemble([none]).configuration["m4 libc"] == agents
    own = "linked; memcpy and its like are its own"
    assert assemble([linked]).configuration["m4 libc"] == own
    assert assemble([linked, none]).configuration["m4 libc"] == f"{own} | {agents}"


def test_where_flags_differ_each_row_has_its_own() -> None:
    fast = replace(measurement(), flags="-O3")
    small = replace(fast, flags="-Os", device=replace(DEVICE, build_id="11" * 8))
    report = assemble([fast, small])
    assert [row["Flags"] for row in report.calls] == ["-O3", "-O3", "-Os", "-Os"]
    assert report.configuration["m4 flags"] == "-O3 | -Os"
    assert report.configuration["m4 agent"] == f"0.1.0, build {'00' * 8}, {'11' * 8}"
    assert report.extra is not None
    builds = [each["build_id"] for each in report.extra["measurements"]]
    assert builds == ["00" * 8, "11" * 8]


def test_the_boards_level_of_optimisation_is_named_where_a_setting_brings_none() -> None:
    device = replace(DEVICE, cflags=("-mcpu=m4", "-O1"))
    plain = replace(measurement(), flags="-Wall", device=device)
    assert assemble([plain]).configuration["m4 flags"] == "-mcpu=m4 -O1 -Wall"
    none, fast = replace(plain, flags=""), replace(plain, flags="-O3")
    assert assemble([none]).configuration["m4 flags"] == "-mcpu=m4 -O1"
    assert assemble([none, fast]).configuration["m4 flags"] == "-mcpu=m4 -O1 | -O3"


def test_what_is_left_of_a_sweep_has_its_flags() -> None:
    report = assemble([replace(measurement(), flags="-O3")], swept=True)
    assert [row["Flags"] for row in report.calls] == ["-O3", "-O3"]


def test_flags_that_nobody_knows_are_not_named() -> None:
    report = assemble([measurement()], swept=True)
    assert all("Flags" not in row for row in report.calls)
    assert "m4 flags" not in report.configuration
