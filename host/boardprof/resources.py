# SPDX-License-Identifier: Apache-2.0
"""Where the boards and the agent's C sources are.

An installed wheel carries both inside the package, as ``boardprof/data``; in a
checkout, and in an editable install of one, they stand at the top of the tree.
"""

from __future__ import annotations

from pathlib import Path

from boardprof.errors import BuildError

__all__ = ["boards_dir", "runtime_dir"]

_PACKAGE = Path(__file__).resolve().parent


def boards_dir() -> Path:
    """Return the folder with one folder per board.

    Raises:
        BuildError: the installation is incomplete.
    """
    return _resource("boards")


def runtime_dir() -> Path:
    """Return the folder with the agent's C sources, ``device_runtime_c``.

    Raises:
        BuildError: the installation is incomplete.
    """
    return _resource("device_runtime_c")


def _resource(name: str) -> Path:
    places = [_PACKAGE / "data" / name, _PACKAGE.parents[1] / name]
    for place in places:
        if place.is_dir():
            return place
    raise BuildError(
        f"This installation of boardprof has no folder {name}: "
        f"looked at {' and '.join(map(str, places))}.",
        hint="install boardprof again from its wheel",
    )
