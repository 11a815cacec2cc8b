# SPDX-License-Identifier: Apache-2.0
"""What a board needs that this machine has not."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from boardprof.boards.board_file import BoardSpec
from boardprof.firmware.simulator import python_package_version

__all__ = ["missing_text", "missing_tools"]


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
