# SPDX-License-Identifier: Apache-2.0
"""Every vector through the Python side: what parses to these fields is built from them."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgpack
import pytest

from boardprof.base.errors import DecodeError
from boardprof.target.arguments.signature import pack_arguments, parse_signature
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import decode_samples
from boardprof.wire.decode.schemas import board_layouts
from boardprof_protocol.blob import encode_blob
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.frame import (
    BadFrame,
    Frame,
    FrameDecoder,
    cobs_decode,
    cobs_encode,
    decode_frame,
    encode_frame,
)
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
from tests.support import ROOT, unhex, vectors

KNOWN = {layout.schema_id for layout in collector_layouts()}
LAYOUTS = {layout.name: layout for layout in collector_layouts()}
LAYOUTS |= {
    layout.name: layout
    for schema in sorted(ROOT.glob("boards/*/schema.py"))
    for layout in board_layouts(schema.parent)
    if layout.schema_id not in KNOWN  # a board may say more of these, but not of their bytes
}
MESSAGES = {
    layout.name: layout
    for layout in (
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
        ),
        *(TRACE_BLOCK, TRACE_KEPT, TRACE_SLOT),
    )
}


def cases(file: str, *, good: bool) -> list[Any]:
    """Return a file's good or bad vectors as pytest parameters."""
    found = [vector for vector in vectors(file) if ("fields" in vector) is good]
    return [pytest.param(vector, id=vector["name"]) for vector in found]


def collector_cases(*, good: bool) -> list[Any]:
    return [
        pytest.param(layout, *case.values, id=f"{layout.name}: {case.id}")
        for layout in LAYOUTS.values()
        for case in cases(layout.name, good=good)
    ]


### COBS and frames ###


@pytest.mark.parametrize("vector", cases("cobs", good=True))
def test_cobs(vector: dict[str, Any]) -> None:
    data = unhex(vector["fields"]["data"])
    assert cobs_decode(unhex(vector["hex"])) == data
    if "decode_only" not in vector:
        assert cobs_encode(data) == unhex(vector["hex"])


@pytest.mark.parametrize("vector", cases("cobs", good=False))
def test_what_is_no_cobs_is_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(BadFrame):
        cobs_decode(unhex(vector["hex"]))


@pytest.mark.parametrize("vector", cases("frame", good=True))
def test_a_frame(vector: dict[str, Any]) -> None:
    frame = Frame(**{**vector["fields"], "body": unhex(vector["fields"]["body"])})
    wire, decoded = unhex(vector["hex"]), unhex(vector["decoded"])
    assert encode_frame(frame) == wire
    assert cobs_decode(wire[1:-1]) == decoded
    assert list(FrameDecoder().feed(wire)) == [frame]


@pytest.mark.parametrize("vector", cases("frame", good=False))
def test_what_is_no_frame_is_console_text(vector: dict[str, Any]) -> None:
    wire = unhex(vector["hex"])
    with pytest.raises(BadFrame):
        decode_frame(wire[1:-1])
    decoder = FrameDecoder()
    assert list(decoder.feed(wire)) == []
    assert decoder.take_console() == wire.replace(b"\0", b"")


### Messages ###


@pytest.mark.parametrize(
    "vector",
    [
        case
        for file in ("handshake", "channel", "span", "sample", "trace")
        for case in cases(file, good=True)
    ],
)
def test_a_message(vector: dict[str, Any]) -> None:
    message = MESSAGES[vector["message"]]
    fields = {
        name: list(unhex(value)) if isinstance(value, str) else value
        for name, value in vector["fields"].items()
    }
    body = unhex(vector["hex"])
    parsed = message.struct.parse(body)
    assert {name: parsed[name] for name in fields} == fields
    assert message.struct.build(fields) == body[: len(body) - vector.get("tail", 0)]


@pytest.mark.parametrize("vector", cases("msgpack", good=True))
def test_msgpack(vector: dict[str, Any]) -> None:
    value, packed = vector["fields"]["value"], unhex(vector["hex"])
    kind = vector.get("reader") or vector["writer"]
    unpacked = msgpack.unpackb(packed)
    assert unpacked == (unhex(value) if kind == "bytes" else value)
    assert isinstance(unpacked, bytes if kind == "bytes" else type(value))
    if "shortest" in vector:
        assert host_packs(kind, value) == packed


def host_packs(kind: str, value: Any) -> bytes:
    """Return what the host sends for an argument."""
    if kind == "bytes":  # signatures know none: these are what Memory writes
        return bytes(msgpack.packb(unhex(value)))
    packed, count = pack_arguments("f", parse_signature(f"(x: {kind}) -> void"), [value], {})
    assert count == 1
    return packed


@pytest.mark.parametrize(
    "vector",
    [case for case in cases("msgpack", good=False) if case.values[0]["error"] == "MALFORMED"],
)
def test_a_msgpack_value_that_is_cut_off_is_none(vector: dict[str, Any]) -> None:
    with pytest.raises((ValueError, msgpack.UnpackException)):
        msgpack.unpackb(unhex(vector["hex"]))


### Blobs ###


def info(layout: Layout, counters: list[dict[str, Any]]) -> CollectorInfo:
    """Return what a board's dictionary would say of a collector."""
    return CollectorInfo(
        index=0,
        name="collector",
        schema_id=layout.schema_id,
        version=layout.version,
        layout_crc=layout.crc,
        counters=tuple(
            CounterInfo(
                name=counter["name"],
                source="",
                bits=counter["bits"],
                hz=counter.get("hz", 0),
                coarse_hz=counter.get("coarse_hz", 0),
                counts_in_sleep=False,
                status=CounterStatus.OK,
                detail=0,
            )
            for counter in counters
        ),
    )


@pytest.mark.parametrize(("layout", "vector"), collector_cases(good=True))
def test_a_blob(layout: Layout, vector: dict[str, Any]) -> None:
    body, raw = unhex(vector["body"]), unhex(vector["hex"])
    parsed = layout.struct.parse(body)
    assert {name: parsed[name] for name in vector["fields"]} == vector["fields"]
    assert layout.struct.build(vector["fields"]) == body
    assert encode_blob(layout.schema_id, layout.version, body) == raw
    collector = info(layout, vector["counters"])
    (sample,) = decode_samples(raw, [collector], {layout.schema_id: layout}, longest_s=0.0)
    for counter in vector["counters"]:
        reading = sample.readings[counter["name"]]
        assert reading.value == counter["difference"]
        assert reading.wrapped == counter.get("wrapped", 0)
    assert sample.raw == raw


@pytest.mark.parametrize(("layout", "vector"), collector_cases(good=False))
def test_a_bad_blob_is_refused_and_the_fault_is_named(
    layout: Layout, vector: dict[str, Any]
) -> None:
    counters = [{"name": counter.name, "bits": 64} for counter in layout.counters]
    with pytest.raises(DecodeError) as caught:
        decode_samples(unhex(vector["hex"]), [info(layout, counters)], {layout.schema_id: layout})
    assert caught.value.path.removeprefix("collector.") == vector["path"]
    assert caught.value.offset == vector["offset"]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_a_blobs_header_by_hand(layout: Layout) -> None:
    raw = encode_blob(layout.schema_id, layout.version, bytes(layout.size))
    head = struct.pack("<HBBH", layout.schema_id, layout.version, 0, layout.size)
    whole = head + bytes(layout.size)
    assert raw == whole + struct.pack("<I", zlib.crc32(whole))
