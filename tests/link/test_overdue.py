# SPDX-License-Identifier: Apache-2.0
"""A board that lets its own limit go by, by its own clock, is lost; a slow one is not."""

from __future__ import annotations

import json
import os
import socket

import pytest

from boardprof.base.errors import BoardprofError, BoardTimeoutError, DeviceTimeoutError, Location
from boardprof.wire.link.no_answer import Overdue
from boardprof.wire.link.session import Session
from boardprof.wire.transport import qemu_clock
from boardprof.wire.transport.qemu_clock import QemuClock
from boardprof_protocol.codes import FrameKind
from tests.unit.test_line import NEVER, PlayedLine

LOOKS_S = [0.5 * count for count in range(1, 200)]


def told(overdue: Overdue) -> float | None:
    """Look at the times when the line does; return when the board is given up."""
    return next((now_s for now_s in LOOKS_S if overdue.is_certain(now_s)), None)


def test_a_board_is_lost_two_seconds_of_its_clock_after_its_limit_seen_thrice() -> None:
    """It is first looked at after 0.5 s: 3 s of its clock may go by from there."""
    clock_s = iter([100.0, 101.5, 103.0, 103.1, 103.2, 103.3])
    assert told(Overdue(1.0, lambda: next(clock_s), 0.0)) == 3.0


def test_a_board_whose_clock_is_slow_is_waited_for() -> None:
    clock_s = iter(0.01 * count for count in range(200))
    assert told(Overdue(1.0, lambda: next(clock_s), 0.0)) is None


def test_what_a_board_says_gives_it_its_whole_time_again() -> None:
    clock_s = iter([0.0, 3.1, 3.2, 6.2, 6.3, 6.4, 6.5])
    overdue = Overdue(1.0, lambda: next(clock_s), 0.0)
    assert [overdue.is_certain(now_s) for now_s in (0.5, 1.0)] == [False, False]
    overdue.renew(1.1)
    assert [overdue.is_certain(now_s) for now_s in (1.5, 1.6)] == [False, False]
    times_s = (2.1, 2.6, 3.1, 3.6)
    assert [overdue.is_certain(now_s) for now_s in times_s] == [False, False, False, True]


def test_a_board_whose_clock_nobody_knows_is_not_looked_at_again() -> None:
    overdue = Overdue(1.0, lambda: None, 0.0)
    assert told(overdue) is None
    assert overdue.look_at_s == float("inf")


def test_a_board_that_ends_no_calls_is_not_looked_at() -> None:
    assert Overdue(None, lambda: 1e9, 0.0).look_at_s == float("inf")


class ClockedLine(PlayedLine):
    """A board of whose seconds ``pace`` go by in one of the host's."""

    pace = 1.0

    def board_s(self) -> float:
        return self.pace * self.now_s


@pytest.mark.parametrize(
    ("pace", "after_s", "message"),
    [
        (1.0, 4.5, "is lost: f exceeded 1 s of the board's clock"),
        (0.01, 100.0, "did not answer f for 100 s"),
    ],
)
def test_a_call_is_given_up_by_the_boards_clock_or_else_by_the_walls(
    pace: float, after_s: float, message: str
) -> None:
    line = ClockedLine({FrameKind.CALL: NEVER})
    line.pace = pace
    session = Session(line, timeout_s=100.0, clock=lambda: line.now_s)
    session.open()
    session.limit(100.0, limit_s=1.0, surely_s=100.0, wall_s=None)
    begin_s = line.now_s
    with pytest.raises(BoardTimeoutError, match=message):
        session.call(5, name="f")
    assert line.now_s - begin_s == pytest.approx(after_s, abs=0.6)


def test_a_board_that_is_lost_before_any_call_blames_no_function() -> None:
    line = ClockedLine({FrameKind.CALL: NEVER})
    session = Session(line, timeout_s=100.0, clock=lambda: line.now_s)
    session.open()
    session.limit(100.0, limit_s=1.0, surely_s=100.0, wall_s=None)
    hints = []
    for name in ("bp.describe", "fir", "bp.read"):
        with pytest.raises(BoardTimeoutError) as caught:
            session.call(5, name=name)
        hints.append(str(caught.value.hint))
    assert hints[0].startswith("give wall_timeout_s=10 if this machine is busy")
    assert all(each.startswith("check whether fir writes") for each in hints[1:])


