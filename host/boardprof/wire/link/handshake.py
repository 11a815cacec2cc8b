# SPDX-License-Identifier: Apache-2.0
"""How a session begins and how it is lost: HELLO, WELCOME, BUSY, and what they mean (SPEC.md 3)."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass

from boardprof.base.errors import (
    BoardprofError,
    BusyError,
    DeviceResetError,
    FrameError,
    ProtocolMismatchError,
    option,
)
from boardprof.wire.link.transfer import LEAST_FRAME
from boardprof_protocol.codes import (
    HELLO_MAGIC,
    PROTOCOL_VERSION,
    ClaimFlag,
    FrameKind,
    ResetCause,
    WelcomeFlag,
)
from boardprof_protocol.messages import CLAIM, HELLO, OWNER_BYTES, WELCOME

HOST_MTU = 65535
"""Longest encoded frame that the host takes, in bytes."""

_RESETS = {
    cause.value: f" ({cause.name.lower().replace('_', ' ')})"
    for cause in ResetCause
    if cause is not ResetCause.UNKNOWN
}
"""Reset cause -> its text in a message."""


@dataclass(frozen=True)
class Welcome:
    """What the board said of itself when the session began."""

    version: int
    boot_id: int  # differs from one boot to the next
    reset_cause: ResetCause
    mtu_rx: int  # longest encoded frame that the board takes, bytes
    mtu_tx: int  # longest encoded frame that it sends, bytes
    pointer_size: int  # of the board's C, bytes
    big_endian: bool  # the CPU's; the wire is always little-endian
    build_id: bytes  # 8 bytes that tell one firmware from another; zeros when unknown
    dictionary_hash: int  # CRC-32
    last_sequence: int  # of the last call taken in this session


def hello_body(nonce: int, version: int = PROTOCOL_VERSION) -> bytes:
    """Return a HELLO's own fields; of version 0 it begins no session (SPEC.md 3.4)."""
    fields = {
        "magic": HELLO_MAGIC,
        "version_min": version,
        "version_max": version,
        "mtu": HOST_MTU,
        "nonce": nonce,
    }
    return bytes(HELLO.struct.build(fields))


def read_welcome(port: str, body: bytes) -> Welcome:
    """Return what a WELCOME says."""
    if len(body) < WELCOME.size:
        raise FrameError(
            f"The WELCOME from {port} has {len(body)} bytes instead of {WELCOME.size}.",
            hint="is it a boardprof agent?",
        )
    found = WELCOME.struct.parse(body)
    if not found.version_min <= PROTOCOL_VERSION <= found.version_max:
        raise _mismatch(port, found.version_min, found.version_max)
    if min(found.mtu_rx, found.mtu_tx) < LEAST_FRAME:
        raise FrameError(
            f"The WELCOME from {port} gives frame sizes of {found.mtu_rx} and {found.mtu_tx} "
            f"bytes; an agent has at least {LEAST_FRAME}.",
            hint="is it a boardprof agent?",
        )
    causes = set(ResetCause)
    return Welcome(
        version=PROTOCOL_VERSION,
        boot_id=found.boot_id,
        reset_cause=ResetCause(found.reset_cause if found.reset_cause in causes else 0),
        mtu_rx=found.mtu_rx,
        mtu_tx=found.mtu_tx,
        pointer_size=found.pointer_size,
        big_endian=bool(found.flags & WelcomeFlag.BIG_ENDIAN),
        build_id=bytes(found.build_id),
        dictionary_hash=found.dictionary_hash,
        last_sequence=found.last_sequence,
    )


def _mismatch(port: str, version_min: int, version_max: int) -> ProtocolMismatchError:
    theirs = f"{version_min}"
    if version_max != version_min:
        theirs += f" to {version_max}"
    return ProtocolMismatchError(
        f"The agent at {port} speaks protocol {theirs}; this boardprof speaks {PROTOCOL_VERSION}.",
        hint="build the firmware again with this boardprof, or install the one it was built with",
    )


def _owner(body: bytes) -> str:
    """Return the host that a BUSY names."""
    return body[:OWNER_BYTES].rstrip(b"\0").decode(errors="replace") or "an unnamed host"


def in_use(port: str, body: bytes) -> BusyError:
    """Return the error for a BUSY in place of a WELCOME."""
    owner = _owner(body)
    return BusyError(
        f"The board at {port} is in use by {owner}.",
        owner=owner,
        hint=f"wait until it is free, or take it over with {option('--takeover')}",
    )


def taken_over(port: str, body: bytes | None) -> BusyError:
    """Return the error for a BUSY during a session. None if the new host's name is unknown."""
    owner = _owner(body) if body is not None else ""
    return BusyError(
        f"Another host took over the board at {port}{owner and ': '}{owner}.",
        owner=owner,
        hint=f"connect again when it is free, or take it back with {option('--takeover')}",
    )


def lost_session(
    port: str, name: str, boot_id: int | None, answer: tuple[int, bytes] | None
) -> BoardprofError:
    """Return the error for a board that no longer knows the session (SPEC.md 3.4)."""
    if answer is None:
        return DeviceResetError(
            f"The board lost this session during {name} and did not say why. It was probably "
            "reset.",
            hint=_after_reset(name),
        )
    kind, body = answer
    if kind == FrameKind.BUSY:
        return taken_over(port, body)
    now = WELCOME.struct.parse(body[: WELCOME.size].ljust(WELCOME.size, b"\0"))
    if now.boot_id == boot_id:
        return taken_over(port, None)
    cause = _RESETS.get(now.reset_cause, "")
    return DeviceResetError(
        f"The board was reset during {name}{cause}, so this session is lost.",
        hint=_after_reset(name),
    )


def _after_reset(name: str) -> str:
    """Return what to try: the agent's own functions, whose names begin with bp., do not crash."""
    suspect = (
        "look at its power supply, its watchdog and what else runs on it"
        if name.startswith("bp.")
        else f"{name} crashes the board"
    )
    return f"connect again; if it happens again, {suspect}"


def owner_name(user: str, host: str, pid: int) -> bytes:
    """Return ``user@host (pid N)`` as UTF-8 of at most 32 bytes; the host's name is cut."""
    process = f" (pid {pid})".encode()
    place = f"{user}@{host}".encode(errors="replace")[: OWNER_BYTES - len(process)]
    return place.decode(errors="ignore").encode() + process


def make_claim(*, takeover: bool) -> bytes:
    """Return the fields that follow HELLO's own."""
    name = owner_name(_user(), socket.gethostname(), os.getpid())
    flags = ClaimFlag.TAKEOVER if takeover else 0
    return bytes(CLAIM.struct.build({"flags": flags, "owner": name.ljust(OWNER_BYTES, b"\0")}))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return f"uid{os.getuid()}"
