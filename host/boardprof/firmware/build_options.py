# SPDX-License-Identifier: Apache-2.0
"""What a command was told of how to build, beside the paths and the optimisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardprof.boards.board_file import BoardSpec
from boardprof.firmware.firmware import Firmware

__all__ = ["BuildOptions"]


@dataclass(frozen=True)
class BuildOptions:
    """The options that run, build, flash and agent serve share; see `boardprof.build`.

    Attributes:
        sources: further files and folders.
        includes: folders for ``#include``.
        defines: ``NAME`` or ``NAME=VALUE``.
        cflags: more flags for the sources.
        ldflags: flags for the linker.
        keep: static functions that shall be callable.
    """

    sources: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    cflags: str = ""
    ldflags: str = ""
    keep: tuple[str, ...] = ()

    def build(
        self,
        spec: BoardSpec,
        paths: Sequence[str | Path],
        optimize: str,
        verbose: Callable[[str], None] | None = None,
    ) -> Firmware:
        """Build firmware of ``paths`` and the further sources; raises as `boardprof.build`."""
        from boardprof.firmware.builder import build

        return build(
            spec,
            [*paths, *self.sources],
            optimize=optimize,
            defines=self.defines,
            includes=self.includes,
            cflags=self.cflags,
            ldflags=self.ldflags,
            keep=self.keep,
            verbose=verbose,
        )
