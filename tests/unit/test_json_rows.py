# SPDX-License-Identifier: Apache-2.0
"""Rows that are written like an earlier one: read many at once, and read the same."""

from __future__ import annotations

import gc
import json
import math
import random
import struct
from typing import Any

import pytest

from boardprof.base.errors import ReportFileError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.report.report import Report
from boardprof.results.report_json import JsonReader

CPU = '{{"Name":{{"string":"fir"}},"cycles":{{"count":{}}},"t (us)":{{"microseconds":{}}}}}'
PART = '{{"Name":{{"string":"fir"}},"busy":{{"percent":{}}}}}'


def text_of(*rows: str) -> str:
    return '{"calls":[' + ",".join(rows) + "]}"


def row(cycles: int, t_us: float) -> dict[str, Metric]:
    return {"Name": "fir", "cycles": Count(cycles), "t (us)": Duration(t_us)}


def any_float(chance: random.Random) -> float:
    """Return a finite float of any size, as its bits come."""
    (number,) = struct.unpack("<d", chance.randbytes(8))
    return number if math.isfinite(number) else 0.1


def test_of_rows_in_turns_the_first_of_each_kind_alone_is_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed = []
    value = JsonReader.value
    monkeypatch.setattr(
        JsonReader, "value", lambda self, *place: parsed.append(place) or value(self, *place)
    )
    rows = [each for i in range(2000) for each in (CPU.format(i, 0.5), PART.format(i / 8))]
    report = Report.from_json(text_of(*rows))
    assert len(report.calls) == 4000
    assert report.calls[3998] == row(1999, 0.5)
    assert [place for place in parsed if place] == [("calls", 0), ("calls", 1)]


def test_numbers_of_every_size_are_those_that_json_reads() -> None:
    chance = random.Random(5)
    sizes = [0, -1, 10**17, 10**18 - 1, 10**18, -(2**63), 2**63 - 1, 2**64, 10**40]
    values = [(chance.choice(sizes), any_float(chance)) for _ in range(3000)]
    text = text_of(*(CPU.format(count, repr(number)) for count, number in values))
    parsed = [
        (r["cycles"]["count"], r["t (us)"]["microseconds"]) for r in json.loads(text)["calls"]
    ]
    assert parsed == values
    assert Report.from_json(text).calls == [row(count, number) for count, number in values]


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        ('{ "Name":{"string":"fir"},"cycles":{"count":2},"t (us)":{"microseconds":1.5}}', (2, 1.5)),
        (CPU.format(2, "3"), (2, 3.0)),
        (CPU.format(2, "-0"), (2, 0.0)),
        (CPU.format(-0, "-0.0"), (0, -0.0)),
        (CPU.format(2, "1E2"), (2, 100.0)),
        (CPU.format(2, "5e-324"), (2, 5e-324)),
        (CPU.format(2, '"-inf"'), (2, -math.inf)),
        (CPU.format(2, "inf"), (2, math.inf)),
    ],
)
def test_a_row_in_another_spelling_stands_between_its_neighbours(
    odd: str, expected: tuple[int, float]
) -> None:
    usual = [CPU.format(1, 0.25), CPU.format(1, 0.25)]
    report = Report.from_json(text_of(*usual, odd, *usual))
    assert report.calls == [row(*each) for each in [(1, 0.25)] * 2 + [expected] + [(1, 0.25)] * 2]
    assert str(report.calls[2]["t (us)"]) == str(Duration(expected[1]))  # -0.0 is no 0.0


def test_texts_with_escapes_and_of_any_script_are_kept_apart() -> None:
    names = ["fir", "fir", 'a"b', "\\", "größe", "\u202e", "fir}},{", "fir"]
    text = text_of(*(json.dumps({"Name": {"string": n}}).replace(" ", "") for n in names))
    assert [each["Name"] for each in Report.from_json(text).calls] == names
    plain = '{"calls":[' + ",".join(f'{{"größe":{{"string":"{n}"}}}}' for n in "äbc") + "]}"
    assert [each["größe"] for each in Report.from_json(plain).calls] == ["ä", "b", "c"]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (CPU.format("01", 0.5), "line 1, column 289: this is not JSON: Expecting ',' delimiter"),
        (CPU.format(1.5, 0.5), 'calls[3]["cycles"]: a count is an integer, not float 1.5'),
        (
            CPU.format(1, "1e999"),
            'calls[3]["t (us)"]["microseconds"]: 1e999 is too large for a 64-bit float',
        ),
        (
            CPU.format('1},"cycles":{"count":2', 0.5),
            'calls[3]: the key "cycles" is there twice',
        ),
        (CPU.format(1, 0.5)[:-1], "line 1, column 321: this is not JSON: Expecting property name "),
        ("7", "calls[3]: a JSON object is needed, not a number"),
        ('{"Name":{"string":"\n"}}', "line 1, column 264: this is not JSON: Invalid control "),
        ('{"Name":{"string":"\\ud800"}}', 'calls[3]["Name"]["string"]: half of a UTF-16 pair'),
    ],
)
def test_a_fault_behind_rows_that_were_read_at_once_is_named_with_its_place(
    odd: str, message: str
) -> None:
    usual = [CPU.format(1, 0.25)] * 3
    with pytest.raises(ReportFileError) as caught:
        Report.from_json(text_of(*usual, odd, *usual))
    assert str(caught.value).startswith(message)


def test_the_garbage_collector_runs_again_once_a_text_is_read_or_refused() -> None:
    Report.from_json(text_of())
    assert gc.isenabled()
    with pytest.raises(ReportFileError):
        Report.from_json("{")
    assert gc.isenabled()


def test_more_kinds_of_row_than_are_remembered_are_read_as_well() -> None:
    rows: list[dict[str, Any]] = [
        {f"column {i % 20}": Ratio(0.5), "Percent": Percent(i / 7)} for i in range(100)
    ]
    report = Report(rows, {}, {})
    assert Report.from_json(report.json()) == report
