# SPDX-License-Identifier: Apache-2.0
"""Forms for CI services: GitHub, GitLab, Bencher, github-action-benchmark, OpenMetrics, JUnit.

The schemas below say what each service publishes about its form; OpenMetrics and JUnit are read
by packages of their own.
"""

from __future__ import annotations

import json
import re

import jsonschema
import junitparser
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration, Ratio
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.comparison import Comparison
from boardprof.results.report.report import Report
from boardprof.show.exporters import (
    comparison_exporter_names,
    find_comparison_exporter,
    find_exporter,
)
from tests.unit.reports import report_of

# https://docs.gitlab.com/ci/testing/code_quality, "Code Quality report format".
GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "location", "severity"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^(?!/|\\./)."},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}
# https://bencher.dev/bmf.json, and the lengths of names in its reference.
MEASURE = {
    "type": "object",
    "required": ["value"],
    "properties": {n: {"type": "number"} for n in ("value", "lower_value", "upper_value")},
}
BENCHER = {
    "type": "object",
    "propertyNames": {"minLength": 1, "maxLength": 1024},
    "additionalProperties": {
        "type": "object",
        "propertyNames": {"minLength": 1, "maxLength": 64},
        "additionalProperties": MEASURE,
    },
}
# The README of github-action-benchmark, customSmallerIsBetter, and BenchmarkResult in its source.
ACTION = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name", "unit", "value"],
        "additionalProperties": False,
        "properties": {
            "value": {"type": "number"},
            **{n: {"type": "string"} for n in ("name", "unit", "range", "extra")},
        },
    },
}
# "Workflow commands for GitHub Actions": ::command key=value,key=value::message, on one line.
COMMAND = re.compile(r"::(error|warning|notice) ((?:\w+=[^,:\r\n]*,?)+)::([^\r\n]*)")

HOSTILE = 'a|b`c`<script>"&\n\u202e\x07%0A::error::,\\'


def regression(*, missing: bool = False) -> Comparison:
    before = report_of({"instructions": [1200, 1200], "branches": [5, 5]})
    place = {"source": {"file": "src/a,b.c", "line": 12}}
    after = report_of({"instructions": [1260, 1260]}, measurement=place)
    rules = ["instructions:max>2%", "*>5.5%"]
    return compare(before, after, rules, fail_if_missing=missing)


def hostile() -> Comparison:
    before, after = (report_of({HOSTILE: [n]}, name=HOSTILE, shapes=HOSTILE) for n in (1, 2))
    return compare(before, after, ["*>0"], before_name=HOSTILE, after_name=HOSTILE)


def exported(name: str, comparison: Comparison) -> str:
    found = find_comparison_exporter(name)(comparison)
    assert isinstance(found, str)
    return found


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    found = []
    for line in text.splitlines():
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        properties = dict(part.split("=", 1) for part in match[2].split(","))
        found.append((match[1], properties, match[3]))
    return found


def test_github_shows_a_broken_rule_at_the_line_of_the_function() -> None:
    error, warning, notice = exported("github", regression()).splitlines()
    assert error == (
        "::error file=src/a%2Cb.c,line=12,title=Regression%3A instructions of fir::"
        "fir(n=64) on board: instructions 1,200 -> 1,260 (+5.00 %25, exact), "
        "limit instructions:max>2%25"
    )
    assert warning.startswith("::warning file=src/a%2Cb.c,line=12,title=Not checked%3A branches")
    assert notice.startswith("::notice title=boardprof::1 regression; 1 row not judged")


def test_an_editor_gets_a_broken_rule_as_a_compiler_writes_an_error() -> None:
    error, warning, headline = exported("editor", regression()).splitlines()
    assert error == (
        "src/a,b.c:12: error: fir(n=64) on board: instructions 1,200 -> 1,260 (+5.00 %, exact), "
        "limit instructions:max>2%"
    )
    assert warning.startswith("src/a,b.c:12: warning: ")
    assert headline.startswith("1 regression; 1 row not judged")
    assert len(exported("editor", hostile()).splitlines()) == 2


