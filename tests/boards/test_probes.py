# SPDX-License-Identifier: Apache-2.0
"""Probes on boards: what firmware records while it runs, and what of it is the code's own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boardprof.base.errors import BuildError, DeviceResetError, UnknownNameError, UsageError
from boardprof.base.metrics import Count
from boardprof.jobs.run import probe_run
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.results.probes.heap import heap_of
from boardprof.results.probes.run import ProbeRun
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import BoardSpec
from boardprof_protocol.codes import TraceId
from tests.boards.conftest import available
from tests.firmware import build

FIXTURES = Path(__file__).parent / "fixtures" / "probes"
BOARDS = ("qemu-rv32", "qemu-cortex-m4")
CLOCKS = {
    "hifive1": ("instructions", "minstret"),
    "ibex-rtl": ("cycles", "mcycle"),
    "microbit": ("ticks", "TIMER0"),
    "netduinoplus2": ("ticks", "SysTick"),
    "qemu-cortex-a53": ("instructions", "PMEVCNTR0_EL0, event INST_RETIRED"),
    "qemu-cortex-m3": ("ticks", "FPGAIO COUNTER"),
    "qemu-cortex-m33": ("ticks", "FPGAIO COUNTER"),
    "qemu-cortex-m55": ("ticks", "FPGAIO COUNTER"),
    "qemu-cortex-m7": ("ticks", "FPGAIO COUNTER"),
    "qemu-rv64": ("instructions", "minstret"),
}
"""Other boards with probes that run here, and the unit and source of their trace clocks."""

SMALL = {"trace": 8192, "trace_at": 0}
"""A ring that fills up, also on boards whose own has megabytes."""

Image = Callable[[str], Path]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Return what builds running.c, which has a main of its own, for a board."""
    made: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in made:
            spec = available(name)
            folder = tmp_path_factory.mktemp("probes") / "board"
            shutil.copytree(spec.folder, folder)
            shutil.copy(FIXTURES / "running.c", folder)
            own = replace(spec.build, sources=(*spec.build.sources, "running.c"), own_main=True)
            made[name] = build(replace(spec, folder=folder, build=own)).image
        return made[name]

    return of


def configured(name: str, config: dict[str, int]) -> BoardSpec:
    spec = available(name)
    return replace(spec, build=replace(spec.build, config={**spec.build.config, **config}))


@pytest.fixture(scope="module", params=BOARDS)
def calls(request: pytest.FixtureRequest) -> Iterator[Board]:
    spec = configured(request.param, SMALL)
    with build(spec, [FIXTURES / "calls.c"], BuildOptions()).open() as board:
        yield board


def nets(recording: ProbeRun, name: str) -> list[int]:
    [line] = recording.timelines().values()
    number = next(each.number for each in recording.names.names if each.text == name)
    found: list[int] = line.ranges.net[line.ranges.of(number)].tolist()
    return found


def net_of(board: Board, function: str, n: int) -> int:
    """What a call counts by the board's own collector, in instructions."""
    report = board.profile(function, n, warmup=1, repeat=1, metrics=["instructions"])
    value = report.calls[0]["instructions"]
    assert isinstance(value, Count)
    return value.value


# -- in calls -------------------------------------------------------------------------------------


def _function(folder: Path, name: str, *ranges: str) -> Path:
    """A file with a function that has ranges; only their names differ from file to file."""
    lines = "".join(f"    BP_RANGE_BEGIN({r});\n    BP_RANGE_END({r});\n" for r in ranges)
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.c"
    file.write_text(
        '#include <stdint.h>\n#include "boardprof/bp_trace.h"\n'
        f"uint32_t {name}(uint32_t n);\nuint32_t {name}(uint32_t n) {{\n{lines}    return n;\n}}\n"
    )
    return file


