# SPDX-License-Identifier: Apache-2.0
"""Probes of one core and of two, from the C agent to the host's timeline.

Two threads are two cores of the C agent, whose clocks have an offset and a drift. The board writes
down when each event really was, and which there were.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cffi import FFI

from boardprof.results.probes.events import NAMES_SECTION, ProbeNames, read_names
from boardprof.results.probes.run import ProbeRun, RunFacts, TraceClock
from boardprof.results.probes.timeline import ProbeCosts, Timeline
from boardprof.target.elf.object_file import images, read_image
from boardprof_protocol.codes import FrameKind, TraceId
from boardprof_protocol.frame import Frame
from tests.memory_board import CHANNELS, MemoryBoard
from tests.protocol.channel_host import ALL, ack, open_channel

Libraries = Callable[[dict[str, int]], tuple[FFI, Any]]

CONFIG = {**CHANNELS, "BP_CFG_TRACE": 2048, "BP_CFG_BULK": 1024, "BP_CFG_MTU": 1100}
CONFIG |= {"BP_CFG_STREAM": 8192}
STREAM, START, STOP = 9, 12, 13
CYCLES_PER_TICK = 16
FOR_MINUTES = [pytest.mark.nightly, pytest.mark.timeout(1200)]
OFFSETS, APART = (0, 0xFFFF_0000), (0, 20_000)
"""Of the second core: its clock is about to wrap, and is 50 ppm fast."""

AT_ONCE = (1, 20, 100, 700, 3000)
"""Events between two looks of the host; the ring has room for some 250."""


def image_of(library: Any) -> Path:
    ffi, lib = library
    place = int(ffi.cast("uintptr_t", ffi.addressof(lib, "test_mark")))
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(each, 16) for each in line.split()[0].split("-"))
        if begin <= place < end:
            return Path(line.split()[5])
    raise AssertionError("the library is not mapped")


def names_of(library: Any) -> ProbeNames:
    [image] = images(image_of(library))
    section = read_image(image, lambda elf: elf.get_section_by_name(NAMES_SECTION).data())
    return read_names(section)


class Cores:
    """The cores of a board, each a thread that makes events, and what each event was."""

    def __init__(self, library: Any, cores: int, many: int) -> None:
        self.ffi, self.lib = library
        self.board = MemoryBoard(self.ffi, self.lib)
        self.many = many
        self.times = [self.ffi.new("uint64_t[]", many) for _ in range(cores)]
        self.content = bytearray()
        self.lib.bp_tracing = 0
        self.lib.test_cycles, self.lib.test_cycles_step = 1000, 3
        self.lib.test_cycles_per_tick = CYCLES_PER_TICK
        for core in range(cores) if cores > 1 else ():
            self.lib.test_core_offset[core] = OFFSETS[core]
            self.lib.test_core_apart[core] = APART[core]
        self.board.hello()

    def record(self) -> bytes:
        """Let all cores run at once, again and again; return the stream's content."""
        self.board.call(START, 1, 0)
        channel, _ = open_channel(self.board, STREAM)
        draw = np.random.default_rng(7)
        made = 0
        while made < self.many:
            batch = min(int(draw.choice(AT_ONCE)), self.many - made)
            if len(self.times) == 1:  # an interrupt of the agent's own core
                self._run(0, made, batch)
                self._read(channel)
            else:
                self._run_at_once(channel, made, batch)
            made += batch
        self._take(self.board.exchange(self.board.frame(STOP, 1)))
        while self._read(channel):
            pass
        return bytes(self.content)

    def _run_at_once(self, channel: int, first: int, count: int) -> None:
        threads = [
            threading.Thread(target=self._run, args=(core, first, count))
            for core in range(len(self.times))
        ]
        for thread in threads:
            thread.start()
        self._read(channel)
        for thread in threads:
            thread.join()
        self._read(channel)

    def _run(self, core: int, first: int, count: int) -> None:
        self.lib.test_core_events(core, first, count, self.times[core])

    def _read(self, channel: int) -> int:
        return self._take(self.board.exchange(ack(self.board, channel, len(self.content), ALL)))

    def _take(self, frames: list[Frame]) -> int:
        """Take what DATA frames have brought; return how many bytes."""
        before = len(self.content)
        for frame in frames:
            if frame.kind == FrameKind.DATA:
                assert int.from_bytes(frame.body[:4], "little") == len(self.content) % 2**32
                self.content += frame.body[4:]
        return len(self.content) - before

    def truth(self, core: int) -> npt.NDArray[np.int64]:
        """Return when each event of a core was, in cycles since recording began."""
        times = np.frombuffer(self.ffi.buffer(self.times[core]), np.uint64).astype(np.int64)
        return times


def values_of(line: Timeline) -> npt.NDArray[np.int64]:
    """Return the numbers of the events that came, which are their values."""
    return line.events.value[line.events.number != TraceId.DROPPED].astype(np.int64)


@pytest.mark.parametrize("many", [100_000, pytest.param(10_000_000, marks=FOR_MINUTES)])
@pytest.mark.parametrize("cores", [1, 2])
def test_the_events_of_cores_are_one_timeline_without_a_loss_that_is_not_counted(
    libraries: Libraries, cores: int, many: int
) -> None:
    """Of each core: what came and what was dropped add up to what was made, where it was dropped,
    too. Both cores' events are where they really were, within the error that is stated.
    """
    library = libraries(CONFIG if cores == 1 else {**CONFIG, "BP_CFG_TRACE_CORES": cores})
    made = Cores(library, cores, many // cores)
    content = made.record()
    recording = ProbeRun(
        RunFacts("memory"),
        TraceClock("cycles", "test_cycles", 0),
        names_of(library),
        ProbeCosts(),
        content,
    )
    lines = recording.timelines()
    assert list(lines) == list(range(cores))
    for line in lines.values():
        events = line.events
        is_drop = events.number == TraceId.DROPPED
        before = np.cumsum(np.where(is_drop, events.value, 0))[~is_drop]
        values = values_of(line)
        assert np.array_equal(values, np.arange(len(values)) + before)
        assert len(values) + line.dropped == made.many
        assert made.many // 10 < line.dropped < made.many
        assert (np.diff(events.time) >= 0).all()
    merged = recording.merged()
    assert len(merged.time) == sum(len(line.events) for line in lines.values())
    assert (np.diff(merged.time) >= 0).all()
    came = merged.number != TraceId.DROPPED
    # 50 ppm, and ticks of 16 cycles: a few ticks, however long it takes.
    assert merged.error == 0 if cores == 1 else 16 <= merged.error < 200
    began = None
    for core in range(cores):
        mine = came & (merged.core == core)
        assert np.array_equal(merged.value[mine], values_of(lines[core]))
        really = made.truth(core)[merged.value[mine]]
        began = int(really[0] - merged.time[mine][0]) if began is None else began
        assert np.abs(merged.time[mine] + began - really).max() <= merged.error
