# SPDX-License-Identifier: Apache-2.0
"""A baseline file: the same bytes when nothing has changed, and as good as its Report to a gate."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from boardprof.base.errors import BusyError, ReportFileError, UsageError
from boardprof.base.metrics import Count, Duration, Percent, Ratio
from boardprof.jobs.run.saving import check_baseline_file, write_baseline
from boardprof.results.baseline import (
    baseline_content,
    render_baseline,
    report_of_baseline,
    updated_baseline,
)
from boardprof.results.comparison.compare import compare
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import read_report
from tests.unit.reports import HARDWARE, report_of

WINDOWS = {
    "calibration": {"cycles": 40, "ticks": 7},
    "calibration_samples": [
        {"raw": {"cycles": 38, "ticks": 7}},
        {"raw": {"cycles": 41, "ticks": 8}},
    ],
}


def read(text: str) -> Report:
    return report_of_baseline(baseline_content(text))


def both(*reports: Report) -> Report:
    """Return one Report of the rows and measurements of several."""
    extra = {**(reports[0].extra or {})}
    extra["measurements"] = [m for each in reports for m in (each.extra or {})["measurements"]]
    extra["devices"] = {k: v for each in reports for k, v in (each.extra or {})["devices"].items()}
    return Report([row for each in reports for row in each.calls], {}, {}, extra)


def test_it_has_one_line_a_value_and_what_makes_runs_comparable() -> None:
    facts = {"clock_kind": "simulated", "emulated": True, "cflags": ["-mabi=ilp32", "-I/home/me"]}
    taken = {"compilers": ["GCC 12.2.0"]}
    metrics = {"instructions": [1200] * 3, "Stack (bytes)": [64] * 3, "Percent": [Percent(9.5)] * 3}
    report = report_of(metrics, facts=facts, measurement=taken, flags="-O2 -I /home/me/include")
    assert render_baseline(report) == (
        "{\n"
        ' "kind": "boardprof.baseline",\n'
        ' "version": 1,\n'
        ' "boards": {\n'
        '  "board": {\n'
        '   "clock": "simulated",\n'
        '   "emulated": true,\n'
        '   "cflags": "-mabi=ilp32",\n'
        '   "counters": {\n'
        '    "Stack (bytes)": 0,\n'
        '    "instructions": 0\n'
        "   }\n"
        "  }\n"
        " },\n"
        ' "measurements": [\n'
        "  {\n"
        '   "function": "fir",\n'
        '   "arguments": "n=64",\n'
        '   "board": "board",\n'
        '   "flags": "-O2",\n'
        '   "compilers": [\n'
        '    "GCC 12.2.0"\n'
        "   ],\n"
        '   "samples": 3,\n'
        '   "calls": 1,\n'
        '   "count": {\n'
        '    "Stack (bytes)": 64,\n'
        '    "instructions": 1200\n'
        "   }\n"
        "  }\n"
        " ]\n"
        "}\n"
    )


def test_it_is_sorted_and_knows_no_port_no_boot_and_no_build() -> None:
    fir = {"instructions": [1200]}
    one, two = report_of(fir), report_of(fir, name="iir")
    facts = {"clock_kind": "simulated", "emulated": True, "port": "/dev/ttyACM3", "boot_id": 77}
    there = report_of(fir, facts=facts, measurement={"build_id": "0f"})
    assert render_baseline(both(two, there)) == render_baseline(both(one, two))


def test_what_an_emulators_clock_says_is_left_out_where_there_is_an_exact_count() -> None:
    """Where a window begins between two steps differs from run to run of the same code."""
    clocks = {"ticks": 10_000_000}
    exact = {"instructions": [40_971, 40_971], "ticks": [409, 410]}
    found = json.loads(render_baseline(report_of(exact, clocks=clocks)))
    assert found["measurements"][0]["count"] == {"instructions": 40_971}
    assert found["boards"]["board"]["counters"] == {"instructions": 0}
    report = report_of(exact, clocks=clocks)
    assert compare(read(render_baseline(report)), report).notes == ()
    alone = json.loads(render_baseline(report_of({"ticks": [409, 410]}, clocks=clocks)))
    assert alone["measurements"][0]["count"] == {"ticks": [409, 410]}
    assert alone["boards"]["board"]["counters"] == {"ticks": 10_000_000}


STATEFUL = {"calls_before": 2, "totals": [{"raw": {}}], "further_passes": []}
REPORTS: dict[str, Report] = {
    "alike": report_of({"instructions": [1200] * 4, "Stack (bytes)": [64] * 4}),
    "by calls": report_of({"instructions": [10, 20, 30]}, measurement=STATEFUL, number=3),
    "noisy": report_of(
        {"cycles": [900 + n % 5 for n in range(12)], "Duration (us)": [Duration(9.0)] * 12},
        facts=HARDWARE,
        clocks={"cycles": 100_000_000, "ticks": 1_000_000},
        measurement=WINDOWS,
    ),
    "swept": both(
        report_of({"instructions": [5]}, flags="-O2 -I x", swept=True),
        report_of({"instructions": [4]}, flags="-O3", swept=True),
    ),
    "cold": report_of(
        {"cycles": [100] * 6, "IPC": [Ratio(0.5)] * 6},
        facts=HARDWARE,
        measurement={"cold": {"metrics": {"cycles": {"count": 450}}}},
    ),
    "labelled": report_of({"instructions": [7, 7]}, measurement={"label": "test_fir.py::test"}),
}
AFTER: Mapping[str, Mapping[str, Any]] = {
    "alike": {"metrics": {"instructions": [1300] * 4, "Stack (bytes)": [64] * 4}},
    "by calls": {"metrics": {"instructions": [10, 21, 30]}, "measurement": STATEFUL, "number": 3},
    "noisy": {
        "metrics": {
            "cycles": [990 + n % 5 for n in range(12)],
            "Duration (us)": [Duration(9.9)] * 12,
        },
        "facts": HARDWARE,
        "clocks": {"cycles": 100_000_000, "ticks": 1_000_000},
        "measurement": WINDOWS,
    },
    "swept": {"metrics": {"instructions": [6]}, "flags": "-O2 -I x", "swept": True},
    "cold": {
        "metrics": {"cycles": [100] * 6, "IPC": [Ratio(0.4)] * 6},
        "facts": HARDWARE,
        "measurement": {"cold": {"metrics": {"cycles": {"count": 900}}}},
    },
    "labelled": {"metrics": {"instructions": [9, 9]}},
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_gate_finds_in_it_what_it_finds_in_the_report(name: str) -> None:
    before, after = REPORTS[name], report_of(**AFTER[name])
    rules = ["*>2%", "*:cold>5%"] if name == "cold" else ["*>2%"]
    whole, short = (compare(each, after, rules) for each in (before, read(render_baseline(before))))
    assert {row.metric: row for row in short.rows} == {row.metric: row for row in whole.rows}
    assert short.unjudged == whole.unjudged
    assert short.regressed


def test_what_reads_a_baseline_and_writes_it_again_gives_the_same_bytes() -> None:
    for report in REPORTS.values():
        text = render_baseline(report)
        assert render_baseline(read(text)) == text


def test_noise_does_not_change_a_file_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "base.json"

    def written(first: int, name: str = "fir") -> str:
        values = {"cycles": [first + n % 5 for n in range(12)]}
        write_baseline(report_of(values, name=name, facts=HARDWARE), str(file))
        return file.read_text()

    before = written(900)
    assert written(901) == before
    slower = written(990)
    assert '"cycles": [\n     990,\n     991,' in slower


def rows_of(text: str) -> list[tuple[str, str, str, int]]:
    return [
        (each["function"], each["arguments"], each["board"], each["count"]["instructions"])
        for each in json.loads(text)["measurements"]
    ]


def test_what_was_not_measured_now_stays_unless_it_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "base.json"

    def write(count: int, *, keeps: bool = True, **more: Any) -> str:
        report = report_of({"instructions": [count]}, **more)
        return str(write_baseline(report, str(file), lambda label: keeps))

    assert write(5) == "1 row added"
    assert write(6, name="iir") == "1 row added, 1 kept"
    assert write(8, shapes="n=128") == "1 row added, 2 kept"
    assert write(9, device="other", facts=HARDWARE) == "1 row added, 3 kept"
    assert rows_of(file.read_text()) == [
        ("fir", "n=128", "board", 8),
        ("fir", "n=64", "board", 5),
        ("fir", "n=64", "other", 9),
        ("iir", "n=64", "board", 6),
    ]
    assert write(7) == "1 row replaced, 3 kept"
    before = file.read_bytes()
    assert write(6, name="iir") == "1 row unchanged, 3 kept"
    assert file.read_bytes() == before
    two = both(report_of({"instructions": [7]}), report_of({"instructions": [1]}, name="new"))
    update = updated_baseline(two, baseline_content(file.read_text()), lambda label: False)
    assert str(update) == "1 row added, 1 unchanged, 3 removed"
    assert rows_of(update.text) == [("fir", "n=64", "board", 7), ("new", "n=64", "board", 1)]


OLD = {"compilers": ["GCC 12"]}


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ({"facts": HARDWARE}, "board: the clock is simulated before, declared after."),
        ({"measurement": {"compilers": ["GCC 13"]}}, "board: compiled by GCC 12 before, by GCC 13"),
        (
            {"name": "fir", "shapes": "n=1", "flags": "-O3"},
            "board: fir is compiled with -O2 before",
        ),
        (
            {"clocks": {"ticks": 2_000_000}},
            "board: ticks has 1,000,000 Hz before, 2,000,000 Hz aft",
        ),
    ],
)
def test_rows_that_no_comparison_could_join_leave_the_file_as_it_was(
    tmp_path: Path, new: dict[str, Any], told: str
) -> None:
    file = tmp_path / "base.json"
    clocks = {"ticks": 1_000_000}
    write_baseline(report_of({"ticks": [5]}, measurement=OLD, clocks=clocks), str(file))
    before = file.read_bytes()
    report = report_of(
        {"ticks": [5]}, **{"name": "iir", "measurement": OLD, "clocks": clocks, **new}
    )
    with pytest.raises(UsageError) as raised:
        write_baseline(report, str(file))
    assert raised.value.message.startswith(
        f"{file} has rows that this run did not measure again, and they were measured in another "
        f"way: {told}"
    )
    assert raised.value.hint == (
        f"write another file; or remove {file}, and measure its other rows again, too"
    )
    assert file.read_bytes() == before
    again = report_of(
        {"ticks": [5]}, **{"measurement": OLD, "clocks": clocks, **new, "name": "fir"}
    )
    if "shapes" not in new:  # nothing of the old way is left
        assert str(write_baseline(again, str(file))) == "1 row replaced"


def test_runs_with_other_metrics_have_a_file_with_the_counters_of_both(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    one = report_of({"cycles": [9]}, facts=HARDWARE, clocks={"cycles": 100_000_000})
    more = {"cycles": 100_000_000, "ticks": 1_000_000}
    two = report_of({"cycles": [9], "ticks": [1]}, name="iir", facts=HARDWARE, clocks=more)
    for order in ([one, two], [two, one], [one, two, one, two]):
        file.unlink(missing_ok=True)
        for report in order:
            write_baseline(report, str(file))
        content = json.loads(file.read_text())
        assert list(content["boards"]["board"]["counters"].items()) == [
            ("cycles", 100_000_000),
            ("ticks", 1_000_000),
        ]


def test_durations_of_another_clock_are_not_joined(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    time = {"Duration (us)": [Duration(9.0)]}
    ticks = report_of({"ticks": [9], **time}, facts=HARDWARE, clocks={"ticks": 1_000_000})
    more = {"cycles": 100_000_000, "ticks": 1_000_000}
    cycles = report_of({"cycles": [9], **time}, name="iir", facts=HARDWARE, clocks=more)
    write_baseline(ticks, str(file))
    with pytest.raises(UsageError, match="some durations are from the clock ticks, others from cy"):
        write_baseline(cycles, str(file))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{}\n", "this is not a baseline file."),
        (b"<<<<<<< HEAD\n", "this is not a baseline file."),
        (b"\xff\xfe", "this is not text (byte 0)."),
        (b'{"kind": "boardprof.baseline", "version": 1', "this is not JSON: "),
        (b'{"kind": "boardprof.baseline", "version": 1}', "boards: an object is needed."),
        (b'{"kind": "boardprof.baseline", "version": 2}', "this is a baseline of version 2, "),
    ],
)
def test_a_file_whose_rows_cannot_be_read_is_told_first_and_stays(
    tmp_path: Path, content: bytes, told: str
) -> None:
    file = tmp_path / "base.json"
    file.write_bytes(content)
    for attempt in (check_baseline_file, partial(write_baseline, report_of({"cycles": [1]}))):
        with pytest.raises(ReportFileError) as raised:
            attempt(str(file))
        assert raised.value.message.startswith(f"{file}: {told}")
        assert raised.value.hint == (
            f"restore {file}, for example from git; or remove it; or name another"
        )
    assert file.read_bytes() == content


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.touch()
    check_baseline_file(str(file))
    assert str(write_baseline(report_of({"instructions": [1]}), str(file))) == "1 row added"


def write_functions(file: str, process: int) -> None:
    for n in range(5):
        write_baseline(report_of({"instructions": [n]}, name=f"f{process}{n}"), file)


def test_processes_that_write_at_the_same_time_lose_no_row(tmp_path: Path) -> None:
    file = str(tmp_path / "base.json")
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=write_functions, args=(file, p)) for p in range(4)]
    for each in started:
        each.start()
    for each in started:
        each.join(60.0)
        assert each.exitcode == 0
    content = json.loads(Path(file).read_text())
    names = [each["function"] for each in content["measurements"]]
    assert names == [f"f{process}{n}" for process in range(4) for n in range(5)]
    assert [each.name for each in tmp_path.iterdir()] == ["base.json"]


def test_a_process_that_does_not_end_writing_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boardprof.jobs.run.saving._WRITE_S", 0.2)
    file = tmp_path / "base.json"
    holder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(BusyError) as raised:
            write_baseline(report_of({"instructions": [1]}), str(file))
    finally:
        os.close(holder)
    assert raised.value.message == (
        f"{file} cannot be written: {tmp_path} has been locked by this program (pid {os.getpid()}) "
        "for more than 0.2 s."
    )
    assert not file.exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"version": 1', '"version": 2', "this is a baseline of version 2, and this boardprof"),
        ('"samples": 1', '"samples": "1"', "measurements[0].samples: a whole number is needed."),
        ('"samples": 1', '"samples": -1', "measurements[0].samples: -1 is out of range."),
        ('"calls": 1', '"calls": [1, 1]', "measurements[0].calls: there are 2 values for 1 sample"),
        ('"instructions": 5', '"instructions": "5"', "measurements[0].count.instructions: "),
        ('"measurements": [', '"measurement": [', "measurements: an array is needed."),
        ("]\n}", "", "this is not JSON"),
    ],
)
def test_a_file_that_was_edited_wrongly_is_told_with_the_place(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    file = tmp_path / "base.json"
    text = render_baseline(report_of({"instructions": [5]}))
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ReportFileError) as raised:
        read_report(str(file))
    assert told in str(raised.value)
    assert str(file) in str(raised.value)


def test_counts_of_any_size_stay_whole() -> None:
    large = 2**80 + 1
    (row,) = read(render_baseline(report_of({"instructions": [Count(large)]}))).calls
    assert row["instructions"] == Count(large)


def test_a_file_that_was_formatted_anew_is_still_one(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    content = json.loads(render_baseline(REPORTS["noisy"]))
    file.write_text(json.dumps(content, sort_keys=True))
    assert len(read_report(str(file)).calls) == 12
    named = report_of({"instructions": [5]}, name="boardprof.baseline")
    file.write_text(named.json())
    assert read_report(str(file)) == named


def test_it_keeps_what_tells_the_contents_of_arrays() -> None:
    def with_inputs(count: int, crc: str) -> Report:
        return report_of({"instructions": [count]}, measurement={"inputs_crc32": crc})

    written = render_baseline(with_inputs(1200, "0000000a"))
    assert '   "inputs": "0000000a",\n' in written
    for crc, verdict in (("0000000a", "worse"), ("0000000b", "other inputs")):
        [row] = compare(read(written), with_inputs(1300, crc)).rows
        assert row.verdict == verdict
    earlier = json.loads(written)
    updated = updated_baseline(with_inputs(1200, "0000000b"), earlier, lambda label: False)
    assert '   "inputs": "0000000b",\n' in updated.text


def test_the_flags_of_each_labelled_call_are_compared() -> None:
    def labelled(one: str, two: str) -> Report:
        flags = {"one": one, "two": two}
        return both(
            *(
                report_of({"instructions": [5]}, flags=text, measurement={"label": label})
                for label, text in flags.items()
            )
        )

    with pytest.raises(UsageError) as raised:
        compare(labelled("-O2", "-O3"), labelled("-O3", "-O3"))
    told = "board: fir [one] is compiled with -O2 before, -O3 after."
    assert raised.value.message == told
