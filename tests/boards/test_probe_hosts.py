# SPDX-License-Identifier: Apache-2.0
"""Probes and hosts that read slowly or not at all, and boards that reset while they record."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boardprof.base.errors import DeviceResetError
from boardprof.jobs.run import probe_run
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.measure.probe_recorder import ProbeRecorder
from boardprof.results.probes.run import read_run
from boardprof.ui.cli import main
from boardprof_protocol.codes import TraceId
from tests.boards.conftest import available
from tests.cli.command import agent, boardprof, offspring
from tests.firmware import build

FIXTURES = Path(__file__).parent / "fixtures" / "probes"
BACKGROUND = FIXTURES / "background.c"
LONGEST_END_S = 8.0
"""The board answers at once, and its last events come without a pause."""


Turns = Callable[..., Path]


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Turns:
    """Return a function that builds turns.c for qemu-rv32; it resets itself after N turns."""

    def of(reset_after: int, *, marked: bool = False) -> Path:
        spec = available("qemu-rv32")
        folder = tmp_path_factory.mktemp("turns") / "board"
        shutil.copytree(spec.folder, folder)
        code = (FIXTURES / "turns.c").read_text()
        changed = code.replace("RESET_AFTER 0u", f"RESET_AFTER {reset_after}u")
        if marked:
            changed = changed.replace("BP_RANGE_END(", "BP_MARK(marked); BP_RANGE_END(")
        (folder / "turns.c").write_text(changed)
        # Both fill up.
        small = {**spec.build.config, "trace": 8192, "trace_at": 0, "stream": 4096}
        own = replace(
            spec.build, sources=(*spec.build.sources, "turns.c"), own_main=True, config=small
        )
        return build(replace(spec, folder=folder, build=own)).image

    return of


@pytest.fixture(params=["tcp", "pty"])
def linux(request: pytest.FixtureRequest) -> Iterator[Board]:
    image = build(available("linux"), [BACKGROUND]).image
    options = ["--pty"] if request.param == "pty" else []
    with (
        agent("-b", "linux", BACKGROUND, *options) as port,
        connect("linux", port, image=image) as board,
    ):
        yield board


def read_slowly(recorder: ProbeRecorder) -> None:
    for _ in range(5):
        run_on(0.15)
        recorder.read(0.05)  # until the board tells of drops


def read_nothing(recorder: ProbeRecorder) -> None:
    run_on(0.75)


def run_on(time_s: float) -> None:
    """Do nothing; let emulators run meanwhile, which else run only while their line is read."""
    for process in offspring(os.getpid()):
        os.kill(process, signal.SIGCONT)
    time.sleep(time_s)


@pytest.mark.parametrize("read", [read_slowly, read_nothing])
def test_a_host_that_reads_slowly_or_nothing_gets_each_event_or_the_number_of_those_dropped(
    linux: Board, read: object
) -> None:
    assert callable(read)
    with linux.tracing() as recorder:
        linux.functions.begin()
        read(recorder)
        made = linux.functions.end()
        began_s = time.monotonic()
        recording = recorder.stop()
        took_s = time.monotonic() - began_s
    [line] = recording.timelines().values()
    events = line.events
    is_drop = events.number == TraceId.DROPPED
    before = np.cumsum(np.where(is_drop, events.value, 0).astype(np.int64))[~is_drop]
    values = events.value[~is_drop].astype(np.int64)
    assert np.array_equal(values, np.arange(len(values)) + before)
    assert len(values) + line.dropped == made
    assert line.dropped > 1000
    assert took_s < LONGEST_END_S


@pytest.mark.parametrize("read", [read_slowly, read_nothing])
def test_firmware_goes_on_while_its_host_reads_slowly_or_nothing(
    turns: Turns, read: object
) -> None:
    """Three events a turn: what is missing of the turns is what was dropped."""
    assert callable(read)
    with connect("qemu-rv32", image=turns(0)) as board, board.tracing() as recorder:
        read(recorder)
        began_s = time.monotonic()
        recording = recorder.stop()
        took_s = time.monotonic() - began_s
    [line] = recording.timelines().values()
    events = line.events
    names = {each.text: each.number for each in recording.names.names}
    is_drop = events.number == TraceId.DROPPED
    counted = np.cumsum(np.where(is_drop, events.value, 1).astype(np.int64))
    numbered = events.number == names["number"]
    turn = events.value[numbered].astype(np.int64)
    assert len(turn) > 100
    assert line.dropped > 100
    assert np.array_equal(3 * np.diff(turn), np.diff(counted[numbered]))
    assert took_s < LONGEST_END_S


def test_what_a_late_record_takes_is_left_out_of_its_range_whatever_it_records(
    turns: Turns,
) -> None:
    """A turn has five words and the ring 2,048, so each kind of record comes to its end."""
    with connect("qemu-rv32", image=turns(0, marked=True)) as board, board.tracing() as recorder:
        while recorder.progress[0] < 50_000:
            recorder.read(0.2)
        recording = recorder.stop()
    [line] = recording.timelines().values()
    late = set(line.events.number[line.events.late].tolist())
    names = {each.text: each.number for each in recording.names.names}
    assert late >= {names["turn"], names["number"], names["marked"], names["turn"] + 1}
    assert set(line.ranges.net[1:].tolist()) == {0}


def test_what_came_before_a_reset_is_kept_and_the_error_is_no_regression(
    turns: Turns, tmp_path: Path
) -> None:
    file = tmp_path / "cut.trace"
    image = turns(30_000)
    began_s = time.monotonic()
    done = boardprof("trace", "-b", "qemu-rv32", "--image", image, "--time", "60s", "-o", file)
    assert time.monotonic() - began_s < 30
    assert done.code == 6
    assert "was reset" in done.err
    assert f"Trace written to {file}" in done.err
    [line] = read_run(str(file)).timelines().values()
    assert len(line.ranges) > 100
    assert np.all(line.ranges.net[1:] == line.ranges.net[1])
    assert re.search(r"^turn\b.* in place ", boardprof("show", file).out, re.MULTILINE)


def test_recording_ends_before_its_file_is_too_large_to_be_read(
    turns: Turns,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "large.trace"
    monkeypatch.setattr(probe_run, "MOST_RECORDED", 100_000)
    image = ["--image", str(turns(0))]
    assert main(["trace", "-b", "qemu-rv32", *image, "--time", "60s", "-o", str(file)]) == 8
    assert "a larger file could not be read" in capsys.readouterr().err
    assert 100_000 <= len(read_run(str(file)).content) < 1_000_000


def record_until_it_fails(recorder: ProbeRecorder) -> None:
    with recorder:
        while True:
            recorder.read(0.2)
            _ = recorder.now


def test_a_board_that_was_reset_can_be_recorded_again(turns: Turns) -> None:
    with connect("qemu-rv32", image=turns(300_000)) as board:
        recorder = board.tracing()
        with pytest.raises(DeviceResetError):
            record_until_it_fails(recorder)
        [line] = recorder.recording().timelines().values()
        assert len(line.events) > 300
        board.session.open()
        with board.tracing() as again:
            while again.progress[0] < 100:
                again.read(0.2)
        [line] = again.recording().timelines().values()
        assert len(line.events) > 10
