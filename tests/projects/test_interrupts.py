# SPDX-License-Identifier: Apache-2.0
"""Firmware whose timer interrupts what is measured, on QEMU's mps2-an385.

What a function counts while the timer is off is the truth. The handler takes about 211
ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count
from boardprof.compat.torch.profiler import profile
from boardprof.compat.tvm_profiler.function import profile_function
from boardprof.compat.tvm_profiler.host_collectors import MetricCollector
from boardprof.compat.tvm_profiler.program import Program
from boardprof.compat.tvm_profiler.timing import time_evaluator
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.results.redecode import decode_again
from boardprof.results.report.report import Report
from boardprof.results.stats.warnings import warnings
from boardprof.target.descriptions.board import BoardSpec, board_spec
from tests.cli.command import boardprof
from tests.projects.firmware import EXAMPLE, command, requires_board, shell

FIRMWARE = Path(__file__).parent / "fixtures" / "interrupts"
BOARD = "qemu-cortex-m3"
KHZ = 25_000
"""Ticks of 25 MHz between two interrupts at 1 kHz."""

Made = Callable[..., Path]


def board_of_64_ns() -> BoardSpec:
    """Return the board with 1.6 ticks for each instruction: 15,625 between two interrupts."""
    spec = board_spec(BOARD)
    command = [word.replace("shift=8", "shift=6") for word in spec.launch.command]
    return replace(spec, launch=replace(spec.launch, command=tuple(command)), instruction_ns=64)


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return what builds the firmware with options of the agent, once for each."""
    requires_board(BOARD)
    made: dict[tuple[str, str], Path] = {}

    def image(config: str, collectors: str = "ticks", more: str = "") -> Path:
        if (config, more) not in made:
            folder = tmp_path_factory.mktemp("interrupts")
            options = [f"HAL={EXAMPLE / 'hal' / 'mps2_an385'}", f"BOARDPROF={command(folder)}"]
            options += [f"CONFIG={config}", f"COLLECTORS={collectors}", f"MORE={more}"]
            shell(["make", "-j2", "-f", FIRMWARE / "Makefile", *options], folder)
            made[config, more] = folder / "firmware.elf"
        return made[config, more]

    return image


@pytest.fixture
def masks(make: Made) -> Iterator[Board]:
    """The firmware with an agent that can mask, and handlers without hooks."""
    with connect(board_of_64_ns(), image=make("BP_CFG_INTERRUPTS=1")) as board:
        yield board


def measured(board: Board, n: int, timer: int, *, repeat: int = 10, mask: bool = False) -> Report:
    """Return a Report of crc16(n) with an interrupt each ``timer`` ticks; 0: none."""
    board.functions.timer(timer)
    report = board.profile("crc16", n, warmup=2, repeat=repeat, mask_interrupts=mask)
    board.functions.timer(0)
    return report


def column(report: Report, name: str) -> list[int]:
    return [each.value for row in report.calls if isinstance(each := row[name], Count)]


def told(report: Report) -> str:
    return str(report.configuration.get(f"{BOARD} warning", ""))


def test_a_timer_of_1_khz_is_in_each_window_that_is_longer_and_the_report_says_so(
    masks: Board,
) -> None:
    truth = measured(masks, 400, 0)
    report = measured(masks, 400, KHZ)
    extra = min(column(report, "ticks")) - max(column(truth, "ticks"))
    assert 190 < extra < 230
    assert told(report) == (
        "each sample of crc16 is longer than the 1,000 us between two timer interrupts and "
        "contains at least 1 of them: --mask-interrupts leaves them out"
    )


def test_a_window_that_runs_masked_counts_the_function_alone(masks: Board) -> None:
    [truth, *_] = sorted(column(measured(masks, 400, 0), "ticks"))
    report = measured(masks, 400, KHZ, mask=True)
    assert all(abs(ticks - truth) <= 1 for ticks in column(report, "ticks"))
    assert told(report) == ""
    assert report.configuration[f"{BOARD} interrupts"] == "masked in each sample"
    assert report.extra is not None
    [facts] = report.extra["measurements"]
    assert facts["interrupts"]["masked"]


def test_samples_that_the_timer_has_hit_are_told_apart(masks: Board) -> None:
    # A call takes 2,250 ticks, so that the timer hits 9 % of the samples, and not 20 %, which are
    # two groups.
    found = warnings(measured(masks, 25, KHZ, repeat=200))
    assert [each.kind for each in found] == ["apart"]
    assert "ticks longer than the others" in found[0].text
    assert warnings(measured(masks, 25, KHZ, repeat=200, mask=True)) == []


