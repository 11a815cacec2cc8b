# SPDX-License-Identifier: Apache-2.0
"""Warm-up, repeat and number: what fits the wire, and how many rounds they are together."""

from __future__ import annotations

import re
from typing import Any

import msgpack
import numpy as np
import pytest

from boardprof.base.errors import DeviceTimeoutError, FrameError, RpcError, UsageError
from boardprof.base.metrics import Count
from boardprof.measure.sampling.board_link import BoardInterrupts
from boardprof.measure.sampling.measure_function import Rounds
from boardprof.results.record import Interrupts, Stack
from boardprof.show.board_facts import info_text
from boardprof.ui.cli.boards import board_info
from boardprof.wire.decode.samples import Reading
from boardprof_protocol.codes import ErrorCode, FaultCause, FrameKind
from tests.memory_board import CHANNELS, FULL
from tests.memory_session import altered, connected

MOST = {"warmup": 0x7FFF_FFFF, "repeat": 0xFFFF_FFFF, "number": 0xFFFF_FFFF}


def test_the_most_and_the_least_that_the_wire_takes_are_taken() -> None:
    assert Rounds(**MOST).repeat == 0xFFFF_FFFF
    assert Rounds(warmup=0, repeat=1, number=1).warmup == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, most + 1) for name, most in MOST.items()),
        ("warmup", -1),
        ("repeat", 0),
        ("number", 0),
        ("number", "1"),
        ("number", True),
    ],
)
def test_one_more_or_one_less_is_refused(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^{name}=.* is (out of range|not a whole number)"):
        Rounds(**{"warmup": 1, "repeat": 1, "number": 1, name: value})


# -- on the real agent, whose log has a letter a step: f is the function, < and > mask ---------

MASKS = {"BP_CFG_INTERRUPTS": 1, "BP_CFG_GUARD": 1}


def test_a_call_that_takes_long_is_sampled_less_only_if_that_is_allowed() -> None:
    board, _, line = connected()
    line.answer_s = 0.6
    notes: list[str] = []
    for may_shorten, samples, warmup in ((False, 8, 3), (True, 2, 1)):
        measured = board.measure(
            "work",
            metrics=["calls"],
            warmup=3,
            repeat=8,
            may_shorten=may_shorten,
            on_note=notes.append,
        )
        assert (len(measured.samples), measured.warmup) == (samples, warmup)
    measured = board.measure("work", metrics=["calls"], warmup=0, repeat=4, may_shorten=True)
    assert len(measured.samples) == 4, "there is no call to warm up that could be timed"
    assert notes == [
        "work on memory: a call takes 0.6 s of wall time, so the run takes 2 samples after 1 "
        "warm-up call, instead of 8 after 3; --repeat and --warmup override this"
    ]


def test_a_call_that_is_quick_is_sampled_as_often_as_asked_for() -> None:
    board, memory, _ = connected()
    memory.log  # noqa: B018 (forgets the start)
    measured = board.measure("work", metrics=["calls"], warmup=3, repeat=3, may_shorten=True)
    assert len(measured.samples) == 3
    assert memory.log.count("f") == 3 + 3 + 1


def test_the_first_call_is_measured_apart_and_is_one_call() -> None:
    board, memory, _ = connected()
    measured = board.measure("work", metrics=["calls"], warmup=1, repeat=2, number=3, cold=True)
    assert measured.cold is not None
    assert measured.cold.sample.readings["calls"].value == 1
    assert measured.cold.overhead == {"calls": 0}
    assert [each.readings["calls"].value for each in measured.samples] == [3, 3]
    assert memory.log.count("f") == 1 + 1 + 2 * 3 + 1


def test_with_interrupts_masked_a_first_sample_is_taken_unmasked() -> None:
    board, memory, _ = connected(MASKS)
    memory.log  # noqa: B018 (forgets the start)
    board.measure("work", metrics=["calls"], warmup=0, repeat=1, cold=True, mask_interrupts=True)
    # The first call, the one that is tried, the sample, and the call for the result.
    log = memory.log.replace("()", "")
    assert log[log.index("f") - 4 :] == "A(uAfac)aA(uAfac)aA(u<Afa>c)a(ufc)"


def test_a_window_that_is_too_long_to_be_masked_is_refused_before_it_is() -> None:
    board, memory, _ = connected(MASKS)
    memory.lib.test_ticks_step = 17  # of 8 kHz: 2,125 us
    with pytest.raises(UsageError, match=r"^A sample of work takes 2,125 us, but at most 2,048 "):
        board.measure("work", metrics=["ticks"], mask_interrupts=True)
    memory.lib.test_ticks_step = 16
    board.measure("work", metrics=["ticks"], mask_interrupts=True)


def test_a_window_may_be_as_long_as_the_board_says() -> None:
    readings = {"ticks": Reading(16, "ticks", hz=8000)}  # 2,000 us
    BoardInterrupts(masks_guard=False, timer_us=0, longest_us=2000).check_window("f", readings)
    with pytest.raises(UsageError, match=r"^A sample of f takes 2,000 us, but at most 1,999 us is"):
        BoardInterrupts(masks_guard=False, timer_us=0, longest_us=1999).check_window("f", readings)


def test_what_a_board_says_of_its_interrupts_is_shown() -> None:
    board, *_ = connected({**MASKS, "BP_CFG_INTERRUPTS": 2})
    # Collectors 2 and 3, cycles and ticks, leave hooked interrupts out.
    assert board.interrupts == BoardInterrupts(
        masks_guard=True, timer_us=1000, longest_us=2048, triggers=True, skips=0b1100, bound_ns=300
    )
    assert (
        "\n  interrupts  can be masked, the guard's timer with them; for at most 2,048 us; "
        "counts exclude hooked interrupts; a timer interrupts every 1,000 us\n"
    ) in info_text(board_info(board))
    board, *_ = connected()
    assert board.interrupts is None
    assert "\n  interrupts  cannot be masked\n" in info_text(board_info(board))


def test_an_agent_that_cannot_paint_its_stack_measures_all_the_same() -> None:
    board, memory, line = connected({**FULL, "TEST_POINTERS": 1, "BP_CFG_STACK": 65536})
    measured = board.measure("work", metrics=["calls"], warmup=0, repeat=1)
    assert isinstance(measured.stack, Stack)
    memory.lib.test_stack_limit = memory.ffi.NULL  # bp.stack is UNSUPPORTED then
    measured = board.measure("work", metrics=["calls"], warmup=0, repeat=1)
    assert measured.stack == "the agent is compiled without BP_CFG_STACK"

    refused = bytes(msgpack.packb([ErrorCode.NO_MEMORY, 0]))
    line.change = altered(
        lambda each: each._replace(body=refused) if each.kind == FrameKind.ERROR else each
    )
    with pytest.raises(RpcError) as caught:
        board.measure("work", metrics=["calls"], warmup=0, repeat=1)
    assert caught.value.code == ErrorCode.NO_MEMORY


def test_progress_goes_on_over_a_first_call_that_is_measured_apart() -> None:
    board, *_ = connected()
    seen: list[tuple[int, int]] = []
    board.measure(
        "work",
        metrics=["calls"],
        warmup=1,
        repeat=2,
        cold=True,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert {total for _, total in seen} == {1 + 9 + 1 + 2}
    assert seen[-1] == (13, 13)


def test_without_a_choice_there_are_ten_calls_to_warm_up_and_ten_samples_of_one() -> None:
    long = {**CHANNELS, "BP_CFG_MTU": 4096, "BP_CFG_BULK": 4096, "BP_CFG_ARENA": 32768}
    board, *_ = connected(long)  # all samples fit one reply
    report = board.profile("work", metrics=["calls"])
    shown = [report.configuration[name] for name in ("Warm-up", "Repeat", "Number")]
    assert shown == [Count(10), Count(10), Count(1)]
    assert board.calls == 10 + 10 + 1
    board.measure("work", metrics=["calls"])
    assert board.calls == 42


def test_a_sample_that_is_stopped_says_that_its_calls_share_one_limit() -> None:
    board, memory, _ = connected(MASKS)
    memory.lib.test_trap_cause = FaultCause.TIME_OUT
    memory.lib.test_trap_after = 1
    memory.lib.test_trap_at = b"f"
    with pytest.raises(DeviceTimeoutError) as caught:
        board.measure("work", metrics=["calls"], warmup=0, number=2)
    assert caught.value.hint == (
        "the 2 calls of a sample share one limit: lower number=, or give timeout_s=1"
    )


def test_a_measurement_that_was_stopped_has_made_calls_and_nobody_knows_how_many() -> None:
    board, memory, _ = connected(MASKS)
    board.measure("work", metrics=["calls"], warmup=1, repeat=2)
    calls = board.calls
    assert calls is not None
    assert board.calls_before == calls
    memory.lib.test_trap_cause = FaultCause.TIME_OUT
    memory.lib.test_trap_after = 1
    memory.lib.test_trap_at = b"f"
    with pytest.raises(DeviceTimeoutError):
        board.measure("work", metrics=["calls"], warmup=0)
    assert (board.calls, board.calls_before) == (calls + 1, None)


def test_what_masking_takes_away_is_noted_before() -> None:
    board, *_ = connected(MASKS)
    notes: list[str] = []
    for masks in (False, True):
        board.measure(
            "work",
            metrics=["calls"],
            warmup=1,
            repeat=1,
            mask_interrupts=masks,
            on_note=notes.append,
        )
    assert notes == [
        "work on memory: the timer that stops a hanging call is masked with the other interrupts. "
        "The first sample is taken unmasked; if a later call hangs, only a reset ends it"
    ]


def test_an_interrupt_is_triggered_only_where_the_hooks_of_others_are_counted() -> None:
    board, memory, _ = connected({"BP_CFG_INTERRUPTS": 2, "BP_CFG_GUARD": 1})
    memory.log  # noqa: B018 (forgets the start)
    measured = board.measure("work", metrics=["ticks"], warmup=1, repeat=1)
    assert "x" in memory.log
    assert measured.interrupts == Interrupts(False, 1000, 300, ())
    measured = board.measure("work", metrics=["calls", "ticks"], warmup=1, repeat=1)
    assert measured.interrupts == Interrupts(False, 1000, 300, ("calls",))
    board, memory, _ = connected(MASKS)
    memory.log  # noqa: B018 (forgets the start)
    measured = board.measure("work", metrics=["ticks"], warmup=1, repeat=1)
    assert "x" not in memory.log
    assert measured.interrupts == Interrupts(False, 1000, 0, ())


@pytest.mark.parametrize("said", [[1, 1000], [1, 1000, "2048"], 7])
def test_what_is_not_three_numbers_says_nothing_of_interrupts(said: object) -> None:
    board, _, line = connected(MASKS)
    body = bytes(msgpack.packb(said))
    line.change = altered(lambda each: each._replace(body=body))
    with pytest.raises(FrameError, match=r"^bp\.interrupts returned .*, not three numbers\."):
        board.measure("work", metrics=["calls"], mask_interrupts=True)


def test_arrays_that_are_sent_again_for_minutes_are_noted_before() -> None:
    class Noted(Exception):
        """Ends the measurement before it begins."""

    def on_note(text: str) -> None:
        raise Noted(text)

    def on_progress(done: int, total: int) -> None:
        raise AssertionError("the measurement has begun")

    board, *_ = connected({**FULL, "TEST_POINTERS": 1, "BP_CFG_STACK": 65536})
    y = np.zeros(750, np.int32)  # 3,000 bytes of 4,096
    with pytest.raises(Noted) as caught:
        board.measure(
            "scale",
            y,
            750,
            warmup=0,
            repeat=4_000_000_000,
            on_note=on_note,
            on_progress=on_progress,
        )
    found = re.fullmatch(
        r"scale on memory: its in/out arrays \(3,008 bytes\) are sent again before each of "
        r"4000000009 rounds, in about (\d+) min \d+ s: copies of .*\. To save time: .*",
        str(caught.value),
    )
    assert found is not None, str(caught.value)
    assert int(found[1]) > 60
