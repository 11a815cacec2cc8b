# SPDX-License-Identifier: Apache-2.0
"""Words of trace records become events, and events become passes of ranges (SPEC.md 5.12).

The names are ``loop`` (a range, 16 and 17), ``go`` (a mark, 18), ``level`` (a u32, 19), ``timer``
(an interrupt, 20 and 21) and ``inner`` (a range, 22 and 23).
"""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from boardprof.base.errors import DecodeError, ReportFileError, UsageError
from boardprof.base.metrics import Count, Duration, Percent, Ratio
from boardprof.measure.probe_recorder import image_names
from boardprof.results.comparison.compare import compare
from boardprof.results.probes import timeline
from boardprof.results.probes.events import (
    Events,
    ProbeName,
    ProbeNames,
    count_records,
    decode_words,
    kept_blocks,
    read_names,
)
from boardprof.results.probes.figures import (
    Interval,
    Intervals,
    RangeShare,
    report_of,
    report_of_file,
)
from boardprof.results.probes.run import (
    ProbeRun,
    RunFacts,
    Slot,
    Task,
    TraceClock,
    read_run,
    write_run,
)
from boardprof.results.probes.timeline import UNKNOWN_TASK, Diagnostics, ProbeCosts, Timeline
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import is_probe_run
from boardprof.results.stats.warnings import warnings
from boardprof.show.answer import answer_page
from boardprof.show.layout import plain
from boardprof.show.markdown import render_markdown
from boardprof.show.probe_tables import interval_page, probe_run_page
from boardprof_protocol.codes import ProbeKind
from tests.unit.objects import compiled

SECTION = b"\x01loop\0\x03go\0\x04level\0\x02timer\0\x01inner\0"
NAMES = read_names(SECTION)
LOOP, GO, LEVEL, TIMER, INNER = 16, 18, 19, 20, 22
EXIT, ENTER, TASK, WIDE, VALUE, DROPPED, LONG, WRAPPED = 0, 1, 2, 8, 9, 10, 11, 12
HIGH = 14


def words(*records: tuple[int, ...]) -> npt.NDArray[np.uint32]:
    """The words of (delta, id) and (delta, id, value)."""
    found = []
    for delta, id_, *value in records:
        found += [delta << 8 | id_, *value]
    return np.array(found, np.uint32)


def events(*records: tuple[int, ...]) -> list[tuple[int, int, int]]:
    found = decode_words(words(*records), NAMES)
    return list(zip(found.time.tolist(), found.number.tolist(), found.value.tolist(), strict=True))


def line(*records: tuple[int, ...], costs: ProbeCosts | None = None) -> Timeline:
    return Timeline(decode_words(words(*records), NAMES), NAMES, costs or ProbeCosts())


def passes(found: Timeline) -> list[tuple[int, int, int, int]]:
    """Number, begin, end and net ticks of each pass of a range."""
    ranges = found.ranges
    columns = (ranges.number, ranges.begin, ranges.end, ranges.net)
    return list(zip(*(column.tolist() for column in columns), strict=True))


# -- names ---------------------------------------------------------------------------------------


def test_the_section_gives_each_name_its_numbers() -> None:
    assert NAMES.names == (
        ProbeName(16, ProbeKind.RANGE, "loop"),
        ProbeName(18, ProbeKind.MARK, "go"),
        ProbeName(19, ProbeKind.U32, "level"),
        ProbeName(20, ProbeKind.INTERRUPT, "timer"),
        ProbeName(22, ProbeKind.RANGE, "inner"),
    )
    assert NAMES.end == 24
    assert NAMES.section() == SECTION


@pytest.mark.parametrize("section", [b"\x01loop", b"\x09loop\0", b"\x01"])
def test_a_damaged_section_is_refused(section: bytes) -> None:
    with pytest.raises(DecodeError, match="bp_trace_names has no name of a probe at byte 0"):
        read_names(section)


def test_an_image_has_as_many_names_as_one_instruction_can_load(tmp_path: Path) -> None:
    # RISC-V's `li` has 12 bits with a sign: up to 2047. Numbers begin with 16.
    for marks in (2032, 2033):
        section = r"\3m\0" * marks
        place = '__attribute__((section("bp_trace_names")))'
        image = compiled(tmp_path, f'const char names[] {place} = "{section[:-2]}";')
        if marks == 2032:
            assert len(image_names(image, 0, "bench").names) == 2032
        else:
            with pytest.raises(UsageError, match="names of probes up to number 2,048, and a probe"):
                image_names(image, 0, "bench")


def test_names_are_utf8_and_another_encoding_is_named() -> None:
    assert read_names(b"\x01l\xc3\xb6\xc3\xb6p\0").by_number[16].text == "lööp"
    with pytest.raises(DecodeError, match="is not UTF-8") as caught:
        read_names(b"\x01l\xf6\xf6p\0")
    assert "save the source file as UTF-8" in str(caught.value)


# -- records -------------------------------------------------------------------------------------


def test_deltas_add_up_to_times() -> None:
    assert events((5, LOOP), (10, LEVEL, 77), (3, GO), (0, LOOP + 1)) == [
        (5, 16, 0),
        (15, 19, 77),
        (18, 18, 0),
        (18, 17, 0),
    ]


def test_a_value_that_looks_like_a_record_is_none() -> None:
    assert events((1, LEVEL, 7 << 8 | LEVEL), (2, LEVEL, 9 << 8 | GO), (3, GO)) == [
        (1, 19, 7 << 8 | 19),
        (3, 19, 9 << 8 | 18),
        (6, 18, 0),
    ]