@pytest.mark.parametrize("name", ["native", "linux", *BOARDS])
def test_names_of_another_image_are_refused_even_where_its_code_is_the_same(
    name: str, tmp_path: Path
) -> None:
    spec = available(name)
    one, two = _function(tmp_path, "one", "left"), _function(tmp_path, "two", "right")
    others = {
        "renamed": [_function(tmp_path / "r", "one", "links"), two],
        "exchanged": [
            _function(tmp_path / "e", "one", "right"),
            _function(tmp_path / "e", "two", "left"),
        ],
        "added": [_function(tmp_path / "a", "one", "more", "left"), two],
        "linked in another order": [two, one],
    }
    if name != "native":  # each is a build of its own
        others = {"exchanged": others["exchanged"]}
    with build(spec, [one, two], BuildOptions()).open() as board:
        right = board.image
        for each in others.values():
            board.link.image.file = build(spec, each, BuildOptions()).image
            with pytest.raises(UsageError, match="are not those of the firmware on") as caught:
                board.tracing()
            assert "flash this image" in str(caught.value)
        board.link.image.file = right
        with board.tracing() as recorder:
            board.functions.two(1)
        recording = recorder.recording()
        assert len(nets(recording, "right")) == 1
        assert len(nets(recording, "left")) == 0


def test_a_range_grows_by_what_the_code_in_it_takes_to_the_instruction() -> None:
    """A pass also counts what stands between the two probes besides the call: a few instructions
    that pass arguments. They are the same for each n."""
    with build(available("qemu-rv32"), [FIXTURES / "calls.c"], BuildOptions()).open() as board:
        truth = {n: net_of(board, "loop", n) for n in (0, 1, 7, 1000)}
        with board.tracing() as recorder:
            for n in truth:
                board.functions.in_range(n)
    found = dict(zip(truth, nets(recorder.recording(), "work"), strict=True))
    besides = {found[n] - truth[n] for n in truth}
    assert len(besides) == 1
    assert 2 <= besides.pop() <= 8
    assert set(nets(recorder.recording(), "nothing")) <= {0, 1, 2}


def test_the_probes_in_a_range_do_not_count(calls: Board) -> None:
    with calls.tracing() as recorder:
        calls.functions.with_probes(40)
        calls.functions.without_probes(40)
    found = recorder.recording()
    [with_probes], [without] = nets(found, "probed"), nets(found, "plain")
    # A probe's cost is known to a quarter of a tick. Each pass tests twice whether to record.
    unknown = 0 if calls.spec.name == "qemu-rv32" else 40 * 2 / 4
    assert without - unknown < with_probes < without + 40 * 2 * 8
    assert found.timelines()[0].diagnostics.dropped == 0


def test_values_come_as_they_were(calls: Board) -> None:
    with calls.tracing() as recorder:
        calls.functions.values(-5)
    found = recorder.recording()
    events = found.timelines()[0].events
    by_name = {
        found.names.by_number[number].text: value
        for number, value in zip(events.number.tolist(), events.value.tolist(), strict=True)
    }
    assert by_name["signed_value"] == 2**32 - 5
    assert by_name["unsigned_value"] == 4_000_000_000
    assert by_name["float_value"] == 0x3FC00000  # 1.5
    assert by_name["small_value"] == 200
    kinds = {each.text: each.kind.name for each in found.names.names if "_value" in each.text}
    assert kinds == {
        "signed_value": "I32",
        "unsigned_value": "U32",
        "float_value": "F32",
        "small_value": "U32",
    }


def test_the_statistics_are_those_of_the_events(calls: Board) -> None:
    with calls.tracing(statistics=True) as recorder:
        for n in (3, 50, 7, 7):
            calls.functions.in_range(n)
    found = recorder.recording()
    number = next(each.number for each in found.names.names if each.text == "work")
    [slot] = [each for each in found.slots if each.number == number]
    own = nets(found, "work")
    assert (slot.count, slot.lost) == (4, 0)
    taken = [slot.least - found.costs.slot, slot.most - found.costs.slot]
    # The code between the probes differs by some instructions from that of the calibration.
    most = 12 if calls.spec.name == "qemu-rv32" else 20  # 12 instructions in ticks
    assert np.allclose(taken, [min(own), max(own)], atol=most)
    assert abs(slot.sum - 4 * found.costs.slot - sum(own)) <= 4 * most


