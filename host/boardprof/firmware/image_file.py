# SPDX-License-Identifier: Apache-2.0
"""An image as a file of the user's, and its sizes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from boardprof.errors import BuildError
from boardprof.firmware.firmware import Firmware
from boardprof.toolchain.tools import ended
from boardprof.writing import check_is_file, unwritable

__all__ = ["image_sizes", "write_image"]

_TIMEOUT_S = 60.0


def write_image(firmware: Firmware, output: str | Path | None = None) -> Path:
    """Copy an image to where the user wants it, whole or not at all.

    Args:
        firmware: what was built.
        output: the file; None takes the image's name, in the current folder.

    Returns:
        Where it is.

    Raises:
        UsageError, StorageError: it cannot be written there.
    """
    if output is not None:
        check_is_file(os.fspath(output))
    target = Path(firmware.image.name if output is None else output)
    try:
        if target.exists() and not target.is_file():  # a pipe or a device: it must not be replaced
            with firmware.image.open("rb") as image, target.open("wb") as device:
                shutil.copyfileobj(image, device)
            return target
        file = target.resolve()  # a link stays one
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".boardprof-") as folder:
            copy = Path(folder) / file.name
            shutil.copy(firmware.image, copy)
            os.replace(copy, file)
    except OSError as error:
        raise unwritable(target, error) from error
    return target


def image_sizes(firmware: Firmware) -> dict[str, int] | None:
    """Return bytes of text, data and bss, as the board's ``size`` tells them.

    None: the board names no such program, or it is not installed.

    Raises:
        BuildError: it fails.
    """
    program = shutil.which(firmware.board.build.size or "")
    if program is None:
        return None
    command = [program, os.fspath(firmware.image)]
    try:
        done = ended(command, Path.cwd(), os.environ, _TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{program} did not end after {_TIMEOUT_S:.0f} s.") from error
    lines = [line.split() for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(lines) != 2:
        raise BuildError(f"{program} cannot tell the sizes: {done.stderr.strip()}")
    names, values = lines
    sizes = dict(zip(names, values, strict=False))
    return {name: int(sizes[name]) for name in ("text", "data", "bss") if name in sizes}
