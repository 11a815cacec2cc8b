# SPDX-License-Identifier: Apache-2.0
"""Exchanges of time stamps: narrow counters, what was sent again, answers that are none."""

from __future__ import annotations

from typing import cast

import pytest

from boardprof.base.errors import FrameError, UsageError
from boardprof.measure.sampling.board_link import ClockProbe
from boardprof.wire.decode.dictionary import Dictionary, FunctionInfo
from boardprof.wire.link.session import CallResult, Session

CLOCK = FunctionInfo(7, "bp.clock", "", measurable=False)


class Answers:
    """Gives the answers of a board, and the host's time, both as written down."""

    def __init__(self, *answers: tuple[float, object, int]) -> None:
        """Take (host's time, value, how often the request was sent) for each call."""
        self._answers = list(answers)
        self._now_s = 0.0

    def call(self, function_id: int, *, name: str) -> CallResult:
        assert (function_id, name) == (7, "bp.clock")
        self._now_s, value, sent = self._answers.pop(0)
        return CallResult(value, b"", 0.0, sent)

    def clock(self) -> float:
        return self._now_s


def probe(answers: Answers, *, kind: str = "declared", functions: int = 1) -> ClockProbe:
    offered = tuple([CLOCK] * functions)
    dictionary = Dictionary("m4", "0.1.0", 0, offered, ())
    return ClockProbe(cast("Session", answers), dictionary, kind, answers.clock)


def ticks(value: int) -> list[int]:
    """An answer of a counter of 16 bits at 1 kHz, read twice at once."""
    return [value, value, 1000, 16]


def test_a_counter_is_followed_over_its_wraps() -> None:
    answers = Answers((20.0, ticks(50_000), 1), (40.0, ticks(4_464), 1), (60.0, ticks(24_464), 1))
    asked = probe(answers)
    asked.ask(3)
    fit = asked.fit()
    assert fit is not None
    # Each exchange has lasted from the one before: gates of 20 s, around a clock of 1 kHz.
    assert abs(fit.to_host_s(50_000 + 20_000) - 40.0) <= fit.error_s
    assert fit.exchanges == 3


def test_two_exchanges_longer_apart_than_a_wrap_allow_no_fit() -> None:
    asked = probe(Answers((1.0, ticks(1000), 1), (67.0, ticks(1464), 1)))
    asked.ask(2)
    assert asked.fit() is None


@pytest.mark.parametrize(("last_s", "has_fit"), [(65.535, True), (65.536, False)])
def test_exchanges_just_a_wrap_apart_allow_no_fit(last_s: float, has_fit: bool) -> None:
    asked = probe(Answers((1.0, ticks(0), 1), (last_s, ticks(64_800), 1)))
    asked.ask(2)
    assert (asked.fit() is not None) is has_fit


def test_what_was_sent_again_does_not_count() -> None:
    answers = Answers((1.0, ticks(1000), 1), (2.0, ticks(1500), 2), (3.0, ticks(3000), 1))
    asked = probe(answers)
    asked.ask(3)
    fit = asked.fit()
    assert fit is not None
    assert fit.exchanges == 2


def test_one_exchange_allows_no_fit() -> None:
    asked = probe(Answers((1.0, ticks(1000), 1)))
    asked.ask(1)
    assert asked.fit() is None


@pytest.mark.parametrize("value", [None, [1, 2, 3], [1, 2, 3, "4"], [1, 2, True, 4]])
def test_an_answer_that_is_not_four_numbers_is_refused(value: object) -> None:
    with pytest.raises(FrameError, match="not four numbers"):
        probe(Answers((1.0, value, 1))).ask(1)


def test_a_simulated_clock_is_refused_by_name() -> None:
    asked = probe(Answers(), kind="simulated")
    assert not asked.offered
    with pytest.raises(UsageError, match="clock of m4 is simulated"):
        asked.ask(1)


def test_an_agent_without_a_clock_is_refused_by_name() -> None:
    asked = probe(Answers(), functions=0)
    assert not asked.offered
    with pytest.raises(UsageError, match=r"agent of m4 has no bp\.clock"):
        asked.ask(1)
