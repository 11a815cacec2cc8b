# SPDX-License-Identifier: Apache-2.0
"""A compiler's program: which one it is, and what it says of itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from boardprof.errors import BuildError, MissingToolError
from boardprof.toolchain.cache import Cache, digest
from boardprof.toolchain.compile_unit import parse_depfile
from boardprof.toolchain.tools import ToolFailure, Tools

__all__ = ["SEARCHED", "Driver"]

SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Variables by which GCC finds headers (GCC manual, 3.21 "Environment Variables")."""

_ENVIRONMENT = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", *SEARCHED)
_FORMAT = 3  # of keys and records: raise it when either changes its meaning
_PROGRAMS = ("cc1", "cc1plus", "as", "ld")


class Driver:
    """A compiler's program on this machine; what it answers is remembered in the cache.

    Attributes:
        version: what ``--version`` prints.
    """

    def __init__(
        self, cc: str, package: str, cache: Cache, report: Callable[[str], None] | None = None
    ) -> None:
        """Look up ``cc`` on PATH.

        Args:
            cc: the program's name.
            package: the Debian package that has it.
            cache: where results are kept.
            report: is given each command line before it runs, and the warnings
                of those that succeed; one call at a time.

        Raises:
            MissingToolError: there is no ``cc``.
            BuildError: it does not run.
        """
        found = shutil.which(cc)
        if found is None:
            raise MissingToolError(cc, package, hint=f"sudo apt-get install {package}")
        self._cc = found
        self._cache = cache
        self._tools = Tools(report)
        self.version = self._version()
        environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
        self._identity = digest(_FORMAT, cc, self.version, environment, self._programs())

    @property
    def commands(self) -> list[tuple[str, ...]]:
        """Those that were run, in the order in which they began."""
        return self._tools.commands

    def program(self, name: str) -> str:
        """Return the path of a program that belongs to the compiler, such as ``objcopy``."""
        place = ("compilers", digest(self._identity, self._cc, name))
        known = self._cache.read(*place)
        if known is None or not shutil.which(known):
            asked = [f"-print-prog-name={name}"]
            known = self._tools.run(self._cc, asked, Path("/"), f"{name} is not found").strip()
            self._cache.write(known, *place)
        return known

    def has_library(self, name: str) -> bool:
        """Return whether ``-lNAME`` is one of those that come with the compiler."""
        files = [f"lib{name}.so", f"lib{name}.a"]
        asked = [
            self._tools.run(self._cc, [f"-print-file-name={file}"], Path("/"), f"{file}?")
            for file in files
        ]
        # What it does not have it names without a folder.
        return any(Path(said.strip()).is_absolute() for said in asked)

    def header(self, name: str, flags: Sequence[str]) -> Path | None:
        """Return where ``#include <name>`` is found with these flags; None: nowhere."""
        place = ("headers", digest(self._identity, self._cc, name, flags))
        known = self._cache.read(*place)
        if known and Path(known).is_file():
            return Path(known)
        with self._cache.scratch() as scratch:
            (scratch / "probe.c").write_text(f"#include <{name}>\n")
            command = [*flags, "-M", "-MT", "probe", "probe.c"]
            try:
                rule = self._tools.run(self._cc, command, scratch, "the probe does not compile")
            except ToolFailure:
                return None
        found = next((p for p in parse_depfile(rule) if Path(p).name == Path(name).name), None)
        if found is None:
            return None
        self._cache.write(found, *place)
        return Path(found)

    def tells_files(self) -> bool:
        """Return whether the linker can tell what it read (GNU ld since 2.35)."""
        place = ("linkers", digest(self._identity, "dependency-file"))
        known = self._cache.read(*place)
        if known is None:
            try:
                said = Tools(None).run(
                    self._cc, ["-Wl,--help"], Path("/"), "the linker", LC_ALL="C"
                )
            except BuildError:
                said = ""
            known = "yes" if "--dependency-file" in said else "no"
            self._cache.write(known, *place)
        return known == "yes"

    def _version(self) -> str:
        """Return what ``--version`` prints; asked each time: the program may be a wrapper."""
        said = Tools(None).run(
            self._cc, ["--version"], Path("/"), f"{self._cc} does not run", LC_ALL="C"
        )
        return said

    def _programs(self) -> list[list[Any]]:
        """Return which compiler, assembler and linker it runs, and the state of their files."""
        found = []
        for name in _PROGRAMS:
            asked = [f"-print-prog-name={name}"]
            try:
                said = Tools(None).run(self._cc, asked, Path("/"), f"{name} is not found").strip()
            except ToolFailure:  # none of GCC's kind: the version must do
                continue
            path = shutil.which(said)
            status = os.stat(path) if path else None
            found.append([said, status and [status.st_size, status.st_mtime_ns]])
        return found