def test_a_long_delta_has_its_high_bits_before_it() -> None:
    assert events((1, GO), (0x234567, LONG, 0x01), (0, GO)) == [
        (1, 18, 0),
        (1 + 0x1234567, 18, 0),
    ]


def test_what_it_took_to_find_room_belongs_to_the_event_after_it() -> None:
    found = decode_words(words((1, GO), (7, LONG, 40 << 8), (0, GO), (2, GO)), NAMES)
    assert found.time.tolist() == [1, 8, 10]
    assert found.late.tolist() == [False, True, False]
    assert found.took.tolist() == [0, 40, 0]


def test_a_wide_number_has_its_value_after_it() -> None:
    many = [ProbeName(16 + n, ProbeKind.MARK, f"m{n}") for n in range(300)]
    names = ProbeNames([*many, ProbeName(316, ProbeKind.U32, "wide")])
    found = decode_words(
        words((4, WIDE, 316), (0, VALUE, 99), (5, WIDE, 315), (6, 255), (7, WIDE, 314)), names
    )
    assert found.number.tolist() == [316, 315, 255, 314]
    assert found.time.tolist() == [4, 9, 15, 22]
    assert found.value.tolist() == [99, 0, 0, 0]


def test_a_record_that_is_cut_off_is_left_out() -> None:
    assert decode_words(words((1, GO), (2, LEVEL)), NAMES).number.tolist() == [18]
    assert len(decode_words(words((2, LEVEL)), NAMES)) == 0
    assert len(decode_words(np.zeros(0, np.uint32), NAMES)) == 0


def test_a_number_without_a_name_is_refused() -> None:
    with pytest.raises(DecodeError, match="the number 24, and the image has names up to 23"):
        events((1, GO), (1, 24))


def one_by_one(content: list[int]) -> list[tuple[int, int, int]]:
    """What SPEC.md says, word by word."""
    found, now, at = [], 0, 0
    while at < len(content):
        id_, delta = content[at] & 255, content[at] >> 8
        has_value = id_ in (LEVEL, ENTER, TASK, DROPPED, LONG)
        value = content[at + 1] if has_value else 0
        at += 2 if has_value else 1
        if id_ == LONG:
            now += delta + ((value & 255) << 24)
            continue
        now += delta
        found.append((now, id_, value))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_many_records_decode_as_one_by_one(seed: int) -> None:
    """So many that they are decoded in several pieces, and end anywhere in them."""
    chance = random.Random(seed)
    content: list[int] = []
    while len(content) < 200_000:
        id_ = chance.choice([LOOP, LOOP + 1, GO, LEVEL, LEVEL, ENTER, EXIT, TASK, LONG])
        content.append(chance.getrandbits(24) << 8 | id_)
        if id_ in (LEVEL, ENTER, TASK, LONG):
            content.append(chance.getrandbits(32))
    content += [GO]
    found = decode_words(np.array(content, np.uint32), NAMES)
    columns = (found.time, found.number, found.value)
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == one_by_one(content)


# -- a ring that was overwritten -----------------------------------------------------------------


def kept(ring: Sequence[tuple[int, ...]], at: int, written: int) -> Events:
    content = np.array([w for d, i, v in ring for w in (d << 8 | i, v)], np.uint32)
    found = ProbeRun(
        RunFacts("b"), TraceClock("ticks", "t", 0), NAMES, ProbeCosts(),
        kept_blocks(0, content, at, written, 0, NAMES),
    )  # fmt: skip
    return found.timelines()[0].events


def test_the_oldest_record_of_a_ring_comes_first_and_has_time_0() -> None:
    ring = [(6, GO, 0), (7, LEVEL, 5), (3, LOOP, 0), (4, GO, 0)]
    found = kept(ring, at=4, written=100)
    assert found.number.tolist() == [LOOP, GO, GO, LEVEL]
    assert found.time.tolist() == [0, 4, 10, 17]
    assert found.value.tolist() == [0, 0, 0, 5]


def test_a_ring_that_was_not_filled_has_what_was_written() -> None:
    ring = [(6, GO, 0), (7, LEVEL, 5), (0, 0, 0), (0, 0, 0)]
    assert kept(ring, at=4, written=4).number.tolist() == [GO, LEVEL]


def test_the_value_of_a_wide_number_that_was_overwritten_is_left_out() -> None:
    ring = [(6, GO, 0), (0, VALUE, 9), (7, LEVEL, 5), (0, GO, 0)]
    assert kept(ring, at=2, written=64).number.tolist() == [LEVEL, GO, GO]


def test_an_address_whose_upper_half_may_be_overwritten_is_left_out() -> None:
    ring = [(6, GO, 0), (0, TASK, 9), (7, HIGH, 1), (0, TASK, 9)]
    found = kept(ring, at=2, written=64)
    assert found.number.tolist() == [HIGH, TASK, GO]
    assert found.whole(np.array([1])).tolist() == [0x1_0000_0009]


# -- ranges --------------------------------------------------------------------------------------


def test_ranges_nest() -> None:
    found = line((1, LOOP), (2, INNER), (4, INNER + 1), (8, LOOP + 1), (1, LOOP), (1, LOOP + 1))
    assert passes(found) == [(16, 1, 15, 14), (22, 3, 7, 4), (16, 16, 17, 1)]
    assert found.diagnostics == Diagnostics()


