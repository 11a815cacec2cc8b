# SPDX-License-Identifier: Apache-2.0
"""A profile of the host's calls, with what the probes of the boards record during them."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.metrics import Count
from boardprof.compat.torch.host_events import record_function
from boardprof.compat.torch.profiler import profile
from boardprof.compat.torch.settings import NotSupportedByAgentError
from boardprof.measure.board.board import Board
from boardprof.target.build.build_options import BuildOptions
from tests.boards.conftest import available
from tests.firmware import build

SOURCE = Path(__file__).parent / "fixtures" / "probes" / "network.c"
HEAP = SOURCE.with_name("heap.c")


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    with build(available("qemu-rv32"), [SOURCE], BuildOptions()).open() as opened:
        yield opened


def test_ranges_on_the_board_are_events_within_their_call(board: Board, tmp_path: Path) -> None:
    with profile(experimental_config={"device_ranges": True}) as prof:
        board.functions.network()
        board.functions.network()
    events = prof.events()
    once = [
        ("network", ()),
        ("net", ("network",)),
        ("first", ("net", "network")),
        ("second", ("net", "network")),
        ("inner", ("second", "net", "network")),
    ]
    assert [(e.name, e.stack) for e in events] == once + once
    assert [e.id for e in events] == list(range(10))
    assert events[4].module_hierarchy == "net.second"
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["inner"].count == 2
    totals = {}
    for event in events[:5]:
        total = event.metric_total("instructions")
        if isinstance(total, Count):
            totals[event.name] = total.value
    assert totals.keys() == {"net", "first", "second", "inner"}
    # Both run the same loop, which takes a whole number of instructions for a pass of it.
    per_pass, rest = divmod(totals["inner"] - totals["first"], 1000)
    assert (rest, 2 <= per_pass <= 8) == (0, True)
    own = events[1].self_metric("instructions")
    assert isinstance(own, Count)
    assert own.value == totals["net"] - totals["first"] - totals["second"]
    assert 0 <= own.value < 100
    assert rows["net"].metric("instructions") == totals["net"]
    assert rows["net"].self_metric("instructions") == own.value
    assert rows["inner"].self_metric("instructions") == totals["inner"]
    assert rows["network"].self_metric("instructions") is None
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    calls = [e for e in trace if e["name"] == "network"]
    for name in ("net", "first", "second", "inner", "between"):
        found = [e for e in trace if e["name"] == name]
        assert len(found) == 2
        for call, each in zip(calls, found, strict=True):
            end = each["ts"] + each.get("dur", 0)
            assert call["ts"] <= each["ts"] <= end <= call["ts"] + call["dur"] + 0.001
    prof.export_stacks(tmp_path / "stacks", "instructions")
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert f"network;net;second;inner {2 * totals['inner']}" in lines


@pytest.mark.parametrize("setting", ["profile_memory", "device_ranges"])
def test_counters_of_a_call_that_include_its_probes_recording_are_marked(
    board: Board, setting: str
) -> None:
    with profile(metrics=["instructions"]) as alone:
        board.functions.network()
    ranges = {"device_ranges": True} if setting == "device_ranges" else None
    memory = setting == "profile_memory"
    with profile(
        metrics=["instructions"], profile_memory=memory, experimental_config=ranges
    ) as prof:
        board.functions.network()
        board.functions.quiet()
    (exact,) = alone.events()
    recorded, quiet = (event for event in prof.events() if event.kind == "call")
    assert (exact.is_raw, recorded.is_raw, quiet.is_raw) == (False, True, False)
    raw, net = recorded.metrics["instructions"], exact.metrics["instructions"]
    assert isinstance(raw, Count)
    assert isinstance(net, Count)
    assert raw.value > net.value
    assert prof.diagnostics == (
        "the counters of network on qemu-rv32 include what recording its probes takes",
    )
    table = prof.key_averages().table()
    assert f"~{raw.value:,}" in table
    assert table.splitlines()[-1] == "~ raw: includes what recording its probes takes."


@pytest.mark.parametrize("name", ["qemu-rv32", "qemu-cortex-m4", "native"])
def test_memory_on_the_board_is_a_timeline_over_calls(name: str, tmp_path: Path) -> None:
    with (
        build(available(name), [SOURCE], BuildOptions()).open() as board,
        profile(profile_memory=True) as prof,
    ):
        board.functions.take()
        board.functions.give_back()
        board.functions.give_back_unknown()
    assert [(e.name, e.device_memory_usage) for e in prof.events()] == [
        ("take", 28),
        ("give_back", -28),
        ("give_back_unknown", None),
    ]
    assert prof.diagnostics[-1] == "1 blocks were given back that recording did not see taken"
    files = ("memory.json", "memory.json.gz", "memory.raw.json.gz", "memory.html")
    for file in files:
        prof.export_memory_timeline(tmp_path / file)
    times, sizes = json.loads((tmp_path / "memory.json").read_text())
    assert sizes == [[0] * 8 + [total] for total in (100, 128, 28, 0)]
    assert times == sorted(times)
    assert json.loads(gzip.decompress((tmp_path / "memory.json.gz").read_bytes())) == [times, sizes]
    raw = json.loads(gzip.decompress((tmp_path / "memory.raw.json.gz").read_bytes()))
    assert [row[1:] for row in raw] == [[2, 100, 7], [2, 28, 7], [4, -100, 7], [4, -28, 7]]
    assert [row[0] // 1000 for row in raw] == times
    assert "Most live bytes at a time: 128. At the end: 0." in (tmp_path / files[3]).read_text()


def test_memory_of_the_c_library_has_its_call_sites_and_what_existed_before(tmp_path: Path) -> None:
    lines = HEAP.read_text(encoding="utf-8").splitlines()

    def at(text: str) -> str:
        [line] = [number for number, each in enumerate(lines, 1) if text in each]
        return f"heap.c:{line} (churn)"

    with build(available("native"), [HEAP], BuildOptions(heap=True)).open() as board:
        board.functions.take_before()
        with profile(profile_memory=True, with_stack=True) as prof:
            with record_function("phase"):
                board.functions.churn()
            board.functions.give_before()
    phase, churn, given = prof.events()
    assert (phase.device_memory_usage, churn.device_memory_usage) == (90, 90)
    assert (phase.self_device_memory_usage, churn.self_device_memory_usage) == (None, 90)
    # glibc's block for 1,000 bytes holds as many, or what was left of a larger one, too.
    assert -1032 < given.device_memory_usage <= -1000
    around = ("churn", "phase")
    assert [(m.action, m.bytes, m.stack) for m in churn.memory] == [
        (2, 100, (at("one = malloc(100)"), *around)),
        (2, 200, (at("calloc(10, 20)"), *around)),
        (4, -100, ()),
        (4, -200, ()),
        (2, 190, (at("realloc(other, 190)"), *around)),
        (4, -190, ()),
        (2, 60, (at("realloc(other, 60)"), *around)),
        (2, 30, (at("malloc(30)"), *around)),
    ]
    prof.export_memory_timeline(tmp_path / "memory.raw.json.gz")
    raw = json.loads(gzip.decompress((tmp_path / "memory.raw.json.gz").read_bytes()))
    assert raw[0] == [-1, 1, 1024, 7]  # torch's PREEXISTING
    assert [row[1:] for row in raw[1:3]] == [[2, 100, 7], [2, 200, 7]]
    prof.export_memory_timeline(tmp_path / "memory.json")
    times, sizes = json.loads((tmp_path / "memory.json").read_text())
    totals = [1024, 1124, 1324, 1224, 1024, 1214, 1024, 1084, 1114, 114]
    assert sizes == [[0] * 8 + [total] for total in totals]
    assert times[0] == times[1]
    prof.export_memory_timeline(tmp_path / "memory.html")
    page = (tmp_path / "memory.html").read_text()
    assert "Most live bytes at a time: 1,324. At the end: 114." in page
    rows = [re.findall("<bdi>(.*?)</bdi>", row) for row in re.findall("<tr>(.*?)</tr>", page)]
    place = at("calloc(10, 20)")
    assert [f"{place} &lt; churn &lt; phase", "200", "0", "1"] in rows
    assert ["(before recording)", "1,024", "24", ""] in rows
    prof.export_stacks(tmp_path / "stacks", "device_memory_usage")
    stacks = (tmp_path / "stacks").read_text().splitlines()
    assert stacks[0] == f"phase;churn;{at('one = malloc(100)').replace(' ', '_')} 100"
    assert len(stacks) == 5
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    found = [each["args"] for each in trace if each["name"] == "[memory]"]
    assert [(each["Bytes"], each["Total Allocated"]) for each in found[:2]] == [
        (100, 1124),
        (200, 1324),
    ]
    assert found[0]["stack"] == [at("one = malloc(100)"), *around]
    table = prof.key_averages().table(sort_by="self_cuda_memory_usage")
    rows = [re.split(r" {2,}", line) for line in table.splitlines()]
    columns = [rows[1].index(name) for name in ("Name", "Self BOARD Mem", "BOARD Mem")]
    assert [[row[column] for column in columns] for row in rows[3:6]] == [
        ["churn", "90 B", "90 B"],
        ["give_before", "-1,000 B", "-1,000 B"],
        ["phase", "--", "90 B"],
    ]
    averages = {each.key: each for each in prof.key_averages()}
    assert averages["phase"].device_memory_usage == 90
    assert averages["churn"].self_device_memory_usage == 90


def test_a_memory_timeline_is_of_one_board_and_has_the_traces_clock(tmp_path: Path) -> None:
    with (
        build(available("native"), [SOURCE]).open() as one,
        build(available("linux"), [SOURCE]).open() as other,
        profile(profile_memory=True) as prof,
    ):
        one.functions.take()
        other.functions.take()
        other.functions.give_back()
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    seen: dict[str, list[int]] = {"native": [], "linux": []}
    for each in trace["traceEvents"]:
        if each["name"] == "[memory]":
            at_ns = trace["baseTimeNanoseconds"] + round(1000 * each["ts"])
            seen[each["args"]["board"]].append(at_ns)
    for board, totals in (("native", [100, 128, 28]), ("linux", [100, 128, 28, 0])):
        prof.export_memory_timeline(tmp_path / "m.raw.json.gz", board)
        raw = json.loads(gzip.decompress((tmp_path / "m.raw.json.gz").read_bytes()))
        assert [row[0] for row in raw] == seen[board]
        prof.export_memory_timeline(tmp_path / "m.json", device=board)
        times, sizes = json.loads((tmp_path / "m.json").read_text())
        assert times == [at_ns // 1000 for at_ns in seen[board]]
        assert [row[-1] for row in sizes] == totals
    with pytest.raises(
        UsageError, match="2 boards was recorded, and such a file has one: native, linux"
    ):
        prof.export_memory_timeline(tmp_path / "m.json")
    with pytest.raises(UnknownNameError, match="'nativ'; did you mean 'native'"):
        prof.export_memory_timeline(tmp_path / "m.html", "nativ")
    prof.export_memory_timeline(tmp_path / "m.html")
    assert re.findall("<h2><bdi>(.*)</bdi></h2>", (tmp_path / "m.html").read_text()) == [
        "native",
        "linux",
    ]


def test_ranges_on_boards_are_events_of_the_boards_that_were_chosen() -> None:
    with (
        build(available("native"), [SOURCE]).open() as one,
        build(available("linux"), [SOURCE]).open() as other,
    ):
        for chosen, memory in (("native", False), ("linux", False), ("linux", True)):
            config = {"device_ranges": {chosen: True}}
            with profile(experimental_config=config, profile_memory=memory) as prof:
                one.functions.network()
                other.functions.network()
            found = {each.board for each in prof.events() if each.kind == "device_range"}
            assert found == {chosen}
        with (
            pytest.warns(UserWarning, match="named for qemu-rv32, but no board of that name"),
            profile(experimental_config={"device_ranges": {"qemu-rv32": True}}) as prof,
        ):
            one.functions.network()
    assert [each.kind for each in prof.events()] == ["call"]


def test_names_that_utf_8_has_no_form_for_are_written_escaped(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.wav")
    with (
        build(available("native"), [SOURCE]).open() as board,
        profile(profile_memory=True) as prof,
        record_function(name),
    ):
        board.functions.take()
    for metric in ("self_cpu_time_total", "device_memory_usage"):
        prof.export_stacks(tmp_path / "stacks", metric)
        assert (tmp_path / "stacks").read_text().startswith(r"caf\udce9.wav")
    prof.export_memory_timeline(tmp_path / "memory.html")
    assert r"take &lt; caf\udce9.wav</bdi>" in (tmp_path / "memory.html").read_text()
    assert r"caf\udce9.wav" in prof.key_averages(group_by_stack_n=1).table()


def test_without_with_stack_memory_has_no_file_and_line() -> None:
    with (
        build(available("native"), [HEAP], BuildOptions(heap=True)).open() as board,
        profile(profile_memory=True) as prof,
    ):
        board.functions.take_before()
    assert [change.stack for change in prof.events()[0].memory] == [("take_before",)] * 2


def test_a_call_without_memory_has_no_timeline(board: Board, tmp_path: Path) -> None:
    with profile(profile_memory=True) as prof:
        board.functions.network()
    assert prof.events()[0].device_memory_usage == 0
    with pytest.raises(UsageError, match="no memory event of a board"):
        prof.export_memory_timeline(tmp_path / "memory.json")


def test_firmware_without_probes_is_not_supported() -> None:
    source = Path(__file__).parent / "fixtures" / "state.c"
    with (
        build(available("arduino-uno"), [source], BuildOptions()).open() as board,
        profile(profile_memory=True),
        pytest.raises(NotSupportedByAgentError, match="profile_memory is not supported") as error,
    ):
        board.functions.so_far()
    assert "arduino-uno" in error.value.message
