# SPDX-License-Identifier: Apache-2.0
"""Frames: ``00 | COBS(version+kind, session, sequence, body, CRC-32) | 00`` (SPEC.md 2).

Pure functions and one small decoder that is fed bytes; no input or output here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from boardprof_protocol.codes import PROTOCOL_VERSION

__all__ = ["HEADER_SIZE", "OVERHEAD", "BadFrame", "Frame", "FrameDecoder", "body_capacity"]
__all__ += ["cobs_decode", "cobs_encode", "decode_frame", "encode_frame"]

_HEADER = struct.Struct("<BHI")
_CRC = struct.Struct("<I")
HEADER_SIZE = _HEADER.size
"""Bytes before the body: version and kind, session id, sequence number."""

OVERHEAD = HEADER_SIZE + _CRC.size
"""Bytes of a decoded frame that are not its body."""


_LONGEST = 1 << 16
"""No encoded frame is longer, in bytes: an MTU has 16 bits."""


class BadFrame(ValueError):
    """Bytes between two delimiters that are no frame."""


@dataclass(frozen=True)
class Frame:
    """One decoded frame.

    Attributes:
        kind: a `FrameKind`, or a number that a later version may define (0..15).
        session: 16-bit session id, 0 where there is none.
        sequence: 32-bit sequence number.
        body: the bytes between header and CRC.
        version: protocol version of the sender.
    """

    kind: int
    session: int
    sequence: int
    body: bytes = b""
    version: int = PROTOCOL_VERSION


def body_capacity(mtu: int) -> int:
    """Longest body that fits an encoded frame of ``mtu`` bytes, delimiters included."""
    encoded = mtu - 2
    return encoded - (encoded + 254) // 255 - OVERHEAD


def cobs_encode(data: bytes) -> bytes:
    """Encode ``data`` (len >= 0) without zero bytes; Cheshire and Baker, canonical form."""
    out = bytearray()
    last = len(data) - 1
    start = 0
    while True:
        end = data.find(0, start, start + 254)
        if end < 0:
            end = min(start + 254, len(data))
        out.append(end - start + 1)
        out += data[start:end]
        if end > last:
            return bytes(out)
        start = end if end - start == 254 else end + 1


def cobs_decode(encoded: bytes) -> bytes:
    """Undo `cobs_encode`.

    Raises:
        BadFrame: a zero byte inside, or a group that is longer than what is left.
    """
    out = bytearray()
    position = 0
    length = len(encoded)
    while position < length:
        code = encoded[position]
        group = encoded[position + 1 : position + code]
        if code == 0 or len(group) != code - 1 or 0 in group:
            raise BadFrame("not COBS")
        out += group
        position += code
        if code < 255 and position < length:
            out.append(0)
    return bytes(out)


def encode_frame(frame: Frame) -> bytes:
    """Encode ``frame`` with both delimiters."""
    first = frame.version << 4 | frame.kind
    raw = _HEADER.pack(first, frame.session, frame.sequence) + frame.body
    return b"\0" + cobs_encode(raw + _CRC.pack(zlib.crc32(raw))) + b"\0"


def decode_frame(encoded: bytes) -> Frame:
    """Decode what stood between two delimiters.

    Raises:
        BadFrame: not COBS, too short, or a wrong CRC.
    """
    raw = cobs_decode(encoded)
    if len(raw) < OVERHEAD:
        raise BadFrame("too short")
    payload = raw[: -_CRC.size]
    if zlib.crc32(payload) != _CRC.unpack(raw[-_CRC.size :])[0]:
        raise BadFrame("wrong CRC")
    first, session, sequence = _HEADER.unpack_from(payload)
    return Frame(first & 15, session, sequence, payload[HEADER_SIZE:], first >> 4)


class FrameDecoder:
    """Splits a byte stream into frames and console text.

    Whatever stands between two delimiters and is no frame is console text: a board's ``printf``
    and its frames share one line.
    """

    def __init__(self) -> None:
        """Start with nothing received."""
        self._pending = bytearray()
        self._console = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take received bytes and yield each frame that they complete, in order."""
        *pieces, rest = data.split(b"\0")
        if pieces:
            pieces[0] = bytes(self._pending) + pieces[0]
            self._pending.clear()
        self._pending += rest
        if len(self._pending) > _LONGEST:  # whatever it is, no frame is as long
            self._console += self._pending
            self._pending.clear()
        for piece in filter(None, pieces):
            try:
                frame = decode_frame(piece)
            except BadFrame:
                self._console += piece
            else:
                yield frame

    def take_console(self, *, everything: bool = False) -> bytes:
        """Return and forget console bytes.

        Args:
            everything: include the bytes after the last delimiter, which may be a frame that is
                still on its way. Right when nothing more is expected.
        """
        text = bytes(self._console)
        self._console.clear()
        if everything:
            text += bytes(self._pending)
            self._pending.clear()
        return text