def test_a_recursion_pairs_each_end_with_the_last_begin() -> None:
    found = line((1, LOOP), (1, LOOP), (1, LOOP), (1, LOOP + 1), (1, LOOP + 1), (1, LOOP + 1))
    assert passes(found) == [(16, 1, 6, 5), (16, 2, 5, 3), (16, 3, 4, 1)]


def test_ranges_that_overlap_are_both_there() -> None:
    found = line((1, LOOP), (1, INNER), (1, LOOP + 1), (1, INNER + 1))
    assert passes(found) == [(16, 1, 3, 2), (22, 2, 4, 2)]


def test_ends_and_begins_without_a_partner_are_counted_and_harm_no_other() -> None:
    found = line((1, LOOP + 1), (1, INNER), (1, LOOP), (1, LOOP + 1), (1, LOOP + 1), (1, LOOP))
    assert passes(found) == [(16, 3, 4, 1)]
    assert found.diagnostics == Diagnostics(
        without_begin={"loop": 2}, without_end={"loop": 1, "inner": 1}
    )


def test_a_pass_across_dropped_events_is_left_out() -> None:
    found = line((1, LOOP), (5, DROPPED, 3), (1, LOOP + 1), (1, LOOP), (1, LOOP + 1))
    assert passes(found) == [(16, 8, 9, 1)]
    assert found.diagnostics == Diagnostics(
        dropped=3, gaps=1, without_begin={"loop": 1}, without_end={"loop": 1}
    )


def test_what_probes_take_is_left_out() -> None:
    costs = ProbeCosts(empty=10, mark=7, value=9, late=3)
    found = line((0, LOOP), (50, GO), (50, LEVEL, 1), (50, LOOP + 1), costs=costs)
    assert passes(found) == [(16, 0, 150, 150 - 10 - 7 - 9)]
    late = line((0, LOOP), (50, LONG, 40 << 8), (0, GO), (50, LOOP + 1), costs=costs)
    assert passes(late) == [(16, 0, 100, 100 - 10 - 7 - 43)]
    begins_late = line((0, LONG, 20 << 8), (0, LOOP), (50, LOOP + 1), costs=costs)
    assert passes(begins_late) == [(16, 0, 50, 50 - 10 - 23)]


# -- interrupts and tasks ------------------------------------------------------------------------


def test_an_interrupt_is_left_out_of_the_range_and_known_by_its_name() -> None:
    found = line(
        (0, LOOP), (10, TIMER), (5, GO), (5, TIMER + 1), (10, LOOP + 1),
        costs=ProbeCosts(mark=2, interrupt=3),
    )  # fmt: skip
    assert passes(found) == [(16, 0, 30, 20 - 3)]
    assert found.ranges.interrupts.tolist() == [1]
    came = found.interrupts
    assert (came.number.tolist(), came.begin.tolist(), came.own.tolist()) == ([20], [10], [10])
    assert found.interrupt_ticks() == 10


def test_nested_interrupts_and_a_range_in_one() -> None:
    found = line(
        (0, LOOP), (1, TIMER), (2, INNER), (4, ENTER, 7), (8, EXIT), (16, INNER + 1),
        (32, TIMER + 1), (64, LOOP + 1),
    )  # fmt: skip
    assert passes(found) == [(16, 0, 127, 65), (22, 3, 31, 20)]
    assert found.ranges.level.tolist() == [0, 1]
    came = found.interrupts
    assert came.number.tolist() == [20, 7]
    assert came.named.tolist() == [True, False]
    assert came.own.tolist() == [2 + 4 + 16 + 32, 8]


def test_a_recording_that_begins_in_an_interrupt() -> None:
    found = line((5, TIMER + 1), (1, LOOP), (2, LOOP + 1))
    assert passes(found) == [(16, 6, 8, 2)]
    assert found.diagnostics.without_begin == {"interrupts": 1}


def test_the_time_of_other_tasks_is_left_out_and_tasks_may_be_in_one_range() -> None:
    found = line(
        (0, TASK, 0xA0), (1, LOOP), (2, TASK, 0xB0), (4, LOOP), (8, TASK, 0xA0), (16, LOOP + 1),
        (32, TASK, 0xB0), (64, LOOP + 1), (0, TASK, 0),
    )  # fmt: skip
    assert passes(found) == [(16, 1, 31, 2 + 16), (16, 7, 127, 8 + 64)]
    assert found.ranges.task.tolist() == [0xA0, 0xB0]
    assert found.task_ticks() == {0xA0: 3 + 16 + 32, 0xB0: 4 + 8 + 64, 0: 0}


def test_the_tasks_and_interrupts_add_up_to_the_time() -> None:
    chance = random.Random(5)
    records, depth = [], 0
    for _ in range(5000):
        id_ = chance.choice([TASK, TIMER, TIMER + 1, LOOP, LOOP + 1, GO, DROPPED])
        if id_ == TIMER + 1 and depth == 0:
            continue
        depth = 0 if id_ == DROPPED else depth + (id_ == TIMER) - (id_ == TIMER + 1)
        value = (chance.choice([0, 0xA0, 0xB0]),) if id_ in (TASK, DROPPED) else ()
        records.append((chance.randrange(100), id_, *value))
    found = line(*records)
    assert sum(found.task_ticks().values()) + found.interrupt_ticks() == found.end


def test_which_task_runs_is_not_known_after_dropped_events() -> None:
    found = line((1, TASK, 0xA0), (2, DROPPED, 1), (4, GO), (8, TASK, 0xB0), (16, GO))
    assert found.task_ticks() == {UNKNOWN_TASK: 1 + 4 + 8, 0xA0: 2, 0xB0: 16}


