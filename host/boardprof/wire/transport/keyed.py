# SPDX-License-Identifier: Apache-2.0
"""A pre-shared key on TCP: challenge and response both ways, then authenticated records.

SPEC.md 9. The records stand beneath the frames: nothing above knows of them.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
import struct
import time
from collections.abc import Callable
from pathlib import Path

from boardprof.base.errors import (
    AuthenticationError,
    BoardTimeoutError,
    LinkError,
    UsageError,
    option,
)
from boardprof.base.files import open_file
from boardprof.wire.transport.base import Transport, WrappedTransport

KEY_VARIABLE = "BOARDPROF_KEY"
"""The environment variable that may hold the key."""

GREETING = b"boardprof-key-1 "
"""What each line of the handshake begins with; the agent's first line is the first of all."""

REFUSAL = b"boardprof: refused: another user's process"
"""What an agent without a key says first to hosts of other users."""

_KEY_MIN, _KEY_MAX = 16, 1024
_NONCE = 16
_MAC = 32
_TAG = 16
_LINE_MAX = 1024
_LONGEST = 65535
_HEAD = struct.Struct("<H")
_COUNTED = struct.Struct("<QH")
_GREETING_S = 3.0
"""An agent with a key speaks first, at once; one that says nothing for so long has none."""


# -- the key ----------------------------------------------------------------------------------


def read_key(file: str | Path | None) -> bytes | None:
    """Return the key from ``file``, else from the environment, else None; without a line end."""
    if file is not None:
        return _fit(_content(Path(file)), f"The key in {file}")
    value = os.environ.get(KEY_VARIABLE)
    return None if value is None else _fit(os.fsencode(value), f"The key in {KEY_VARIABLE}")


def _content(file: Path) -> bytes:
    try:
        with open_file(file) as stream:
            # Of the open file: its name may mean another one by now.
            open_to_others = stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & 0o077
            content = stream.read(_KEY_MAX + 3)
    except OSError as error:
        raise UsageError(
            f"The key file {file} cannot be read: {error.strerror}.",
            hint="copy the key that the agent was started with, or create one for both: "
            f"(umask 077; openssl rand -hex 32 > {file})",
        ) from error
    if open_to_others:
        raise UsageError(f"The key file {file} can be read by others.", hint=f"chmod 600 {file}")
    return content


def _fit(text: bytes, what: str) -> bytes:
    key = text.removesuffix(b"\n").removesuffix(b"\r")
    if not _KEY_MIN <= len(key) <= _KEY_MAX:
        size = f"{len(key)} bytes" if len(key) <= _KEY_MAX else f"over {_KEY_MAX} bytes"
        raise UsageError(
            f"{what} has {size}; it must have {_KEY_MIN} to {_KEY_MAX}.",
            hint="openssl rand -hex 32 makes a good one",
        )
    return key


def derive(key: bytes, label: bytes, agent_nonce: bytes, host_nonce: bytes) -> bytes:
    """Return HMAC-SHA-256 over label and nonces: a proof or a key, 32 bytes."""
    return hmac.digest(key, GREETING + label + agent_nonce + host_nonce, "sha256")


# -- records ----------------------------------------------------------------------------------


class Sealer:
    """One direction's sender: bytes to records."""

    def __init__(self, key: bytes) -> None:
        """Begin with the direction's key."""
        self._key = key
        self._counter = 0

    def seal(self, data: bytes) -> bytes:
        """Return the records that carry ``data``."""
        records = b""
        for begin in range(0, len(data), _LONGEST):
            payload = data[begin : begin + _LONGEST]
            counted = _COUNTED.pack(self._counter, len(payload)) + payload
            self._counter += 1
            records += counted[8:] + hmac.digest(self._key, counted, "sha256")[:_TAG]
        return records


class Opener:
    """One direction's receiver: records to bytes."""

    def __init__(self, key: bytes) -> None:
        """Begin with the direction's key."""
        self._key = key
        self._counter = 0
        self._pending = bytearray()

    def open(self, data: bytes) -> bytes:
        """Take what arrived; return what the records hold that it completes."""
        self._pending += data
        out = []
        begin = 0
        while len(self._pending) - begin >= _HEAD.size + _TAG:
            (length,) = _HEAD.unpack_from(self._pending, begin)
            tag_at = begin + _HEAD.size + length
            end = tag_at + _TAG
            if len(self._pending) < end:
                break
            counted = struct.pack("<Q", self._counter) + self._pending[begin:tag_at]
            tag = hmac.digest(self._key, counted, "sha256")[:_TAG]
            if length == 0 or not hmac.compare_digest(tag, self._pending[tag_at:end]):
                raise LinkError(
                    "A record is not authentic: damaged, forged, repeated or out of order.",
                    hint="connect again; if it happens again, someone may be tampering with the "
                    "connection",
                )
            out.append(bytes(self._pending[begin + _HEAD.size : tag_at]))
            self._counter += 1
            begin = end
        del self._pending[:begin]
        return b"".join(out)


