# SPDX-License-Identifier: Apache-2.0
"""A Comparison as text, Markdown, JUnit and JSON; names are never taken for markup."""

from __future__ import annotations

import json
from xml.etree import ElementTree as xml

import pytest

from boardprof.base.metrics import Count, Duration, Kind, Percent
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.comparison import Comparison
from boardprof.results.report.report import Report
from boardprof.show.cells import number_text
from tests.unit.reports import HARDWARE, report_of

HOSTILE = 'a|b`c`<script>"&\n\u202e\x07'


def comparison() -> Comparison:
    before = report_of({"instructions": [1200, 1200], "loads": [7, 7], "branches": [5, 5]})
    after = report_of({"instructions": [1260, 1260], "loads": [7, 7], "stores": [2, 2]})
    return compare(before, after, ["instructions:max>2%"], before_name="main", after_name="pr")


def hostile() -> Comparison:
    before, after = (report_of({HOSTILE: [n]}, name=HOSTILE, shapes=HOSTILE) for n in (1, 2))
    return compare(before, after, ["*>0"], before_name=HOSTILE, after_name=HOSTILE)


def test_the_table_has_a_row_a_metric_then_both_sides_notes_and_the_result() -> None:
    assert comparison().table() == (
        "Name  Arguments  Device  Metric        Before  After   Change  Certainty  Verdict\n"
        "fir   n=64       board   instructions   1,200  1,260  +5.00 %      exact  "
        "REGRESSION (instructions:max>2%)\n"
        "fir   n=64       board   loads              7      7        0      exact  same\n"
        "fir   n=64       board   branches           5                             removed\n"
        "fir   n=64       board   stores                    2                      added\n"
        "\n"
        "pr takes 1.05 times the instructions of main.\n"
        "Before: main\n"
        "After:  pr\n"
        "Note: Only before: branches of fir.\n"
        "Note: Only after: stores of fir.\n"
        "Result: 1 regression; 4 metrics: 1 worse, 1 same, 1 added, 1 removed.\n"
    )


def test_one_sentence_says_how_many_times_faster_the_only_function_is() -> None:
    # The quartiles of the first ten are 20 and 22, so the ratio is 2.1, and its spread 2.1 / 21.
    slow, fast = ([Duration(each) for each in times] for times in ([20] * 5 + [22] * 5, [10] * 10))
    before, after = (report_of({"Duration (us)": each}, facts=HARDWARE) for each in (slow, fast))
    sentence = "-O3 is 2.1 ± 0.1 times faster than -O2."
    found = compare(before, after, before_name="-O2", after_name="-O3")
    assert sentence in found.table().splitlines()
    found = compare(after, before, before_name="-O3", after_name="#7 (saved as slow)")
    assert "#7 is 2.1 ± 0.1 times slower than -O3." in found.table().splitlines()


def test_of_what_identifies_the_sides_only_the_difference_is_told() -> None:
    before, after = (report_of({"cycles": [5]}, flags=flags) for flags in ("-O2", "-O3"))
    lines = compare(before, after, allow=["compiler"]).table().splitlines()
    assert "Before: before (board flags -O2)" in lines
    assert "After:  after (board flags -O3)" in lines


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (1_000_000, 1_000_002, "+0.0002 %"),
        (10**12, 10**12 + 1, "+<0.0001 %"),
        (10**12, 10**12 - 1, "-<0.0001 %"),
    ],
)
def test_a_tiny_change_has_its_sign_and_no_exponent(before: int, after: int, text: str) -> None:
    found = compare(report_of({"cycles": [before]}), report_of({"cycles": [after]}))
    assert f" {text} " in found.table()


def test_what_is_the_same_can_be_left_out() -> None:
    lines = comparison().table(changed_only=True).splitlines()
    assert [line.split()[3] for line in lines[1:4]] == ["instructions", "branches", "stores"]