def test_nothing_is_known_after_the_last_event_if_events_were_dropped_there() -> None:
    found = Timeline(
        decode_words(words((1, TASK, 0xA0), (2, LOOP), (4, TIMER)), NAMES),
        NAMES, ProbeCosts(), end=1000, dropped=5,
    )  # fmt: skip
    assert found.task_ticks() == {UNKNOWN_TASK: 1 + 993, 0xA0: 2 + 4}
    assert found.interrupt_ticks() == 0
    assert (found.diagnostics.dropped, found.diagnostics.gaps) == (5, 1)
    nothing_came = Timeline(decode_words(words(), NAMES), NAMES, ProbeCosts(), end=9, dropped=5)
    assert nothing_came.task_ticks() == {UNKNOWN_TASK: 9}


# -- recordings ----------------------------------------------------------------------------------


def block(
    core: int,
    sequence: int,
    last: int,
    *records: tuple[int, ...],
    flags: int = 1,
    dropped: int = 0,
    now: int | None = None,
) -> bytes:
    content = words(*records)
    header = b"".join(
        number.to_bytes(size, "little")
        for number, size in (
            (core, 1), (flags, 1), (len(content), 2), (sequence, 4), (dropped, 4),
            (last, 4), (last + 2 if now is None else now, 4), (0, 8),
        )
    )  # fmt: skip
    return header + content.astype("<u4").tobytes()


def recording(content: bytes, **others: object) -> ProbeRun:
    facts = RunFacts("board", clock_kind="declared", build_id="00" * 8)
    made = ProbeRun(facts, TraceClock("ticks", "T", 1000), NAMES, ProbeCosts(), content)
    return replace(made, **others)  # type: ignore[arg-type]


TWO_CORES = (
    block(0, 0, 1015, (5, LOOP), (10, LOOP + 1))
    + block(1, 0, 77, (7, LOOP))
    + block(0, 2, 1016, (1, GO))
    + block(1, 1, 80, (3, LOOP + 1))
)


def test_the_blocks_of_each_core_are_put_together() -> None:
    found = recording(TWO_CORES).timelines()
    assert [passes(each) for each in found.values()] == [[(16, 5, 15, 10)], [(16, 7, 10, 3)]]
    assert [each.end for each in found.values()] == [18, 12]


def test_recording_ends_when_it_was_stopped_not_when_the_last_block_was_made() -> None:
    """That may be seconds later, in which no event could be recorded."""
    first = block(0, 0, 1015, (5, LOOP), (10, LOOP + 1))
    last = bytearray(block(0, 2, 1015, flags=3))
    struct.pack_into("<I", last, 16, 9015)  # its clock: 8000 after the last event
    found = recording(first + last)
    for stopped, end in ((None, 8015), (1015, 15), (1100, 100), (9015, 8015), (1000, 15)):
        [line] = replace(found, stopped=stopped).timelines().values()
        assert (passes(line), line.end) == ([(16, 5, 15, 10)], end)


def test_records_are_counted_without_their_values() -> None:
    content = words((5, LOOP), (1, LEVEL, LOOP), (2, LEVEL, LEVEL), (10, LOOP + 1), (3, LONG, 7))
    assert (len(content), count_records(content, NAMES)) == (8, 5)
    assert count_records(content[:0], NAMES) == 0


def test_a_block_that_is_missing_is_an_error() -> None:
    content = block(0, 0, 1015, (5, LOOP), (10, LOOP + 1)) + block(0, 4, 1016, (1, GO))
    with pytest.raises(DecodeError, match="a block begins with word 4, and 2 words came before"):
        recording(content).timelines()


def test_events_that_contradict_the_clock_are_an_error() -> None:
    content = block(0, 0, 1015, (5, GO)) + block(0, 1, 1018, (2, GO))
    with pytest.raises(DecodeError, match="core 0 contradict the board's clock after 2 words"):
        recording(content).timelines()


def test_the_clock_may_wrap() -> None:
    content = block(0, 0, 2**32 - 5, (5, GO)) + block(0, 1, 3, (8, GO))
    assert recording(content).timelines()[0].end == 15


W = 2**32
RATE = TraceClock("cycles", "CYCCNT", 0, per_tick=1000)
"""Its 32 bits wrap after 4,294,967 ticks of the port."""


