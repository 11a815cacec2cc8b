# SPDX-License-Identifier: Apache-2.0
"""The board's console: bytes that were no frames, as text and as lines while they come."""

from __future__ import annotations

import codecs
from collections.abc import Callable

__all__ = ["Console"]

KEPT_BYTES = 1 << 16
"""How much of the text is kept, in bytes: the end of it."""

_QUIET_S = 0.1
"""A line whose end has not come for so long is given out as it is: it may be a prompt."""

_LONGEST_LINE = 4096
"""Characters; what never ends a line is given out in pieces."""


class Console:
    """Keeps the end of what the board has printed, and cuts it into lines.

    Attributes:
        on_line: gets each line as it comes, without its end; None: nobody looks.
        quiet_at_s: when a line that was begun is given out unless it goes on; infinity: there is
            none.
    """

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        """Begin with nothing printed."""
        self.on_line = on_line
        self.quiet_at_s = float("inf")
        self._kept = bytearray()
        self._line = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes, now_s: float) -> None:
        """Take what was printed, in whatever pieces, and give out the lines that it ends."""
        self._kept += data
        del self._kept[:-KEPT_BYTES]
        if self.on_line is None:
            return
        *lines, rest = (self._line + self._decoder.decode(data)).split("\n")
        while len(rest) > _LONGEST_LINE:
            lines.append(rest[:_LONGEST_LINE])
            rest = rest[_LONGEST_LINE:]
        self._line = rest
        self.quiet_at_s = now_s + _QUIET_S if rest else float("inf")
        for line in lines:
            self.on_line(line.removesuffix("\r"))

    def flush(self) -> None:
        """Give out the line that was begun, if there is one."""
        line, self._line = self._line, ""
        self.quiet_at_s = float("inf")
        if line and self.on_line is not None:
            self.on_line(line.removesuffix("\r"))

    @property
    def data(self) -> bytes:
        """The end of all that was printed, as it came."""
        return bytes(self._kept)

    @property
    def text(self) -> str:
        """The end of all that was printed."""
        return self._kept.decode(errors="replace")
