# SPDX-License-Identifier: Apache-2.0
"""A call that hangs on an emulated board ends with its limit in wall time, whatever hangs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceTimeoutError, LinkError
from tests.boards.conftest import NAMES, available, spec_of
from tests.cli.command import FIXTURES as CLI_FIXTURES
from tests.cli.command import boardprof, rows
from tests.firmware import build

FIXTURES = Path(__file__).parent / "fixtures"
ENDLESS = CLI_FIXTURES / "endless.c"
EMULATED = [name for name in NAMES if spec_of(name).clock.is_emulated]
LIMIT_S = {"ibex-rtl": 6}  # the simulator takes 0.2 s for what ends, at a third of the speed 0.7 s
FEW = ["qemu-rv32", "qemu-cortex-m3", "qemu-cortex-a53", "ibex-rtl", "arduino-uno"]

THREE = """\
static volatile unsigned turns;
void a_ends(void) { turns = 1; }
void b_endless(void) { for (;;) { turns++; } }
void c_ends(void) { turns = 2; }
"""

PRINTS = """\
#include <stdio.h>
void prints_for_ever(void) {
    for (unsigned turn = 0;; turn++) {
        printf("turn %u\\n", turn);
    }
}
"""


@pytest.mark.parametrize("name", FEW)
def test_a_hang_is_ended_after_the_limit_in_wall_time_and_the_others_are_measured(
    name: str, tmp_path: Path
) -> None:
    available(name)
    (tmp_path / "three.c").write_text(THREE)
    limit_s = LIMIT_S.get(name, 2)
    limits = ("--timeout", "1000", "--wall-timeout", str(limit_s))
    done = boardprof("run", "-b", name, tmp_path / "three.c:all", *limits)
    assert (done.code, sorted(rows(done.out))) == (6, ["a_ends", "c_ends"]), done.err
    message = rf"error: b_endless did not end within {limit_s} s of wall time \(--wall-timeout\)"
    if "qemu" in name:
        message += (
            r"; by then [\d.e+-]+ s of the 1000 s on the board's clock \(--timeout\) had passed"
        )
    message += r"; it hung at three\.c:3 \(in b_endless\)"
    message += f"\nTry: if b_endless is only slow, give --wall-timeout {10 * limit_s}\n"
    assert re.search(message, done.err), done.err


@pytest.mark.nightly
@pytest.mark.parametrize("name", EMULATED)
def test_a_hang_on_any_emulated_board_is_6_within_30_s_without_any_option(name: str) -> None:
    available(name)
    done = boardprof("run", "-b", name, f"{ENDLESS}:b_endless", timeout_s=100)
    assert (done.code, done.out) == (6, "")
    assert re.search(
        "error: b_endless did not end within (10 s of the board's clock|30 s of wall time)",
        done.err,
    )


@pytest.mark.parametrize("name", ["qemu-rv32", "qemu-cortex-m3", "qemu-cortex-a53", "ibex-rtl"])
def test_an_agent_that_the_function_has_overwritten_is_5_within_the_same_limit(name: str) -> None:
    available(name)
    target = f"{FIXTURES / 'lost.c'}:loses_the_agent"
    limit_s = LIMIT_S.get(name, 2)
    limits = ("--timeout", "1000", "--wall-timeout", str(limit_s))
    done = boardprof("run", "-b", name, target, *limits)
    assert (done.code, done.out) == (5, "")
    lost = f"is lost: loses_the_agent exceeded {limit_s} s of wall time (--wall-timeout)"
    assert lost in done.err


@pytest.mark.parametrize("name", ["qemu-rv32", "qemu-cortex-m3"])
def test_a_function_that_prints_for_ever_is_a_hang_and_its_agent_is_not_lost(
    name: str, tmp_path: Path
) -> None:
    available(name)
    (tmp_path / "prints.c").write_text(PRINTS)
    limits = ("--timeout", "1000", "--wall-timeout", "2")
    done = boardprof("run", "-b", name, tmp_path / "prints.c:prints_for_ever", *limits)
    assert (done.code, done.out) == (6, "")
    assert "prints_for_ever did not end within 2 s of wall time (--wall-timeout)" in done.err


def test_a_hang_that_the_board_cannot_end_is_told_with_its_line() -> None:
    available("qemu-rv32")
    target = f"{FIXTURES / 'masked.c'}:hangs_masked"
    done = boardprof("run", "-b", "qemu-rv32", target, "--timeout", "0.1")
    assert (done.code, done.out) == (6, "")
    assert re.search(
        r"hangs_masked did not end within 0\.1 s of the board's clock \(--timeout\)\. The board "
        r"could not stop it, so the host ended the emulator when hangs_masked was at masked\.c:\d+ "
        r"\(in hangs_masked\)",
        done.err,
    )


def test_a_board_whose_emulator_was_ended_is_closed() -> None:
    image = build(available("qemu-rv32"), [ENDLESS])
    with image.open(wall_timeout_s=1.0) as board:
        with pytest.raises(DeviceTimeoutError, match=r"within 1 s of wall time") as caught:
            board.functions.b_endless()
        assert (caught.value.limit_s, caught.value.cause) == (1.0, "time-out")
        assert caught.value.location is not None
        assert caught.value.location.function == "b_endless"
        with pytest.raises(LinkError, match="is closed"):
            board.functions.a_ends()
