# SPDX-License-Identifier: Apache-2.0
"""Probes in firmware with a preemptive kernel: what they count in place is what really ran.

The kernel is that of examples/tasks. On `qemu-rv32` the trace clock counts instructions, so that
figures can be compared to the last one. Its timer interrupts every 50,000 instructions there.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boardprof.base.metrics import Count
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.results.probes.run import ProbeRun, Slot, read_run
from boardprof.results.probes.timeline import UNKNOWN_TASK, Timeline
from boardprof_protocol.codes import ProbeKind, TraceId
from tests.cli.command import boardprof
from tests.projects.firmware import command, executed, requires_board, shell
from tests.support import ROOT, requires_tool

APP = Path(__file__).parent / "fixtures" / "tasks" / "app.c"
MAKEFILE = ROOT / "examples" / "tasks" / "Makefile"
RV32, M4 = "qemu-rv32", "qemu-cortex-m4"
HZ = {RV32: 20_000, M4: 1_000}
TIMER, SOFTWARE = 7, 3
"""Numbers of rv32's interrupts: mcause."""

N = {"control": 200, "filter": 400, "sum": 600}
AROUND = {"12": 3, "14": 2}
"""GCC's version -> instructions of a range besides the function's own, by the disassembly.

They are the argument, the jump, and what the compiler has made of the probe here and not in the
calibration: with GCC 12, a jump back from where it has put the call of the recorder.
"""

DEADLINE_S = 60.0

Made = Callable[..., Path]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return what builds the firmware for a board, once for each way to poll."""
    made: dict[tuple[str, ...], Path] = {}

    def image(board: str, poll: str = "TASK", hz: int | None = None) -> Path:
        requires_board(board)
        key = (board, poll, str(hz or HZ[board]))
        if key not in made:
            folder = tmp_path_factory.mktemp("tasks")
            options = [f"BOARD={board}", f"APP={APP}", f"BOARDPROF={command(folder)}"]
            options += [f"MORE=-DPOLL={poll} -DHZ={key[2]}", "TRACE=131072"]
            shell(["make", "-j2", "-f", MAKEFILE, *options], folder)
            made[key] = folder / "firmware.elf"
        return made[key]

    return image


@pytest.fixture(scope="module")
def around() -> int:
    """Instructions of a range besides the function's own."""
    command = [requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf"), "-dumpversion"]
    version = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    assert version.partition(".")[0] in AROUND, f"count them for GCC {version}: see AROUND"
    return AROUND[version.partition(".")[0]]


@pytest.fixture(scope="module")
def called(make: Made, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Instructions of crc16(n) when it is called, from QEMU's own plugin: compilers differ."""
    quiet = make(RV32, "TASK", 1)  # no interrupt within the call
    folder = tmp_path_factory.mktemp("called")
    spec = requires_board(RV32)
    return {name: executed(quiet, spec, folder / name, "crc16", n) for name, n in N.items()}


def test_the_example_finds_the_command_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(command(tmp_path).parent), prepend=os.pathsep)
    printed = shell(["make", "-n", "-f", MAKEFILE, f"BOARD={RV32}"], tmp_path)
    assert "boardprof glue --board qemu-rv32" in printed


def test_another_board_in_the_same_folder_is_built_anew(tmp_path: Path) -> None:
    requires_board(RV32)
    requires_board("qemu-cortex-m4")
    image = tmp_path / "firmware.elf"
    words = ["make", "-j2", "-f", MAKEFILE, f"BOARDPROF={command(tmp_path)}"]
    machines = []
    for board in (RV32, "qemu-cortex-m4"):
        shell([*words, f"BOARD={board}"], tmp_path)
        machines.append(int.from_bytes(image.read_bytes()[18:20], "little"))
    assert machines == [243, 40]  # EM_RISCV, EM_ARM
    with connect("qemu-cortex-m4", image=image) as board:
        assert board.functions.variance(np.arange(64, dtype=np.int32), 64) == 341
    assert " -c " not in shell([*words, "BOARD=qemu-cortex-m4"], tmp_path)
    option = "CONFIG=BP_CFG_HANDLES=3"
    assert "-DBP_CFG_HANDLES=3" in shell([*words, "BOARD=qemu-cortex-m4", option], tmp_path)


def test_a_board_that_the_example_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="BOARD=qemu-rv64 is not supported") as caught:
        shell(["make", "-f", MAKEFILE, "BOARD=qemu-rv64"], tmp_path)
    assert "one of qemu-rv32 qemu-cortex-m4" in str(caught.value)
    assert not any(tmp_path.iterdir())