def test_run_masks_and_info_tells_who_can(make: Made) -> None:
    image = ("-b", BOARD, "--image", make("BP_CFG_INTERRUPTS=1"))
    done = boardprof("run", *image, "crc16", "n=400", "--mask-interrupts", "--repeat", "3")
    assert done.code == 0, done.err
    assert "masked in each sample" in done.out
    info = boardprof("info", *image)
    assert "  interrupts  can be masked; a timer interrupts every 1,000 us\n" in info.out
    assert "  interrupts  cannot be masked\n" in boardprof("info", "-b", "native").out


def test_a_board_that_cannot_mask_says_so_before_it_measures() -> None:
    done = boardprof(
        "run", "-b", "native", EXAMPLE / "app/control.c:isqrt", "x=9", "--mask-interrupts"
    )
    assert done.code == 2
    assert "native cannot mask interrupts" in done.err


### Other ways to measure ###


class Nothing(MetricCollector):
    """A collector of the host, so that each sample is a call of the board of its own."""

    def Init(self, devices: object) -> None: ...

    def Start(self, device: object) -> object:
        return self

    def Stop(self, state: object) -> dict[str, float]:
        return {}


def by_profile_function(board: Board, mask: bool) -> int:
    crc16 = profile_function(board, None, ["ticks"], "crc16", mask_interrupts=mask)
    return value(crc16(320)["ticks"])


def between_collectors_of_the_host(board: Board, mask: bool) -> int:
    collectors = ["ticks", Nothing()]
    crc16 = profile_function(board, None, collectors, "crc16", mask_interrupts=mask)
    return value(crc16(320)["ticks"])


def in_a_program(board: Board, mask: bool) -> int:
    program = Program(board)
    program.add("crc16", 320)
    return column(program.profile(mask_interrupts=mask), "ticks")[0]


def in_a_trace(board: Board, mask: bool) -> int:
    with profile(metrics="ticks", mask_interrupts=mask) as prof:
        board.functions.crc16(320)
    [event] = prof.events()
    return value(event.metrics["ticks"])


def by_the_time_evaluator(board: Board, mask: bool) -> int:
    evaluate = time_evaluator(board, "crc16", number=1, mask_interrupts=mask)
    return round(25e6 * evaluate(320).mean)


def value(metric: object) -> int:
    assert isinstance(metric, Count)
    return metric.value


OPEN = "BP_CFG_OPEN_WINDOWS=4"  # what returns results of what it measures, as a trace asks
OTHER_WAYS = [
    by_profile_function,
    between_collectors_of_the_host,
    in_a_program,
    in_a_trace,
    by_the_time_evaluator,
]


@pytest.mark.parametrize("ticks", OTHER_WAYS)
def test_every_way_to_measure_masks(ticks: Callable[[Board, bool], int], make: Made) -> None:
    with connect(
        board_of_64_ns(), image=make(f"BP_CFG_INTERRUPTS=1 {OPEN}"), clock="declared"
    ) as board:
        truth = ticks(board, False)
        board.functions.timer(KHZ)
        assert ticks(board, False) > truth + 190
        assert abs(ticks(board, True) - truth) <= 1


