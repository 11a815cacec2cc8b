# SPDX-License-Identifier: Apache-2.0
"""`boardprof decode`: the same layouts give the same Report, another one gives its own numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from boardprof.base.metrics import Count
from boardprof.results.redecode import decode_again, load_schemas
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import read_report
from boardprof.ui.cli import main
from tests.cli.command import FIXTURES, Outcome, boardprof

RENAMED = """
from dataclasses import replace
from boardprof_protocol.collectors.cycles_instret import LAYOUT as BEFORE
NAMES = {"instructions": "retired"}
LAYOUT = replace(
    BEFORE, counters=tuple(replace(c, name=NAMES.get(c.name, c.name)) for c in BEFORE.counters)
)
"""

SCALED = """
from dataclasses import replace
from boardprof_protocol.collectors.ticks import LAYOUT as BEFORE
LAYOUTS = [replace(BEFORE, counters=tuple(replace(c, unit="ns") for c in BEFORE.counters))]
"""

OTHER_FIELDS = """
from construct import Int32ul, Struct
from boardprof_protocol.collectors.cycles_instret import LAYOUT as BEFORE
from boardprof_protocol.layout import Counter, Layout
FIELDS = [f.name for f in BEFORE.fields]
HALVES = [f"{name}_{half}" for name in FIELDS for half in ("low", "high")]
LOW = [f"{name}_low" for name in FIELDS]
LAYOUT = Layout(
    BEFORE.name,
    BEFORE.schema_id,
    BEFORE.version,
    Struct(*(name / Int32ul * "count" for name in HALVES)),
    tuple(
        Counter(f"{c.name}-low", f"{c.start}_low", f"{c.stop}_low", own_return=c.own_return)
        for c in BEFORE.counters
    ),
)
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Report file of two boards."""
    file = tmp_path_factory.mktemp("decode") / "report.json"
    target = f"{FIXTURES / 'scalars.c'}:count_calls"
    done = boardprof("run", "-b", "native,qemu-rv32", target, "--json", file)
    assert done.code == 0, done.err
    return file


@pytest.fixture
def report(measured: Path) -> Report:
    return read_report(str(measured))


Run = Callable[..., Outcome]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: a tenth of the time of a process of its own."""

    def run(*arguments: str | Path) -> Outcome:
        code = main([str(argument) for argument in arguments])
        return Outcome(code, *capfd.readouterr())

    return run


def schema(tmp_path: Path, text: str) -> str:
    file = tmp_path / "schema.py"
    file.write_text(text)
    return str(file)


