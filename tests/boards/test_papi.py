# SPDX-License-Identifier: Apache-2.0
"""PAPI's collector on this machine: equal to perf's, and honest about what is not there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Count
from boardprof.compat.tvm_profiler.function import profile_function
from boardprof.compat.tvm_profiler.host_collectors import PAPIMetricCollector
from boardprof.compat.tvm_profiler.program import Program
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof_protocol.codes import CounterStatus
from tests.boards.conftest import available
from tests.boards.linux_slots import EVENTS_C, Slots, reader, working_slots
from tests.firmware import build
from tests.support import requires_tool

OK, ABSENT = CounterStatus.OK, CounterStatus.ABSENT
SDE_C = EVENTS_C.parent / "sde_events.c"


@pytest.fixture(scope="module")
def image() -> Path:
    requires_tool("papi_avail", package="papi-tools")
    return build(available("linux"), [EVENTS_C, SDE_C]).image


@pytest.fixture
def board(image: Path) -> Iterator[Board]:
    with connect(available("linux"), image=image) as connected:
        yield connected


@pytest.fixture
def papi(board: Board) -> Slots:
    return working_slots(board, "papi", "perf::PAGE-FAULTS")


def test_nothing_counts_until_something_is_selected(papi: Slots) -> None:
    assert papi.described() == [(f"slot{i}", "", ABSENT) for i in range(10)]


def test_page_faults_are_those_that_getrusage_and_perf_count(board: Board, papi: Slots) -> None:
    perf = Slots(board, "perf")
    papi.select("perf::PAGE-FAULTS", "perf::MINOR-FAULTS")
    perf.select("page-faults", "minor-faults")
    assert papi.call("touch_pages", 64) == 64
    for of_papi, of_perf in reader(board, [papi, perf], "touch_pages", 64)(5):
        assert of_papi == [64, 64, 0, 0, 0, 0, 0, 0, 0, 0]
        assert of_perf == [64, 64, 0, 0, 0, 0, 0, 0, 0, 0]


def test_slots_that_are_selected_are_named_by_their_events(papi: Slots) -> None:
    papi.select("perf::PAGE-FAULTS", "perf::TASK-CLOCK")
    assert papi.described()[:3] == [
        ("slot0", "perf::PAGE-FAULTS", OK),
        ("slot1", "perf::TASK-CLOCK", OK),
        ("slot2", "", ABSENT),
    ]


def test_the_cpus_time_is_perfs(board: Board, papi: Slots) -> None:
    perf = Slots(board, "perf")
    papi.select("perf::TASK-CLOCK")
    perf.select("task-clock")
    samples = reader(board, [papi, perf], "spin", 2_000_000)(5)
    # Between the readings of both this machine may do something else, but not each time.
    times = [(of_papi[0], of_perf[0]) for of_papi, of_perf in samples]
    nearest = min(times, key=lambda both: abs(both[0] - both[1]))
    assert nearest[0] == pytest.approx(nearest[1], rel=0.2)


@pytest.mark.parametrize("name", ["", "page-flaws", "PAPI_NONSENSE", "x" * 300])
def test_what_is_no_event_is_absent(papi: Slots, name: str) -> None:
    (event,) = papi.select(name)
    assert event.status is ABSENT
    assert event.reason


def test_init_switches_all_off(papi: Slots) -> None:
    papi.select("perf::PAGE-FAULTS")
    papi.init()
    assert {status for _, _, status in papi.described()} == {ABSENT}


def test_presets_and_native_events_are_listed_each_with_its_state(papi: Slots) -> None:
    events = list(papi.events())
    by_name = {event.name: event for event in events}
    assert by_name["perf::PAGE-FAULTS"].status is OK
    assert by_name["PAPI_TOT_INS"].description == "Instructions completed"
    assert all((event.reason == "") is (event.status is OK) for event in events)


def test_a_preset_is_offered_only_if_it_can_be_added(papi: Slots) -> None:
    """Of CPUs that it knows, PAPI lists presets even where nobody can count them."""
    listed = [event for event in papi.events() if event.name.startswith("PAPI_")]
    assert len(listed) > 50
    for event in [event for event in listed if event.status is OK][:3]:
        assert papi.select(event.name)[0].status is OK
    for event in [event for event in listed if event.status is not OK][:3]:
        assert papi.select(event.name)[0].status is event.status


### Software-defined events ###


def test_a_librarys_own_event_counts_beside_the_kernels(papi: Slots) -> None:
    assert papi.call("register_packets") == 0, "libsde.so.1 is missing (Debian package libsde1)"
    own, faults = papi.select("sde:::radio::packets", "perf::PAGE-FAULTS")
    assert (own.status, faults.status) == (OK, OK)
    assert [counts[0] for counts in papi.measure("send_packets", 1234)] == [1234] * 5
    assert "sde:::radio::packets" in {event.name for event in papi.events()}


def test_an_event_that_no_library_has_registered_is_absent_and_not_zero(papi: Slots) -> None:
    own, faults = papi.select("sde:::nobody::nothing", "perf::PAGE-FAULTS")
    assert (own.status, faults.status) == (ABSENT, OK)
    assert own.reason == "no library has registered it yet: call what does, then select it"
    assert papi.measure("touch_pages", 3, repeat=1) == [[0, 3, 0, 0, 0, 0, 0, 0, 0, 0]]


### Without the library ###


def test_without_libpapi_all_is_refused_and_the_package_is_named(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the library's names that are none come first on the loader's path."""
    for major in (5, 6, 7):
        for minor in ("", *(f".{n}" for n in range(10))):
            (tmp_path / f"libpapi.so.{major}{minor}").write_text("no library")
    (tmp_path / "libpapi.so").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with connect(available("linux"), image=image) as board:
        papi = Slots(board, "papi")
        (event,) = papi.select("perf::PAGE-FAULTS")
        assert event.status is CounterStatus.REFUSED
        assert os.strerror(event.error) == "Can not access a needed shared library"
        package = "libpapi is not installed where the agent runs: sudo apt install papi-tools"
        assert event.reason == package
        assert [(e.name, e.reason) for e in papi.events()] == [("", package)]
        assert papi.call("touch_pages", 3) == 3


