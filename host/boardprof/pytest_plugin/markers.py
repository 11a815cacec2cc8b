# SPDX-License-Identifier: Apache-2.0
"""Read a test's markers ``board`` and ``boardprof``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from boardprof.pytest_plugin.boards import Wanted


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
    """Return the arguments of the marker ``boardprof``; the nearest marker overrides.

    Raises:
        UnknownNameError: it has an unknown argument.
    """
    from boardprof.errors import UnknownNameError

    words: dict[str, Any] = {}
    for marker in node.iter_markers("boardprof"):
        words = {**marker.kwargs, **words}
    for name in words:
        if name not in (*MEASURING, *_GATING):
            raise UnknownNameError("argument of the marker boardprof", name, [*MEASURING, *_GATING])
    return words


def is_ruled(node: pytest.Item, rules: Sequence[str]) -> bool:
    """Tell whether rules apply to a measuring test, if it runs. Mistakes are not reported here.

    Args:
        node: the test.
        rules: of tests whose marker has none.
    """
    if "boardprof" not in getattr(node, "fixturenames", ()):
        return False
    own = (each.kwargs for each in node.iter_markers("boardprof") if "fail_if" in each.kwargs)
    return bool(next(own, {"fail_if": rules})["fail_if"])
