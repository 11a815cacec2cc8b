# SPDX-License-Identifier: Apache-2.0
"""Folders of the boards and of the agent's C sources.

An installed wheel carries both inside the package, as ``boardprof/data``; in a
checkout, and in an editable install of one, they stand at the top of the tree.
"""

from __future__ import annotations

from pathlib import Path

from boardprof.base.errors import BuildError

_PACKAGE = Path(__file__).resolve().parents[1]


def boards_dir() -> Path:
    """Return the folder with one folder per board."""
    return _resource("boards")


def runtime_dir() -> Path:
    """Return the folder with the agent's C sources, ``device_runtime_c``."""
    return _resource("device_runtime_c")


def _resource(name: str) -> Path:
    places = [_PACKAGE / "data" / name, _PACKAGE.parents[1] / name]
    for place in places:
        if place.is_dir():
            return place
    raise BuildError(
        f"This installation of boardprof has no folder {name}: "
        f"{' and '.join(map(str, places))} do not exist.",
        hint="install boardprof again from its wheel",
    )
