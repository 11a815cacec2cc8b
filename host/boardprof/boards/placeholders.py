# SPDX-License-Identifier: Apache-2.0
"""Names in braces, which a command in board.toml has for what is known only when it runs."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

from boardprof.toml_table import TomlTable

__all__ = ["check_placeholders", "filled", "placeholders"]


def placeholders(table: TomlTable, key: str, command: Sequence[str]) -> set[str]:
    """Return the names in braces.

    Raises:
        UsageError: a brace stands alone.
    """
    try:
        pieces = [piece for text in command for piece in string.Formatter().parse(text)]
    except ValueError as error:
        raise table.error(key, f"{error}; write a plain brace twice") from error
    # With a format or a conversion a name is none that is known.
    return {
        f"{name}:{form}" if form else f"{name}!{conversion}" if conversion else name
        for _, name, form, conversion in pieces
        if name is not None
    }


def check_placeholders(
    table: TomlTable, key: str, command: Sequence[str], known: set[str]
) -> set[str]:
    """Return the names in braces, which are all among the known ones.

    Raises:
        UsageError: another one is there.
    """
    named = placeholders(table, key, command)
    if unknown := named - known:
        braces = ", ".join(f"{{{name}}}" for name in sorted(known))
        raise table.error(key, f'"{{{min(unknown)}}}" is not known; {braces} are')
    return named


def filled(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Put the values in; each part was checked when board.toml was read."""
    return [part.format_map(values) for part in command]