def test_markdown_shows_what_changed_first_and_folds_up_the_rest() -> None:
    text = comparison().markdown()
    assert text.startswith("### ❌ boardprof: 1 regression; 4 metrics: ")
    assert "| 1,200 | 1,260 | +5.00 % | exact | **regression** " in text
    assert text.index("1,260") < text.index("<summary>3 metrics without") < text.index("`loads`")
    assert "`main` → `pr`" in text


def test_the_geometric_mean_comes_before_the_rows_in_markdown_and_after_them_in_the_table() -> None:
    def both(fir: int, iir: int) -> Report:
        sides = [report_of({"loads": [n]}, name=name) for name, n in (("fir", fir), ("iir", iir))]
        return Report([row for side in sides for row in side.calls], {}, {}, sides[0].extra)

    comparison = compare(both(100, 100), both(25, 144))
    text = comparison.markdown()
    # The root of 0.25 times 1.44 is 0.6.
    mean = "Geometric mean: `loads` **-40.00 %** over 2 functions.\n"
    assert mean in text
    places = [text.index(part) for part in (mean, "| Function ", "`iir(", "`fir(")]
    assert places == sorted(places)
    assert "\nGeometric mean: loads -40.00 % over 2 functions.\nBefore: " in comparison.table()


def test_markdown_approves_only_where_a_rule_was_judged_and_holds() -> None:
    before = report_of({"instructions": [1200], "loads": [7]})
    after = report_of({"instructions": [1200], "stores": [2]})
    marks = {
        (): "ℹ️ boardprof: no rule, so nothing is gated; ",
        ("instructions:max>0",): "✅ boardprof: no regression; ",
        ("stores:max>0",): "ℹ️ boardprof: no rule could judge anything, so nothing is gated; ",
        ("*:max>0",): "⚠️ boardprof: 1 row not judged (loads of fir); no regression in what ",
        ("instructions<-1%", "stores>0"): "✅ boardprof: no regression; ",
    }
    for rules, mark in marks.items():
        assert compare(before, after, rules).markdown().startswith(f"### {mark}"), rules


def test_names_are_no_markup_in_markdown() -> None:
    text = hostile().markdown()
    for part in ("<script", "`c`", "\u202e", "\x07"):
        assert part not in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "regression" in line]
    assert [row.count("|") for row in rows] == [8]  # a pipe in a name is no cell's end


@pytest.mark.parametrize("name", ["a\nb", "@octocat", "see #12", "~~a~~", "\u202ea", "x_y_z"])
def test_a_name_in_a_note_is_no_markup_and_calls_nobody(name: str) -> None:
    before, after = (
        report_of({"loads": [1], "x": [1]}, name=name),
        report_of({"loads": [1]}, name=name),
    )
    note = compare(before, after).markdown().split("</details>\n\n- ")[1].splitlines()[0]
    assert note.startswith("<code>Only before&#58; x of ") or note.startswith("`Only before: x of ")
    assert note.endswith(("</code>", "`"))


def test_junit_has_a_test_case_a_metric_and_a_failure_with_the_numbers() -> None:
    suite = xml.fromstring(comparison().junit())[0]
    facts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert facts == {"tests": "4", "failures": "1", "errors": "0", "skipped": "2"}
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases][:2] == [
        "fir(n=64) on board: instructions",
        "fir(n=64) on board: loads",
    ]
    failure = cases[0].find("failure")
    assert failure is not None
    assert failure.get("message") == (
        "instructions of fir: 1,200 -> 1,260 (+5.00 %, exact, 2 and 2 samples), "
        "limit instructions:max>2%"
    )
    assert [case.find("skipped") is not None for case in cases] == [False, False, True, True]


def test_junit_is_xml_whatever_the_names_are() -> None:
    suite = xml.fromstring(hostile().junit())[0]
    case = suite.find("testcase")
    assert case is not None
    assert case.get("name", "").startswith('a|b`c`<script>"&\\n\\u202e\\x07(')


