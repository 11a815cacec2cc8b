# SPDX-License-Identifier: Apache-2.0
"""A board whose probes say what no agent says: each answer has a diagnosis, and none goes on."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgpack
import pytest

from boardprof.base.errors import BoardprofError
from boardprof.measure.probe_recorder import ProbeRecorder
from boardprof.results.probes.events import read_names
from boardprof.results.probes.run import ProbeRun, RunFacts
from boardprof.results.probes.timeline import ProbeCosts
from boardprof.wire.decode.dictionary import Dictionary, FunctionInfo
from boardprof.wire.link.channels import Stream
from boardprof.wire.link.session import Session
from boardprof.wire.transport.sockets import connect_tcp
from boardprof_protocol.codes import FrameKind, TraceFlag, TraceMode
from tests.link.fake_agent import Answer, fake_agent

FUNCTIONS = ("bp.trace", "bp.trace_start", "bp.trace_stop", "bp.trace_slots")
FUNCTIONS += ("bp.trace_calibrate", "bp.trace_kept", "bp.trace_read", "bp.trace_tasks")
NAMES = read_names(
    b"\x01work\0"  # a range, 16 and 17
    b"\x01bp_calibration\0\x03bp_calibration\0\x04bp_calibration\0"  # 18 and 19; 20; 21
    b"\x03bp_interrupt\0\x02timer\0"  # a mark, 22; an interrupt, 23 and 24
)
MORE = [0, None, None, 0]
INFO = ["cycles", "mcycle", 0, 4096, 1, 0, 1000, *MORE]
LAST = struct.pack("<BBHIIIIQ", 0, 3, 0, 0, 0, 5, 5, 5)
USUAL: dict[str, Any] = {
    "bp.trace": INFO,
    "bp.trace_start": 1000,
    "bp.trace_stop": 1000,
    "bp.trace_slots": b"",
    "bp.trace_calibrate": None,
    "bp.trace_kept": None,
    "bp.trace_read": b"",
    "bp.trace_tasks": None,
}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the recorder these names: no real firmware says all this, so no image has them."""
    found = "boardprof.measure.probe_recorder.image_names"
    monkeypatch.setattr(found, lambda image, check, board: NAMES)


