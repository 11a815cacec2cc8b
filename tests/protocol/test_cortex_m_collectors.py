# SPDX-License-Identifier: Apache-2.0
"""The collectors of Cortex-M on a model of its registers: wrap, sleep, overflow, and what is not
there. The model (tests/c/cortex_m_model.c) knows nothing of the collectors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.collectors import collector_layouts
from tests.support import AGENT, C_TESTS, WARNINGS, agent_sources, built_once, requires_tool

NAMES = ("systick", "dwt", "armv8m_pmu")
LAYOUTS = {layout.name: layout for layout in collector_layouts()}
OK, ABSENT, STUCK = CounterStatus.OK, CounterStatus.ABSENT, CounterStatus.STUCK
REFUSED = CounterStatus.REFUSED
UNLOCK = 0xC5AC_CE55
CYCLES, RETIRED = 0x11, 0x08  # events of the PMU


class Model:
    """The registers, and a collector upon them."""

    def __init__(self, library: Any, name: str) -> None:
        self.library, self.name = library, name
        library.model_collector.restype = ctypes.c_void_p
        library.model_status.restype = library.model_select.restype = ctypes.c_uint8
        library.model_status.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_void_p]
        self.collector = library.model_collector(NAMES.index(name))
        library.model_reset()

    def flag(self, name: str, value: int) -> None:
        """Set a switch of the model, or its lock."""
        kind = ctypes.c_uint32 if name in ("lock", "coarse", "itm_tcr") else ctypes.c_bool
        kind.in_dll(self.library, f"model_{name}").value = value

    def call(self, member: int, *arguments: Any) -> None:
        """Call init, start, stop or encode: the members behind the collector's name."""
        function = ctypes.cast(self.collector, ctypes.POINTER(ctypes.c_void_p))[1 + member]
        ctypes.CFUNCTYPE(None)(function)(*arguments)

    def init(self) -> list[CounterStatus]:
        """Bring the counters up; return what was found of each."""
        self.call(0)
        return self.statuses()

    def statuses(self) -> list[CounterStatus]:
        bits = ctypes.c_uint8()
        count = len(LAYOUTS[self.name].counters)
        return [
            CounterStatus(self.library.model_status(self.collector, i, ctypes.byref(bits)))
            for i in range(count)
        ]

    def window(self, body: Callable[[], object]) -> Any:
        """Measure what ``body`` does to the model; return the blob's fields."""
        layout = LAYOUTS[self.name]
        state, out = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
        self.call(1, state)
        body()
        self.call(2, state)
        self.call(3, out, state)
        return layout.struct.parse(out.raw[: layout.size])

    def differences(self, fields: Any, bits: int | None = None) -> dict[str, int]:
        """Return each counter's stop less its start, modulo its width."""
        wide = {"cycles": 24 if self.name == "systick" else 32}
        other = 8 if self.name == "dwt" else 32
        return {
            c.name: (fields[c.stop] - fields[c.start]) % (1 << wide.get(c.name, other))
            for c in LAYOUTS[self.name].counters
        }

    def run(self, cycles: int, sleeping: int = 0, loads: int = 0) -> None:
        self.library.model_run(cycles, sleeping, loads)

    def select(self, *events: int) -> Any:
        """Call ``armv8m_pmu.select``; None is a refusal."""
        packed = b"".join(msgpack.packb(event) for event in events)
        out = ctypes.create_string_buffer(64)
        length = self.library.model_select(packed, len(packed), len(events), out)
        return msgpack.unpackb(out.raw[:length]) if length else None


@pytest.fixture(scope="module")
def library() -> Any:
    cc = requires_tool("gcc", package="gcc")
    sources = [AGENT / "collectors" / f"bp_{name}.c" for name in NAMES]
    sources += [s for s in agent_sources() if s.name in ("bp_call.c", "bp_le.c", "bp_select.c")]
    includes = [f"-I{folder}" for folder in (AGENT / "include", AGENT / "src", C_TESTS / "arch")]
    flags = ["-O1", "-fPIC", "-shared", "-Wl,-Bsymbolic", "-DBP_CFG_OPEN_WINDOWS=1"]
    flags += ["-DBP_SYSTICK_HZ=125000000"]
    command = [cc, *WARNINGS, *flags, *includes, *sources, C_TESTS / "cortex_m_model.c"]
    return ctypes.CDLL(str(built_once(command, "cortex_m_model.so")))


@pytest.fixture
def dwt(library: Any) -> Model:
    return Model(library, "dwt")


@pytest.fixture
def systick(library: Any) -> Model:
    return Model(library, "systick")


