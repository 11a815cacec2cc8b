# SPDX-License-Identifier: Apache-2.0
"""File and line of calls, by the addresses to which they return."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import Path

from boardprof.base.errors import UsageError
from boardprof.results.report.profile import Frame
from boardprof.target.elf.binutils import demangled, frames_at
from boardprof.target.elf.identity import build_id_of


def call_sites_of_build(image: str, build_id: str, returns: Iterable[int]) -> dict[int, str]:
    """Return `call_sites` of the image that ran, if it is still there.

    Args:
        image: its file; "" if not known.
        build_id: 16 hexadecimal digits.
        returns: as for `call_sites`.

    Raises:
        UsageError: the image is not known, or it is another one.
        BoardprofError: as `call_sites`.
    """
    if not image:
        raise UsageError("No image is known.", hint="--image ELF, when the firmware is recorded")
    # It may have been built again.
    if not Path(image).is_file() or (build_id_of(Path(image)) or b"").hex() != build_id:
        raise UsageError(f"{image} is not the image that ran.")
    return call_sites(Path(image), returns)


def call_sites(image: Path, returns: Iterable[int]) -> dict[int, str]:
    """Return ``file.c:12 (function)`` by return address; those that are not known are left out.

    The functions of a C library may have no lines.

    Args:
        image: an ELF file with debug information.
        returns: addresses as in the file, wherever it was loaded. On Arm, bit 0 marks Thumb code.

    Raises:
        MissingToolError: addr2line is not installed.
        BuildError: it cannot read the image.
    """
    # A call ends one byte before the address to which it returns; with Thumb's bit, two.
    inside = {address: (address & ~1) - 1 for address in returns if address > 1}
    frames = frames_at(image, inside.values())
    found = {a: frames[at][0] for a, at in inside.items() if frames.get(at)}
    names = demangled(frame.function for frame in found.values())

    def text(frame: Frame) -> str:
        place = f"{posixpath.basename(frame.file)}:{frame.line}" if frame.line else ""
        function = f"({names[frame.function]})" if frame.function else ""
        return f"{place} {function}".strip()

    return {address: text(frame) for address, frame in found.items() if text(frame)}