def test_passes_that_overlap_are_not_in_the_statistics(calls: Board) -> None:
    with calls.tracing(statistics=True) as recorder:
        calls.functions.recursive(3)
        calls.functions.recursive(0)
    found = recorder.recording()
    number = next(each.number for each in found.names.names if each.text == "again")
    [slot] = [each for each in found.slots if each.number == number]
    assert (slot.count, slot.lost) == (1, 4)
    assert len(nets(found, "again")) == 5


@pytest.mark.parametrize("name", ["native", *BOARDS])
def test_a_range_of_templates_is_one_range(name: str) -> None:
    board = build(available(name), [FIXTURES / "templates.cpp"], BuildOptions()).open()
    with board, board.tracing(statistics=True) as recorder:
        assert board.functions.mixed(6) == 12 + 12 + 3
    recording = recorder.recording()
    passes = {each: len(nets(recording, each)) for each in ("twice", "add", "step")}
    assert passes == {"twice": 3, "add": 2, "step": 1}
    texts = {each.number: each.text for each in recording.names.names}
    slots = {texts[slot.number]: (slot.count, slot.lost) for slot in recording.slots}
    # The first pass of `twice` has the other two in it.
    assert slots == {"twice": (0, 3), "add": (2, 0), "step": (1, 0)}


def test_more_events_than_the_ring_holds_are_counted(calls: Board) -> None:
    with calls.tracing() as recorder:
        calls.functions.marks(5000)
    [line] = recorder.recording().timelines().values()
    recorded = line.events.number != TraceId.DROPPED
    assert line.dropped + int(recorded.sum()) == 5000 + 1
    assert line.dropped > 2000


@pytest.mark.parametrize("mode", ["drop", "stop"])
def test_the_costs_of_probes_are_known_if_the_firmware_has_filled_the_ring_before(
    calls: Board, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with calls.tracing(mode=mode) as recorder:
        quiet = recorder.costs
    invoke = calls.session.invoke

    def busy(function: int, name: str, *arguments: object) -> object:
        if name == "bp.trace_calibrate":
            calls.functions.marks(5000)
        return invoke(function, name, *arguments)

    monkeypatch.setattr(calls.session, "invoke", busy)
    with calls.tracing(mode=mode) as recorder:
        assert recorder.costs.mark == pytest.approx(quiet.mark, abs=1)
        assert recorder.costs.range == pytest.approx(quiet.range, abs=1)
        assert recorder.costs.mark > 5


def test_a_ring_without_room_to_measure_what_probes_cost_is_refused() -> None:
    small = configured("qemu-rv32", {**SMALL, "trace": 64})
    with build(small, [FIXTURES / "calls.c"], BuildOptions()).open() as board:
        with pytest.raises(UsageError, match="cannot be measured: its ring has no room") as refused:
            board.tracing().__enter__()
        assert "BP_CFG_TRACE" in (refused.value.hint or "")
        assert board.functions.loop(3) == 3


def test_nothing_is_recorded_unless_it_is_asked_for(calls: Board) -> None:
    calls.functions.marks(100)
    with calls.tracing() as recorder:
        pass
    assert recorder.recording().timelines()[0].dropped == 0
    assert len(recorder.recording().timelines()[0].events) == 0


def test_a_ring_that_is_overwritten_has_the_last_events(calls: Board) -> None:
    with calls.tracing(mode="overwrite"):
        calls.functions.marks(5000)
        calls.functions.in_range(9)
    found = calls.kept_events()
    events = found.timelines()[0].events
    assert len(events) == 8192 // 8
    assert len(nets(found, "work")) == 1
    with calls.tracing() as recorder:
        calls.functions.in_range(9)
    tolerance = 0 if calls.spec.name == "qemu-rv32" else 2
    assert abs(nets(found, "work")[0] - nets(recorder.recording(), "work")[0]) <= tolerance
    with pytest.raises(UsageError, match="has kept no events: its rings are empty, or damaged"):
        calls.kept_events()


@pytest.mark.parametrize("name", BOARDS)
def test_the_last_events_before_a_reset_are_read_after_it(name: str) -> None:
    with build(available(name), [FIXTURES / "calls.c"], BuildOptions()).open() as board:
        with board.tracing(mode="overwrite"):
            board.functions.marks(3)
            with pytest.raises(DeviceResetError):
                board.functions.reset()
        board.session.open()
        found = board.kept_events()
    names = found.names.by_number
    events = found.timelines()[0].events
    assert [names[n].text for n in events.number.tolist()] == ["many", "many", "many", "last"]


def test_a_board_that_was_reset_ends_a_long_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_run, "_SILENCE_S", 0.2)
    board = build(available("qemu-rv32"), [FIXTURES / "calls.c"], BuildOptions()).open()
    ended = pytest.raises(DeviceResetError, match="the recording")
    with ended, board, board.tracing() as recorder:
        with suppress(DeviceResetError):
            board.functions.reset()
        probe_run._wait(60.0, recorder)


