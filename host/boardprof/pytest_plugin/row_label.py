# SPDX-License-Identifier: Apache-2.0
"""Row labels: the test's id, because several tests can measure the same function."""

from __future__ import annotations

import re
from typing import Final

import pytest

_NUMBER: Final = re.compile(r" #\d+$")

BOARD = "bp_board"
"""The parameter by which a test runs on several boards; its id comes first."""


def label_of(node: pytest.Item) -> str:
    """Return a test's id without its board, which has its own column."""
    callspec = getattr(node, "callspec", None)
    if callspec is None or BOARD not in callspec.params:
        return node.nodeid
    rest = callspec.id.removeprefix(str(callspec.params[BOARD])).removeprefix("-")
    name = node.nodeid.removesuffix(f"[{callspec.id}]")
    return f"{name}[{rest}]" if rest else name


def numbered(label: str, n: int) -> str:
    """Return the label of the n-th measurement that is alike in one test, from 1."""
    return label if n == 1 else f"{label} #{n}"


def unnumbered(label: str) -> str:
    """Return a test's label without the number that `numbered` adds."""
    return _NUMBER.sub("", label)


def unlabelled(text: str, label: str) -> str:
    """Return a text on one test's measurements without the test's label; the numbers stay."""
    return text.replace(f" [{label}]", "").replace(f" [{label} #", " [#")
