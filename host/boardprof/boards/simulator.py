# SPDX-License-Identifier: Apache-2.0
"""How the program that plays a board is built first: ``[launch.simulator]`` of board.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from boardprof.boards.placeholders import check_placeholders, filled
from boardprof.resources import runtime_dir
from boardprof.toml_table import TomlTable

__all__ = ["SimulatorSpec", "read_simulator", "simulator_sources"]

_RUNTIME = "runtime"


@dataclass(frozen=True)
class SimulatorSpec:
    """How the program that plays a board is built on the user's machine: ``[launch.simulator]``.

    Attributes:
        sources: every input of the build, relative to the board's folder; ``*`` stands for any
            part of a name, ``{runtime}`` for the agent's folder.
        command: builds it in the board's folder; ``{output}`` is the program to be written,
            ``{scratch}`` an empty folder, ``{runtime}`` the agent's folder, ``{python_package}``
            the folder of that package.
        program: the build's tool, whose version tells when to build again.
        package: the Debian package that has ``program``.
        headers: header that a library brings -> the Debian package that has it.
        python_package: a package of sources that the build takes, as pip calls it; None: none.
    """

    sources: tuple[str, ...]
    command: tuple[str, ...]
    program: str
    package: str
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    python_package: str | None = None


def read_simulator(table: TomlTable) -> SimulatorSpec:
    """Read ``[launch.simulator]``.

    Raises:
        UsageError: an unknown key, a missing one or a wrong value, or a source is not there.
    """
    spec = SimulatorSpec(
        sources=table.texts("sources", None),
        command=table.texts("command", None),
        program=table.take("program", str),
        package=table.take("package", str),
        headers=table.table("headers", required=False).mapping(str),
        python_package=table.take("python_package", str, None),
    )
    table.end()
    check_placeholders(table, "sources", spec.sources, {_RUNTIME})
    known = {"output", "scratch", _RUNTIME} | ({"python_package"} if spec.python_package else set())
    if "output" not in check_placeholders(table, "command", spec.command, known):
        raise table.error("command", '"{output}" is needed: where the program is to be')
    for source in spec.sources:
        if not _files(table.file.parent, source):
            raise table.error("sources", f"there is no file {source!r} in the board's folder")
    return spec


def simulator_sources(folder: Path, spec: SimulatorSpec) -> dict[str, Path]:
    """Return the files that a simulator is built of, by their names without the machine's paths.

    Args:
        folder: the board's.
        spec: what names them.
    """
    return {name: path for source in spec.sources for name, path in _files(folder, source).items()}


def _files(folder: Path, source: str) -> dict[str, Path]:
    is_agents = f"{{{_RUNTIME}}}" in source
    root = runtime_dir() if is_agents else folder
    (pattern,) = filled([source], {_RUNTIME: "."})
    found = sorted(path for path in root.glob(pattern) if path.is_file())
    return {f"{_RUNTIME * is_agents}/{path.relative_to(root)}": path for path in found}
