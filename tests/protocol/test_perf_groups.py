# SPDX-License-Identifier: Apache-2.0
"""The collector of perf_event_open(2) where hardware counters are few: groups, and their turns.

The kernel is a model (tests/c/perf_kernel.c), since virtual machines have no hardware counters. By
themselves the slots are four software events and then six hardware events; in the model each event
happens (number in the kernel's table + 1) times a microsecond.
"""

from __future__ import annotations

from typing import Any

import pytest
from cffi import FFI

from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.collectors.linux_perf import LAYOUT
from tests.support import AGENT, C_TESTS, WARNINGS, agent_sources, built_once, requires_tool

OK, ABSENT, REFUSED = CounterStatus.OK, CounterStatus.ABSENT, CounterStatus.REFUSED
SOFTWARE, HARDWARE = range(4), range(4, 10)
EBUSY = 16
WRAPPED = ("syscall", "read", "ioctl", "close")


@pytest.fixture(scope="module")
def library() -> tuple[FFI, Any]:
    cc = requires_tool("gcc", package="gcc")
    posix = AGENT / "arch" / "posix"
    sources = [*sorted(posix.glob("bp_perf_*.c")), AGENT / "collectors" / "bp_linux_perf.c"]
    sources += [C_TESTS / "perf_kernel.c", AGENT / "src" / "bp_call.c"]
    sources += [source for source in agent_sources() if source.name == "bp_le.c"]
    includes = [f"-I{AGENT / 'include'}", f"-I{AGENT / 'src'}", f"-I{posix}"]
    flags = ["-O1", "-g", "-fPIC", "-shared", "-DBP_CFG_OPEN_WINDOWS=1"]
    flags += [f"-Wl,--wrap={name}" for name in WRAPPED]
    path = built_once([cc, *WARNINGS, *flags, *includes, *sources], "libperf.so")
    ffi = FFI()
    ffi.cdef("""
        extern int kernel_reads;
        extern uint64_t kernel_lacks;
        void kernel_reset(int counters, int free_counters);
        void perf_init(void);
        uint8_t perf_status(uint8_t slot, uint32_t *detail);
        int perf_window(uint8_t *out);
    """)
    return ffi, ffi.dlopen(str(path))


class Kernel:
    """The model, with so many hardware counters; others have taken those that are not free."""

    def __init__(
        self, library: tuple[FFI, Any], counters: int, *, free: int | None = None, lacks: int = 0
    ) -> None:
        self.ffi, self.lib = library
        self.lib.kernel_reset(counters, counters if free is None else free)
        self.lib.kernel_lacks = lacks
        self.lib.perf_init()

    def status(self, slot: int) -> tuple[CounterStatus, int]:
        detail = self.ffi.new("uint32_t *")
        return CounterStatus(self.lib.perf_status(slot, detail)), detail[0]

    def statuses(self) -> list[CounterStatus]:
        return [self.status(slot)[0] for slot in range(10)]

    def window(self) -> tuple[int, list[tuple[int, int, int]]]:
        """Return the reads of a start, and (counted, enabled, running) of each slot."""
        out = self.ffi.new("uint8_t[]", LAYOUT.size)
        reads = self.lib.perf_window(out)
        fields = LAYOUT.struct.parse(bytes(self.ffi.buffer(out)))
        parts = [
            tuple(fields[f"slot{i}_{part}"] for part in ("start", "stop", "enabled", "running"))
            for i in range(10)
        ]
        return reads, [(stop - start, enabled, running) for start, stop, enabled, running in parts]


def test_events_that_fit_are_one_group_and_one_read(library: tuple[FFI, Any]) -> None:
    kernel = Kernel(library, counters=6)
    assert kernel.statuses() == [OK] * 10
    reads, slots = kernel.window()
    assert reads == 1
    # One step of 1000 ns lies between the read of start and that of stop. The slots are task-clock
    # (1), page-faults (2), context-switches (3), cpu-migrations (4) of the software events, and
    # cycles (0), instructions (1), branches (4), branch-misses (5), cache-references (2) and
    # cache-misses (3) of the hardware's.
    assert [counted for counted, _, _ in slots] == [2, 3, 4, 5, 1, 2, 5, 6, 3, 4]
    assert {(enabled, running) for _, enabled, running in slots} == {(1000, 1000)}


def test_more_events_than_counters_are_groups_that_take_turns(library: tuple[FFI, Any]) -> None:
    kernel = Kernel(library, counters=4)
    assert kernel.statuses() == [OK] * 10
    reads, slots = kernel.window()
    assert reads == 2
    # start reads groups 0 and 1, stop reads 1 and 0: three steps lie between the reads of group 0,
    # one between those of group 1, and each runs in every second step.
    enabled = [enabled for _, enabled, _ in slots]
    assert enabled == [3000] * 8 + [1000] * 2
    running = [running for _, _, running in slots]
    assert len({*running[:8]}) == 1
    assert running[0] in (1000, 2000)
    assert running[8] == running[9]
    assert running[8] in (0, 1000)
    events = [2, 3, 4, 5, 1, 2, 5, 6, 3, 4]
    assert [c for c, _, _ in slots] == [
        times * ns // 1000 for times, ns in zip(events, running, strict=True)
    ]


def test_a_group_that_never_runs_is_parted(library: tuple[FFI, Any]) -> None:
    """The kernel reckons with six counters; its watchdog has one of them."""
    kernel = Kernel(library, counters=6, free=5)
    assert kernel.statuses() == [OK] * 10
    reads, _ = kernel.window()
    assert reads == 10


def test_events_for_which_no_counter_is_left_are_refused(library: tuple[FFI, Any]) -> None:
    kernel = Kernel(library, counters=6, free=0)
    assert [kernel.status(slot) for slot in SOFTWARE] == [(OK, 0)] * 4
    assert [kernel.status(slot) for slot in HARDWARE] == [(REFUSED, EBUSY)] * 6
    _, slots = kernel.window()
    assert [slots[slot] for slot in HARDWARE] == [(0, 0, 0)] * 6
    assert all(counted > 0 for counted, _, _ in slots[:4])


def test_an_event_that_the_cpu_lacks_leaves_the_group_whole(library: tuple[FFI, Any]) -> None:
    kernel = Kernel(library, counters=6, lacks=1 << 1)  # instructions
    assert kernel.statuses() == [OK] * 5 + [ABSENT] + [OK] * 4
    reads, slots = kernel.window()
    assert reads == 1
    assert [counted for counted, _, _ in slots] == [2, 3, 4, 5, 1, 0, 5, 6, 3, 4]


def test_a_virtual_machine_has_the_software_events(library: tuple[FFI, Any]) -> None:
    kernel = Kernel(library, counters=0)
    assert kernel.statuses() == [OK] * 4 + [ABSENT] * 6
    reads, slots = kernel.window()
    assert reads == 1
    assert [counted for counted, _, _ in slots] == [2, 3, 4, 5, 0, 0, 0, 0, 0, 0]
