# SPDX-License-Identifier: Apache-2.0
"""The answer of a Report: what a call costs, how sure that is, what has changed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest

from boardprof.base.metrics import Count, Duration, Metric
from boardprof.results.comparison.compare import compare
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey, Overhead
from boardprof.results.stats.groups import GroupSummary
from boardprof.results.stats.summary import summarize
from boardprof.show.answer import answer_page, relatives
from boardprof.show.cells import short_arguments
from boardprof.show.layout import fitted, plain
from tests.unit.reports import EMULATOR, HARDWARE, report_of

SIMULATED = "simulated, 10,000,000 ticks a second of the emulator's own time; there is no Duration"
ON_RV32 = "10 samples after 10 warm-up calls on qemu-rv32 (simulated clock: no time)"


def exact(name: str, instructions: int, **more: Metric) -> list[dict[str, Metric]]:
    """Return ten samples on an emulator, which counts the same in each; ticks are of its clock."""
    row: dict[str, Metric] = {"Name": name, "Device": "qemu-rv32", "Count": Count(1)}
    counts = {"instructions": Count(instructions), "ticks": Count(instructions // 10)}
    return [row | counts | more for _ in range(10)]


def emulated(*rows: dict[str, Metric], **facts: object) -> Report:
    extra = {"schema_version": 1, "devices": {"qemu-rv32": EMULATOR}, **facts}
    return Report(rows, {}, {"Warm-up": Count(10), "qemu-rv32 clock": SIMULATED}, extra)


def timed(*microseconds: float, device: str = "m4") -> list[dict[str, Metric]]:
    row: dict[str, Metric] = {"Name": "fir", "Device": device, "Count": Count(1)}
    return [row | {"Duration (us)": Duration(each)} for each in microseconds]


def answer(report: Report, **options: object) -> str:
    return plain(answer_page(report, **options))  # type: ignore[arg-type]


def test_one_function_on_one_board_is_a_line_and_where_it_comes_from_another() -> None:
    report = emulated(*exact("crc32", 40_971, **{"Stack (bytes)": Count(0)}))
    assert answer(report, name="#7") == (
        "crc32 on qemu-rv32: 40,971 instructions per call, exact; stack 0 bytes\n"
        f"Median of {ON_RV32}; kept as #7.\n"
    )


def test_noisy_samples_have_the_median_and_half_the_range_of_their_middle_half() -> None:
    # Quartiles of 10, 11, 12, 13, 90 are 11 and 13; the outlier moves neither.
    assert answer(Report(timed(12, 10, 90, 13, 11), {}, {})) == (
        "fir on m4: 12 ± 1 us per call\n"
        "Median ± half the interquartile range of 5 samples (10 to 90 us) on m4.\n"
    )


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        ((12_345_678, 12_345_000, 12_346_000), "12.34568 ± 0.00025 s"),
        ((42_580, 31_580, 53_580), "42.6 ± 5.5 ms"),
        ((9_999, 9_989, 10_009), "9.999 ± 0.005 ms"),
        ((0.0755, 0.0655, 0.0855), "75.5 ± 5.0 ns"),
        ((5.428, 5.4206, 5.4354), "5.4280 ± 0.0037 us"),
        ((60_000_000.0, 60_000_000.0, 60_000_000.0), "60 ± 0 s"),
    ],
)
def test_a_value_and_its_spread_have_a_readable_unit_and_the_same_decimals(
    microseconds: tuple[float, ...], text: str
) -> None:
    line = answer(Report(timed(*microseconds), {}, {}))
    assert line.startswith(f"fir on m4: {text} per call\n")


def test_all_times_of_a_table_have_one_unit_and_each_the_decimals_of_its_spread() -> None:
    rows = [*timed(42_580, 31_580, 53_580), *timed(12_000, 11_990, 12_010, device="m7")]
    table = answer(Report(rows, {}, {})).splitlines()
    assert [line.rstrip() for line in table[:3]] == [
        "Name  Board  Time (ms)   Spread",
        "fir   m4        42.6      ± 5.5",
        "fir   m7        12.000  ± 0.005",
    ]


def test_a_call_that_is_shorter_than_measuring_it_has_no_spread_and_one_line_says_why() -> None:
    measured = {
        "calibration": {"duration_time": 20},
        "calibration_samples": [{"raw": {"duration_time": n}} for n in (19, 20, 21)],
    }
    report = report_of(
        {"Duration (us)": [Duration(each) for each in (-0.001, 0.001, 0.0, -0.001, 0.001)]},
        facts=HARDWARE,
        clocks={"duration_time": 10**9},
        measurement=measured,
    )
    line = (
        "Duration (us) of fir is too small to be resolved (net < 0); "
        "task-clock (us) of fir is too small to be resolved (net < 0); x of fir may have wrapped"
    )
    report = Report(report.calls, {}, {"board warning": line}, report.extra)
    assert answer(report).splitlines()[:2] == [
        "fir(n=64) on board: < 20 ns per call, too short to time alone",
        "board warning: x of fir may have wrapped",
    ]


def test_each_value_has_the_spread_of_its_own_unit() -> None:
    # Quartiles: 10 and 14 us, 160 and 224 cycles.
    samples = [(10, 160), (10, 160), (12, 192), (14, 224), (14, 224)]
    [row] = timed(1)
    rows = [row | {"Duration (us)": Duration(us), "cycles": Count(n)} for us, n in samples]
    assert answer(Report(rows, {}, {})).startswith(
        "fir on m4: 12 ± 2 us, 192 ± 32 cycles per call\n"
    )


def test_an_exact_count_beside_a_noisy_one_says_so_itself() -> None:
    row: dict[str, Metric] = {"Name": "fir", "Device": "qemu-rv32", "Count": Count(1)}
    rows = [row | {"cycles": Count(n), "instructions": Count(30)} for n in (40, 44, 48)]
    assert answer(emulated(*rows)).startswith(
        "fir on qemu-rv32: 44 ± 2 cycles, 30 instructions (exact) per call\n"
    )


def test_samples_that_differ_are_not_exact_though_each_run_has_the_same() -> None:
    rows = [row for count in (100, 104, 108) for row in exact("next", count)[:1]]
    assert answer(emulated(*rows)).startswith("next on qemu-rv32: 104 ± 2 instructions per call\n")


def test_one_sample_says_so() -> None:
    assert answer(Report(timed(12), {}, {})).startswith("fir on m4: 12 us per call, one sample\n")


def test_time_cycles_and_instructions_stand_together_and_ticks_only_alone() -> None:
    [row] = timed(2.5)
    counts = {"cycles": Count(40), "instructions": Count(30), "ticks": Count(4)}
    assert answer(Report([row | counts], {}, {})).startswith(
        "fir on m4: 2.5 us, 40 cycles, 30 instructions per call,"
    )
    del row["Duration (us)"]
    assert answer(Report([row | {"ticks": Count(4)}], {}, {})).startswith(
        "fir on m4: 4 ticks per call,"
    )


def test_other_counters_are_told_where_they_were_asked_for_and_counted_where_not() -> None:
    [row] = timed(2.5)
    report = Report([row | {"misses": Count(3), "stalls": Count(1)}], {}, {})
    assert answer(report).splitlines() == [
        "fir on m4: 2.5 us per call, one sample",
        "Median of 1 sample on m4; 2 more metrics in the --table.",
    ]
    assert answer(report, shows_others=True).splitlines() == [
        "fir on m4: 2.5 us, 3 misses, 1 stalls per call, one sample",
        "Median of 1 sample on m4.",
    ]


def test_arguments_label_and_flags_name_the_row() -> None:
    rows = exact("fir", 5, **{"Argument Shapes": "n=256", "Label": "warm", "Flags": "-Os"})
    assert answer(emulated(*rows)).startswith(
        "fir [warm](n=256) on qemu-rv32 with -Os: 5 instructions per call, exact\n"
    )


def test_several_functions_are_a_table_without_what_is_the_same_in_all() -> None:
    report = emulated(*exact("crc32", 40_971), *exact("fir", 104_297))
    assert answer(report) == (
        "Name   instructions  Spread\n"
        "crc32        40,971   exact\n"
        "fir         104,297   exact\n"
        f"Medians per call of {ON_RV32}.\n"
    )


def test_settings_of_flags_are_multiples_of_the_first_and_the_best_is_marked() -> None:
    rows = [*exact("fir", 200, Flags="-O0"), *exact("fir", 50, Flags="-O2")]
    rows += exact("fir", 54, Flags="-Os")
    assert answer(emulated(*rows)).splitlines()[:4] == [
        "Name  Flags  instructions  Spread   Relative",
        "fir   -O0             200   exact       1.00",
        "fir   -O2              50   exact  0.25 best",
        "fir   -Os              54   exact       0.27",
    ]


def test_a_change_is_told_with_the_run_that_it_is_against() -> None:
    before, after = emulated(*exact("fir", 1000)), emulated(*exact("fir", 1100))
    since = compare(before, after, before_name="#6")
    assert "exact; +10.00 % since #6\n" in answer(after, since=since)
    since = compare(before, before, before_name="#6")
    assert "exact; no change since #6\n" in answer(before, since=since)


def test_a_change_of_the_same_build_is_not_one_of_the_code() -> None:
    before, after = emulated(*exact("fir", 1000)), emulated(*exact("fir", 1100))
    since = compare(before, after, before_name="#6")
    build = (("qemu-rv32 build", "4ab2f0de80ecc2b0"),)
    other = (("qemu-rv32 build", "17d0c4b6a51e0f7d"),)
    same = replace(since, before_facts=build, after_facts=build)
    assert "exact; same build (+10.00 %) since #6\n" in answer(after, since=same)
    changed = replace(since, before_facts=build, after_facts=other)
    assert "exact; +10.00 % since #6\n" in answer(after, since=changed)


def test_functions_that_are_alternatives_are_multiples_of_the_first() -> None:
    report = emulated(*exact("fir", 200), *exact("iir", 50), alternatives=True)
    assert answer(report).splitlines()[:4] == [
        "Name  instructions  Spread   Relative",
        "fir            200   exact       1.00",
        "iir             50   exact  0.25 best",
        "iir takes 4.00 times fewer instructions than fir.",
    ]


def test_the_best_of_several_times_is_so_much_faster_than_the_others() -> None:
    rows = [
        each | {"Name": name}
        for name, us in (("a", 30.0), ("b", 10.0), ("c", 20.0))
        for each in timed(*(us + i / 100 for i in range(10)))
    ]
    extra = {"schema_version": 1, "devices": {}, "alternatives": True}
    lines = answer(Report(rows, {}, {}, extra)).splitlines()
    assert [line.split()[-1] for line in lines[1:4]] == ["1.00", "best", "0.001"]
    assert lines[4] == "b is 1.996 ± 0.005 times faster than c and 2.991 ± 0.007 than a."


def of_functions(clock: str = "declared", /, **times_us: Sequence[float]) -> Report:
    """Return a Report of alternative functions; windows around the empty one took 20 to 40 ns."""
    windows = [{"raw": {"duration_time": n}} for n in (20, 30, 40, 30, 30)]
    taken = {"calibration": {"duration_time": 30}, "calibration_samples": windows}
    facts = HARDWARE | {"clock_kind": clock}
    options = {"facts": facts, "clocks": {"duration_time": 10**9}, "measurement": taken}
    reports = [
        report_of({"Duration (us)": [*map(Duration, values)]}, name=name, **options)
        for name, values in times_us.items()
    ]
    extra = copy.deepcopy(reports[0].extra)
    assert extra is not None
    extra["measurements"] = [m for each in reports for m in (each.extra or {})["measurements"]]
    extra["alternatives"] = True
    return Report([row for each in reports for row in each.calls], {}, {}, extra)


TIMED, SHORT, SHORTER = [1.0, 1.01, 1.02] * 4, [0.001, 0.002, 0.003] * 4, [0.002] * 12


@pytest.mark.parametrize(
    ("times", "told"),
    [
        # At least 1 us; at most 3 ns, and what the overhead may be off: between 10 and 40 ns.
        ({"a": TIMED, "b": SHORT}, "b is at least "),
        ({"b": SHORT, "a": TIMED}, "b is at least "),
        ({"a": TIMED, "b": SHORT, "c": SHORTER}, "b and c are at least "),
    ],
)
def test_what_is_too_short_to_time_is_faster_than_what_is_not(
    times: dict[str, Sequence[float]], told: str
) -> None:
    [line] = [line for line in answer(of_functions(**times)).splitlines() if " than a" in line]
    assert line.startswith(told)
    least = float(line.removeprefix(told).split()[0])
    assert 20 < least <= 1000 / 12


def in_sessions(report: Report, sessions: int = 10) -> Report:
    """Return a Report with a measurement for each session."""
    extra = copy.deepcopy(report.extra)
    assert extra is not None
    extra["measurements"] = [each for each in extra["measurements"] for _ in range(sessions)]
    return Report(report.calls, {}, {}, extra)


@pytest.mark.parametrize(
    "slow",
    [
        # The CPU's other speed in half of the sessions; another program in one of them.
        pytest.param([0.3, 0.31, 0.6, 0.61, 0.3, 0.62, 0.61, 0.31, 0.6, 0.3], id="two-speeds"),
        pytest.param([0.3, 0.31, 0.3, 0.32, 70.0, 0.3, 0.31, 0.3, 0.31, 0.32], id="one-delay"),
    ],
)
def test_what_disturbs_a_few_sessions_does_not_make_functions_alike(slow: list[float]) -> None:
    report = of_functions(a=[3.0 + i / 100 for i in range(10)], b=slow)
    [line] = [line for line in answer(in_sessions(report)).splitlines() if "b is" in line]
    assert "times faster than a." in line


def test_what_was_measured_one_after_the_other_may_only_seem_faster() -> None:
    times = {"a": [2.0 + i / 100 for i in range(10)], "b": [1.0 + i / 100 for i in range(10)]}
    text = answer(of_functions("measured", **times))
    assert "b may be 1.957 ± 0.063 times faster than a.\nThey were measured one after" in text
    assert "best" not in text
    text = answer(in_sessions(of_functions("measured", **times)))
    assert "b is 1.957 ± 0.063 times faster than a." in text
    assert " best" in text


def test_a_multiple_that_is_mostly_overhead_is_told_as_a_difference() -> None:
    times = {"a": [0.100, 0.101, 0.102] * 4, "b": [0.060, 0.061, 0.062] * 4}
    assert "b takes 40 ± 13 ns less than a." in answer(in_sessions(of_functions(**times), 12))


def test_what_is_not_too_short_is_compared_all_the_same() -> None:
    functions = {"a": SHORT, "b": [0.035, 0.036, 0.037] * 4, "c": [1.0, 1.01, 1.02] * 4}
    text = answer(in_sessions(of_functions(**functions), 12))
    assert "a is too short to compare. b takes 974 ± 13 ns less than c." in text


def test_of_two_groups_without_sessions_nothing_is_said() -> None:
    speeds = [1.0, 1.01, 2.0, 2.01, 1.0, 2.02, 2.01, 1.01, 2.0, 1.0]
    report = of_functions(a=[5.0 + i / 100 for i in range(10)], b=speeds)
    text = answer(report)
    assert "apart" not in text
    assert "faster" not in text


def test_few_samples_are_said_not_to_tell_functions_apart() -> None:
    report = of_functions(a=[1.0, 1.01, 1.02, 1.0], b=[1.2, 1.21, 1.22, 1.2])
    assert "4 samples cannot tell a and b apart: --repeat 10." in answer(report).splitlines()


def test_noise_is_not_a_change() -> None:
    before, after = Report(timed(*range(10, 30)), {}, {}), Report(timed(*range(11, 31)), {}, {})
    since = compare(before, after, before_name="#6")
    assert "; no change since #6\n" in answer(after, since=since)


def test_what_an_earlier_run_did_not_have_has_no_change() -> None:
    before = emulated(*exact("fir", 1000))
    after = emulated(*exact("fir", 900), *exact("iir", 5))
    lines = answer(after, since=compare(before, after, before_name="#6")).splitlines()
    assert lines[:3] == [
        "Name  instructions  Spread  Since #6",
        "fir            900   exact  -10.00 %",
        "iir              5   exact",
    ]


def test_better_is_green_and_worse_is_red_on_a_terminal() -> None:
    before = emulated(*exact("fir", 1000), *exact("iir", 10))
    after = emulated(*exact("fir", 900), *exact("iir", 11))
    page = answer_page(after, compare(before, after, before_name="#6"))
    lines = fitted(page, 80, styled=True).splitlines()
    assert lines[1].endswith("\x1b[32m-10.00 %\x1b[0m")
    assert lines[2].endswith("\x1b[31m+10.00 %\x1b[0m")


def test_a_narrow_terminal_leaves_out_further_metrics_and_the_stack_first() -> None:
    [row] = timed(2.5)
    row |= {"cycles": Count(40), "instructions": Count(30), "Stack (bytes)": Count(8)}
    report = Report([row, row | {"Name": "iir"}], {}, {})
    header = "Name  Time (us)      Spread  cycles  instructions  Stack"
    assert fitted(answer_page(report), 80, styled=False).splitlines()[0] == header
    assert fitted(answer_page(report), 42, styled=False).splitlines()[0] == (
        "Name  Time (us)      Spread  cycles  Stack"
    )
    assert fitted(answer_page(report), 30, styled=False).splitlines()[0] == (
        "Name  Time (us)      Spread"
    )


def test_a_report_whose_samples_hold_nobody_knows_how_many_calls_has_no_answer() -> None:
    assert answer_page(Report([{"Name": "fir", "Duration (us)": Duration(3)}], {}, {})) == []


def test_what_may_mislead_stands_between_the_answer_and_its_origin() -> None:
    configuration = {
        "Warm-up": Count(0),
        "m4 clock": "measured",
        "m4 warning": "ticks of fir may have wrapped unseen",
        "Missing": "there is no iir on m4",
    }
    assert answer(Report(timed(3), {}, configuration)).splitlines() == [
        "fir on m4: 3 us per call, one sample",
        "m4 warning: ticks of fir may have wrapped unseen",
        "Missing: there is no iir on m4",
        "Median of 1 sample after 0 warm-up calls on m4.",
    ]


def test_settings_that_are_all_alike_have_no_best() -> None:
    rows = [row | {"Flags": flags} for flags in ("-O2", "-Os") for row in exact("crc32", 40_971)]
    lines = answer(emulated(*rows)).splitlines()
    assert [line.split()[-1] for line in lines[:3]] == ["Relative", "1.00", "1.00"]


def with_cold(instructions: int, *more: str) -> Report:
    rows = [row for name in ("fir", *more) for row in exact(name, 110)]
    cold = {"metrics": {"instructions": {"count": instructions}, "ticks": {"count": 3}}}
    taken = {"name": "fir", "device": "qemu-rv32", "arguments": "", "cold": cold}
    extra = {"schema_version": 1, "devices": {"qemu-rv32": EMULATOR}, "measurements": [taken]}
    return Report(rows, {}, {}, extra)


@pytest.mark.parametrize(("instructions", "text"), [(17, "17"), (12_345, "12,345"), (0, "0")])
def test_the_first_call_has_its_own_value_beside_the_median(instructions: int, text: str) -> None:
    line = answer(with_cold(instructions)).splitlines()[0]
    told = f"fir on qemu-rv32: 110 instructions per call, exact; cold {text} instructions"
    assert line == told
    assert answer(with_cold(instructions, "iir")).splitlines()[:3] == [
        f"Name  instructions  Spread  {'Cold':>{max(4, len(text))}}",
        f"fir            110   exact  {text:>{max(4, len(text))}}",
        "iir            110   exact",
    ]


def test_without_a_cold_measurement_there_is_no_column_for_it() -> None:
    assert "old" not in answer(emulated(*exact("crc32", 40_971), *exact("fir", 104_297)))


BASE = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7, 10.8, 10.9]


@pytest.mark.parametrize(
    ("shifts", "best", "alike"),
    [
        ((0.0, 0.05, -0.05), [], "-O1, -O2 and -O3"),  # the same code three times
        ((0.0, -4.0, -4.05), ["-O2", "-O3"], "-O2 and -O3"),  # neither beats the other
        ((0.0, -4.0, -6.0), ["-O3"], ""),
        ((0.0, 3.0, 0.05), ["-O1", "-O3"], "-O1 and -O3"),
    ],
)
def test_of_noisy_settings_those_are_best_that_cannot_be_told_from_the_least(
    shifts: tuple[float, ...], best: list[str], alike: str
) -> None:
    rows = [
        row | {"Flags": flags}
        for flags, shift in zip(("-O1", "-O2", "-O3"), shifts, strict=True)
        for row in timed(*(us + shift for us in BASE))
    ]
    lines = answer(Report(rows, {}, {})).splitlines()
    assert [line.split()[1] for line in lines[1:4] if line.endswith("best")] == best
    told = [line for line in lines if line.endswith(" cannot be told apart.")]
    assert told == ([f"fir: {alike} cannot be told apart."] if alike else [])


def test_a_ratio_has_the_spread_of_both_medians() -> None:
    first = [timed(us)[0] | {"Flags": "-O0"} for us in (9.0, 9.5, 10.0, 10.5, 11.0)]
    second = [timed(us)[0] | {"Flags": "-O2"} for us in (4.8, 4.9, 5.0, 5.1, 5.2)]
    lines = answer(Report([*first, *second], {}, {})).splitlines()
    # Quartiles 9.5 and 10.5 of 10, 4.9 and 5.1 of 5: 0.5 * sqrt(0.05^2 + 0.02^2) = 0.0269.
    assert lines[1].split()[-1] == "1.00"
    assert "0.500 ± 0.027" in lines[2]


def test_with_one_sample_each_no_setting_is_best() -> None:
    rows = [row | {"Flags": f} for f, us in (("-O0", 9.0), ("-O2", 1.0)) for row in timed(us)]
    assert "best" not in answer(Report(rows, {}, {}))


def test_samples_without_a_board_are_not_on_any() -> None:
    text = answer(Report([{"Name": "f", "Count": Count(1), "cycles": Count(4)}], {}, {}))
    assert text == "f: 4 cycles per call, one sample\nMedian of 1 sample.\n"


def test_of_very_many_functions_the_first_ones_are_shown() -> None:
    [row] = timed(12)
    report = Report([row | {"Name": f"f{number}"} for number in range(10_002)], {}, {})
    lines = answer(report).splitlines()
    assert lines[1].split() == ["f0", "12", "one", "sample"]
    assert lines[10_000].split() == ["f9999", "12", "one", "sample"]
    assert lines[10_001:] == [
        "These are the first 10,000 of 10,002 measurements; --csv prints all rows.",
        "Medians per call of 1 sample on m4.",
    ]


@pytest.mark.parametrize(
    ("calls", "shown"),
    [
        ([("f", "x=int16[9], n=9")], ["x=int16[9], n=9"]),  # all rows share it
        ([("f", "x=int16[9], n=9"), ("f", "x=int16[8], n=8")], ["n=9", "n=8"]),
        ([("f", "x=int16[9], n=3"), ("f", "x=int16[8], n=3")], ["x=int16[9]", "x=int16[8]"]),
        ([("f", "n=1, k=2"), ("f", "n=1, k=3")], ["k=2", "k=3"]),
        ([("f", "x=int8[2, 2], n=1"), ("f", "x=int8[3, 2], n=2")], ["n=1", "n=2"]),
        ([("f", "n=1"), ("f", "k=1")], ["n=1", "k=1"]),
        ([("f", "int8[4], 3"), ("f", "int8[5], 3")], ["int8[4], 3", "int8[5], 3"]),  # no names
        ([("f", "x=int8[4], n=3"), ("g", "y=int8[3]"), ("h", "")], ["n=3", "y=int8[3]", ""]),
        (
            [("f", "x=int8[4], n=3"), ("f", "x=int8[5], n=3"), ("f", "x=int8[5], n=4")],
            ["x=int8[4], n=3", "x=int8[5], n=3", "x=int8[5], n=4"],
        ),
    ],
)
def test_rows_show_the_arguments_that_tell_them_apart(
    calls: list[tuple[str, str]], shown: list[str]
) -> None:
    assert [*short_arguments(calls).values()] == shown


def of_native(name: str, median_us: float, doubt_us: float) -> GroupSummary:
    """Return samples that are all equal, whose overhead may be off."""
    values, overhead = [median_us] * 10, Overhead(taken=doubt_us, doubt=doubt_us)
    key = GroupKey(name, "", "", "native")
    return GroupSummary(
        key, "Duration (us)", Duration, summarize(values), values, overhead=overhead
    )


def test_a_multiple_is_as_uncertain_as_both_times_and_the_overhead_of_each() -> None:
    # 100 +- 5 over 10 +- 1: the relative errors are 5 % and 10 %, together 11.18 %.
    found = relatives([of_native("fast", 10.0, 1.0), of_native("slow", 100.0, 5.0)])
    assert found is not None
    assert found[1].ratio == 10.0
    assert found[1].spread == pytest.approx(1.118, abs=0.001)
    assert found[1].text == "10.0 ± 1.1"


def test_a_time_that_is_too_short_to_measure_is_no_multiple_and_none_of_it() -> None:
    short, slow, slower = (("short", 0.001), ("slow", 5.5), ("slower", 11.0))
    found = relatives([of_native(*each, 0.03) for each in (short, slow, slower)])
    assert found is not None
    assert [each.text for each in found] == ["too short", "1.00", "2.000 ± 0.012"]


def test_a_difference_within_the_errors_of_both_has_no_best() -> None:
    # The functions have 0.7 of the overhead's error in common: 0.3 * 1.414 = 0.424 is left.
    close = relatives([of_native("a", 10.0, 1.0), of_native("b", 10.4, 1.0)])
    apart = relatives([of_native("a", 10.0, 1.0), of_native("b", 10.5, 1.0)])
    assert close is not None
    assert apart is not None
    assert [each.is_best for each in close] == [False, False]
    assert [each.is_best for each in apart] == [True, False]
