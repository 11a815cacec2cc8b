# SPDX-License-Identifier: Apache-2.0
"""A table of texts: columns aligned left, those without any value left out."""

from __future__ import annotations

from collections.abc import Sequence

from boardprof.render.cells import display_width, escaped

__all__ = ["plain_table"]


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, a line a row; what is not printable is escaped.

    Args:
        headers: one a column.
        rows: the cells; "" where there is no value.
    """
    columns = [
        [header, *map(escaped, cells)]
        for header, *cells in zip(headers, *rows, strict=True)
        if any(cells)
    ]
    widths = [max(map(display_width, column)) for column in columns]
    lines = (
        "  ".join(
            cell + " " * (width - display_width(cell))
            for cell, width in zip(line, widths, strict=True)
        )
        for line in zip(*columns, strict=True)
    )
    return "".join(f"{line.rstrip(' ')}\n" for line in lines)
