# SPDX-License-Identifier: Apache-2.0
"""Every vector through the C side, function by function, and through the whole agent."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from cffi import FFI

from boardprof_protocol.codes import ErrorCode, FrameKind
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.frame import Frame, encode_frame
from tests.memory_board import CHANNELS, COLLECTORS, FULL, BoardError, MemoryBoard, read_frames
from tests.protocol.channel_host import open_channel
from tests.support import unhex, vectors

Codec = tuple[FFI, Any]
Boards = Callable[[dict[str, int]], MemoryBoard]

# In the order of enum test_type in tests/c/library.c.
TYPES = ["u32", "u64", "i64", "i8", "u8", "bool", "f32", "f64", "bytes", "nil", "uint", "text"]
TYPES += ["array"]
LAYOUTS = [layout.name for layout in collector_layouts()]
# A body of 509 bytes is among the frames.
WIDE = {**FULL, "BP_CFG_MTU": 2048}


def cases(file: str, *keys: str, good: bool = True) -> list[Any]:
    """Return the good or bad vectors that have one of the keys (any at all, without keys)."""
    return [
        pytest.param(vector, id=vector["name"])
        for vector in vectors(file)
        if ("fields" in vector) is good and (not keys or set(keys) & vector.keys())
    ]


def decoded(codec: Codec, wire: bytes) -> bytes | None:
    """Return what the C decoder makes of bytes with a delimiter behind them; None: no COBS."""
    ffi, lib = codec
    raw = ffi.new("uint8_t[]", 4096)
    length = lib.test_frame_decode(raw, wire, len(wire))
    return None if length < 0 else bytes(ffi.buffer(raw, length))


### COBS and frames ###


@pytest.mark.parametrize("vector", cases("cobs"))
def test_cobs(codec: Codec, vector: dict[str, Any]) -> None:
    assert decoded(codec, unhex(vector["hex"]) + b"\0") == unhex(vector["fields"]["data"])


@pytest.mark.parametrize(
    "vector", [case for case in cases("cobs", good=False) if case.values[0]["error"] == "cobs"]
)
def test_what_is_no_cobs_is_refused(codec: Codec, vector: dict[str, Any]) -> None:
    assert decoded(codec, unhex(vector["hex"]) + b"\0") is None


@pytest.mark.parametrize("vector", cases("frame"))
def test_a_frame(codec: Codec, vector: dict[str, Any]) -> None:
    ffi, lib = codec
    wire, fields = unhex(vector["hex"]), vector["fields"]
    assert decoded(codec, wire[1:]) == unhex(vector["decoded"])
    body = unhex(fields["body"])
    out = ffi.new("uint8_t[]", len(wire) + 16)
    numbers = (fields["kind"], fields["session"], fields["sequence"])
    written = bytes(ffi.buffer(out, lib.test_frame_encode(out, *numbers, body, len(body))))
    # The agent writes its own version only; the other one is read above.
    assert (written == wire) is (fields["version"] == 1)


@pytest.mark.parametrize("vector", cases("frame"))
def test_the_agent_reads_a_frame(boards: Boards, vector: dict[str, Any]) -> None:
    board = boards(WIDE)
    answers = read_frames(board.send(unhex(vector["hex"])))
    fields = vector["fields"]
    if fields["kind"] == FrameKind.HELLO:
        assert [answer.kind for answer in answers] == [FrameKind.WELCOME]
    elif fields["kind"] == FrameKind.CALL:
        assert answers == [Frame(FrameKind.NO_SESSION, fields["session"], fields["sequence"])]
    else:
        assert answers == []


@pytest.mark.parametrize("vector", cases("frame", good=False))
def test_the_agent_answers_nak_to_what_is_no_frame(boards: Boards, vector: dict[str, Any]) -> None:
    if vector["name"] == "an empty group":
        # It decodes to nothing at all; the agent takes it as two delimiters in a row.
        assert boards(WIDE).send(unhex(vector["hex"])) == b""
        return
    pieces = [piece for piece in unhex(vector["hex"]).split(b"\0") if piece]
    answers = read_frames(boards(WIDE).send(unhex(vector["hex"])))
    assert answers == [Frame(FrameKind.NAK, 0, 0)] * len(pieces)


### Messages ###


@pytest.mark.parametrize(
    "vector",
    [case for file in ("handshake", "channel", "span", "sample", "trace") for case in cases(file)],
)
def test_a_message(codec: Codec, vector: dict[str, Any]) -> None:
    ffi, lib = codec
    name = vector["message"]
    fields = {
        key: list(unhex(value)) if isinstance(value, str) else value
        for key, value in vector["fields"].items()
    }
    out = ffi.new("uint8_t[]", 64)
    length = getattr(lib, f"test_put_{name}")(out, ffi.new(f"bp_{name}_t *", fields))
    body = unhex(vector["hex"])
    assert bytes(ffi.buffer(out, length)) == body[: len(body) - vector.get("tail", 0)]


@pytest.mark.parametrize(
    "vector", [case for case in cases("handshake") if case.values[0]["message"] == "hello"]
)
def test_the_agent_welcomes_a_good_hello(board: MemoryBoard, vector: dict[str, Any]) -> None:
    (answer,) = board.exchange(Frame(FrameKind.HELLO, 7, 0, unhex(vector["hex"])))
    assert (answer.kind, answer.session, answer.sequence) == (FrameKind.WELCOME, 7, 0)


@pytest.mark.parametrize("vector", cases("handshake", good=False))
def test_the_agent_ignores_a_bad_hello(board: MemoryBoard, vector: dict[str, Any]) -> None:
    hello = Frame(FrameKind.HELLO, vector["session"], 0, unhex(vector["hex"]))
    assert board.send(encode_frame(hello)) == b""


def in_a_channel(board: MemoryBoard, vector: dict[str, Any]) -> list[Frame]:
    """Open a channel for DATA or for ACKs; return what the agent answers to the vector in it."""
    board.hello()
    sends = vector["message"] == "ack"
    block = board.call("bp.alloc", 4096)
    function = board.names().index("bp.download" if sends else "bp.upload")
    channel, _ = open_channel(board, function, block, 0, 4096)
    kind = FrameKind.ACK if sends else FrameKind.DATA
    return board.exchange(Frame(kind, board.session, channel, unhex(vector["hex"])))


@pytest.mark.parametrize("vector", cases("channel", good=False))
def test_the_agent_ignores_a_bad_channel_frame(boards: Boards, vector: dict[str, Any]) -> None:
    assert in_a_channel(boards(CHANNELS), vector) == []


@pytest.mark.parametrize("name", ["ACK that begins a channel", "DATA: the first byte"])
def test_the_agent_takes_a_good_channel_frame(boards: Boards, name: str) -> None:
    (vector,) = [vector for vector in vectors("channel") if vector["name"] == name]
    (answer,) = in_a_channel(boards(CHANNELS), vector)
    assert answer.body[:4] == (b"\x01\0\0\0" if name.startswith("DATA") else bytes(4))


@pytest.mark.parametrize("vector", cases("span", good=False))
def test_the_agent_refuses_a_bad_span(boards: Boards, vector: dict[str, Any]) -> None:
    board = boards({**FULL, "TEST_POINTERS": 1})
    board.hello()
    with pytest.raises(BoardError, match=f"{vector['error']}, detail 1"):
        board.call("scale", unhex(vector["hex"]), 1)


### msgpack ###


def read(codec: Codec, kind: str, packed: bytes, *, argc: int = 1, err: int = 0) -> tuple[int, Any]:
    """Read one argument; return the error and the value, bytes for bytes."""
    ffi, lib = codec
    value: Any = ffi.new("test_value_t *", {"u": 0xDDDDDDDDDDDDDDDD})
    data, length = ffi.new("uint8_t[]", 1024), ffi.new("size_t *")
    number = TYPES.index(kind)
    code = lib.test_arg(number, packed, len(packed), argc, err, value, data, length)
    if kind == "bytes":
        return code, bytes(ffi.buffer(data, length[0]))
    if kind in ("f32", "f64"):
        return code, value.f
    return code, value.i if kind.startswith("i") else value.u


@pytest.mark.parametrize("vector", cases("msgpack", "reader"))
def test_an_argument_is_read(codec: Codec, vector: dict[str, Any]) -> None:
    value = vector["fields"]["value"]
    expected = unhex(value) if vector["reader"] == "bytes" else value
    assert read(codec, vector["reader"], unhex(vector["hex"])) == (0, expected)


@pytest.mark.parametrize("vector", cases("msgpack", "reader", good=False))
def test_an_argument_is_refused_and_reads_as_nothing(codec: Codec, vector: dict[str, Any]) -> None:
    code, value = read(codec, vector["reader"], unhex(vector["hex"]))
    assert code == -ErrorCode[vector["error"]]
    assert value == (b"" if vector["reader"] == "bytes" else 0)


@pytest.mark.parametrize("vector", cases("msgpack", "reader"))
def test_after_an_error_every_argument_reads_as_nothing(
    codec: Codec, vector: dict[str, Any]
) -> None:
    nothing: bytes | int = b"" if vector["reader"] == "bytes" else 0
    packed = unhex(vector["hex"])
    assert read(codec, vector["reader"], packed, err=-9) == (-9, nothing)
    missing = -ErrorCode.ARG_COUNT
    assert read(codec, vector["reader"], packed, argc=0) == (missing, nothing)


@pytest.mark.parametrize("vector", cases("msgpack", "reader"))
def test_each_argument_cut_short_is_malformed(codec: Codec, vector: dict[str, Any]) -> None:
    packed = unhex(vector["hex"])
    nothing: bytes | int = b"" if vector["reader"] == "bytes" else 0
    for length in range(len(packed)):
        found = read(codec, vector["reader"], packed[:length])
        assert found == (-ErrorCode.MALFORMED, nothing)


def test_bytes_behind_an_argument_and_arguments_left_over_are_wrong(codec: Codec) -> None:
    assert read(codec, "u32", b"\x05\x06") == (-ErrorCode.ARG_COUNT, 5)
    assert read(codec, "u32", b"\x05\x06", argc=2) == (-ErrorCode.ARG_COUNT, 5)


def write(codec: Codec, kind: str, value: Any, capacity: int) -> bytes | int:
    """Write one reply; return its bytes, or the error."""
    ffi, lib = codec
    data = b""
    number: Any = ffi.new("test_value_t *")
    if kind == "bytes":
        data = unhex(value)
    elif kind == "text":
        data = value.encode("ascii") + b"\0"
    elif kind == "array":
        data = bytes(value)
    elif kind in ("f32", "f64"):
        number.f = value
    elif kind == "i64":
        number.i = value
    else:
        number.u = int(value or 0)
    out = ffi.new("uint8_t[]", b"\xdd" * 400)
    length = len(data) if kind != "text" else 0
    code = lib.test_ret(TYPES.index(kind), out, capacity, number, data, length)
    behind = bytes(ffi.buffer(out))[code if code > 0 else capacity : 400]
    assert behind == b"\xdd" * len(behind)
    return code if code < 0 else bytes(ffi.buffer(out, code))


@pytest.mark.parametrize("vector", cases("msgpack", "writer"))
def test_a_reply_is_written(codec: Codec, vector: dict[str, Any]) -> None:
    packed = unhex(vector["hex"])
    assert write(codec, vector["writer"], vector["fields"]["value"], 400) == packed
    assert write(codec, vector["writer"], vector["fields"]["value"], len(packed)) == packed


@pytest.mark.parametrize("vector", cases("msgpack", "writer"))
def test_a_reply_without_room_is_too_big_and_nothing_is_written_behind(
    codec: Codec, vector: dict[str, Any]
) -> None:
    for capacity in range(len(unhex(vector["hex"]))):
        found = write(codec, vector["writer"], vector["fields"]["value"], capacity)
        assert found == -ErrorCode.REPLY_TOO_BIG


### Blobs ###


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_collectors_blob(codec: Codec, name: str) -> None:
    ffi, lib = codec
    for vector in vectors(name):
        if "fields" not in vector:
            continue  # a board writes blobs and reads none
        state = ffi.new(f"bp_{name}_t *", vector["fields"])
        out = ffi.new("uint8_t[]", 1024)
        length = getattr(lib, f"test_put_{name}")(out, state)
        assert bytes(ffi.buffer(out, length)) == unhex(vector["body"]), vector["name"]
        if name not in COLLECTORS:
            continue  # its encoder alone; its own tests have the collector
        length = getattr(lib, f"test_blob_{name}")(out, state)
        assert bytes(ffi.buffer(out, length)) == unhex(vector["hex"]), vector["name"]


def test_the_cycle_collector_reads_what_the_counters_show(board: MemoryBoard) -> None:
    board.hello()
    (vector,) = [v for v in vectors("cycles_instret") if v["name"].startswith("a window of 1500")]
    lib = board.lib
    lib.test_cycles_step = lib.test_instructions_step = 0
    lib.test_cycles, lib.test_instructions = 1000, 500
    number = board.call("cycles.start")
    lib.test_cycles, lib.test_instructions = 2500, 1500
    assert board.call("cycles.stop", number) == unhex(vector["hex"])


def test_the_ticks_collector_reads_both_clocks(boards: Boards) -> None:
    board = boards({**FULL, "TEST_TICKS_BITS": 32})
    board.hello()
    board.lib.test_ticks_step = 0
    board.lib.test_ticks, board.lib.test_coarse = 4026531840, 10
    number = board.call("ticks.start")
    board.lib.test_ticks, board.lib.test_coarse = 4026531840 + 2500000000, 10010
    (vector,) = [v for v in vectors("ticks") if "100 s" in v["name"]]
    assert board.call("ticks.stop", number) == unhex(vector["hex"])


def test_a_blob_header_in_c(codec: Codec) -> None:
    ffi, lib = codec
    fields = {"schema_id": 0x0201, "version": 3, "flags": 4, "length": 0x0605}
    out = ffi.new("uint8_t[]", 8)
    length = lib.test_put_blob_header(out, ffi.new("bp_blob_header_t *", fields))
    assert bytes(ffi.buffer(out, length)) == struct.pack("<HBBH", 0x0201, 3, 4, 0x0605)
