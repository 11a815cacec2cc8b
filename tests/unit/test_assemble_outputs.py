# SPDX-License-Identifier: Apache-2.0
"""A Report's stack, result and outputs: beside the samples, of one call each."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from boardprof.base.metrics import Count
from boardprof.results.record import Stack
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.report import Report
from tests.unit.test_assemble import measurement


def with_stack(used: int, painted: int = 4096, **changes: Any) -> Measurement:
    return replace(measurement(number=4), stack=Stack(used, painted), **changes)


def extra(report: Report) -> Any:
    assert report.extra is not None
    return report.extra["measurements"][0]


def test_each_row_has_the_stack_of_one_call() -> None:
    report = assemble([with_stack(48)])
    assert [row["Stack (bytes)"] for row in report.calls] == [Count(48), Count(48)]
    assert extra(report)["stack"] == {"used": 48, "painted": 4096}


def test_stacks_do_not_add_up_in_a_table() -> None:
    table = assemble([with_stack(48)]).table().splitlines()
    headers = [text for text in table[0].split("  ") if text]
    assert "Stack (bytes)" in headers
    assert "Stack (bytes)/call" not in headers
    begin = table[0].index("Stack (bytes)")
    row, total = table[1], next(line for line in table if line.startswith("Sum"))
    assert row[begin : begin + 13].strip() == "48"
    assert total[begin : begin + 13].strip() == ""


def test_a_stack_that_is_not_known_has_a_reason_and_no_number() -> None:
    report = assemble([replace(measurement(), stack="the agent cannot paint its stack")])
    assert "Stack (bytes)" not in report.calls[0]
    assert report.configuration["m4 stack unknown"] == "the agent cannot paint its stack"
    assert extra(report)["stack"] is None
    assert extra(report)["stack_unknown"] == "the agent cannot paint its stack"


@pytest.mark.parametrize(
    ("result", "shown", "stored"),
    [(42, "42", 42), (0.5, "0.5", 0.5), (True, "True", True), (float("nan"), "nan", "nan")],
)
def test_the_result_of_one_call_is_in_the_configuration(
    result: object, shown: str, stored: object
) -> None:
    report = assemble([replace(measurement(), result=result)])
    assert report.configuration["m4 returned"] == shown
    assert extra(json_round_trip(report))["result"] == stored


def json_round_trip(report: Report) -> Report:
    return Report.from_json(json.dumps(json.loads(report.json())))


def test_results_of_several_functions_are_in_the_json_alone() -> None:
    other = replace(measurement(), function="iir", result=2)
    report = assemble([replace(measurement(), result=1), other])
    assert "m4 returned" not in report.configuration
    assert "m4 returned" not in assemble([measurement()]).configuration


def test_outputs_are_stored_by_shape_type_crc_and_values() -> None:
    given = {"y": np.zeros((2, 3), np.int16), "e": np.zeros(0, np.float64)}
    report = assemble([replace(measurement(), outputs=given)])
    outputs = extra(report)["outputs"]
    assert zlib.decompress(base64.b64decode(outputs["y"].pop("values"))) == bytes(12)
    assert outputs == {
        # CRC-32 of twelve zeros, and of nothing.
        "y": {"dtype": "int16", "shape": [2, 3], "crc32": "7bd5c66f"},
        "e": {"dtype": "float64", "shape": [0], "crc32": "00000000"},
    }


def test_what_was_kept_or_sent_again_is_told() -> None:
    report = assemble([replace(measurement(), kept=("s", "t"), sent_again="no room")])
    assert report.configuration["m4 kept"] == "s of fir, t of fir: not restored between calls"
    assert report.configuration["m4 sent again"] == (
        "The arrays of fir are sent before each round of samples: no room. The first call of a "
        "round is cold."
    )


def test_large_arrays_and_structs_are_stored_without_values_and_without_padding() -> None:
    padded = np.dtype({"names": ["a", "b"], "formats": ["u1", "<u4"], "offsets": [0, 4]})
    one, two = (np.frombuffer(b"\1" + pad + b"\2\0\0\0", padded) for pad in (b"xyz", b"abc"))
    outputs = {"big": np.zeros(1025, np.float32), "one": one, "two": two}
    stored = extra(assemble([replace(measurement(), outputs=outputs)]))["outputs"]
    assert ["values" in each for each in stored.values()] == [False, False, False]
    # Of the bytes 01 02 00 00 00.
    assert stored["one"]["crc32"] == stored["two"]["crc32"] == "514b1626"
