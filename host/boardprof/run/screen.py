# SPDX-License-Identifier: Apache-2.0
"""What a terminal is, and our tables on it."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

from boardprof.render.fitting import fitted

__all__ = ["as_shown"]


def as_shown(text: str, stream: TextIO) -> str:
    """Return a table's text as it is to be written to a stream.

    What is no terminal gets it as it is. A terminal gets no line that is longer than it is wide,
    and no style where NO_COLOR says so (https://no-color.org) or it has none.
    """
    if not stream.isatty():
        return text
    terminal = os.environ.get("TERM", "")
    styled = not os.environ.get("NO_COLOR") and terminal not in ("", "dumb")
    # COLUMNS, else what the terminal says; 0: nobody knows.
    return fitted(text, shutil.get_terminal_size((0, 0)).columns, styled=styled)
