# SPDX-License-Identifier: Apache-2.0
"""What every board must do, whatever it is."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from boardprof.base.errors import CheckFailedError, RpcError, UnknownNameError, UsageError
from boardprof.base.metrics import Count, Duration
from boardprof.measure.board.board import Board
from boardprof.measure.connect import Firmware, connect
from boardprof.results.report.report import Report
from boardprof.target.descriptions.board import BoardSpec, board_spec
from tests.boards.conftest import ROOMY, SMALL, WORKLOADS, available
from tests.cli.command import cpu_seconds, ended, offspring
from tests.firmware import build

FUNCTIONS = {"checksum", "dot", "mix", "sort"}
"""Those of fixtures/small."""


def test_the_board_has_all_that_was_built_as_functions(board: Board) -> None:
    assert set(board.functions) == FUNCTIONS


def test_a_function_can_be_called_and_returns_nothing(board: Board) -> None:
    assert board.functions.sort() is None


@pytest.mark.parametrize("name", ROOMY)
def test_the_ten_workloads_are_right_where_there_is_room_for_them(name: str) -> None:
    firmware = build(available(name), [WORKLOADS])
    assert len(firmware.functions) == 10
    with connect(board_spec(name), image=firmware.image) as board:
        for function in firmware.functions:
            assert board.functions[function.name]() is None


def test_a_report_has_a_row_a_sample_and_a_total(board: Board) -> None:
    report = board.profile("checksum", warmup=2, repeat=4, number=3)
    assert [row["Name"] for row in report.calls] == ["checksum"] * 4
    assert [row["Count"] for row in report.calls] == [Count(3)] * 4
    assert {row["Device"] for row in report.calls} == {board.spec.name}
    first, *parts = report.device_metrics
    assert first == board.spec.name
    assert all(part.startswith(f"{first} ") for part in parts)
    assert Report.from_json(report.json()) == report


def test_the_total_of_each_counter_is_at_least_the_sum_of_the_rows(board: Board) -> None:
    report = board.profile("mix", warmup=1, repeat=5)
    total = report.device_metrics[board.spec.name]
    for name, metric in total.items():
        values = [row[name] for row in report.calls]
        if isinstance(metric, Count):
            assert metric.value >= sum(v.value for v in values if isinstance(v, Count))
        if isinstance(metric, Duration):
            spent = sum(v.microseconds for v in values if isinstance(v, Duration))
            assert metric.microseconds >= spent


def test_a_simulated_clock_gives_no_duration_and_a_real_one_does(board: Board) -> None:
    (row, *_) = board.profile("dot", warmup=1, repeat=2).calls
    assert ("Duration (us)" in row) == (board.spec.clock.kind != "simulated")


def test_no_unsupported_counter_is_in_a_report(board: Board) -> None:
    report = board.profile("dot", warmup=0, repeat=2)
    for name in board.device.unsupported:
        assert all(name not in row for row in report.calls)
        assert name not in report.device_metrics[board.spec.name]


def test_the_report_says_how_much_the_measuring_itself_took(board: Board) -> None:
    report = board.profile("checksum", warmup=1, repeat=3)
    assert f"{board.spec.name} perturbation" in report.configuration
    assert all("Perturbation (%)" in row for row in report.calls)


def test_raw_values_calibration_and_blobs_stand_in_the_json(board: Board) -> None:
    extra = json.loads(board.profile("checksum", warmup=1, repeat=3).json())["boardprof"]
    (measurement,) = extra["measurements"]
    assert len(measurement["samples"]) == 3
    for sample in measurement["samples"]:
        assert bytes.fromhex(sample["blobs"])
        for counter, overhead in measurement["calibration"].items():
            assert sample["raw"][counter] >= 0
            assert overhead >= 0


def test_more_samples_than_one_reply_holds_all_arrive(board: Board) -> None:
    assert len(board.profile("dot", warmup=0, repeat=120).calls) == 120


def test_a_collector_can_be_opened_and_closed_around_calls_of_the_host(board: Board) -> None:
    slots = {p.collector.name: p for p in board.offer.programmable}
    for name in board.collectors:
        if name in slots:
            counters = list(slots[name].select_default().events)
        else:
            counters = [c.name for c in board.dictionary.collector(name).counters]
        if all(counter in board.device.unsupported for counter in counters):
            continue
        with board.collectors[name] as window:
            board.functions.dot()
        assert window.blob
        assert window.metrics
        assert set(window.readings) == set(counters) - set(board.device.unsupported)


def test_windows_nest(board: Board) -> None:
    name = next(iter(board.collectors))
    with board.collectors[name] as outer, board.collectors[name] as inner:
        board.functions.dot()
    for counter, reading in inner.readings.items():
        assert outer.readings[counter].value >= reading.value


def test_a_window_that_is_not_open_cannot_be_stopped_on_the_board(board: Board) -> None:
    name = next(iter(board.collectors))
    stop = board.dictionary.function(f"{name}.stop")
    with pytest.raises(RpcError, match="no such handle"):
        board.session.call(stop.id, b"\x00", 1, name=stop.name)


def test_a_window_is_given_back_when_its_body_raises(board: Board) -> None:
    name = next(iter(board.collectors))
    for _ in range(12):  # more than any board holds open at one time
        with pytest.raises(ZeroDivisionError), board.collectors[name]:
            raise ZeroDivisionError


def test_init_closes_the_windows_of_its_collector(board: Board) -> None:
    """Counters may begin anew, and an open window would subtract from another origin."""
    name = next(iter(board.collectors))
    window = board.collectors[name]
    window.start()
    board.collectors[name].init()
    with pytest.raises(RpcError, match="no such handle"):
        window.stop()


def test_init_can_be_called_again(board: Board) -> None:
    name = next(iter(board.collectors))
    board.collectors[name].init()
    assert board.profile("dot", warmup=0, repeat=1).calls


def test_memory_keeps_what_was_written(board: Board) -> None:
    size = min(5020, board.spec.build.config["arena"] // 2)
    data = (bytes(range(251)) * 20)[:size]
    block = board.memory.alloc(len(data))
    board.memory.write(block, data)
    assert board.memory.read(block) == data
    assert board.memory.read(block, size=3, offset=249) == bytes([249, 250, 0])
    board.memory.free(block)
    with pytest.raises(RpcError, match="no such handle"):
        board.memory.read(block)


def test_an_unknown_function_is_named_with_the_nearest(board: Board) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'checksum'"):
        board.profile("cheksum")


def test_an_unknown_metric_is_named_with_what_there_is(board: Board) -> None:
    with pytest.raises(UnknownNameError, match="no metric"):
        board.profile("dot", metrics=["cycels"])


def test_an_unsupported_metric_is_refused_with_its_reason(board: Board) -> None:
    for name, reason in board.device.unsupported.items():
        with pytest.raises(UsageError) as error:
            board.profile("dot", metrics=[name])
        assert reason in str(error.value)


def test_only_the_metrics_that_were_asked_for_are_read(board: Board) -> None:
    offered = {function.name for function in board.dictionary.functions}
    supported = [
        counter.name
        for collector in board.dictionary.collectors
        if f"{collector.name}.select" not in offered  # slots have their events' names
        for counter in collector.counters
        if counter.name not in board.device.unsupported
    ]
    for name in supported:
        extra = board.profile("dot", metrics=[name], warmup=0, repeat=1).extra
        assert extra is not None
        assert list(extra["measurements"][0]["calibration"]) == [name]


def test_the_session_goes_on_after_a_refused_call(board: Board) -> None:
    with pytest.raises(RpcError):
        board.session.call(9999)
    assert board.functions.checksum() is None


@pytest.mark.parametrize("name", ["qemu-rv32", "arduino-uno", "ibex-rtl"])
def test_an_emulated_board_takes_no_processor_while_nobody_waits_for_it(name: str) -> None:
    spec = available(name)
    image = build(spec, [SMALL]).image
    others = set(offspring(os.getpid()))
    with connect(spec, image=image) as board:
        (emulator,) = set(offspring(os.getpid())) - others
        board.functions.dot()
        before_s = cpu_seconds(emulator)
        time.sleep(0.5)
        assert cpu_seconds(emulator) - before_s <= 0.02  # two ticks of the kernel's count
        board.functions.dot()
    assert ended(emulator)


def test_an_emulated_processor_leaves_the_hosts_to_the_thread_that_serves_its_line() -> None:
    spec = available("qemu-rv32")
    others = set(offspring(os.getpid()))
    with connect(spec, image=build(spec, [SMALL]).image):
        (emulator,) = set(offspring(os.getpid())) - others
        threads = [int(thread.name) for thread in Path(f"/proc/{emulator}/task").iterdir()]
        nice = {thread: os.getpriority(os.PRIO_PROCESS, thread) for thread in threads}
        session = Path(f"/proc/{emulator}/autogroup")  # of Linux with autogroups
        weight = session.read_text().split()[-2:] if session.exists() else ["nice", "5"]
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert nice.pop(emulator) == usual
    assert set(nice.values()) == {min(usual + 5, 19)}
    assert weight == ["nice", "5"]


def test_a_board_can_be_started_twice_at_one_time(spec: BoardSpec, firmware: Firmware) -> None:
    with (
        connect(spec, image=firmware.image) as first,
        connect(spec, image=firmware.image) as second,
    ):
        assert first.functions.checksum() is None
        assert second.functions.checksum() is None


def test_the_build_id_of_the_image_is_the_one_that_the_board_reports(
    board: Board, firmware: Firmware
) -> None:
    assert board.welcome.build_id == firmware.build_id


def test_progress_is_reported_up_to_the_number_of_calls(board: Board) -> None:
    seen: list[tuple[int, int]] = []
    board.profile("mix", warmup=3, repeat=4, on_progress=lambda *p: seen.append(p))
    assert seen
    # 1 + 9 rounds of the calibration, 3 of warm-up and 4 samples.
    assert {total for _, total in seen} == {17}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (17, 17)


@pytest.mark.parametrize(("warmup", "repeat", "number"), [(-1, 1, 1), (0, 0, 1), (0, 1, 0)])
def test_counts_out_of_range_are_refused(
    board: Board, warmup: int, repeat: int, number: int
) -> None:
    with pytest.raises(UsageError, match="out of range"):
        board.profile("dot", warmup=warmup, repeat=repeat, number=number)


def test_a_wrong_result_gives_an_error_and_no_number(
    spec: BoardSpec, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = tmp_path_factory.mktemp("wrong") / "wrong.c"
    source.write_text(
        "static volatile int x; void wrong(void); int wrong_check(void);"
        "void wrong(void) { x = 41; } int wrong_check(void) { return x == 42 ? 0 : 7; }\n"
    )
    with connect(spec, image=build(spec, [source]).image) as connected:
        with pytest.raises(CheckFailedError) as error:
            connected.profile("wrong", repeat=1)
        assert error.value.code == 7
        with pytest.raises(CheckFailedError):
            connected.functions.wrong()
