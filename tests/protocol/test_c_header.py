# SPDX-License-Identifier: Apache-2.0
"""The generated header: committed as the generator gives it, and clean C for any layout."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI
from construct import (
    Float32l,
    Float64l,
    Int8sl,
    Int8ul,
    Int16sl,
    Int16ul,
    Int32sl,
    Int32ul,
    Int64sl,
    Int64ul,
    Struct,
)

from boardprof_protocol import codes
from boardprof_protocol.c_header import c_header, layout_section, main
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.layout import Layout
from tests.support import AGENT, ROOT, WARNINGS, requires_tool, run

HEADER = AGENT / "include" / "boardprof" / "bp_wire.h"
EVERY_TYPE = Layout(
    name="every_type",
    schema_id=10000,
    version=3,
    struct=Struct(
        "a" / Int8ul,
        "b" / Int8sl * "steps",
        "c" / Int16ul,
        "d" / Int16sl,
        "e" / Int32ul * "cycles",
        "f" / Int32sl,
        "g" / Int64ul,
        "h" / Int64sl,
        "i" / Float32l * "V",
        "j" / Float64l,
        "k" / Int16sl[3],
        "l" / Float32l[2],
        "m" / Int8ul[255],
    ),
)
VALUES = {
    "a": 0x81,
    "b": -2,
    "c": 0x8302,
    "d": -3,
    "e": 0x87060504,
    "f": -4,
    "g": 0x8F0E0D0C0B0A0908,
    "h": -5,
    "i": 1.0,
    "j": -2.5,
    "k": [1, -1, -32768],
    "l": [0.5, -0.5],
    "m": list(range(255)),
}
# The same, field by field, by hand from SPEC.md 1.
ENCODED = (
    "81 fe 0283 fdff 04050687 fcffffff 08090a0b0c0d0e8f fbffffffffffffff 0000803f 00000000000004c0"
    "0100 ffff 0080 0000003f 000000bf" + bytes(range(255)).hex()
)


def test_the_committed_header_is_what_the_generator_gives() -> None:
    assert HEADER.read_text(encoding="ascii") == c_header(collector_layouts()), "run: make gen"


def test_the_generator_writes_a_file_or_to_standard_output(tmp_path: Path) -> None:
    file = tmp_path / "bp_wire.h"
    assert main([str(file)]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "boardprof_protocol.c_header"],
        cwd=ROOT / "protocol",
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert file.read_bytes() == HEADER.read_bytes() == done.stdout


def test_a_layouts_section_names_its_length_schema_version_and_crc() -> None:
    section = layout_section(EVERY_TYPE)
    assert "#define BP_EVERY_TYPE_LEN 311u\n" in section
    assert "#define BP_EVERY_TYPE_SCHEMA 10000u\n" in section
    assert "#define BP_EVERY_TYPE_VERSION 3u\n" in section
    assert f"#define BP_EVERY_TYPE_CRC {EVERY_TYPE.crc:#010x}u\n" in section


def test_a_changed_layout_changes_the_crc_in_the_header() -> None:
    first = Layout("x", 10000, 1, Struct("start" / Int32ul * "cycles"))
    second = Layout("x", 10000, 1, Struct("start" / Int32ul * "ticks"))
    pattern = re.compile(r"BP_X_CRC (0x[0-9a-f]{8})u")
    crcs = [pattern.findall(layout_section(layout)) for layout in (first, second)]
    assert crcs[0] != crcs[1]
    assert [len(found) for found in crcs] == [1, 1]


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("header") / "boardprof"
    folder.mkdir()
    (folder / "bp_wire.h").write_text(c_header([*collector_layouts(), EVERY_TYPE]))
    (folder / "bp_le.h").write_bytes((HEADER.parent / "bp_le.h").read_bytes())
    return folder


def test_generated_code_compiles_without_a_warning_for_every_type(header: Path) -> None:
    cc = requires_tool("gcc", "gcc")
    source = header.parent / "every.c"
    source.write_text('#include "boardprof/bp_wire.h"\n#include "boardprof/bp_wire.h"\n')
    run([cc, *WARNINGS, "-O2", f"-I{header.parent}", "-c", source, "-o", source.with_suffix(".o")])


def test_generated_code_encodes_every_type_as_the_layout_does(header: Path) -> None:
    cc = requires_tool("gcc", "gcc")
    source = header.parent / "encode.c"
    prototype = "size_t encode(uint8_t *out, const bp_every_type_t *in)"
    source.write_text(
        "#include <stddef.h>\n"
        '#include "boardprof/bp_wire.h"\n'
        f"{prototype};\n"
        f"{prototype} {{\n    return (size_t)(bp_every_type_put(out, in) - out);\n}}\n"
    )
    library = source.with_suffix(".so")
    le = AGENT / "src" / "bp_le.c"
    run([cc, *WARNINGS, "-fPIC", "-shared", f"-I{header.parent}", source, le, "-o", library])
    ffi = FFI()
    struct = re.search(r"typedef struct \{[^}]*\} bp_every_type_t;", layout_section(EVERY_TYPE))
    assert struct is not None
    ffi.cdef(struct[0] + prototype + ";")
    out = ffi.new("uint8_t[]", 400)
    lib: Any = ffi.dlopen(str(library))
    length = lib.encode(out, ffi.new("bp_every_type_t *", VALUES))
    encoded = bytes(ffi.buffer(out, length))
    assert encoded == bytes.fromhex(ENCODED)
    assert encoded == EVERY_TYPE.struct.build(VALUES)
    assert length == EVERY_TYPE.size == 311


def test_the_headers_numbers_are_those_of_the_codes() -> None:
    text = HEADER.read_text(encoding="ascii")
    found = dict(re.findall(r"^    (BP_\w+) = (-?\d+),$", text, flags=re.MULTILINE))
    expected = {
        **{f"BP_KIND_{m.name}": m.value for m in codes.FrameKind},
        **{f"BP_ERR_{m.name}": -m.value for m in codes.ErrorCode},
        **{f"BP_COUNTER_{m.name}": m.value for m in codes.CounterStatus},
        **{f"BP_RESET_{m.name}": m.value for m in codes.ResetCause},
        **{f"BP_WELCOME_{m.name}": m.value for m in codes.WelcomeFlag},
        **{f"BP_FAULT_{m.name}": m.value for m in codes.FaultCause},
        **{f"BP_CLAIM_{m.name}": m.value for m in codes.ClaimFlag},
        **{f"BP_ACK_{m.name}": m.value for m in codes.AckFlag},
        **{f"BP_MEASURE_{m.name}": m.value for m in codes.MeasureFlag},
        **{f"BP_INTERRUPT_{m.name}": m.value for m in codes.InterruptFlag},
        **{f"BP_PROBE_{m.name}": m.value for m in codes.ProbeKind},
        **{f"BP_TRACE_{m.name}": m.value for m in codes.TraceId},
        **{f"BP_TRACE_{m.name}": m.value for m in codes.TraceFlag},
        **{f"BP_TRACE_{m.name}": m.value for m in codes.TraceMode},
        **{f"BP_TRACE_BLOCK_{m.name}": m.value for m in codes.TraceBlockFlag},
        **{f"BP_TRACE_SLOT_{m.name}": m.value for m in codes.TraceSlotFlag},
        **{f"BP_TRACE_CLOCK_{m.name}": m.value for m in codes.TraceClockStatus},
    }
    assert {name: int(value) for name, value in found.items()} == expected
    assert f"#define BP_PROTOCOL_VERSION {codes.PROTOCOL_VERSION}\n" in text
    assert "#define BP_HELLO_MAGIC 0x46525042u\n" in text
    assert "#define BP_TRACE_FIRST_NAME 16\n" in text  # SPEC.md 5.12
