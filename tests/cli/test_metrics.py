# SPDX-License-Identifier: Apache-2.0
"""`boardprof metrics`: all that a board can count, and why it cannot count the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import FIXTURES, Outcome, boardprof


@pytest.fixture(scope="module")
def listed() -> dict[str, Any]:
    done = boardprof("metrics", "-b", "linux", "--json")
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def named(listed: dict[str, Any], name: str) -> dict[str, Any]:
    (metric,) = [metric for metric in listed["metrics"] if metric["name"] == name]
    return dict(metric)


def test_fixed_counters_and_events_stand_side_by_side(listed: dict[str, Any]) -> None:
    assert (listed["schema_version"], listed["board"]) == (1, "linux")
    assert listed["slots"] == {"papi": 10, "perf": 10}
    assert named(listed, "duration_time") == {
        "name": "duration_time",
        "collector": "clock",
        "description": "CLOCK_MONOTONIC_RAW",
        "reason": None,
        "available": True,
    }
    faults = named(listed, "minor-faults")
    assert faults["collector"] == "perf"
    assert faults["description"] == "page faults without reading a disk"


def test_what_another_collector_counts_has_its_own_in_front(listed: dict[str, Any]) -> None:
    assert named(listed, "page-faults")["collector"] == "faults"
    assert named(listed, "perf.page-faults")["collector"] == "perf"


def test_whatever_is_not_available_has_a_reason(listed: dict[str, Any]) -> None:
    for metric in listed["metrics"]:
        assert metric["available"] is (metric["reason"] is None)
        assert metric["name"] or metric["reason"]
    assert len(listed["metrics"]) > 60


def test_the_text_lists_what_is_there_and_the_rest_by_reason() -> None:
    done = boardprof("metrics", "-b", "linux")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "Metrics of linux"
    (head,) = [line for line in lines if line.startswith("perf: ")]
    assert head.endswith(" available, 10 in one pass")
    assert "  cpu-clock         ns in which the thread ran, by the CPU's own clock" in lines
    assert max(map(len, lines)) < 300


def test_what_a_virtual_machine_does_not_count_has_the_systems_reason() -> None:
    done = boardprof("run", "-b", "linux", f"{FIXTURES / 'scalars.c'}:take_u8", "value=255")
    assert done.code == 0, done.err
    assert "this core has no" not in done.out


def test_ticks_of_a_board_that_counts_nanoseconds_are_told_as_what_it_has() -> None:
    target = f"{FIXTURES / 'scalars.c'}:take_u8"
    done = boardprof("run", "-b", "linux", target, "value=255", "--metrics", "ticks")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: linux has no ticks: its clock counts duration_time.\nTry: duration_time\n"
    )


# -- one set of names ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["time", "duration", "Duration", "Duration (us)", "TIME"])
def test_each_name_of_the_duration_is_taken_by_metrics_and_by_a_rule(
    name: str, tmp_path: Path
) -> None:
    target = f"{FIXTURES / 'kernels.c'}:sum"  # longer than the call that is subtracted
    file = tmp_path / "report.json"
    run = ("run", "-b", "native", target, "x=int32[4000]", "n=4000", "--repeat", "3")
    done = boardprof(*run, "--metrics", name, "--json", file)
    assert done.code == 0, done.err
    row = json.loads(file.read_text())["calls"][0]
    assert "Duration (us)" in row
    assert "page-faults" not in row
    done = boardprof("compare", file, file, "--fail-if", f"{name}:max>1000%")
    assert done.code == 0, done.err
    done = boardprof("export", "collapsed", file, "--metric", name)
    assert done.code == 0, done.err


def test_the_stack_is_measured_beside_the_metrics_that_are_named(tmp_path: Path) -> None:
    target = f"{FIXTURES / 'scalars.c'}:take_u8"
    file = tmp_path / "report.json"
    run = ("run", "-b", "qemu-rv32", target, "value=255", "--repeat", "1", "--json", file)
    for metrics in ("stack,INSN", "insn"):
        done = boardprof(*run, "--metrics", metrics)
        assert done.code == 0, done.err
        row = json.loads(file.read_text())["calls"][0]
        assert {"instructions", "Stack (bytes)"} <= set(row)
        assert "ticks" not in row


def test_a_metric_that_does_not_exist_is_still_refused() -> None:
    target = f"{FIXTURES / 'scalars.c'}:take_u8"
    done = boardprof("run", "-b", "native", target, "value=255", "--metrics", "times")
    assert done.code == 2
    assert "native has no metric 'times'" in done.err


# -- metrics of several boards ----------------------------------------------------------------

TWO = ("run", "-b", "qemu-rv32,qemu-cortex-m3", f"{FIXTURES / 'scalars.c'}:take_u8", "value=255")
UNLIKE = ("run", "-b", "qemu-rv32,native", *TWO[3:])


def unsupported_of(done: Outcome, board: str) -> str:
    (line,) = [li for li in done.out.splitlines() if li.startswith(f"{board} unsupported: ")]
    return line


def test_a_metric_that_one_board_lacks_is_unsupported_there() -> None:
    done = boardprof(*UNLIKE, "--metrics", "instructions,page-faults")
    assert (done.code, done.err) == (0, "")
    assert "page-faults (it has no metric with that name)" in unsupported_of(done, "qemu-rv32")
    assert "instructions (it has no metric with that name)" in unsupported_of(done, "native")


def test_a_metric_that_no_board_has_is_an_error_and_the_others_are_measured() -> None:
    done = boardprof(*TWO, "--metrics", "ticks,tocks")
    assert done.code == 2
    assert "error: qemu-rv32 has no metric 'tocks'; did you mean 'ticks'?" in done.err
    assert "error: qemu-cortex-m3 has no metric 'tocks'" in done.err
    assert "tocks (it has no metric with that name)" in unsupported_of(done, "qemu-rv32")


def test_a_board_that_has_none_of_the_metrics_is_left_out_with_a_note() -> None:
    done = boardprof(*UNLIKE, "--metrics", "instructions")
    assert done.code == 0
    assert done.err == (
        "note: native was not measured, because it has none of the metrics: instructions: "
        "it has no metric with that name\n"
    )
    assert (
        "\nMissing: all of native, which has none of the metrics (instructions: "
        "it has no metric with that name)\n" in done.out
    )


def test_a_metric_that_no_board_has_at_all_is_an_error_of_each() -> None:
    done = boardprof(*TWO, "--metrics", "cycles")
    assert (done.code, done.out) == (2, "")
    assert "error: qemu-rv32 does not support cycles: QEMU has no cycle model" in done.err
    assert "error: qemu-cortex-m3 does not support cycles: DWT CYCCNT does not advance" in done.err


def test_a_board_without_events_lists_its_counters() -> None:
    done = boardprof("metrics", "-b", "native")
    assert (done.code, done.err) == (0, "")
    assert "\nclock: 2 available\n  duration_time  CLOCK_MONOTONIC_RAW\n" in done.out
