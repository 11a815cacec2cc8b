# SPDX-License-Identifier: Apache-2.0
"""Untrusted text, such as names from a board, on a terminal: escaping and width."""

from __future__ import annotations

import unicodedata

_LONGEST = 10_000
"""Longest text in a table, in characters: every row gets as wide as the longest text."""


def escaped(text: str, keep: str = "") -> str:
    r"""Return ``text`` with all that is not printable, except ``keep``, as ``\n``, ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in keep
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def encodable(text: str) -> str:
    r"""Return ``text`` with lone surrogates, for which UTF-8 has no form, as ``\udce9``."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def bounded(text: str) -> str:
    """Return ``text`` as `escaped` does, cut if it is endless; twice changes nothing more."""
    shown = escaped(text[:_LONGEST])
    if len(text) <= _LONGEST and len(shown) <= _LONGEST:
        return shown
    end = f"... ({len(text):,} characters)"
    return shown[: _LONGEST - len(end)] + end


def display_width(text: str) -> int:
    """Return the width of ``text`` in terminal columns; East Asian wide characters take two."""
    return len(text) if text.isascii() else sum(_char_width(c) for c in text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
