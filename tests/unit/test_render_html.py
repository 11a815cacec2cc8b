# SPDX-License-Identifier: Apache-2.0
"""The page: the Report can be taken out again, no name gets out of its place, and it is small."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boardprof.base.errors import ReportFileError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.report.report import Report
from boardprof.show.html import read_page, render_html
from tests.unit.reports import report_of as exact_report

HOSTILE = "</script><script>alert(1)</script>\"'>\n<img src=x onerror=alert(2)>\u202eevil"
"""What a name may hold: an end of the script, quotes, a newline, a tag, a change of direction."""


class Page(html.parser.HTMLParser):
    """Elements with their attributes, and the texts of those that have ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.by_id: dict[str, str] = {}
        self._id: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._id = dict(attrs).get("id")

    def handle_data(self, data: str) -> None:
        if self._id is not None:
            self.by_id[self._id] = self.by_id.get(self._id, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._id = None

    def view(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.by_id["boardprof-view"])
        return found


def sample(
    name: str = "fir", device: str = "b", **metrics: Metric | int
) -> dict[str, Metric | int]:
    return {"Name": name, "Device": device, "Count": 1, **metrics}


def report_of(*calls: dict[str, Metric | int], **facts: Any) -> Report:
    extra = {"schema_version": 1, "devices": {"b": {"clock_kind": "declared", **facts}}}
    return Report(calls, {"b": {"cycles": 10**6}}, {"b clock": "declared", "Repeat": 3}, extra)


PLAIN = report_of(sample(cycles=400), sample(cycles=402), sample(cycles=401))


def test_the_report_can_be_taken_out_again() -> None:
    assert read_page(render_html(PLAIN)) == PLAIN


def test_a_long_report_is_packed_and_can_be_taken_out_as_well() -> None:
    long = Report((sample(cycles=i * i) for i in range(12_000)), {}, {})
    text = render_html(long)
    assert len(text) < len(long.json()) / 2
    assert read_page(text) == long


def test_a_page_of_two_has_both() -> None:
    older = report_of(sample(cycles=500), sample(cycles=500))
    text = render_html(PLAIN, before=older)
    assert read_page(text) == PLAIN
    assert read_page(text, before=True) == older


def built(build: str, flags: str) -> Report:
    measured = {"name": "fir", "device": "b", "build_id": build, "flags": flags}
    extra = {**(PLAIN.extra or {}), "measurements": [measured]}
    return Report(PLAIN.calls, {}, {}, extra)


def test_a_page_of_two_says_which_they_are() -> None:
    sides = built("0123", "-O2"), built("4567", "-O3")
    names = ("#7 (main) of 2026-11-20T09:14:00Z", "new.json of 2026-11-21T10:00:00Z")
    text = render_html(sides[1], before=sides[0], allow=["compiler"], names=names)
    changes = Page(text).view()["changes"]
    assert (changes["before"], changes["after"]) == names
    assert changes["facts"] == [["b build", "0123", "4567"], ["b flags", "-O2", "-O3"]]
    assert len(changes["notes"]) == 1
    unnamed = Page(render_html(PLAIN, before=PLAIN)).view()["changes"]
    assert (unnamed["before"], unnamed["after"]) == ("an older run", "This run")
    assert (unnamed["facts"], unnamed["notes"]) == ([], [])


@pytest.mark.parametrize(
    ("repeat", "number", "warmup", "words"),
    [
        (1, 1, 1, "1 sample of 1 call after 1 warm-up call"),
        (30, 1000, 0, "30 samples of 1,000 calls after 0 warm-up calls"),
        ("3, 5", 1, 10, "3, 5 samples of 1 call after 10 warm-up calls"),
    ],
)
def test_what_is_one_is_not_called_several(
    repeat: int | str, number: int, warmup: int, words: str
) -> None:
    facts = {"Repeat": repeat, "Number": number, "Warm-up": warmup}
    text = render_html(Report([sample(cycles=1)], {}, facts))
    assert words in re.sub("</?bdi>", "", text)


def test_the_heading_counts_what_was_measured_where_that_is_more_than_the_functions() -> None:
    def title(*calls: dict[str, Metric | int]) -> str:
        return render_html(Report(calls, {}, {})).split("<title>")[1].split(" \N{MIDDLE DOT} ")[0]

    one, other = ({"Label": label, **sample("conv", n=1)} for label in ("first", "second"))
    assert title(one, other) == "conv on b"
    assert title(one, one, other, sample("relu", n=1)) == "3 measurements of 2 functions on b"
    assert title(sample("conv", n=1), sample("relu", n=1)) == "2 functions on b"
    assert title() == "0 functions"


def test_of_several_boards_what_is_no_identity_and_no_caution_is_folded_up() -> None:
    facts = {"unsupported": {"cycles": "there is none"}, "cflags": ["-O2", "-mabi=ilp32"]}
    devices = {name: {**facts, "port": f"/dev/{name}"} for name in ("a", "b")}
    calls = [sample(device=name, cycles=1) for name in devices]
    page = render_html(Report(calls, {}, {}, {"schema_version": 1, "devices": devices}))
    card = page.split('<article class="card">')[1]
    open_part, folded = card.split("<details>")
    assert "<code><bdi>-O2</bdi> <bdi>-mabi=ilp32</bdi></code>" in open_part
    assert "there is none" in open_part
    assert folded.startswith("<summary>Port</summary>")
    assert "/dev/a" in folded


def test_large_counts_are_text_where_a_script_would_round_them() -> None:
    sides = [report_of(sample(cycles=n)) for n in ((1 << 53) + 1, (1 << 64) - 1)]
    view = Page(render_html(sides[1], before=sides[0])).view()
    assert view["changes"]["rows"][0]["before"] == "9,007,199,254,740,993"
    assert view["changes"]["rows"][0]["after"] == "18,446,744,073,709,551,615"


@pytest.mark.parametrize("text", ["", "<html></html>", "<script id='boardprof-report'>"])
def test_a_file_without_a_report_is_told(text: str) -> None:
    with pytest.raises(ReportFileError, match="no such Report in the page"):
        read_page(text)


def test_a_packed_report_that_is_damaged_is_told() -> None:
    text = '<script type="application/gzip;base64" id="boardprof-report">H4sIAAAA</script>'
    with pytest.raises(ReportFileError, match="cannot be read"):
        read_page(text)


def test_without_its_data_the_page_is_small() -> None:
    empty = render_html(Report([], {}, {}))
    assert len(empty.encode()) < 60_000


def test_it_asks_for_nothing_and_its_policy_forbids_to() -> None:
    page = Page(render_html(PLAIN))
    outside = {"src", "href", "srcset", "action", "poster", "data"}
    found = {value for _, attrs in page.tags for key, value in attrs.items() if key in outside}
    assert found == {"data:,"}
    policy = next(a["content"] for _, a in page.tags if "content-security-policy" in str(a).lower())
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_the_policys_hashes_are_those_of_the_pages_script_and_style() -> None:
    text = render_html(PLAIN)
    for element, directive in (("script", "script-src"), ("style", "style-src")):
        content = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        assert len(content) == 1
        digest = base64.b64encode(hashlib.sha256(content[0].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in text


def test_hostile_text_stays_text_wherever_a_report_has_text() -> None:
    calls = [
        {
            "Name": HOSTILE,
            "Device": HOSTILE,
            "Flags": HOSTILE,
            "Argument Shapes": HOSTILE,
            "Count": 1,
            f"cycles {HOSTILE}": n,
        }
        for n in (1, 2)
    ]
    extra = {
        "schema_version": 1,
        "devices": {
            HOSTILE: {
                "clock_kind": HOSTILE,
                "emulated": True,
                "port": HOSTILE,
                "cflags": [HOSTILE],
                "unsupported": {HOSTILE: HOSTILE},
            }
        },
    }
    report = Report(calls, {HOSTILE: {HOSTILE: 1}}, {HOSTILE: HOSTILE}, extra)
    text = render_html(report, before=report)
    assert read_page(text) == report
    plain, page = Page(render_html(PLAIN)), Page(text)
    more = {"code", "dd", "dt", "li", "ul"}
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in plain.tags} | more
    assert sum(tag == "script" for tag, _ in page.tags) == 4
    assert not any(key.startswith("on") for _, attrs in page.tags for key in attrs)
    assert "\u202e" not in text


@settings(max_examples=25)
@given(st.text(), st.text(), st.text())
def test_whatever_the_names_are_the_page_has_the_same_elements(a: str, b: str, c: str) -> None:
    text = render_html(Report([{"Name": a, "Device": b, c: Count(1), "n": Count(2)}], {}, {b: c}))
    scripts = [attrs for tag, attrs in Page(text).tags if tag == "script"]
    assert len(scripts) == 3


def test_what_the_script_draws_is_per_call_and_kept_once_where_all_are_alike() -> None:
    rows = [
        {"Name": "f", "Device": "b", "Count": 2, "cycles": 80, "ticks": n, "IPC": Ratio(0.5)}
        for n in (10, 12, 13)
    ]
    view = Page(render_html(Report(rows, {"b": {"cycles": 1 << 60}}, {}))).view()
    names = [metric["name"] for metric in view["metrics"]]
    assert names == ["cycles", "ticks", "IPC"]
    (group,) = view["groups"]
    cycles, ticks, ipc = (group["metrics"][str(i)] for i in range(3))
    assert (cycles["median"], cycles["n"], "values" in cycles) == (40, 3, False)
    assert (ticks["median"], ticks["values"]) == (6, [5, 6, 6.5])
    assert ipc["median"] == 0.5
    assert view["totals"][0]["metrics"] == {"0": "1,152,921,504,606,846,976"}
    assert view["first"] == 0  # cycles, since there is neither time nor instructions


def view_of(*calls: dict[str, Metric | int], **options: Any) -> dict[str, Any]:
    return Page(render_html(Report(calls, {}, {}), **options)).view()


def first_of(*calls: dict[str, Metric | int]) -> str:
    view = view_of(*calls)
    return "own" if view["first"] == -1 else str(view["metrics"][view["first"]]["name"])


def test_the_page_begins_with_a_metric_that_all_boards_have_or_with_the_own_of_each() -> None:
    timed = sample(device="a", cycles=5, **{"Duration (us)": Duration(1.0)})
    assert first_of(timed, timed) == "Duration (us)"
    assert first_of(timed, sample(device="c", cycles=5)) == "cycles"
    assert first_of(timed, sample(device="c", ticks=5)) == "own"
    # Ticks of two clocks are not one metric; of boards that have nothing else they are shown.
    both = sample(device="a", instructions=5, ticks=1)
    assert first_of(both, sample(device="c", ticks=5)) == "own"
    assert first_of(sample(device="a", ticks=1), sample(device="c", ticks=5)) == "ticks"


def test_a_sweep_is_relative_to_its_first_setting_and_grouped_by_function() -> None:
    flags = {"-O2": {"f": 100, "g": 7}, "-O3": {"f": 40, "g": 7}, "-Os": {"f": 120, "g": 0}}
    calls = [sample(n, cycles=v, Flags=k) for k, each in flags.items() for n, v in each.items()]
    extra = {"schema_version": 1, "devices": {"b": {"clock_kind": "simulated", "emulated": True}}}
    groups = Page(render_html(Report(calls, {}, {}, extra))).view()["groups"]
    assert [(g["name"], g["flags"]) for g in groups[:4]] == [
        ("f", "-O2"),
        ("f", "-O3"),
        ("f", "-Os"),
        ("g", "-O2"),
    ]
    told = [g["metrics"]["0"]["relative"] for g in groups]
    assert told == ["1.00", "0.40 best", "1.20", "1.00", "1.00", "0.00 best"]


def test_what_is_no_sweep_has_no_relations() -> None:
    (group,) = view_of(sample(cycles=4, Flags="-O2"))["groups"]
    assert "function" not in group
    assert "relative" not in group["metrics"]["0"]


def test_of_samples_in_two_modes_the_view_names_both_and_no_outliers() -> None:
    values = [100.0, 101.0] * 16 + [160.0, 161.0] * 9
    calls = [sample(**{"Duration (us)": Duration(v)}) for v in values]
    series = view_of(*calls)["groups"][0]["metrics"]["0"]
    assert (series["modes"], series["outliers"]) == ("32 near 100.50 and 18 near 160.50", [])


def earlier_run(name: str, cycles: int, **more: Any) -> tuple[str, Report]:
    return name, report_of(sample(cycles=cycles), **more)


def test_earlier_runs_give_each_row_its_medians_and_those_of_another_clock_none() -> None:
    earlier = [
        earlier_run("#2", 420),
        ("#3", report_of(sample("other", cycles=1))),
        earlier_run("#5", 77, clock_kind="simulated"),
        earlier_run("#6", 410),
    ]
    view = Page(render_html(PLAIN, earlier=earlier)).view()
    assert view["groups"][0]["metrics"]["0"]["history"] == {
        "runs": ["#2", "#6", "this run"],
        "medians": [420, 410, 401],
        # The median distance from 410 is 9; 9 * 1.4826 is 13.3434.
        "usual": [396.6566, 423.3434],
        "since": 0,
    }


def test_a_change_of_exact_counts_in_earlier_runs_is_in_the_view_with_its_run() -> None:
    def run(count: int) -> Report:
        return exact_report({"instructions": [count] * 3})

    earlier = [(f"#{i} (main, a1b2)", run(n)) for i, n in ((1, 505), (2, 505), (3, 507))]
    view = Page(render_html(run(507), earlier=earlier)).view()
    found = view["groups"][0]["metrics"]["0"]["history"]
    assert found["medians"] == [505, 505, 507, 507]
    assert found["changes"] == [{"at": 2, "before": 505, "after": 507}]
    assert (found["runs"][2], "usual" in found) == ("#3 (main, a1b2)", False)


def test_the_page_has_results_first_then_warnings_then_provenance_folded() -> None:
    calls = [sample(**{"Duration (us)": Duration(v)}) for v in (1.0, 2.0)]
    text = render_html(Report(calls, {}, {"Missing": "g: it does not compile"}))
    order = ['id="changes"', 'id="samples"', ">Warnings<", "<bdi>Missing: g: it", 'id="metrics"']
    order += ['<details>\n<summary><h2 id="trust-title">', '<article class="card">']
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_which_boards_have_no_wall_time_is_said_on_the_first_screen() -> None:
    devices = {
        "a": {"clock_kind": "simulated", "emulated": True},
        "b": {"clock_kind": "simulated", "emulated": True},
        "c": {"clock_kind": "measured"},
    }
    calls = [sample(device=name, ticks=1) for name in devices]
    text = render_html(Report(calls, {}, {}, {"schema_version": 1, "devices": devices}))
    assert text.count('<p class="clocks">') == 1
    assert '<p class="clocks"><bdi>a</bdi>, <bdi>b</bdi> <span class="tag caution">' in text


def test_a_simulated_clock_an_emulator_and_what_is_unsupported_are_said_plainly() -> None:
    why = {"cycles": "QEMU has no cycle model"}
    text = render_html(
        report_of(sample(ticks=3), clock_kind="simulated", emulated=True, unsupported=why)
    )
    assert "Simulated clock: no wall time" in text
    assert "<bdi>Emulated</bdi>" in text
    assert "<bdi>cycles</bdi>: <bdi>QEMU has no cycle model</bdi>" in text


def test_wraps_and_doubts_of_the_raw_samples_are_counted() -> None:
    blob = {"raw": {}, "blobs": ""}
    stored = {
        "device": "b",
        "samples": [{**blob, "wraps": {"cycles": 2}}, {**blob, "ambiguous": ["ticks"]}],
        "further_passes": [{"samples": [{**blob, "wraps": {"cycles": 1}}]}],
    }
    extra = {"schema_version": 1, "devices": {"b": {}}, "measurements": [stored]}
    text = render_html(Report([sample(cycles=1)], {}, {}, extra))
    assert "<dt>Wrapped, resolved</dt><dd><bdi>cycles</bdi> 3×</dd>" in text
    told = '<dt>May have wrapped</dt><dd class="caution"><bdi>ticks</bdi> in 1 sample</dd>'
    assert told in text


def test_a_report_of_tvm_without_anything_beside_makes_a_page() -> None:
    row = {"Name": "fused_add", "Duration (us)": Duration(3.5), "Percent": Percent(100.0)}
    text = render_html(Report([{**row, "Count": 1, "Device": "cpu0"}], {}, {}))
    assert "Nothing more is known." in text
    assert Page(text).view()["groups"][0]["metrics"]["0"]["median"] == 3.5


def test_of_very_many_functions_the_page_draws_the_first_ones_and_has_all() -> None:
    rows = [{"Name": f"f{number}", "cycles": 9, "Count": 1} for number in range(10_002)]
    report = Report(rows, {}, {})
    page = render_html(report)
    told = "These are the first 10,000 of 10,002 measurements; the Report in this page has all"
    assert f"{told} rows." in page
    assert '"name":"f9999"' in page
    assert '"name":"f10000"' not in page
    assert read_page(page) == report
