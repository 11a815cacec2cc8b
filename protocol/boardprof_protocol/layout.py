# SPDX-License-Identifier: Apache-2.0
"""Layouts: construct Structs of fixed size, with the meaning of their fields.

A layout is the only description of a blob. The host parses with it, the C struct and encoder are
generated from it, and its CRC travels in the board's dictionary, so that a board built from
another layout is named and never read as if it were this one.

A field is a little-endian integer or float of fixed size, or an array of them; its unit is its
construct doc string: ``"start" / Int64ul * "cycles"``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from construct import Array, FormatField, Renamed, Struct

__all__ = ["Counter", "Field", "Layout"]

_TYPES = {
    "<B": "u8",
    ">B": "u8",
    "<b": "i8",
    ">b": "i8",
    "<H": "u16",
    "<h": "i16",
    "<L": "u32",
    "<l": "i32",
    "<Q": "u64",
    "<q": "i64",
    "<f": "f32",
    "<d": "f64",
}
_SIZES = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8}
_SIZES |= {"f32": 4, "f64": 8}


@dataclass(frozen=True)
class Field:
    """One field of a layout: ``count`` values of ``type`` in ``unit``."""

    name: str
    type: str
    count: int
    unit: str

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return _SIZES[self.type] * self.count


@dataclass(frozen=True)
class Counter:
    """How a counter's value is read out of a blob: ``stop - start``, modulo its width.

    Attributes:
        name: the metric's name, perf's generic one where it fits.
        start: field read when the window opens.
        stop: field read when it closes.
        unit: ``count``, ``ns`` or ``ticks``; tells the metric's type.
        own_return: what the calibration's empty function adds to this counter by returning, in
            units of the counter for each call, or the field that has it. Known exactly for retired
            instructions (1), and for cycles of cores without a pipeline that matters; 0 where no
            such figure exists.
        coarse_start: field of a slower clock that tells how often this counter wrapped, or None.
        coarse_stop: the same, when the window closes.
        bound: another counter of the layout, which counts at least as much as this one in every
            window: where it stayed below this one's modulus, this one cannot have wrapped more than
            the subtraction sees. None: there is none.
        enabled: field with the time for which this counter was wanted within the window, or None.
        running: field with the time for which it counted, in the same unit: where several share one
            hardware counter, their values are estimates, value · enabled / running.
        wraps: field with how often the counter wrapped, where the board has counted that, or None.
        interrupts: field with how many interrupts of the agent's own ran within the window, or
            None; each took ``interrupt_cost`` of what was counted.
        interrupt_cost: field with that number, in units of the counter, or None.
    """

    name: str
    start: str
    stop: str
    unit: str = "count"
    own_return: int | str = 0
    coarse_start: str | None = None
    coarse_stop: str | None = None
    wraps: str | None = None
    interrupts: str | None = None
    interrupt_cost: str | None = None
    bound: str | None = None
    enabled: str | None = None
    running: str | None = None


@dataclass(frozen=True)
class Layout:
    """A versioned description of a blob or a message.

    Attributes:
        name: lower-case C identifier; the C struct is ``bp_<name>_t``.
        schema_id: 1..65535, never reused. Messages, which carry no blob header, have 0.
        version: 1..255, raised with each change of the struct.
        struct: the construct Struct; the fields in order.
        counters: what the blob's fields mean, in the order of the collector's counter table.
        programmable: the counters are slots, named ``slot0``, ``slot1``, …; what each one counts is
            chosen by ``NAME.select`` (SPEC.md 5.3).
        device: what the counters belong to, where that is not the CPU: such as ``accelerator``.
            A Report shows it as a device of its own. None: the CPU.
    """

    name: str
    schema_id: int
    version: int
    struct: Any
    counters: tuple[Counter, ...] = field(default=())
    programmable: bool = False
    device: str | None = None

    def __post_init__(self) -> None:
        """See that the slots of a programmable layout are named as such, and bounds are counters.

        Raises:
            ValueError: they are not, or `device` is an empty text.
        """
        names = [counter.name for counter in self.counters]
        slots = [f"slot{i}" for i in range(len(names))]
        if self.programmable and (names != slots or not slots):
            raise ValueError(
                f"layout {self.name} is programmable: its counters are slot0, slot1, …, not {names}"
            )
        for counter in self.counters:
            if counter.bound not in (None, *names) or counter.bound == counter.name:
                raise ValueError(
                    f"layout {self.name}: {counter.name} is bounded by {counter.bound!r}, which is "
                    "none of the other counters"
                )
        if self.device == "":
            raise ValueError(f"layout {self.name} has an empty device; None is the CPU")

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields in wire order.

        Raises:
            TypeError: a field is not a fixed-size little-endian number or an array of them.
        """
        return tuple(_fields(self.struct))

    @cached_property
    def size(self) -> int:
        """Bytes on the wire."""
        return sum(f.size for f in self.fields)

    @property
    def dtype(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """The fields as ``numpy.dtype`` takes them."""
        shapes = {f.name: (f.count,) if f.count > 1 else () for f in self.fields}
        return [(f.name, f"<{f.type[0]}{_SIZES[f.type]}", shapes[f.name]) for f in self.fields]

    @property
    def crc(self) -> int:
        """CRC-32 over name, type, count and unit of every field (SPEC.md 6.3)."""
        text = "".join(f"{f.name}:{f.type}:{f.count}:{f.unit}\n" for f in self.fields)
        return zlib.crc32(text.encode("ascii"))


def _fields(struct: Any) -> Iterator[Field]:
    if not isinstance(struct, Struct):
        raise TypeError(f"a layout is a construct Struct, not {type(struct).__name__}")
    for sub in struct.subcons:
        if not isinstance(sub, Renamed) or not sub.name:
            raise TypeError(f"a layout's field needs a name: {sub!r}")
        kind, count = sub.subcon, 1
        unit = sub.docs
        while isinstance(kind, Renamed):
            unit = unit or kind.docs
            kind = kind.subcon
        if isinstance(kind, Array):
            count, kind = kind.count, kind.subcon
        if not isinstance(kind, FormatField) or kind.fmtstr not in _TYPES:
            raise TypeError(
                f"field {sub.name!r} is {kind!r}: a layout has fixed-size little-endian integers, "
                "floats and arrays of them only"
            )
        if not isinstance(count, int):
            raise TypeError(f"field {sub.name!r} has a variable length; layouts are fixed")
        if count < 1:
            raise TypeError(f"field {sub.name!r} is an array of {count}; one item is the least")
        yield Field(sub.name, _TYPES[kind.fmtstr], count, str(unit))