class EmulatedLine(ClockedLine):
    """An emulator that is at 0x100, or does not tell."""

    where: int | None = 0x100

    def pc(self) -> int | None:
        return self.where


def hung(line: EmulatedLine, *, surely_s: float, location: Location | None = None) -> Session:
    """Return a session with a board that a call hangs on, with a limit of 3 s of wall time."""
    line.pace = 0.5
    session = Session(line, timeout_s=100.0, clock=lambda: line.now_s)
    session.open()
    session.limit(3.0, limit_s=10.0, surely_s=surely_s, wall_s=3.0)
    session.line.locate = lambda pc: location
    return session


FUNCTION = Location("fir.c", 12, "fir")
OUTPUT = Location("port.c", 7, "bp_port_write")
ASSEMBLY = Location("bp_arch_guard_enter.S", 79, None)


def test_a_hang_in_an_emulator_is_told_with_its_place_and_both_limits() -> None:
    line = EmulatedLine({FrameKind.CALL: NEVER})
    session = hung(line, surely_s=1.0, location=FUNCTION)
    with pytest.raises(DeviceTimeoutError) as caught:
        session.call(5, name="f")
    assert caught.value.message == (
        "f did not end within 3 s of wall time (wall_timeout_s=); by then 1.2 s of the "
        "10 s on the board's clock (timeout_s=) had passed; it hung at fir.c:12 (in fir)"
    )
    assert (caught.value.exit_code, caught.value.pc) == (6, 0x100)
    assert session.is_closed


@pytest.mark.parametrize("location", [None, OUTPUT, ASSEMBLY, Location("a.c", 1, "main")])
def test_an_emulator_that_is_only_in_its_agent_or_nowhere_is_lost(
    location: Location | None,
) -> None:
    session = hung(EmulatedLine({FrameKind.CALL: NEVER}), surely_s=100.0, location=location)
    with pytest.raises(
        BoardTimeoutError, match=r"f exceeded 3 s of wall time \(wall_timeout_s=\)"
    ) as caught:
        session.call(5, name="f")
    assert caught.value.exit_code == 5
    assert not session.is_closed


@pytest.mark.parametrize(
    ("surely_s", "error"), [(5.0, DeviceTimeoutError), (2.0, BoardTimeoutError)]
)
def test_of_an_emulator_that_does_not_tell_the_time_tells_whether_its_board_could_still_end_it(
    surely_s: float, error: type[BoardprofError]
) -> None:
    line = EmulatedLine({FrameKind.CALL: NEVER})
    line.where = None
    with pytest.raises(error, match="3 s of wall time"):
        hung(line, surely_s=surely_s).call(5, name="f")


def test_a_board_that_is_no_emulator_of_ours_is_silent_by_the_wall() -> None:
    line = PlayedLine({FrameKind.CALL: NEVER})
    session = Session(line, timeout_s=100.0, clock=lambda: line.now_s)
    session.open()
    session.limit(3.0, limit_s=10.0, surely_s=1200.0, wall_s=3.0)
    with pytest.raises(
        BoardTimeoutError, match=r"did not answer f for 3 s of wall time \(wall_timeout_s=\)\."
    ) as caught:
        session.call(5, name="f")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("give wall_timeout_s=30")


# -- whom to ask ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["qemu-system-arm", "-M", "microbit"],
        ["qemu-system-arm", "-icount"],
        ["qemu-system-arm", "-icount", "shift=auto"],
        ["/opt/simulator", "-icount", "shift=6"],
    ],
)
def test_a_program_that_does_not_say_how_long_an_instruction_takes_is_not_asked(
    command: list[str],
) -> None:
    assert QemuClock.of(command) is None