def timed(
    sequence: int,
    last: int,
    now: int,
    *records: tuple[int, ...],
    ticks: int = 0,
    is_whole: bool = True,
) -> bytes:
    """A block, with the clock's low 32 bits and the port's ticks when it was made."""
    content = words(*records)
    clock = (last % W, now % W, ticks or now // 1000)
    head = struct.pack("<BBHIIIIQ", 0, is_whole, len(content), sequence, 0, *clock)
    return head + content.astype("<u4").tobytes()


def later(delta: int, number: int) -> list[tuple[int, ...]]:
    """The records of an event that comes long after the one before."""
    return [(delta % 2**24, LONG, delta % W >> 24), (0, number)]


def test_the_clock_may_wrap_between_two_events_if_blocks_come_meanwhile() -> None:
    """2.5 times 2^32 pass within a range; its records only say a half."""
    half, step = W // 2, W // 8
    idle = b"".join(timed(1, 5, step * i) for i in range(1, 20))
    end = 5 + 5 * half
    content = timed(0, 5, 5, (5, LOOP)) + idle
    content += timed(1, end + 4, end + 9, *later(half, LOOP + 1), (4, GO))
    found = recording(content, clock=RATE).timelines()[0]
    assert passes(found) == [(16, 5, end, 5 * half)]
    assert found.end == end + 9
    assert found.diagnostics == Diagnostics()


def test_the_clock_may_wrap_while_a_large_ring_is_read() -> None:
    """The ring had all events at the first block; reading it takes 2.5 times 2^32."""
    half, step = W // 2, W // 8
    content = timed(0, 0, 0)
    for i in range(20):
        record = (10, LOOP + i % 2)
        content += timed(i, 200, 250 + step * i, record, is_whole=i == 19)
    end = 200 + 5 * half
    content += timed(20, end, end + 9, *later(half, GO))
    line = recording(content, clock=RATE).timelines()[0]
    assert line.events.time.tolist() == [*range(10, 201, 10), end]
    assert len(passes(line)) == 10
    assert line.end == end + 9
    assert line.diagnostics == Diagnostics()


def test_a_time_that_is_not_known_after_a_large_ring_was_read_is_a_gap_before_the_next_event() -> (
    None
):
    """Between two blocks, ten million ticks of the port: the clock may have wrapped twice."""
    content = timed(0, 0, 0)
    content += timed(0, 20, 25, (10, LOOP), is_whole=False)
    content += timed(1, 20, 25, (10, LOOP + 1), ticks=10_000_000)
    content += timed(2, 45, 45, (25, GO), ticks=10_000_001)
    line = recording(content, clock=RATE).timelines()[0]
    assert passes(line) == [(16, 10, 20, 10)]
    assert (line.diagnostics.unsure, line.diagnostics.unsure_gaps) == (0, 1)


def test_events_between_which_the_clock_may_have_wrapped_are_left_out() -> None:
    """A call of 10^7 ticks, in which it may wrap twice; the events say 300."""
    content = (
        timed(0, 0, 0)
        + timed(0, 40, 40, (10, LOOP), (20, LOOP + 1), (10, LOOP))
        + timed(3, 340, 340, (100, LOOP + 1), (100, LOOP), (100, LOOP + 1), ticks=10_000_000)
        + timed(6, 365, 365, (10, LOOP), (15, LOOP + 1), ticks=10_000_001)
    )
    found = recording(content, clock=RATE)
    line = found.timelines()[0]
    assert passes(line) == [(16, 10, 30, 20), (16, 350, 365, 15)]
    assert (line.diagnostics.unsure, line.diagnostics.unsure_gaps) == (3, 1)
    assert (line.diagnostics.dropped, line.diagnostics.gaps) == (0, 0)
    text = "\n".join(str(each) for each in probe_run_page(found))
    assert "3 events left out in 1 place: bp_poll did not run for so long" in text
    assert "Share" not in text


def test_a_long_time_without_a_block_is_sure_if_the_events_add_up_to_it() -> None:
    """The same without a doubt: the events take 2.4 times 2^32, as the ticks do."""
    step = W * 6 // 10
    steps = [each for i in range(4) for each in later(step, LOOP + i % 2)]
    content = timed(0, 0, 0) + timed(0, 4 * step, 4 * step, *steps)
    found = recording(content, clock=RATE).timelines()[0]
    assert passes(found) == [(16, step, 2 * step, step), (16, 3 * step, 4 * step, step)]
    assert found.diagnostics == Diagnostics()


def test_wraps_that_a_record_tells_are_part_of_the_time() -> None:
    content = block(0, 0, 12, (5, LOOP), (0, WRAPPED, 3), (7, LOOP + 1))
    assert passes(recording(content).timelines()[0]) == [(16, 5, 3 * W + 12, 3 * W + 7)]


def test_a_file_keeps_all_of_a_recording(tmp_path: Path) -> None:
    made = recording(
        TWO_CORES,
        slots=(Slot(16, 3, 0, 1, 4, 8, 26),),
        costs=ProbeCosts(1, 2, 3),
        stopped=1018,
    )
    file = str(tmp_path / "a.trace")
    write_run(made, file)
    assert is_probe_run(file)
    found = read_run(file)
    assert (found.names.names, found.content) == (made.names.names, made.content)
    assert replace(found, names=NAMES) == replace(made, names=NAMES)


def test_a_file_with_any_damaged_byte_is_read_or_refused(tmp_path: Path) -> None:
    """Such as lengths, flags of encryption, ways of packing, and packed bytes."""
    file = tmp_path / "a.trace"
    write_run(recording(TWO_CORES), str(file))
    whole, refused = file.read_bytes(), 0
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            read_run(str(file))
        except ReportFileError:
            refused += 1
    assert refused > len(whole) // 2


@pytest.mark.parametrize("cut", [4, 100, -30])
def test_a_damaged_file_is_refused(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "a.trace"
    write_run(recording(TWO_CORES), str(file))
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(ReportFileError, match="not a trace of this boardprof"):
        read_run(str(file))


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("recorded", "flags"), 2147483648, "flags is 2147483648."),
        (("recorded", "emulated"), 1, "emulated is 1."),
        (("recorded", "board"), "\ud800", "surrogates not allowed"),
        (("recorded", "order"), "x", "its order is 'x'."),
        (("recorded", "time"), "yesterday", "Invalid isoformat string: 'yesterday'."),
        (("clock", "hz"), -1, "its clock is"),
        (("clock", "hz"), 1 << 63, "its clock is"),
        (("clock", "unit"), "hours", "its clock is"),
        (("clock", "per_tick"), 1e300, "per_tick is 1e[+]300."),
        (("costs", "mark"), [], r"mark is \[\]."),
        (("costs", "late"), float("nan"), "late is nan."),
        (("slots", 0, "number"), 4294967296, "it has no range of the number 4294967296."),
        (("slots", 0, "sum"), "../../x", "sum is '../../x'."),
        (("slots", 0, "lost"), -1, "the statistics of a range are"),
        (("tasks", 0, "number"), -1, "-1 is not a number of 63 bits."),
        (("tasks", 0, "stack"), True, "stack is True."),
        (("stopped",), 1.5, "1.5 is not a number of 32 bits."),
    ],
)
def test_facts_of_another_type_or_beyond_their_range_are_refused(
    tmp_path: Path, keys: tuple[str | int, ...], value: object, message: str
) -> None:
    file = tmp_path / "a.trace"
    slot = Slot(NAMES.of_kind(ProbeKind.RANGE)[0].number, 2, 0, 1, 2, 3, 5)
    write_run(replace(recording(TWO_CORES), slots=(slot,), tasks=(Task(5, "idle"),)), str(file))
    read_run(str(file))
    with zipfile.ZipFile(file) as archive:
        facts = json.loads(archive.read("boardprof-trace.json"))
        blocks = archive.read("blocks")
    place = facts
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("boardprof-trace.json", json.dumps(facts))
        archive.writestr("blocks", blocks)
    with pytest.raises(
        ReportFileError, match=f"a.trace is not a trace of this boardprof: .*{message}"
    ):
        read_run(str(file))