@pytest.mark.parametrize(("word", "bit"), [(0, 0), (1, 31), (1000, 7), (2047, 15)])
def test_a_ring_with_one_wrong_bit_is_refused(calls: Board, word: int, bit: int) -> None:
    with calls.tracing(mode="overwrite"):
        calls.functions.marks(2000)
        calls.functions.flip(word, bit)
    with pytest.raises(UsageError, match="its rings are empty, or damaged"):
        calls.kept_events()


def test_an_unknown_mode_is_named(calls: Board) -> None:
    with pytest.raises(UnknownNameError, match="mode"):
        calls.tracing(mode="keep")


# -- on each other board --------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLOCKS)
def test_other_boards_record_the_same(name: str) -> None:
    with build(available(name), [FIXTURES / "calls.c"], BuildOptions()).open() as board:
        with board.tracing(statistics=True) as recorder:
            for n in (0, 1000, 2000):
                board.functions.in_range(n)
            board.functions.values(-5)
            board.functions.recursive(3)
        found = recorder.recording()
        with board.tracing() as second:
            board.functions.marks(5000)
        [line] = second.recording().timelines().values()
        holds_all = "trace_at" in board.spec.build.config
    assert (found.clock.unit, found.clock.source) == CLOCKS[name]
    number = {each.text: each.number for each in found.names.names}
    events = found.timelines()[0].events
    values = dict(zip(events.number.tolist(), events.value.tolist(), strict=True))
    assert values[number["signed_value"]] == 2**32 - 5
    assert values[number["float_value"]] == 0x3FC00000  # 1.5
    none, thousand, two_thousand = nets(found, "work")
    assert two_thousand - none == pytest.approx(2 * (thousand - none), rel=0.01)
    slots = {each.number: each for each in found.slots}
    assert (slots[number["work"]].count, slots[number["work"]].lost) == (3, 0)
    assert (slots[number["again"]].count, slots[number["again"]].lost) == (0, 4)
    recorded = int((line.events.number != TraceId.DROPPED).sum())
    assert line.dropped + recorded == 5000 + 1
    assert line.dropped == 0 if holds_all else line.dropped > 2000


def test_an_emulated_board_keeps_each_of_half_a_million_events_of_a_call() -> None:
    board = build(available("qemu-cortex-m4"), [FIXTURES / "calls.c"], BuildOptions()).open()
    with board, board.tracing() as recorder:
        board.functions.marks(552_738)
    [line] = recorder.recording().timelines().values()
    names = recorder.recording().names.by_number
    numbers, counts = np.unique(line.events.number, return_counts=True)
    found = {names[n].text: c for n, c in zip(numbers.tolist(), counts.tolist(), strict=True)}
    assert (found, line.dropped) == ({"many": 552_738, "last": 1}, 0)


FIVE = ("hifive1", "qemu-cortex-a53", "qemu-cortex-m4", "qemu-cortex-m7", "qemu-rv32")


