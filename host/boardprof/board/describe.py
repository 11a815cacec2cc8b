# SPDX-License-Identifier: Apache-2.0
"""Asks a board what it offers, or takes what was kept of a board with the same build and hash.

The board answers entry by entry. Its dictionary hash is the CRC-32 over all answers, so the host
can keep them and ask no more until the hash changes (SPEC.md 5.1).
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgpack

from boardprof.decode.dictionary import Dictionary, parse_dictionary
from boardprof.errors import FrameError
from boardprof.link.session import Session, Welcome
from boardprof_protocol.codes import BuiltIn

__all__ = ["fetch_dictionary"]

_SECTIONS = 4
_MOST_ENTRIES = 1 << 16
"""Of a section; a board that never comes to an end is no board."""


def fetch_dictionary(session: Session, cache: Path | None) -> Dictionary:
    """Ask the board, or take what was kept of a board with the same build and hash.

    Args:
        session: open.
        cache: folder for kept dictionaries, or None.

    Raises:
        FrameError: what the board says contradicts its own hash, or is no dictionary.
    """
    welcome = session.welcome
    assert welcome is not None, "the session is open"
    kept = None if cache is None else cache / _file_name(welcome)
    if kept is not None:
        with contextlib.suppress(OSError):
            stored = kept.read_bytes()
            if zlib.crc32(stored) == welcome.dictionary_hash:
                return parse_dictionary(stored)
    stored = b"".join(_ask(session))
    if zlib.crc32(stored) != welcome.dictionary_hash:
        raise FrameError(
            f"The dictionary of {session.transport.name} does not match its hash: "
            f"{zlib.crc32(stored):#010x}, WELCOME said {welcome.dictionary_hash:#010x}.",
            hint="connect again",
        )
    if kept is not None:
        _keep(kept, stored)
    return parse_dictionary(stored)


def _file_name(welcome: Welcome) -> str:
    return f"{welcome.build_id.hex()}-{welcome.dictionary_hash:08x}.msgpack"


def _keep(path: Path, stored: bytes) -> None:
    # A cache that cannot be written costs time, nothing else.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(stored)
        temporary.replace(path)


def _ask(session: Session) -> Iterator[bytes]:
    for section in range(_SECTIONS):
        for index in range(_MOST_ENTRIES):
            arguments = bytes(msgpack.packb(section)) + bytes(msgpack.packb(index))
            result = session.call(BuiltIn.DESCRIBE, arguments, 2, name="bp.describe")
            yield result.body
            if result.value is None:
                break
        else:
            raise FrameError(f"The dictionary of {session.transport.name} has no end.")
