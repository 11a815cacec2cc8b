# SPDX-License-Identifier: Apache-2.0
"""One Report of several: each number is in it once, under a name that only it has."""

from __future__ import annotations

from typing import Any

import pytest

from boardprof.base.errors import UsageError
from boardprof.base.metrics import Count, Duration, Percent, Ratio
from boardprof.results.report.join import Part, joined
from boardprof.results.report.report import Report
from boardprof.results.stats.groups import summaries
from tests.unit.reports import report_of


def measured(
    name: str, *counts: int, shapes: str = "n=1", flags: str = "-O2", result: int | None = None
) -> Report:
    found = report_of(
        {"instructions": counts},
        name=name,
        shapes=shapes,
        flags=flags,
        measurement={"result": result},
    )
    total = {"board": {"instructions": Count(sum(counts)), "ipc": Ratio(0.5)}}
    clock = {"boardprof": "1", "board clock": "simulated", f"{name} line": "x"}
    return Report(found.calls, total, clock, {**(found.extra or {}), "missing": []})


def medians(report: Report) -> dict[tuple[str, str, str, str], float]:
    return {
        (each.key.name, each.key.shapes, each.key.flags, each.key.label): float(each.summary.median)
        for each in summaries(report)
    }


def test_rows_and_raw_data_of_all_parts_are_there_in_their_order() -> None:
    parts = [
        Part(measured("fir", 10, 12), {"file": "a.c"}),
        Part(measured("iir", 7), {"file": "a.c"}),
    ]
    found = joined(parts, ["dct on m4: no answer"])
    assert [(row["Name"], row["instructions"]) for row in found.calls] == [
        ("fir", Count(10)),
        ("fir", Count(12)),
        ("iir", Count(7)),
    ]
    assert found.device_metrics == {"board": {"instructions": Count(29)}}
    assert found.configuration == {
        "boardprof": "1",
        "board clock": "simulated",
        "fir line": "x",
        "iir line": "x",
        "Missing": "dct on m4: no answer",
    }
    assert found.extra is not None
    assert [each["name"] for each in found.extra["measurements"]] == ["fir", "iir"]
    assert found.extra["missing"] == ["dct on m4: no answer"]
    assert Report.from_json(found.json()) == found


def test_flags_are_a_column_if_they_differ() -> None:
    parts = [Part(measured("fir", 10), {}), Part(measured("fir", 20, flags="-Os"), {})]
    assert medians(joined(parts)) == {
        ("fir", "n=1", "-O2", ""): 10.0,
        ("fir", "n=1", "-Os", ""): 20.0,
    }
    assert medians(joined(parts[:1])) == {("fir", "n=1", "", ""): 10.0}


def test_rows_that_would_be_alike_have_a_label_with_what_differs() -> None:
    parts = [
        Part(measured("fir", 10), {"file": "a.c", "board": "m4", "number": "number=1"}),
        Part(measured("fir", 20), {"file": "b.c", "board": "m4", "number": "number=2"}),
        Part(measured("fir", 30, shapes="n=2"), {"file": "b.c", "board": "m4"}),
    ]
    found = joined(parts)
    assert medians(found) == {
        ("fir", "n=1", "", "a.c, number=1"): 10.0,
        ("fir", "n=1", "", "b.c, number=2"): 20.0,
        ("fir", "n=2", "", ""): 30.0,
    }
    assert found.extra is not None
    labels = [each.get("label") for each in found.extra["measurements"]]
    assert labels == ["a.c, number=1", "b.c, number=2", None]


def test_rows_that_nothing_tells_apart_are_refused() -> None:
    parts = [Part(measured("fir", 10), {"file": "a.c"}), Part(measured("fir", 20), {"file": "a.c"})]
    with pytest.raises(UsageError, match="both have fir, measured alike"):
        joined(parts)


@pytest.mark.parametrize(
    ("what", "value"),
    [("clock_kind", "measured"), ("emulated", False), ("collectors", []), ("cflags", ["-g"])],
)
def test_boards_of_one_name_that_count_differently_are_refused(what: str, value: object) -> None:
    one, other = measured("fir", 10), measured("iir", 20)
    assert other.extra is not None
    facts: dict[str, Any] = {**other.extra["devices"]["board"], what: value}
    extra = {**other.extra, "devices": {"board": facts}}
    changed = Report(other.calls, other.device_metrics, other.configuration, extra)
    with pytest.raises(UsageError, match=f"board has other {what} in one of them"):
        joined([Part(one, {}), Part(changed, {})])


def at(port: str, cpu: str = "", **more: object) -> Part:
    report = measured(f"fir_{port[-1]}", 10)
    assert report.extra is not None
    facts: dict[str, Any] = {**report.extra["devices"]["board"], "port": port, "cpu": cpu, **more}
    extra = {**report.extra, "devices": {"board": facts}}
    return Part(Report(report.calls, report.device_metrics, report.configuration, extra), {})


def test_boards_of_one_name_at_several_ports_have_the_ports_and_cpus_of_all() -> None:
    parts = [at("tcp:1", "x86_64, A"), at("tcp:2", "x86_64, B"), at("tcp:1", "x86_64, A")]
    record = joined([parts[0], parts[1]]).record
    assert record is not None
    assert record.devices["board"].port == "tcp:1; tcp:2"
    assert record.devices["board"].cpu == "x86_64, A; x86_64, B"
    alike = joined([Part(each.report, {"file": f"{n}"}) for n, each in enumerate(parts[::2])])
    assert alike.record is not None
    assert alike.record.devices["board"].port == "tcp:1"


def test_of_many_ports_the_first_eight_are_named() -> None:
    """A board that is started for each job has another port each time."""
    found = joined([at(f"tcp:{number}") for number in range(10)]).record
    assert found is not None
    ports = "tcp:0; tcp:1; tcp:2; tcp:3; tcp:4; tcp:5; tcp:6; tcp:7; ..."
    assert found.devices["board"].port == ports


def test_shares_are_left_out_and_times_are_added() -> None:
    row = {"Name": "fir", "Duration (us)": Duration(2.0), "Percent": Percent(100.0), "Device": "b"}
    one = Report([row], {"b": {"Duration (us)": Duration(3.0)}}, {})
    found = joined([Part(one, {"file": "a.c"}), Part(one, {"file": "b.c"})])
    assert "Percent" not in found.calls.names
    assert found.device_metrics == {"b": {"Duration (us)": Duration(6.0)}}


def test_overhead_is_a_range_over_all_parts_and_results_that_differ_are_told() -> None:
    def part(share: float, result: int, flags: str) -> Part:
        report = measured("fir", 10, flags=flags, result=result)
        rows = [{**row, "Perturbation (%)": Ratio(share)} for row in report.calls]
        lines = {"board perturbation": f"{share} %"}
        return Part(Report(rows, {}, lines, report.extra), {})

    found = joined([part(1.5, 7, "-O2"), part(4.0, 8, "-Os"), part(2.0, 7, "-O3")])
    assert found.configuration == {
        "board perturbation": "1.5 to 4 % of the raw windows was measurement overhead, which is "
        "subtracted",
        "Results differ": "fir returned 8 on board with -Os, 7 elsewhere",
    }