@pytest.fixture
def pmu(library: Any) -> Model:
    return Model(library, "armv8m_pmu")


# -- DWT --------------------------------------------------------------------------------------


def test_a_window_of_the_dwt_has_the_cycles_and_the_short_counts(dwt: Model) -> None:
    assert dwt.init() == [OK] * 6
    empty = dwt.differences(dwt.window(lambda: None))
    found = dwt.differences(dwt.window(lambda: dwt.run(200, loads=50)))
    assert found["cycles"] - empty["cycles"] == 200
    assert found["lsu"] - empty["lsu"] == 50
    assert (found["sleep"], found["exc"], found["fold"]) == (0, 0, 0)


def test_all_counters_of_the_dwt_may_wrap_once_within_a_window(dwt: Model) -> None:
    dwt.init()
    empty = dwt.differences(dwt.window(lambda: None))
    dwt.library.model_preset(2**32 - 10, 250, 0, 0)
    found = dwt.differences(dwt.window(lambda: dwt.run(100, loads=90)))
    assert found["cycles"] - empty["cycles"] == 100
    assert found["lsu"] - empty["lsu"] == 90


def test_no_short_counter_of_the_dwt_counts_what_the_cycle_counter_does_not(dwt: Model) -> None:
    """Each access of a register takes a cycle, and a load: CYCCNT has those between the reads."""
    dwt.init()
    found = dwt.differences(dwt.window(lambda: dwt.run(100, loads=100)))
    assert all(found["cycles"] >= found[name] for name in ("cpi", "exc", "lsu", "fold"))


def test_in_sleep_the_cycle_counter_stands_and_the_sleep_counter_goes_on(dwt: Model) -> None:
    dwt.init()
    empty = dwt.differences(dwt.window(lambda: None))
    found = dwt.differences(dwt.window(lambda: dwt.run(20, sleeping=130)))
    assert found["cycles"] - empty["cycles"] == 20
    assert found["sleep"] == 130


def test_the_short_counters_are_modulo_256(dwt: Model) -> None:
    """So SPEC.md 6.2 says of longer windows; the cycle counter tells that this was one."""
    dwt.init()
    empty = dwt.differences(dwt.window(lambda: None))
    found = dwt.differences(dwt.window(lambda: dwt.run(1000, loads=300)))
    assert found["cycles"] - empty["cycles"] == 1000
    assert found["lsu"] - empty["lsu"] == 300 - 256


def test_a_dwt_that_reads_0_is_stuck_and_its_short_counters_absent(dwt: Model) -> None:
    dwt.flag("has_dwt", 0)
    assert dwt.init() == [STUCK, *[ABSENT] * 5]


def test_a_dwt_with_cycles_alone_has_no_short_counters(dwt: Model) -> None:
    dwt.flag("events_move", 0)
    assert dwt.init() == [OK, *[STUCK] * 5]


def test_a_cycle_counter_that_stands_still_takes_the_short_ones_with_it(dwt: Model) -> None:
    dwt.flag("cyccnt_moves", 0)
    assert dwt.init() == [STUCK] * 6


def test_short_counters_that_would_send_packets_to_a_debugger_are_refused(dwt: Model) -> None:
    """DWT_CTRL: 0 CYCCNTENA, 17 to 21 CPI, EXC, SLEEP, LSU, FOLD. ITM_TCR: 0 ITMENA, 3 TXENA."""
    dwt.library.test_reg_write(0xE000EDFC, 1 << 24)
    dwt.library.test_reg_write(0xE0001000, 1 << 20)
    dwt.flag("itm_tcr", 0b1001)
    assert dwt.init() == [OK, REFUSED, REFUSED, REFUSED, OK, REFUSED]
    assert dwt.library.test_reg_read(0xE0001000) == 1 << 20 | 1
    dwt.library.test_reg_write(0xE0001000, 0)
    dwt.flag("itm_tcr", 0b0001)  # its own packets alone
    assert dwt.init() == [OK] * 6


def test_a_locked_dwt_is_opened(dwt: Model) -> None:
    dwt.flag("lock", UNLOCK)
    assert dwt.init() == [OK] * 6


# -- SysTick ----------------------------------------------------------------------------------


def test_systick_counts_up_to_the_host_though_it_counts_down(systick: Model) -> None:
    assert systick.init() == [OK]
    empty = systick.differences(systick.window(lambda: None))["cycles"]
    assert systick.differences(systick.window(lambda: systick.run(777)))["cycles"] == 777 + empty


