# SPDX-License-Identifier: Apache-2.0
"""Without any one of the session's rules, the simulation of the real code fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boardprof.base.errors import DeviceResetError
from boardprof.wire.link.session import CallResult, Session
from tests.simulation.agent import Agent, Patch, build_agent
from tests.simulation.play import Player

SCHEDULES = 20_000
"""Within these, each must be found; the whole simulation has five times as many."""

AGENT = "bp_agent.c"

NO_REPLY_CACHE = (
    # A duplicate is executed again.
    Patch(AGENT, "    } else if (ahead != 0) {\n", "    } else if (true) {\n"),
)

NO_SESSION_CHECK = (
    Patch(
        AGENT,
        "(session != bp_agent.session || session == 0 || ahead >> 16 != 0)",
        "(session == 0)",
    ),
)

FIXED_SEQUENCE = (
    # Each session begins at 0, so that one that a late HELLO begins again is like the first.
    Patch(
        AGENT,
        "bp_agent.last_sequence += bp_agent.boot_id << 16;",
        "bp_agent.last_sequence = 0;",
    ),
)


class HeedlessSession(Session):
    """Begins again when the board has lost the session, and calls again as if nothing had been."""

    def call(self, *arguments: Any, **options: Any) -> CallResult:
        try:
            return super().call(*arguments, **options)
        except DeviceResetError:
            self.open()
            return super().call(*arguments, **options)


def runs_too_often(player: Player) -> str:
    """Play until something runs more often than it was asked for; return what."""
    for seed in range(SCHEDULES):
        violation = player.play(seed).violation
        if "times, at most" in violation:
            return violation
    return ""


@pytest.fixture
def violation_of(tmp_path: Path) -> Callable[[tuple[Patch, ...], type[Session]], str]:
    def violation(patches: tuple[Patch, ...], session: type[Session]) -> str:
        return runs_too_often(Player(Agent(build_agent(tmp_path, patches)), session))

    return violation


ViolationOf = Callable[[tuple[Patch, ...], type[Session]], str]


@pytest.mark.parametrize(
    "patches",
    [
        pytest.param(NO_REPLY_CACHE, id="no reply cache"),
        pytest.param(NO_SESSION_CHECK, id="no session check"),
        pytest.param(FIXED_SEQUENCE, id="sequence numbers from 0 again"),
    ],
)
def test_an_agent_without_a_rule_is_found_out(
    violation_of: ViolationOf, patches: tuple[Patch, ...]
) -> None:
    assert violation_of(patches, Session) != ""


def test_a_host_without_the_reset_check_is_found_out(violation_of: ViolationOf) -> None:
    assert violation_of((), HeedlessSession) != ""


def test_a_patch_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="has not just one"):
        build_agent(tmp_path, [Patch(AGENT, "no such line", "")])
