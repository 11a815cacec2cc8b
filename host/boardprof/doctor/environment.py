# SPDX-License-Identifier: Apache-2.0
"""Describe this machine for ``boardprof doctor``: tools, ports, cache."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from boardprof._version import __version__
from boardprof.boards.board_file import BoardSpec
from boardprof.toolchain.cache import cache_root
from boardprof.toolchain.simulator import python_package_version

_PORTS = ("ttyACM*", "ttyUSB*", "ttyAMA*")


def environment(boards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the relevant facts about this machine, as plain data for JSON.

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
    """Return `environment` as text, with advice on what is missing."""
    width = max(len(board["name"]) for board in facts["boards"])
    cache, ports = facts["cache"], facts["ports"]
    lines = [
        f"boardprof {facts['boardprof']}, Python {facts['python']}, {facts['system']}",
        f"Cache: {cache['path']}" + ("" if cache["writable"] else " (cannot be written)"),
        "Serial ports: " + (", ".join(map(_port_text, ports)) or "none found"),
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


def missing_tools(spec: BoardSpec) -> list[dict[str, str]]:
    """Return each as ``tool`` and the ``package`` or ``python_package`` that has it."""
    needed = {spec.build.cc: spec.build.package}
    launch = spec.launch
    if launch.command and "{" not in launch.command[0]:
        needed[launch.command[0]] = launch.package or launch.command[0]
    if launch.simulator is not None:
        needed.setdefault(launch.simulator.program, launch.simulator.package)
    missing = [
        {"tool": tool, "package": package}
        for tool, package in needed.items()
        if shutil.which(tool) is None
    ]
    sources = launch.simulator.python_package if launch.simulator is not None else None
    if sources is not None and python_package_version(sources) is None:
        missing.append({"tool": sources, "python_package": sources})
    return missing


def missing_text(tool: Mapping[str, str]) -> str:
    """Return one of `missing_tools` for people."""
    if "python_package" in tool:
        return f"{tool['tool']} (Python package)"
    return f"{tool['tool']} (Debian package {tool['package']})"
