# SPDX-License-Identifier: Apache-2.0
"""Frames: ``00 | COBS(version+kind, session, sequence, body, CRC-32) | 00`` (SPEC.md 2).

Pure functions and one small decoder that is fed bytes; no input or output here.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from boardprof_protocol.codes import PROTOCOL_VERSION, FrameKind

__all__ = ["HEADER_SIZE", "OVERHEAD", "BadFrame", "Cobs", "Frame", "FrameDecoder", "body_capacity"]
__all__ += ["cobs_decode", "cobs_encode", "decode_frame", "encode_frame"]

_HEADER = struct.Struct("<BHI")
_CRC = struct.Struct("<I")
HEADER_SIZE = _HEADER.size
"""Bytes before the body: version and kind, session id, sequence number."""

OVERHEAD = HEADER_SIZE + _CRC.size
"""Bytes of a decoded frame that are not its body."""

_LONGEST = 1 << 16
"""No encoded frame is longer, in bytes: an MTU has 16 bits."""

_FULL = 254
"""Bytes in a full COBS group, whose code is 255; no zero follows it."""

_ZEROS = re.compile(b"\0+")
_EMPTY_GROUPS = re.compile(b"\1+")


class BadFrame(ValueError):
    """Bytes between two delimiters that are not a frame."""


class Frame(NamedTuple):
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
        end = data.find(0, start, start + _FULL)
        if end < 0:
            end = min(start + _FULL, len(data))
        out.append(end - start + 1)
        out += data[start:end]
        if end > last:
            return bytes(out)
        if end - start == _FULL:
            start = end
            continue
        start = end + 1
        if zeros := _ZEROS.match(data, start):  # each further zero is an empty group
            out += b"\1" * (zeros.end() - start)
            start = zeros.end()


def cobs_decode(encoded: bytes) -> bytes:
    """Undo `cobs_encode`.

    Raises:
        BadFrame: a zero byte inside, or a group that is longer than what is left.
    """
    if 0 in encoded:
        raise BadFrame("not COBS")
    out = bytearray()
    length = len(encoded)
    position = 0
    while position < length:
        code = encoded[position]
        out += encoded[position + 1 : position + code]
        position += code
        if code <= _FULL and position < length:
            out.append(0)
            if empty := _EMPTY_GROUPS.match(encoded, position):
                # The last of them may be the frame's last group, which adds no zero.
                position = min(empty.end(), length - 1)
                out += bytes(position - empty.start())
    if position != length:
        raise BadFrame("not COBS")
    return bytes(out)


class Cobs(NamedTuple):
    """COBS both ways: this module's own functions, or faster ones for long frames."""

    encode: Callable[[bytes], bytes] = cobs_encode
    decode: Callable[[bytes], bytes] = cobs_decode


_OWN = Cobs()


def encode_frame(frame: Frame, cobs: Cobs = _OWN) -> bytes:
    """Encode ``frame`` with both delimiters."""
    kind, session, sequence, body, version = frame
    raw = _HEADER.pack(version << 4 | kind, session, sequence) + body
    return b"\0" + cobs.encode(raw + _CRC.pack(crc32(raw))) + b"\0"


def decode_frame(encoded: bytes, cobs: Cobs = _OWN) -> Frame:
    """Decode the bytes between two delimiters.

    Raises:
        BadFrame: not COBS, too short, or a wrong CRC.
    """
    raw = cobs.decode(encoded)
    if len(raw) < OVERHEAD:
        raise BadFrame("too short")
    # The CRC-32 over bytes and their own CRC is a constant, so nothing is cut off to compare.
    if crc32(raw) != _RESIDUE:
        raise BadFrame("wrong CRC")
    first, session, sequence = _HEADER.unpack_from(raw)
    return Frame(first & 15, session, sequence, raw[HEADER_SIZE : -_CRC.size], first >> 4)


_RESIDUE = 0x2144DF1C
"""CRC-32 of any bytes followed by their own CRC-32, little-endian."""


_REFUSED = 8


class FrameDecoder:
    """Splits a byte stream into frames and console text.

    Bytes between two delimiters that are not a frame are console text: a board's ``printf`` and its
    frames share one line.

    Attributes:
        cobs: decodes frames; may be replaced at any time.
        refused: the last bytes between two delimiters that are not a frame, a few of them.
    """

    def __init__(self, cobs: Cobs = _OWN) -> None:
        """Start with nothing received."""
        self.cobs = cobs
        self.refused: deque[bytes] = deque(maxlen=_REFUSED)
        self._pending = b""  # since the last delimiter
        self._console = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take received bytes and return the frames that they complete, in order."""
        pieces = (self._pending + data).split(b"\0")
        self._pending = pieces.pop()
        frames = []
        for piece in pieces:
            if piece:
                try:
                    frames.append(decode_frame(piece, self.cobs))
                except BadFrame:
                    self._console += piece
                    self.refused.append(piece)
        if len(self._pending) > _LONGEST:  # longer than any frame
            self._console += self._pending
            self._pending = b""
        return frames

    @property
    def has_text(self) -> bool:
        """Whether there may be console text: false right after a frame."""
        return bool(self._console or self._pending)

    def take_console(self, *, everything: bool = False, lines: bool = False) -> bytes:
        """Return and forget console bytes.

        Args:
            everything: include the bytes after the last delimiter, which may be a frame that is
                still on its way. Right when nothing more is expected.
            lines: include the whole lines after the last delimiter, if what they begin with cannot
                be a frame of this version or a WELCOME: a board that prints need send no delimiter.
        """
        text = bytes(self._console)
        self._console.clear()
        end = len(self._pending) if everything else 0
        if lines and self._cannot_be_a_frame():
            end = max(end, 1 + self._pending.rfind(b"\n"))
        if end:
            text += self._pending[:end]
            self._pending = self._pending[end:]
        return text

    def _cannot_be_a_frame(self) -> bool:
        """Tell whether what has come since the last delimiter is text for sure.

        A frame's first byte is never 0, so it follows the first COBS code unchanged.
        """
        if len(self._pending) < 2:
            return False
        first = self._pending[1]
        return first >> 4 != PROTOCOL_VERSION and first & 15 != FrameKind.WELCOME
