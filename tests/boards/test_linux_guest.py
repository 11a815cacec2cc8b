# SPDX-License-Identifier: Apache-2.0
"""Linux in a virtual machine, whose PMU counts: perf_event_open(2) against known work.

The tests of a board share one boot. QEMU's Cortex-A57 and Cortex-A15 have six counters beside that
of cycles, and know the events SW_INCR, INST_RETIRED and CPU_CYCLES (target/arm/helper.c). No other
machine of these tests has hardware counters.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import BoardError, DeviceFaultError, UsageError
from boardprof.base.metrics import Count
from boardprof.compat.tvm_profiler.function import profile_function
from boardprof.compat.tvm_profiler.host_collectors import PAPIMetricCollector
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.measure.doctor.check_board import linux_findings, proof_sources
from boardprof.results.report.report import Report
from boardprof_protocol.codes import CounterStatus
from tests.boards.conftest import WORKLOADS, available
from tests.boards.linux_slots import EVENTS_C, Slots
from tests.boards.witness import Witness, witness
from tests.firmware import build

OK, ABSENT, REFUSED = CounterStatus.OK, CounterStatus.ABSENT, CounterStatus.REFUSED
GUEST_C = Path(__file__).parent / "fixtures" / "guest.c"
NAMES = sorted(path.stem for path in WORKLOADS.glob("*.c"))
ROOT, USER = 0, 1000
HUNDRED_THOUSAND = 100_002
NO_COUNTER = "this CPU (or virtual machine) has no such counter"


@pytest.fixture(scope="module")
def guest() -> Iterator[Board]:
    spec = available("linux-arm64")
    proof = [Path(source) for source in proof_sources(spec)]
    firmware = build(spec, [EVENTS_C, GUEST_C, WORKLOADS, *proof])
    with firmware.open() as connected:
        yield connected


@pytest.fixture(scope="module")
def guest_of_32_bits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    """One whose QEMU counts for itself, by a plugin that owes nothing to the code under test."""
    folder = tmp_path_factory.mktemp("armhf")
    shutil.copytree(WORKLOADS, folder / "c")
    shutil.copy(GUEST_C, folder / "c")
    found = witness(available("linux-armhf"), folder, folder / "c")
    with found.board:
        yield found


@pytest.fixture
def perf(guest: Board) -> Iterator[Slots]:
    slots = Slots(guest, "perf")
    yield slots
    assert guest.functions.become(ROOT) == 0
    assert guest.functions.set_paranoid(2) == 1
    assert guest.functions.become(USER) == 0
    slots.init()


def counts(report: Report, metric: str = "instructions") -> list[int]:
    return [value.value for row in report.calls if isinstance(value := row[metric], Count)]


def test_the_agent_is_the_first_process_and_an_ordinary_user(guest: Board) -> None:
    assert guest.functions.is_user() == 1


def test_instructions_are_those_of_known_work_twice(guest: Board) -> None:
    for _ in range(2):
        report = guest.profile("hundred_thousand", repeat=5, metrics=["instructions"])
        assert counts(report) == [HUNDRED_THOUSAND] * 5


def test_what_the_kernel_does_for_a_function_is_not_counted_and_the_report_says_so(
    guest: Board,
) -> None:
    report = guest.profile("calls_the_kernel", repeat=3, metrics=["instructions"])
    assert counts(report) == [4_002] * 3
    assert report.configuration["linux-arm64 user mode only"] == (
        "instructions: what the kernel does for the function is not counted "
        "(kernel.perf_event_paranoid is above 1)"
    )
    of_pmu = "armv8_pmuv3/inst_retired/"
    report = guest.profile("calls_the_kernel", repeat=1, metrics=[of_pmu])
    assert counts(report, of_pmu) == [4_002]
    assert "linux-arm64 user mode only" in report.configuration


def test_the_ten_workloads_count_what_the_recorder_sees_executed(guest: Board) -> None:
    """The recorder watches QEMU from outside, and knows nothing of the PMU."""
    for name in NAMES:
        (executed,) = guest.hotspots(name).total
        report = guest.profile(name, repeat=2, metrics=["instructions"])
        assert counts(report) == [executed] * 2, name


def test_cycles_that_count_instructions_are_unsupported_by_every_name(guest: Board) -> None:
    why = "QEMU has no cycle model: its counter of cycles counts instructions"
    for name in ("cycles", "cycles:u", "cpu-cycles", "PAPI_TOT_CYC", "armv8_pmuv3/cpu_cycles/"):
        with pytest.raises(UsageError, match=f"{name}: {why}"):
            guest.profile("hundred_thousand", metrics=[name])


def test_a_simulated_clock_is_no_time_by_any_counter(guest: Board) -> None:
    report = guest.profile("hundred_thousand", repeat=2)
    assert not [column for column in report.calls[0] if "us" in column]


def test_events_that_the_cpu_lacks_are_unsupported_with_the_reason(perf: Slots) -> None:
    lacking = ("branches", "branch-misses", "cache-misses", "stalled-cycles-backend", "LLC-loads")
    for event in perf.select(*lacking):
        assert (event.status, event.reason) == (ABSENT, NO_COUNTER), event.name


def test_events_in_one_group_count_the_same_windows(perf: Slots) -> None:
    assert [e.status for e in perf.select("instructions", "r8", "armv8_pmuv3/inst_retired/")] == [
        OK
    ] * 3
    for first, second, third, *others in perf.measure("hundred_thousand"):
        assert (first, second, third) == (first, first, first)
        assert first >= HUNDRED_THOUSAND
        assert others == [0] * 7


def test_more_events_than_counters_take_turns_and_are_scaled_and_marked(guest: Board) -> None:
    events = [f"r{'0' * zeros}8" for zeros in range(8)]  # one event, by eight names
    report = guest.profile("spin", 10_000_000, repeat=1, warmup=0, metrics=events)
    counted = [event for event in events if event in report.calls[0]]
    assert len(counted) >= 4
    # Each round of spin loads, adds, stores and counts: six instructions.
    for event in counted:
        assert counts(report, event)[0] == pytest.approx(60_000_000, rel=0.2), event
    lacking = str(report.configuration["linux-arm64 unsupported"])
    for event in {*events} - {*counted}:  # in no window of the short empty function
        assert f"{event} (it shared a hardware counter and never got a turn)" in lacking
    told = str(report.configuration["linux-arm64 estimated"])
    assert told.endswith("ns): counted for part of the time, scaled to the whole")
    running, enabled = told.partition("(")[2].partition(" ns)")[0].replace(",", "").split(" of ")
    assert 0 < int(running) < int(enabled)


def test_root_counts_the_kernel_too_and_user_mode_apart(guest: Board, perf: Slots) -> None:
    assert guest.functions.become(ROOT) == 0
    answers = perf.select("instructions:u", "instructions:k", "instructions")
    assert [(e.status, e.name) for e in answers] == [
        (OK, "instructions:u"), (OK, "instructions:k"), (OK, "instructions"),
    ]  # fmt: skip
    for user, kernel, both, *_ in perf.measure("calls_the_kernel"):
        assert 4_002 <= user <= 4_300
        assert kernel > 1000 * 50  # of each call of the kernel
        assert both == pytest.approx(user + kernel, abs=500)


def test_a_user_may_count_what_perf_event_paranoid_says_and_the_remedy_is_told(
    guest: Board, perf: Slots
) -> None:
    faults = Slots(guest, "faults")
    found = {}
    page_faults = {}
    for level in (3, 2, 1):
        assert guest.functions.become(ROOT) == 0
        assert guest.functions.set_paranoid(level) == 1
        assert guest.functions.become(USER) == 0
        (found[level],) = perf.select("instructions")
        faults.init()
        page_faults[level] = faults.described()[0]
    remedy = "sudo sysctl kernel.perf_event_paranoid=1, or run the agent with CAP_PERFMON"
    assert found[3].status is REFUSED
    assert found[3].reason == f"kernel.perf_event_paranoid is 3: {remedy}"
    assert (found[2].status, found[2].name) == (OK, "instructions:u")
    assert (found[1].status, found[1].name) == (OK, "instructions")
    assert [page_faults[level][1:] for level in (3, 2, 1)] == [
        ("perf_event_open (see kernel.perf_event_paranoid)", REFUSED),
        ("perf_event_open, user mode only", OK),
        ("perf_event_open", OK),
    ]


def test_doctor_reads_what_linux_tells_of_itself(guest: Board) -> None:
    found = {each.subject: (each.verdict, each.text) for each in linux_findings(guest)}
    assert found["frequency"] == ("not proven", "Linux does not scale it, or does not tell how")
    assert found["core"] == (
        "not proven",
        "always 0, but other programs may run on it. Try: isolcpus=0 in the kernel's command line",
    )
    assert found["interrupts"][1].partition(" a second ")[0].replace(",", "").isdigit()
    assert found["perf"] == ("ok", "may count in user mode (perf_event_paranoid is 2)")


def test_papis_presets_count_without_libpapi_and_a_warning_says_so(guest: Board) -> None:
    collector = PAPIMetricCollector({"linux-arm64": ["PAPI_TOT_INS"]})
    with pytest.warns(UserWarning, match="has no libpapi: perf_event_open counts PAPI's presets"):
        report = profile_function(guest, collectors=[collector], func_name="hundred_thousand")()
    assert {metric.value for metric in [report["PAPI_TOT_INS"]]} == {HUNDRED_THOUSAND}


def test_papis_window_of_the_host_counts_at_least_the_function(guest: Board) -> None:
    collector = PAPIMetricCollector({guest: ["PAPI_TOT_INS", "perf::INSTRUCTIONS"]})
    with pytest.warns(UserWarning, match="has no libpapi"):
        collector.Init([guest])
    window = collector.Start(guest)
    guest.functions.hundred_thousand()
    counted = collector.Stop(window)
    assert {str(name) for name in counted} == {"PAPI_TOT_INS", "perf::INSTRUCTIONS"}
    assert all(metric.value > HUNDRED_THOUSAND for metric in counted.values())  # type: ignore[union-attr]


def test_a_guest_of_32_bits_counts_what_qemu_executes(guest_of_32_bits: Witness) -> None:
    board = guest_of_32_bits.board
    assert board.functions.is_user() == 1
    for name in ("hundred_thousand", *NAMES):
        report = board.profile(name, warmup=1, repeat=3, metrics=["instructions"])
        # QEMU also counts the kernel, if an interrupt has come.
        executed = min(guest_of_32_bits.measured(name, 3))
        assert counts(report) == [executed] * 3, name
        assert name != "hundred_thousand" or executed == HUNDRED_THOUSAND


def test_a_guest_of_32_bits_has_no_events_that_always_read_0(guest_of_32_bits: Witness) -> None:
    """Its kernel lets each event of a real Cortex-A15 be selected, and QEMU counts none."""
    board, why = guest_of_32_bits.board, "QEMU counts no such event, and Linux reads 0"
    names = ("branches", "branch-misses:u", "L1-dcache-loads", "LLC-load-misses", "PAPI_BR_INS")
    names += ("armv7_cortex_a15/st_retired/", "perf::CACHE-MISSES", "r1d")
    for name in names:
        with pytest.raises(UsageError, match=f"{name}: {why}"):
            board.profile("hundred_thousand", metrics=[name])
    of_pmu = "armv7_cortex_a15/inst_retired/"
    report = board.profile("hundred_thousand", repeat=1, metrics=[of_pmu])
    assert counts(report, of_pmu) == [HUNDRED_THOUSAND]


def test_a_division_by_zero_in_a_function_of_libgcc_ends_the_call(
    guest_of_32_bits: Witness,
) -> None:
    divides = guest_of_32_bits.board.functions.divides
    with pytest.raises(DeviceFaultError) as caught:
        divides(0)
    assert caught.value.cause == "divide"
    assert divides(5) == 2


def test_an_image_of_an_agent_that_ends_at_once_is_an_error_with_what_linux_printed(
    tmp_path: Path,
) -> None:
    image = tmp_path / "image"
    whole = build(available("linux-arm64"), [GUEST_C]).image.read_bytes()
    image.write_bytes(whole[:5000] + b"bp.describe\0")
    with pytest.raises(BoardError, match="ended before the agent in it listened") as caught:
        connect(available("linux-arm64"), image=image)
    assert "Kernel panic" in str(caught.value)
