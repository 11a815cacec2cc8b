# SPDX-License-Identifier: Apache-2.0
"""What a test's item says: its markers and the label of its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from boardprof.base.errors import UnknownNameError

MARKERS = (
    "board(name, *sources, optimize='-O2'): run the test on this board with these sources",
    "boardprof(limit={METRIC: N}, fail_if=[RULE], metrics=, warmup=, repeat=, number=): limits "
    "and rules for the measurements of a test, and how to measure",
)
MEASURING = ("metrics", "warmup", "repeat", "number")
"""Arguments of the marker ``boardprof`` that control the measurement."""

_GATING = ("limit", "fail_if")


def named_board(node: pytest.Item) -> str | None:
    """Return the board that a test names, or None."""
    marker = node.get_closest_marker("board")
    return str(marker.args[0]) if marker is not None and marker.args else None


def marked(node: pytest.Item) -> dict[str, Any]:
    """Return the arguments of the marker ``boardprof``; the nearest marker overrides."""
    words: dict[str, Any] = {}
    for marker in node.iter_markers("boardprof"):
        words = {**marker.kwargs, **words}
    for name in words:
        if name not in (*MEASURING, *_GATING):
            raise UnknownNameError("argument of the marker boardprof", name, [*MEASURING, *_GATING])
    return words


def is_ruled(node: pytest.Item, rules: Sequence[str]) -> bool:
    """Tell whether rules apply to a measuring test, if it runs. Mistakes are not reported here."""
    if "boardprof" not in getattr(node, "fixturenames", ()):
        return False
    own = (each.kwargs for each in node.iter_markers("boardprof") if "fail_if" in each.kwargs)
    return bool(next(own, {"fail_if": rules})["fail_if"])


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
    """Return a text about one test without the test's label; numbers of measurements stay."""
    return text.replace(f" [{label}]", "").replace(f" [{label} #", " [#")