@pytest.mark.parametrize(
    ("name", "size"), [("boardprof-trace.json", 16_777_217), ("blocks", 1_342_177_281)]
)
def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(
    tmp_path: Path, name: str, size: int
) -> None:
    file = tmp_path / "a.trace"
    write_run(recording(TWO_CORES), str(file))
    content = bytearray(file.read_bytes())
    # The directory at the end says how long it is: appnote.txt, 4.3.12, at 24 of an entry.
    entry = content.rindex(name.encode()) - 46
    content[entry + 24 : entry + 28] = size.to_bytes(4, "little")
    file.write_bytes(content)
    with pytest.raises(ReportFileError, match=f"{name} unpacks to more than {size - 1:,} bytes"):
        read_run(str(file))


def test_ranges_are_rows_of_a_report() -> None:
    report = report_of(recording(TWO_CORES))
    assert [str(row["Name"]) for row in report.calls] == ["loop", "loop"]
    assert [row["Duration (us)"] for row in report.calls] == [Duration(10_000.0), Duration(3_000.0)]
    assert {str(row["Label"]) for row in report.calls} == {"in place"}


def test_statistics_are_not_compared_to_events_which_leave_out_more() -> None:
    """The board's sum of the outer range has the inner probes, whose number no row has."""
    content = block(0, 0, 60, (0, LOOP), (10, LOOP + 1), (9, LOOP), (40, LOOP + 1))
    events = recording(content)
    statistics = replace(recording(b""), slots=(Slot(LOOP, 2, 0, 12, 44, 56, 2080),))
    for pair, ways in (
        ((events, statistics), "events before and as statistics"),
        ((statistics, events), "statistics before and as events"),
    ):
        found = compare(*map(report_of, pair), ["ticks>1%"])
        assert not found.rows
        assert not found.failed
        assert f"it was recorded as {ways} after" in found.table()
        assert "1 row not judged" in found.table()
        assert found.table().endswith("no metric was compared.\n")
    assert str(report_of(statistics).calls[0]["Label"]) == "in place, mean"
    same = compare(report_of(statistics), report_of(statistics), ["ticks>1%"])
    assert {row.verdict for row in same.rows} == {"same"}


def test_a_report_says_what_its_recording_lacks_as_trace_does() -> None:
    content = block(0, 0, 60, (0, LOOP), (10, LOOP + 1), (9, LOOP), (1, DROPPED, 4), (40, GO))
    found = recording(content)
    lacks = [
        "4 events dropped in 1 place; passes across them are left out. Try: a larger BP_CFG_TRACE "
        "in the firmware, fewer probes, or a shorter recording.",
        "loop: 1 begin without an end.",
    ]
    assert probe_run_page(found)[-2:] == lacks
    emulated = replace(found, facts=replace(found.facts, emulated=True))
    assert "Try: a ring in RAM that only the emulator has" in probe_run_page(emulated)[-2]
    report = report_of(found)
    assert report.configuration["board probes"] == " ".join(lacks).removesuffix(".")
    for text in (plain(answer_page(report)), render_markdown(report)):
        assert "4 events dropped in 1 place; passes across them are left out" in text
        assert "loop: 1 begin without an end" in text
    whole = report_of(recording(block(0, 0, 10, (0, LOOP), (10, LOOP + 1))))
    assert "board probes" not in whole.configuration


def test_ranges_are_described_as_passes_and_not_as_calls() -> None:
    records = [each for n in range(40) for each in ((90, LOOP), (10 + n % 2 * 30, LOOP + 1))]
    report = report_of(recording(block(0, 0, sum(delta for delta, _ in records), *records)))
    texts = [
        plain(answer_page(report)),
        report.table(),
        report.statistics(),
        render_markdown(report),
        *(str(each) for each in warnings(report)),
    ]
    for text in texts:
        for word in ("per call", "/call", "warm-up", "Warm-up", "--mask-interrupts", "--number"):
            assert word not in text
    assert " per pass\n" in texts[0]
    assert "Values are per pass." in texts[2]
    assert any("an interrupt without BP_ISR_ENTER" in text for text in texts)


