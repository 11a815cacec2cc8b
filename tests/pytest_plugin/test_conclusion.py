# SPDX-License-Identifier: Apache-2.0
"""What a session says against its baseline as a whole: rows are made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from boardprof.base.metrics import Count
from boardprof.results.report.calls import Row
from boardprof.results.report.report import Report
from boardprof.show.layout import plain
from boardprof.ui.pytest_plugin.gate import Conclusion, MeasurementGate, conclude

RULE = ("instructions:max>0",)
EXACT = {"schema_version": 1, "devices": {"rv": {"clock_kind": "simulated", "emulated": True}}}
"""The board's counts are compared exactly, however few they are."""


def one(label: str, instructions: int = 5, **others: str) -> Report:
    """Return what one test has measured, on one board."""
    row = {"Name": "f", "Argument Shapes": "n=1", "Label": label, "Device": "rv"} | others
    return Report([{**row, "Count": Count(1), "instructions": Count(instructions)}], {}, {}, EXACT)


def together(*reports: Report) -> Report:
    return Report([row for each in reports for row in each.calls], {}, {}, EXACT)


def concluded(
    before: Sequence[Report],
    now: Sequence[Report],
    rules: Sequence[str] = RULE,
    is_asked_for: Callable[[str], bool] = lambda label: False,
    is_required: bool = True,
    skipped: Mapping[str, str] | None = None,
) -> Conclusion:
    baseline = ("main", together(*before))
    return conclude(
        baseline,
        together(*now) if now else None,
        [MeasurementGate({}, rules, baseline).judge(each) for each in now],
        any_board=False,
        is_ruled=bool(rules),
        is_required=is_required,
        is_asked_for=is_asked_for,
        skipped=skipped or {},
    )


def test_a_session_with_nothing_to_compare_fails_and_says_what_there_is() -> None:
    found = concluded([one("a.py::test_f")], [one("tests/a.py::test_f")])
    assert found == Conclusion(
        errors=(
            "nothing could be compared with main, so no change can fail a test.\n"
            "main has: f [a.py::test_f](n=1) on rv.\n"
            "Now: f [tests/a.py::test_f](n=1) on rv.\n"
            "Try: use the same root folder (--rootdir), because labels start there, or measure the "
            "baseline again with these tests (--bp-save, --bp-json); if only new tests run, leave "
            "out --bp-compare",
        )
    )


def test_where_nothing_is_a_rule_nothing_to_compare_is_a_note() -> None:
    found = concluded([one("a.py::test_f")], [one("a.py::test_g")], rules=())
    assert found.errors == ()
    assert found.notes[0].startswith("nothing could be compared with main")


def test_another_board_is_what_is_told_first() -> None:
    found = concluded([one("a.py::test_f")], [one("a.py::test_f", Device="arm")])
    assert "\nTry: use the same --bp-board, or --bp-allow board, or measure" in found.errors[0]


def test_of_new_tests_alone_the_root_folder_is_not_suspected() -> None:
    found = concluded([one("a.py::test_f")], [one("a.py::test_g")])
    assert "\nTry: measure the baseline again" in found.errors[0]


def test_a_rule_on_a_metric_that_no_test_had_counted_fails_the_session() -> None:
    row: Row = {"Name": "f", "Label": "a.py::test_f", "Device": "rv", "Count": Count(1)}
    before = Report([{**row, "loads": Count(2)}], {}, {}, EXACT)
    now = Report([{**row, "loads": Count(2), "instructions": Count(5)}], {}, {}, EXACT)
    assert concluded([before], [now]).errors
    assert not concluded([before], [now], rules=["loads>0"]).errors


def test_one_new_test_beside_others_is_a_note() -> None:
    found = concluded([one("a.py::test_f")], [one("a.py::test_f"), one("a.py::test_g")])
    assert found == Conclusion(notes=("1 of 2 not compared: they are missing from main",))


def test_tests_that_were_not_run_are_counted_and_three_are_named() -> None:
    tests = [one(f"a.py::test_{letter}") for letter in "fghij"]
    found = concluded(tests, tests[:1])
    assert found == Conclusion(
        notes=(
            "4 measurements of main were not repeated: a.py::test_g, a.py::test_h, a.py::test_i "
            "and 1 more",
        )
    )


def test_a_test_that_was_asked_for_and_is_gone_is_an_error() -> None:
    tests = [one("a.py::test_f"), one("b.py::test_f")]
    found = concluded(tests, tests[:1], is_asked_for=lambda label: label.startswith("b.py"))
    assert found.errors == (
        "1 measurement of main was not repeated: b.py::test_f (--bp-require-baseline)",
    )