class Blocks:
    """A stream that always has the same to give."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, timeout_s: float) -> bytes:
        return self._content

    def close(self) -> None:
        pass


@contextmanager
def recorder(
    what: TraceFlag = TraceFlag.EVENTS,
    mode: TraceMode = TraceMode.DROP,
    stream: bytes = LAST,
    **said: object,
) -> Iterator[Callable[[], ProbeRecorder]]:
    """Give what makes a recorder of a board with other answers than the usual ones."""
    answers = {**USUAL, **{f"bp.{name}": value for name, value in said.items()}}

    def answer(body: bytes) -> list[Answer]:
        (function, *arguments) = msgpack.unpackb(body)
        value = answers[FUNCTIONS[function]]
        packed = msgpack.packb(value(*arguments) if callable(value) else value)
        return [(FrameKind.RESULT, cast("bytes", packed))]

    functions = tuple(
        FunctionInfo(i, name, "", measurable=False) for i, name in enumerate(FUNCTIONS)
    )
    with fake_agent(answer) as port:
        session = Session(connect_tcp(port, 1.0), timeout_s=20.0)
        session.open()
        yield lambda: ProbeRecorder(
            RunFacts("bench"),  # without a build id
            session,
            Dictionary("bench", "0.1.0", 0, functions, ()),
            lambda: cast("Stream", Blocks(stream)),
            what,
            mode,
        )
        session.close()


def refused(make: Callable[[], ProbeRecorder], *, kept: bool = False) -> str:
    """Record, or read what was kept; return the diagnosis, which must come soon."""
    began_s = time.monotonic()
    with pytest.raises(BoardprofError) as caught:
        _ = make().kept() if kept else recorded(make)
    assert time.monotonic() - began_s < 4.0
    return str(caught.value)


def recorded(make: Callable[[], ProbeRecorder]) -> ProbeRun:
    with make() as made:
        return made.stop()


def slot(number: int) -> bytes:
    return struct.pack("<IIIIIIQQ", number, 1, 0, 0, 5, 5, 5, 25)


def kept(size: int, at: int) -> bytes:
    return struct.pack("<IIII8s", size, at, size, 5, bytes(8))


@pytest.mark.parametrize(
    "info",
    [
        None,
        [],
        ["cycles", "mcycle", 0, 4096, 1, 0, *MORE],
        ["seconds", "mcycle", 0, 4096, 1, 0, 0, *MORE],
        ["cycles", "mcycle", -1, 4096, 1, 0, 0, *MORE],
        ["cycles", "mcycle", 0, 2**40, 1, 0, 0, *MORE],
        ["cycles", "mcycle", 0, 4096, 2**31, 0, 0, *MORE],
        ["cycles", "mcycle", 0, 4096, 0, 0, 0, *MORE],
        ["cycles", b"mcycle", 0, 4096, 1, 0, 0, *MORE],
    ],
)
def test_what_is_no_description_of_probes_is_refused(info: object) -> None:
    with recorder(trace=info) as make:
        assert "bp.trace returned" in refused(make)


def test_the_usual_answers_are_taken() -> None:
    with recorder(TraceFlag.STATISTICS) as make, make() as made:
        assert made.stop().slots == ()


def test_a_board_that_does_not_record_its_calibration_is_refused() -> None:
    with recorder() as make:
        assert "What probes cost on bench cannot be measured" in refused(make)


def block(sequence: int, *words: int, flags: int = 1) -> bytes:
    """A block of core 0 whose records are these words; flag 2 says that it is the last."""
    head = struct.pack("<BBHIIIIQ", 0, flags, len(words), sequence, 0, 5, 5, 5)
    return head + struct.pack(f"<{len(words)}I", *words)


def test_what_probes_cost_is_taken_from_the_calibration_alone() -> None:
    """A recording that still ran may have left events before it. Words are ticks << 8 | number."""
    mark, value, marked = 20, 21, 22
    words = (
        *(18, 3 << 8 | 19) * 3,  # an empty range takes 3 ticks
        *(mark, 5 << 8 | mark),  # a mark 5
        *(mark, 4 << 8 | 18, 3 << 8 | 19, 5 << 8 | mark),  # a range and the mark 12
        *(value, 0, 7 << 8 | value, 0),  # a value 7
        *(marked, 10 << 8 | 23, 4 << 8 | 24, 6 << 8 | marked),  # 20 with an interrupt, 4 within it
        *(marked, 2 << 8 | marked),  # 2 without an interrupt: so it takes 20 - 4 - 2
    )
    measured = block(0, *words, flags=3)
    earlier = block(9, mark, 100 << 8 | mark)
    for stream in (measured, earlier + measured):
        with recorder(stream=stream) as make, make() as made:
            assert made.costs == ProbeCosts(
                empty=3.0, mark=5.0, value=7.0, range=3.5, late=None, interrupt=14
            )


def test_events_that_never_end_are_refused() -> None:
    endless = struct.pack("<BBHIIIIQ", 0, 1, 1000, 0, 0, 5, 5, 5) + bytes(4000)
    with recorder(stream=endless) as make:
        assert "goes on sending events after recording was stopped" in refused(make)


def test_events_of_a_core_that_there_is_not_are_refused() -> None:
    with recorder(stream=b"\x01" + LAST[1:]) as make:
        assert "sent events of core 1, and has 1" in refused(make)


@pytest.mark.parametrize(
    ("slots", "why"),
    [
        (slot(16), "sent statistics of range 16 twice"),
        (slot(17), "or its image has no such range"),
        (slot(16)[:39], "bp.trace_slots returned"),
        (7, "bp.trace_slots returned"),
        ("text", "bp.trace_slots returned"),
    ],
)
def test_statistics_without_an_end_or_of_no_range_are_refused(slots: object, why: str) -> None:
    with recorder(TraceFlag.STATISTICS, trace_slots=slots) as make:
        assert why in refused(make)


def test_statistics_are_refused_once_the_clock_may_have_wrapped_in_a_pass() -> None:
    # The agent looks at its clock every 2^29 ticks, and leaves out a pass of 2^31: 3 * 2^29 remain.
    for unseen, is_refused in ((3 * 2**29 - 1, False), (3 * 2**29, True)):
        info = ["ticks", "timer", 1_000_000, 4096, 1, 0, 1000, 0, 7, unseen, 0]
        with recorder(TraceFlag.STATISTICS, trace=info) as make:
            if is_refused:
                assert "its trace clock of 32 bits may have wrapped in a pass" in refused(make)
            else:
                assert recorded(make).slots == ()


@pytest.mark.parametrize("task", [[1, b"main", None, None], [1, "main", None, None], 5])
def test_tasks_without_an_end_are_refused(task: object) -> None:
    with recorder(trace_tasks=task) as make:
        assert "bp.trace_tasks " in refused(make)


@pytest.mark.parametrize(
    "state",
    [
        kept(2**32 - 1, 0),
        kept(1024, 1024),
        kept(1024, 3),
        kept(1025, 0),
        kept(64, 0)[:23],
        b"",
        5,
    ],
)
def test_a_kept_ring_that_cannot_be_is_refused(state: object) -> None:
    with recorder(mode=TraceMode.OVERWRITE, trace_kept=state) as make:
        assert "bp.trace_kept returned" in refused(make, kept=True)


@pytest.mark.parametrize("words", [b"", bytes(127), bytes(4096), None, 3])
def test_words_of_a_kept_ring_that_are_not_those_asked_for_are_refused(words: object) -> None:
    with recorder(mode=TraceMode.OVERWRITE, trace_kept=kept(64, 0), trace_read=words) as make:
        assert "bp.trace_read returned" in refused(make, kept=True)


def test_a_kept_ring_that_no_record_fits_is_refused() -> None:
    with recorder(
        mode=TraceMode.OVERWRITE,
        trace_kept=kept(1024, 0),  # the whole ring
        trace_read=lambda core, first, count: b"\xff" * (4 * count),
    ) as make:
        assert "An event has the number 255" in refused(make, kept=True)