@dataclass
class Traced:
    """A recording, the only core's timeline, and the names of its tasks."""

    recording: ProbeRun
    line: Timeline
    tasks: dict[int, str]

    def task(self, name: str) -> int:
        return next(task for task, text in self.tasks.items() if text == name)

    def number(self, kind: ProbeKind, name: str) -> int:
        return next(n.number for n in self.recording.names.of_kind(kind) if n.text == name)

    def of(self, name: str) -> Any:
        """Return which passes of ranges have this name."""
        return self.line.ranges.of(self.number(ProbeKind.RANGE, name))


def invoke(board: Board, name: str, *arguments: int) -> Any:
    [found] = [each.id for each in board.dictionary.functions if each.name == name]
    return board.session.invoke(found, name, *arguments)


def table(board: Board) -> list[list[Any]]:
    """Return the rows of bp.trace_tasks."""
    rows: list[list[Any]] = []
    while (row := invoke(board, "bp.trace_tasks", len(rows))) is not None:
        rows.append(row)
    return rows


def record(board: Board, *work: int, words: int = 4_000) -> Traced:
    """Trace the tasks at work until there are so many words of events."""
    board.functions.work(*work)
    deadline_s = time.monotonic() + DEADLINE_S
    with board.tracing() as recorder:
        while recorder.progress[0] < words:
            assert time.monotonic() < deadline_s
            recorder.read(0.05)
        board.functions.work(0, 0, 0)
    recording = recorder.recording()
    [line] = recording.timelines().values()
    return Traced(recording, line, {task.number: task.name for task in recording.tasks})


@pytest.fixture(scope="module")
def rv32(make: Made) -> Traced:
    """All tasks at work. The agent is a task, too, and not fast enough: events are dropped."""
    with connect(RV32, image=make(RV32)) as board:
        return record(board, *N.values())


@pytest.fixture(scope="module")
def calm(make: Made) -> Traced:
    """Two tasks at work, and the agent in the loop of main: nothing is dropped.

    Unless this machine did not run the host for too long: such a recording is made anew.
    """
    for _ in range(5):
        with connect(RV32, image=make(RV32, "MAIN")) as board:
            traced = record(board, N["control"], N["filter"], 0, words=1_500)
        if traced.line.diagnostics.dropped == 0:
            break
    return traced


### Ranges ###


@pytest.mark.parametrize("name", N)
def test_a_called_function_counts_what_qemu_counts(
    name: str, make: Made, called: dict[str, int]
) -> None:
    with connect(RV32, image=make(RV32, "TASK", 1)) as board:
        report = board.profile("crc16", N[name], repeat=3)
    assert [row["instructions"] for row in report.calls] == 3 * [Count(called[name])]


@pytest.mark.parametrize("name", N)
def test_a_range_in_place_counts_what_the_called_function_counts_to_the_instruction(
    name: str, rv32: Traced, called: dict[str, int], around: int
) -> None:
    net = rv32.line.ranges.net[rv32.of(name)]
    assert len(net) >= 20
    assert set(net.tolist()) == {called[name] + around}


def test_ranges_were_interrupted_and_preempted_where_that_was_tested(
    rv32: Traced, called: dict[str, int]
) -> None:
    ranges = rv32.line.ranges
    mine = rv32.of("sum")
    assert set(ranges.interrupts[mine].tolist()) >= {0, 1}
    # Other tasks had the core for longer than the timer's interrupts take.
    away = (ranges.end - ranges.begin - ranges.own)[mine]
    assert int(away.max()) > called["filter"]
    assert set(ranges.task[mine].tolist()) == {rv32.task("sum")}


def test_an_empty_function_in_place_counts_its_two_instructions_and_the_call(
    rv32: Traced, around: int
) -> None:
    assert set(rv32.line.ranges.net[rv32.of("sum_empty")].tolist()) == {around + 2}
    assert set(rv32.line.ranges.net[rv32.of("control_empty")].tolist()) == {around + 2}


def test_the_report_has_the_ranges_as_rows_with_these_counts(
    rv32: Traced, called: dict[str, int], around: int
) -> None:
    from boardprof.results.probes.figures import report_of

    rows = [row for row in report_of(rv32.recording).calls if row["Name"] == "filter"]
    counts = {v.value for row in rows if isinstance(v := row["instructions"], Count)}
    assert counts == {called["filter"] + around}


