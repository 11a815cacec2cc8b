# SPDX-License-Identifier: Apache-2.0
"""The board's clock on the host's, on real boards, against a clock that both can read."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof import connect
from boardprof.base.errors import UsageError
from boardprof.measure.board.board import Board
from boardprof.measure.sampling.board_link import ClockProbe
from boardprof.target.descriptions.board import board_spec
from tests.firmware import build
from tests.support import requires_tool


def raw_s() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


@pytest.fixture(params=["native", "linux"])
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    requires_tool("gcc", package="gcc")
    with connect(request.param) as connected:
        # What is sent again is no exchange, and on a busy machine any may take as long as that.
        connected.session.requests.rtt.floor_s = 60.0
        yield connected


def probe(board: Board) -> ClockProbe:
    # The board's ticks are nanoseconds of the very clock that is given as the host's here, so that
    # every conversion is known without any exchange.
    return ClockProbe(board.session, board.dictionary, "measured", raw_s)


def test_a_reading_is_converted_within_the_stated_error(board: Board) -> None:
    asked = probe(board)
    asked.ask(8)
    time.sleep(0.2)
    middle = raw_s()
    time.sleep(0.2)
    asked.ask(8)
    fit = asked.fit()
    assert fit is not None
    assert 0 < fit.error_s < 0.05
    assert abs(fit.to_host_s(round(middle * 1e9)) - middle) <= fit.error_s
    assert abs(fit.drift_ppm) <= fit.drift_error_ppm
    assert fit.span_s >= 0.4
    assert fit.exchanges == 16


def test_the_boards_own_rate_is_what_the_agent_says(board: Board) -> None:
    fit = board.correlate_clock(4)
    assert (fit.hz, fit.exchanges) == (1_000_000_000, 4)
    assert fit.error_s > 0


def test_a_profile_states_the_error_in_its_configuration(tmp_path: Path) -> None:
    requires_tool("gcc", package="gcc")
    (tmp_path / "f.c").write_text("void f(void);\nvoid f(void) {}\n")
    image = build(board_spec("linux"), [tmp_path / "f.c"]).image
    with connect("linux", image=image) as board:
        report = board.profile("f")
    line = str(report.configuration["linux clock by the host's"])
    assert re.fullmatch(r"within \S+ us, drift \S+ ppm \(within \S+\) over \S+ s", line)
    assert report.extra is not None
    (measured,) = report.extra["measurements"]
    assert measured["clock_fit"]["hz"] == 1_000_000_000
    assert 2 <= measured["clock_fit"]["exchanges"] <= 16


def test_a_simulated_clock_is_refused_by_name() -> None:
    requires_tool("riscv64-unknown-elf-gcc", package="gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", package="qemu-system-misc")
    with (
        connect("qemu-rv32") as emulated,
        pytest.raises(UsageError, match="clock of qemu-rv32 is simulated"),
    ):
        emulated.correlate_clock()