def test_with_the_layouts_it_was_made_with_the_report_is_the_same(
    measured: Path, command: Run
) -> None:
    done = command("decode", measured, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.out == measured.read_text()


def test_the_table_is_printed_and_a_file_written_when_asked_for(
    measured: Path,
    tmp_path: Path,
    command: Run,
) -> None:
    done = command("decode", measured)
    assert (done.code, done.out) == (0, command("show", measured).out)
    file = tmp_path / "again.json"
    silent = command("decode", measured, "-o", file)
    assert (silent.code, silent.out) == (0, "")
    assert read_report(str(file)) == read_report(str(measured))


def test_a_renamed_counter_has_its_new_name_everywhere(
    measured: Path,
    report: Report,
    tmp_path: Path,
    command: Run,
) -> None:
    done = command("decode", measured, "--schema", schema(tmp_path, RENAMED), "--json")
    assert done.code == 0, done.err
    again = Report.from_json(done.out)
    before = [row["instructions"] for row in report.calls if "instructions" in row]
    assert len(before) == 10
    assert [row["retired"] for row in again.calls if "retired" in row] == before
    assert not any("instructions" in row for row in again.calls)
    totals, olds = again.device_metrics["qemu-rv32"], report.device_metrics["qemu-rv32"]
    assert totals["retired"] == olds["instructions"]
    assert again.device_metrics["native"] == report.device_metrics["native"]
    assert again.extra is not None
    raw = again.extra["measurements"][-1]["samples"][0]["raw"]
    assert set(raw) == {"retired", "ticks"}
    assert again.configuration["Decoded again"] == "with cycles_instret version 1"


def test_with_the_old_layouts_again_the_old_numbers_are_back(
    report: Report, tmp_path: Path
) -> None:
    renamed = decode_again(report, load_schemas(schema(tmp_path, RENAMED)))
    back = decode_again(renamed)
    assert (back.calls, back.device_metrics) == (report.calls, report.device_metrics)
    assert back.extra == report.extra


def test_another_unit_gives_another_scale(report: Report, tmp_path: Path) -> None:
    again = decode_again(report, load_schemas(schema(tmp_path, SCALED)))
    for row, new in zip(report.calls, again.calls, strict=True):
        if row["Device"] == "qemu-rv32":
            ticks = row["ticks"]
            assert isinstance(ticks, Count)
            assert new["ticks (us)"].microseconds == ticks.value / 1000
            assert new["instructions"] == row["instructions"]
            assert "ticks" not in new
        else:
            assert new == row


def test_other_fields_over_the_same_bytes_are_read_as_such(report: Report, tmp_path: Path) -> None:
    again = decode_again(report, load_schemas(schema(tmp_path, OTHER_FIELDS)))
    for row, new in zip(report.calls, again.calls, strict=True):
        if "instructions" in row:
            assert new["instructions-low"] == row["instructions"]


def test_what_is_not_of_the_blobs_stays(report: Report, tmp_path: Path) -> None:
    """Such as what a collector on the host measured, or a user's own note."""
    rows = [{**row, "energy": Count(i)} for i, row in enumerate(report.calls)]
    mine = Report(rows, report.device_metrics, {**report.configuration, "Note": "x"}, report.extra)
    assert decode_again(mine) == mine
    again = decode_again(mine, load_schemas(schema(tmp_path, RENAMED)))
    assert [row["energy"] for row in again.calls] == [Count(i) for i in range(20)]
    assert again.configuration["Note"] == "x"


def test_a_value_that_was_changed_by_hand_is_what_the_blob_says_again(report: Report) -> None:
    rows = [
        {**row, "instructions": Count(1)} if "instructions" in row else row for row in report.calls
    ]
    forged = Report(rows, report.device_metrics, report.configuration, report.extra)
    assert decode_again(forged).calls == report.calls


def test_what_programmed_slots_counted_stays_as_it_was_read(tmp_path: Path, command: Run) -> None:
    """Which slot an event was in, the Report does not say."""
    file = tmp_path / "linux.json"
    target = f"{FIXTURES / 'scalars.c'}:count_calls"
    done = boardprof("run", "-b", "linux", target, "--repeat", "3", "--json", file)
    assert done.code == 0, done.err
    assert read_report(str(file)).extra is not None
    assert command("decode", file, "--json").out == file.read_text()


BAD_SCHEMAS = {
    "empty": ("", "it defines no Layouts"),
    "broken": ("LAYOUT = 1 / 0", "division by zero"),
    "other": ("LAYOUT = 3", "it defines no Layouts"),
    "unused": (
        "from boardprof_protocol.collectors.dwt import LAYOUT",
        "No collector of the Report has schema id",
    ),
    "twice": (RENAMED + "LAYOUTS = [LAYOUT]", "has two layouts with schema id 1"),
    "more": (
        RENAMED + "LAYOUT = replace(LAYOUT, counters=LAYOUT.counters * 2)",
        "has 4 counters, but the Report's collector cycles has 2. The width of retired, retired is",
    ),
}


@pytest.mark.parametrize("name", BAD_SCHEMAS)
def test_a_schema_that_does_not_fit_is_told(
    measured: Path, tmp_path: Path, name: str, command: Run
) -> None:
    text, message = BAD_SCHEMAS[name]
    done = command("decode", measured, "--schema", schema(tmp_path, text))
    assert (done.code, done.out) == (2, "")
    assert message in done.err.splitlines()[0]


def test_a_schema_of_another_size_names_the_field_and_the_byte(
    measured: Path,
    tmp_path: Path,
    command: Run,
) -> None:
    text = RENAMED + (
        "from construct import Int64ul, Struct\n"
        "fields = [*BEFORE.struct.subcons, 'more' / Int64ul * 'count']\n"
        "LAYOUT = replace(LAYOUT, struct=Struct(*fields))\n"
    )
    done = command("decode", measured, "--schema", schema(tmp_path, text))
    assert (done.code, done.out) == (4, "")
    assert "field cycles.more, byte" in done.err


def changed(measured: Path, tmp_path: Path, change: str) -> Path:
    document = json.loads(measured.read_text())
    inner = document["boardprof"]
    match change:
        case "no blobs":
            del inner["measurements"]
        case "no raw data":
            del document["boardprof"]
        case "rows":
            document["calls"].pop()
        case "blob":
            sample = inner["measurements"][-1]["samples"][3]
            sample["blobs"] = "ff" + sample["blobs"][2:]
        case "key":
            del inner["measurements"][0]["calibration_samples"]
        case "layout":
            inner["devices"]["native"]["collectors"][0]["layout_crc"] ^= 1
        case "no collector ran":
            inner["measurements"][1]["collectors"] = []
        case "unknown collector ran":
            inner["measurements"][0]["collectors"].append(7)
        case "no collectors":
            del inner["devices"]["native"]["collectors"]
        case "empty collectors":
            inner["devices"]["native"]["collectors"] = []
        case "null index":
            inner["devices"]["native"]["collectors"][0]["index"] = None
        case "counters of any width":
            for counter in inner["devices"]["native"]["collectors"][0]["counters"]:
                counter["bits"] = 1 << 33
        case "negative index":
            inner["devices"]["native"]["collectors"][0]["index"] = -1
    file = tmp_path / "changed.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ("no blobs", 2, "The Report has no blobs"),
        ("no raw data", 2, "The Report has no blobs"),
        ("rows", 2, "it has 19 rows, but its blobs give 20"),
        ("blob", 4, "blob"),
        ("key", 4, "calibration_samples"),
        ("layout", 4, "wrote its blob as"),
        ("no collector ran", 4, "(at field boardprof.measurements[1].collectors)"),
        (
            "unknown collector ran",
            4,
            "the device has no collector with index 7. (at field boardprof.measurements[0].coll",
        ),
        ("no collectors", 4, "(at field boardprof.devices.native.collectors)"),
        ("empty collectors", 4, "(at field boardprof.devices.native.collectors)"),
        (
            "null index",
            4,
            "-1 is not a unique index. (at field boardprof.devices.native.collectors[0].index)",
        ),
        ("counters of any width", 4, "8589934592 is not the width of a counter."),
        ("negative index", 4, "(at field boardprof.devices.native.collectors[0].index)"),
    ],
)
def test_a_report_that_cannot_be_decoded_is_told(
    measured: Path,
    tmp_path: Path,
    change: str,
    code: int,
    message: str,
    command: Run,
) -> None:
    done = command("decode", changed(measured, tmp_path, change))
    assert (done.code, done.out) == (code, "")
    assert message in done.err.splitlines()[0]
