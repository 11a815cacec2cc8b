# SPDX-License-Identifier: Apache-2.0
"""An image for a board: what it offers, its file, and its sizes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from boardprof.base.errors import BuildError
from boardprof.base.files import check_is_file, unwritable
from boardprof.target.cfunction import CFunction
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.toolchain.tools import Tools


@dataclass(frozen=True)
class BuiltFirmware:
    """What a build gives: an image, and the functions that it offers. `Firmware` documents it."""

    image: Path
    build_id: bytes
    functions: tuple[CFunction, ...]
    board: BoardSpec
    commands: tuple[tuple[str, ...], ...]
    hidden: dict[str, str] = field(default_factory=dict, hash=False)
    libc: str | None = None
    compilers: tuple[str, ...] = ()
    flags: str | None = None
    missing: dict[str, str] = field(default_factory=dict, hash=False)
    sources: tuple[Path, ...] = ()


def write_image(firmware: BuiltFirmware, output: str | Path | None = None) -> Path:
    """Copy an image to ``output`` or the current folder, whole or not at all."""
    if output is not None:
        check_is_file(os.fspath(output))
    target = Path(firmware.image.name if output is None else output)
    try:
        if target.exists() and not target.is_file():  # a pipe or a device must not be replaced
            with firmware.image.open("rb") as image, target.open("wb") as device:
                shutil.copyfileobj(image, device)
            return target
        file = target.resolve()  # a link stays a link
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".boardprof-") as folder:
            copy = Path(folder) / file.name
            shutil.copy(firmware.image, copy)
            os.replace(copy, file)
    except OSError as error:
        raise unwritable(target, error) from error
    return target


def image_sizes(firmware: BuiltFirmware) -> dict[str, int] | None:
    """Return bytes of text, data and bss of an image; see `sizes_of`."""
    sizes = sizes_of(firmware.board, [firmware.image])
    return None if sizes is None else sizes[0]


def sizes_of(spec: BoardSpec, files: Sequence[Path]) -> list[dict[str, int]] | None:
    """Return bytes of text, data and bss of each file; None if the board's ``size`` is missing."""
    program = shutil.which(spec.build.size or "")
    if program is None:
        return None
    said = Tools(None).run(program, [*map(str, files)], Path("/"), f"{program} fails")
    names, *rows = [line.split() for line in said.splitlines()] or [[]]
    if len(rows) != len(files):
        raise BuildError(f"{program} does not print sizes in the Berkeley format.")
    found = [dict(zip(names, values, strict=False)) for values in rows]
    kinds = ("text", "data", "bss")
    return [{name: int(sizes[name]) for name in kinds if name in sizes} for sizes in found]
