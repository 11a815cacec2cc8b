# SPDX-License-Identifier: Apache-2.0
"""The limit of guarded calls: what the host tells the board, and how long it waits itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceTimeoutError, UsageError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect, guard_calls
from boardprof.show.board_facts import info_text
from boardprof.target.descriptions.board import BoardSpec, ClockSpec, board_spec
from boardprof.target.descriptions.tables import GuardSpec
from boardprof.ui.cli.boards import board_info
from tests.cli.command import FIXTURES, agent
from tests.firmware import build

ENDLESS = FIXTURES / "endless.c"


def limited(board: Board) -> Board:
    """Limit calls to 0.3 s: at a port, `connect` would wait no longer for WELCOME."""
    guard_calls(board.session, board.dictionary, board.spec, 0.3)
    return board


def unguarded() -> BoardSpec:
    spec = board_spec("native")
    options = {**spec.build.config, "guard": 0}
    plain = dataclasses.replace(spec.build, config=options)
    return dataclasses.replace(spec, build=plain, guard=GuardSpec())


def test_the_host_waits_for_the_limit_in_wall_time_and_five_seconds_more() -> None:
    spec = board_spec("native")
    slow = dataclasses.replace(spec, clock=dataclasses.replace(spec.clock, time_scale=3.0))
    with connect(spec) as board:
        assert board.session.timeout_s == 10.0 + 5.0
    with connect(spec, timeout_s=2.5) as board:
        assert board.session.timeout_s == 2.5 + 5.0
    with connect(slow, timeout_s=2.5) as board:
        assert board.session.timeout_s == 7.5 + 5.0


@pytest.mark.parametrize(
    ("timeout_s", "wall_timeout_s", "waits_s"),
    [
        (None, None, 30.0),
        (0.5, None, 30.0),
        (10.0, None, 30.0),
        (11.0, None, 11 * 120 + 5.0),
        (None, 7.0, 7.0),
        (11.0, 7.0, 7.0),
        (0.5, 700.0, 700.0),
    ],
)
def test_an_emulated_board_is_waited_for_by_the_wall_30_s_unless_more_is_asked_for(
    timeout_s: float | None, wall_timeout_s: float | None, waits_s: float
) -> None:
    spec = dataclasses.replace(board_spec("native"), clock=ClockSpec("simulated", 120.0))
    with connect(spec, timeout_s=timeout_s, wall_timeout_s=wall_timeout_s) as board:
        assert board.session.timeout_s == waits_s


def test_a_limit_in_wall_time_ends_the_wait_for_a_real_board_only_if_it_is_shorter() -> None:
    with connect("native", wall_timeout_s=7.0) as board:
        assert board.session.timeout_s == 7.0
    with connect("native", wall_timeout_s=700.0) as board:
        assert board.session.timeout_s == 10.0 + 5.0


def test_a_board_without_guard_is_given_up_after_the_silence_that_was_asked_for() -> None:
    with connect(unguarded()) as board:
        assert board.session.timeout_s == 30.0
        facts = board_info(board)
        assert {fault["not_caught"] for fault in facts["faults"]} == {
            "its agent is compiled without BP_CFG_GUARD"
        }
    with connect(unguarded(), timeout_s=2.5) as board:
        assert board.session.timeout_s == 2.5
    with connect(unguarded(), timeout_s=2.5, wall_timeout_s=1.5) as board:
        assert board.session.timeout_s == 1.5


def test_an_agent_that_was_built_without_guard_is_not_said_to_have_one() -> None:
    """The description alone would say so: the agent at a port may be another build."""
    image = build(unguarded()).image
    with connect("native", image=image) as board:
        facts = board_info(board)
    assert facts["faults"][0] == {
        "cause": "bad-address",
        "not_caught": "its agent is compiled without BP_CFG_GUARD",
    }


@pytest.mark.parametrize(("asked_s", "limit_s"), [(0.0001, 0.001), (0.2, 0.2), (0.2504, 0.251)])
def test_the_limit_is_sent_in_whole_milliseconds_and_never_as_none(
    asked_s: float, limit_s: float
) -> None:
    image = build(board_spec("native"), [ENDLESS]).image
    with connect("native", image=image) as board:
        guard_calls(board.session, board.dictionary, board.spec, asked_s)
        with pytest.raises(DeviceTimeoutError) as caught:
            board.functions.b_endless()
    assert caught.value.limit_s == limit_s


def test_at_a_port_the_raw_pc_is_told_and_with_its_image_the_line() -> None:
    with agent("-b", "linux", ENDLESS) as port:
        with (
            limited(connect("linux", port)) as board,
            pytest.raises(
                DeviceTimeoutError, match=r"stopped it at pc 0x[0-9a-f]+\nTry: .*addr2line"
            ),
        ):
            board.functions.b_endless()
        image: Path = build(board_spec("linux"), [ENDLESS]).image
        with (
            limited(connect("linux", port, image=image)) as board,
            pytest.raises(
                DeviceTimeoutError, match=r"stopped it at endless\.c:1[345] \(in b_endless"
            ),
        ):
            board.functions.b_endless()


def test_a_limit_shorter_than_a_start_does_not_keep_a_board_from_starting() -> None:
    with connect("linux", timeout_s=0.001) as board:
        assert board.dictionary.board == "linux"


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), float("inf"), 1e7])
def test_a_time_out_that_is_none_is_a_mistake(timeout_s: float) -> None:
    with pytest.raises(
        UsageError,
        match=r"timeout_s=.* is out of range: it must be above 0 and at most 1,000,000\.",
    ):
        connect("native", timeout_s=timeout_s)
    with pytest.raises(
        UsageError, match=r"wall_timeout_s=.* is out of range: it must be above 0 and at most 1,000"
    ):
        connect("native", wall_timeout_s=timeout_s)


def test_info_tells_what_is_caught_and_why_the_rest_is_not() -> None:
    with connect("native") as board:
        facts = board_info(board)
    assert facts["time_scale"] == 1.0
    reasons = {fault["cause"]: fault["not_caught"] for fault in facts["faults"]}
    assert reasons["bad-address"] is None
    assert reasons["misaligned"] == "this machine's CPU takes misaligned addresses"
    text = info_text(facts)
    assert "\n  bad-address          yes\n" in text
    assert "\n  misaligned           no: this machine's CPU takes misaligned addresses\n" in text
