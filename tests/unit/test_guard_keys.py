# SPDX-License-Identifier: Apache-2.0
"""``[guard]`` and ``time_scale`` of board.toml."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.target.descriptions.board import load_board
from boardprof.target.descriptions.tables import CAUSES, GuardSpec
from tests.unit.test_boards import SMALLEST, folder_of

GUARD = """\
[guard]
catches = ["time-out", "bad-address", "illegal-instruction", "stack-overflow", "breakpoint"]
[guard.not]
misaligned = "the CPU takes them"
divide = "the CPU does not trap"
abort = "no libc"
"""
GUARDED = SMALLEST.replace("[launch]", "config = { guard = 1 }\n[launch]") + GUARD


def refused(tmp_path: Path, text: str) -> str:
    folder = folder_of(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_board(folder)
    message = str(caught.value)
    place = re.match(rf"{re.escape(str(folder / 'board.toml'))}:\d+: ", message)
    assert place is not None, message
    return message[place.end() :]


def test_the_causes_are_those_of_the_protocol_in_its_order() -> None:
    assert CAUSES == (
        "bad-address",
        "misaligned",
        "illegal-instruction",
        "divide",
        "stack-overflow",
        "breakpoint",
        "abort",
        "time-out",
    )


def test_what_a_board_catches_is_read_with_the_reasons_for_the_rest(tmp_path: Path) -> None:
    guard = load_board(folder_of(tmp_path, GUARDED)).guard
    assert guard.catches == (
        "bad-address",
        "illegal-instruction",
        "stack-overflow",
        "breakpoint",
        "time-out",
    )
    assert guard.missing == {
        "misaligned": "the CPU takes them",
        "divide": "the CPU does not trap",
        "abort": "no libc",
    }
    assert guard.facts()[:2] == [
        {"cause": "bad-address", "not_caught": None},
        {"cause": "misaligned", "not_caught": "the CPU takes them"},
    ]


def test_a_board_that_does_not_guard_catches_nothing_and_says_why(tmp_path: Path) -> None:
    guard = load_board(folder_of(tmp_path, SMALLEST)).guard
    assert guard == GuardSpec()
    assert guard.catches == ()
    assert guard.facts() == [
        {"cause": cause, "not_caught": "its agent is compiled without BP_CFG_GUARD"}
        for cause in CAUSES
    ]


def test_a_cause_that_is_told_nowhere_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, GUARDED.replace('abort = "no libc"\n', ""))
    assert message == (
        '[guard] catches: "abort" is missing: give it here, or with a reason in [guard.not].'
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [('"breakpoint"]', '"breakpoint", "abort"]'), ('"breakpoint"]', '"breakpoint", "breakpoint"]')],
)
def test_a_cause_that_is_told_twice_is_refused(tmp_path: Path, old: str, new: str) -> None:
    assert "is given twice: give it here, or" in refused(tmp_path, GUARDED.replace(old, new))


def test_a_cause_that_is_none_is_refused_with_those_that_are(tmp_path: Path) -> None:
    message = refused(tmp_path, GUARDED.replace('"breakpoint"]', '"break-point"]'))
    assert message.startswith('[guard] catches: "break-point" is not a cause; known: bad-address, ')
    message = refused(tmp_path / "2", GUARDED.replace("divide =", "divison ="))
    assert message.startswith("[guard.not] divison: unknown key; did you mean 'divide'?")


def test_a_reason_is_a_text(tmp_path: Path) -> None:
    message = refused(tmp_path, GUARDED.replace('"no libc"', "true"))
    assert message == "[guard.not] abort: must be a string, not true or false (True)."


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, GUARDED.replace("catches =", "faults = []\ncatches ="))
    assert message.startswith("[guard] faults: unknown key;")


def test_the_table_and_the_agents_option_go_together(tmp_path: Path) -> None:
    assert refused(tmp_path / "1", SMALLEST + GUARD) == (
        "[guard] catches: nothing is caught without guard = 1 in build.config."
    )
    assert refused(tmp_path / "2", GUARDED.removesuffix(GUARD)) == (
        "[build] config: guard = 1 needs a table [guard] that lists what it catches."
    )


def test_a_second_of_the_boards_clock_is_one_of_the_walls_unless_told(tmp_path: Path) -> None:
    assert load_board(folder_of(tmp_path / "1", SMALLEST)).clock.time_scale == 1.0
    for number, text in enumerate(("3.2", "4"), 2):
        slow = SMALLEST + f"time_scale = {text}\n"
        assert load_board(folder_of(tmp_path / str(number), slow)).clock.time_scale == float(text)


@pytest.mark.parametrize(
    ("value", "shown"),
    [("0", "0"), ("-1.5", "-1.5"), ("inf", "inf"), ("nan", "nan"), ("true", "True")],
)
def test_a_time_scale_that_is_no_number_above_0_is_refused(
    tmp_path: Path, value: str, shown: str
) -> None:
    assert refused(tmp_path, SMALLEST + f"time_scale = {value}\n") == (
        f"[clock] time_scale: must be a number above 0, not {shown}."
    )
