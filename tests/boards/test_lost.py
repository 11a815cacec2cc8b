# SPDX-License-Identifier: Apache-2.0
"""An emulated board whose agent is lost is given up by its own clock, which QEMU tells."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from boardprof.base.errors import BoardTimeoutError, DeviceTimeoutError
from boardprof.measure.connect import connect
from boardprof.wire.transport.base import Clocked
from tests.boards.conftest import available
from tests.firmware import build

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize(("name", "limit_s"), [("qemu-rv32", 0.2), ("qemu-cortex-m3", 1.0)])
def test_the_clock_that_qemu_tells_is_the_one_by_which_the_board_ends_a_call(
    name: str, limit_s: float
) -> None:
    spec = available(name)
    image = build(spec, [FIXTURES / "faults.c"]).image
    with connect(spec, image=image, timeout_s=limit_s) as board:
        line = board.session.transport
        assert isinstance(line, Clocked)
        before_s = line.board_s()
        with pytest.raises(DeviceTimeoutError):
            board.functions.endless()
        after_s = line.board_s()
    assert before_s is not None
    assert after_s is not None
    assert after_s - before_s > 0.99 * limit_s


def test_an_emulated_board_that_is_lost_is_given_up_by_its_own_clock() -> None:
    spec = available("qemu-cortex-m3")
    image = build(spec, [FIXTURES / "lost.c"]).image
    with connect(spec, image=image, timeout_s=0.1) as board:
        board.session.timeout_s = 60.0  # the wall's
        begin_s = time.monotonic()
        with pytest.raises(BoardTimeoutError, match="is lost: ") as caught:
            board.functions.loses_the_agent()
    assert time.monotonic() - begin_s < 30.0
    assert caught.value.hint is not None
    assert "writes beyond its arrays" in caught.value.hint


@pytest.mark.parametrize("name", ["qemu-rv32", "qemu-cortex-a53"])
def test_the_clock_of_a_board_that_is_lost_goes_on(name: str) -> None:
    """With wfi where it ends up, QEMU would execute 3 to 6 ms of its clock a second."""
    spec = available(name)
    image = build(spec, [FIXTURES / "lost.c"]).image
    with connect(spec, image=image, timeout_s=0.01) as board:
        board.session.timeout_s = 0.4
        with pytest.raises(BoardTimeoutError):
            board.functions.loses_the_agent()
        line = board.session.transport
        assert isinstance(line, Clocked)
        before_s = after_s = line.board_s()
        assert before_s is not None
        for _ in range(20):  # two seconds, or more where this machine stands still or is busy
            time.sleep(0.1)
            after_s = line.board_s()
            assert after_s is not None
            if after_s - before_s > 0.02:
                break
    assert after_s - before_s > 0.02