def test_github_has_an_error_for_what_was_not_checked_if_that_fails() -> None:
    levels = [level for level, _, _ in commands(exported("github", regression(missing=True)))]
    assert levels == ["error", "error", "notice"]


def test_no_name_begins_a_command_of_github() -> None:
    found = commands(exported("github", hostile()))
    assert [level for level, _, _ in found] == ["error", "notice"]
    assert {*found[0][1]} == {"title"}


def test_gitlab_has_an_issue_for_each_row_at_the_line_of_the_function() -> None:
    issues = json.loads(exported("gitlab", regression()))
    jsonschema.validate(issues, GITLAB)
    assert [each["severity"] for each in issues] == ["major", "minor"]
    assert issues[0]["location"] == {"path": "src/a,b.c", "lines": {"begin": 12}}
    assert "instructions 1,200 -> 1,260 (+5.00 %, exact)" in issues[0]["description"]
    assert len({each["fingerprint"] for each in issues}) == 2
    stricter = json.loads(exported("gitlab", regression(missing=True)))
    assert [each["severity"] for each in stricter] == ["major", "major"]
    # Another size of the same regression is the same issue.
    before, after = report_of({"instructions": [1]}), report_of({"instructions": [9]})
    other = json.loads(exported("gitlab", compare(before, after, ["instructions>0"])))
    assert other[0]["fingerprint"] == issues[0]["fingerprint"]


def test_gitlab_takes_every_name_and_a_result_without_issues() -> None:
    issues = json.loads(exported("gitlab", hostile()))
    jsonschema.validate(issues, GITLAB)
    assert len(issues) == 1
    same = report_of({"instructions": [5]})
    assert json.loads(exported("gitlab", compare(same, same, ["instructions>0"]))) == []


def test_junit_has_file_and_line_of_each_function_that_knows_them() -> None:
    (suite,) = junitparser.JUnitXml.fromstring(exported("junit", regression()).encode())
    cases = [*suite]
    assert [case.name.rpartition(" ")[2] for case in cases] == ["instructions", "branches"]
    attributes = [(each.get("file"), each.get("line")) for each in (c._elem for c in cases)]
    assert attributes == [("src/a,b.c", "12"), ("src/a,b.c", "12")]
    assert (suite.tests, suite.failures, suite.skipped) == (2, 1, 1)
    (unknown,) = junitparser.JUnitXml.fromstring(exported("junit", hostile()).encode())
    assert next(iter(unknown))._elem.get("file") is None


@pytest.mark.parametrize("name", comparison_exporter_names())
def test_every_exporter_of_comparisons_makes_text_of_every_name(name: str) -> None:
    text = exported(name, hostile())
    assert "\x07" not in text
    assert "\u202e" not in text


# -- medians of a Report ------------------------------------------------------------------------


def measured() -> Report:
    rows = [
        {
            "Name": "fir",
            "Device": "m4",
            "Argument Shapes": "n=64",
            "Count": Count(2),
            "cycles": Count(cycles),
            "Duration (us)": Duration(us),
            "IPC": Ratio(0.5),
            "Stack (bytes)": Count(48),
        }
        for cycles, us in ((200, 3.0), (204, 4.0), (230, 8.0))
    ]
    return Report(rows, {}, {})


def test_bencher_has_medians_per_call_between_the_smallest_and_the_largest() -> None:
    found = json.loads(find_exporter("bencher")(measured()))
    jsonschema.validate(found, BENCHER)
    measures = found["fir(n=64) on m4"]
    assert measures["cycles"] == {"value": 102, "lower_value": 100, "upper_value": 115}
    assert measures["Duration (us)"] == {"value": 2, "lower_value": 1.5, "upper_value": 4}
    assert {*measures} == {"cycles", "Duration (us)", "IPC", "Stack (bytes)"}