### The host's collector, with TVM's name ###


def test_profile_function_counts_papis_events_over_the_wire(board: Board, papi: Slots) -> None:
    collector = PAPIMetricCollector({board: ["perf::PAGE-FAULTS", "perf::MINOR-FAULTS"]})
    profiled = profile_function(board, collectors=[collector], func_name="touch_pages")
    counts = profiled(64)
    assert counts["perf::PAGE-FAULTS"] == Count(64)
    assert counts["perf::MINOR-FAULTS"] == Count(64)


def test_profile_function_has_papis_events_counted_by_papi(board: Board, papi: Slots) -> None:
    """Perf knows `minor-faults` as well."""
    collector = PAPIMetricCollector({board: ["minor-faults"]})
    assert collector.metrics(board) == ["papi.minor-faults"]
    (only,) = board.offer.passes(collector.metrics(board))
    assert only.events == {"papi": ("minor-faults",)}
    assert profile_function(board, collectors=[collector], func_name="touch_pages")(64)[
        "minor-faults"
    ] == Count(64)


def test_profile_function_has_perfs_own_events_counted_by_perf(board: Board) -> None:
    counts = profile_function(board, collectors=["perf"], func_name="touch_pages")(64)
    assert {"context-switches", "cpu-migrations"} <= counts.keys()


def test_a_device_may_be_named_and_others_are_left_out(board: Board, papi: Slots) -> None:
    assert PAPIMetricCollector({"linux": ["perf::FAULTS"]}).metric_names(board) == ["perf::FAULTS"]
    twice = {board: ["perf::FAULTS"], "linux": ["perf::FAULTS", "perf::MINOR-FAULTS"]}
    assert PAPIMetricCollector(twice).metric_names(board) == ["perf::FAULTS", "perf::MINOR-FAULTS"]
    elsewhere = PAPIMetricCollector({"qemu-rv32": ["perf::FAULTS"]})
    with pytest.warns(UserWarning, match="named for qemu-rv32, which is not profiled") as warned:
        elsewhere.Init([board])
    assert warned[0].filename == __file__  # the user's line
    assert elsewhere.Start(board) is None


def test_a_device_that_there_is_not_is_refused(board: Board) -> None:
    for name, meant in (("linx", "linux"), ("nativ", "native")):
        collector = PAPIMetricCollector({name: ["perf::FAULTS"]})
        with pytest.raises(UnknownNameError, match=f"no board '{name}'; did you mean '{meant}'"):
            profile_function(board, None, [collector], "touch_pages")
        program = Program(board)
        program.add("touch_pages", 4)
        with pytest.raises(UnknownNameError, match=f"no board '{name}'"):
            program.profile([collector])
    with pytest.raises(UsageError, match="metric_names: 5 is not a board"):
        PAPIMetricCollector({5: ["perf::FAULTS"]})
    with pytest.raises(UsageError, match="'perf::FAULTS' is not a list of events"):
        PAPIMetricCollector({board: "perf::FAULTS"})
    with pytest.raises(UsageError, match="metric_names: 5 is not a list of events"):
        PAPIMetricCollector({board: 5})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="is not a dict of events by board"):
        PAPIMetricCollector(["perf::FAULTS"])  # type: ignore[arg-type]


