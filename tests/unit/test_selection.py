# SPDX-License-Identifier: Apache-2.0
"""Which collectors run for which metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.measure.sampling.available_metrics import Offer, unsupported_counters
from boardprof.measure.sampling.counted_pass import Selection
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading, Sample
from boardprof_protocol.codes import CounterStatus

KNOWN = {"cycles": "the emulator has no cycle model"}


def counter(name: str, status: CounterStatus = CounterStatus.OK, detail: int = 0) -> CounterInfo:
    return CounterInfo(name, "CNT", 64, 0, 0, False, status, detail)


CORE = CollectorInfo(0, "core", 1, 1, 0, (counter("cycles"), counter("instructions")))
CLOCK = CollectorInfo(1, "clock", 3, 1, 0, (counter("ticks"),))
FAULTS = CollectorInfo(2, "faults", 5, 1, 0, (counter("page-faults", CounterStatus.REFUSED, 13),))
ALL = (CORE, CLOCK, FAULTS)


def choose(
    metrics: str | Sequence[str] | None,
    collectors: tuple[CollectorInfo, ...] = ALL,
    *,
    clock_kind: str = "measured",
) -> Selection:
    reasons = unsupported_counters(collectors, KNOWN)
    offer = Offer("m0", collectors, (), reasons, {}, clock_kind)
    (only,) = offer.passes(metrics)
    return only.fixed


@pytest.mark.parametrize(
    ("status", "detail", "reason"),
    [
        (CounterStatus.ABSENT, 0, "this core has no CNT"),
        (CounterStatus.STUCK, 0, "CNT does not advance"),
        (CounterStatus.REFUSED, 13, "CNT was refused: Permission denied (errno 13)"),
    ],
)
def test_a_counter_that_cannot_be_trusted_has_a_reason(
    status: CounterStatus, detail: int, reason: str
) -> None:
    collector = CollectorInfo(0, "c", 1, 1, 0, (counter("a", status, detail), counter("b")))
    assert unsupported_counters([collector], {}) == {"a": reason}


def test_what_the_boards_file_says_is_the_reason_that_is_shown() -> None:
    assert unsupported_counters(ALL, KNOWN) == {
        "cycles": "the emulator has no cycle model",
        "page-faults": "CNT was refused: Permission denied (errno 13)",
    }


def test_without_a_choice_all_that_works_is_taken() -> None:
    chosen = choose(None)
    assert chosen.counters == {"instructions", "ticks"}
    assert [collector.name for collector in chosen.collectors] == ["core", "clock"]
    assert chosen.mask == 0b011


def test_only_the_collectors_of_what_is_named_run() -> None:
    assert (choose(["ticks"]).counters, choose(["ticks"]).mask) == ({"ticks"}, 0b010)
    assert choose(["instructions", "ticks", "ticks"]).mask == 0b011


def test_a_column_of_the_report_may_be_named_as_it_stands_there() -> None:
    assert choose(["Duration (us)"]).counters == {"ticks"}
    clock = CollectorInfo(0, "clock", 4, 1, 0, (counter("duration_time"), counter("task-clock")))
    for name, expected in (
        ("Duration (us)", "duration_time"),
        ("duration", "duration_time"),
        ("Duration", "duration_time"),
        ("DURATION (US)", "duration_time"),
        ("task-clock (us)", "task-clock"),
    ):
        assert choose([name], (clock,)).counters == {expected}


def test_an_unknown_metric_is_refused_with_the_nearest_and_the_list() -> None:
    with pytest.raises(UnknownNameError) as caught:
        choose(["instruction"])
    assert str(caught.value) == (
        "m0 has no metric 'instruction'; did you mean 'instructions'? "
        "Known: cycles, instructions, ticks, page-faults"
    )


def test_a_clock_that_a_board_does_not_have_is_answered_with_the_one_that_it_has() -> None:
    with pytest.raises(UsageError) as caught:
        choose(["duration_time"])
    assert str(caught.value) == ("m0 has no duration_time: its clock counts ticks.\nTry: ticks")


def test_an_unsupported_metric_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError) as caught:
        choose(["ticks", "cycles"])
    assert str(caught.value) == (
        "m0 does not support cycles: the emulator has no cycle model.\nTry: one of instructions, "
        "ticks"
    )


def test_no_metric_at_all_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"No metric is named\.\nTry: name one of instructions, ticks"
    ):
        choose([])


def test_a_board_without_a_counter_that_works_says_why() -> None:
    with pytest.raises(
        UsageError, match=r"m0 has no working counter: page-faults \(.*Permission denied"
    ):
        choose(None, (FAULTS,))


def test_a_sample_keeps_what_is_wanted_and_all_its_blobs() -> None:
    readings = {name: Reading(1, "count") for name in ("cycles", "instructions", "ticks")}
    kept = choose(["instructions"]).keep(Sample(readings, b"blobs"))
    assert (list(kept.readings), kept.raw) == (["instructions"], b"blobs")


def test_a_duration_of_a_simulated_clock_is_refused_and_nothing_is_put_in_its_place() -> None:
    with pytest.raises(UsageError, match="m0 does not support duration: its clock is simulated"):
        choose(["duration"], clock_kind="simulated")


def test_a_plain_text_is_one_name() -> None:
    assert choose("ticks").counters == {"ticks"}


@pytest.mark.parametrize("metrics", [[3], 3, ["ticks", None]])
def test_what_is_no_name_is_refused(metrics: Any) -> None:
    with pytest.raises(UsageError, match=r"^metrics=.* is not a list of metric names"):
        choose(metrics)
