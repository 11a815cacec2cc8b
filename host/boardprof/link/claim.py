# SPDX-License-Identifier: Apache-2.0
"""Who we are, for other hosts of the same board (SPEC.md 3.3)."""

from __future__ import annotations

import getpass
import os
import socket

from boardprof_protocol.codes import ClaimFlag
from boardprof_protocol.handshake import CLAIM, OWNER_BYTES

__all__ = ["make_claim", "owner_name"]


def owner_name(user: str, host: str, pid: int) -> bytes:
    """Return ``user@host (pid N)`` as UTF-8 of at most 32 bytes.

    What is too long is cut from the host's name on, between characters; the process id stays.
    """
    process = f" (pid {pid})".encode()
    place = f"{user}@{host}".encode(errors="replace")[: OWNER_BYTES - len(process)]
    return place.decode(errors="ignore").encode() + process


def make_claim(*, takeover: bool) -> bytes:
    """Return the fields that stand behind HELLO's own.

    Args:
        takeover: take the board even if another host has it.
    """
    name = owner_name(_user(), socket.gethostname(), os.getpid())
    flags = ClaimFlag.TAKEOVER if takeover else 0
    return bytes(CLAIM.struct.build({"flags": flags, "owner": name.ljust(OWNER_BYTES, b"\0")}))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return f"uid{os.getuid()}"
