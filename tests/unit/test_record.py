# SPDX-License-Identifier: Apache-2.0
"""The record of a Report: typed, whatever release has written it."""

from __future__ import annotations

import json
import pickle

import pytest

from boardprof.base.errors import ReportFileError
from boardprof.base.metrics import Count
from boardprof.results.record import MeasurementRecord, Record, SampleRecord, Stack
from boardprof.results.record_json import read_record, record_text

DOUBTFUL = {
    "raw": {"cycles": 70, "loads": 3},
    "wraps": {"cycles": 1},
    "estimated": ["loads"],
    "ambiguous": ["cycles"],
    "blobs": "00ff",
}
MEASURED = {
    "name": "fir",
    "device": "m4",
    "stack": {"used": 48, "painted": 4096},
    "cold": {"metrics": {"cycles": {"count": 90}}, "raw": {"cycles": 100}, "blobs": "01"},
    "samples": [{"raw": {"cycles": 7}, "blobs": "02"}, DOUBTFUL],
    "further_passes": [{"collectors": [1], "totals": [{"raw": {}, "blobs": ""}]}],
}


def read(content: dict[str, object]) -> Record:
    """Return the record of a copy, since reading uses it up."""
    return read_record(json.loads(json.dumps({"schema_version": 1, **content})))


def test_what_a_release_did_not_write_is_empty_and_null_is_not_known() -> None:
    record = read({"devices": {"m4": {"port": None}}, "measurements": [{"number": None}]})
    assert (record.devices["m4"].name, record.devices["m4"].port) == ("m4", "")
    assert record.devices["m4"].is_emulator is None
    assert record.measurements == (MeasurementRecord(),)


def test_passes_and_samples_are_typed() -> None:
    [found] = read({"measurements": [MEASURED]}).measurements
    assert found.stack == Stack(used=48, painted=4096)
    first, second = found.passes
    assert first.samples[0] == SampleRecord({"cycles": 7}, b"\x02")
    doubtful = first.samples[1]
    assert (doubtful.blobs, doubtful.wraps) == (b"\x00\xff", {"cycles": 1})
    assert (doubtful.estimated, doubtful.ambiguous) == (("loads",), ("cycles",))
    assert (second.collectors, len(second.totals)) == ((1,), 1)
    assert found.cold is not None
    assert found.cold.metrics == {"cycles": Count(90)}
    assert found.cold.sample == SampleRecord({"cycles": 100}, b"\x01")


def test_a_record_is_the_same_after_json_and_after_another_process() -> None:
    record = read({"measurements": [MEASURED], "mine": [1]})
    assert read_record(json.loads(record_text(record))) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert json.loads(record_text(record))["measurements"][0]["samples"][1] == DOUBTFUL


@pytest.mark.parametrize(
    ("measured", "place"),
    [
        ({"stack": 3}, '["stack"]: a JSON object is needed, not a number'),
        ({"formulas": {"ipc": ["Ratio"]}}, '["formulas"]["ipc"]: 2 values are needed, not 1'),
        ({"cold": {"metrics": {"a": {}}}}, '["cold"]["metrics"]["a"]: a metric is an object with'),
        ({"further_passes": [{"totals": 1}]}, '["further_passes"][0]["totals"]: a JSON array is'),
    ],
)
def test_a_value_of_another_type_is_named_with_its_place(
    measured: dict[str, object], place: str
) -> None:
    with pytest.raises(ReportFileError) as caught:
        read({"measurements": [measured]})
    assert str(caught.value).startswith(f'boardprof["measurements"][0]{place}')
