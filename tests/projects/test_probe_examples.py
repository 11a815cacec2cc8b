# SPDX-License-Identifier: Apache-2.0
"""examples/control_loop and examples/network: their probes show what the code does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boardprof.results.probes.run import ProbeRun, read_run
from tests.cli.command import boardprof, rows
from tests.projects.firmware import command, requires_board, shell
from tests.support import ROOT, requires_tool

LOOP = ROOT / "examples" / "control_loop"
NETWORK = ROOT / "examples" / "network" / "network.c"
TICKS_OF_A_MILLISECOND = 25_000


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> ProbeRun:
    """Two seconds of the control loop, of which the board has kept the first events."""
    requires_board("qemu-cortex-m4")
    requires_tool("cmake", "cmake")
    folder = tmp_path_factory.mktemp("control_loop")
    program = command(folder)
    shell(["cmake", "-S", LOOP, "-B", folder, f"-DBOARDPROF={program}"], folder)
    shell(["cmake", "--build", "."], folder)
    where = ("-b", "qemu-cortex-m4", "--image", folder / "control_loop.elf")
    done = boardprof("trace", *where, "--time", "2s", "--mode", "stop", "-o", folder / "loop.trace")
    assert done.code == 0, done.err
    assert "sample" in done.out
    return read_run(str(folder / "loop.trace"))


def number(recording: ProbeRun, name: str) -> int:
    return next(each.number for each in recording.names.names if each.text == name)


def test_the_interrupt_comes_once_in_a_millisecond(loop: ProbeRun) -> None:
    [line] = loop.timelines().values()
    between = np.diff(line.interrupts.begin)
    assert len(between) > 100
    assert abs(float(np.median(between)) - TICKS_OF_A_MILLISECOND) < 5


def test_the_controller_runs_once_for_eight_interrupts(loop: ProbeRun) -> None:
    [line] = loop.timelines().values()
    begins = line.ranges.begin[line.ranges.of(number(loop, "control"))]
    assert len(begins) > 10
    # The main loop notices the eighth reading between two polls of the agent, which take long
    # beside the 3,906 instructions of a millisecond.
    assert abs(float(np.mean(np.diff(begins))) - 8 * TICKS_OF_A_MILLISECOND) < 25_000


def test_interrupts_within_a_pass_are_left_out_of_it(loop: ProbeRun) -> None:
    [line] = loop.timelines().values()
    mine = line.ranges.of(number(loop, "filter"))
    took = line.ranges.end[mine] - line.ranges.begin[mine]
    came, net = line.ranges.interrupts[mine], line.ranges.net[mine]
    assert took.min() > TICKS_OF_A_MILLISECOND
    assert came.min() >= 1
    assert np.all(took - net > 400 * came)  # the handler takes 63 instructions of 6.4 ticks
    assert net.max() - net.min() < 256


def test_the_speed_comes_as_a_signed_value_and_reaches_its_target(loop: ProbeRun) -> None:
    [line] = loop.timelines().values()
    speeds = line.events.value[line.events.number == number(loop, "speed")].astype(np.int32)
    assert len(speeds) > 10
    # It swings about its target, by steps of up to 120. How long is recorded depends on the host.
    assert np.abs(speeds - 3000).min() <= 60
    assert loop.names.by_number[number(loop, "speed")].kind.name == "I32"


def test_the_network_is_right_and_its_layers_add_up(tmp_path: Path) -> None:
    requires_board("qemu-rv32")
    done = boardprof("run", "-q", "-b", "qemu-rv32", f"{NETWORK}:network", "--repeat", "2")
    assert done.code == 0, done.err  # network_check has compared it with what numpy computes
    file = tmp_path / "network.trace"
    done = boardprof("trace", "-b", "qemu-rv32", f"{NETWORK}:network", "-o", file)
    assert done.code == 0, done.err
    found = read_run(str(file))
    [line] = found.timelines().values()
    nets = {
        name: int(line.ranges.net[line.ranges.of(number(found, name))].sum())
        for name in ("network", "convolution", "pooling", "dense", "decide")
    }
    layers = sum(nets.values()) - nets["network"]
    assert 0 <= nets["network"] - layers < 300  # calls, and the tests of five probes
    assert nets["convolution"] > nets["dense"] > nets["pooling"] > nets["decide"] > 0
    [decision] = line.events.value[line.events.number == number(found, "decision")].tolist()
    assert decision == 6  # what numpy decides for the same inputs
    shown = rows(boardprof("show", file).out)
    assert shown == ["network", "convolution", "dense", "pooling", "decide"]


def test_on_a_board_without_probes_the_network_is_the_same() -> None:
    requires_board("microbit")
    done = boardprof("run", "-q", "-b", "microbit", f"{NETWORK}:network", "--repeat", "2")
    assert done.code == 0, done.err
