# SPDX-License-Identifier: Apache-2.0
"""What ``boardprof doctor`` says of this machine: tools, ports, cache."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from boardprof._version import __version__
from boardprof.run.missing import missing_text
from boardprof.toolchain.cache import cache_root

__all__ = ["environment", "environment_text"]

_PORTS = ("ttyACM*", "ttyUSB*", "ttyAMA*")


def environment(boards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what matters of this machine, as JSON shows it.

    Args:
        boards: for each, ``name``, ``default`` and ``missing`` as in ``boardprof boards --json``.
    """
    root = cache_root()
    nearest = next(path for path in (root, *root.parents) if path.exists())
    return {
        "schema_version": 1,
        "boardprof": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cache": {"path": str(root), "writable": os.access(nearest, os.W_OK)},
        "ports": [
            {"path": str(path), "allowed": os.access(path, os.R_OK | os.W_OK)}
            for pattern in _PORTS
            for path in sorted(Path("/dev").glob(pattern))
        ],
        "boards": [{key: row[key] for key in ("name", "default", "missing")} for row in boards],
    }


def environment_text(facts: Mapping[str, Any]) -> str:
    """Return `environment` for people, with what to do about what is missing."""
    width = max(len(board["name"]) for board in facts["boards"])
    cache, ports = facts["cache"], facts["ports"]
    lines = [
        f"boardprof {facts['boardprof']}, Python {facts['python']}, {facts['system']}",
        f"Cache: {cache['path']}" + ("" if cache["writable"] else " (cannot be written)"),
        "Serial ports: " + (", ".join(map(_port_text, ports)) or "none is plugged in"),
        "Boards:",
    ]
    for board in facts["boards"]:
        missing = [f"missing {missing_text(tool)}" for tool in board["missing"]]
        default = " (default)" if board["default"] else ""
        lines.append(f"  {board['name']:{width}}  {', '.join(missing) or 'ok'}{default}")
    tools = [tool for board in facts["boards"] for tool in board["missing"]]
    for key, how in (("package", "apt"), ("python_package", "pip")):
        if packages := sorted({tool[key] for tool in tools if key in tool}):
            lines += ["", f"For all boards: {how} install {' '.join(packages)}"]
    if any(not port["allowed"] for port in ports):
        lines += ["", "For the serial ports: sudo usermod -aG dialout $USER, then log in again"]
    return "\n".join(lines)


def _port_text(port: Mapping[str, Any]) -> str:
    return str(port["path"]) + ("" if port["allowed"] else " (no permission)")
