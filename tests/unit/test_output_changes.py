# SPDX-License-Identifier: Apache-2.0
"""Outputs of two Reports against each other: what changed, and what is not compared."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from boardprof.base.errors import ReportFileError
from boardprof.results.baseline import baseline_content, render_baseline, report_of_baseline
from boardprof.results.comparison.compare import compare
from boardprof.results.comparison.comparison import Comparison
from boardprof.results.comparison.difference import values_of
from boardprof.results.report.assemble import assemble
from boardprof.results.report.report import Report
from boardprof.show.comparison_files import render_github
from tests.unit.reports import report_of
from tests.unit.test_assemble import measurement


def writing(tolerance: float = 0.0, inputs: str = "00000001", **outputs: Any) -> Report:
    """Return the Report of a function that wrote these arrays."""
    made = replace(measurement(), outputs=outputs, tolerance=tolerance, inputs_crc32=inputs)
    return Report.from_json(assemble([made]).json())


def returning(result: Any, cost: int = 100, **facts: Any) -> Report:
    return report_of({"instructions": [cost]}, measurement={"result": result, **facts})


def texts(comparison: Comparison) -> list[str]:
    return [f"{each.metric}: {each.text}" for each in comparison.outputs]


def test_a_cheaper_function_that_returns_something_else_fails_without_any_rule() -> None:
    found = compare(returning(5, 100), returning(4, 90))
    assert texts(found) == ["output return: 5 before, 4 after"]
    assert (found.failed, found.regressed, found.held) == (True, False, False)
    assert [row.verdict for row in found.rows] == ["output changed"]
    assert not compare(returning(5, 100), returning(5, 90)).failed


def test_a_changed_output_comes_first_in_every_form() -> None:
    found = compare(returning(5), returning(4))
    told = "fir(n=64) on board: output return: 5 before, 4 after"
    assert found.table().startswith(f"OUTPUT CHANGED: {told}.\n")
    assert found.table().endswith("Result: 1 output changed; 1 metric: 1 same.\n")
    assert found.markdown().startswith("### ❌ boardprof: 1 output changed; ")
    assert f"- **Output changed**: {told}".replace(" ", "") in found.markdown().replace(
        "`", ""
    ).replace(" ", "")
    assert '<failure type="output changed" message="output return of fir: 5 before' in found.junit()
    assert json.loads(found.json())["outputs"] == [
        {"name": "fir", "output": "return", "what": told.partition(": 5")[0], "text": told[-17:]}
    ]
    assert "title=Output changed%3A output return of fir::" in render_github(found)


def test_the_first_value_that_differs_is_told_with_its_indices() -> None:
    before, after = np.zeros((2, 3), np.int16), np.zeros((2, 3), np.int16)
    after[1, 0], after[1, 2] = 7, 8
    found = compare(writing(y=before), writing(y=after))
    assert texts(found) == [
        "output y: 2 of 6 values differ; the first is y[1][0]: 0 before, 7 after"
    ]
    large = np.arange(5000, dtype=np.int32)
    [text] = texts(compare(writing(y=large), writing(y=large + 1)))
    assert text.startswith("output y: its checksum is ")
    [text] = texts(compare(writing(y=large), writing(y=large[1:])))
    assert text == "output y: it is int32[5000] before, int32[4999] after"


def test_floats_may_differ_by_the_tolerance_of_the_comparison_or_the_measurement() -> None:
    before = np.array([1.0, 2.0, np.nan], np.float32)
    near, far = before * np.float32(1.000001), before * np.float32(1.01)
    assert len(compare(writing(y=before), writing(y=near)).outputs) == 1
    assert not compare(writing(y=before), writing(y=near), tolerance=1e-5).outputs
    assert not compare(writing(y=before), writing(y=near, tolerance=1e-5)).outputs
    assert len(compare(writing(y=before), writing(y=far), tolerance=1e-5).outputs) == 1
    assert not compare(returning(1.0), returning(1.000001), tolerance=1e-5).outputs
    assert len(compare(returning(0.0), returning(-0.0)).outputs) == 1
    assert len(compare(returning(4), returning(5), tolerance=0.5).outputs) == 1  # no floats


def test_allowed_changes_are_notes_and_the_numbers_are_judged() -> None:
    found = compare(returning(5, 100), returning(4, 90), allow=["outputs"])
    assert (found.failed, found.outputs) == (False, ())
    assert "Allowed: fir(n=64) on board: output return: 5 before, 4 after." in found.notes
    assert [row.verdict for row in found.rows] == ["better"]


def test_outputs_of_other_inputs_or_other_calls_are_not_judged() -> None:
    one, two = np.zeros(2, np.int8), np.ones(2, np.int8)
    found = compare(writing(y=one), writing(y=two, inputs="00000002"))
    assert not found.outputs
    assert "it differs, but the arrays had other contents before" in found.unjudged[0].why
    found = compare(returning(5, output_call=21), returning(6, output_call=11))
    assert not found.outputs
    assert not found.failed
    assert [each.what for each in found.unjudged] == ["output return of fir"]
    why = "it differs, but it is from another call: give both runs the same "
    told = "Not judged by the older outputs: output return of fir(n=64) on board; "
    assert told + why in found.table()
    same = compare(returning(5, output_call=21), returning(5, output_call=11))
    assert not same.notes
    assert not same.unjudged
    assert not compare(returning(5, warmup=1), returning(6, warmup=2)).outputs  # early Reports


def test_an_output_that_cannot_be_judged_fails_if_missing() -> None:
    before, after = returning(5, output_call=21), returning(6, output_call=11)
    found = compare(before, after, "instructions>0", fail_if_missing=True)
    assert (found.failed, found.is_worse) == (True, False)
    assert json.loads(found.json())["unjudged"][0]["rule"] == "the older outputs"
    assert not compare(before, after, fail_if_missing=True, allow=["outputs"]).failed


def run(result: Any, output_call: int, first: str, last: str, **facts: Any) -> Report:
    both = [first, last]
    return returning(result, output_call=output_call, output_crc32s=both, **facts)


def test_outputs_that_repeat_are_compared_whatever_the_number_of_calls() -> None:
    before = run(5, 21, "00000005", "00000005")
    found = compare(before, run(4, 4, "00000004", "00000004"))
    assert (texts(found), found.failed) == (["output return: 5 before, 4 after"], True)
    assert not compare(before, run(5, 4, "00000005", "00000005")).failed
    near = compare(run(1.0, 21, "a", "a"), run(1.0001, 4, "b", "b"), tolerance=1e-3)
    assert (near.outputs, near.unjudged) == ((), ())


def test_of_a_function_with_state_the_first_calls_are_compared() -> None:
    before = run(21, 21, "00000001", "00000021")
    assert compare(before, run(4, 4, "00000001", "00000004")).outputs == ()
    found = compare(before, run(8, 4, "00000002", "00000008"))
    assert texts(found) == [
        "outputs: the first call's have the checksum 00000001 before, 00000002 after"
    ]
    found = compare(before, run(8, 4, "00000002", "00000008", tolerance=0.1))
    assert (found.outputs, len(found.unjudged)) == ((), 1)  # a checksum knows no tolerance


def test_a_baseline_keeps_the_checksums_of_the_first_and_the_last_call() -> None:
    kept = through_file(run(5, 21, "00000005", "00000005"))
    assert texts(compare(kept, run(4, 4, "00000004", "00000004"))) == [
        "output return: 5 before, 4 after"
    ]
    assert "first and last call" not in render_baseline(returning(5, output_call=21))


@pytest.mark.parametrize(
    "facts", [{"values": "AAAA"}, {"values": "?"}, {"shape": (2,)}, {"shape": ()}, {"shape": (-4,)}]
)
def test_damaged_values_are_refused(facts: dict[str, Any]) -> None:
    report = writing(y=np.arange(4, dtype=np.int32))
    assert report.record is not None
    output = report.record.measurements[0].outputs["y"]
    assert values_of(output) == (0, 1, 2, 3)
    with pytest.raises(ReportFileError, match=r"the values of an output, int32\[.*\], are damaged"):
        values_of(replace(output, **facts))


def through_file(report: Report) -> Report:
    return report_of_baseline(baseline_content(render_baseline(report)))


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_a_baseline_keeps_outputs_and_the_values_of_floats(kind: type[np.number[Any]]) -> None:
    before, after = np.arange(4, dtype=kind), np.arange(4, dtype=kind)
    after[2] += 1
    kept = through_file(writing(y=before))
    assert not compare(kept, writing(y=before)).outputs
    [text] = texts(compare(kept, writing(y=after)))
    is_float = kind is np.float32
    assert ("1 of 4 values differ; the first is y[2]: 2.0 before, 3.0 after" in text) == is_float
    assert ("its checksum is" in text) != is_float
    assert not is_float or not compare(kept, writing(y=after), tolerance=0.5).outputs
    assert texts(compare(through_file(returning(5)), returning(4))) == [
        "output return: 5 before, 4 after"
    ]


def test_a_baseline_without_outputs_is_read_and_compared_and_that_is_told() -> None:
    content = json.loads(render_baseline(returning(5)))
    del content["measurements"][0]["returned"]
    found = compare(report_of_baseline(content), returning(4))
    assert not found.failed
    assert "Outputs are not compared, because the older side has none: fir." in found.notes


def test_checksums_of_structs_in_early_reports_are_not_compared() -> None:
    def writing_struct(crc32: str, **facts: Any) -> Report:
        output = {"dtype": "[('a', 'u1'), ('b', '<i4')]", "shape": [1], "crc32": crc32}
        return report_of({"instructions": [1]}, measurement={"outputs": {"s": output}, **facts})

    assert not compare(writing_struct("00000001"), writing_struct("00000002")).outputs
    both = [writing_struct(crc32, output_call=21) for crc32 in ("00000001", "00000002")]
    assert texts(compare(*both)) == ["output s: its checksum is 00000001 before, 00000002 after"]
