# SPDX-License-Identifier: Apache-2.0
"""Two Reports against each other: what is a difference, what is noise, what is refused."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import boardprof
from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.comparison import Comparison, ComparisonError, Difference
from boardprof.results.comparison.rule import RuleError, parse_rule
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import write_report
from tests.unit.reports import EMULATOR, HARDWARE, report_of

FAST = [10.0, 10.3, 9.9, 10.1, 10.2, 9.8, 10.05, 10.15]
SLOW = [11.0, 11.3, 10.9, 11.1, 11.2, 10.8, 11.05, 11.15]


def durations(values: Sequence[float], **options: Any) -> Report:
    return report_of(
        {"Duration (us)": [Duration(v) for v in values]}, **{"facts": HARDWARE, **options}
    )


def counts(values: Sequence[int], **options: Any) -> Report:
    return report_of({"instructions": values}, **options)


def only(comparison: Comparison) -> Difference:
    [row] = comparison.rows
    return row


# -- exact counts -----------------------------------------------------------------------------


def test_equal_counts_of_an_emulator_are_the_same_however_many_samples_there_are() -> None:
    row = only(compare(counts([205] * 10), counts([205] * 3)))
    assert (row.verdict, row.is_exact, row.p, row.change) == ("same", True, None, 0.0)


def test_one_instruction_more_is_worse_and_needs_no_test() -> None:
    row = only(compare(counts([205]), counts([206])))
    assert (row.verdict, row.is_exact, row.p) == ("worse", True, None)
    assert row.change == pytest.approx(1 / 205)
    assert only(compare(counts([206]), counts([205]))).verdict == "better"


XEON, EPYC = "x86_64, Intel(R) Xeon(R) Processor (6-207-2)", "x86_64, AMD EPYC (25-1-1)"


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (XEON, XEON, ""),
        (XEON, "", ""),  # an older Report
        ("x86_64", EPYC, ""),
        (
            XEON,
            EPYC,
            "board: the CPU is Intel(R) Xeon(R) Processor (6-207-2) before, AMD EPYC (25-1-1) "
            "after: times and cycles may differ because of that.",
        ),
    ],
)
def test_two_cpus_of_one_architecture_are_told(before: str, after: str, note: str) -> None:
    sides = (durations(FAST, facts={**HARDWARE, "cpu": cpu}) for cpu in (before, after))
    notes = compare(*sides).notes
    assert [each for each in notes if "CPU" in each] == ([note] if note else [])


@pytest.mark.parametrize("before", [XEON, EPYC, "x86_64"])
def test_two_architectures_are_not_compared_unless_it_is_allowed(before: str) -> None:
    arm = "aarch64, (0x41-0xd0c-0x3-1)"
    sides = [durations(FAST, facts={**HARDWARE, "cpu": cpu}) for cpu in (before, arm)]
    told = f"board: the CPU is {before} before, {arm} after."
    with pytest.raises(ComparisonError) as refused:
        compare(*sides)
    assert refused.value.message == told
    assert f"{told} (allowed)" in compare(*sides, allow=["board"]).notes


def test_of_an_older_report_the_host_has_the_architecture_of_a_board_in_its_process() -> None:
    old, new = (durations(FAST, facts={**HARDWARE, "port": "in-process:native.so"}) for _ in "ab")
    sides = [
        Report(each.calls, {}, {"Host": host}, each.extra)
        for each, host in ((old, "Linux x86_64"), (new, "Linux aarch64"))
    ]
    with pytest.raises(ComparisonError, match="the CPU is x86_64 before, aarch64 after"):
        compare(*sides)
    assert compare(sides[0], sides[0]).notes == ()


def test_interrupts_that_were_masked_on_one_side_alone_are_told() -> None:
    masked = {"interrupts": {"masked": True, "timer_us": 1000}}
    note = (
        "Interrupts of board were not masked before and masked after: interrupts may be what "
        "differs."
    )
    plain = counts([205])
    assert compare(plain, counts([205], measurement=masked)).notes == (note,)
    assert compare(plain, plain).notes == ()


def test_where_one_build_counts_otherwise_its_input_is_in_doubt() -> None:
    one, other = ({"build_id": build} for build in ("00c0ffee", "0badcafe"))
    note = (
        "board ran the same build before and after. If its exact counts differ, its arguments, "
        "number= or warmup= differ too."
    )
    before = counts([205], measurement=one)
    assert note in compare(before, counts([206], measurement=one)).notes
    assert note not in compare(before, counts([205], measurement=one)).notes
    assert note not in compare(before, counts([206], measurement=other)).notes


def test_where_one_build_takes_another_time_the_machine_is_named() -> None:
    same, other = ({"build_id": build} for build in ("00c0ffee", "0badcafe"))
    note = (
        "board ran the same build before and after. What differs comes from other programs, the "
        "CPU's clock, or the places of code and data, not from the code."
    )
    before = durations([10.0 + i / 100 for i in range(10)], measurement=same)
    slower = [12.0 + i / 100 for i in range(10)]
    assert note in compare(before, durations(slower, measurement=same)).notes
    assert note not in compare(before, durations(slower, measurement=other)).notes
    assert note not in compare(before, before).notes


def test_counts_beyond_a_floats_precision_are_still_told_apart() -> None:
    for large in (1 << 53, 1 << 62, 10**140):
        rules = ["instructions:max>0", "instructions:mean>0"]
        found = compare(counts([large] * 3), counts([large + 1] * 3), rules)
        row = only(found)
        assert (row.verdict, row.is_exact, row.p, len(row.broken)) == ("worse", True, None, 2)
        assert row.before is not None
        assert row.after is not None
        assert (row.before.median, row.after.maximum) == (large, large + 1)
        assert not compare(counts([large]), counts([large]), rules).regressed


def test_counts_of_all_sizes_and_signs_are_compared() -> None:
    sizes = [0, 10**400, -(10**400), 10**308, -(10**308), -(2**63), 1]
    sides = [counts(sizes[i:] + sizes[:i], facts=HARDWARE) for i in range(6)]
    for other in [*sides, counts([1, 2, 10**309]), counts([1, 2], facts=HARDWARE)]:
        found = compare(sides[0], other, ["*:stddev>1%", "*:mean>0"], allow=["clock"])
        assert found.table()
        assert found.json()


def test_a_change_between_counts_is_exact() -> None:
    row = only(compare(counts([1]), counts([1 << 64])))
    assert row.change == (1 << 64) - 1


def test_a_deterministic_sequence_is_the_same_as_itself() -> None:
    states = list(range(100, 400, 30))
    assert only(compare(counts(states), counts(states))).verdict == "same"


def test_the_nth_counts_of_a_deterministic_function_are_compared_exactly() -> None:
    states = [124, 61, 300, 8, 61]
    for nth in range(5):
        more = [n + (i == nth) for i, n in enumerate(states)]
        found = compare(counts(states), counts(more), ["instructions:mean>0"])
        row = only(found)
        assert (row.verdict, row.is_exact, row.p, found.regressed) == ("worse", True, None, True)
        assert only(compare(counts(more), counts(states))).verdict == "better"


def test_a_rare_path_that_costs_more_breaks_a_rule_for_the_largest_sample() -> None:
    common = [8] * 9
    found = compare(counts([*common, 61]), counts([*common, 5011]), ["instructions:max>0"])
    assert found.regressed
    assert "  exact  REGRESSION (instructions:max>0: 61 to 5,011)\n" in found.table()
    assert "instructions&#58;max&#62;0&#58; 61 to 5&#44;011" in found.markdown()
    assert "limit instructions:max&gt;0: 61 to 5,011" in found.junit()


def test_counts_of_equal_median_and_mean_are_worse_where_the_largest_is() -> None:
    assert only(compare(counts([20, 20, 20]), counts([19, 20, 21]))).verdict == "worse"
    assert only(compare(counts([19, 20, 21]), counts([20, 20, 20]))).verdict == "better"


@pytest.mark.parametrize(
    "run",
    [
        {"repeat": 6},
        {"number": 2},
        {"warmup": 4},
        {"calls_before": 1},
        {"calls_before": None},
        {"cold": {"metrics": {}}},
        {"totals": [{}, {}]},
        {"further_passes": [{}]},
    ],
)
def test_states_of_other_calls_are_not_compared(run: dict[str, Any]) -> None:
    number, repeat = run.get("number", 1), run.get("repeat", 5)
    before = counts([100, 130, 160, 190, 220])
    for step in (1, 1000):
        states = [(100 + step * n) * number for n in range(repeat)]
        found = compare(before, counts(states, measurement=run, number=number), ["instructions>0"])
        row = only(found)
        assert (row.verdict, row.is_exact, row.p) == ("other calls", False, None)
        assert (found.regressed, len(found.unjudged)) == (False, 1)
        assert found.unjudged[0].why == (
            "its samples differ from call to call, and the two runs did not measure the same "
            "calls: use the same repeat=, number=, warmup=, cold=True and metrics=, and call "
            "the same functions before it"
        )
    alike = compare(counts([100] * 5), counts([130] * 5, measurement=run), ["instructions>0"])
    assert (only(alike).is_exact, alike.regressed) == (True, True)


def test_a_change_is_not_judged_if_the_arrays_had_other_contents() -> None:
    before, after, untold = (
        counts([value], measurement=facts)
        for value, facts in (
            (205, {"inputs_crc32": "0000000a"}),
            (190, {"inputs_crc32": "0000000b"}),
            (190, {}),
        )
    )
    for one, other in ((before, after), (after, before)):
        found = compare(one, other, ["instructions>0", "instructions<-1"])
        assert (only(found).verdict, found.regressed, found.judged) == ("other inputs", False, 0)
        assert [str(each.rule) for each in found.unjudged] == ["instructions>0", "instructions<-1"]
        assert found.unjudged[0].why.startswith("its arrays had other contents")
    assert only(compare(before, after, allow="inputs")).verdict == "better"
    assert compare(after, before, ["instructions>0"], allow="inputs").regressed
    assert only(compare(untold, before)).verdict == "worse"
    alike = counts([205], measurement={"inputs_crc32": "0000000b"})
    assert only(compare(before, alike)).verdict == "same"


def test_a_cold_call_is_not_judged_if_the_arrays_had_other_contents() -> None:
    sides = [
        counts(
            [205] * 3,
            measurement={
                "inputs_crc32": crc,
                "cold": {"metrics": {"instructions": {"count": cold}}},
            },
        )
        for crc, cold in (("0000000a", 300), ("0000000b", 400))
    ]
    rule = "instructions:cold>0"
    found = compare(*sides, [rule])
    assert (only(found).verdict, found.regressed, len(found.unjudged)) == ("other inputs", False, 1)
    assert compare(*sides, [rule], allow=["inputs"]).regressed


def test_contents_of_arrays_do_not_matter_between_two_boards() -> None:
    """The other board may have the other byte order."""
    sides = [
        counts([value], device=board, measurement={"inputs_crc32": crc})
        for value, board, crc in ((205, "rv32", "0000000a"), (190, "m4", "0000000b"))
    ]
    assert only(compare(*sides, allow=["board"])).verdict == "better"


def test_rows_of_several_calls_have_the_inputs_of_all() -> None:
    def twice(value: int, *crcs: str) -> Report:
        report = counts([value] * 2)
        extra = report.extra or {}
        [taken] = extra["measurements"]
        several = [{**taken, "inputs_crc32": crc} for crc in crcs]
        return Report(report.calls, {}, {}, {**extra, "measurements": several})

    before = twice(205, "0000000a", "0000000b")
    assert only(compare(before, twice(206, "0000000b", "0000000a"))).verdict == "worse"
    assert only(compare(before, twice(206, "0000000a", "0000000c"))).verdict == "other inputs"
    assert only(compare(before, twice(206, "0000000a", ""))).verdict == "worse"


def test_states_of_reports_that_do_not_tell_of_the_calls_are_not_compared() -> None:
    untold: dict[str, Any] = {"measurement": {"warmup": None}}
    row = only(compare(counts([100, 130], **untold), counts([130, 160], **untold)))
    assert row.verdict == "other calls"
    assert only(compare(counts([5, 6], **untold), counts([6, 5], **untold))).verdict == "same"


@pytest.mark.parametrize(
    ("formula", "is_exact"),
    [
        ("loads / stores", True),
        ("loads / ticks", False),
        ("loads / ticks_lost", True),  # `ticks` is a clock; counters whose names have it are not
        ("loads / (stores - lost.ticks)", True),
        ("(stores - ticks) / loads", False),
    ],
)
def test_what_is_computed_of_exact_counts_alone_is_exact(formula: str, is_exact: bool) -> None:
    facts: dict[str, Any] = {
        "measurement": {"formulas": {"Rate": ["Ratio", formula]}},
        "clocks": {"ticks": 10_000_000},
    }
    ratios = [0.5, 0.25, 0.75, 0.5, 0.625]
    before, after = (
        report_of({"Rate": [Ratio(each + more) for each in ratios], "loads": range(5)}, **facts)
        for more in (0, 0.03125)
    )
    rows = {row.metric: row for row in compare(before, after, ["Rate<-1%"]).rows}
    assert (rows["Rate"].is_exact, rows["Rate"].p is None) == (is_exact, is_exact)


def test_what_the_host_has_counted_of_an_emulator_is_not_taken_for_exact() -> None:
    before, after = (counts([205] * 12) for _ in range(2))
    rows = [
        [{**row, "host-us": Count(n)} for row, n in zip(side.calls, values, strict=True)]
        for side, values in ((before, range(4600, 4720, 10)), (after, range(4605, 4725, 10)))
    ]
    sides = [Report(each, {}, {}, before.extra) for each in rows]
    [instructions, host] = compare(*sides, ["host-us>0"]).rows
    assert (instructions.verdict, instructions.is_exact) == ("same", True)
    assert (host.verdict, host.is_exact, host.rule) == ("noise", False, None)


def test_one_step_more_in_each_state_of_a_deterministic_clock_is_found() -> None:
    states = list(range(100, 400, 30))
    before, after = (
        report_of({"ticks": [n + more for n in states]}, clocks={"ticks": 10_000_000})
        for more in (0, 3)
    )
    row = only(compare(before, after))
    assert (row.verdict, row.p, row.is_exact) == ("worse", None, True)
    other_calls = report_of({"ticks": [n + 3 for n in states[1:]]}, clocks={"ticks": 10_000_000})
    assert only(compare(before, other_calls)).verdict == "other calls"


def test_equal_counts_of_hardware_that_differ_are_judged_by_rank() -> None:
    hardware = {"facts": HARDWARE}
    row = only(compare(counts([205] * 10, **hardware), counts([206] * 10, **hardware)))
    assert (row.verdict, row.is_exact) == ("worse", False)
    assert row.p is not None
    assert row.p < 1e-4
    few = compare(counts([205] * 3, **hardware), counts([206] * 3, **hardware))
    assert only(few).verdict == "too few samples"


def test_a_level_is_exact_on_every_board() -> None:
    before, after = (report_of({"Stack (bytes)": [n] * 3}, facts=HARDWARE) for n in (96, 112))
    assert only(compare(before, after)).verdict == "worse"


# -- clocks -----------------------------------------------------------------------------------


def test_an_emulators_ticks_within_two_steps_are_noise_and_have_no_p() -> None:
    ticks = [report_of({"ticks": [n] * 20}, clocks={"ticks": 10_000_000}) for n in (300, 302, 303)]
    row = only(compare(ticks[0], ticks[1]))
    assert (row.verdict, row.p, row.is_exact) == ("noise", None, False)
    row = only(compare(ticks[0], ticks[2]))
    assert (row.verdict, row.p, row.is_exact) == ("worse", None, True)


def test_slower_samples_are_worse_and_faster_ones_better() -> None:
    row = only(compare(durations(FAST), durations(SLOW)))
    assert row.verdict == "worse"
    assert row.change == pytest.approx((11.075 - 10.075) / 10.075)
    assert row.p == pytest.approx(2 / 12870)  # of the C(16, 8) arrangements
    assert only(compare(durations(SLOW), durations(FAST))).verdict == "better"


def test_samples_of_one_distribution_are_noise() -> None:
    row = only(compare(durations(FAST), durations([v + 0.01 for v in FAST])))
    assert row.verdict == "noise"


def test_alpha_says_how_sure_a_difference_must_be() -> None:
    before, after = durations([1.0, 2.0, 3.0, 4.0, 5.5]), durations([5.0, 6.0, 7.0, 8.0, 9.0])
    assert only(compare(before, after)).verdict == "noise"  # p = 4 / 252
    assert only(compare(before, after, alpha=0.05)).verdict == "worse"


def test_a_difference_that_so_few_samples_could_never_show_is_not_called_noise() -> None:
    before, after = durations([1.0, 1.1, 1.2]), durations([101.0, 102.0, 103.0])
    found = compare(before, after, "duration>1%", fail_if_missing=True)
    assert only(found).verdict == "too few samples"  # p = 2 / 20
    assert (found.regressed, found.failed) == (False, True)
    assert "1 too few samples." in found.table()
    assert only(compare(before, after, alpha=0.11)).verdict == "worse"
    assert only(compare(before, before)).verdict == "same"


@pytest.mark.parametrize("alpha", [0, 1, -0.1, float("nan")])
def test_alpha_is_a_probability(alpha: float) -> None:
    with pytest.raises(UsageError, match="is not a probability"):
        compare(counts([1]), counts([1]), alpha=alpha)


@pytest.mark.parametrize(
    ("metric", "low", "high"),
    [
        ("IPC", Ratio(0.5), Ratio(0.6)),
        ("MACs/cycle", Ratio(0.5), Ratio(0.6)),
        ("Utilisation (%)", Percent(50), Percent(60)),
        ("Data waits (%)", Percent(50), Percent(60)),
        ("misses", Ratio(0.5), Ratio(0.6)),
    ],
)
def test_of_a_ratio_neither_side_is_better_unless_a_rule_says_so(
    metric: str, low: Metric, high: Metric
) -> None:
    before, after = (report_of({metric: [value] * 2}) for value in (low, high))
    for one, other in ((before, after), (after, before)):
        assert only(compare(one, other)).verdict == "changed"
    assert compare(before, after, [f"{metric}:median>1%"]).regressed
    assert not compare(after, before, [f"{metric}:median>1%"]).regressed
    assert not compare(before, after, [f"{metric}:median<-1%"]).regressed
    assert compare(after, before, [f"{metric}:median<-1%"]).regressed
    assert "1 changed" in compare(before, after).table()


# -- what the measuring itself takes ----------------------------------------------------------

SHORT = [0.016, 0.017, 0.015, 0.018, 0.016, 0.017, 0.015, 0.016]
SHORT_LATER = [0.027, 0.028, 0.026, 0.029, 0.027, 0.028, 0.026, 0.027]


def timed(
    values: Sequence[float], empty_ns: Sequence[int] = (53, 20, 19, 20, 21), **options: Any
) -> Report:
    """Return a Report of times; windows around the empty function took 20 ns in the middle."""
    windows = [{"raw": {"duration_time": taken}} for taken in empty_ns]
    calibration = {"duration_time": sorted(empty_ns)[2]}
    return report_of(
        {"Duration (us)": [Duration(v) for v in values]},
        clocks={"duration_time": 10**9},
        measurement={"calibration": calibration, "calibration_samples": windows},
        **{"facts": {"clock_kind": "measured", "emulated": False}, **options},
    )


def test_a_change_that_is_less_than_the_measuring_takes_is_no_regression() -> None:
    found = compare(timed(SHORT), timed(SHORT_LATER), ["time:median>2%"], fail_if_missing=True)
    assert only(found).verdict == "within overhead"  # 0.011 us of 0.02
    assert (found.regressed, found.failed) == (False, True)
    [each] = found.unjudged
    assert (each.what, each.why) == (
        "Duration (us) of fir",
        "the measurement overhead may differ by 0.02 us per call between two runs, which is more "
        "than the limit: use number=1000, or do more work in each call",
    )
    assert found.notes == (
        "Duration (us) of fir: the measurement overhead may differ by as much between two runs, "
        "so there may be no change; use number=1000, or do more work in each call.",
    )


def test_a_limit_that_is_less_than_the_measuring_takes_is_not_judged_by_luck() -> None:
    nearly = timed([v + 0.0001 for v in SHORT])
    assert only(compare(timed(SHORT), nearly)).verdict == "noise"
    assert len(compare(timed(SHORT), nearly, ["time>2%", "time>0.019"]).unjudged) == 2
    assert compare(timed(SHORT), nearly, ["time>0.02", "time>200%"]).unjudged == ()
    assert compare(timed(SHORT), nearly, ["time:stddev>50%", "time:cold>2%"]).unjudged[1:] == ()
    assert compare(timed(SHORT), timed(SHORT), ["time>2%"]).unjudged == ()


def test_a_change_beyond_what_the_measuring_takes_is_found() -> None:
    long = timed([50 + v for v in SHORT])
    found = compare(timed(SHORT), long, ["time:median>2%"])
    assert (only(found).verdict, found.regressed, found.unjudged) == ("worse", True, ())
    below_0 = timed([v - 0.019 for v in SHORT])
    assert compare(below_0, long, ["time:median>2%"]).regressed
    assert only(compare(below_0, timed(SHORT))).verdict == "within overhead"
    assert only(compare(below_0, timed([v + 0.002 for v in SHORT]))).verdict == "worse"


def test_what_the_measuring_takes_is_shared_by_the_calls_of_a_window() -> None:
    def window(us_a_call: float) -> Report:
        values = [1000 * (us_a_call + i / 1e5) for i in range(8)]
        return timed(values, (3000, 2050, 2040, 2060, 2050), number=1000)

    assert only(compare(window(0.02), window(0.022))).verdict == "within overhead"
    assert only(compare(window(0.02), window(0.0221))).verdict == "worse"


@pytest.mark.parametrize(
    "options",
    [
        {"empty_ns": [20] * 5},  # each window was the same: what was subtracted is known
        {"facts": {"clock_kind": "declared", "emulated": True}},
        {"facts": None},  # not known
    ],
)
def test_a_small_change_is_found_where_the_measuring_is_known(options: dict[str, Any]) -> None:
    found = compare(timed(SHORT, **options), timed(SHORT_LATER, **options), ["time>2%"])
    assert (only(found).verdict, found.regressed, found.unjudged) == ("worse", True, ())


def test_cycles_in_doubt_are_those_by_which_two_calibrations_differ() -> None:
    def cycles(values: Sequence[int], empty: Sequence[int]) -> Report:
        windows = [{"raw": {"cycles": taken}} for taken in empty]
        taken = {"calibration": {"cycles": 25}, "calibration_samples": windows}
        return report_of({"cycles": values}, facts=HARDWARE, measurement=taken)

    old = cycles([100, 101] * 6, (25, 25, 26))
    for more, verdict in ((2, "within overhead"), (3, "worse")):
        new = cycles([100 + more, 101 + more] * 6, (25, 25, 24))
        assert only(compare(old, new)).verdict == verdict
    wide = cycles([124, 125] * 6, (25, 60, 20))  # the doubt is what was subtracted, at most
    assert only(compare(old, wide)).verdict == "within overhead"
    assert only(compare(old, cycles([126, 127] * 6, (25, 60, 20)))).verdict == "worse"


def test_counts_and_samples_that_are_all_alike_are_as_sharp_as_ever() -> None:
    def counted(metric: str, values: Sequence[int]) -> Report:
        windows = [{"raw": {metric: taken}} for taken in (90, 100, 100, 110)]
        taken = {"calibration": {metric: 100}, "calibration_samples": windows}
        return report_of({metric: values}, facts=HARDWARE, measurement=taken)

    for metric in ("instructions", "cycles"):
        found = compare(counted(metric, [205] * 8), counted(metric, [206] * 8), [f"{metric}>0"])
        assert found.regressed
    one, other = [200, 201, 202, 203] * 2, [220, 221, 222, 223] * 2
    assert only(compare(counted("cycles", one), counted("cycles", other))).verdict == (
        "within overhead"
    )
    rows = compare(counted("instructions", one), counted("instructions", other)).rows
    assert [row.verdict for row in rows] == ["worse"]


def test_a_regression_of_one_run_on_each_side_is_told_to_be_of_that() -> None:
    words = "Duration (us) of fir: one run on each side cannot show what varies from run to ru"
    [note] = compare(durations(FAST), durations(SLOW), ["time>5%"]).notes
    assert note.startswith(words)
    assert note.endswith(
        "believe it if it comes again with --ab-rev REV, which measures both in turns, or in each "
        "of two further pairs of runs."
    )
    assert compare(durations(FAST), durations(SLOW), ["time>20%"]).notes == ()
    assert compare(counts([205]), counts([206]), ["instructions>0"]).notes == ()
    emulated = (durations(values, facts=EMULATOR) for values in (FAST, SLOW))
    assert compare(*emulated, ["time>5%"]).notes == ()


def waiting(times: Sequence[float], cpu: Sequence[float]) -> Report:
    columns = {"Duration (us)": times, "task-clock (us)": cpu}
    metrics = {name: [Duration(value) for value in each] for name, each in columns.items()}
    return report_of(metrics, facts=HARDWARE)


def test_a_time_that_changed_without_cpu_time_is_not_called_better_or_worse() -> None:
    loaded, quiet = waiting([2 * value for value in FAST], FAST), waiting(FAST, FAST)
    for before, after in ((loaded, quiet), (quiet, loaded)):
        found = compare(before, after)
        assert [row.verdict for row in found.rows] == ["changed", "same"]
        assert found.notes[0].startswith("Duration (us) of fir: most of the change is not CPU time")
    assert compare(quiet, loaded, ["time>5%"]).regressed  # it may also be a new sleep
    slower = compare(quiet, waiting(SLOW, SLOW))
    assert [row.verdict for row in slower.rows] == ["worse", "worse"]
    noisy = compare(quiet, waiting(SLOW, [value * 1.04 for value in FAST]))
    assert noisy.rows[0].verdict == "worse"  # the CPU time may have changed by as much


# -- what is compared with what ---------------------------------------------------------------


def test_rows_are_the_same_by_name_shapes_flags_and_board() -> None:
    before = counts([1], shapes="n=1")
    for other in (counts([1], shapes="n=2"), counts([1], name="iir", shapes="n=1")):
        with pytest.raises(ComparisonError, match="no row in common"):
            compare(before, other)


def test_with_nothing_in_common_it_is_told_what_each_has() -> None:
    with pytest.raises(ComparisonError) as caught:
        compare(counts([1], name="fir"), counts([1], name="iir", shapes=""))
    assert "Before: fir(n=64) on board.\nAfter: iir() on board" in caught.value.message
    with pytest.raises(ComparisonError) as caught:
        compare(counts([1]), report_of({"loads": [4]}))
    assert "no metric in common: instructions before, loads after" in caught.value.message


def test_a_report_without_rows_has_nothing_to_compare() -> None:
    empty = Report([], {}, {})
    with pytest.raises(ComparisonError, match="The Report before is empty: there is nothing"):
        compare(empty, counts([1]))
    with pytest.raises(ComparisonError, match="The Report after is empty"):
        compare(counts([1]), empty)
    with pytest.raises(ComparisonError, match="Neither Report has a row"):
        compare(empty, empty)


def test_what_only_one_side_has_is_added_or_removed_and_noted() -> None:
    before = report_of({"instructions": [1], "loads": [2]})
    after = report_of({"instructions": [1], "stores": [3]})
    found = compare(before, after)
    assert [(row.metric, row.verdict) for row in found.rows] == [
        ("instructions", "same"),
        ("loads", "removed"),
        ("stores", "added"),
    ]
    assert found.notes == ("Only before: loads of fir.", "Only after: stores of fir.")
    assert found.rows[1].after is None
    assert found.rows[1].change is None
    assert [row.is_cold_apart for row in found.rows] == [False] * 3


def test_the_share_of_the_total_is_compared_only_where_a_rule_names_it() -> None:
    before, after = (
        report_of({"instructions": [5], "Percent": [Percent(p)]}) for p in (10.0, 90.0)
    )
    assert [row.metric for row in compare(before, after, ["*>0"]).rows] == ["instructions"]
    assert len(compare(before, after, ["Percent>1pp"]).rows) == 2


@pytest.mark.parametrize(
    ("metric", "kind"), [("Data waits (%)", Ratio), ("waits", Percent), ("waits (%)", Percent)]
)
def test_points_are_those_of_a_percentage_or_of_a_ratio_in_percent(
    metric: str, kind: type[Ratio | Percent]
) -> None:
    before, after = (report_of({metric: [kind(value)] * 2}) for value in (10.0, 12.0))
    assert compare(before, after, [f"{metric}>1pp"]).regressed
    assert not compare(before, after, [f"{metric}>2pp"]).regressed


def shares(percents: Sequence[float], name: str = "fir") -> Report:
    return report_of({"Percent": [Percent(p) for p in percents]}, name=name)


def both(*reports: Report) -> Report:
    return Report([row for each in reports for row in each.calls], {}, {}, reports[0].extra)


def test_a_share_is_that_of_all_samples_together_however_many_there_are() -> None:
    # 5 samples of 19.6 % and 20 of 4.966 %: all that was measured, both times.
    found = compare(shares([19.6] * 5), shares([4.966] * 20), ["Percent>0", "Percent:max>0%"])
    assert not found.regressed
    row = only(found)
    assert row.before is not None
    assert row.after is not None
    assert (row.before.median, row.after.median) == (pytest.approx(100), pytest.approx(100))
    assert found.notes[-1].startswith("Percent is the share of a function, with all its samples")


def test_a_share_that_grew_is_found_whatever_the_number_of_samples() -> None:
    before = both(shares([10.0] * 8), shares([2.5] * 8, "iir"))  # 80 % and 20 %
    after = both(shares([3.0] * 16), shares([3.25] * 16, "iir"))  # 48 % and 52 %
    found = compare(before, after, ["percent:mean>20pp"])
    [row] = found.regressions
    assert row.name == "iir"
    assert row.before is not None
    assert row.after is not None
    assert (row.before.mean, row.after.mean) == (pytest.approx(20), pytest.approx(52))


def test_shares_are_not_compared_where_functions_were_called_in_other_proportions() -> None:
    before = both(shares([10.0] * 5), shares([10.0] * 5, "iir"))
    after = both(shares([4.0] * 20), shares([4.0] * 5, "iir"))
    found = compare(before, after, ["Percent>1pp"])
    assert (found.rows, found.regressed) == ((), False)
    assert [each.what for each in found.unjudged] == ["Percent of fir", "Percent of iir"]
    assert found.notes == (
        "Percent of fir, Percent of iir: functions were called in other proportions before, and "
        "shares depend on that.",
    )


def test_ticks_of_clocks_of_other_rates_are_not_compared_but_time_is() -> None:
    metrics = [
        {"ticks": [n] * 5, "Duration (us)": [Duration(us)] * 5}
        for n, us in ((1000, 100.0), (2500, 100.0))
    ]
    before = report_of(metrics[0], clocks={"ticks": 10_000_000}, device="a")
    after = report_of(metrics[1], clocks={"ticks": 25_000_000}, device="b")
    found = compare(before, after, ["ticks>1%"], allow=["board"])
    assert [(row.metric, row.verdict) for row in found.rows] == [("Duration (us)", "same")]
    assert [str(each.what) for each in found.unjudged] == ["ticks of fir"]
    assert found.notes[-1] == (
        "ticks of fir: its clock has 10,000,000 Hz before, 25,000,000 Hz after, so its steps are "
        "not compared; time is."
    )


@pytest.mark.parametrize(("hz", "is_same"), [(10_100_000, True), (10_100_001, False)])
def test_clocks_whose_rates_are_up_to_a_hundredth_apart_are_one_clock(
    hz: int, is_same: bool
) -> None:
    before, after = (
        report_of({"ticks": [1500] * 5, "loads": [1] * 5}, clocks={"ticks": each}, device="a")
        for each in (10_000_000, hz)
    )
    compared = {row.metric for row in compare(before, after).rows}
    assert compared == ({"loads", "ticks"} if is_same else {"loads"})


def test_a_metric_that_was_of_another_kind_is_not_compared() -> None:
    before, after = report_of({"x": [1], "y": [2]}), report_of({"x": [Duration(1.0)], "y": [2]})
    found = compare(before, after, ["x>0"])
    assert [row.metric for row in found.rows] == ["y"]
    assert found.notes == (
        "x of fir: it is a Count before, a Duration after, which cannot be compared.",
    )


def test_a_hash_does_not_part_a_function_from_its_older_self() -> None:
    sides = [
        Report([{"Name": "f", "Hash": h, "loads": 1, "Count": 1, "Device": "b"}], {}, {})
        for h in ("aa", "bb")
    ]
    assert only(compare(*sides)).verdict == "same"


def test_hashes_part_functions_of_equal_name() -> None:
    rows = [
        {"Name": "f", "Hash": h, "loads": n, "Count": 1, "Device": "b"}
        for h, n in (("a", 1), ("b", 9))
    ]
    found = compare(Report(rows, {}, {}), Report(rows[::-1], {}, {}))
    assert [row.verdict for row in found.rows] == ["same", "same"]


# -- mismatches -------------------------------------------------------------------------------


def test_simulated_and_measured_clocks_are_not_compared_unless_told() -> None:
    before = counts([5], facts=EMULATOR)
    after = counts([5], facts={"clock_kind": "measured", "emulated": False})
    with pytest.raises(ComparisonError, match="simulated before, measured after") as caught:
        compare(before, after)
    assert caught.value.hint == "compare like with like, or --allow clock"
    assert "(allowed)" in compare(before, after, allow=["clock"]).notes[0]


def test_a_simulator_is_not_compared_with_the_board_that_it_is_of() -> None:
    simulator = counts([5], facts={"clock_kind": "declared", "emulated": True})
    with pytest.raises(ComparisonError, match="an emulator before, hardware after"):
        compare(simulator, counts([5], facts=HARDWARE))


def test_other_boards_are_not_compared_unless_told() -> None:
    before, after = counts([5], device="m3"), counts([6], device="m4")
    with pytest.raises(ComparisonError, match="different boards: m3 before, m4 after"):
        compare(before, after)
    row = only(compare(before, after, allow=["board"]))
    assert (row.device, row.verdict) == ("m3 -> m4", "worse")


def test_which_of_several_boards_to_compare_must_be_clear() -> None:
    def two(*names: str) -> Report:
        reports = [counts([5], device=name) for name in names]
        devices = {n: r.extra["devices"][n] for n, r in zip(names, reports, strict=True) if r.extra}
        extra = {"schema_version": 1, "devices": devices, "measurements": []}
        return Report([row for each in reports for row in each.calls], {}, {}, extra)

    with pytest.raises(ComparisonError, match="not clear"):
        compare(two("a", "b"), counts([5], device="c"), allow=["board"])
    found = compare(two("a", "b"), two("b", "c"))
    assert [(row.device, row.verdict) for row in found.rows] == [
        ("a", "removed"),
        ("b", "same"),
        ("c", "added"),
    ]


def compiled(names: str, flags: str) -> Report:
    reports = [counts([5], name=name, flags=flags) for name in names]
    rows = [row for each in reports for row in each.calls]
    measurements = [m for each in reports if each.extra for m in each.extra["measurements"]]
    return Report(rows, {}, {}, {**(reports[0].extra or {}), "measurements": measurements})


def test_other_flags_or_another_compiler_are_not_compared_unless_told() -> None:
    with pytest.raises(ComparisonError, match="fir is compiled with -O2 before, -O3 after"):
        compare(counts([5]), counts([5], flags="-O3"))
    with pytest.raises(ComparisonError, match="4 functions are compiled with -O2 before, -O3 aft"):
        compare(compiled("abcd", "-O2"), compiled("abcd", "-O3"))
    with pytest.raises(ComparisonError, match="a, b are compiled with -O2 before, -O3 after"):
        compare(compiled("ab", "-O2"), compiled("ab", "-O3"))
    old, new = ({"measurement": {"compilers": [f"GCC: {v}"]}} for v in ("12", "14"))
    with pytest.raises(ComparisonError, match="GCC: 12 before, by GCC: 14 after"):
        compare(counts([5], **old), counts([5], **new))
    compare(counts([5], **old), counts([5]))  # not known: nothing to refuse
    found = compare(counts([5], **old), counts([5], flags="-Os", **new), allow=["compiler"])
    assert len(found.notes) == 2
    with pytest.raises(ComparisonError, match="the board's flags are -mcpu=a before"):
        compare(
            counts([5], facts={**EMULATOR, "cflags": ["-mcpu=a"]}),
            counts([5], facts={**EMULATOR, "cflags": ["-mcpu=b"]}),
        )


def test_another_c_library_is_told_and_compared() -> None:
    """A change of the code may be what needs it."""
    old, new = (counts([5], measurement={"libc": name}) for name in ("none", "picolibc"))
    assert compare(old, new).notes == ("board: the C library is none before, picolibc after.",)
    assert not compare(old, old).notes
    assert not compare(old, counts([5])).notes


def test_folders_of_headers_are_no_other_flags() -> None:
    before = counts([5], flags="-O2 -I /home/a/inc -DN=4")
    compare(before, counts([5], flags="-O2 -I../inc -isystem '/x y' -DN=4"))
    with pytest.raises(ComparisonError, match="-DN=5"):
        compare(before, counts([5], flags="-O2 -DN=5"))


def test_flags_of_a_sweep_are_keys_and_no_mismatch() -> None:
    before = counts([5], flags="-O2", swept=True)
    with pytest.raises(ComparisonError, match=r"Before: fir\(n=64\) -O2 on board"):
        compare(before, counts([5], flags="-O3", swept=True))
    assert only(compare(before, before)).flags == "-O2"


def test_there_is_no_other_mismatch_to_allow() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'clock'"):
        compare(counts([1]), counts([1]), allow=["clok"])


def test_reports_without_facts_are_compared_by_rank() -> None:
    before, after = (durations(values, facts=None) for values in (FAST, SLOW))
    assert only(compare(before, after)).verdict == "worse"


# -- rules ------------------------------------------------------------------------------------


def test_a_broken_rule_is_a_regression() -> None:
    found = compare(counts([205]), counts([206]), ["instructions:max>0", "instructions>5%"])
    assert found.regressed
    assert [str(rule) for rule in only(found).broken] == ["instructions:max>0"]
    assert found.regressions == found.rows
    assert not compare(counts([205]), counts([206]), ["instructions>1%"]).regressed
    assert not compare(counts([205]), counts([206])).regressed


def test_noise_breaks_no_rule_and_a_sure_change_within_the_limit_neither() -> None:
    nearly = [v + 0.01 for v in FAST]
    assert not compare(durations(FAST), durations(nearly), ["duration>0"]).regressed
    assert not compare(durations(FAST), durations(SLOW), ["duration>20%"]).regressed
    assert compare(durations(FAST), durations(SLOW), ["duration>5%"]).regressed


def test_a_rule_for_what_shrinks_guards_ratios() -> None:
    before, after = (report_of({"IPC": [Ratio(r)] * 2}) for r in (0.8, 0.6))
    assert compare(before, after, ["IPC<-5%"]).regressed
    assert not compare(after, before, ["IPC<-5%"]).regressed


def test_a_rule_for_a_metric_that_is_none_is_an_error_as_is_a_glob_that_fits_nothing() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'instructions'"):
        compare(counts([1]), counts([1]), ["instrutions>0"])
    for rule in ("npu.*>0", "cyc*:max>0", "*:*>0", "*>1pp"):
        with pytest.raises(UsageError, match=r"metric|percentage"):
            compare(counts([1]), counts([1]), [rule, "instructions>0"])
    with pytest.raises(ComparisonError, match="there is no cold before or after"):
        compare(counts([1]), counts([1]), ["*:cold>0"])


def test_a_metric_that_was_lost_cannot_pass_its_rule() -> None:
    before, after = report_of({"loads": [1], "stores": [1]}), report_of({"loads": [1]})
    with pytest.raises(ComparisonError, match="stores>0 cannot be judged"):
        compare(before, after, ["stores>0"])
    new = compare(after, before, ["stores>0"])
    assert "not measured before" in " ".join(new.notes)
    assert list(map(str, new.idle)) == ["stores>0"]
    assert list(map(str, compare(before, before, ["stores>0"]).idle)) == []


def test_what_a_rule_is_for_and_one_row_has_lost_is_counted_and_named() -> None:
    before = both(report_of({"loads": [1]}), report_of({"loads": [1]}, name="iir"))
    for after in (
        both(report_of({"loads": [1]}), report_of({"stores": [1]}, name="iir")),
        report_of({"loads": [1]}),
    ):
        found = compare(before, after, ["loads>0"])
        assert not found.regressed
        [each] = found.unjudged
        assert (str(each.rule), each.what, each.why) == (
            "loads>0",
            "loads of iir",
            "it is no longer there",
        )
    words = "Result: 1 row not judged (loads of iir); no regression in what was judged; 2 metrics: "
    assert words in found.table()
    assert found.json().count('"unjudged": [{"rule": "loads>0", "what": "loads of iir"') == 1
    assert compare(after, before, ["loads>0"]).unjudged == ()  # what is new can have lost nothing


def test_samples_that_are_not_finite_are_told_and_not_judged() -> None:
    odd = durations([*FAST[:-1], float("inf")])
    found = compare(durations(FAST), odd, ["duration>50%"])
    [each] = found.unjudged
    why = "1 of 8 samples is infinite or not a number, after"
    assert (each.what, each.why) == ("Duration (us) of fir", why)
    assert found.notes == (f"Duration (us) of fir: {why}.",)
    nothing = durations([float("nan")] * 2)
    other = both(nothing, report_of({"loads": [1]}, facts=HARDWARE))
    found = compare(other, other, ["duration>50%"])
    assert {each.what for each in found.unjudged} == {"Duration (us) of fir"}


def test_samples_of_no_calls_are_told_and_not_judged() -> None:
    row: dict[str, Any] = {"Name": "f", "Device": "board", "loads": 5}
    before = Report([{**row, "Count": 1}] * 10, {}, {})
    after = Report([{**row, "Count": 1}, *[{**row, "Count": 0}] * 9], {}, {})
    found = compare(before, after, ["loads>0"])
    why = "9 of 10 samples have no Count above 0, and so no value per call, after"
    assert f"loads of f: {why}." in found.notes
    assert [(each.what, each.why) for each in found.unjudged] == [("loads of f", why)]


def test_a_sure_regression_is_one_in_spite_of_a_sample_that_is_not_finite() -> None:
    found = compare(durations(FAST), durations([*SLOW, float("nan")]), ["duration>5%"])
    assert found.regressed
    assert found.unjudged == ()


def test_a_metric_of_mixed_kinds_is_told() -> None:
    before = report_of({"x": [1, Duration(1.0)], "y": [1, 1]})
    found = compare(before, before, ["x>0"])
    assert found.notes[0] == "x: it is Count and Duration in one Report, before."
    assert [each.what for each in found.unjudged] == ["x"]


def test_a_part_of_a_board_is_named_before_its_metric() -> None:
    def both(busy: int) -> Report:
        base = counts([5])
        row = {"Name": "fir", "Argument Shapes": "n=64", "busy": busy, "Device": "npu", "Count": 1}
        return Report([*base.calls, row], {}, {}, base.extra)

    found = compare(both(7), both(9), ["npu.busy:mean>1"])
    assert [(row.device, row.metric) for row in found.regressions] == [("npu", "busy")]


def test_points_are_of_percentages_only() -> None:
    with pytest.raises(RuleError, match="is not a percentage") as caught:
        compare(counts([1]), counts([1]), ["instructions>1pp"])
    assert caught.value.message.endswith("  instructions>1pp\n" + " " * 16 + "^")
    before, after = (
        report_of({"loads": [1 + (p > 40)], "stalls (%)": [Percent(p)] * 1}) for p in (40, 42)
    )
    found = compare(before, after, ["*>1pp"])
    assert [row.metric for row in found.regressions] == ["stalls (%)"]


def test_a_rule_in_points_for_all_metrics_is_for_percentages_that_cannot_be_compared() -> None:
    before = report_of({"stalls (%)": [Percent(40)] * 2, "Duration (us)": [Duration(1.0)] * 2})
    after = report_of(
        {
            "stalls (%)": [Percent(40), Percent(float("nan"))],
            "Duration (us)": [Duration(1.0), Duration(float("nan"))],
        }
    )
    unjudged = compare(before, after, ["*>1pp"]).unjudged
    assert [each.what for each in unjudged] == ["stalls (%) of fir"]


def test_too_few_samples_for_a_rule_are_noted() -> None:
    found = compare(durations(FAST[:3]), durations(SLOW[:3]), ["duration>1%"])
    assert not found.regressed
    assert "too few samples to reach p < 0.01" in found.notes[0]
    assert "repeat=" in found.notes[0]


def test_a_cold_call_is_judged_by_the_limit_alone() -> None:
    def cold(cycles: int) -> Report:
        kept = {"cold": {"metrics": {"cycles": {"count": cycles}}}}
        return report_of({"cycles": [12] * 5}, facts=HARDWARE, measurement=kept)

    assert compare(cold(90), cold(140), ["cycles:cold>10%"]).regressed
    assert not compare(cold(90), cold(95), ["cycles:cold>10%"]).regressed
    found = compare(report_of({"cycles": [12]}), report_of({"cycles": [12]}), ["cycles:cold>1%"])
    assert found.notes == (
        "The rule cycles:cold>1% does not apply to cycles of fir: cold is missing on one side.",
    )


def cold_ticks(ticks: int, number: int = 1) -> Report:
    """Return a Report whose first call took so many ticks of a clock, on an emulator."""
    kept = {"cold": {"metrics": {"ticks": {"count": ticks}}}}
    clocks = {"ticks": 10_000_000}
    return report_of({"ticks": [30] * 5}, clocks=clocks, measurement=kept, number=number)


def test_a_cold_call_within_two_steps_of_its_clock_has_not_changed() -> None:
    rules = ["ticks:cold>0"]
    assert not compare(cold_ticks(45), cold_ticks(47), rules).regressed
    assert compare(cold_ticks(45), cold_ticks(48), rules).regressed
    # The first call is one call, however many are in each sample.
    assert not compare(cold_ticks(45, 100), cold_ticks(47, 100), rules).regressed


def test_a_rule_may_stand_for_itself_and_a_side_be_a_path(tmp_path: Path) -> None:
    write_report(counts([205]), str(tmp_path / "before.json"))
    one = boardprof.compare(tmp_path / "before.json", counts([206]), "instructions>0")
    assert (one.regressed, one.before_name) == (True, "before.json")
    assert compare(counts([205]), counts([206]), parse_rule("instructions>0")).regressed
    assert compare(counts([205]), counts([206]), iter(["instructions>0"])).regressed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rules": [5]}, "5 is not a rule"),
        ({"rules": 5}, "rules=5 are not rules"),
        ({"rules": None}, "rules=None are not rules"),
        ({"alpha": "0.01"}, "alpha='0.01' is not a probability"),
        ({"alpha": None}, "alpha=None is not a probability"),
        ({"allow": 5}, "allow=5 does not name mismatches"),
        ({"allow": None}, "allow=None does not name mismatches"),
        ({"allow": ["board", 5]}, r"allow=\['board', 5\] does not name mismatches"),
    ],
)
def test_what_is_of_another_type_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compare(counts([1]), counts([1]), **options)


def test_a_glob_is_not_for_the_first_call_of_what_has_none() -> None:
    level = {"Stack (bytes)": [64] * 5}
    sides = [both(cold_ticks(45), report_of(level, name="fir"))] * 2
    found = compare(*sides, ["*:cold>5%"], fail_if_missing=True)
    assert (found.notes, found.unjudged, found.failed) == ((), (), False)
    named = compare(*sides, ["stack:cold>5%"])
    assert [each.what for each in named.unjudged] == ["Stack (bytes) of fir"]


def test_too_few_samples_for_a_rule_fail_where_what_is_missing_fails() -> None:
    sides = durations(FAST[:3]), durations(SLOW[:3])
    [each] = compare(*sides, ["duration>1%"]).unjudged
    assert (each.what, each.why) == ("Duration (us) of fir", "too few samples to reach p < 0.01")
    assert not compare(*sides, ["duration>1%"]).failed
    assert compare(*sides, ["duration>1%"], fail_if_missing=True).failed
    assert compare(*sides, ["duration>1%"], alpha=0.2).regressed
    same = durations(FAST[:3])  # what is the same is judged, however few there are
    assert not compare(same, same, ["duration>1%"], fail_if_missing=True).failed


def labelled(**counts_of: int) -> Report:
    rows = [
        {"Name": "conv", "Label": label, "loads": n, "Count": 1, "Device": "b"}
        for label, n in counts_of.items()
        for _ in range(2)
    ]
    return Report(rows, {}, {})


def test_labels_part_calls_of_one_function() -> None:
    found = compare(labelled(one=5, two=90), labelled(one=5, two=91), ["loads>0"])
    assert [(row.label, row.before and row.before.median) for row in found.rows] == [
        ("one", 5),
        ("two", 90),
    ]
    gone = compare(labelled(one=5, two=90), labelled(one=5), ["loads>0"])
    assert [each.what for each in gone.unjudged] == ["loads of conv [two]"]
    assert "Only before: loads of conv [two]." in gone.notes
    with pytest.raises(ComparisonError, match=r"Before: conv \[one\]\(\) on b"):
        compare(labelled(one=5), labelled(two=5))


def test_a_change_from_zero_has_no_percentage_and_breaks_a_rule_in_percent() -> None:
    found = compare(counts([0]), counts([3]), ["instructions>50%"])
    assert only(found).change is None
    assert found.regressed


def sessions_of(levels: Sequence[int]) -> Report:
    """Return a Report of ten samples of each session, whose level is its own."""
    return report_of(
        {"cycles": [level + n % 3 for level in levels for n in range(10)]}, facts=HARDWARE
    )


LEVELS = (1000, 1100, 1000, 1200, 1050, 1000, 1150, 1000, 1250, 1000)
"""What a machine does to ten sessions."""


def test_what_differs_from_session_to_session_is_no_regression_in_pairs() -> None:
    """One session was slow on one side: all its samples know it, and it is one pair of ten."""
    before, after = sessions_of(LEVELS), sessions_of((*LEVELS[:4], 1250, 1250, *LEVELS[6:]))
    samples = compare(before, after, ["cycles:max>0"])
    pairs = compare(before, after, ["cycles:max>0"], sessions=10)
    assert (samples.rows[0].before, pairs.rows[0].before) != (None, None)
    assert not pairs.regressed
    assert (pairs.rows[0].verdict, pairs.rows[0].p) == ("noise", 0.5)
    assert pairs.rows[0].before is not None
    assert (pairs.rows[0].before.n, pairs.rows[0].is_paired) == (10, True)
    note = "What varies is judged by the medians of 10 alternating sessions on each side."
    assert note in pairs.notes


def test_what_is_slower_in_each_pair_is_a_regression_though_sessions_differ_by_more() -> None:
    """The samples by themselves do not show 2 % among sessions that differ by 33 %."""
    levels = range(1000, 1370, 37)
    before, after = sessions_of(levels), sessions_of([level * 51 // 50 for level in levels])
    assert not compare(before, after, ["cycles>1%"]).regressed
    pairs = compare(before, after, ["cycles>1%"], sessions=10)
    assert pairs.regressed
    assert pairs.rows[0].p == 2 / 1024
    assert not any("one run on each side" in note for note in pairs.notes)


def in_sessions(levels: Sequence[int]) -> Report:
    """Return a Report with a measurement of ten samples for each session."""
    reports = [sessions_of([level]) for level in levels]
    rows = [row for report in reports for row in report.calls]
    extra = copy.deepcopy(reports[0].extra)
    assert extra is not None
    extra["measurements"] = [m for each in reports for m in (each.extra or {})["measurements"]]
    return Report(rows, {}, {}, extra)


def test_samples_of_one_session_are_not_independent_in_a_comparison_of_two_runs() -> None:
    slow = (*LEVELS[:4], 1250, 1250, 1250, *LEVELS[7:])
    samples = compare(sessions_of(LEVELS), sessions_of(slow))
    assert [row.verdict for row in samples.rows] == ["worse"]  # p of 100 and 100 samples
    sessions = compare(in_sessions(LEVELS), in_sessions(slow))
    assert [(row.verdict, row.is_paired) for row in sessions.rows] == [("noise", False)]
    assert sessions.rows[0].before is not None
    assert sessions.rows[0].before.n == 10


def test_where_a_session_is_missing_samples_are_judged_as_always() -> None:
    few = report_of({"cycles": [5, 6, 7]}, facts=HARDWARE)
    found = compare(few, sessions_of(LEVELS), sessions=10)
    assert [row.is_paired for row in found.rows] == [False]


def test_few_pairs_cannot_tell() -> None:
    found = compare(sessions_of(LEVELS[:5]), sessions_of([2000] * 5), ["cycles>1%"], sessions=5)
    assert [row.verdict for row in found.rows] == ["too few samples"]


def test_reports_of_more_functions_than_memory_holds_are_not_compared() -> None:
    rows = [{"Name": f"f{number}", "cycles": 9, "Count": 1} for number in range(100_001)]
    few, many = Report(rows[:1], {}, {}), Report(rows, {}, {})
    with pytest.raises(ComparisonError, match=r"Report after has 100,001 different .* are 100,000"):
        compare(few, many)
    samples = Report(rows[:1] * 100_001, {}, {})
    [row] = compare(few, samples).rows
    assert row.after is not None
    assert (row.after.n, row.verdict) == (100_001, "same")
