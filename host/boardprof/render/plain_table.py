# SPDX-License-Identifier: Apache-2.0
"""Tables of texts: columns aligned, two blanks apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from boardprof.render.cells import display_width, escaped

__all__ = ["aligned_lines", "plain_table"]


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


def aligned_lines(
    headers: Sequence[str], rows: Sequence[Mapping[str, str]], left: Collection[str]
) -> list[str]:
    """Return a header and a line a row, of cells that are escaped already.

    Args:
        headers: the columns, which each row has.
        rows: the cells by column.
        left: columns of text, which stand left; numbers stand right.
    """
    columns = [[name, *(row[name] for row in rows)] for name in headers]
    aligned: list[list[str]] = []
    for column in columns:
        widest = max(map(display_width, column))
        pads = [" " * (widest - display_width(text)) for text in column]
        is_left = column[0] in left
        pairs = zip(column, pads, strict=True)
        aligned.append([text + pad if is_left else pad + text for text, pad in pairs])
    return ["  ".join(line).rstrip(" ") for line in zip(*aligned, strict=True)]
