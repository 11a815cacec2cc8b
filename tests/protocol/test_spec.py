# SPDX-License-Identifier: Apache-2.0
"""SPEC.md's tables hold what the code holds, and every section that is cited exists."""

from __future__ import annotations

import re

import pytest

from boardprof_protocol.blob import BLOB_HEADER
from boardprof_protocol.codes import (
    CounterStatus,
    ErrorCode,
    FaultCause,
    FrameKind,
    ProbeKind,
    ResetCause,
    TraceId,
)
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.layout import Layout
from boardprof_protocol.messages import (
    ACK,
    BUSY,
    CLAIM,
    DATA,
    HELLO,
    PLACE,
    SPAN,
    SPAN_COPY,
    TOKEN,
    WELCOME,
)
from boardprof_protocol.sampling import SAMPLE32, SAMPLE64
from boardprof_protocol.trace import TRACE_BLOCK, TRACE_KEPT, TRACE_SLOT
from tests.support import ROOT, vectors

SPEC = (ROOT / "protocol" / "SPEC.md").read_text(encoding="utf-8")
CITED_IN = ("protocol", "host", "device_runtime_c", "boards", "tests", "scripts")


def section(heading: str) -> str:
    """Return the text from a heading to the next one of any level."""
    match = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", SPEC, re.MULTILINE | re.DOTALL)
    assert match is not None, f"no heading {heading!r}"
    return match[1]


def rows(text: str, first: str) -> list[list[str]]:
    """Return the cells of the table whose first column is called ``first``, without its head."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {first} |"):
            break
    next(lines)
    table = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def table_of(layout: Layout) -> list[list[str]]:
    """Return the rows that SPEC.md must have for a layout."""
    lines, offset = [], 0
    for field in layout.fields:
        kind = field.type if field.count == 1 else f"{field.type}[{field.count}]"
        lines.append([str(offset), field.name, kind, field.unit])
        offset += field.size
    return lines


@pytest.mark.parametrize(
    "layout",
    [
        *(
            HELLO,
            CLAIM,
            WELCOME,
            BUSY,
            DATA,
            ACK,
            SPAN,
            SPAN_COPY,
            PLACE,
            TOKEN,
            SAMPLE32,
            SAMPLE64,
            BLOB_HEADER,
        ),
        *(TRACE_BLOCK, TRACE_KEPT, TRACE_SLOT),
    ],
    ids=lambda found: found.name,
)
def test_a_messages_table_is_its_layout(layout: Layout) -> None:
    text = section(f"{layout.name}, {layout.size} bytes")
    assert rows(text, "offset") == table_of(layout)


@pytest.mark.parametrize("layout", collector_layouts(), ids=lambda found: found.name)
def test_a_collectors_table_is_its_layout(layout: Layout) -> None:
    text = section(
        f"{layout.name}, schema {layout.schema_id}, version {layout.version}, "
        f"{layout.size} bytes, CRC {layout.crc:#010x}"
    )
    assert rows(text, "offset") == table_of(layout)
    for counter in layout.counters:
        assert f"`{counter.name}`" in text


def test_no_collector_is_in_the_specification_that_has_no_layout() -> None:
    names = re.findall(r"^#### (\w+), schema", SPEC, re.MULTILINE)
    assert names == [layout.name for layout in collector_layouts()]


@pytest.mark.parametrize(
    ("heading", "column", "codes"),
    [
        ("2. Frames", "kind", FrameKind),
        ("4.2 Errors", "code", ErrorCode),
        ("4.2 Errors", "cause", FaultCause),
        ("5.1 bp.describe", "status", CounterStatus),
        ("welcome, 32 bytes", "reset_cause", ResetCause),
        ("5.12 Probes", "kind", ProbeKind),
        ("5.12 Probes", "id", TraceId),
    ],
)
def test_a_table_of_numbers_is_the_enumeration(
    heading: str, column: str, codes: type[FrameKind]
) -> None:
    found = [(int(row[0]), row[1]) for row in rows(section(heading), column)]
    assert found == [(member.value, member.name) for member in codes]


def test_every_section_that_the_tree_cites_exists() -> None:
    headings = re.findall(r"^#+ ([0-9]+(?:\.[0-9]+)?)\.? ", SPEC, re.MULTILINE)
    cited = set()
    for folder in CITED_IN:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".c", ".h", ".S", ".json", ".toml"}:
                text = path.read_text(encoding="utf-8")
                cited |= set(re.findall(r"SPEC\.md,? (?:section )?([0-9]+(?:\.[0-9]+)?)", text))
    assert {"2", "3", "4", "5.1", "6.2", "6.3"} <= cited
    assert cited <= set(headings)


def test_every_collector_has_vectors_good_and_bad() -> None:
    for layout in collector_layouts():
        found = vectors(layout.name)
        assert any("fields" in vector for vector in found)
        assert {vector.get("error") for vector in found} >= {"length", "crc", "schema", "cut"}
