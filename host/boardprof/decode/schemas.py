# SPDX-License-Identifier: Apache-2.0
"""Which layouts a board's blobs have: boardprof's own, the board's, and other packages'.

A board with counters of its own has a ``schema.py`` beside its ``board.toml`` with ``LAYOUTS``, a
sequence of `Layout`; a package offers a `Layout` through the entry-point group
``boardprof.collectors``, and has the collector's ``bp_NAME.c`` beside the module that it is in.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from boardprof.errors import UsageError
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.layout import Layout

__all__ = ["layouts_for", "packages_collectors"]

_ENTRY_POINTS = "boardprof.collectors"
_SCHEMA_FILE = "schema.py"


def layouts_for(folder: Path) -> dict[int, Layout]:
    """Return the layouts for the board in ``folder``, by schema id.

    A package whose entry point cannot be used is left out with a warning.

    Raises:
        UsageError: two layouts claim the same schema id, or the board's schema.py cannot be used.
    """
    layouts = {layout.schema_id: layout for layout in collector_layouts()}
    for layout in (*_packages_layouts(), *_board_layouts(folder)):
        known = layouts.setdefault(layout.schema_id, layout)
        if known is not layout:
            raise UsageError(
                f"Schema id {layout.schema_id} is claimed by {known.name} and by {layout.name} "
                f"(for the board in {folder}).",
                hint="give the newer one an id of its own",
            )
    return layouts


def packages_collectors() -> dict[str, Path]:
    """Return the C files of the collectors that packages bring, by the collectors' names."""
    found = {}
    for entry in metadata.entry_points(group=_ENTRY_POINTS):
        try:
            module = importlib.util.find_spec(entry.module)
        except (ImportError, ValueError):
            continue  # it is told where its layout is missed
        if module is None or module.origin is None:
            continue
        path = Path(module.origin).resolve().parent / f"bp_{entry.name}.c"
        if path.is_file():
            found[entry.name] = path
    return found


def _packages_layouts() -> Iterator[Layout]:
    for entry in metadata.entry_points(group=_ENTRY_POINTS):
        try:
            layout = entry.load()
            if not isinstance(layout, Layout):
                raise TypeError(f"{type(layout).__name__} is no Layout")
        except Exception as error:  # another package's fault must not hide every board
            warnings.warn(f"The collector of {entry.value} is left out: {error!r}", stacklevel=3)
        else:
            yield layout


def _board_layouts(folder: Path) -> tuple[Layout, ...]:
    path = folder / _SCHEMA_FILE
    if not path.is_file():
        return ()
    spec = importlib.util.spec_from_file_location(f"boardprof_schema_{folder.name}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        layouts = tuple(module.LAYOUTS)
        if not all(isinstance(layout, Layout) for layout in layouts):
            raise TypeError("LAYOUTS holds something that is no Layout")
    except Exception as error:
        raise UsageError(
            f"{path} cannot be used: {error!r}.", hint="it must define LAYOUTS, Layouts in a list"
        ) from error
    return layouts
