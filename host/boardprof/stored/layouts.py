# SPDX-License-Identifier: Apache-2.0
"""Choose the layouts for decoding a Report's blobs again: today's, or others."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from boardprof.boards.board_lookup import find_boards
from boardprof.decode.dictionary import CollectorInfo
from boardprof.decode.schemas import layouts_for
from boardprof.errors import LayoutMismatchError, UsageError
from boardprof_protocol.layout import Layout


def load_schemas(file: str) -> tuple[Layout, ...]:
    """Load the layouts of a Python file: ``LAYOUT``, one of them, or ``LAYOUTS``, several.

    The file is run: it is code.

    Raises:
        UsageError: it cannot be read or run, or it defines neither of them.
    """
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{file} cannot be read: the file does not exist.")
    spec = importlib.util.spec_from_file_location("boardprof_schema_again", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a Python file.", hint="give a file such as schema.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        one = getattr(module, "LAYOUT", None)
        found = (*([] if one is None else [one]), *getattr(module, "LAYOUTS", ()))
        if not found or not all(isinstance(layout, Layout) for layout in found):
            raise TypeError("it defines no Layouts")
    except Exception as error:  # whatever the user's file raises
        raise UsageError(
            f"{file} cannot be used: {error!r}.",
            hint="it must define LAYOUT (a boardprof_protocol.layout.Layout) or LAYOUTS (several "
            "of them)",
        ) from error
    ids = [layout.schema_id for layout in found]
    for twice in {schema_id for schema_id in ids if ids.count(schema_id) > 1}:
        raise UsageError(f"{file} has two layouts with schema id {twice}.")
    return found


def known_layouts(device: str) -> dict[int, Layout]:
    """Return the layouts that this boardprof has for a device; the board's own if it is known."""
    folder = find_boards().get(device)
    return layouts_for(Path(device) if folder is None else folder)


def check_ids(schemas: Sequence[Layout], collectors: Mapping[str, Sequence[CollectorInfo]]) -> None:
    """Check that each schema replaces one of a collector in the Report.

    Raises:
        UsageError: one does not.
    """
    used = {info.schema_id: info.name for infos in collectors.values() for info in infos}
    for schema in schemas:
        if schema.schema_id not in used:
            told = ", ".join(f"{name} {schema_id}" for schema_id, name in sorted(used.items()))
            raise UsageError(
                f"No collector of the Report has schema id {schema.schema_id} ({schema.name}).",
                hint=f"its collectors: {told}",
            )


def checked_layouts(
    device: str,
    infos: Sequence[CollectorInfo],
    chosen: Mapping[int, Layout],
    schemas: Sequence[Layout],
) -> dict[int, Layout]:
    """Return the layouts of a device's collectors; only a schema that was given may differ.

    Raises:
        LayoutMismatchError: another one is not as the Report's collector had it, or is not known.
        UsageError: the schema is of a collector whose slots are programmed.
    """
    given = {schema.schema_id for schema in schemas}
    for info in infos:
        layout = chosen.get(info.schema_id)
        hint = "give the layout that the firmware was built with: --schema FILE"
        if info.schema_id in given and layout is not None and layout.programmable:
            raise UsageError(
                f"The slots of {info.name} on {device} are programmed: the Report records what "
                "each counted, and a layout cannot replace that."
            )
        if layout is None:
            raise LayoutMismatchError(
                f"Collector {info.name!r} of {device} uses schema {info.schema_id}, which this "
                "boardprof does not know.",
                hint=hint,
            )
        if info.schema_id not in given and (layout.version, layout.crc) != (
            info.version,
            info.layout_crc,
        ):
            raise LayoutMismatchError(
                f"Collector {info.name!r} of {device} wrote its blob as {layout.name} version "
                f"{info.version}, CRC {info.layout_crc:#010x}; this boardprof has version "
                f"{layout.version}, CRC {layout.crc:#010x}.",
                hint=hint,
            )
    return {info.schema_id: chosen[info.schema_id] for info in infos}


def original_layout(
    info: CollectorInfo, known: Mapping[int, Layout], chosen: Mapping[int, Layout]
) -> Layout:
    """Return the layout that the Report was made with, with the counters' names in the Report.

    If it is not available, return the closest one: the new one.
    """
    layout = known.get(info.schema_id)
    theirs = (info.version, info.layout_crc)
    is_known = layout is not None and (layout.version, layout.crc) == theirs
    nearest = layout if is_known and layout is not None else chosen[info.schema_id]
    names = [counter.name.removeprefix(f"{info.name}.") for counter in info.counters]
    if len(names) != len(nearest.counters):
        return nearest
    renamed = [replace(c, name=n) for c, n in zip(nearest.counters, names, strict=True)]
    return replace(nearest, counters=tuple(renamed), programmable=False)
