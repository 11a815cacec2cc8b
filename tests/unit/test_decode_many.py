# SPDX-License-Identifier: Apache-2.0
"""Many samples at once are those that construct reads one by one, whatever the blobs hold."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from construct import Float32l, Int16ul, Int32ul, Struct

from boardprof.base.errors import DecodeError
from boardprof.wire.decode import samples
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Sample, decode_batch, decode_samples, records_of
from boardprof.wire.decode.schemas import board_layouts, collector_layouts
from boardprof_protocol.blob import encode_blob
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.layout import Counter, Layout

BOARDS = Path(__file__).parents[2] / "boards"
LAYOUTS = {
    layout.schema_id: layout
    for layout in (
        *collector_layouts(),
        *(each for folder in sorted(BOARDS.iterdir()) for each in board_layouts(folder)),
    )
}


def info_of(layout: Layout, bits: int, hz: int = 0, coarse_hz: int = 0) -> CollectorInfo:
    counters = tuple(
        CounterInfo(
            each.name,
            f"{each.name}'s register",
            bits,
            hz if each.unit == "ticks" else 0,
            coarse_hz,
            False,
            CounterStatus.OK,
            0,
        )
        for each in layout.counters
    )
    return CollectorInfo(0, layout.name, layout.schema_id, layout.version, layout.crc, counters)


def body_of(layout: Layout, bits: int, chance: random.Random) -> bytes:
    """Return a body of numbers as a counter has them: of any size, and close to its ends."""
    period = 1 << min(bits, 63)
    steps = [0, 1, 50, period // 2, period - 1, chance.randrange(period)]
    largest = {f.name: (1 << 8 * f.size) - 1 for f in layout.fields}
    values = {
        name: chance.choice([0, 1, most, chance.randint(0, most)]) for name, most in largest.items()
    }
    for each in layout.counters:
        values[each.stop] = (values[each.start] + chance.choice(steps)) & largest[each.stop]
        if bits == 64 and largest[each.stop] < (1 << 64) - 1:
            values[each.stop] = max(values[each.stop], values[each.start])
        if each.wraps is not None:
            values[each.wraps] = chance.randint(1, largest[each.wraps])
        if each.enabled is not None and each.running is not None:
            values[each.running] = chance.choice([0, 1, values[each.enabled]])
    return bytes(layout.struct.build(values))


def outcome(
    decode: Callable[..., list[Sample]], data: bytes, infos: list[CollectorInfo], **more: Any
) -> object:
    """Return the samples, or all that the error says."""
    try:
        return decode(data, infos, LAYOUTS, **more)
    except DecodeError as error:
        return str(error), error.path, error.offset, error.hint


def refused_slow_way(*_: object, **__: object) -> list[Sample]:
    raise AssertionError("construct was asked")


@pytest.mark.parametrize("longest_s", [None, 1e-6, 60.0])
@pytest.mark.parametrize("clock", [(0, 0), (1_000_000, 0), (64_000_000, 100)])
@pytest.mark.parametrize("bits", [8, 16, 24, 32, 40, 64])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_samples_of_every_boards_collectors_are_those_that_construct_reads(
    monkeypatch: pytest.MonkeyPatch,
    layout: Layout,
    bits: int,
    clock: tuple[int, int],
    longest_s: float | None,
) -> None:
    chance = random.Random(f"{layout.name} {bits}")
    info = info_of(layout, bits, *clock)
    bodies = [body_of(layout, bits, chance) for _ in range(40)]
    data = b"".join(encode_blob(layout.schema_id, layout.version, body) for body in bodies)
    expected = decode_samples(data, [info], LAYOUTS, longest_s=longest_s)
    monkeypatch.setattr(samples, "decode_samples", refused_slow_way)
    assert decode_batch(data, [info], LAYOUTS, longest_s=longest_s) == expected


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_any_bytes_with_a_right_crc_give_the_same_samples_or_the_same_error(layout: Layout) -> None:
    chance = random.Random(layout.name)
    info = info_of(layout, 64, 1_000_000)
    for _ in range(20):
        bodies = [chance.randbytes(layout.size) for _ in range(chance.choice([1, 2, 9]))]
        data = b"".join(encode_blob(layout.schema_id, layout.version, body) for body in bodies)
        assert outcome(decode_batch, data, [info]) == outcome(decode_samples, data, [info])


PAIR = Layout(
    name="pair",
    schema_id=10001,
    version=3,
    struct=Struct("start" / Int32ul * "cycles", "stop" / Int32ul * "cycles", "more" / Int16ul[3]),
    counters=(Counter("cycles", "start", "stop", own_return=1),),
)


def pair(start: int, stop: int) -> bytes:
    """Return 24 bytes: header 6, body 14, CRC 4."""
    raw = struct.pack("<HBBHII6x", 10001, 3, 0, 14, start, stop)
    return raw + struct.pack("<I", zlib.crc32(raw))


def pairs(*starts: int) -> list[bytes]:
    return [pair(start, (start + 7) % (1 << 32)) for start in starts]


INFO = info_of(PAIR, 32)


def test_a_record_has_the_numbers_of_a_blob_by_their_names() -> None:
    records = records_of(b"".join(pairs(5, 0xFFFF_FFFE)), [INFO], {10001: PAIR})
    assert records is not None
    body = records["f0"]["body"]
    assert body["start"].tolist() == [5, 0xFFFF_FFFE]
    assert body["stop"].tolist() == [12, 5]
    assert body["more"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert records.dtype.itemsize == 24


def test_a_window_that_comes_again_is_the_same_reading() -> None:
    one, two, other = decode_batch(
        b"".join([*pairs(1, 900), pair(2, 3)]), [INFO], {10001: PAIR}, longest_s=1e-6
    )
    assert one.readings["cycles"] is two.readings["cycles"]
    assert (one.readings["cycles"].value, other.readings["cycles"].value) == (7, 1)
    assert one.raw == pair(1, 8)


def test_of_each_sample_the_boards_own_clock_says_whether_a_counter_may_have_wrapped() -> None:
    clock = Layout(
        name="clock",
        schema_id=10002,
        version=1,
        struct=Struct("start" / Int32ul, "stop" / Int32ul),
        counters=(Counter("ticks", "start", "stop", unit="ticks"),),
    )
    infos, layouts = [INFO, info_of(clock, 64, 1)], {10001: PAIR, 10002: clock}
    ticks = [struct.pack("<II", 5, 5), struct.pack("<II", 5, 6)]
    samples = [pair(3, 4) + encode_blob(10002, 1, each) for each in ticks]
    found = decode_batch(b"".join(samples), infos, layouts)
    # 32 bits at 4 GHz wrap after 1.07 s: one tick more than was read, 1 s or 2 s, is the bound.
    assert [each.readings["cycles"].ambiguous for each in found] == [False, True]
    assert [each.readings["ticks"].value for each in found] == [0, 1]
    assert [each.raw for each in found] == samples


def damaged() -> Iterator[tuple[bytes, str]]:
    """Yield what cannot be read, and what it is called."""
    good = pairs(*range(50))
    for byte in range(24):
        bad = bytearray(b"".join(good))
        bad[24 * 33 + byte] ^= 0x10
        yield bytes(bad), f"byte {byte}"
    yield b"".join(good)[:-1], "cut off"
    yield b"".join(good) + b"\0", "surplus"
    yield b"", "nothing"
    other = encode_blob(10001, 4, bytes(14))
    yield b"".join([*good, other]), "another version"
    yield b"".join([*good, encode_blob(10001, 3, bytes(15))]), "another length"
    yield b"".join([*good, encode_blob(10001, 3, bytes(38))]), "the length of two"


@pytest.mark.parametrize("data", [pytest.param(data, id=what) for data, what in damaged()])
def test_what_is_damaged_is_refused_as_construct_refuses_it(data: bytes) -> None:
    layouts = {10001: PAIR}
    with pytest.raises(DecodeError) as expected:
        decode_samples(data, [INFO], layouts)
    with pytest.raises(DecodeError) as found:
        decode_batch(data, [INFO], layouts)
    assert str(found.value) == str(expected.value)
    assert (found.value.path, found.value.offset) == (expected.value.path, expected.value.offset)
    assert records_of(data, [INFO], layouts) is None


def test_flags_of_a_blob_are_its_layouts_own_affair() -> None:
    raw = encode_blob(10001, 3, bytes(14), flags=0x80)
    (sample,) = decode_batch(raw, [INFO], {10001: PAIR})
    assert sample.readings["cycles"].value == 0


def test_a_counter_in_floats_is_left_to_construct() -> None:
    layout = Layout(
        name="heat",
        schema_id=10003,
        version=1,
        struct=Struct("start" / Float32l, "stop" / Float32l),
        counters=(Counter("heat", "start", "stop"),),
    )
    data = b"".join(encode_blob(10003, 1, struct.pack("<ff", 1.5, 4.0)) for _ in range(3))
    samples = decode_batch(data, [info_of(layout, 32)], {10003: layout})
    assert [each.readings["heat"].value for each in samples] == [2.5, 2.5, 2.5]


def test_the_dtype_of_a_layout_is_as_long_as_its_blob() -> None:
    assert np.dtype(PAIR.dtype).itemsize == PAIR.size == 14
    assert PAIR.dtype == [("start", "<u4", ()), ("stop", "<u4", ()), ("more", "<u2", (3,))]
