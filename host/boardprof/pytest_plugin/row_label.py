# SPDX-License-Identifier: Apache-2.0
"""What tells a test's rows from those of others that measure the same function: the test's id."""

from __future__ import annotations

import pytest

__all__ = ["BOARD", "label_of"]

BOARD = "bp_board"
"""The parameter by which a test runs on several boards; its id comes first."""


def label_of(node: pytest.Item) -> str:
    """Return a test's id; without its board, which has a column of its own."""
    callspec = getattr(node, "callspec", None)
    if callspec is None or BOARD not in callspec.params:
        return node.nodeid
    rest = callspec.id.removeprefix(str(callspec.params[BOARD])).removeprefix("-")
    name = node.nodeid.removesuffix(f"[{callspec.id}]")
    return f"{name}[{rest}]" if rest else name