def test_a_qemu_that_is_late_is_not_asked_twice_and_its_last_answer_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(qemu_clock, "_ANSWER_S", 0.05)
    clock = QemuClock(0)
    with socket.socket(fileno=os.dup(clock.inherited)) as qemu:
        clock.started()
        qemu.sendall(b'{"return": {"icount": 1000}, "id": 1}\r\n')
        assert clock.now_s() == pytest.approx(1e-6)
        assert [clock.now_s(), clock.now_s()] == [pytest.approx(1e-6)] * 2
        assert qemu.recv(4096).count(b"query-replay") == 2
        qemu.sendall(b'{"return": {"icount": 3000}, "id": 1}\r\n')
        assert clock.now_s() == pytest.approx(3e-6)
        qemu.sendall(b'{"return": {"icount": 4000}, "id": 1}\r\n')
        assert clock.now_s() == pytest.approx(4e-6)
        assert qemu.recv(4096).count(b"query-replay") == 1
    clock.close()


@pytest.mark.parametrize(
    ("value", "seconds"), [("shift=6,sleep=off", 64e-9 * 1000), ("0", 1e-9 * 1000)]
)
def test_an_instruction_takes_two_to_the_shift_nanoseconds(value: str, seconds: float) -> None:
    clock = QemuClock.of(["/usr/bin/qemu-system-arm", "-icount", value, "-nographic"])
    assert clock is not None
    qemu = socket.socket(fileno=os.dup(clock.inherited))
    clock.started()
    qemu.sendall(
        b'{"QMP": {}}\r\n{"return": {}}\r\n{"event": "RESUME", "data": {}}\r\n'
        b'{"return": {"icount": 1000, "mode": "none"}, "id": 1}\r\n'
    )
    assert clock.now_s() == pytest.approx(seconds)
    assert qemu.recv(4096) == (
        b'{"execute": "qmp_capabilities"}\n{"execute": "query-replay", "id": 1}\n'
    )
    qemu.sendall(b'{"return": {"icount": 2000, "mode": "none"}, "id": 1}\r\n')
    assert clock.now_s() == pytest.approx(2 * seconds)
    assert qemu.recv(4096) == b'{"execute": "query-replay", "id": 1}\n'
    qemu.close()
    clock.close()


@pytest.mark.parametrize(
    "answer",
    [
        b'{"error": {"class": "CommandNotFound", "desc": "?"}, "id": 1}\n',
        b"[]\n",
        b"no JSON\n",
        b"",
    ],
)
def test_a_qemu_that_does_not_know_is_asked_once(answer: bytes) -> None:
    clock = QemuClock(0)
    qemu = socket.socket(fileno=os.dup(clock.inherited))
    clock.started()
    qemu.sendall(answer)
    if not answer:
        qemu.close()
    assert clock.now_s() is None
    assert clock.now_s() is None
    qemu.close()
    clock.close()


@pytest.mark.parametrize(
    ("registers", "pc"),
    [
        (" pc       80002ee6\r\n mhartid  00000000\r\n mepc     80000000\r\n", 0x8000_2EE6),
        ("R14=fffffff9 R15=000032e6\r\nXPSR=61000000 -ZC- T", 0x32E6),
        (" PC=0000000040084fb8 X00=0000000000000000", 0x4008_4FB8),
        ("EPC=1", None),
    ],
    ids=["riscv", "arm", "aarch64", "other"],
)
def test_qemu_is_asked_where_the_board_is_while_it_stands_still(
    registers: str, pc: int | None
) -> None:
    """As QEMU 7.2 prints the registers of these three."""
    clock = QemuClock(0)
    with socket.socket(fileno=os.dup(clock.inherited)) as qemu:
        clock.started()
        qemu.sendall(b'{"return": {"icount": 5}, "id": 1}\n{"return": {}}\n')
        qemu.sendall(json.dumps({"return": registers, "id": 2}).encode() + b"\n")
        assert clock.pc() == pc
        asked = [json.loads(line)["execute"] for line in qemu.recv(4096).splitlines()]
    assert asked[2:] == ["stop", "human-monitor-command", "cont"]
    clock.close()
