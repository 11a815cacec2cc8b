# SPDX-License-Identifier: Apache-2.0
"""Text of others, such as names that a board sends, without what a terminal would obey."""

from __future__ import annotations

from functools import cache

__all__ = ["bounded", "escaped"]

_LONGEST = 10_000
"""Characters of a text in a table: each of its rows is as wide as it."""


class _Shown(dict[int, str]):
    """Code point -> how it is shown; made when a text first has it (see `str.translate`)."""

    def __init__(self, keep: str) -> None:
        super().__init__((ord(char), char) for char in keep)

    def __missing__(self, code: int) -> str:
        char = chr(code)
        shown = char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        self[code] = shown
        return shown


_shown = cache(_Shown)


def escaped(text: str, keep: str = "") -> str:
    r"""Return ``text`` with everything that is not printable as ``\n``, ``\x1b``, ``\u202e``.

    Args:
        text: to show.
        keep: characters to leave as they are, such as line breaks.
    """
    return text if text.isprintable() else text.translate(_shown(keep))


def bounded(text: str) -> str:
    """Return ``text`` as `escaped` does, without the end of an endless one.

    What was escaped once is not changed by it.
    """
    shown = escaped(text[:_LONGEST])
    if len(text) <= _LONGEST and len(shown) <= _LONGEST:
        return shown
    end = f"... ({len(text):,} characters)"
    return shown[: _LONGEST - len(end)] + end
