# SPDX-License-Identifier: Apache-2.0
"""What one measurement's gate says of what it could not judge: rows are made by hand."""

from __future__ import annotations

import pytest

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration
from boardprof.results.report.calls import Row
from boardprof.results.report.report import Report
from boardprof.ui.pytest_plugin.gate import MeasurementGate, check_limits


def report(n: int = 2, **metrics: Count | Duration) -> Report:
    row: Row = {"Name": "f", "Label": "a.py::test_f", "Device": "rv", "Count": Count(1)}
    return Report([{**row, **metrics}] * n, {}, {})


def gate(before: Report, rule: str, is_baseline_required: bool) -> MeasurementGate:
    return MeasurementGate({}, (rule,), ("main", before), (), is_baseline_required)


def test_what_a_rule_could_not_judge_fails_where_the_baseline_is_required() -> None:
    before, now = report(time=Duration(5.0)), report(time=Duration(9.0))
    text = (
        "time of f [a.py::test_f] could not be checked against time>2%: "
        "too few samples to reach p < 0.01"
    )
    assert gate(before, "time>2%", True).judge(now).failures == (f"{text} (--bp-require-baseline)",)
    assert gate(before, "time>2%", False).judge(now).failures == ()


def test_what_a_rule_could_not_judge_is_told_once() -> None:
    before, now = report(time=Duration(5.0)), report(time=Duration(9.0))
    assert gate(before, "time>2%", False).judge(now).notes == (
        "The rule time>2% cannot be broken by time of f [a.py::test_f]: there are too few "
        "samples to reach p < 0.01. Take more with repeat=.",
    )


def test_what_is_gone_is_told_with_the_rule_that_cannot_judge_it() -> None:
    before, now = report(loads=Count(1), cycles=Count(7)), report(loads=Count(1))
    both = MeasurementGate({}, ("*>2%",), ("main", before)).judge(now)
    assert both.failures == ()
    text = "cycles of f [a.py::test_f] could not be checked against *>2%: it is no longer there"
    assert text in both.notes


def test_a_rule_on_a_metric_that_is_new_fails_where_the_baseline_is_required() -> None:
    before, now = report(loads=Count(1)), report(loads=Count(1), cycles=Count(7))
    assert gate(before, "cycles>2%", True).judge(now).failures == (
        "the rule cycles>2% needs cycles, which is missing from main here (--bp-require-baseline)",
    )
    assert not gate(before, "cycles>2%", False).judge(now).is_compared
    assert gate(before, "loads>2%", True).judge(now).failures == ()


@pytest.mark.parametrize("limits", [5, {"time": float("nan")}, {"time": "5"}, {"time": None}])
def test_a_limit_that_is_no_number_is_an_error(limits: object) -> None:
    with pytest.raises(UsageError, match="must give a number for each metric"):
        check_limits(limits)
    check_limits({"time": 5, "cycles": 0.5})
