# SPDX-License-Identifier: Apache-2.0
"""Finds the packages of emulators that run in Node.js; see ``launch.node_package``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from boardprof.base.errors import MissingToolError


def node_prefix() -> Path:
    """Return the folder for ``npm install --prefix`` whose packages boardprof finds."""
    return Path(sys.prefix) / "lib"


def node_package_folder(package: str) -> Path:
    """Return the folder of an installed package, given as ``NAME@VERSION``.

    The version must be that one: a board relies on what its emulator is inside.
    """
    name, _, wanted = package.partition("@")
    others = []
    for place in _places():
        version = _version(place / name)
        if version == wanted:
            return place / name
        if version is not None:
            others.append(f"{version} is in {place}")
    found = f" {'; '.join(others)}." if others else ""
    raise MissingToolError(
        name,
        package,
        message=f"The Node.js package {package} is not installed in {node_prefix()}/node_modules."
        + found,
        hint=f"{install_command(package)} (npm: apt install npm)",
    )


def is_installed(package: str) -> bool:
    """Return whether `node_package_folder` finds a package."""
    try:
        node_package_folder(package)
    except MissingToolError:
        return False
    return True


def install_command(*packages: str) -> str:
    """Return the command that installs packages for this Python."""
    return " ".join(["npm install --prefix", str(node_prefix()), *packages])


def _places() -> Iterator[Path]:
    yield node_prefix() / "node_modules"
    yield from map(Path, filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)))


def _version(folder: Path) -> str | None:
    try:
        found = json.loads((folder / "package.json").read_text("utf-8"))["version"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) else None
