# SPDX-License-Identifier: Apache-2.0
"""The board's console: bytes that were no frames, as text and as lines while they come."""

from __future__ import annotations

import codecs
from collections.abc import Callable

KEPT_BYTES = 1 << 16
"""How many bytes of text are kept: the last ones."""

_QUIET_S = 0.1
"""Seconds after which an unfinished line is given out: it may be a prompt."""

_LONGEST_LINE = 4096
"""Longest line, in characters; longer text is given out in pieces."""


class Console:
    """Keeps the end of what the board has printed, and cuts it into lines."""

    def __init__(
        self, on_line: Callable[[str], None] | None = None, printed: Callable[[], str] = str
    ) -> None:
        """Begin with nothing printed; ``printed`` as `Transport.printed`."""
        self.on_line = on_line  # gets each line, without its line end
        self._printed = printed
        self._followed = len(printed()) if on_line is not None else 0  # characters of it
        self.quiet_at_s = float("inf")  # when a begun line is given out
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

    def follow(self, now_s: float) -> None:
        """Take what was printed elsewhere, if there is a listener."""
        if self.on_line is not None and (text := self.unfollowed):
            self._followed += len(text)
            self.feed(text.encode(), now_s)

    def end_call(self, now_s: float) -> None:
        """Give out all that was printed during a call that has ended."""
        if self.on_line is not None:
            self.follow(now_s)
            self.flush()

    @property
    def unfollowed(self) -> str:
        """What was printed elsewhere and not taken."""
        return self._printed()[self._followed :]

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
