# SPDX-License-Identifier: Apache-2.0
"""Sampled profiles: intervals, and that each form says that they are samples."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from boardprof.base.errors import ReportFileError
from boardprof.base.metrics import Count
from boardprof.measure.hotspots.call_tree import CallPath, CallTree, profile_of
from boardprof.results.comparison.compare import compare
from boardprof.results.report.profile import Profile, share_interval
from boardprof.results.report.report import Report
from boardprof.show.chrome_trace import render_chrome
from boardprof.show.comparison_table import comparison_table
from boardprof.show.flame_graph import render_speedscope
from boardprof.show.html import render_html
from boardprof.show.layout import plain
from boardprof.show.profile_files import callgrind, pprof, profile_json
from boardprof.show.profile_tables import (
    functions_page,
    heading,
    instructions_page,
    lines_page,
    notes,
)
from boardprof.target.elf.addresses import symbol_table
from boardprof.ui.cli.recording import changed_sources
from tests.support import requires_tool
from tests.unit.profiles import profile_report, sampled_profile, small_profile

# -- intervals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        # Newcombe 1998, table I, method 4.
        (81, 263, 0.2535, 0.3682),
        (15, 148, 0.0598, 0.1644),
        (0, 20, 0.0, 0.2005),
        (1, 29, 0.0018, 0.1963),
    ],
)
def test_an_interval_is_that_of_the_literature(
    count: int, total: int, low: float, high: float
) -> None:
    assert share_interval(count, total) == (
        pytest.approx(low, abs=5e-5),
        pytest.approx(high, abs=5e-5),
    )


def test_an_interval_is_the_mirrored_one_of_the_rest_and_ends_at_0_and_1() -> None:
    low, high = share_interval(182, 263)
    assert (1 - high, 1 - low) == pytest.approx(share_interval(81, 263))
    assert share_interval(20, 20)[1] == 1.0
    assert share_interval(1, 1) == (pytest.approx(0.0546, abs=5e-5), 1.0)


# -- figures ----------------------------------------------------------------------------------


# 15 of 100: at each end, |p - 0.15| - 1/200 is 1.96 times the root of p (1 - p) / 100.


def test_functions_have_an_interval_and_no_figures_that_samples_cannot_tell() -> None:
    profile = sampled_profile()
    assert not profile.exact
    f, twice, mul = profile.functions()
    assert (f.name, f.self, f.total, f.share) == ("f", 81, 100, 0.81)
    assert (twice.name, twice.self, twice.total, twice.calls) == ("twice", 15, None, 0)
    assert twice.interval == pytest.approx((0.0891, 0.2385), abs=5e-5)
    assert mul.interval is not None
    assert mul.interval[0] < 0.04 < mul.interval[1]


def test_lines_have_an_interval_and_nobody_knows_how_often_they_ran() -> None:
    lines = {(each.file, each.line): each for each in sampled_profile().lines()}
    assert lines["f.c", 7].executions == 0
    assert lines["f.c", 7].self == 81
    assert lines["f.c", 2].interval == pytest.approx((0.0891, 0.2385), abs=5e-5)


def test_exact_figures_have_no_interval() -> None:
    profile = small_profile()
    assert profile.exact
    assert {each.interval for each in profile.functions()} == {None}
    assert {each.interval for each in profile.lines()} == {None}
    assert "interval" not in profile_json(profile)["functions"][0]


def test_the_called_function_is_a_row_although_nothing_hit_it() -> None:
    names = [each.name for each in sampled_profile((0, 60, 40)).functions()]
    assert names == ["twice", "__mul", "f"]


# -- text -------------------------------------------------------------------------------------


def test_a_table_of_samples_says_so_in_its_heading_columns_and_last_line() -> None:
    profile = sampled_profile()
    assert heading(profile) == "f on desk: 100 samples in 20 calls"
    assert plain(functions_page(profile)).splitlines() == [
        "Function  Samples  Self %  95 % interval  Where",
        "f              81    81.0   71.7 to 87.9  f.c:5",
        "twice          15    15.0    8.9 to 23.9  f.c:1",
        "__mul           4     4.0    1.3 to 10.5",
    ]
    first, last = notes(profile)
    assert first == "3 more hit the agent or another stack"
    assert last.startswith("sampled by mtime, not counted: ")


def test_fewer_samples_than_wanted_are_explained() -> None:
    assert notes(sampled_profile((5, 1, 1)))[0] == (
        "100 samples were wanted; a call is so short that it is hardly ever hit"
    )


def test_lines_and_instructions_have_samples_and_no_times() -> None:
    lines = plain(lines_page(sampled_profile()))
    assert "Samples" in lines
    assert "71.7 to 87.9" in lines
    assert "Times" not in lines
    instructions = plain(instructions_page(sampled_profile()))
    assert "Samples" in instructions
    assert "Times" not in instructions


# -- stored -----------------------------------------------------------------------------------


def test_json_says_that_it_is_not_exact_and_has_intervals() -> None:
    found = profile_json(sampled_profile())
    assert (found["metric"], found["exact"], found["total"]) == ("samples", False, 100)
    twice = found["functions"][1]
    assert (twice["name"], twice["self"], twice["share"]) == ("twice", 15, 0.15)
    assert (twice["total"], twice["calls"]) == (None, None)
    assert twice["interval"] == pytest.approx([0.0891, 0.2385], abs=5e-5)
    assert found["lines"][0].keys() == {"file", "line", "self", "share", "interval"}


def test_a_stored_profile_is_the_same_again() -> None:
    profile = replace(sampled_profile(), newer=("f.c",))
    report = Report.from_json(profile_report(profile).json())
    assert report.record is not None
    assert report.record.measurements[0].hotspots == profile


def test_a_profile_whose_sampling_is_damaged_is_refused() -> None:
    text = profile_report(sampled_profile()).json()
    damaged = text.replace('"timer":"mtime",', "")
    assert damaged != text
    with pytest.raises(ReportFileError, match="the key timer is missing"):
        Report.from_json(damaged)


# -- other forms ------------------------------------------------------------------------------


def test_exports_say_that_they_are_samples() -> None:
    profile = sampled_profile()
    text = callgrind(profile)
    assert "desc: Trigger: complete, sampled\n" in text
    assert "events: samples\n" in text
    speedscope = json.loads(render_speedscope(profile_report(profile)))
    assert speedscope["profiles"][0]["name"] == "f on desk: samples of 20 calls"
    assert b"samples" in gzip.decompress(pprof([profile]))


def slices(report: Report) -> list[tuple[Any, ...]]:
    events = json.loads(render_chrome(report))["traceEvents"]
    return [(e["pid"], e["name"], e["ts"], e["dur"]) for e in events if e.get("cat") == "profile"]


def test_a_chrome_trace_has_a_track_for_each_profile_nested_as_its_calls() -> None:
    report = profile_report(small_profile(), sampled_profile())
    assert slices(report) == [
        (3, "f", 0.0, 100.0),
        (2, "f", 0.0, 25.0),
        (3, "twice", 0.0, 15.0),
        (2, "__mul", 0.0, 12.0),
        (2, "twice", 12.0, 4.0),
        (3, "__mul", 15.0, 4.0),
    ]
    document = json.loads(render_chrome(report))
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert names == [
        "desk (instructions, not time)",
        "f on desk (instructions of one call, not time)",
        "f on desk (samples of 20 calls, not time)",
    ]
    assert "not in the order of time" in document["boardprof_profiles"]


def test_the_page_shows_intervals_and_does_not_compare_numbers_of_samples() -> None:
    new, old = profile_report(sampled_profile()), profile_report(sampled_profile((50, 40, 10)))
    page = render_html(new, before=old)
    assert '"sampled":true' in page
    assert '"totals":[[100]]' in page
    assert '"interval":"71.7 to 87.9"' in page
    assert "sampled by mtime" in page


# -- comparing --------------------------------------------------------------------------------


def measured(profile: Profile, instructions: int) -> Report:
    report = profile_report(profile)
    rows = [{"Name": "f", "Count": 1, "instructions": Count(instructions), "Device": "desk"}] * 9
    return Report(rows, {}, {}, report.extra)


def test_a_comparison_names_functions_that_changed_by_more_than_chance() -> None:
    before = measured(sampled_profile((200, 700, 100)), 10_000)
    after = measured(sampled_profile((660, 5, 335)), 3_000)
    text = comparison_table(compare(before, after))
    assert "Where instructions of f on desk changed:" in text
    (twice,) = [line for line in text.splitlines() if line.startswith("twice ")]
    assert twice.split()[1:] == ["~7,000", "~15", "~-6,980"]
    assert "__mul" not in text  # 1,000 to 1,005 is nothing
    assert "Sampled: estimates." in text


def test_samples_that_do_not_tell_are_not_read_as_a_change() -> None:
    before = measured(sampled_profile((20, 70, 10)), 10_000)
    after = measured(sampled_profile((20, 71, 9)), 9_900)
    text = comparison_table(compare(before, after))
    assert "Samples do not show where." in text


def test_a_sampled_profile_is_not_compared_with_an_exact_one() -> None:
    before = measured(sampled_profile((200, 700, 100)), 10_000)
    after = measured(small_profile(), 25)
    assert "Where instructions" not in comparison_table(compare(before, after))


# -- sources ----------------------------------------------------------------------------------


def test_a_source_that_has_changed_since_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    profile = sampled_profile()
    assert changed_sources(profile) == []
    Path("f.c").write_text(profile.sources["f.c"])
    assert changed_sources(profile) == []
    Path("f.c").write_text(profile.sources["f.c"] + "\n")
    assert changed_sources(profile) == ["f.c"]


def test_a_source_that_is_newer_than_an_image_of_somebody_else_is_told(tmp_path: Path) -> None:
    source, image = tmp_path / "own.c", tmp_path / "own.so"
    source.write_text("int own(int x) { return x + 1; }\n")
    gcc = requires_tool("gcc", "gcc")
    subprocess.run([gcc, "-g", "-shared", "-o", image, source], check=True, timeout=60)
    table = symbol_table(image)
    entry = table.entries["own"]
    record = CallTree(("instructions",), "complete", (1,), [CallPath(-1, entry, 1)])
    record.counts[0, entry] = [1]

    def profile(*sources: Path) -> Profile:
        return profile_of(record, table, image, "own", "desk", {}, {}, sources)

    assert profile().newer == ()
    changed_s = image.stat().st_mtime + 5
    os.utime(source, (changed_s, changed_s))
    assert profile().newer == (str(source),)
    assert notes(profile())[0] == "newer than the image, so lines may be others: own.c"
    assert profile(source).newer == ()  # boardprof has built it from just this text
