# SPDX-License-Identifier: Apache-2.0
"""How the user's code is to be built: the one value that every step of a build is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.boards.board_file import BoardSpec

if TYPE_CHECKING:
    from boardprof.cfunction import CFunction
    from boardprof.firmware.firmware import Firmware

__all__ = ["BuildOptions"]


@dataclass(frozen=True)
class BuildOptions:
    """As the user gave them, unchecked; `boardprof.firmware.user_flags.user_flags` checks them.

    Attributes:
        optimize: flags for the sources, such as ``-O3 -ffast-math``.
        sources: further files and folders.
        includes: folders for ``#include``.
        defines: macros: ``NAME`` or ``NAME=VALUE``.
        cflags: more flags for the sources. Relative paths in them begin at the current folder.
        ldflags: flags for the linker, likewise.
        keep: static functions that shall be callable: ``NAME``, or ``FILE:NAME`` where several
            files have one of that name.
        libc: ``board`` or ``none``: the board's C library where the code needs it, or never.
    """

    optimize: str = "-O2"
    sources: tuple[str | Path, ...] = ()
    includes: tuple[str | Path, ...] = ()
    defines: tuple[str, ...] = ()
    cflags: str = ""
    ldflags: str = ""
    keep: tuple[str, ...] = ()
    libc: str = "board"

    def build(
        self,
        spec: BoardSpec,
        paths: Sequence[str | Path],
        verbose: Callable[[str], None] | None = None,
        on_functions: Callable[[Sequence[CFunction]], None] | None = None,
    ) -> Firmware:
        """Build firmware of ``paths`` and the further sources; raises as `boardprof.build`.

        Args:
            spec: the board.
            paths: files and folders.
            verbose: is given each command before it runs, and compilers' warnings.
            on_functions: as for `boardprof.firmware.builder.build`.
        """
        from boardprof.firmware.builder import build

        return build(spec, paths, self, verbose=verbose, on_functions=on_functions)
