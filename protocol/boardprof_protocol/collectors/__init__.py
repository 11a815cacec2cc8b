# SPDX-License-Identifier: Apache-2.0
"""One module a collector, each with a ``LAYOUT``. A new file here needs no other edit."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from boardprof_protocol.layout import Layout

__all__ = ["collector_layouts"]


@cache
def collector_layouts() -> tuple[Layout, ...]:
    """All collectors' layouts of this package, by schema id.

    Raises:
        ValueError: two layouts share a schema id or a name.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    layouts: list[Layout] = [importlib.import_module(f"{__name__}.{name}").LAYOUT for name in names]
    for key in ("schema_id", "name"):
        values = [getattr(layout, key) for layout in layouts]
        doubled = {value for value in values if values.count(value) > 1}
        if doubled:
            raise ValueError(f"collector layouts share a {key}: {sorted(doubled)}")
    return tuple(sorted(layouts, key=lambda layout: layout.schema_id))
