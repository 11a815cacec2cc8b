# SPDX-License-Identifier: Apache-2.0
"""The layouts of a board's blobs: from boardprof, from the board and from other packages.

A board with counters of its own has a ``schema.py`` beside its ``board.toml`` with ``LAYOUTS``, a
sequence of `Layout`. It may add details to the counters of a layout that is known already, such as
the cost of a return on its core. A package provides a `Layout` through the entry-point group
``boardprof.collectors``. The collector's ``bp_NAME.c`` is next to the module of the layout.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from boardprof.base.errors import LayoutMismatchError, UsageError
from boardprof.base.packages import entries, load_plugins
from boardprof.wire.decode.dictionary import CollectorInfo, Dictionary
from boardprof.wire.decode.samples import Layouts
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.layout import Layout
from boardprof_protocol.trace import PASSES

_SCHEMA_FILE = "schema.py"


def layouts_for(folder: Path) -> dict[int, Layout]:
    """Return the layouts for the board in ``folder``, by schema id."""
    layouts = {each.schema_id: each for each in (*collector_layouts(), *PASSES.values())}
    refined = board_layouts(folder)
    packages = (layout for layout, _ in load_plugins("collectors", "The collector", _layout))
    for layout in (*packages, *refined):
        known = layouts.setdefault(layout.schema_id, layout)
        if layout in refined and _is_same_blob(known, layout):
            layouts[layout.schema_id] = layout
        elif known is not layout:
            raise UsageError(
                f"Schema id {layout.schema_id} is claimed by {known.name} and by {layout.name} "
                f"(for the board in {folder}).",
                hint="give the newer one an id of its own",
            )
    return layouts


def _is_same_blob(one: Layout, other: Layout) -> bool:
    """Tell whether two layouts have the same bytes, even with other counter details."""
    sides = (
        (each.name, each.version, each.crc, [counter.name for counter in each.counters])
        for each in (one, other)
    )
    return next(sides) == next(sides)


def check_layouts(board: str, collectors: Iterable[CollectorInfo], layouts: Layouts) -> None:
    """Check that the board's collectors have layouts known to the host."""
    for collector in collectors:
        layout = layouts.get(collector.schema_id)
        if layout is None:
            raise LayoutMismatchError(
                f"Collector {collector.name!r} of {board} uses schema {collector.schema_id}, which "
                f"this boardprof does not know; it knows {sorted(layouts)}.",
                hint="install the package that has the board's schema, or a newer boardprof",
            )
        ours = (layout.version, layout.crc)
        theirs = (collector.version, collector.layout_crc)
        if ours != theirs:
            raise LayoutMismatchError(
                f"Collector {collector.name!r} of {board} lays its blob out as {layout.name} "
                f"version {theirs[0]}, CRC {theirs[1]:#010x}; this boardprof has version "
                f"{ours[0]}, CRC {ours[1]:#010x}.",
                hint="build the firmware again with this boardprof",
            )
        meant = [counter.name for counter in layout.counters]
        found = [counter.name.removeprefix(f"{collector.name}.") for counter in collector.counters]
        if meant != found:
            raise LayoutMismatchError(
                f"Collector {collector.name!r} of {board} has the counters {found}; {layout.name} "
                f"version {layout.version} has {meant}.",
                hint="build the firmware again with this boardprof",
            )


def packages_collectors() -> dict[str, Path]:
    """Return the C files of collectors from packages, by the collectors' names."""
    found = {}
    for entry in entries("collectors"):
        try:
            module = importlib.util.find_spec(entry.module)
        except (ImportError, ValueError):
            continue  # it is reported where its layout is missing
        if module is None or module.origin is None:
            continue
        path = Path(module.origin).resolve().parent / f"bp_{entry.name}.c"
        if path.is_file():
            found[entry.name] = path
    return found


def _layout(found: object) -> Layout:
    if not isinstance(found, Layout):
        raise TypeError(f"{type(found).__name__} is not a Layout")
    return found


def board_layouts(folder: Path) -> tuple[Layout, ...]:
    """Return the layouts of the board's own schema.py; empty if it has no such file."""
    path = folder / _SCHEMA_FILE
    return layouts_in(path) if path.is_file() else ()


def layouts_in(path: Path) -> tuple[Layout, ...]:
    """Execute a Python file and return its ``LAYOUT`` (one) or ``LAYOUTS`` (several)."""
    spec = importlib.util.spec_from_file_location(f"boardprof_schema_{path.parent.name}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file.", hint="give a file such as schema.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        one = getattr(module, "LAYOUT", None)
        found = (*([] if one is None else [one]), *getattr(module, "LAYOUTS", ()))
        if not found or not all(isinstance(layout, Layout) for layout in found):
            raise TypeError("it defines no Layouts")
    except Exception as error:  # whatever the user's file raises
        raise UsageError(
            f"{path} cannot be used: {error!r}.",
            hint="it must define LAYOUT (a boardprof_protocol.layout.Layout) or LAYOUTS (several "
            "of them)",
        ) from error
    return found


# -- instructions from the clock of a QEMU with -icount shift=N ------------------------------------


INSTRUCTIONS: Final = "instructions"
_CLOCK: Final = "ticks"
_LEAST_TICKS: Final = 2.5
"""A reading leaves out a part of a tick, so the difference of two is off by less than a tick. That
is less than half an instruction, so the nearest whole number of instructions is the right one."""


def with_instructions(dictionary: Dictionary, instruction_ns: int) -> Dictionary:
    """Return a dictionary whose clock also counts instructions, if its ticks are short enough.

    ``instruction_ns``: what each instruction takes; 0 if that is not known.
    """
    if any(each.name == INSTRUCTIONS for c in dictionary.collectors for each in c.counters):
        return dictionary
    collectors = tuple(_also_counting(each, instruction_ns) for each in dictionary.collectors)
    return replace(dictionary, collectors=collectors)


def _also_counting(collector: CollectorInfo, instruction_ns: int) -> CollectorInfo:
    if [each.name for each in collector.counters] != [_CLOCK]:
        return collector
    [clock] = collector.counters
    ticks = clock.hz * instruction_ns / 1e9
    if clock.status is not CounterStatus.OK or ticks < _LEAST_TICKS:
        return collector
    source = f"{clock.source} in QEMU, {ticks:.7g} ticks each"
    found = replace(clock, name=INSTRUCTIONS, source=source, hz=0, instruction_ns=instruction_ns)
    return replace(collector, counters=(clock, found))


def counting_layouts(collectors: Iterable[CollectorInfo], layouts: Layouts) -> Mapping[int, Layout]:
    """Return layouts that have a meaning for instructions where `with_instructions` added them."""
    found = dict(layouts)
    for each in collectors:
        layout = layouts.get(each.schema_id)
        is_counted = any(counter.instruction_ns for counter in each.counters)
        if layout is not None and is_counted and len(layout.counters) == 1:
            [clock] = layout.counters
            # The empty function's own return is one instruction.
            meaning = replace(clock, name=INSTRUCTIONS, unit="count", own_return=1)
            found[each.schema_id] = replace(layout, counters=(clock, meaning))
    return found