def test_boards_without_papi_are_left_out_if_another_one_has_it(board: Board, papi: Slots) -> None:
    with connect("native") as other:
        for collector in (
            PAPIMetricCollector({board: ["perf::PAGE-FAULTS"]}),
            PAPIMetricCollector(),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of TVM's events that this machine lacks
                collector.Init([other, board])
            assert collector.Start(other) is None


def test_init_start_and_stop_count_what_the_host_does_between(board: Board, papi: Slots) -> None:
    collector = PAPIMetricCollector({board: ["perf::MAJOR-FAULTS", "perf::PAGE-FAULTS"]})
    collector.Init([board])
    board.functions.touch_pages(64)
    window = collector.Start(board)
    board.functions.touch_pages(64)
    counts = collector.Stop(window)
    assert list(counts) == ["perf::MAJOR-FAULTS", "perf::PAGE-FAULTS"]
    faults = counts["perf::PAGE-FAULTS"]
    assert isinstance(faults, Count)
    assert 64 <= faults.value < 100  # the agent's own handling of two calls is in it


def test_a_profile_between_init_and_start_does_not_change_what_is_counted(board: Board) -> None:
    assert board.functions.register_packets() == 0, "libsde.so.1 is missing (package libsde1)"
    collector = PAPIMetricCollector({board: ["sde:::radio::packets"]})
    collector.Init([board])
    board.profile("send_packets", 5, repeat=1)  # switches PAPI's slots off
    window = collector.Start(board)
    board.functions.send_packets(1234)
    assert collector.Stop(window) == {"sde:::radio::packets": Count(1234)}


def test_a_window_is_stopped_once(board: Board, papi: Slots) -> None:
    collector = PAPIMetricCollector({board: ["perf::PAGE-FAULTS"]})
    collector.Init([board])
    window = collector.Start(board)
    collector.Stop(window)
    with pytest.raises(UsageError, match="is not open"):
        collector.Stop(window)
    with pytest.raises(UsageError, match="was not returned by Start"):
        collector.Stop(None)


def test_an_event_that_was_named_and_is_not_there_is_an_error(board: Board, papi: Slots) -> None:
    collector = PAPIMetricCollector({board: ["perf::PAGE-FAULTS", "no::SUCH"]})
    with pytest.raises(UsageError, match="cannot count no::SUCH on linux: Event does not exist"):
        collector.Init([board])


def test_more_events_than_papi_counts_at_once_are_an_error(board: Board, papi: Slots) -> None:
    collector = PAPIMetricCollector({board: [f"event{number}" for number in range(11)]})
    with pytest.raises(UsageError, match="11 events are more than the 10"):
        collector.Init([board])


def test_of_tvms_defaults_those_that_are_not_there_are_left_out_with_a_warning(
    board: Board, papi: Slots
) -> None:
    cycles = papi.select("perf::CYCLES")[0]
    stalled = papi.select("perf::STALLED-CYCLES-BACKEND")[0]
    collector = PAPIMetricCollector()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names = collector.metric_names(board)
    told = " ".join(str(warning.message) for warning in caught)
    for event in (cycles, stalled):
        assert (event.name in names) is (event.status is OK)
        assert (f"{event.name}: {event.reason}" in told) is (event.status is not OK)


def test_where_none_of_tvms_defaults_is_there_the_clock_alone_is_left(
    board: Board, papi: Slots
) -> None:
    collector = PAPIMetricCollector()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = collector.metric_names(board)
        metrics = profile_function(board, None, [collector], "touch_pages")(3)
    assert {*metrics} - {"Perturbation (%)", "Stack (bytes)"} == {"Duration (us)", *names}


def test_a_board_for_which_no_event_of_papis_is_named_is_timed(board: Board, papi: Slots) -> None:
    collector = PAPIMetricCollector({"native": ["perf::PAGE-FAULTS"]})
    with pytest.warns(UserWarning, match="named for native, which is not profiled"):
        metrics = profile_function(board, None, [collector], "touch_pages")(3)
    assert {*metrics} - {"Perturbation (%)", "Stack (bytes)"} == {"Duration (us)"}


def test_a_board_without_papi_says_so(image: Path) -> None:
    with connect("native") as board, pytest.raises(UsageError, match="has no collector 'papi'"):
        PAPIMetricCollector().Init([board])
