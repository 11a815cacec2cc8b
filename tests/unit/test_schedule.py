# SPDX-License-Identifier: Apache-2.0
"""Schedules: torch's vectors, the rule against another way to say it, and what is refused."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardprof.base.errors import UsageError
from boardprof.compat.torch.settings import ProfilerAction, Schedule, always, schedule

LETTERS = {
    ProfilerAction.NONE: "N",
    ProfilerAction.WARMUP: "W",
    ProfilerAction.RECORD: "R",
    ProfilerAction.RECORD_AND_SAVE: "S",
}


def letters(chosen: Schedule, steps: int) -> str:
    return "".join(LETTERS[chosen(step)] for step in range(steps))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (schedule(wait=1, warmup=1, active=2, repeat=1), "NWRSNN"),
        (schedule(wait=2, warmup=1, active=1, repeat=2, skip_first=1), "NNNWSNNWSNN"),
        (
            schedule(wait=2, warmup=1, active=1, repeat=2, skip_first=1, skip_first_wait=1),
            "NWSNNWSNNNN",
        ),
        (schedule(wait=0, warmup=1, active=1), "WSWSWS"),
    ],
)
def test_a_schedule_gives_torchs_actions(chosen: Schedule, expected: str) -> None:
    assert letters(chosen, len(expected)) == expected


def test_without_warmup_all_steps_of_a_cycle_are_recorded_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="warmup=0.*skew"):
        chosen = schedule(wait=0, warmup=0, active=3)
    assert letters(chosen, 7) == "RRSRRSR"


def test_the_actions_have_torchs_numbers() -> None:
    assert [(each.name, each.value) for each in ProfilerAction] == [
        ("NONE", 0),
        ("WARMUP", 1),
        ("RECORD", 2),
        ("RECORD_AND_SAVE", 3),
    ]


def test_without_a_schedule_each_step_is_recorded() -> None:
    assert letters(always, 4) == "RRRR"


small = st.integers(0, 6)


@given(
    wait=small,
    warmup=small,
    active=st.integers(1, 6),
    repeat=st.integers(0, 3),
    skip_first=small,
    skips_wait=st.booleans(),
)
def test_a_schedule_is_what_its_cycles_spell(
    wait: int, warmup: int, active: int, repeat: int, skip_first: int, skips_wait: bool
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = schedule(
            wait=wait,
            warmup=warmup,
            active=active,
            repeat=repeat,
            skip_first=skip_first,
            skip_first_wait=int(skips_wait),
        )
    steps = 60
    cycle = "N" * wait + "W" * warmup + "R" * (active - 1) + "S"
    cycles = cycle * (repeat or steps)
    spelt = "N" * skip_first + (cycles[wait:] if skips_wait else cycles) + "N" * steps
    assert letters(chosen, steps) == spelt[:steps]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"wait": -1}, "wait=-1 is not a whole number of 0 or more"),
        ({"warmup": -2}, "warmup=-2 is not a whole number of 0 or more"),
        ({"active": 0}, "active=0 is not a whole number of 1 or more"),
        ({"repeat": -1}, "repeat=-1 is not a whole number of 0 or more"),
        ({"skip_first": 1.5}, "skip_first=1.5 is not a whole number of 0 or more"),
        ({"active": True}, "active=True is not a whole number of 1 or more"),
        ({"skip_first_wait": "yes"}, "skip_first_wait='yes' is not a whole number of 0 or more"),
        ({"skip_first_wait": -1}, "skip_first_wait=-1 is not a whole number of 0 or more"),
    ],
)
def test_numbers_out_of_range_are_refused(numbers: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        schedule(**{"wait": 1, "warmup": 1, "active": 1, **numbers})


def test_there_is_no_step_before_the_first() -> None:
    with pytest.raises(UsageError, match="step=-1"):
        schedule(wait=1, warmup=1, active=1)(-1)
