# SPDX-License-Identifier: Apache-2.0
"""Measurements to rows, totals and notes. Every expected number is worked out by hand."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import FrameType

import pytest

from boardprof.base.formula import parse_formula
from boardprof.base.metrics import Count, Duration, Percent, Ratio
from boardprof.results.record import Device, Interrupts
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement, PassResult
from boardprof.wire.decode.clock import ClockFit
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading, Sample
from boardprof_protocol.codes import CounterStatus

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
        (
            PassResult(
                (sample(instructions=1000, ticks=500), sample(instructions=1100, ticks=550)),
                tuple(sample(instructions=n, ticks=50) for n in (90, 100, 100, 300, 500)),
                (sample(instructions=3000, ticks=1500), sample(instructions=1000, ticks=500)),
            ),
        ),
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


def test_samples_of_different_numbers_of_calls_are_no_shares_of_a_whole() -> None:
    other = replace(measurement(number=4), function="iir")
    assert all("Percent" not in row for row in assemble([measurement(), other]).calls)
    alike = replace(measurement(), function="iir")
    assert all("Percent" in row for row in assemble([measurement(), alike]).calls)


def test_the_total_is_the_sum_over_all_replies() -> None:
    total = assemble([measurement()]).device_metrics["m4"]
    assert (total["instructions"], total["ticks"]) == (Count(4000), Count(2000))
    assert total["Duration (us)"] == Duration(80.0)
    twice = assemble([measurement(), measurement()]).device_metrics["m4"]
    assert (twice["ticks"], twice["Duration (us)"]) == (Count(4000), Duration(160.0))


def test_of_two_clocks_one_gives_the_duration_of_rows_and_total() -> None:
    both = replace(
        measurement(),
        passes=(
            PassResult(
                (sample(duration_time=7000, ticks=100),),
                (sample(duration_time=1000, ticks=0),),
                (sample(duration_time=12000, ticks=200),),
            ),
        ),
    )
    report = assemble([both])
    assert report.calls[0]["Duration (us)"] == Duration(6.0)
    assert report.device_metrics["m4"]["Duration (us)"] == Duration(12.0)
    assert report.calls[0]["Percent"] == Percent(50.0)


def test_each_sample_is_corrected_once_a_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    corrected: list[str] = []
    net = Measurement.net

    def counted(self: Measurement, one: Sample, counter: str) -> int:
        corrected.append(counter)
        return net(self, one, counter)

    monkeypatch.setattr(Measurement, "net", counted)
    assemble([measurement()])
    assert sorted(corrected) == ["instructions"] * 2 + ["ticks"] * 2


def test_what_stands_beside_the_rows_is_what_json_gives_back() -> None:
    info = CounterInfo("ticks", "TIM2", 32, 25_000_000, 0, False, CounterStatus.STUCK, 0)
    usual = measurement()
    report = assemble(
        [
            replace(
                usual,
                device=replace(
                    DEVICE,
                    collectors=(CollectorInfo(0, "ticks", 3, 1, 7, (info,)),),
                    cflags=("-g",),
                ),
                interrupts=Interrupts(masked=True, kept_by=("ticks",)),
            )
        ]
    )
    assert report.extra is not None
    again = json.loads(report.json())["boardprof"]
    assert repr(report.extra) == repr(again)  # no tuple is a list, and no member of an enum an int
    assert again["devices"]["m4"]["collectors"][0]["counters"][0]["status"] == 2
    assert again["measurements"][0]["interrupts"]["kept_by"] == ["ticks"]


def test_the_rounds_of_all_measurements_are_a_number_or_a_list_of_those_that_differ() -> None:
    usual = measurement(number=4)
    alone = assemble([usual]).configuration
    assert [alone[name] for name in ("Warm-up", "Repeat", "Number")] == [
        Count(0),
        Count(2),
        Count(4),
    ]
    others = [replace(usual, warmup=10), replace(usual, warmup=2)]
    assert assemble([usual, *others, usual]).configuration["Warm-up"] == "0, 2, 10"


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ((0, 0), None),
        ((3, 3), "3 in a sample, left out of its counts"),
        ((1200, 0), "0 to 1,200 in a sample, left out of its counts"),
    ],
)
def test_the_report_says_how_many_interrupts_were_left_out(
    counts: tuple[int, int], line: str | None
) -> None:
    windows = PassResult(
        tuple(sample(ticks=500, interrupts=count) for count in counts),
        (sample(ticks=50, interrupts=0),),
        (sample(ticks=1000, interrupts=sum(counts)),),
    )
    report = assemble([replace(measurement(), passes=(windows,))])
    assert report.configuration.get("m4 interrupts") == line


def test_a_result_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match=r'extra\["result"\]: JSON cannot hold bytes'):
        assemble([replace(measurement(), result=b"x")])


def test_what_is_ambiguous_or_below_zero_is_a_warning() -> None:
    odd = {"ticks": Reading(10, "ticks", 25_000_000, ambiguous=True, wrapped=2)}
    usual = measurement()
    windows = replace(usual.passes[0], samples=(Sample(odd, b""),))
    report = assemble([replace(usual, passes=(windows,))])
    assert report.configuration["m4 warning"] == (
        "ticks of fir is too small to be resolved (net < 0); ticks of fir may have wrapped unseen"
    )
    assert report.extra is not None
    assert report.calls[0]["ticks"] == Count(-40)  # 10 less 50; TVM would write -1
    (raw,) = report.extra["measurements"][0]["samples"]
    assert raw == {"raw": {"ticks": 10}, "wraps": {"ticks": 2}, "ambiguous": ["ticks"], "blobs": ""}


def test_an_emulators_clock_beside_its_instructions_is_no_warning() -> None:
    usual = measurement()
    emulator = replace(usual.device, clock_kind="simulated")
    windows = PassResult(
        (sample(ticks=49, instructions=70),),
        (sample(ticks=50, instructions=60),),
        (sample(ticks=1000, instructions=900),),
    )
    found = assemble([replace(usual, device=emulator, passes=(windows,))]).configuration
    assert "m4 warning" not in found
    assert found["m4 unresolved"] == "ticks of fir (net < 0)"
    windows = replace(windows, samples=(sample(ticks=50, instructions=70),))
    found = assemble([replace(usual, device=emulator, passes=(windows,))]).configuration
    assert "m4 unresolved" not in found
    alone = PassResult((sample(ticks=49),), (sample(ticks=50),), (sample(ticks=1000),))
    found = assemble([replace(usual, device=emulator, passes=(alone,))]).configuration
    assert found["m4 warning"] == "ticks of fir is too small to be resolved (net < 0)"


@pytest.mark.parametrize(("taken", "sign"), [(1000, "<"), (7000, "=")])
def test_a_warning_names_the_column_and_not_the_counter(taken: int, sign: str) -> None:
    below = replace(
        measurement(),
        passes=(
            PassResult(
                (sample(duration_time=taken),),
                (sample(duration_time=7000),),
                (sample(duration_time=12000),),
            ),
        ),
    )
    assert assemble([below]).configuration["m4 warning"] == (
        f"Duration (us) of fir is too small to be resolved (net {sign} 0)"
    )


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
    rough = replace(fit, tick_s=0.9985e-6, drift_error_ppm=17_934.6, span_s=0.0262)
    line = assemble([replace(measurement(), clock_fit=rough)]).configuration
    assert line["m4 clock by the host's"] == (
        "within 12.5 us, drift +1,502 ppm (within 17,935) over 0.0262 s"
    )


def test_without_exchanges_nothing_is_said_of_the_boards_clock() -> None:
    assert "m4 clock by the host's" not in assemble([measurement()]).configuration


def test_boards_that_return_other_results_are_told() -> None:
    one = replace(measurement(), result=7, arguments="n=1")
    other = replace(one, device=replace(DEVICE, name="avr"), result=-3)
    third = replace(one, device=replace(DEVICE, name="m7"))
    lines = assemble([one, other, third]).configuration
    assert lines["Results differ"] == "fir returned -3 on avr, 7 elsewhere"
    assert assemble([one, other]).configuration["Results differ"] == (
        "fir returned 7 on m4, -3 on avr"
    )
    # The float32 nearest to 0.5717973 is 0.571797311306 as a double.
    single = replace(one, result=0.5717973113059998, result_type="f32")
    assert assemble([single, other]).configuration["Results differ"] == (
        "fir returned 0.5717973 on m4, -3 on avr"
    )
    double = replace(single, result_type="f64")
    assert assemble([double, other]).configuration["Results differ"] == (
        "fir returned 0.5717973113059998 on m4, -3 on avr"
    )
    assert "Results differ" not in assemble([one, third]).configuration
    assert "Results differ" not in assemble([one, replace(other, arguments="n=2")]).configuration


def test_flags_stand_in_the_configuration_and_with_each_measurement() -> None:
    one = replace(measurement(), flags="-O2 -Wall")
    report = assemble([replace(one, device=replace(one.device, cflags=("-mcpu=m4", "-O1")))])
    assert report.configuration["m4 flags"] == "-mcpu=m4 -O2 -Wall"
    assert report.extra is not None
    assert report.extra["measurements"][0]["flags"] == "-O2 -Wall"
    assert all("Flags" not in row for row in report.calls)


def test_whose_memcpy_is_in_the_image_is_told() -> None:
    none, linked = replace(measurement(), libc="none"), replace(measurement(), libc="newlib")
    assert "m4 libc" not in assemble([measurement()]).configuration
    agents = (
        "none; memcpy and similar functions come from the agent and copy byte by byte, unless "
        "the code has its own"
    )
    assert assemble([none]).configuration["m4 libc"] == agents
    assert assemble([linked]).configuration["m4 libc"] == "newlib"
    assert assemble([linked, none]).configuration["m4 libc"] == f"newlib | {agents}"


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


# -- several passes, several devices, formulas --------------------------------------------------


def two_passes() -> Measurement:
    """Cycles in the first pass; loads and stalls in the second, with another calibration."""
    return Measurement(
        "fir",
        DEVICE,
        1,
        0,
        (
            PassResult(
                (sample(cycles=1010), sample(cycles=2010)),
                (sample(cycles=10),),
                (sample(cycles=5000),),
                mask=1,
            ),
            PassResult(
                (sample(loads=64, stalls=105), sample(loads=65, stalls=205)),
                (sample(loads=0, stalls=5),),
                (sample(loads=200, stalls=400),),
                mask=2,
                events={"hpm": ("loads", "stalls")},
            ),
        ),
        formulas={"Stalled (%)": ("Percent", parse_formula("100 * stalls / cycles"))},
    )


def test_each_row_has_the_counters_of_all_passes_each_less_its_own_calibration() -> None:
    first, second = assemble([two_passes()]).calls
    assert (first["cycles"], first["loads"], first["stalls"]) == (
        Count(1000),
        Count(64),
        Count(100),
    )
    assert (second["cycles"], second["loads"], second["stalls"]) == (
        Count(2000),
        Count(65),
        Count(200),
    )


def test_passes_are_named_with_what_each_counted() -> None:
    assert assemble([two_passes()]).configuration["m4 passes"] == (
        "2 runs, since the counters do not fit into one: cycles | loads, stalls"
    )


def test_the_blobs_and_events_of_each_pass_stand_in_the_json() -> None:
    (found,) = (assemble([two_passes()]).extra or {})["measurements"]
    assert (found["collectors"], found["events"]) == ([0], {})
    (second,) = found["further_passes"]
    assert second["collectors"] == [1]
    assert second["events"] == {"hpm": ["loads", "stalls"]}
    assert [each["raw"] for each in second["samples"]] == [
        {"loads": 64, "stalls": 105},
        {"loads": 65, "stalls": 205},
    ]


def test_a_formula_is_computed_of_net_values_and_for_the_total_of_raw_ones() -> None:
    report = assemble([two_passes()])
    assert [row["Stalled (%)"] for row in report.calls] == [Percent(10.0), Percent(10.0)]
    assert report.device_metrics["m4"]["Stalled (%)"] == Percent(8.0)  # 400 of 5000


def test_a_formula_without_its_counters_or_with_a_divisor_of_0_has_no_value() -> None:
    formulas = {"CPI": ("Ratio", parse_formula("cycles / instructions"))}
    report = assemble([replace(two_passes(), formulas=formulas)])
    assert all("CPI" not in row for row in report.calls)
    formulas = {"x": ("Ratio", parse_formula("cycles / (loads - loads)"))}
    report = assemble([replace(two_passes(), formulas=formulas)])
    assert all("x" not in row for row in report.calls)


def test_a_part_beside_the_cpu_is_a_device_of_its_own() -> None:
    measured = replace(two_passes(), parts={"loads": "accelerator", "stalls": "accelerator"})
    report = assemble([measured])
    assert [row["Device"] for row in report.calls] == ["m4", "m4 accelerator"] * 2
    cpu, part, *_ = report.calls
    assert "loads" not in cpu
    assert (part["Name"], part["loads"], part["Count"]) == ("fir", Count(64), Count(1))
    assert part["Stalled (%)"] == Percent(10.0)  # beside the first counter of the formula
    assert "cycles" not in part
    assert report.device_metrics["m4 accelerator"]["loads"] == Count(200)
    assert "loads" not in report.device_metrics["m4"]


def test_a_part_that_did_nothing_has_no_row_and_is_named_idle() -> None:
    idle = PassResult((sample(loads=3), sample(loads=3)), (sample(loads=3),), (sample(loads=9),))
    measured = replace(
        two_passes(), passes=(two_passes().passes[0], idle), parts={"loads": "accelerator"}
    )
    report = assemble([measured])
    assert [row["Device"] for row in report.calls] == ["m4", "m4"]
    assert report.configuration["m4 idle"] == "accelerator"
    assert report.device_metrics["m4 accelerator"]["loads"] == Count(9)


def test_an_estimate_is_named_and_marked() -> None:
    whole = two_passes().passes[0]
    shared = Sample({"loads": Reading(64, "count", estimated=True)}, b"")
    second = PassResult((shared, shared), (sample(loads=0),), (sample(loads=128),))
    report = assemble([replace(two_passes(), passes=(whole, second))])
    assert report.configuration["m4 estimated"] == (
        "loads: counted for part of the time, scaled to the whole"
    )
    (found,) = (report.extra or {})["measurements"]
    assert found["further_passes"][0]["samples"][0]["estimated"] == ["loads"]


def test_a_counter_that_did_not_run_in_one_window_is_left_out() -> None:
    windows = PassResult(
        (sample(cycles=10, loads=1), sample(cycles=10)), (sample(cycles=1),), (sample(cycles=30),)
    )
    assert windows.counters == ("cycles",)


def test_a_part_that_alone_was_asked_for_has_rows_though_it_did_nothing() -> None:
    idle = PassResult((sample(jobs=3),), (sample(jobs=3),), (sample(jobs=9),))
    report = assemble([replace(two_passes(), passes=(idle,), parts={"jobs": "accelerator"})])
    (row,) = report.calls
    assert (row["Device"], row["jobs"]) == ("m4 accelerator", Count(0))
    assert list(report.device_metrics) == ["m4 accelerator"]


def test_the_cpu_stands_before_its_parts_in_the_totals() -> None:
    both = PassResult(
        (sample(jobs=3, cycles=9),), (sample(jobs=0, cycles=0),), (sample(jobs=9, cycles=99),)
    )
    report = assemble([replace(two_passes(), passes=(both,), parts={"jobs": "accelerator"})])
    assert list(report.device_metrics) == ["m4", "m4 accelerator"]


def test_a_formula_of_counters_of_different_runs_says_so() -> None:
    assert assemble([two_passes()]).configuration["m4 of several runs"] == (
        "Stalled (%): computed from counters of different runs"
    )


def test_a_report_names_what_is_missing_of_it() -> None:
    report = assemble(
        [measurement()], missing=["iir on m4: it ran too long", "dot on m4: the board was reset"]
    )
    assert report.configuration["Missing"] == (
        "iir on m4: it ran too long; dot on m4: the board was reset"
    )
    assert report.extra is not None
    assert report.extra["missing"] == [
        "iir on m4: it ran too long",
        "dot on m4: the board was reset",
    ]
    assert (
        "\nMissing: iir on m4: it ran too long; dot on m4: the board was reset\n" in report.table()
    )


def test_a_whole_report_misses_nothing() -> None:
    report = assemble([measurement()])
    assert "Missing" not in report.configuration
    assert report.extra is not None
    assert report.extra["missing"] == []


def test_the_work_grows_with_the_samples_and_not_with_their_square() -> None:
    few, many = (calls_of_assembling(samples) for samples in (100, 400))
    assert many < 5 * few


def calls_of_assembling(samples: int) -> int:
    """Return how many Python calls it takes to make a Report of that many samples."""
    one = measurement()
    windows = replace(one.passes[0], samples=one.passes[0].samples[:1] * samples)
    found = replace(one, passes=(windows,))
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        assemble([found])
    finally:
        sys.setprofile(before)
    return calls
