# SPDX-License-Identifier: Apache-2.0
"""What doctor makes of the files of Linux boards that are not on this desk."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from boardprof.measure.board.board import Board
from boardprof.measure.doctor import check_board
from boardprof.measure.doctor.check_board import linux_findings

STATUS = "Name:\tagent\nUid:\t{user}\t{user}\t{user}\t{user}\nCpus_allowed_list:\t{cores}\n"
INTERRUPTS = """           CPU0       CPU1       CPU2       CPU3
 11:       {a}       1000       1000       {d}     GICv2  30 Level     arch_timer
IPI0:         5          5          5          5       Rescheduling interrupts
Err:          0
"""
FREQUENCY = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_{}"


class Files:
    """The files of a board; one that has several contents changes from read to read."""

    def __init__(self, files: dict[str, list[str]]) -> None:
        self.functions = {"proof_file": self._read}
        self._files = files

    def _read(self, path: str, text: Any, size: int) -> int:
        contents = self._files.get(path)
        if contents is None:
            return -1
        content = (contents.pop(0) if len(contents) > 1 else contents[0]).encode()
        assert len(content) <= size
        text[: len(content)] = np.frombuffer(content, np.uint8)
        return len(content)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second passes at each look at the clock."""
    now = iter(range(0, 100))
    monkeypatch.setattr(check_board.time, "sleep", lambda _: None)
    monkeypatch.setattr(check_board.time, "monotonic", lambda: next(now) / 2)


def told(files: dict[str, list[str]]) -> dict[str, tuple[str, str]]:
    found = linux_findings(cast(Board, Files(files)))
    return {each.subject: (each.verdict, each.text) for each in found}


def test_a_raspberry_pi_as_it_comes_has_a_remedy_for_each_noise() -> None:
    found = told(
        {
            "/proc/self/status": [STATUS.format(user=1000, cores="0-3")],
            FREQUENCY.format(0, "governor"): ["ondemand\n"],
            FREQUENCY.format(0, "min_freq"): ["600000\n"],
            FREQUENCY.format(0, "max_freq"): ["1800000\n"],
            "/sys/devices/system/cpu/isolated": ["\n"],
            "/proc/interrupts": [
                INTERRUPTS.format(a=1000, d=1000),
                INTERRUPTS.format(a=1125, d=1010),
            ],
            "/proc/sys/kernel/perf_event_paranoid": ["3\n"],
        }
    )
    assert found == {
        "frequency": (
            "not proven",
            "governor ondemand: it varies from 600 MHz to 1,800 MHz. Try: echo performance | sudo "
            "tee /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        ),
        "core": (
            "not proven",
            "one of 4: Linux may move the agent. Try: -p 'ssh://USER@HOST?run=taskset -c 3'",
        ),
        "interrupts": (
            "not proven",
            "250 a second on the agent's busiest core: each adds to the time of a sample, not to "
            "instructions in user mode",
        ),
        "perf": (
            "not proven",
            "may count nothing: perf_event_paranoid is 3. Try: sudo sysctl "
            "kernel.perf_event_paranoid=2",
        ),
    }


def test_a_raspberry_pi_that_was_made_quiet_is_ok() -> None:
    found = told(
        {
            "/proc/self/status": [STATUS.format(user=1000, cores="3")],
            FREQUENCY.format(3, "governor"): ["performance\n"],
            FREQUENCY.format(3, "min_freq"): ["600000\n"],
            FREQUENCY.format(3, "max_freq"): ["1800000\n"],
            "/sys/devices/system/cpu/isolated": ["2-3\n"],
            "/proc/interrupts": [
                INTERRUPTS.format(a=1000, d=1000),
                INTERRUPTS.format(a=1125, d=1001),
            ],
            "/proc/sys/kernel/perf_event_paranoid": ["2\n"],
        }
    )
    assert found == {
        "frequency": ("ok", "governor performance, 1,800 MHz"),
        "core": ("ok", "3, which no other program uses"),
        "interrupts": ("ok", "2 a second on the agent's busiest core"),
        "perf": ("ok", "may count in user mode (perf_event_paranoid is 2)"),
    }


def test_what_linux_does_not_tell_is_not_proven() -> None:
    assert {status for status, _ in told({}).values()} == {"not proven"}