@pytest.mark.parametrize("name", FIVE)
def test_what_takes_three_times_as_long_has_three_times_the_ticks_on_five_boards(name: str) -> None:
    firmware = build(available(name), [FIXTURES / "calls.c"], BuildOptions())
    with firmware.open() as board, board.tracing() as recorder:
        board.functions.three_to_one(20)
    found = recorder.recording()
    once, thrice = nets(found, "once"), nets(found, "thrice")
    assert (len(once), len(thrice)) == (20, 20)
    assert np.array(thrice) / np.array(once) == pytest.approx(np.full(20, 3), rel=0.01)


def test_a_cycle_counter_that_stands_still_is_refused() -> None:
    """QEMU's DWT says that it has CYCCNT, which never moves."""
    spec = configured("qemu-cortex-m4", {**SMALL, "trace_clock": 0})
    firmware = build(spec, [FIXTURES / "calls.c"], BuildOptions())
    with firmware.open() as board, pytest.raises(UsageError) as caught:
        board.tracing()
    assert "The trace clock of qemu-cortex-m4 does not count: DWT CYCCNT." in str(caught.value)
    assert "BP_CFG_TRACE_CLOCK=1" in str(caught.value)


def test_a_core_without_a_cycle_counter_says_what_to_set() -> None:
    spec = configured("microbit", {"trace_clock": 0})
    with pytest.raises(BuildError, match="no cycle counter: set BP_CFG_TRACE_CLOCK=1"):
        build(spec, [FIXTURES / "calls.c"], BuildOptions())


@pytest.mark.parametrize("name", ["linux", "native"])
def test_programs_of_this_machine_record_in_nanoseconds(name: str) -> None:
    with build(available(name), [FIXTURES / "calls.c"], BuildOptions()).open() as board:
        with board.tracing(statistics=True) as recorder:
            began = time.monotonic_ns()
            board.functions.in_range(50_000_000)
            most = time.monotonic_ns() - began
            board.functions.values(-5)
            board.functions.recursive(3)
        found = recorder.recording()
        with board.tracing() as second:
            board.functions.marks(50_000)
        [line] = second.recording().timelines().values()
    assert (found.clock.unit, found.clock.source) == ("ticks", "CLOCK_MONOTONIC_RAW")
    assert found.clock.hz == 1_000_000_000
    number = {each.text: each.number for each in found.names.names}
    events = found.timelines()[0].events
    values = dict(zip(events.number.tolist(), events.value.tolist(), strict=True))
    assert values[number["signed_value"]] == 2**32 - 5
    [work] = nets(found, "work")
    assert 50_000_000 // 10 < work < most  # no core runs ten passes of the loop in a nanosecond
    slots = {each.number: each for each in found.slots}
    assert (slots[number["work"]].count, slots[number["again"]].lost) == (1, 4)
    recorded = int((line.events.number != TraceId.DROPPED).sum())
    assert (line.dropped + recorded, line.dropped > 2000) == (50_000 + 1, True)


@pytest.mark.parametrize("name", ["linux", "native"])
def test_a_pass_may_take_longer_than_the_clocks_32_bits(name: str, tmp_path: Path) -> None:
    """They are nanoseconds, so they wrap after 4.3 s."""
    source = tmp_path / "nap.c"
    source.write_text(
        '#include <stdint.h>\n#include <time.h>\n#include "boardprof/bp_trace.h"\n'
        "void nap(uint32_t ms);\nvoid nap(uint32_t ms) {\n"
        "    struct timespec time = {ms / 1000, ms % 1000 * 1000000};\n"
        "    BP_RANGE(nap);\n    (void)nanosleep(&time, 0);\n}\n"
    )
    with build(available(name), [source], BuildOptions()).open() as board:
        with board.tracing(statistics=True) as recorder:
            began = time.monotonic_ns()
            board.functions.nap(4600)
            most = time.monotonic_ns() - began
            board.functions.nap(1)
        found = recorder.recording()
    long, short = nets(found, "nap")
    assert 4_600_000_000 <= long <= most
    assert 1_000_000 <= short < 1_000_000_000
    [slot] = found.slots
    assert (slot.count, slot.lost, slot.too_long) == (1, 1, True)
    assert slot.least == slot.most == slot.sum < 1_000_000_000


