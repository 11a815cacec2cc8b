# SPDX-License-Identifier: Apache-2.0
"""Files of a trace: what each reader needs of Chrome's format, stacks, and TensorBoard's names."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardprof import itt
from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.compat.torch.export import tensorboard_trace_handler
from boardprof.compat.torch.host_events import record_function
from boardprof.compat.torch.profiler import profile
from boardprof.show.chrome_trace import TraceEvent, Track, chrome_trace

CORE = Track("m4", "core 0")


def parsed(text: str) -> dict[str, Any]:
    trace: dict[str, Any] = json.loads(text)
    return trace


def written(*events: TraceEvent, **metadata: object) -> dict[str, Any]:
    return parsed(chrome_trace(events, metadata=metadata))


# -- the format -------------------------------------------------------------------------------


def test_a_trace_is_an_object_whose_events_have_names_of_tracks_before_them() -> None:
    found = written(
        TraceEvent("conv2d", 1.0, 4.41, CORE, {"cycles": 4410}, "op"),
        TraceEvent("dma done", 2.5, None, CORE),
        board="m4",
    )
    assert found == {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "m4"}},
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "core 0"}},
            {
                "ph": "X",
                "name": "conv2d",
                "pid": 1,
                "tid": 1,
                "ts": 1.0,
                "dur": 4.41,
                "cat": "op",
                "args": {"cycles": 4410},
            },
            {"ph": "i", "name": "dma done", "pid": 1, "tid": 1, "ts": 2.5, "s": "t"},
        ],
        "board": "m4",
    }


def test_a_trace_without_events_is_one() -> None:
    assert written() == {"schemaVersion": 1, "displayTimeUnit": "ns", "traceEvents": []}


def test_times_are_written_to_the_nanosecond_and_in_order() -> None:
    text = chrome_trace(
        [TraceEvent("b", 1234567.891, 0.001, CORE), TraceEvent("a", 0.0004, 0.1 + 0.2, CORE)],
        metadata={},
    )
    assert re.findall(r'"ts": ([0-9.]+), "dur": ([0-9.]+)', text) == [
        ("0.0", "0.3"),
        ("1234567.891", "0.001"),
    ]


def test_slices_that_overlap_in_part_stand_on_lanes_of_their_own() -> None:
    found = written(
        TraceEvent("a", 0, 10, CORE),
        TraceEvent("b", 5, 10, CORE),
        TraceEvent("in a", 6, 2, CORE),
        TraceEvent("behind", 15, 1, CORE),
    )
    lanes = {
        e["tid"]: e["args"]["name"] for e in found["traceEvents"] if e["name"] == "thread_name"
    }
    placed = {e["name"]: lanes[e["tid"]] for e in found["traceEvents"] if e["ph"] == "X"}
    assert placed == {
        "a": "core 0",
        "b": "core 0 (2)",
        "in a": "core 0",
        "behind": "core 0",
    }


def check_lanes(trace: dict[str, Any]) -> None:
    """See that what readers need holds: order, and no slice of a lane that ends within another."""
    events = [e for e in trace["traceEvents"] if e["ph"] != "M"]
    assert {e["ph"] for e in events} <= {"X", "i"}
    assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events} <= named
    spans = [
        (e["tid"], round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000))
        for e in events
        if e["ph"] == "X"
    ]
    for (lane, begin, end), (other, later_begin, later_end) in combinations(spans, 2):
        if lane == other:
            assert later_begin >= end or later_end <= end, (begin, end, later_begin, later_end)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30), st.one_of(st.none(), st.integers(0, 30)), st.sampled_from("ab")
        ),
        max_size=25,
    )
)
def test_no_slices_of_a_lane_overlap_in_part(times: list[tuple[int, int | None, str]]) -> None:
    events = [
        TraceEvent(str(i), at / 7, None if length is None else length / 7, Track("m4", thread))
        for i, (at, length, thread) in enumerate(times)
    ]
    trace = written(*events)
    check_lanes(trace)
    names = [e["name"] for e in trace["traceEvents"] if e["ph"] != "M"]
    assert sorted(names, key=int) == [event.name for event in events]


@given(st.text())
def test_any_name_is_written_and_read_back(name: str) -> None:
    text = chrome_trace([TraceEvent(name, 0, 1, CORE, {"name": name})], metadata={"x": name})
    assert text.isascii()
    event = parsed(text)["traceEvents"][-1]
    assert (event["name"], event["args"]["name"], parsed(text)["x"]) == (name, name, name)


def test_values_that_json_lacks_become_text() -> None:
    args = {"a": float("nan"), "b": 1 << 70, "c": (1, None, {2: float("inf")}), "d": CORE.process}
    assert written(TraceEvent("x", 0, 1, CORE, args))["traceEvents"][-1]["args"] == {
        "a": "nan",
        "b": "1180591620717411303424",
        "c": [1, None, {"2": "inf"}],
        "d": "m4",
    }


def test_keys_of_the_format_and_times_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="'traceEvents' cannot be a key of metadata"):
        written(traceEvents=[])
    with pytest.raises(ValueError, match="'x' begins at nan us"):
        written(TraceEvent("x", float("nan"), 1, CORE))
    with pytest.raises(ValueError, match="for -1"):
        written(TraceEvent("x", 0, -1, CORE))


# -- a profile's ------------------------------------------------------------------------------


def recorded(**options: Any) -> profile:
    with profile(**options) as prof:
        with record_function('a "layer"', {"index": 3}):
            with record_function("in;side it"):
                for _ in range(2000):
                    pass
            itt.mark("half way")
        with record_function("behind"):
            pass
    return prof


def test_an_exported_trace_holds_the_ranges_and_marks_from_its_beginning(tmp_path: Path) -> None:
    before_ns = time.monotonic_ns()
    prof = recorded(with_modules=True)
    took_us = (time.monotonic_ns() - before_ns) / 1e3
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = parsed((tmp_path / "trace.json").read_text())
    check_lanes(trace)
    events = {e["name"]: e for e in trace["traceEvents"] if e["ph"] != "M"}
    assert set(events) == {'a "layer"', "in;side it", "half way", "behind"}
    assert events['a "layer"']["args"] == {"index": 3, "Module Hierarchy": ""}
    assert events["in;side it"]["args"]["Module Hierarchy"] == 'a "layer"'
    assert events["half way"]["ph"] == "i"
    by_name = {event.name: event for event in prof.events()}
    for name, event in by_name.items():
        assert events[name]["ts"] == round(event.time_range.start, 3)
        assert events[name]["dur"] == round(event.cpu_time_total, 3)
    assert 0 <= events['a "layer"']["ts"] <= took_us  # from its own beginning
    assert trace["with_modules"] == "1"
    assert "record_shapes" not in trace
    assert abs(trace["baseTimeNanoseconds"] / 1e9 - Path(tmp_path).stat().st_ctime) < 600


def test_metadata_stand_beside_the_events_as_they_were_given(tmp_path: Path) -> None:
    prof = profile(record_shapes=True, custom_trace_id_callback=lambda: "run 7")
    prof.preset_metadata_json("before", "[1, 2]")
    with prof:
        prof.add_metadata("text", 'it said "no"\n')
        prof.add_metadata_json("json", '{"k": null}')
        with pytest.raises(UsageError, match="comes before start"):
            prof.preset_metadata_json("late", "1")
        # A handler that exports would fail later, and the trace be lost.
        for taken in ("traceEvents", "baseTimeNanoseconds", "diagnostics", "traceId"):
            with pytest.raises(UsageError, match=f"'{taken}' cannot be a key of metadata"):
                prof.add_metadata(taken, "x")
            with pytest.raises(UsageError, match=f"'{taken}' cannot be a key of metadata"):
                prof.add_metadata_json(taken, "1")
    with pytest.raises(UsageError, match="'bad' is not JSON"):
        prof.add_metadata_json("bad", "{")
    # Python reads these, and the trace would be unreadable for everybody else.
    for value in ("NaN", '{"a": [-Infinity]}', "1e999", "[" * 100_000):
        with pytest.raises(UsageError, match="'bad' is not JSON"):
            prof.add_metadata_json("bad", value)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = parsed((tmp_path / "trace.json").read_text())
    assert trace["before"] == [1, 2]
    assert trace["text"] == 'it said "no"\n'
    assert trace["json"] == {"k": None}
    assert trace["record_shapes"] == "1"
    assert trace["traceId"] == "run 7"


def test_a_file_whose_name_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    prof = recorded()
    prof.export_chrome_trace(tmp_path / "trace.json")
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    plain = (tmp_path / "trace.json").read_bytes()
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()) == plain


def test_a_file_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none/trace\.json cannot be written: No such file"):
        recorded().export_chrome_trace(tmp_path / "none" / "trace.json")


def test_stacks_are_lines_of_names_without_separators_and_own_time(tmp_path: Path) -> None:
    prof = recorded()
    prof.export_stacks(tmp_path / "stacks.txt")
    text = (tmp_path / "stacks.txt").read_text()
    lines = dict(re.fullmatch(r"(\S+) (\d+)", line).groups() for line in text.splitlines())  # type: ignore[union-attr]
    own = {event.name: round(1000 * event.self_cpu_time_total) for event in prof.events()}
    assert int(lines['a_"layer";in_side_it']) == own["in;side it"] > 0


def test_a_path_in_bytes_is_taken_and_a_name_that_is_not_utf_8_is_escaped(tmp_path: Path) -> None:
    with profile() as prof, record_function("caf\udce9"):
        pass
    path = os.fsencode(tmp_path / "trace.json.gz")
    prof.export_chrome_trace(path)  # type: ignore[arg-type]
    (event,) = [
        e
        for e in parsed(gzip.decompress(Path(os.fsdecode(path)).read_bytes()).decode())[
            "traceEvents"
        ]
        if e.get("cat") == "user_annotation"
    ]
    assert event["name"] == "caf\udce9"
    (average,) = prof.key_averages()
    assert repr(average).startswith("<caf\\udce9: 1 calls, ")


def test_stacks_without_a_line_are_refused_and_so_are_other_metrics(tmp_path: Path) -> None:
    prof = recorded()
    with pytest.raises(UsageError, match="none of 3 events has a self_device_time_total"):
        prof.export_stacks(tmp_path / "x", "self_device_time_total")
    for alias in ("self_cuda_time_total", "self_board_time_total"):
        with pytest.raises(UsageError, match="none of 3 events has a self_device_time_total"):
            prof.export_stacks(tmp_path / "x", alias)
    with pytest.raises(UnknownNameError, match="metric of stacks 'cpu_time'"):
        prof.export_stacks(tmp_path / "x", "cpu_time")
    with pytest.raises(UnknownNameError, match="metric of stacks '5'"):
        prof.export_stacks(tmp_path / "x", 5)  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("options", "ending"), [({}, ""), ({"use_gzip": True}, r"\.gz")])
def test_tensorboard_finds_each_trace_by_its_name(
    tmp_path: Path, options: dict[str, bool], ending: str
) -> None:
    handler = tensorboard_trace_handler(tmp_path / "new" / "log", "worker0", **options)
    recorded(on_trace_ready=handler)
    (file,) = (tmp_path / "new" / "log").iterdir()
    assert re.fullmatch(rf"worker0\.\d+\.pt\.trace\.json{ending}", file.name)


def test_a_worker_without_a_name_is_host_and_process(tmp_path: Path) -> None:
    for name in (None, ""):
        recorded(on_trace_ready=tensorboard_trace_handler(tmp_path, name))
    files = [*tmp_path.iterdir()]
    assert len(files) == 2
    for file in files:
        assert re.fullmatch(r".+_\d+\.\d+\.pt\.trace\.json", file.name)


@pytest.mark.parametrize("name", ["w/..", "/w", "a\\b", "a\0b"])
def test_a_worker_whose_name_cannot_be_in_that_of_a_file_is_refused_at_once(name: str) -> None:
    with pytest.raises(UsageError, match=r"worker_name=.* cannot be part of") as refused:
        tensorboard_trace_handler("logs", name)
    assert refused.value.hint == "leave out slashes; dir_name sets the folder"


def test_a_log_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file/log cannot be written: Not a directory"):
        recorded(on_trace_ready=tensorboard_trace_handler(tmp_path / "file" / "log"))
