# SPDX-License-Identifier: Apache-2.0
"""What a board sends that lies, or is broken: a diagnosis, never a crash, and no wrong event."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from boardprof.base.errors import DecodeError, UsageError
from boardprof.results.probes.figures import report_of
from boardprof.results.probes.run import ProbeRun
from boardprof.show.exporters import find_probe_exporter
from boardprof.show.probe_tables import probe_run_page
from boardprof.show.table import plain
from tests.unit.recordings import (
    ALLOC,
    CALLER,
    CONTROL,
    COUNT,
    DROPPED,
    ERROR,
    FILTER,
    FREE,
    INTERRUPT_ENTER,
    INTERRUPT_EXIT,
    SIZE,
    STEP,
    SYSTICK,
    TASK,
    VOLTS,
    event,
    recording,
)

SYNC, WIDE, VALUE, LONG, LIVE = 7, 8, 9, 11, 13
MARKS = (CONTROL, CONTROL + 1, FILTER, FILTER + 1, SYSTICK, SYSTICK + 1, STEP, INTERRUPT_EXIT)
WITH_VALUE = (COUNT, ERROR, VOLTS, TASK, ALLOC, SIZE, CALLER, FREE, DROPPED, INTERRUPT_ENTER, SYNC)
KNOWN = {*MARKS, *WITH_VALUE, LIVE}
FOR_MINUTES = [pytest.mark.nightly, pytest.mark.timeout(1200)]


def true_blocks(draw: random.Random) -> tuple[list[bytes], int]:
    """Return blocks as a board could send them, of up to three cores, and how many events."""
    found, count = [], 0
    for core in range(draw.choice((1, 1, 2, 3))):
        last, sequence = draw.getrandbits(32), 0
        for _ in range(draw.randrange(1, 4)):
            content = b""
            for _ in range(draw.choice((0, 1, 3, 20))):
                delta = draw.choice((0, 1, 300, 2**24 - 1))
                if draw.random() < 0.1:
                    high = draw.getrandbits(8)
                    content += event(delta, LONG, draw.getrandbits(24) << 8 | high)
                    last, delta = last + delta + (high << 24), 0
                number = draw.choice((*MARKS, *WITH_VALUE))
                value = draw.getrandbits(32) if number in WITH_VALUE else None
                content += event(delta, number, value)
                last += delta
                count += number != SYNC
            now, words = last + draw.randrange(1000), len(content) // 4
            head = (core, 1, words, sequence, 0, last % 2**32, now % 2**32, now)
            found.append(struct.pack("<BBHIIIIQ", *head) + content)
            sequence += words
    return found, count


def lie(draw: random.Random, content: bytes) -> bytes:
    """Change something: a field of a header, a word, some bits, or the end."""
    if not content:
        return content
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 10))):
        at = draw.randrange(len(changed)) // 4 * 4
        what = draw.randrange(4)
        if what == 0:
            changed[at] ^= 1 << draw.randrange(8)
        elif what == 1:
            changed[at : at + 4] = struct.pack("<I", draw.choice((0, 2**32 - 1, 2**31, 1)))
        elif what == 2:
            wide = struct.pack("<II", WIDE, draw.choice((0x10010, 16, 3, 300, 2**32 - 1)))
            changed[at : at + 8] = wide[: len(changed) - at]
        else:
            changed[at : at + 4] = draw.randbytes(len(changed[at : at + 4]))
    return bytes(changed) if draw.random() < 0.9 else bytes(changed[: draw.randrange(len(changed))])


EXPORTERS = ("perfetto", "chrome", "speedscope", "collapsed", "html", "ctf")


def exported(made: ProbeRun) -> None:
    for name in EXPORTERS:
        exporter = find_probe_exporter(name)
        assert exporter is not None
        exporter(made)


USES: dict[str, Callable[[ProbeRun], object]] = {
    "page": lambda made: plain(probe_run_page(made)),
    "merged": lambda made: made.merged(),
    "exported": exported,
    "report": report_of,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tries", [100, pytest.param(20_000, marks=FOR_MINUTES)])
def test_blocks_that_lie_give_a_diagnosis_or_events_that_the_image_can_make(tries: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(tries):
        draw = random.Random(seed)
        content = lie(draw, b"".join(true_blocks(draw)[0]))
        made = recording(content, hz=draw.choice((0, 1000)), unit=draw.choice(("cycles", "ticks")))
        try:
            lines = made.timelines()
        except DecodeError:
            outcomes["refused"] += 1
            continue
        outcomes["taken"] += 1
        assert sum(len(line.events) for line in lines.values()) <= len(content) // 4
        for line in lines.values():
            assert (np.diff(line.events.time) >= 0).all(), seed
            assert set(line.events.number.tolist()) <= KNOWN, seed
        for name, use in USES.items():
            try:
                use(made)
            except (DecodeError, UsageError):
                outcomes[name] += 1
    assert min(outcomes["refused"], outcomes["taken"]) > tries // 10


def test_the_same_blocks_without_a_lie_are_all_taken() -> None:
    for seed in range(100):
        parts, count = true_blocks(random.Random(seed))
        lines = recording(b"".join(parts)).timelines()
        assert sum(len(line.events) for line in lines.values()) == count


@pytest.mark.parametrize("number", [15, 26, 255])
def test_an_id_that_stands_for_nothing_is_refused(number: int) -> None:
    with pytest.raises(
        DecodeError, match=f"has the number {number}, and the image has names up to"
    ):
        of_words(event(1, STEP), event(1, number)).timelines()


@pytest.mark.parametrize("number", [0, 16, 255, 0x10010, 0x10000, 2**32 - 1])
def test_a_wide_number_that_no_name_needs_is_refused(number: int) -> None:
    """Of 17 bits, too: its lower 16 may be the number of another name."""
    with pytest.raises(
        DecodeError, match=f"has the number {number}, and the image has names up to"
    ):
        of_words(event(1, WIDE, number)).timelines()


def test_a_value_without_its_number_is_refused() -> None:
    with pytest.raises(DecodeError, match="has a value and no number"):
        of_words(event(1, STEP), event(0, VALUE, 5)).timelines()


def of_words(*records: bytes) -> ProbeRun:
    content = b"".join(records)
    head = struct.pack("<BBHIIIIQ", 0, 1, len(content) // 4, 0, 0, 2, 2, 2)
    return recording(head + content)