@pytest.mark.parametrize("ticks", OTHER_WAYS)
def test_every_way_to_measure_leaves_hooked_interrupts_out(
    ticks: Callable[[Board, bool], int], make: Made
) -> None:
    image = make(f"{HOOKS[0]} {OPEN}", HOOKS[1])
    with connect(board_of_64_ns(), image=image, clock="declared") as board:
        truth = ticks(board, True)
        board.functions.timer(KHZ // 5)
        assert abs(ticks(board, False) - truth) <= 9  # eight interrupts at most


def test_a_program_says_that_it_was_masked_and_an_event_how_many_interrupts_were_left_out(
    make: Made,
) -> None:
    with connect(board_of_64_ns(), image=make(f"{HOOKS[0]} {OPEN}", HOOKS[1])) as board:
        board.functions.timer(KHZ // 5)
        program = Program(board)
        program.add("crc16", 320)
        report = program.profile(mask_interrupts=True)
        with profile(metrics="ticks") as prof:
            board.functions.crc16(320)
    assert report.configuration[f"{BOARD} interrupts"] == "masked in each sample"
    [event] = prof.events()
    assert 6 <= event.args["interrupts"] <= 8


@pytest.mark.parametrize("ticks", OTHER_WAYS)
def test_no_way_to_measure_masks_where_the_board_cannot(
    ticks: Callable[[Board, bool], int], make: Made
) -> None:
    with (
        connect(board_of_64_ns(), image=make("BP_CFG_INTERRUPTS=0"), clock="declared") as board,
        pytest.raises(UsageError, match="qemu-cortex-m3 cannot mask interrupts"),
    ):
        ticks(board, True)


### Hooks ###


HOOKS = ("BP_CFG_INTERRUPTS=2", "ticks interrupts")


@pytest.fixture
def hooks(make: Made) -> Iterator[Board]:
    """The firmware with handlers that the agent leaves out."""
    with connect(board_of_64_ns(), image=make(*HOOKS)) as board:
        yield board


@pytest.mark.parametrize(("timer", "least", "most"), [(KHZ, 1, 2), (KHZ // 5, 6, 8)])
def test_the_net_is_without_interrupts_that_have_hooks_and_the_report_counts_them(
    hooks: Board, timer: int, least: int, most: int
) -> None:
    [truth, *_] = sorted(column(measured(hooks, 320, 0), "ticks"))
    report = measured(hooks, 320, timer)
    counts = column(report, "interrupts")
    assert all(least <= count <= most for count in counts)
    # whole ticks are read around each of them
    for count, ticks in zip(counts, column(report, "ticks"), strict=True):
        assert abs(ticks - truth) <= 1 + count
    # The handlers took 207 ticks between the readings of their hooks, and 184 in one session of
    # three, where QEMU's clock is ahead in the first reading. What lies outside is calibrated.
    for count, ticks in zip(counts, column(report, "interrupt-ticks"), strict=True):
        assert 180 * count < ticks < 220 * count
    assert column(report, "context-switches") == [0] * 10
    assert "left out of its counts" in str(report.configuration[f"{BOARD} interrupts"])
    assert told(report) == ""


def test_interrupts_are_left_out_whichever_metrics_are_asked_for(hooks: Board) -> None:
    [truth, *_] = sorted(column(measured(hooks, 320, 0), "ticks"))
    hooks.functions.timer(KHZ // 5)
    report = hooks.profile("crc16", 320, metrics="ticks", warmup=2)
    assert all(abs(ticks - truth) <= 8 for ticks in column(report, "ticks"))


def test_a_report_that_is_decoded_again_has_the_same_net(hooks: Board) -> None:
    report = measured(hooks, 320, KHZ // 5)
    again = decode_again(report)
    assert column(again, "ticks") == column(report, "ticks")
    assert column(again, "interrupt-ticks") == column(report, "interrupt-ticks")


def test_a_port_that_cannot_trigger_an_interrupt_gives_a_bound_and_the_net_is_inexact(
    make: Made,
) -> None:
    with connect(board_of_64_ns(), image=make(*HOOKS, "-DTRIGGERS=false")) as board:
        truth = max(column(measured(board, 320, 0), "ticks"))
        report = measured(board, 320, KHZ)
    assert told(report) == (
        "crc16 is inexact: 10 of 10 samples include the part of interrupts that is outside of "
        "their hooks, up to 8,000 ns each"
    )
    pairs = zip(column(report, "ticks"), column(report, "interrupts"), strict=True)
    assert all(0 < ticks - truth <= 200 * count for ticks, count in pairs)  # 8,000 ns at 25 MHz


def test_another_task_is_left_out_and_what_the_switch_takes_is_told(make: Made) -> None:
    with connect(board_of_64_ns(), image=make(*HOOKS, "-DTASKS")) as board:
        truth = max(column(measured(board, 320, 0), "ticks"))
        report = measured(board, 320, KHZ)
    assert all(count in (1, 2) for count in column(report, "context-switches"))
    assert column(report, "interrupts") == [0] * 10
    # the other task's 211 ticks are out, and of those of the hooks all but a few
    switches = column(report, "context-switches")
    for ticks, count in zip(column(report, "ticks"), switches, strict=True):
        assert 0 < ticks - truth < 40 * count, ticks - truth  # of some 470 in all
    assert told(report) == (
        "crc16 is inexact: 10 of 10 samples include the cost of switching to other tasks and back "
        "beyond that of an interrupt"
    )


def test_hooks_without_their_collector_do_not_link(make: Made) -> None:
    with pytest.raises(AssertionError, match="undefined reference to `bp_collector_interrupts'"):
        make("BP_CFG_INTERRUPTS=2 BP_CFG_MTU=512", "ticks")
