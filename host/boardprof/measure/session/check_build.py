# SPDX-License-Identifier: Apache-2.0
"""Check that a board runs the image that the host reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from boardprof.base.errors import BuildMismatchError
from boardprof.results.record import Device
from boardprof.target.elf.identity import build_id_of

_NONE = "00" * 8
"""The build id of a table that was written by hand without one."""


def check_build(
    device: Device, image: Path, built: bytes | None, on_note: Callable[[str], None] | None
) -> None:
    """Check the build id that a board reports.

    Args:
        device: the board.
        image: the ELF file.
        built: the build id of an image that was built from the user's sources; None to read it
            from the file.
        on_note: gets a note if the file does not show whether the board runs it.

    Raises:
        BuildMismatchError: another image runs.
    """
    runs, port = device.build_id, device.port
    found = f"The board at {port} runs build {runs}"
    if runs == _NONE:
        found = f"The board at {port} reports no build id"
    if built is not None:
        if built.hex() != runs:
            raise BuildMismatchError(
                f"{found}; these sources produce build {built.hex()}.",
                hint="start or flash the board with these sources and flags, or connect without "
                "sources to measure the image that it runs",
            )
        return
    read = (build_id_of(image) or b"").hex()
    if not read or read == runs == _NONE:
        if on_note is not None:
            on_note(
                f"{image} has no build id, so boardprof cannot check that the board at {port} "
                "runs it"
            )
    elif read != runs:
        made = f"is build {read}" if read != _NONE else "has no build id"
        raise BuildMismatchError(
            f"{found}; {image} {made}.",
            hint=f"flash {image} (boardprof flash), or name the ELF of the image that runs",
        )
