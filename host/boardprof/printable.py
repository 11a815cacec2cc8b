# SPDX-License-Identifier: Apache-2.0
"""Text of others, such as names that a board sends, without what a terminal would obey."""

from __future__ import annotations

__all__ = ["escaped"]


def escaped(text: str, keep: str = "") -> str:
    r"""Return ``text`` with everything that is not printable as ``\n``, ``\x1b``, ``\u202e``.

    Args:
        text: to show.
        keep: characters to leave as they are, such as line breaks.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii")
        for c in text
    )