def test_github_action_benchmark_has_only_what_is_better_if_smaller() -> None:
    found = json.loads(find_exporter("benchmark-action")(measured()))
    jsonschema.validate(found, ACTION)
    assert {each["name"].partition(": ")[2]: each["unit"] for each in found} == {
        "Duration (us)": "us",
        "Stack (bytes)": "bytes",
        "cycles": "per call",
    }
    cycles = next(each for each in found if each["name"] == "fir(n=64) on m4: cycles")
    assert (cycles["value"], cycles["range"]) == (102, "100 to 115")


def test_openmetrics_has_a_gauge_for_each_metric() -> None:
    text = find_exporter("openmetrics")(measured())
    assert isinstance(text, str)
    families = {each.name: each for each in text_string_to_metric_families(text)}
    assert {*families} == {
        "boardprof_Duration_us",
        "boardprof_IPC",
        "boardprof_Stack_bytes",
        "boardprof_cycles",
    }
    (sample,) = families["boardprof_cycles"].samples
    assert sample.value == 102
    assert sample.labels == {"function": "fir", "board": "m4", "arguments": "n=64"}


def test_names_of_any_kind_and_metrics_that_differ_in_a_sign_stay_apart() -> None:
    row = {"Name": HOSTILE, "Device": HOSTILE, "Count": Count(1)}
    report = Report([{**row, "a-b": Count(1), "a.b": Count(2)}], {}, {})
    text = find_exporter("openmetrics")(report)
    assert isinstance(text, str)
    (family,) = text_string_to_metric_families(text)
    assert {sample.labels["metric"]: sample.value for sample in family.samples} == {
        "a-b": 1,
        "a.b": 2,
    }
    jsonschema.validate(json.loads(find_exporter("bencher")(report)), BENCHER)
    jsonschema.validate(json.loads(find_exporter("benchmark-action")(report)), ACTION)


def test_hyperfines_scripts_find_times_in_seconds_and_the_arguments() -> None:
    rows = [
        {
            "Name": "fir",
            "Argument Shapes": "x=int16[8], n=8",
            "Device": "native",
            "Count": Count(10),
            "Duration (us)": Duration(us),
            "page-faults": Count(1),
        }
        for us in (20.0, 40.0, 30.0)
    ]
    text = find_exporter("hyperfine")(Report(rows, {}, {}))
    # The names are those of hyperfine 1.15's own file.
    assert json.loads(text) == {
        "results": [
            {
                "command": "fir(x=int16[8], n=8) on native",
                "mean": 3e-06,
                "stddev": 1e-06,
                "median": 3e-06,
                "min": 2e-06,
                "max": 4e-06,
                "times": [2e-06, 4e-06, 3e-06],
                "parameters": {"x": "int16[8]", "n": "8"},
            }
        ]
    }


def test_a_report_without_times_is_not_for_hyperfines_scripts() -> None:
    row = {"Name": "fir", "Device": "m4", "Count": Count(1), "cycles": Count(7)}
    with pytest.raises(UsageError, match="has no times"):
        find_exporter("hyperfine")(Report([row], {}, {}))


@pytest.mark.parametrize("name", ["bencher", "benchmark-action", "openmetrics"])
def test_groups_that_only_their_hashes_tell_apart_both_stay(name: str) -> None:
    row = {"Name": "f", "Device": "m4", "Count": Count(1)}
    rows = [{**row, "Hash": text, "cycles": Count(n)} for text, n in (("x", 3), ("y", 8))]
    text = find_exporter(name)(Report(rows, {}, {}))
    assert isinstance(text, str)
    if name == "openmetrics":
        (family,) = text_string_to_metric_families(text)
        assert [sample.value for sample in family.samples] == [3, 8]
    elif name == "bencher":
        assert {each["cycles"]["value"] for each in json.loads(text).values()} == {3, 8}
    else:
        assert len({each["name"] for each in json.loads(text)}) == 2
