# SPDX-License-Identifier: Apache-2.0
"""Blobs to counts. Blobs are written out byte by byte here, not by the code that reads them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from construct import Int32ul, Int64ul, Struct

from boardprof.base.errors import DecodeError, LayoutMismatchError
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Reading, decode_samples
from boardprof.wire.decode.schemas import check_layouts
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.collectors.dwt import LAYOUT as DWT
from boardprof_protocol.layout import Counter, Layout

PAIR = Layout(
    name="pair",
    schema_id=10001,
    version=3,
    struct=Struct("start" / Int32ul * "cycles", "stop" / Int32ul * "cycles"),
    counters=(Counter("cycles", "start", "stop", own_return=1),),
)
CLOCK = Layout(
    name="clock",
    schema_id=10002,
    version=1,
    struct=Struct(
        "start" / Int64ul * "ticks",
        "stop" / Int64ul * "ticks",
        "coarse_start" / Int32ul * "coarse ticks",
        "coarse_stop" / Int32ul * "coarse ticks",
    ),
    counters=(
        Counter(
            "ticks",
            "start",
            "stop",
            unit="ticks",
            coarse_start="coarse_start",
            coarse_stop="coarse_stop",
        ),
    ),
)
LAYOUTS = {layout.schema_id: layout for layout in (PAIR, CLOCK)}


def counter(name: str, bits: int, hz: int = 0, coarse_hz: int = 0) -> CounterInfo:
    return CounterInfo(name, "", bits, hz, coarse_hz, False, CounterStatus.OK, 0)


PAIR_INFO = CollectorInfo(0, "pair", 10001, 3, PAIR.crc, (counter("cycles", 32),))
CLOCK_INFO = CollectorInfo(1, "clock", 10002, 1, CLOCK.crc, (counter("ticks", 32, 1_000_000, 100),))


def blob(schema_id: int, version: int, body: bytes) -> bytes:
    raw = struct.pack("<HBBH", schema_id, version, 0, len(body)) + body
    return raw + struct.pack("<I", zlib.crc32(raw))


def pair(start: int, stop: int) -> bytes:
    """18 bytes: header 6, body 8, CRC 4."""
    return blob(10001, 3, struct.pack("<II", start, stop))


def clock(start: int, stop: int, coarse_start: int = 0, coarse_stop: int = 0) -> bytes:
    return blob(10002, 1, struct.pack("<QQII", start, stop, coarse_start, coarse_stop))


def only(data: bytes, info: CollectorInfo, longest_s: float | None = None) -> Reading:
    """Return the only counter of the only sample."""
    (sample,) = decode_samples(data, [info], LAYOUTS, longest_s=longest_s)
    assert sample.raw == data
    (reading,) = sample.readings.values()
    return reading


# -- samples ----------------------------------------------------------------------------------


def test_a_count_is_stop_less_start_with_its_units_and_its_blob() -> None:
    assert only(pair(1000, 1250), PAIR_INFO, 0.001) == Reading(250, "count", own_return=1)
    assert only(clock(7, 9), CLOCK_INFO) == Reading(2, "ticks", hz=1_000_000)


def test_samples_stand_one_after_the_other_with_a_blob_of_each_collector() -> None:
    data = pair(0, 1) + clock(0, 10) + pair(0, 2) + clock(0, 20)
    samples = decode_samples(data, [PAIR_INFO, CLOCK_INFO], LAYOUTS)
    values = [{name: r.value for name, r in s.readings.items()} for s in samples]
    assert values == [{"cycles": 1, "ticks": 10}, {"cycles": 2, "ticks": 20}]
    assert samples[1].raw == pair(0, 2) + clock(0, 20)


def test_counters_of_the_same_name_are_told_apart_as_the_dictionary_does() -> None:
    other = replace(PAIR_INFO, index=1, name="other", counters=(counter("other.cycles", 32),))
    check_layouts("board", [PAIR_INFO, other], LAYOUTS)
    (sample,) = decode_samples(pair(0, 1) + pair(0, 2), [PAIR_INFO, other], LAYOUTS)
    assert {name: r.value for name, r in sample.readings.items()} == {
        "cycles": 1,
        "other.cycles": 2,
    }


# -- damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "path", "offset", "message"),
    [
        (b"", "blob[0]", 0, "0 blobs do not make whole samples of 1 collectors."),
        (pair(1, 2)[:5], "blob[0].header", 0, "blob header cut off: 5 of 6 bytes"),
        (pair(1, 2) + b"\x11\x27", "blob[1].header", 18, "blob header cut off: 2 of 6 bytes"),
        (pair(1, 2)[:-1], "blob[0].body", 6, "announces 18 bytes in all, 17 are there"),
        (pair(1, 2) + pair(1, 2)[:9], "blob[1].body", 24, "18 bytes in all, 9 are there"),
        (pair(1, 2)[:-1] + b"\xff", "blob[0].crc", 14, "blob CRC is 0xff"),
        (blob(10001, 3, bytes(7)), "pair.stop", 10, "sent 7 bytes; pair version 3 has 8."),
        (blob(10001, 3, bytes(3)), "pair.start", 6, "sent 3 bytes; pair version 3 has 8."),
        (blob(10001, 3, b""), "pair.start", 6, "sent 0 bytes; pair version 3 has 8."),
        (blob(10001, 3, bytes(9)), "pair.(end)", 14, "sent 9 bytes; pair version 3 has 8."),
        (blob(999, 3, bytes(8)), "pair.header", 0, "a blob of schema 999 version 3; its dictio"),
        (blob(10001, 4, bytes(8)), "pair.header", 0, "schema 10001 version 4; its dictionary sa"),
        (pair(1, 2) + clock(1, 2), "pair.header", 18, "schema 10002 version 1; its dictionary"),
    ],
)
def test_a_blob_that_does_not_fit_is_an_error_with_its_place(
    data: bytes, path: str, offset: int, message: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_samples(data, [PAIR_INFO], LAYOUTS)
    assert (caught.value.path, caught.value.offset) == (path, offset)
    assert message in caught.value.message
    assert caught.value.message.endswith(f"(at field {path}, byte {offset})")
    assert caught.value.exit_code == 4


def test_a_place_counts_from_the_first_byte_of_all_samples() -> None:
    data = pair(0, 1) + clock(0, 10) + pair(0, 2) + blob(10002, 1, bytes(17))
    with pytest.raises(DecodeError) as caught:
        decode_samples(data, [PAIR_INFO, CLOCK_INFO], LAYOUTS)
    # 18 + 34 + 18 bytes before, a header of 6, and the 16 bytes of start and stop.
    assert (caught.value.path, caught.value.offset) == ("clock.coarse_start", 92)


def test_half_a_sample_is_an_error() -> None:
    with pytest.raises(DecodeError, match="3 blobs do not make whole samples of 2 collectors"):
        decode_samples(pair(0, 1) + clock(0, 1) + pair(0, 1), [PAIR_INFO, CLOCK_INFO], LAYOUTS)


# -- wraps ------------------------------------------------------------------------------------


def test_one_wrap_of_32_bits_is_resolved_by_the_subtraction() -> None:
    reading = only(pair(0xFFFFFFF0, 0x10), PAIR_INFO, 0.001)
    assert (reading.value, reading.ambiguous) == (32, False)


def test_without_a_slower_clock_a_long_window_is_ambiguous() -> None:
    # 2**32 counts take 1.07 s at 4 GHz, the fastest that is thought possible.
    assert not only(pair(0, 5), PAIR_INFO, 1.0).ambiguous
    assert only(pair(0, 5), PAIR_INFO, 1.1).ambiguous
    # Of a counter whose rate is known, that rate decides: 42.9 s at 100 MHz.
    known = replace(PAIR_INFO, counters=(counter("cycles", 32, hz=100_000_000),))
    assert not only(pair(0, 5), known, 42.0).ambiguous
    assert only(pair(0, 5), known, 43.0).ambiguous


def test_a_window_as_long_as_the_counters_period_is_ambiguous() -> None:
    # 2**32 counts take 4096 s at 2**20 Hz: a count of 0 may be none or all of them.
    slow = replace(PAIR_INFO, counters=(counter("cycles", 32, hz=1_048_576),))
    assert not only(pair(0, 5), slow, 4095.999).ambiguous
    assert only(pair(0, 5), slow, 4096.0).ambiguous


@pytest.mark.parametrize("time", ["enabled", "running"])
def test_a_counter_with_one_of_the_two_times_alone_is_no_estimate(time: str) -> None:
    one = replace(PAIR.counters[0], **{time: "start"})
    (found,) = decode_samples(
        pair(2, 7), [PAIR_INFO], {10001: replace(PAIR, counters=(one,))}, longest_s=0.001
    )
    assert found.readings["cycles"] == Reading(5, "count", own_return=1)


def test_where_no_clock_bounds_the_window_it_is_ambiguous() -> None:
    assert only(pair(0, 5), PAIR_INFO, None).ambiguous


@pytest.mark.parametrize(
    ("start", "stop", "coarse", "value", "wrapped"),
    [
        (0, 1_000_000, 100, 1_000_000, 0),
        (0, 1_000_000, 99, 1_000_000, 0),
        (0xFFFFFFFF, 0, 0, 1, 0),
        # 4295 s at 1 MHz is 2**32 and 32704 more.
        (0, 32_704, 429_500, 4_295_000_000, 1),
        (0, 32_704, 429_499, 4_295_000_000, 1),
        (0, 32_704, 429_501, 4_295_000_000, 1),
        # Ten wraps: 42949672960 and 5 ticks; the coarse clock wraps meanwhile.
        (10, 15, 4_294_967, 42_949_672_965, 10),
    ],
)
def test_a_slower_clock_tells_how_often_it_wrapped(
    start: int, stop: int, coarse: int, value: int, wrapped: int
) -> None:
    coarse_start = 0xFFFFFF00
    data = clock(start, stop, coarse_start, (coarse_start + coarse) % 2**32)
    reading = only(data, CLOCK_INFO)
    assert (reading.value, reading.wrapped, reading.ambiguous) == (value, wrapped, False)


def test_a_slower_clock_that_is_too_slow_leaves_it_ambiguous() -> None:
    # 16 bits at 1 MHz wrap every 65.5 ms. A tick of 100 Hz is 10 ms, one of 10 Hz is 100 ms.
    fine = replace(CLOCK_INFO, counters=(counter("ticks", 16, 1_000_000, 100),))
    coarse = replace(CLOCK_INFO, counters=(counter("ticks", 16, 1_000_000, 10),))
    assert not only(clock(0, 5), fine).ambiguous
    assert only(clock(0, 5), coarse).ambiguous


SHORT = CollectorInfo(
    0,
    "dwt",
    11,
    1,
    0xD97E9B73,
    (
        counter("cycles", 32),
        *(counter(name, 8) for name in ("cpi", "exc", "sleep", "lsu", "fold")),
    ),
)


@pytest.mark.parametrize(
    ("body", "ambiguous"),
    [
        # 255 cycles: cpi 5 to 4, and the others once around at the most; sleep may be any number.
        ("e8030000 e7040000 05 04 00 00 00 00 07 07 00 00", {"sleep"}),
        # 255 cycles around CYCCNT's end.
        ("80ffffff 7f000000 05 04 00 00 00 00 07 07 00 00", {"sleep"}),
        # 256 cycles: a difference of 0 may be 256.
        ("e8030000 e8040000 05 05 00 00 00 00 07 07 00 00", {"cpi", "exc", "sleep", "lsu", "fold"}),
    ],
    ids=["255", "255 around", "256"],
)
def test_a_counter_of_one_a_cycle_is_sure_in_fewer_cycles_than_its_modulus(
    body: str, ambiguous: set[str]
) -> None:
    data = blob(11, 1, bytes.fromhex(body))
    (sample,) = decode_samples(data, [SHORT], {11: DWT}, longest_s=0.5)
    assert {name for name, reading in sample.readings.items() if reading.ambiguous} == ambiguous


def test_a_counter_that_may_itself_have_wrapped_or_stands_still_bounds_no_other() -> None:
    data = blob(11, 1, bytes.fromhex("e8030000 e8030000 05 05 00 00 00 00 07 07 00 00"))
    (sample,) = decode_samples(data, [SHORT], {11: DWT}, longest_s=None)
    assert sample.readings["cpi"].ambiguous
    stuck = replace(SHORT.counters[0], status=CounterStatus.STUCK)
    info = replace(SHORT, counters=(stuck, *SHORT.counters[1:]))
    (sample,) = decode_samples(data, [info], {11: DWT}, longest_s=0.5)
    assert sample.readings["cpi"].ambiguous


@pytest.mark.parametrize(("microseconds", "ambiguous"), [(999, False), (9_999_999, True)])
def test_a_64_bit_clock_beside_a_counter_tells_whether_it_may_have_wrapped(
    microseconds: int, ambiguous: bool
) -> None:
    wide = replace(CLOCK_INFO, counters=(counter("ticks", 64, 1_000_000),))
    data = pair(5, 12) + clock(1, 1 + microseconds)
    (sample,) = decode_samples(data, [PAIR_INFO, wide], LAYOUTS, longest_s=None)
    assert sample.readings["cycles"].ambiguous is ambiguous


def test_a_64_bit_counter_that_steps_back_is_an_error_and_no_huge_number() -> None:
    wide = replace(CLOCK_INFO, counters=(counter("ticks", 64, 1_000_000_000, 0),))
    with pytest.raises(DecodeError, match="stepped back within the window: 900 at its start, 13"):
        only(clock(900, 13), wide)


def test_64_bits_wrap_too_and_are_never_ambiguous() -> None:
    wide = replace(CLOCK_INFO, counters=(counter("ticks", 64, 1_000_000_000, 0),))
    reading = only(clock(2**64 - 3, 4), wide)
    assert (reading.value, reading.wrapped, reading.ambiguous) == (7, 0, False)


# -- layouts ----------------------------------------------------------------------------------


def test_layouts_that_the_host_has_are_fine() -> None:
    check_layouts("board", [PAIR_INFO, CLOCK_INFO], LAYOUTS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 4}, "as pair version 4, CRC {crc}; this boardprof has version 3, CRC {crc}."),
        ({"layout_crc": 1}, "version 3, CRC 0x00000001; this boardprof has version 3, CRC {crc}."),
        ({"schema_id": 77}, "uses schema 77, which this boardprof does not know; it knows [10001"),
        ({"counters": ()}, "has the counters []; pair version 3 has ['cycles']."),
        ({"counters": (counter("ticks", 32),)}, "has the counters ['ticks']; pair version 3 has"),
    ],
)
def test_another_layout_is_named_with_both_sides(changes: dict[str, int], message: str) -> None:
    # The CRC of "start:u32:1:cycles\nstop:u32:1:cycles\n", as SPEC.md 6.2 has it for these fields.
    expected = message.format(crc="0x063ef8a1")
    with pytest.raises(LayoutMismatchError) as caught:
        check_layouts("m0", [CLOCK_INFO, replace(PAIR_INFO, **changes)], LAYOUTS)  # type: ignore[arg-type]
    assert str(caught.value).startswith("Collector 'pair' of m0 ")
    assert expected in str(caught.value)