@pytest.mark.parametrize("name", ["linux"])
def test_threads_and_signal_handlers_lose_no_event_without_counting_it(name: str) -> None:
    """Nor do they wait for ever. The handler makes six events: a mark, a range, and an allocation
    of three records.
    """
    with build(available(name), [FIXTURES / "threads.c"], BuildOptions()).open() as board:
        with board.tracing() as recorder:
            made = board.functions.threads(200_000)
        [line] = recorder.recording().timelines().values()
    beside = (TraceId.DROPPED, TraceId.HIGH)  # HIGH is a part of an event
    recorded = int((~np.isin(line.events.number, beside)).sum())
    assert recorded + line.dropped == made
    assert recorded > 8_000  # as many as the ring holds


# -- in running firmware ------------------------------------------------------------------------


def test_events_that_a_ring_with_the_last_ones_has_lost_are_told_and_not_told_again() -> None:
    """Of 200,000 events some find the ring locked: they are lost in each mode."""
    firmware = build(available("linux"), [FIXTURES / "threads.c"], BuildOptions())
    with firmware.open() as board:
        for _ in range(10):
            with board.tracing(mode="overwrite"):
                board.functions.threads(4000)
            [line] = board.kept_events().timelines().values()
            with board.tracing() as recorder:
                pass
            assert recorder.recording().timelines()[0].dropped == 0
            if line.diagnostics.dropped > 0:
                return
        pytest.fail("no event was lost")


@pytest.mark.parametrize("name", ["linux", "native", "qemu-cortex-a53", "qemu-rv64"])
def test_addresses_above_4_gib_are_recorded_whole(name: str, tmp_path: Path) -> None:
    spec = available(name)
    if name == "qemu-rv64":  # the RAM of this machine may be larger, and code be far up in it
        folder = tmp_path / "board"
        shutil.copytree(spec.folder, folder)
        script = (folder / "link.ld").read_text().replace("{ text", "{ far PT_LOAD; text")
        far = ".far 0x100000000 : { *(.far) } :far\n    .text : {"
        (folder / "link.ld").write_text(script.replace(".text : {", far, 1))
        command = [*spec.launch.command, "-m", "4G"]
        spec = replace(spec, folder=folder, launch=replace(spec.launch, command=command))
    with build(spec, [FIXTURES / "addresses.c"], BuildOptions()).open() as board:
        with board.tracing() as recorder:
            assert board.functions.whole_addresses() == 7
        [line] = recorder.recording().timelines().values()
    tasks = line.events.whole(np.flatnonzero(line.events.number == TraceId.TASK))
    assert [f"{task:#x}" for task in tasks] == ["0x580000100", "0x680000100", "0x80000100", "0x0"]
    assert set(line.task_ticks()) == {-1, 0x580000100, 0x680000100, 0x80000100, 0}
    heap = heap_of([line])
    assert heap is not None
    assert heap.live.tolist() == [100, 4294967428, 4294967328]
    assert (heap.freed, heap.lost) == (1, 0)
    callers = [site.caller for site in heap.sites]
    assert len(callers) == 2
    if name == "qemu-rv64":
        assert all(0x100000000 < caller < 0x100000100 for caller in callers)


@pytest.mark.parametrize("name", BOARDS)
def test_running_firmware_shows_3_to_1_where_it_is_3_to_1(name: str, image: Image) -> None:
    with connect(name, image=image(name)) as board, board.tracing() as recorder:
        while recorder.progress[0] < 3000:
            recorder.read(0.05)
        recorder.stop()
        found = recorder.recording()
    control, filtered = nets(found, "control"), nets(found, "filter")
    assert min(len(control), len(filtered)) > 100
    spread = 0 if name == "qemu-rv32" else 5  # ticks; an instruction takes 1.6
    assert max(control) - min(control) <= spread
    assert max(filtered) - min(filtered) <= spread
    assert np.mean(filtered) / np.mean(control) == pytest.approx(3, rel=0.01)
