# SPDX-License-Identifier: Apache-2.0
"""``boardprof trace``, ``top`` and ``dump``."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from boardprof.results.probes.run import read_run
from tests.boards.conftest import available
from tests.cli.command import BOARDPROF, FIXTURES, boardprof
from tests.firmware import build
from tests.support import ROOT, children_of

PROBES = ROOT / "tests" / "boards" / "fixtures" / "probes"
CALLS = f"{PROBES / 'calls.c'}"
RV32 = ("-b", "qemu-rv32")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Firmware with a main loop that has ranges."""
    spec = available("qemu-rv32")
    folder = tmp_path_factory.mktemp("running") / "board"
    shutil.copytree(spec.folder, folder)
    shutil.copy(PROBES / "running.c", folder)
    own = replace(spec.build, sources=(*spec.build.sources, "running.c"), own_main=True)
    return str(build(replace(spec, folder=folder, build=own)).image)


def wait_until_it_runs(command: int) -> int:
    """Wait until the command's emulator has run for a second of a processor; return its id."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        for child in children_of(command):
            try:
                times = Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2].split()
            except OSError:  # a short command, which has ended
                continue
            if sum(map(int, times[11:13])) >= os.sysconf("SC_CLK_TCK"):  # utime, stime
                return child
        time.sleep(0.1)
    raise AssertionError("the emulator has not run for a second")


def test_a_call_is_traced_and_the_trace_is_shown_compared_and_gated(tmp_path: Path) -> None:
    before, after = str(tmp_path / "before.trace"), str(tmp_path / "after.trace")
    for file, n in ((before, 100), (after, 110)):
        done = boardprof("trace", *RV32, f"{CALLS}:in_range", f"n={n}", "-o", file)
        assert done.code == 0, done.err
        assert re.search(r"^work +1 +(\d+) +\1 +\1 +[\d.]+ %$", done.out, re.MULTILINE)
        assert "on qemu-rv32." in done.out
        assert f"Trace written to {file}" in done.err
    shown = boardprof("show", before)
    assert re.search(r"\bin place\b.*\n", shown.out)
    compared = boardprof("compare", before, after, "--fail-if", "instructions:max>5%")
    assert compared.code == 1
    assert re.search(
        r"^work +in place +qemu-rv32 +instructions +\d+ +\d+ .*REGRESSION", compared.out, re.M
    )


def test_each_call_is_a_pass(tmp_path: Path) -> None:
    file = str(tmp_path / "a.trace")
    done = boardprof("trace", *RV32, f"{CALLS}:in_range", "n=7", "--calls", "3", "-o", file)
    assert re.search(r"^work +3 ", done.out, re.MULTILINE)
    assert len(read_run(file).timelines()[0].ranges) == 6


def test_statistics_alone_need_no_stream_and_count_passes() -> None:
    done = boardprof(
        "trace", *RV32, f"{CALLS}:in_range", "n=7", "--calls", "5", "--statistics", "--no-events"
    )
    assert re.search(r"^work +5 ", done.out, re.MULTILINE)


def test_nothing_to_record_is_a_mistake() -> None:
    done = boardprof("trace", *RV32, f"{CALLS}:in_range", "n=7", "--no-events")
    assert done.code == 2
    assert "neither events nor statistics" in done.err


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("-", "This cannot be printed: -o needs a file."),
        ("/nowhere/a.trace", "/nowhere/a.trace cannot be written: there is no folder /nowhere."),
    ],
)
def test_a_trace_that_cannot_be_written_is_not_recorded(output: str, said: str) -> None:
    for command in (("trace", *RV32, f"{CALLS}:marks", "n=1"), ("dump", *RV32)):
        done = boardprof(*command, "-o", output)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: {said}")


def test_a_board_without_probes_says_how_to_get_them() -> None:
    done = boardprof("trace", "-b", "arduino-uno", f"{FIXTURES / 'scalars.c'}:count_calls")
    assert done.code == 2
    assert "The firmware of arduino-uno has no probes" in done.err
    assert "qemu-rv32" in done.err


def test_heap_is_for_a_function_that_is_built_here() -> None:
    done = boardprof("trace", *RV32, "--image", CALLS, "--heap")
    assert done.code == 2
    assert "--heap changes how firmware is built, and no function is named" in done.err
    assert "BP_CFG_TRACE_HEAP" in done.err


def test_nothing_to_call_and_no_firmware_is_a_mistake() -> None:
    done = boardprof("trace", *RV32)
    assert done.code == 2
    assert "There is nothing to record: no function and no firmware is named." in done.err


def test_running_firmware_is_traced_for_a_time_and_until_ctrl_c(
    running: str, tmp_path: Path
) -> None:
    done = boardprof("trace", *RV32, "--image", running, "--time", "1s")
    assert done.code == 0, done.err
    for name in ("control", "filter"):
        assert re.search(rf"^{name} +[\d,]+ ", done.out, re.MULTILINE)
    file = tmp_path / "until.trace"
    command = [*BOARDPROF, "trace", *RV32, "--image", running, "-o", str(file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until_it_runs(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "control" in out
    assert len(read_run(str(file)).timelines()[0].ranges) > 0


def test_what_came_before_the_board_was_lost_is_written(running: str, tmp_path: Path) -> None:
    file = tmp_path / "lost.trace"
    command = [*BOARDPROF, "trace", *RV32, "--image", running, "--time", "60s", "-o", str(file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.kill(wait_until_it_runs(process.pid), signal.SIGKILL)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 6, err
    assert re.search(r"^control +[\d,]+ ", out, re.MULTILINE)
    assert f"Trace written to {file}" in err
    assert len(read_run(str(file)).timelines()[0].ranges) > 0


def test_an_emulator_runs_while_it_keeps_statistics_alone(running: str) -> None:
    options = ("--statistics", "--no-events", "--time", "2s")
    done = boardprof("trace", *RV32, "--image", running, *options)
    assert done.code == 0, done.err
    passes = re.search(r"^filter +([\d,]+) ", done.out, re.MULTILINE)
    assert passes is not None, done.out
    assert int(passes[1].replace(",", "")) > 100


def test_a_recording_in_which_no_range_ended_says_so() -> None:
    done = boardprof("trace", *RV32, f"{CALLS}:loop", "n=3")
    assert done.code == 0, done.err
    assert done.out.startswith("No range has ended in this recording.\n")


def test_top_prints_a_table_for_each_interval(running: str) -> None:
    done = boardprof("top", *RV32, "--image", running, "--interval", "300ms", "--count", "2")
    assert done.code == 0, done.err
    tables = done.out.split("\n\n")
    assert len(tables) == 2
    for table in tables:
        shares = {
            name: float(share)
            for name, share in re.findall(r"^(control|filter) +([\d.]+) %", table, re.MULTILINE)
        }
        assert 2.8 < shares["filter"] / shares["control"] < 3.2
        assert sum(shares.values()) <= 100


def test_top_ends_when_nobody_reads_it_any_more(running: str) -> None:
    command = [*BOARDPROF, "top", *RV32, "--image", running, "--interval", "100ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"Range")
        process.stdout.close()
        try:
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_dump_without_kept_events_says_how_to_begin(running: str) -> None:
    done = boardprof("dump", *RV32, "--image", running)
    assert done.code == 2
    assert "has kept no events: its rings are empty, or damaged" in done.err
    assert "boardprof trace --mode overwrite" in done.err


def test_a_damaged_trace_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.trace"
    file.write_bytes(b"PK\x03\x04" + bytes(100))
    done = boardprof("show", str(file))
    assert done.code == 2
    assert "is not a trace of this boardprof" in done.err


def test_a_gate_that_can_judge_nothing_of_two_traces_is_an_error(tmp_path: Path) -> None:
    """Three passes are too few for a rank test, and too long to take the same time twice."""
    files = [str(tmp_path / name) for name in ("before.trace", "after.trace")]
    for file in files:
        call = (f"{CALLS}:three_to_one", "turns=1", "--calls", "3")
        done = boardprof("trace", "-q", "-b", "native", *call, "-o", file)
        assert done.code == 0, done.err
    done = boardprof("compare", *files, "--fail-if", "ticks>5%")
    assert done.code == 2
    assert "No rule could judge any row." in done.err
    assert "too few samples to reach p < 0.01" in done.out
    done = boardprof("compare", *files, "--fail-if", "ticks>5%", "--fail-if-missing")
    assert done.code == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "my-loop",
            "build the firmware with the name of the board it runs on (CMake: BOARD linux)",
        ),
        ("native", "give -b native"),
    ],
)
def test_firmware_with_the_name_of_another_board_says_what_to_type(name: str, hint: str) -> None:
    image = build(replace(available("linux"), name=name)).image
    done = boardprof("trace", "-b", "linux", "--image", str(image), "--time", "100ms")
    assert done.code != 0
    assert f"belongs to the board '{name}', not 'linux'" in done.err
    assert f"Try: {hint}\n" in done.err


def test_info_tells_what_probes_can_record() -> None:
    assert (
        "  probes      a ring of 16,777,216 bytes; the clock counts instructions of minstret\n"
        in (boardprof("info", *RV32).out)
    )
    found = json.loads(boardprof("info", "-b", "native", "--json").out)["probes"]
    assert found == {
        "ring_bytes": 65536,
        "cores": 1,
        "clock_unit": "ticks",
        "clock_source": "CLOCK_MONOTONIC_RAW",
        "clock_hz": 1_000_000_000,
        "clock_unsupported": None,
        "recording": [],
    }
    without = boardprof("info", "-b", "arduino-uno")
    assert "  probes      none: the agent was built without BP_CFG_TRACE\n" in without.out