class SealedTransport(WrappedTransport):
    """A transport whose bytes travel in records."""

    def __init__(self, inner: Transport, sealer: Sealer, opener: Opener, early: bytes) -> None:
        """Wrap a line whose sides know the key; ``early`` came after the handshake."""
        super().__init__(inner)
        self._sealer = sealer
        self._opener = opener
        self._early = opener.open(early)

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of ``data``; see `Transport.write`."""
        self._inner.write(self._sealer.seal(data), timeout_s)

    def read(self, timeout_s: float) -> bytes:
        """Return what has arrived in whole records; see `Transport.read`."""
        data, self._early = self._early, b""
        deadline = time.monotonic() + timeout_s
        while not data:
            arrived = self._inner.read(max(deadline - time.monotonic(), 0.0))
            if not arrived:
                break
            data = self._opener.open(arrived)
        return data


# -- the handshake ----------------------------------------------------------------------------


def seal(inner: Transport, key: bytes, timeout_s: float) -> SealedTransport:
    """Prove to the agent that we know the key, have it do the same, and seal the line.

    Closes ``inner`` when that fails.
    """
    try:
        return _shake_hands(inner, key, timeout_s)
    except BaseException:
        inner.close()
        raise


def _shake_hands(inner: Transport, key: bytes, timeout_s: float) -> SealedTransport:
    greeting_s = min(timeout_s, _GREETING_S)
    line, _ = _line(inner, greeting_s)
    agent_nonce = _field(line, _NONCE)
    if agent_nonce is None and line:
        raise LinkError(
            f"{inner.name} is not a boardprof agent with a key: it said {_shown(line)}.",
            hint="give the agent's own port",
        )
    if agent_nonce is None:
        raise AuthenticationError(
            f"The agent at {inner.name} does not ask for a key: it sent nothing for "
            f"{greeting_s:g} s.",
            hint=f"leave out {option('--key-file')} and {KEY_VARIABLE}, start the agent with the "
            "key, or check that this is an agent's port",
        )
    host_nonce = secrets.token_bytes(_NONCE)
    nonces = (agent_nonce, host_nonce)
    proof = derive(key, b"host", *nonces)
    response = f"{host_nonce.hex()} {proof.hex()}\n".encode()
    inner.write(GREETING + response, timeout_s)
    line, early = _line(inner, timeout_s)
    shown = _field(line, _MAC)
    if not line:
        raise BoardTimeoutError(
            f"The agent at {inner.name} asked for the key, then sent nothing more for "
            f"{timeout_s:g} s.",
            hint="check whether the agent hangs, and connect again",
        )
    if shown is None:
        raise AuthenticationError(
            f"The agent at {inner.name} has a different key.",
            hint="give the key that the agent was started with",
        )
    if not hmac.compare_digest(shown, derive(key, b"agent", *nonces)):
        raise AuthenticationError(
            f"The program at {inner.name} does not know the key.",
            hint="check what listens there: it is not the agent with this key",
        )
    sealer = Sealer(derive(key, b"to agent", *nonces))
    opener = Opener(derive(key, b"to host", *nonces))
    return SealedTransport(inner, sealer, opener, early)


def _line(inner: Transport, timeout_s: float) -> tuple[bytes, bytes]:
    """Return a line without its end, and what came after it; at the end, an unfinished line."""
    data = b""
    deadline = time.monotonic() + timeout_s
    try:
        while b"\n" not in data and len(data) <= _LINE_MAX and time.monotonic() < deadline:
            data += inner.read(max(deadline - time.monotonic(), 0.0))
    except LinkError:
        if not data:
            raise
    line, _, rest = data.partition(b"\n")
    return line, rest


def _shown(line: bytes) -> str:
    text = line[:40].rstrip(b"\r").decode("latin-1")
    return repr(text) if text.isascii() and text.isprintable() else line[:16].hex(" ")


def _field(line: bytes, size: int) -> bytes | None:
    """Return the bytes of a line's only field. None if it is not such a line."""
    found = re.fullmatch(re.escape(GREETING) + rb"([0-9a-f]{%d})" % (2 * size), line)
    return bytes.fromhex(found[1].decode()) if found else None


# -- without a key ----------------------------------------------------------------------------


class UnkeyedTransport(WrappedTransport):
    """A line that raises AuthenticationError if the agent asks for a key, or refuses this user."""

    def __init__(self, inner: Transport) -> None:
        """Wrap a line; its first bytes tell."""
        super().__init__(inner)
        self.write: Callable[[bytes, float], None] = inner.write
        self.read: Callable[[float], bytes] = self._first_read
        self._seen = b""

    def _first_read(self, timeout_s: float) -> bytes:
        data = self._inner.read(timeout_s)
        self._seen += data
        if self._seen.startswith(GREETING):
            raise AuthenticationError(
                f"The agent at {self.name} asks for a key.",
                hint=f"give {option('--key-file')} PATH, or set {KEY_VARIABLE} in the environment",
            )
        if self._seen.startswith(REFUSAL):
            raise AuthenticationError(
                f"The agent at {self.name} belongs to another user of this machine and has no key.",
                hint=f"start the agent with a key, and give it here, too ({option('--key-file')}, "
                f"{KEY_VARIABLE}); or use an agent of your own",
            )
        if not GREETING.startswith(self._seen) and not REFUSAL.startswith(self._seen):
            self.read = self._inner.read  # from now on nothing stands in the way
        return data