def test_ranges_on_a_cortex_m4_are_right_within_the_ticks_of_its_interrupts(make: Made) -> None:
    with connect(M4, image=make(M4)) as board:
        traced = record(board, *N.values())
        report = board.profile("crc16", N["filter"], repeat=5, mask_interrupts=True)
    [called, *_] = sorted(v.value for row in report.calls if isinstance(v := row["ticks"], Count))
    ranges = traced.line.ranges
    mine = traced.of("filter")
    assert len(ranges.net[mine]) >= 20
    # A tick is 1.6 instructions of an interrupt's entry. SysTick's differs from PendSV's.
    for net, interrupts in zip(ranges.net[mine], ranges.interrupts[mine], strict=True):
        assert abs(int(net) - called) < 20 + 40 * int(interrupts)


### Tasks and interrupts ###


@pytest.mark.parametrize("which", ["rv32", "calm"])
def test_tasks_and_interrupts_add_up_to_the_traced_window(
    which: str, request: pytest.FixtureRequest
) -> None:
    traced: Traced = request.getfixturevalue(which)
    ticks = traced.line.task_ticks()
    assert sum(ticks.values()) + traced.line.interrupt_ticks() == traced.line.end
    if which == "calm":
        assert traced.line.diagnostics.dropped == 0
        # Until the first event, which is the task that runs. While the ring is cleared, interrupts
        # wait; they come before that event.
        assert ticks.get(UNKNOWN_TASK, 0) < 200_000
        named = {traced.tasks[task] for task in ticks if task != UNKNOWN_TASK}
        assert named == {"control", "filter", "idle", "sum", "share"}


def test_the_window_is_that_of_the_boards_own_clock(make: Made) -> None:
    with connect(RV32, image=make(RV32, "MAIN")) as board:
        board.functions.work(N["control"], N["filter"], 0)
        recorder = board.tracing()
        before = recorder.now
        with recorder:
            first = recorder.now
            time.sleep(0.1)
            last = recorder.now
        after = recorder.now
    [line] = recorder.recording().timelines().values()
    assert (last - first) % 2**32 <= line.end <= (after - before) % 2**32


def test_a_tasks_time_is_that_of_its_ranges_and_what_it_does_between_them(
    calm: Traced, called: dict[str, int]
) -> None:
    ranges = calm.line.ranges
    for name in ("control", "filter"):
        mine = calm.of(name)
        passes = int(mine.sum())
        task = calm.line.task_ticks()[calm.task(name)]
        inside = int(ranges.own[mine].sum())
        assert passes * called[name] < inside < task < inside + passes * 1_000


def test_interrupts_begin_and_end_in_turns_and_tasks_switch_only_in_them(rv32: Traced) -> None:
    events = rv32.line.events
    assert bool((np.diff(events.time) >= 0).all())
    inside, current = False, None
    for number, value in zip(events.number.tolist(), events.value.tolist(), strict=True):
        if number == TraceId.DROPPED:
            inside, current = False, None
        elif number == TraceId.INTERRUPT_ENTER:
            assert not inside
            assert value in (TIMER, SOFTWARE)
            inside = True
        elif number == TraceId.INTERRUPT_EXIT:
            inside = False
        elif number == TraceId.TASK and current is not None:
            assert inside
            assert value in rv32.tasks
            assert value != current
        if number == TraceId.TASK:
            current = value


def test_the_timer_interrupts_every_50_000_instructions(calm: Traced) -> None:
    interrupts = calm.line.interrupts
    begins = interrupts.begin[interrupts.number == TIMER]
    assert len(begins) > 50
    late = begins - begins[0] - 50_000 * np.arange(len(begins))
    assert int(np.abs(late).max()) < 1_000  # other interrupts, and probes, hold it up


def test_no_task_is_switched_to_while_one_of_higher_priority_runs(calm: Traced) -> None:
    events = calm.line.events
    cause, switches = None, []
    for number, value in zip(events.number.tolist(), events.value.tolist(), strict=True):
        if number == TraceId.INTERRUPT_ENTER:
            cause = value
        elif number == TraceId.TASK:
            switches.append((calm.tasks[value], cause))
    # `control` has the highest priority: only its own sleep ends its turn, not the timer.
    after = [cause for (name, _), (_, cause) in pairwise(switches) if name == "control"]
    assert len(after) > 20
    assert set(after) == {SOFTWARE}
    # `filter` ends by its own sleep, or is preempted by `control`.
    after_filter = {
        (name, cause) for (before, _), (name, cause) in pairwise(switches) if before == "filter"
    }
    assert after_filter <= {
        ("control", TIMER),
        ("idle", SOFTWARE),
        ("sum", SOFTWARE),
        ("share", SOFTWARE),
    }


### The table of tasks ###