def test_statistics_are_one_sample_of_all_passes() -> None:
    slots = (Slot(16, 4, 1, 12, 20, 60, 1000),)
    report = report_of(recording(b"", slots=slots, costs=ProbeCosts(slot=5)))
    [row] = report.calls
    assert row["Count"] == Count(4)
    assert row["Duration (us)"] == Duration((60 - 4 * 5) * 1000.0)


def test_a_recursion_does_not_take_more_than_the_time_of_its_outermost_pass() -> None:
    """And two tasks that are in the same range at once both take their own time."""
    recursion = block(0, 0, 100, (0, LOOP), (20, LOOP), (30, LOOP + 1), (50, LOOP + 1), now=200)
    text = plain(probe_run_page(recording(recursion)))
    assert text.splitlines()[1].split() == ["loop", "2", "65", "30", "100", "50.0", "%"]
    two = block(
        0, 0, 100, (0, TASK, 0xA0), (0, LOOP), (30, TASK, 0xB0), (0, LOOP),
        (20, LOOP + 1), (0, TASK, 0xA0), (50, LOOP + 1), now=200,
    )  # fmt: skip
    text = plain(probe_run_page(recording(two)))
    assert text.splitlines()[1].split() == ["loop", "2", "50", "20", "80", "50.0", "%"]


def test_the_mean_of_passes_that_differ_is_not_exact_and_is_not_judged() -> None:
    """Of 4 passes, and of 3 others, in firmware that runs by itself on an emulator."""

    def statistics(*slot: int) -> Report:
        facts = RunFacts("qemu", clock_kind="simulated", emulated=True, build_id="00" * 8)
        return report_of(recording(b"", facts=facts, slots=(Slot(*slot),)))

    one, other = statistics(16, 4, 0, 10, 30, 70, 0), statistics(16, 3, 0, 10, 30, 60, 0)
    assert str(one.calls[0]["Label"]) == "in place, mean"
    assert "exact" not in plain(answer_page(one) or [])
    [row] = [each for each in compare(one, other).rows if each.metric == "ticks"]
    assert (row.verdict, row.is_exact) == ("too few samples", False)
    equal = statistics(16, 3, 0, 20, 20, 60, 0)
    [row] = [each for each in compare(equal, statistics(16, 2, 0, 25, 25, 50, 0)).rows
             if each.metric == "ticks"]  # fmt: skip
    assert (row.verdict, row.is_exact) == ("worse", True)
    [row] = [each for each in compare(equal, one).rows if each.metric == "ticks"]
    assert (row.verdict, row.is_exact) == ("too few samples", False)


def test_a_recording_without_a_pass_is_no_report() -> None:
    with pytest.raises(UsageError, match="no complete pass of a range"):
        report_of(recording(block(0, 0, 5, (5, LOOP))))
    with pytest.raises(UsageError, match="no complete pass of a range") as raised:
        report_of(recording(b"", slots=(Slot(16, 0, 15, 0, 0, 0, 0),)))
    assert raised.value.hint == "record events: statistics do not count passes that overlap"


def test_of_two_files_the_one_without_a_pass_is_named(tmp_path: Path) -> None:
    file = str(tmp_path / "empty.trace")
    write_run(recording(b""), file)
    with pytest.raises(UsageError, match=r"empty\.trace has no complete pass of a range"):
        report_of_file(file)


def test_a_slot_has_the_mean_and_the_deviation_of_its_passes() -> None:
    slot = Slot(16, 4, 0, 2, 8, 2 + 4 + 4 + 8, 4 + 16 + 16 + 64)
    assert slot.mean == 4.5
    assert slot.deviation == pytest.approx(2.51661147842)  # of 2, 4, 4, 8
    assert replace(slot, squares=None).deviation is None


def test_an_interval_has_what_came_since_the_last_one() -> None:
    made = Intervals(0xFFFFFFF0)
    first = recording(
        block(0, 0, 20, (1, TASK, 0xA0), (9, GO)),
        slots=(Slot(16, 2, 0, 3, 5, 8, 34),), costs=ProbeCosts(slot=1),
    )  # fmt: skip
    found = made.next(first, 12, 16)
    assert (found.ticks, found.tasks) == (32, {UNKNOWN_TASK: 1, 0xA0: 9 + 2})
    assert [(each.name, each.passes, each.ticks) for each in found.ranges] == [("loop", 2, 6)]
    second = replace(
        first, content=block(0, 3, 30, (8, GO)), slots=(Slot(16, 5, 0, 3, 9, 28, 200),)
    )
    found = made.next(second, 116, 116)
    assert (found.ticks, found.tasks) == (104, {0xA0: 8 + 2})  # 4 are in both
    assert [(each.passes, each.ticks) for each in found.ranges] == [(3, 17)]


def test_an_interval_does_not_give_the_time_of_dropped_events_to_a_task() -> None:
    """The second one has the record that tells of them, and 3 new ones that no record tells."""
    made = Intervals(0)
    first = recording(block(0, 0, 10, (1, TASK, 0xA0), (9, GO), dropped=4, now=500))
    found = made.next(first, 500, 500)
    assert (found.tasks, found.dropped) == ({UNKNOWN_TASK: 1 + 490, 0xA0: 9}, 4)
    records = [(490, DROPPED, 4), (10, TASK, 0xB0), (20, GO)]
    second = recording(block(0, 3, 530, *records, dropped=4, now=535))
    found = made.next(second, 535, 535)
    assert (found.tasks, found.dropped) == ({UNKNOWN_TASK: 490 + 10, 0xB0: 20 + 5}, 4)
    third = recording(block(0, 8, 540, (10, GO), dropped=7, now=600))
    found = made.next(third, 600, 600)
    assert (found.tasks, found.dropped) == ({UNKNOWN_TASK: 60, 0xB0: 10}, 7)