def test_systick_may_wrap_once_within_a_window(systick: Model) -> None:
    systick.init()
    empty = systick.differences(systick.window(lambda: None))["cycles"]
    systick.library.model_preset(0, 0, 0, 50)
    assert systick.differences(systick.window(lambda: systick.run(900)))["cycles"] == 900 + empty


def test_systick_goes_on_in_sleep(systick: Model) -> None:
    systick.init()
    empty = systick.differences(systick.window(lambda: None))["cycles"]
    found = systick.differences(systick.window(lambda: systick.run(10, sleeping=500)))
    assert found["cycles"] == 510 + empty


def test_the_coarse_clock_stands_beside_systick(systick: Model) -> None:
    """It is what tells how often 24 bits wrapped: 2^24 cycles are 134 ms at 125 MHz."""
    systick.init()
    systick.flag("coarse", 40)
    fields = systick.window(lambda: systick.flag("coarse", 500_040))
    assert (fields.coarse_start, fields.coarse_stop) == (40, 500_040)


def test_no_interrupt_comes_between_the_two_clocks_of_systick(systick: Model) -> None:
    systick.init()
    systick.window(lambda: None)
    assert ctypes.c_uint32.in_dll(systick.library, "model_locked_reads").value == 2
    assert ctypes.c_size_t.in_dll(systick.library, "test_locks").value == 0


def test_a_systick_that_stands_still_is_stuck(systick: Model) -> None:
    systick.flag("systick_moves", 0)
    assert systick.init() == [STUCK]


# -- the PMU of ARMv8.1-M ---------------------------------------------------------------------


def test_slots_are_off_until_they_are_selected(pmu: Model) -> None:
    assert pmu.init() == [ABSENT] * 4
    assert pmu.select(CYCLES, RETIRED) == [[OK, 0], [OK, 0]]
    assert pmu.statuses() == [OK, OK, ABSENT, ABSENT]
    assert pmu.select() == []
    assert pmu.statuses() == [ABSENT] * 4


def test_a_slot_counts_its_event_and_no_other(pmu: Model) -> None:
    pmu.init()
    pmu.select(RETIRED, 0x0C)
    found = pmu.differences(pmu.window(lambda: pmu.library.model_event(RETIRED, 1234)))
    assert found == {"slot0": 1234, "slot1": 0, "slot2": 0, "slot3": 0}


def test_an_event_that_does_not_happen_is_0_and_its_slot_is_there(pmu: Model) -> None:
    pmu.init()
    assert pmu.select(0x0C) == [[OK, 0]]
    assert pmu.differences(pmu.window(lambda: None))["slot0"] == 0


def test_a_counter_of_16_bits_goes_on_in_the_next_one(pmu: Model) -> None:
    pmu.init()
    pmu.select(RETIRED)
    found = pmu.window(lambda: [pmu.library.model_event(RETIRED, 60_000) for _ in range(5)])
    assert pmu.differences(found)["slot0"] == 300_000


def test_a_pair_of_counters_may_wrap_once_within_a_window(pmu: Model) -> None:
    pmu.init()
    pmu.select(RETIRED)
    pmu.library.model_preset(0, 0, 2**32 - 100, 0)
    found = pmu.window(lambda: pmu.library.model_event(RETIRED, 250))
    assert pmu.differences(found)["slot0"] == 250


def test_a_wrap_between_the_two_halves_is_seen(pmu: Model) -> None:
    """Each access is a cycle, so that the low half wraps right when the high one was read."""
    pmu.init()
    pmu.select(CYCLES)
    for at in range(0xFFF0, 0x10000):
        pmu.library.model_preset(0, 0, at, 0)
        fields = pmu.window(lambda: pmu.run(1000))
        assert 1000 <= pmu.differences(fields)["slot0"] <= 1040


def test_a_pmu_that_is_there_on_paper_alone_is_stuck_and_refuses_every_event(pmu: Model) -> None:
    """As QEMU's Cortex-M55: PMU_TYPE may tell of counters, and all of them read 0."""
    pmu.flag("has_pmu", 0)
    assert pmu.init() == [STUCK] * 4
    assert pmu.select(CYCLES) == [[STUCK, 0]]


def test_chain_and_codes_of_more_than_16_bits_are_no_events(pmu: Model) -> None:
    pmu.init()
    assert pmu.select(0x1E, 0x10011, CYCLES) == [[ABSENT, 0], [ABSENT, 0], [OK, 0]]


def test_more_events_than_slots_are_refused(pmu: Model) -> None:
    pmu.init()
    assert pmu.select(1, 2, 3, 4, 5) is None