@pytest.mark.parametrize("board", [RV32, M4])
def test_tasks_have_names_and_stacks_before_anything_is_recorded(board: str, make: Made) -> None:
    with connect(board, image=make(board)) as connected:
        rows = table(connected)
        connected.functions.work(*N.values())
        time.sleep(0.2)
        later = table(connected)
    assert [row[1:3] for row in rows] == [
        [b"control", 1024],
        [b"filter", 1024],
        [b"sum", 1024],
        [b"share", 1024],
        [b"agent", 4096],
        [b"idle", None],
    ]
    # Nobody knows how much of main's stack is used.
    assert rows[-1][3] is None
    for before, after in zip(rows[:-1], later[:-1], strict=True):
        assert 64 <= before[3] <= after[3] < after[2]


def test_the_trace_command_names_tasks_and_tells_how_much_of_their_stacks_they_use(
    make: Made, tmp_path: Path
) -> None:
    file = tmp_path / "tasks.bptrace"
    image = ("-b", RV32, "--image", make(RV32, "MAIN"))
    done = boardprof("trace", *image, "--time", "0.3", "-o", file)
    assert done.code == 0, done.err
    [head] = [line for line in done.out.splitlines() if line.startswith("Task")]
    assert head.split() == ["Task", "Time", "Share", "Stack", "used", "of"]
    [row] = [line for line in done.out.splitlines() if line.startswith("control")]
    assert re.fullmatch(r"control +[\d,]+ +[\d.]+ % +\d+ B +1,024 B", row)
    assert {task.name for task in read_run(str(file)).tasks} == {
        "control", "filter", "sum", "share", "idle",
    }  # fmt: skip


### Statistics ###


def statistics(recorder: Any, name: str) -> Slot:
    """Return a range's statistics so far; they must be possible."""
    names = recorder.recording().names.of_kind(ProbeKind.RANGE)
    [number] = [each.number for each in names if each.text == name]
    found = [each for each in recorder.statistics() if each.number == number]
    slot = found[0] if found else Slot(number, 0, 0, 0, 0, 0, 0)
    assert slot.least * slot.count <= slot.sum <= slot.most * slot.count
    assert slot.squares is not None
    assert slot.squares * slot.count >= slot.sum**2
    return slot


@pytest.mark.parametrize("board", [RV32, M4])
def test_each_pass_of_a_range_that_two_tasks_enter_is_counted_or_lost(
    board: str, make: Made
) -> None:
    with (
        connect(board, image=make(board)) as connected,
        connected.tracing(events=False, statistics=True) as recorder,
    ):
        connected.functions.share(1)
        deadline_s = time.monotonic() + DEADLINE_S
        slot = statistics(recorder, "shared")
        while not slot.lost or slot.count < 1_000:  # until one interrupts the other in it, too
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
            slot = statistics(recorder, "shared")
            assert slot.most < 1_000_000
        connected.functions.share(0)
        time.sleep(0.2)
        passes: Any = connected.functions.shared()
        slot = statistics(recorder, "shared")
    assert slot.lost > 0
    assert slot.count + slot.lost == passes


@pytest.mark.parametrize("poll", ["TASK", "MAIN", "TICK"])
def test_statistics_are_read_whoever_polls(poll: str, make: Made, called: dict[str, int]) -> None:
    busy = 0 if poll == "MAIN" else N["sum"]
    with (
        connect(RV32, image=make(RV32, poll)) as board,
        board.tracing(events=False, statistics=True) as recorder,
    ):
        board.functions.work(N["control"], N["filter"], busy)
        deadline_s = time.monotonic() + DEADLINE_S
        slots: list[Slot] = []
        while not slots or min(slot.count for slot in slots) < 10:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
            slots = [statistics(recorder, name) for name in ("control", "filter")]
    # The highest priority: never another task. Some passes have an interrupt, most have none.
    assert called["control"] < slots[0].least < called["control"] + 100
    assert called["filter"] < slots[1].least < called["filter"] + 100


def test_an_interrupt_that_alone_polls_sends_a_trace(
    make: Made, called: dict[str, int], around: int
) -> None:
    with connect(RV32, image=make(RV32, "TICK")) as board:
        traced = record(board, *N.values(), words=1_000)
    ranges, mine = traced.line.ranges, traced.of("filter")
    alone = ranges.interrupts[mine] == 0
    assert int(alone.sum()) >= 5
    assert set(ranges.net[mine][alone].tolist()) == {called["filter"] + around}
    # An interrupt cannot be interrupted to find out what one takes outside of its marks.
    assert traced.recording.costs.interrupt is None
    assert all(net > called["filter"] + around for net in ranges.net[mine][~alone].tolist())
    ticks = traced.line.task_ticks()
    assert sum(ticks.values()) + traced.line.interrupt_ticks() == traced.line.end