def test_json_has_a_version_and_all_statistics() -> None:
    found = json.loads(comparison().json())
    assert (found["kind"], found["schema_version"]) == ("boardprof.comparison", 1)
    assert (found["regressed"], found["rules"]) == (True, ["instructions:max>2%"])
    assert found["before"]["name"] == "main"
    row = found["rows"][0]
    assert (row["name"], row["metric"], row["unit"]) == ("fir", "instructions", "count")
    assert (row["verdict"], row["change"], row["p"]) == ("worse", 0.05, None)
    assert row["broken"] == ["instructions:max>2%"]
    assert row["after"]["median"] == 1260
    assert found["rows"][2]["after"] is None


def test_whole_numbers_are_whole_in_json_and_large_ones_told_apart_in_the_table() -> None:
    large = 1 << 53
    before, after = (report_of({"loads": [n, n]}) for n in (large, large + 1))
    found = compare(before, after)
    assert '"median": 9007199254740993,' in found.json()
    assert '"min": 9007199254740992,' in found.json()
    line = found.table().splitlines()[1].split()
    assert line[4:6] == ["9,007,199,254,740,992", "9,007,199,254,740,993"]


def test_what_a_rule_could_not_judge_stands_in_the_result_of_each_form() -> None:
    before = report_of({"loads": [1]})
    other = report_of({"loads": [1]}, name="iir")
    both = Report([*before.calls, *other.calls], {}, {}, before.extra)
    found = compare(both, before, ["loads>0"])
    words = (
        "1 row not judged (loads of iir); no regression in what was judged; 2 metrics: 1 same, "
        "1 removed."
    )
    why = "Not judged by loads>0: loads of iir(n=64) on board; it is no longer there."
    assert found.table().endswith(f"{why}\nResult: {words}\n")
    assert found.table().splitlines()[2].endswith("  NOT JUDGED (loads>0)")
    suite = xml.fromstring(found.junit())[0]
    assert suite.findtext("system-out", "").splitlines()[:2] == [words, why]
    lines = found.markdown().splitlines()
    assert lines[0].startswith("### ⚠️ boardprof: ")
    assert words in lines[0]
    assert json.loads(found.json())["unjudged"] == [
        {"rule": "loads>0", "what": "loads of iir", "why": "it is no longer there"}
    ]


def missing(*, fails: bool) -> Comparison:
    """Two functions of which one is gone, one has samples that are no number, one is worse."""
    before, after = (
        report_of({"loads": [n], "time (us)": [Duration(1.0)]}, name="fir") for n in (1, 2)
    )
    gone = report_of({"loads": [1]}, name="iir", shapes="")
    odd = report_of({"time (us)": [Duration(float("nan"))]}, name="fft\x00", shapes="")
    old = Report([*before.calls, *gone.calls, *odd.calls], {}, {}, before.extra)
    new = Report([*after.calls, *odd.calls], {}, {}, after.extra)
    return compare(old, new, ["loads>0", "time (us)>5%"], fail_if_missing=fails)


def test_what_no_rule_could_judge_is_skipped_in_junit_and_a_failure_where_it_is_one() -> None:
    cases = {}
    for fails in (False, True):
        suite = xml.fromstring(missing(fails=fails).junit())[0]
        numbers = [suite.get(name) for name in ("tests", "failures", "skipped")]
        assert numbers == (["4", "3", "0"] if fails else ["4", "1", "2"])
        cases[fails] = {each.get("name"): each[0] for each in suite.iter("testcase") if len(each)}
    name = "iir() on board: loads"
    assert (cases[False][name].tag, cases[True][name].tag) == ("skipped", "failure")
    assert cases[True][name].get("message") == "not judged by loads>0: it is no longer there"
    name = "fft\\x00() on board: time (us)"  # it has no row: there is nothing to compare
    assert cases[True][name].get("message", "").startswith("not judged by time (us)>5%: 1 of 1 sam")
    assert cases[True]["fir(n=64) on board: loads"].get("type") == "regression"


