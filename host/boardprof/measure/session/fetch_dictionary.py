# SPDX-License-Identifier: Apache-2.0
"""A board's dictionary, from the board or from the cache.

The board answers entry by entry. The dictionary's hash is the CRC-32 over all answers, so the host
keeps them and does not ask again until the hash changes (SPEC.md 5.1).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgpack

from boardprof.base.errors import BoardTimeoutError, FrameError
from boardprof.wire.decode.dictionary import MOST_BYTES, Dictionary, parse_dictionary
from boardprof.wire.link.session import Session
from boardprof_protocol.codes import BuiltIn

_SECTIONS = 4
_WHOLE_S = 60.0
"""Longest time of all answers together; enough for some hundred functions at 9,600 baud."""


def fetch_dictionary(session: Session, cache: Path | None) -> Dictionary:
    """Ask the board, or take the stored dictionary of a board with the same build and hash."""
    welcome = session.welcome
    assert welcome is not None, "the session is open"
    name = f"{welcome.build_id.hex()}-{welcome.dictionary_hash:08x}.msgpack"
    kept = None if cache is None else cache / name
    if kept is not None:
        with contextlib.suppress(OSError):
            with kept.open("rb") as file:
                stored = file.read(MOST_BYTES + 1)  # a longer file is not a dictionary
            if zlib.crc32(stored) == welcome.dictionary_hash:
                return parse_dictionary(stored)
    stored = b"".join(_ask(session))
    if zlib.crc32(stored) != welcome.dictionary_hash:
        raise FrameError(
            f"The dictionary of {session.transport.name} does not match its hash: it is "
            f"{zlib.crc32(stored):#010x}, WELCOME said {welcome.dictionary_hash:#010x}.",
            hint="connect again",
        )
    if kept is not None:
        # If the cache cannot be written, the next session only takes longer.
        with contextlib.suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            temporary = kept.with_suffix(f".{os.getpid()}")
            temporary.write_bytes(stored)
            temporary.replace(kept)
    return parse_dictionary(stored)


def _ask(session: Session) -> Iterator[bytes]:
    """Yield the board's answers, up to a limit: a device without an agent may never end."""
    whole_s = max(_WHOLE_S, session.timeout_s)
    end_s = time.monotonic() + whole_s
    size = 0

    def check(*_: object) -> None:
        if size > MOST_BYTES:
            raise FrameError(
                f"The dictionary of {session.transport.name} is too long: more than "
                f"{MOST_BYTES:,} bytes.",
                hint="is it a boardprof agent?",
            )
        if time.monotonic() > end_s:
            raise BoardTimeoutError(
                f"The board at {session.transport.name} did not send its dictionary within "
                f"{whole_s:g} s: {size:,} bytes arrived.",
                hint="test the line with boardprof doctor --link, or raise the timeout",
            )

    for section in range(_SECTIONS):
        for index in itertools.count():
            arguments = bytes(msgpack.packb(section)) + bytes(msgpack.packb(index))
            result = session.call(
                BuiltIn.DESCRIBE, arguments, 2, name="bp.describe", on_progress=check
            )
            size += len(result.body)
            check()
            yield result.body
            if result.value is None:
                break
