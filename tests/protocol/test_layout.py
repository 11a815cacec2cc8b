# SPDX-License-Identifier: Apache-2.0
"""What may be a layout, and what its CRC covers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from construct import (
    Array,
    Bytes,
    Const,
    CString,
    Float32l,
    Float64l,
    GreedyRange,
    Int8sl,
    Int8ul,
    Int16sl,
    Int16ub,
    Int16ul,
    Int24ul,
    Int32sl,
    Int32ul,
    Int64sb,
    Int64sl,
    Int64ul,
    Padding,
    Struct,
    VarInt,
    this,
)

from boardprof_protocol.collectors import collector_layouts, systick
from boardprof_protocol.layout import Counter, Field, Layout


def layout(struct: Any) -> Layout:
    return Layout(name="sample", schema_id=10000, version=1, struct=struct)


def test_every_number_type_has_its_name_and_size() -> None:
    fields = layout(
        Struct(
            "a" / Int8ul,
            "b" / Int8sl,
            "c" / Int16ul,
            "d" / Int16sl,
            "e" / Int32ul,
            "f" / Int32sl,
            "g" / Int64ul,
            "h" / Int64sl,
            "i" / Float32l,
            "j" / Float64l,
        )
    ).fields
    types = [field.type for field in fields]
    assert types == ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64"]
    assert [field.size for field in fields] == [1, 1, 2, 2, 4, 4, 8, 8, 4, 8]


def test_an_array_has_a_count_and_a_unit() -> None:
    sample = layout(Struct("event" / Int32ul[4] * "counts", "id" / Int8ul[8]))
    assert sample.fields == (Field("event", "u32", 4, "counts"), Field("id", "u8", 8, ""))
    assert sample.size == 24


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("a" / Int16ub, "little-endian"),
        ("a" / Int64sb, "little-endian"),
        ("a" / Int24ul, "fixed-size"),
        ("a" / VarInt, "fixed-size"),
        ("a" / Bytes(4), "fixed-size"),
        ("a" / CString("ascii"), "fixed-size"),
        ("a" / Const(1, Int8ul), "fixed-size"),
        ("a" / GreedyRange(Int8ul), "fixed-size"),
        ("a" / Array(2, Array(2, Int8ul)), "fixed-size"),
        ("a" / Struct("b" / Int8ul), "fixed-size"),
        ("a" / Array(2, Struct("b" / Int8ul)), "fixed-size"),
        ("a" / Array(this.n, Int8ul), "variable length"),
        ("a" / Array(0, Int8ul), "an array of 0"),
        (Int8ul, "needs a name"),
        (Padding(2), "needs a name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_fixed_little_endian_number_is_refused(field: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        _ = layout(Struct("n" / Int8ul, field)).fields


def test_a_layout_that_is_no_struct_is_refused() -> None:
    with pytest.raises(TypeError, match="Struct"):
        _ = layout(Int8ul).fields


def test_the_crc_is_that_of_a_line_for_each_field() -> None:
    # CRC-32 of "start:u32:1:cycles\nevent:u16:3:\n", worked out bit by bit.
    sample = layout(Struct("start" / Int32ul * "cycles", "event" / Int16ul[3]))
    assert sample.crc == 0x4A2059FA


@pytest.mark.parametrize(
    "other",
    [
        Struct("begin" / Int32ul * "cycles", "event" / Int16ul[3]),
        Struct("start" / Int32sl * "cycles", "event" / Int16ul[3]),
        Struct("start" / Int32ul * "ticks", "event" / Int16ul[3]),
        Struct("start" / Int32ul * "cycles", "event" / Int16ul[4]),
        Struct("start" / Int32ul * "cycles", "event" / Int16ul[3] * "count"),
        Struct("event" / Int16ul[3], "start" / Int32ul * "cycles"),
        Struct("start" / Int32ul * "cycles", "event" / Int16ul[3], "more" / Int8ul),
    ],
    ids=["name", "type", "unit", "count", "a unit more", "order", "a field more"],
)
def test_any_change_of_a_layout_changes_its_crc(other: Any) -> None:
    first = layout(Struct("start" / Int32ul * "cycles", "event" / Int16ul[3]))
    assert layout(other).crc != first.crc


def test_name_id_and_version_are_no_part_of_the_crc() -> None:
    struct = Struct("start" / Int32ul * "cycles")
    first = Layout(name="a", schema_id=1, version=1, struct=struct)
    second = Layout(name="b", schema_id=2, version=9, struct=struct)
    assert first.crc == second.crc


def test_the_collectors_layouts_come_by_schema_id() -> None:
    ids = {found.name: found.schema_id for found in collector_layouts()}
    assert list(ids.values()) == sorted(ids.values())
    assert ids["cycles_instret"] == 1
    assert ids["cycles32"] == 2
    assert ids["ticks"] == 3
    assert ids["linux_clock"] == 4
    assert ids["linux_faults"] == 5
    assert ids["linux_perf"] == 13
    assert ids["papi"] == 14


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema_id": 2}, r"layouts share a schema_id: \[2\]"),
        ({"name": "cycles32"}, r"layouts share a name: \['cycles32'\]"),
    ],
)
def test_two_collectors_with_one_schema_id_or_name_are_refused(
    change: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systick, "LAYOUT", replace(systick.LAYOUT, **change))
    with pytest.raises(ValueError, match=says):
        collector_layouts.__wrapped__()


def test_every_counter_is_read_from_fields_that_exist() -> None:
    for found in collector_layouts():
        names = {field.name for field in found.fields}
        for counter in found.counters:
            sources = {counter.start, counter.stop, counter.coarse_start, counter.coarse_stop}
            sources |= {counter.enabled, counter.running}
            assert sources - {None} <= names


def test_a_layout_is_of_the_cpu_and_fixed_unless_it_says_otherwise() -> None:
    plain = layout(Struct("a" / Int8ul))
    assert plain.device is None
    assert plain.programmable is False
    assert (plain.counters, plain.size) == ((), 1)


def slots(*names: str, device: str | None = None) -> Layout:
    counters = tuple(Counter(name, "a", "a") for name in names)
    return Layout("slots", 10000, 1, Struct("a" / Int8ul), counters, True, device)


def test_the_counters_of_a_programmable_layout_are_slots() -> None:
    assert slots("slot0", "slot1").programmable is True


@pytest.mark.parametrize("names", [("slot1",), ("slot0", "cycles"), ("slot0", "slot0"), ()])
def test_other_names_in_a_programmable_layout_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="its counters are slot0, slot1"):
        slots(*names)


def test_a_device_has_a_name() -> None:
    assert slots("slot0", device="accelerator").device == "accelerator"
    with pytest.raises(ValueError, match="empty device"):
        slots("slot0", device="")
