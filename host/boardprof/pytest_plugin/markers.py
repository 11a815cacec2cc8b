# SPDX-License-Identifier: Apache-2.0
"""What a test's markers ``board`` and ``boardprof`` say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from boardprof.pytest_plugin.boards import Wanted

__all__ = ["MARKERS", "MEASURING", "is_ruled", "marked", "named_board", "wanted_board"]

MARKERS = (
    "board(name, *sources, optimize='-O2'): run on that board, with those sources",
    "boardprof(limit={METRIC: N}, fail_if=[RULE], metrics=, warmup=, repeat=, number=): what a "
    "test's measurements must keep, and how they are made",
)
MEASURING = ("metrics", "warmup", "repeat", "number")
"""Words of the marker ``boardprof`` that say how it is measured."""

_GATING = ("limit", "fail_if")


def named_board(node: pytest.Item) -> str | None:
    """Return the board that a test names; None: it names none."""
    marker = node.get_closest_marker("board")
    return str(marker.args[0]) if marker is not None and marker.args else None


def wanted_board(node: pytest.Item, name: str | None) -> Wanted:
    """Return the board of a name, with the sources that the marker adds."""
    from boardprof.firmware.build_options import BuildOptions
    from boardprof.pytest_plugin.boards import Wanted

    marker = node.get_closest_marker("board")
    if marker is None:
        return Wanted(name)
    sources = tuple(node.path.parent / source for source in marker.args[1:])
    return Wanted(name, sources, BuildOptions(**marker.kwargs))


def marked(node: pytest.Item) -> dict[str, Any]:
    """Return what the marker ``boardprof`` says, the nearest one's words first.

    Raises:
        UnknownNameError: it has no such word.
    """
    from boardprof.errors import UnknownNameError

    words: dict[str, Any] = {}
    for marker in node.iter_markers("boardprof"):
        words = {**marker.kwargs, **words}
    for name in words:
        if name not in (*MEASURING, *_GATING):
            raise UnknownNameError("word of the marker boardprof", name, [*MEASURING, *_GATING])
    return words


def is_ruled(node: pytest.Item, rules: Sequence[str]) -> bool:
    """Tell whether a test that measures is held against rules, if it is run; mistakes are not told.

    Args:
        node: the test.
        rules: of tests whose marker has none.
    """
    if "boardprof" not in getattr(node, "fixturenames", ()):
        return False
    own = (each.kwargs for each in node.iter_markers("boardprof") if "fail_if" in each.kwargs)
    return bool(next(own, {"fail_if": rules})["fail_if"])