def test_what_was_not_asked_for_is_not_counted_in_the_error() -> None:
    tests = [one(f"{file}.py::test_{letter}") for file in "ab" for letter in "fg"]
    found = concluded(tests, tests[1:2], is_asked_for=lambda label: label.startswith("a.py"))
    assert found == Conclusion(
        errors=("1 measurement of main was not repeated: a.py::test_f (--bp-require-baseline)",),
        notes=("2 measurements of main were not repeated: b.py::test_f, b.py::test_g",),
    )


def test_that_nothing_was_measured_is_a_note_where_nothing_was_asked_for_or_is_a_rule() -> None:
    tests = [one("a.py::test_f"), one("b.py::test_f")]
    told = (
        "nothing was measured, so nothing is compared with main",
        "2 measurements of main were not repeated: a.py::test_f, b.py::test_f",
    )
    assert concluded(tests, []) == Conclusion(notes=told)
    found = concluded(tests, [], rules=(), is_asked_for=lambda label: True, is_required=False)
    assert found == Conclusion(notes=told)


def test_that_nothing_was_measured_of_what_was_asked_for_is_an_error_with_the_reason() -> None:
    tests = [one("a.py::test_f"), one("a.py::test_g"), one("a.py::test_g #2"), one("b.py::test_f")]
    found = concluded(
        tests,
        [],
        is_asked_for=lambda label: label.startswith("a.py"),
        is_required=False,
        skipped={"a.py::test_g": "no emulator", "a.py::test_plain": "something else"},
    )
    assert found == Conclusion(
        errors=(
            "nothing was measured, so nothing could be compared with main and no test can fail.\n"
            "main has: f [a.py::test_f](n=1) on rv, f [a.py::test_g](n=1) on rv, "
            "f [a.py::test_g #2](n=1) on rv.\n"
            "These tests now: 1 of 2 skipped: no emulator; 1 of 2 are gone or measured nothing.\n"
            "Try: check why they are skipped, or measure the baseline again without them "
            "(--bp-save, --bp-json); if nothing should be measured, leave out --bp-compare",
        )
    )


def test_of_tests_that_are_gone_no_skip_is_suspected() -> None:
    found = concluded([one("a.py::test_f")], [], is_asked_for=lambda label: True)
    assert (
        "These tests now: 1 of 1 are gone or measured nothing.\nTry: restore these"
        in found.errors[0]
    )


def test_a_baseline_of_no_tests_misses_none() -> None:
    found = concluded([one("")], [], is_asked_for=lambda label: True)
    assert found == Conclusion(notes=("nothing was measured, so nothing is compared with main",))


def test_a_test_on_fewer_boards_is_a_note_that_names_the_board() -> None:
    tests = [one("a.py::test_f"), one("a.py::test_f", Device="arm")]
    found = concluded(tests, tests[:1], is_asked_for=lambda label: True)
    assert found == Conclusion(
        notes=("1 measurement of main was not repeated: f [a.py::test_f](n=1) on arm",)
    )


def test_what_no_test_has_measured_is_missed_only_if_benchmarks_run() -> None:
    test, by_hand, on_another_board = "a.py::test_f", one("", Name="g"), one("b", Device="arm")
    before, now = [by_hand, on_another_board, one(""), one(test)], [one(test)]
    found = concluded(before, now, is_asked_for=lambda label: "::" in label)
    assert found == Conclusion()
    found = concluded(before, now, is_asked_for=lambda label: True)
    told = "1 measurement of main was not repeated: g(n=1) on rv (--bp-require-baseline)"
    assert found == Conclusion(errors=(told,))


def test_a_test_that_measures_something_less_often_is_told() -> None:
    tests = [one("a.py::test_f"), one("a.py::test_f #2")]
    found = concluded(tests, tests[:1])
    assert found.notes == (
        "1 measurement of main was not repeated: a.py::test_f #2",
        "a.py::test_f: main has 2 measurements of f(n=1), this session has 1. The n-th is compared "
        "with the n-th, which may be a different call",
    )


def test_without_a_rule_what_has_changed_is_shown_and_what_would_make_a_gate() -> None:
    tests = [one("a.py::test_f"), one("a.py::test_g")]
    found = concluded(tests, [tests[0], one("a.py::test_g", 6)], rules=())
    assert found.errors == ()
    assert plain(found.changes) == (
        "Compared with main without a rule: 2 metrics: 1 worse, 1 same.\n"
        "Name  Label         Arguments  Device  Metric        Before  After    Change  Certainty  "
        "Verdict\n"
        "f     a.py::test_g  n=1        rv      instructions       5      6  +20.00 %      exact  "
        "worse\n"
        "No change can fail a test. To set rules: --bp-fail-if RULE, or fail_if= in the marker.\n"
    )