def test_what_fails_as_it_is_missing_is_marked_in_each_form() -> None:
    same = report_of({"loads": [1]})
    both = Report([*same.calls, *report_of({"loads": [1]}, name="iir").calls], {}, {}, same.extra)
    found = compare(both, same, ["loads>0"], fail_if_missing=True)
    words = "1 row not judged, which fails (loads of iir); no regression in what was judged; 2 met"
    assert found.markdown().startswith(f"### ❌ boardprof: {words}")
    assert words in found.table()
    facts = json.loads(found.json())
    assert (facts["regressed"], facts["failed"]) == (False, True)


def test_markdown_shows_what_was_not_judged_ahead_of_what_is_folded_up() -> None:
    text = missing(fails=True).markdown()
    shown, folded = text.split("<details>", 1)
    rows = [line.split(" | ") for line in shown.splitlines() if line.startswith("| ")][2:]
    assert [row[-1] for row in rows] == [
        "**regression** <code>loads&#62;0</code> |",
        "**not judged** <code>loads&#62;0</code> |",
    ]
    assert (
        "Not judged by loads&#62;0&#58; loads of iir&#40;&#41; on board&#59; it is no longer there"
        in shown
    )
    assert "1 of 1 samples is infinite or not a number" in shown
    assert folded.startswith("<summary>1 metric without a change that counts</summary>")
    assert "iir" not in folded.split("</details>")[0]


def test_what_is_not_judged_is_in_the_table_where_what_is_the_same_is_left_out() -> None:
    odd = report_of({"time (us)": [Duration(1.0), Duration(1.0), Duration(float("nan"))]})
    text = compare(odd, odd, ["time (us)>5%"]).table(changed_only=True)
    assert text.splitlines()[1].endswith("  NOT JUDGED (time (us)>5%)")


def test_a_label_stands_in_each_form() -> None:
    rows = [{"Name": "conv", "Label": "l<1>", "loads": 5, "Count": 1, "Device": "b"}]
    found = compare(Report(rows, {}, {}), Report(rows, {}, {}))
    assert found.table().splitlines()[0].split()[:2] == ["Name", "Label"]
    assert "conv&#32;" in found.markdown() or "l&#60;1&#62;" in found.markdown()
    assert 'name="conv [l&lt;1&gt;]() on b: loads"' in found.junit()
    assert json.loads(found.json())["rows"][0]["label"] == "l<1>"


def test_p_is_shown_of_what_is_not_exact() -> None:
    sides = (
        report_of({"Duration (us)": [Duration(v) for v in values]}, facts=HARDWARE)
        for values in ([1.5, 1.6, 1.7, 1.8, 1.9], [2.5, 2.6, 2.7, 2.8, 2.9])
    )
    line = compare(*sides).table().splitlines()[1]
    # p = 2 of the C(10, 5) = 252 arrangements
    assert line.split()[4:] == ["(us)", "1.7", "2.7", "+58.82", "%", "p=0.0079", "worse"]


def test_the_change_of_a_percentage_is_in_points() -> None:
    before, after = (report_of({"stalls (%)": [Percent(p)]}) for p in (40.0, 42.5))
    line = compare(before, after).table().splitlines()[1]
    assert line.split()[5:] == ["40", "%", "42.5", "%", "+2.5", "pp", "exact", "changed"]


def test_without_rules_the_result_says_that_nothing_is_gated() -> None:
    before, after = (report_of({"loads": [n]}) for n in (3, 4))
    assert (
        compare(before, after)
        .table()
        .endswith("Result: no rule, so nothing is gated; 1 metric: 1 worse.\n")
    )
    assert "no regression; " in compare(before, before, ["*>0"]).table()


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, Count, ""),
        (1234567.0, Count, "1,234,567"),
        (0.0, Count, "0"),
        (811.5, Count, "811.50"),
        (1234.567, Duration, "1,234.57"),
        (0.0284, Duration, "0.0284"),
        (12.3456, Duration, "12.35"),
        (-0.085, Duration, "-0.085"),
        (40.25, Percent, "40.25 %"),
    ],
)
def test_numbers_are_short_and_small_ones_are_not_zero(
    value: float | None, kind: Kind, text: str
) -> None:
    assert number_text(value, kind) == text