def test_shares_of_tasks_add_up_to_the_time_that_their_events_cover() -> None:
    interval = Interval(1000, [RangeShare("loop", 2, 500)], {0xA0: 300, 0xB0: 60}, 40)
    text = plain(interval_page(interval))
    assert [line.split() for line in text.splitlines() if "%" in line] == [
        ["loop", "50.0", "%", "2"],
        ["0xa0", "75.0", "%"],
        ["0xb0", "15.0", "%"],
        ["(interrupts)", "10.0", "%"],
    ]


def test_an_interrupt_whose_cost_is_not_known_is_said_to_be_in_ranges() -> None:
    content = block(0, 0, 30, (0, LOOP), (10, TIMER), (5, TIMER + 1), (15, LOOP + 1))
    unknown = probe_run_page(recording(content))
    known = probe_run_page(recording(content, costs=ProbeCosts(interrupt=3)))
    told = "Ranges include the entry and exit of interrupts, which is not measured here"
    assert any(told in str(line) for line in unknown)
    assert not any(told in str(line) for line in known)


def test_a_late_record_whose_cost_is_not_known_is_said_to_be_in_ranges() -> None:
    content = block(0, 0, 30, (0, LOOP), (10, LONG, 40 << 8), (0, GO), (20, LOOP + 1))
    unknown = probe_run_page(recording(content, costs=ProbeCosts(late=None)))
    known = probe_run_page(recording(content, costs=ProbeCosts(late=0)))
    told = "Ranges include the extra time of records that find no room in the ring at first"
    assert any(told in str(line) for line in unknown)
    assert not any(told in str(line) for line in known)


# -- many passes ---------------------------------------------------------------------------------


def long_recording(count: int) -> ProbeRun:
    """Return a recording of as many passes: 7, 8, 9, 10, 11, 7, 8 ... ticks."""
    content, last, before = [], 0, 0
    for first in range(0, count, 10_000):
        records = []
        for number in range(first, min(first + 10_000, count)):
            took = 7 + number % 5
            records += [(3, LOOP), (took, LOOP + 1)]
            last += 3 + took
        content.append(block(0, before, last, *records))
        before += len(records)
    return recording(b"".join(content))


def test_a_long_recording_is_shown_with_less_than_100_bytes_for_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline, "_AT_ONCE", 1 << 14)
    run = long_recording(300_000)
    page = plain(answer_page(report_of(long_recording(50_000))))  # also imports what it needs
    assert page.startswith("loop [in place] on board: 9 ± 1 ms per pass\n")
    tracemalloc.start()
    try:
        page = plain(answer_page(report_of(run)))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert " of 300,000 samples (7 to 11 ms)" in page
    assert most < 100 * 300_000


@pytest.mark.parametrize("at_once", [1, 2, 3, 5, 100])
def test_passes_are_the_same_in_whatever_parts_they_are_put_together(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "_AT_ONCE", at_once)
    found = line(
        *((5, LOOP + 1), (5, TASK, 7), (10, LOOP), (10, INNER), (10, TIMER), (5, INNER)),
        *((20, INNER + 1), (5, TIMER + 1), (10, INNER + 1), (5, TASK, 8), (40, TASK, 7)),
        *((10, LOOP), (2, LOOP + 1), (8, LOOP + 1), (5, LOOP), (5, DROPPED, 3), (5, LOOP + 1)),
        costs=ProbeCosts(empty=1, mark=2, range=3, interrupt=4),
    )
    assert passes(found) == [
        (LOOP, 20, 145, 125 - 40 - 30 - 4 - 1 - 4 * 3),  # task 8, interrupt, its entry, own, inner
        (INNER, 30, 80, 50 - 30 - 4 - 1),
        (INNER, 45, 65, 20 - 1),
        (LOOP, 135, 137, 2 - 1),
    ]
    assert found.ranges.interrupts.tolist() == [1, 1, 0, 0]
    assert found.diagnostics == Diagnostics(
        dropped=3, gaps=1, without_begin={"loop": 2}, without_end={"loop": 1}
    )


def test_each_pass_of_a_long_recording_has_its_row_and_its_sample() -> None:
    report = report_of(replace(long_recording(30_000), costs=ProbeCosts(empty=2)))
    assert report.device_metrics["board"]["ticks"] == Count(270_000)  # 30,000 passes of 9
    assert report.calls[23_333] == {
        "Name": "loop",
        "ticks": Count(8),  # 10, without the 2 of an empty range
        "Duration (us)": Duration(8000.0),
        "Percent": Percent(100.0 * 8 / 270_000),
        "Label": "in place",
        "Device": "board",
        "Count": Count(1),
        "Perturbation (%)": Ratio(20.0),
    }
    assert report.record is not None
    samples = report.record.measurements[0].passes[0].samples
    assert (len(samples), samples[23_333].raw) == (30_000, {"ticks": 10})
    assert Report.from_json(report.json()) == report


def test_a_pass_that_took_nothing_has_no_share_of_overhead() -> None:
    report = report_of(
        recording(block(0, 0, 20, (5, LOOP), (0, LOOP + 1), (5, LOOP), (10, LOOP + 1)))
    )
    assert [row.get("Perturbation (%)") for row in report.calls] == [None, Ratio(0.0)]
    assert [row["ticks"] for row in report.calls] == [Count(0), Count(10)]
