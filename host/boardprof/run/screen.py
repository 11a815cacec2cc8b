# SPDX-License-Identifier: Apache-2.0
"""What a terminal is, and our output on it."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

from boardprof.render.fitting import fitted
from boardprof.render.folding import folded

__all__ = ["lines_shown", "table_shown"]


def table_shown(text: str, stream: TextIO, width: int | None = None) -> str:
    """Return a table's text as it is to be written to a stream.

    What is no terminal gets it as it is. A terminal gets no line that is longer than it is wide,
    and no style where NO_COLOR says so (https://no-color.org) or it has none.

    Args:
        text: of the table, all that stands below it included.
        stream: where it goes.
        width: so many columns, whatever the stream is.
    """
    terminal = os.environ.get("TERM", "")
    styled = stream.isatty() and not os.environ.get("NO_COLOR") and terminal not in ("", "dumb")
    return fitted(text, _columns(stream, width), styled=styled)


def lines_shown(text: str, stream: TextIO, width: int | None = None) -> str:
    """Return text that is no table as it is to be written to a stream; see `table_shown`."""
    return folded(text, _columns(stream, width))


def _columns(stream: TextIO, width: int | None) -> int:
    """Return how many columns there are; 0: nobody knows, or there is no end."""
    if width is not None or not stream.isatty():
        return width or 0
    return shutil.get_terminal_size((0, 0)).columns  # COLUMNS, else what the terminal says
